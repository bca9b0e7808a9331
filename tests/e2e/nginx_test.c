/* SPDX-License-Identifier: MIT */
/*
 * nginx_test.c - the module for nginx, as its users meet it: two nginx of two workers, a Redis, an origin that
 * behaves or does not (herd_server.h). Nothing sleeps: an answer of /slow waits at the origin until the test opens
 * its gate.
 */
#include "load/base/http.h"
#include "load/base/net.h"
#include "load/stack/proxy.h"
#include "load/stack/stack.h"
#include "tests/support/files.h"
#include "tests/support/herd_server.h"
#include "tests/support/sockets.h"
#include "tests/support/test.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

enum { INSTANCES = 2, CROWD = 500, ANSWER_BYTES = 8192 };
#define PURGED "{\"status\":\"ok\",\"dropped\":true}\n"

static struct stack_redis redis;
static struct herd_server server;
static struct rival nginx[INSTANCES];
static uint16_t proxied[INSTANCES], framed[INSTANCES]; /* further ports: PROXY protocol, HTTP/2 */
static char module_path[RIVAL_TEXT_BYTES];
static struct http_answer got; /* of the last get() */
static unsigned worker_connections = 2048;
static struct proxy *proxy; /* before Redis, for one test */
static uint16_t redis_port; /* or the proxy's */
static bool is_other;       /* nginx[1] is not as its first start left it */

/* Further locations: a string in C has a limit, too. */
static const char further[] =
    "    location /limited { limit_conn slots 1; limit_req zone=rate; root {folder}; error_page 404 = @few; "
    "}\n"
    "    location @few { limit_conn slots 1; limit_req zone=rate; rewrite ^ /ok break; "
    "proxy_pass http://herd; }\n"
    "    location /hiding { proxy_hide_header Cache-Control; proxy_hide_header Set-Cookie; "
    "proxy_hide_header Vary;\n"
    "      rewrite ^/hiding(.*)$ $1 break; proxy_pass http://origin; }\n"
    "    location /ignoring { proxy_hide_header Cache-Control; proxy_ignore_headers Cache-Control;\n"
    "      rewrite ^/ignoring(.*)$ $1 break; proxy_pass http://origin; }\n"
    "    location = /inside { internal; alias {folder}/nginx; }\n"
    "    location = /who { internal; stampede $uri; rewrite ^ /key/16 break; proxy_pass http://herd; }\n"
    "    location = /each { internal; rewrite ^ /key/39 break; proxy_pass http://herd; }\n"
    "    location = /ask/each { auth_request /each; proxy_pass http://herd/ok; }\n"
    "    location ~ ^/purged(/.*)$ { stampede_purge $1; }\n"
    "    location = /late/ { alias {folder}/; index nginx; }\n"
    "    location = /late/nginx { auth_basic x; auth_basic_user_file none; auth_delay 1ms; }\n";

static const char further_of_origin[] =
    "    location ~ ^/given/(.*)$ { add_header X-Accel-Redirect /inside; add_header Cache-Control $1;\n"
    "      add_header Vary Cookie; return 200; }\n"
    "    location /headed/most { set $h 01234567; set $h $h$h$h$h$h$h$h$h$h$h; set $h $h$h$h$h$h$h$h$h$h$h;\n"
    "      add_header X-Long $h$h$h; add_header Vary Accept-Language; return 200; }\n"
    "    location /headed/cookie { set $h 01234567; set $h $h$h$h$h$h$h$h$h$h$h; set $h "
    "$h$h$h$h$h$h$h$h$h$h;\n"
    "      set $h a=$h$h$h$h$h$h; if ($http_cookie) { set $h ''; } add_header Set-Cookie $h; return 200; }\n";

static const char configuration[] =
    "load_module %s;\n"
    "daemon off;\nworker_processes 2;\npid nginx.pid;\nerror_log errors %s;\n%s\n"
    "events { worker_connections %u; }\n"
    "http {\n"
    "  log_format marks '$request_uri $status $stampede_status $stampede_age $stampede_load';\n"
    "  access_log marks marks;\n"
    "  client_body_temp_path a; proxy_temp_path b; fastcgi_temp_path c; uwsgi_temp_path d; scgi_temp_path "
    "e;\n"
    "  stampede_redis redis://127.0.0.1:%u/0; stampede_namespace shop; stampede_near 16m 60s;\n"
    "  stampede_fresh 60s; stampede_stale 1h; stampede_absent 10s; stampede_load_limit 5s;\n"
    "  stampede_failure 1m; stampede_outage 1m; proxy_buffer_size 16k; proxy_buffers 8 16k;\n"
    "  proxy_cache_path {folder}/cached keys_zone=z:1m;\n" /* its manager is a process of nginx, too */
    "  limit_conn_zone $server_port zone=slots:1m; limit_req_zone $server_port zone=rate:1m rate=1r/m;\n"
    "  upstream herd { server 127.0.0.1:%u; }\n"
    "  upstream origin { server unix:{folder}/origin; }\n"
    "  server { listen 127.0.0.1:{port} backlog=1024;\n"
    "    stampede $uri$is_args$args; stampede_tags $upstream_http_cache_tag;\n"
    "    stampede_bypass $cookie_session; gzip on; gzip_min_length 1; gzip_types text/plain;\n"
    "    location / { proxy_pass http://origin; }\n"
    "    location /slow { stampede $request_uri; stampede_tags blue; rewrite ^ /gather break;\n"
    "      stampede_load_limit 60s; proxy_set_header X-Worker $pid; proxy_pass http://herd; }\n"
    "    location /dead { proxy_pass http://127.0.0.1:1; }\n"
    "    location ~ ^/(hang|stall)$ { stampede_load_limit 300ms; proxy_pass http://herd; }\n"
    "    location = /itself { aio threads; alias {folder}/nginx; }\n"
    "    location /piped { stampede $request_uri; proxy_buffering off; rewrite ^/piped(.*)$ $1 break; "
    "proxy_pass http://origin; }\n"
    "    location /asked { set $x $http_if_none_match; rewrite ^ /key/30 break;\n"
    "      proxy_set_header X-Asked [$http_if_none_match]; proxy_pass http://herd; }\n"
    "    location /off { stampede off; proxy_pass http://herd/key; }\n"
    "    location = /let { auth_request /who; proxy_pass http://herd/ok; }\n"
    "    location = /parts { default_type text/html; ssi on; return 200\n"
    "      '<!--# include virtual=\"/key/15\" --> and <!--# include virtual=\"/key/15\" -->'; }\n"
    "    location = /ping { return 200 pong; }\n"
    "    location = /purge { stampede_purge $arg_key $arg_tag; }\n"
    "    location = /a { root {folder}; error_page 500 502 503 504 /50x.html; }\n"
    "    location /fall { proxy_pass http://herd/status/404; proxy_intercept_errors on;\n"
    "      error_page 404 = @fallback; }\n"
    "    location /sorry { proxy_pass http://127.0.0.1:1; error_page 502 = @fallback; }\n"
    "    location @fallback { rewrite ^ /ok break; proxy_pass http://herd; }\n"
    "    location /once { stampede_bypass 1; proxy_pass http://herd/status/404; proxy_intercept_errors on;\n"
    "      error_page 404 = @fallback; }\n"
    "    location /lasting { expires 1h; rewrite ^/lasting(.*)$ $1 break; proxy_pass http://origin; }\n"
    "    location = /metrics { stampede_metrics; }\n%s  }\n"
    "  server { listen %u sndbuf=32k proxy_protocol; listen 127.0.0.1:%u http2; stampede $request_uri;\n"
    "    allow 127.0.0.0/8; deny all; set_real_ip_from 127.0.0.1; real_ip_header proxy_protocol;\n"
    "    proxy_set_header X-At '$server_addr:$server_port $proxy_protocol_addr $realip_remote_addr';\n"
    "    location / { proxy_pass http://herd; } }\n"
    "  server { listen unix:{folder}/origin;\n"
    "    location ~ ^/said/([^/]+)(/.*)$ { add_header Cache-Control $1; proxy_pass http://herd$2; }\n"
    "%s"
    "    location ~ ^/cookie(/.*)$ { add_header Set-Cookie a=b; proxy_pass http://herd$1; }\n"
    "    location ~ ^/visitor(/.*)$ { set $c a=b; if ($http_cookie) { set $c ''; }\n"
    "      add_header Set-Cookie $c; proxy_pass http://herd$1; }\n"
    "    location ~ ^/vary(/.*)$ { add_header Vary Accept-Language; proxy_set_header Accept-Language ''; "
    "proxy_pass http://herd$1; }\n"
    "    location ~ ^/tagged/([^/]+)(/.*)$ { add_header Cache-Tag $1; proxy_pass http://herd$2; }\n"
    "    location ~ ^/file/(.*)$ { add_header ETag '\"v1\"'; return 200 0123456789; }\n"
    "    location /headed { set $h %064d; add_header X-Long %s; return 200 headed; }\n"
    "    location / { proxy_pass http://herd; } } }\n";

/* `under`: how it is started; NULL: as it is. */
static bool nginx_up_under(size_t i, const char *level, const char *more, const char *const *under)
{
    char text[RIVAL_FILE_BYTES];
    char longer[2 * 70 + 1] = ""; /* more than an entry has room for */
    while (strlen(longer) < sizeof longer - 1)
        strcat(longer, "$h");
    proxied[i] = net_free_port();
    framed[i] = net_free_port();
    int bytes = snprintf(text, sizeof text, configuration, module_path, level, more, worker_connections,
                         (unsigned)redis_port, (unsigned)server.ports[HERD_SERVER_HTTP], further,
                         (unsigned)proxied[i], (unsigned)framed[i], further_of_origin, 0, longer);
    const char *preload = getenv("NGINX_PRELOAD"); /* nginx itself has no sanitizer */
    if (preload != NULL && *preload != '\0')
        setenv("LD_PRELOAD", preload, 1);
    bool is_up = bytes < (int)sizeof text &&
                 (under != NULL ? rival_start(&nginx[i], &(struct rival_plan){.name = "nginx",
                                                                              .arguments = under,
                                                                              .file_text = text,
                                                                              .user = proc_plain_user()})
                                : nginx_start_as(&nginx[i], text, NULL));
    unsetenv("LD_PRELOAD");
    return is_up;
}

static bool nginx_up(size_t i)
{
    return nginx_up_under(i, "notice", "", NULL);
}

/* Until the next test begins. */
static void other_up(const char *level, const char *more, const char *const *under)
{
    rival_stop(&nginx[1]);
    is_other = true;
    assert_true(nginx_up_under(1, level, more, under));
}

/* For a sanitizer: nginx frees neither its connections nor what its regular expressions are compiled with. */
static void know_leaks(const char *folder)
{
    char path[PROC_PATH_BYTES + 16], options[PROC_PATH_BYTES + 64];
    snprintf(path, sizeof path, "%s/leaks", folder);
    file_write(path, "leak:ngx_alloc\n");
    snprintf(options, sizeof options, "suppressions=%s:print_suppressions=0", path);
    setenv("LSAN_OPTIONS", options, 0);
}

static bool servers_up(void)
{
    const char *built = getenv("NGINX_MODULE");
    char folder[PROC_PATH_BYTES];
    if (built == NULL || access(built, R_OK) != 0)
        return true; /* each test says so */
    if (!nginx_module(module_path) || !proc_folder("leaks", proc_plain_user(), folder) ||
        !stack_redis_start(&redis, NULL) || !herd_server_start(&server))
        return false;
    know_leaks(folder);
    redis_port = redis.port;
    return nginx_up(0) && nginx_up(1);
}

/* Yours: free(). */
static char *text_of(size_t i, const char *file)
{
    char path[PROC_PATH_BYTES + 16];
    snprintf(path, sizeof path, "%s/%s", nginx[i].folder, file);
    return file_read(path, NULL);
}

static size_t times_in(size_t i, const char *file, const char *words)
{
    char *text = text_of(i, file);
    const size_t count = text_times(text, words);
    free(text);
    return count;
}

static size_t times_said(size_t i, const char *words)
{
    return times_in(i, "errors", words);
}

static bool has_said(size_t i, const char *words)
{
    return times_said(i, words) > 0;
}

static bool has_logged(size_t i, const char *words)
{
    return times_in(i, "marks", words) > 0;
}

/* No worker has ended but by a test, and none has left a socket open or leaked. */
static bool is_sound(size_t i)
{
    return times_said(i, "[alert]") == times_said(i, "exited on signal 9") && !has_said(i, "[emerg]") &&
           times_said(i, "exited with code") == times_said(i, "exited with code 0");
}

static void other_ends(void)
{
    int status;
    is_other = true;
    assert_true(proc_wait(nginx[1].pid, TEST_LIMIT_MS, &status));
    assert_int_equal(status, 0);
    assert_true(is_sound(1));
}

static bool servers_down(void)
{
    if (module_path[0] == '\0')
        return true;
    bool all_sound = is_sound(0) && is_sound(1);
    for (size_t i = 0; i < INSTANCES; i++)
        rival_stop(&nginx[i]);
    if (server.pid != 0)
        herd_server_stop(&server);
    stack_redis_stop(&redis);
    http_answer_clear(&got);
    return all_sound;
}

/* Keys are of one test each, so the cache need not be emptied. */
static bool fresh_test(void)
{
    if (module_path[0] == '\0')
        return true;
    herd_server_forget(&server);
    atomic_store(&server.seen->gather_target, 1000);
    worker_connections = 2048;
    redis_port = redis.port;
    if (!is_other)
        return is_sound(0) && is_sound(1);
    rival_stop(&nginx[1]);
    proxy_close(&proxy);
    is_other = false;
    return is_sound(0) && nginx_up(1);
}

/* ---- asking ---- */

static void need_module(void)
{
    if (module_path[0] == '\0')
        test_skip("the module is not built: nginx-dev is not there");
}

static unsigned loads(void)
{
    return atomic_load(&server.seen->requests[HERD_SERVER_HTTP]);
}

static const char *ask(uint16_t port, const char *path, const char *method, const char *headers)
{
    need_module();
    const struct http_request request = {.host = "127.0.0.1",
                                         .port = port,
                                         .method = method,
                                         .path = path,
                                         .headers = headers,
                                         .deadline_ms = TEST_LIMIT_MS};
    http_answer_clear(&got);
    if (!http_ask(&request, &got))
        fail_msg("%s: no answer", path);
    return got.body;
}

static const char *get(size_t i, const char *path)
{
    return ask(nginx[i].port, path, NULL, NULL);
}

static void expect(size_t i, const char *path, unsigned status, const char *body)
{
    get(i, path);
    assert_int_equal(got.status, status);
    if (body != NULL)
        assert_string_equal(got.body, body);
}

static bool says(const char *name, const char *part)
{
    char value[256];
    return strstr(http_header(&got, name, value, sizeof value), part) != NULL && value[0] != '\0';
}

static size_t times_in_head(const char *words)
{
    return text_times(got.head, words);
}

enum { BOTH = INSTANCES }; /* one after the other */

struct row {
    size_t at; /* which nginx */
    const char *path, *method, *headers;
    unsigned status;
    const char *body;          /* NULL: any */
    const char *said, *unsaid; /* in its head; of both in the second one's */
    unsigned loads;            /* requests at the origin, of the test so far */
};

static void expect_row(const struct row *row)
{
    for (size_t i = row->at % INSTANCES; i < INSTANCES && (row->at == BOTH || i == row->at); i++) {
        ask(nginx[i].port, row->path, row->method, row->headers);
        if (got.status != row->status || (row->body != NULL && strcmp(got.body, row->body) != 0))
            fail_msg("%s: %s%s", row->path, got.head, got.body);
    }
    if ((row->said != NULL && times_in_head(row->said) == 0) || times_in_head("Cache-Status") > 1 ||
        (row->unsaid != NULL && times_in_head(row->unsaid) > 0) || loads() != row->loads)
        fail_msg("%s: %u loads, %s", row->path, loads(), got.head);
}

static void expect_rows(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        expect_row(&rows[i]);
}
#define EXPECT_ROWS(rows) expect_rows(rows, sizeof(rows) / sizeof *(rows))

/* All that wait at the origin are answered, and whoever comes later. */
static void open_gate(void)
{
    atomic_store(&server.seen->gather_target, 1);
    ask(server.ports[HERD_SERVER_HTTP_TOO], "/gather", NULL, NULL);
}

/* ---- a crowd ---- */

static int crowd[CROWD];

/* A connection whose answer is not read yet. */
static int client_asks(size_t instance, const char *path)
{
    char request[128];
    need_module();
    snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path);
    const int fd = socket_connect(nginx[instance].port, 0);
    socket_say(fd, request);
    return fd;
}

static void crowd_asks(size_t count, const char *path)
{
    for (size_t i = 0; i < count; i++)
        crowd[i] = client_asks(i % INSTANCES, path);
}

/* How many of them got 200; each is answered, or its connection ended, in time. */
static size_t crowd_answered(size_t count)
{
    size_t good = 0;
    for (size_t i = 0; i < count; i++) {
        char text[ANSWER_BYTES] = "";
        struct pollfd ready = {.fd = crowd[i], .events = POLLIN};
        assert_int_equal(poll(&ready, 1, TEST_LIMIT_MS), 1);
        good += recv(crowd[i], text, sizeof text - 1, 0) > 0 && strncmp(text, "HTTP/1.1 200", 12) == 0;
        close(crowd[i]);
    }
    return good;
}

static unsigned waiters(size_t i)
{
    static const char name[] = "\nguard_waiters{";
    unsigned sum = 0;
    for (const char *at = get(i, "/metrics"); (at = strstr(at, name)) != NULL; at++)
        sum += (unsigned)atoi(strstr(at, "} ") + 2);
    return sum;
}

static bool all_wait(size_t count)
{
    return waiters(0) + waiters(1) == count;
}

/* Of a worker that is neither new nor ending. */
static size_t workers_of(size_t i, pid_t *pids)
{
    pid_t all[16];
    size_t count = proc_family(nginx[i].pid, all, 16);
    for (size_t at = 1; at < count; at++)
        pids[at - 1] = all[at];
    return count > 0 ? count - 1 : 0;
}

/* ---- one load ---- */

TEST(a_cold_burst_over_two_nginx_of_two_workers_is_one_load, P13, P30)
{
    crowd_asks(CROWD, "/slow/burst");
    WAIT_UNTIL(all_wait(CROWD));
    const uint64_t opened_ms = test_now_ms();
    open_gate();
    assert_int_equal(crowd_answered(CROWD), CROWD);
    assert_in_range(test_now_ms() - opened_ms, 0, TEST_LIMIT_MS / 20); /* 50 ms where nothing else runs */
    assert_int_equal(loads(), 1);
    expect(0, "/slow/burst", 200, "xxx");
    assert_true(says("Cache-Status", "stampede; hit"));
    assert_int_equal(loads(), 1);
}

TEST(a_client_that_leaves_does_not_end_the_load_that_it_began, P14)
{
    const int leaver = client_asks(0, "/slow/left");
    WAIT_UNTIL(loads() == 1);
    close(leaver);
    WAIT_UNTIL(waiters(0) == 0);
    crowd_asks(20, "/slow/left");
    WAIT_UNTIL(all_wait(20));
    open_gate();
    assert_int_equal(crowd_answered(20), 20);
    assert_int_equal(loads(), 1);
}

/* The one that asks the origin for /slow, as it has said. */
static pid_t loader(void)
{
    static const char name[] = "\r\nX-Worker: ";
    const char *worker = strstr(server.seen->last_request, name);
    assert_non_null(worker);
    return (pid_t)atoi(worker + strlen(name));
}

/* Those whose connection has ended without an answer. */
static size_t crowd_left(size_t count)
{
    size_t left = 0;
    char byte;
    for (size_t i = 0; i < count; i++)
        left += recv(crowd[i], &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0 || errno == ECONNRESET;
    return left;
}

TEST(a_load_whose_worker_is_killed_is_made_once_more, P10)
{
    const int leader = client_asks(0, "/slow/killed");
    WAIT_UNTIL(loads() == 1);
    crowd_asks(20, "/slow/killed");
    WAIT_UNTIL(all_wait(21));
    kill(loader(), SIGKILL);
    WAIT_UNTIL(loads() == 2);
    const size_t left = crowd_left(20); /* were its clients */
    open_gate();
    assert_in_range(left, 0, 10);
    assert_int_equal(crowd_answered(20), 20 - left);
    close(leader);
    assert_int_equal(loads(), 2);
}

static bool have_ended(const pid_t *pids, size_t count)
{
    size_t ended = 0;
    while (ended < count && kill(pids[ended], 0) != 0)
        ended++;
    return ended == count;
}

/* Old workers take connections until they hear of the reload: the next test begins without them. */
TEST(reload_and_quit_in_the_middle_of_a_load_lose_nobody)
{
    pid_t old[16];
    crowd_asks(40, "/slow/quit");
    WAIT_UNTIL(all_wait(40));
    const size_t old_count = workers_of(0, old);
    kill(nginx[0].pid, SIGHUP);
    kill(nginx[1].pid, SIGQUIT);
    WAIT_UNTIL(has_said(1, "gracefully shutting down"));
    open_gate();
    assert_int_equal(crowd_answered(40), 40);
    assert_int_equal(loads(), 1);
    other_ends();
    WAIT_UNTIL(have_ended(old, old_count));
}

TEST(a_worker_that_is_not_given_the_time_leaves_its_load_to_others, P10)
{
    need_module();
    other_up("notice", "worker_shutdown_timeout 100ms;", NULL);
    const int leader = client_asks(1, "/slow/given");
    WAIT_UNTIL(loads() == 1);
    for (size_t i = 0; i < 2; i++)
        crowd[i] = client_asks(0, "/slow/given");
    WAIT_UNTIL(all_wait(3));
    kill(nginx[1].pid, SIGQUIT);
    WAIT_UNTIL(loads() == 2);
    open_gate();
    assert_int_equal(crowd_answered(2), 2);
    other_ends();
    close(leader);
}

TEST(nginxs_other_processes_have_no_guard)
{
    pid_t pids[16];
    size_t guards = 0, all = 0;
    need_module();
    WAIT_UNTIL((all = workers_of(0, pids)) <= 4); /* those of before a reload have ended */
    assert_in_range(all, 3, 4); /* two workers, the manager of a cache; for a while its loader */
    for (size_t i = 0; i < all; i++) {
        char path[64];
        snprintf(path, sizeof path, "ls /proc/%d/task | wc -l", (int)pids[i]);
        guards += proc_output(path, path, sizeof path) && atoi(path) > 1;
    }
    assert_int_equal(guards, 2);
}

/* ---- clients that are slow, and other protocols ---- */

static void read_all(int fd, char *to, size_t bytes)
{
    for (size_t got_bytes = 0; got_bytes < bytes;) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        assert_int_equal(poll(&ready, 1, TEST_LIMIT_MS), 1);
        const ssize_t count = recv(fd, to + got_bytes, bytes - got_bytes, 0);
        assert_true(count > 0);
        got_bytes += (size_t)count;
    }
}

static int ask_proxied(size_t i, const char *path, int receive_bytes)
{
    need_module();
    char request[256];
    snprintf(request, sizeof request,
             "PROXY TCP4 127.0.0.9 127.0.0.1 9 9\r\nGET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
             path);
    const int fd = socket_connect(proxied[i], receive_bytes);
    socket_say(fd, request);
    return fd;
}

TEST(a_reader_that_is_slower_than_its_page_gets_all_of_it)
{
    static char page[900000];
    for (size_t i = 0; i < 3; i++) {
        const int fd = ask_proxied(i % INSTANCES, "/bytes/900000", 4096);
        read_all(fd, page, sizeof page);
        close(fd);
    }
    assert_int_equal(loads(), 1);
}

/* Frames, until so many bytes of the page are there. */
static void read_frames(int fd, size_t bytes)
{
    char payload[16384];
    unsigned char head[9];
    for (size_t got_bytes = 0; got_bytes < bytes;) {
        read_all(fd, (char *)head, sizeof head);
        const size_t length = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
        assert_in_range(length, 0, sizeof payload);
        read_all(fd, payload, length);
        got_bytes += head[3] == 0 ? length : 0; /* DATA */
    }
}

TEST(a_page_beyond_the_window_of_http_2_goes_on_when_it_opens)
{
    enum { WINDOW = 65535 };
    static const char request[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
                                  "\0\0\0\4\0\0\0\0\0"                                    /* SETTINGS */
                                  "\0\0\x14\1\5\0\0\0\1\x82\x86\4\x0d/bytes/900001\1\1x"; /* HEADERS */
    static const char opens[] = "\0\0\4\x08\0\0\0\0\0\x10\0\0\0"  /* WINDOW_UPDATE: of the connection, */
                                "\0\0\4\x08\0\0\0\0\1\x10\0\0\0"; /* of the stream */
    need_module();
    for (size_t i = 0; i < 3; i++) {
        const int fd = socket_connect(framed[i % INSTANCES], 0);
        assert_int_equal(send(fd, request, sizeof request - 1, 0), sizeof request - 1);
        read_frames(fd, WINDOW);
        assert_int_equal(send(fd, opens, sizeof opens - 1, 0), sizeof opens - 1);
        read_frames(fd, 900001 - WINDOW);
        close(fd);
    }
    assert_int_equal(loads(), 1);
}

TEST(requests_that_are_sent_together_are_answered_in_order)
{
    static const char requests[] =
        "GET /key/31 HTTP/1.1\r\nHost: x\r\n\r\nGET /key/31 HTTP/1.1\r\nHost: x\r\n\r\n"
        "GET /key/32 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    struct http_raw raw;
    need_module();
    http_raw_ask("127.0.0.1", nginx[0].port, requests, sizeof requests - 1, TEST_LIMIT_MS, &raw);
    const char *first = strstr(raw.bytes, "{\"id\":31,");
    const char *second = first != NULL ? strstr(first + 1, "{\"id\":31,") : NULL;
    assert_true(second != NULL && strstr(second, "{\"id\":32,") != NULL);
    assert_int_equal(loads(), 2);
    http_raw_clear(&raw);
}

TEST(a_load_knows_the_addresses_of_the_connection_that_asked)
{
    char wanted[96], answer[12];
    const int fd = ask_proxied(0, "/key/25", 0);
    snprintf(wanted, sizeof wanted, "\r\nX-At: 127.0.0.1:%u 127.0.0.9 127.0.0.1\r\n", (unsigned)proxied[0]);
    read_all(fd, answer, sizeof answer);
    close(fd);
    assert_memory_equal(answer, "HTTP/1.1 200", sizeof answer);
    if (strstr(server.seen->last_request, wanted) == NULL)
        fail_msg("\"%s\" is not in: %s", wanted, server.seen->last_request);
}

/* ---- the origin decides ---- */

TEST(the_origin_decides_who_gets_its_answer)
{
    static const struct row rows[] = {
        {0, "/said/no-store/key/1", .status = 200, .unsaid = "stored", .loads = 1},
        {1, "/said/no-store/key/1", .status = 200, .unsaid = "stored", .loads = 2},
        {BOTH, "/said/private/key/2", .status = 200, .unsaid = "stored", .loads = 4},
        {BOTH, "/cookie/key/3", .status = 200, .said = "Set-Cookie: a=b", .unsaid = "stored", .loads = 6},
        {BOTH, "/status/404", .status = 404, .body = "told", .said = "stampede; hit", .loads = 7},
        {BOTH, "/status/500", .status = 502, .said = "Retry-After: ", .loads = 8},
        {0, "/dead/1", .status = 502, .loads = 8},
    };
    EXPECT_ROWS(rows);
}

TEST(what_nginx_hides_decides_too_unless_it_is_told_to_ignore_it)
{
    static const char one[] = "Accept-Language: de\r\nCookie: a=1\r\n", two[] = "Cookie: a=2\r\n";
    static const struct row rows[] = {
        {BOTH, "/hiding/said/private/key/35", .status = 200, .unsaid = "stored", .loads = 2},
        {BOTH, "/hiding/cookie/key/36", .status = 200, .unsaid = "stored", .loads = 4},
        {0, "/hiding/vary/key/37", .headers = one, .status = 200, .said = "stored", .loads = 5},
        {0, "/hiding/vary/key/37", .headers = two, .status = 200, .said = "stored", .loads = 6},
        {BOTH, "/ignoring/said/private/key/38", .status = 200, .said = "stampede; hit", .loads = 7},
        {BOTH, "/given/", .status = 200, .said = "fwd=miss", .unsaid = "stored", .loads = 7},
        {0, "/given/max-age=60", .headers = one, .status = 200, .said = "stored", .loads = 7},
        {1, "/given/max-age=60", .headers = one, .status = 200, .said = "; hit", .loads = 7},
        {1, "/given/max-age=60", .headers = two, .status = 200, .said = "stored", .loads = 7},
    };
    EXPECT_ROWS(rows);
}

TEST(what_an_answer_varies_by_joins_the_key)
{
    static const char de[] = "Accept-Language: de\r\n", en[] = "Accept-Language: en\r\n";
    static char longer[5000], long_ish[2030]; /* no key or no entry has room for it: its client's alone */
    snprintf(longer, sizeof longer, "Accept-Language: %04970d\r\n", 0);
    snprintf(long_ish, sizeof long_ish, "Accept-Language: %02000d\r\n", 0);
    const struct row rows[] = {
        {0, "/vary/key/4", .headers = de, .status = 200, .loads = 1},
        {0, "/vary/key/4", .headers = en, .status = 200, .loads = 2},
        {1, "/vary/key/4", .headers = de, .status = 200, .loads = 2},
        {1, "/vary/key/4", .headers = en, .status = 200, .said = "; hit", .loads = 2},
        {0, "/purge?key=/vary/key/4", .status = 200, .body = PURGED, .loads = 2},
        {0, "/vary/key/4", .headers = de, .status = 200, .loads = 3},
        {0, "/vary/key/4", .headers = en, .status = 200, .loads = 4},
        {0, "/vary/key/33", .headers = longer, .status = 200, .unsaid = "stored", .loads = 5},
        {0, "/vary/key/33", .headers = de, .status = 200, .said = "stored", .loads = 6},
        {1, "/vary/key/33", .headers = longer, .status = 200, .unsaid = "stored", .loads = 7},
        {1, "/vary/key/33", .headers = de, .status = 200, .said = "; hit", .loads = 7},
        {0, "/headed/most", .headers = long_ish, .status = 200, .said = "X-Long: 0", .unsaid = "stored",
         .loads = 7},
        {BOTH, "/headed/most", .headers = de, .status = 200, .said = "; hit", .loads = 7},
        {0, "/headed/most", .headers = long_ish, .status = 200, .said = "X-Long: 0", .unsaid = "stored",
         .loads = 7},
        {BOTH, "/headed/most", .headers = de, .status = 200, .said = "; hit", .loads = 7},
        /* a line feed in a key reaches no variant of another page */
        {0, "/vary/key/24%0Aaccept-language,%0Aaccept-language:de,%0A", .status = 404, .unsaid = "stampede",
         .loads = 8},
        {0, "/vary/key/24", .headers = en, .status = 200, .loads = 9},
        {0, "/vary/key/24", .headers = de, .status = 200, .loads = 10},
    };
    EXPECT_ROWS(rows);
    assert_false(has_said(0, "stampede: a key of")); /* a client could fill the log with it */
}

TEST(an_error_page_is_shared_and_one_that_was_not_needed_changes_nothing)
{
    static const struct row rows[] = {
        {BOTH, "/a", .status = 301, .said = "stampede; hit", .loads = 0},
        {0, "/fall/1", .status = 200, .body = "ok", .said = "fwd=miss", .unsaid = "stored", .loads = 2},
        {1, "/fall/1", .status = 200, .body = "ok", .said = "fwd=miss", .unsaid = "stored", .loads = 4},
        {BOTH, "/sorry/1", .status = 200, .body = "ok", .said = "fwd=miss", .unsaid = "stored", .loads = 6},
    };
    EXPECT_ROWS(rows);
}

TEST(limits_count_a_client_once_and_a_delay_ends)
{
    static const struct row rows[] = {
        {0, "/limited", .status = 200, .body = "ok", .said = "fwd=miss", .loads = 1},
        {BOTH, "/late/", .status = 401, .said = "fwd=miss", .unsaid = "stored", .loads = 1},
    };
    EXPECT_ROWS(rows);
}

TEST(what_a_request_says_decides_whether_it_asks)
{
    static const char authorization[] = "Authorization: Basic eDp5\r\n";
    static const struct row rows[] = {
        {0, "/key/20", .headers = authorization, .status = 200, .unsaid = "stampede", .loads = 1},
        {BOTH, "/key/20", .status = 200, .said = "stampede; hit", .loads = 2},
        {0, "/key/20", .headers = authorization, .status = 200, .said = "stampede; hit", .loads = 2},
        {0, "/key/20", .headers = "Cookie: session=1\r\n", .status = 200, .unsaid = "stampede", .loads = 3},
        {0, "/key/20", .method = "POST", .status = 200, .unsaid = "stampede", .loads = 4},
        {0, "/key/20", .headers = "Upgrade: x\r\n", .status = 200, .unsaid = "stampede", .loads = 5},
        {0, "/off/5", .status = 200, .unsaid = "stampede", .loads = 6},
        {0, "/once/1", .status = 200, .body = "ok", .unsaid = "stampede", .loads = 8}, /* redirected inside */
    };
    EXPECT_ROWS(rows);
    WAIT_UNTIL(has_logged(0, "/once/1 200 bypass "));
}

TEST(a_condition_of_the_client_is_none_of_the_load)
{
    ask(nginx[0].port, "/asked", NULL, "If-None-Match: \"v\"\r\n");
    assert_int_equal(got.status, 200);
    assert_non_null(strstr(server.seen->last_request, "X-Asked: []\r\n"));
}

TEST(a_visitor_that_gets_a_cookie_does_not_switch_the_cache_off)
{
    expect(0, "/visitor/key/22", 200, NULL);
    assert_true(says("Set-Cookie", "a=b"));
    assert_false(says("Cache-Status", "stored"));
    WAIT_UNTIL(
        (ask(nginx[1].port, "/visitor/key/22", NULL, "Cookie: a=b\r\n"), says("Cache-Status", "; hit")));
    expect(0, "/headed/cookie", 200, NULL); /* one that no entry has room for */
    assert_true(times_in_head("Set-Cookie: a=01234567") == 1);
    WAIT_UNTIL(
        (ask(nginx[1].port, "/headed/cookie", NULL, "Cookie: a=b\r\n"), says("Cache-Status", "; hit")));
}

TEST(nginx_replaces_the_cache_control_of_a_stored_page)
{
    expect(0, "/lasting/said/max-age=9/key/28", 200, NULL);
    assert_true(says("Cache-Control", "max-age=3600"));
    assert_int_equal(times_in_head("Cache-Control"), 1);
}

TEST(seven_tags_are_kept_and_eight_are_not)
{
    expect(0, "/tagged/a,b,c,d,e,f,g/key/27", 200, NULL);
    assert_true(says("Cache-Status", "stored"));
    expect(0, "/tagged/a,b,c,d,e,f,g,h/key/27", 200, NULL);
    assert_false(says("Cache-Status", "stored"));
    WAIT_UNTIL(has_said(0, "more than 7 tags"));
}

TEST(an_answer_is_kept_whole_or_not_at_all)
{
    static const struct row rows[] = {
        {BOTH, "/half", .status = 502, .loads = 1},
        {BOTH, "/piped/half", .status = 502, .loads = 2},
        {BOTH, "/garbage", .status = 502, .loads = 3},
        {BOTH, "/hang", .status = 504, .loads = 4},  /* stampede_load_limit */
        {BOTH, "/stall", .status = 504, .loads = 5}, /* a body that never ends */
        {BOTH, "/more", .status = 200, .body = "ok", .said = "; hit", .loads = 6},
        {BOTH, "/chunked", .status = 200, .body = "abcde", .said = "; hit", .loads = 7},
        {BOTH, "/piped/chunked", .status = 200, .body = "abcde", .said = "; hit", .loads = 8},
        {BOTH, "/until-close", .status = 200, .body = "until it closes", .said = "; hit", .loads = 9},
        {BOTH, "/trailers", .status = 200, .body = "abcde", .said = "; hit", .loads = 10},
    };
    EXPECT_ROWS(rows);
}

TEST(what_is_too_large_streams_and_the_next_ones_do_not_wait)
{
    for (size_t i = 0; i < INSTANCES; i++) {
        expect(i, "/bytes/5000000", 200, NULL);
        assert_int_equal(got.body_bytes, 5000000);
    }
    assert_int_equal(loads(), 3); /* the first finds out, and asks again */
    for (size_t i = 0; i < INSTANCES; i++) {
        expect(i, "/headed", 200, "headed");
        assert_true(says("X-Long", "0000"));
        assert_false(says("Cache-Status", "stampede"));
    }
}

TEST(a_request_of_a_request_waits_and_loads_like_any_other)
{
    static const char *const parts = "{\"id\":15,\"version\": 16} and {\"id\":15,\"version\": 16}";
    for (size_t i = 0; i < INSTANCES; i++) {
        expect(i, "/parts", 200, parts);
        expect(i, "/let", 200, "ok");
    }
    assert_int_equal(loads(), 3);
}

TEST(what_one_client_may_do_is_not_what_others_may_unless_the_location_itself_has_a_key)
{
    static const struct row rows[] = {
        {0, "/ask/each", .status = 200, .body = "ok", .loads = 2},
        {BOTH, "/ask/each", .status = 200, .body = "ok", .said = "; hit", .loads = 4},
    };
    EXPECT_ROWS(rows);
}

TEST(conditions_ranges_and_head_are_nginxs_own)
{
    static const struct row rows[] = {
        {0, "/file/a", .status = 200, .body = "0123456789"},
        {1, "/file/a", .headers = "If-None-Match: \"v1\"\r\n", .status = 304},
        {1, "/file/a", .headers = "Range: bytes=2-4\r\n", .status = 206, .body = "234"},
        {1, "/file/a", .method = "HEAD", .status = 200, .said = "Content-Length: 10\r\n"},
        {1, "/file/a", .headers = "Accept-Encoding: gzip\r\n", .status = 200, .said = "Encoding: gzip\r\n"},
        {BOTH, "/itself", .status = 200, .said = "stampede; hit"}, /* a file */
    };
    EXPECT_ROWS(rows);
}

/* ---- operators ---- */

TEST(each_answer_and_the_log_say_where_it_came_from)
{
    expect(1, "/key/11", 200, NULL);
    assert_true(says("Cache-Status", "stampede; fwd=miss; stored; ttl=5") &&
                says("Cache-Status", "; load=\""));
    expect(1, "/key/11", 200, NULL);
    assert_true(says("Cache-Status", "stampede; hit; ttl=5") && says("Age", "0"));
    WAIT_UNTIL(has_logged(1, "/key/11 200 load 0 "));
}

TEST(numbers_are_those_of_all_workers)
{
    expect(0, "/key/12", 200, NULL);
    WAIT_UNTIL(strstr(get(0, "/metrics"), "guard_waiters{worker=\"0\"} ") != NULL &&
               strstr(got.body, "guard_waiters{worker=\"1\"} ") != NULL);
    assert_true(says("Content-Type", "text/plain; version=0.0.4"));
    static const char *const lines[] = {
        /* named as catalogd names them */
        "# TYPE guard_waiters gauge\n", "\nguard_gets_total{worker=\"1\",outcome=\"near\"} ",
        "\nguard_get_duration_seconds_bucket{worker=\"0\",le=\"+Inf\"} ",
        "\nguard_turn_age_seconds{worker=\"0\"} ",
        "\nguard_redis_state{worker=\"0\",connection=\"wake\",state=\"up\"} 1\n"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (strstr(got.body, lines[i]) == NULL)
            fail_msg("\"%s\" is not in: %s", lines[i], got.body);
}

TEST(a_purge_by_key_or_tag_is_seen_by_both, P39, P73)
{
    static const char *const purges[] = {"/purge?key=%2Ftagged%2Fred%2Fkey%2F6", "/purge?key=&tag=red"};
    for (size_t i = 0; i < INSTANCES; i++)
        expect(i, "/tagged/red/key/6", 200, NULL);
    assert_int_equal(loads(), 1);
    for (size_t i = 0; i < 2; i++) {
        expect(i, purges[i], 200, PURGED);
        WAIT_UNTIL((get(1 - i, "/tagged/red/key/6"), loads() == i + 2));
        expect(i, "/tagged/red/key/6", 200, NULL);
        assert_int_equal(loads(), i + 2);
    }
    expect(0, "/purge", 400, NULL);
}

TEST(a_body_that_is_none_is_a_bad_request)
{
    static const char *const requests[] = {
        "POST /purge?key=x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "POST /metrics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"};
    need_module();
    for (size_t i = 0; i < 2; i++) {
        char answer[12];
        const int fd = socket_connect(nginx[0].port, 0);
        socket_say(fd, requests[i]);
        read_all(fd, answer, sizeof answer);
        close(fd);
        assert_memory_equal(answer, "HTTP/1.1 400", sizeof answer);
    }
}

TEST(a_capture_names_the_page_to_purge_as_it_is)
{
    static const struct row rows[] = {
        {0, "/key/42?a=%2541", .status = 200, .loads = 1},
        {0, "/purged/key/42%3Fa=%252541", .status = 200, .body = PURGED, .loads = 1},
        {0, "/key/42?a=%2541", .status = 200, .said = "fwd=miss", .loads = 2},
    };
    EXPECT_ROWS(rows);
}

TEST(a_purge_in_the_middle_of_a_load_is_not_undone_by_it, P39, P74)
{
    static const char *const purges[] = {"/purge?key=%2Fslow%2Fpurged0", "/purge?key=&tag=blue"};
    for (size_t i = 0; i < 2; i++) {
        char path[32];
        snprintf(path, sizeof path, "/slow/purged%zu", i);
        crowd_asks(4, path);
        WAIT_UNTIL(all_wait(4));
        const unsigned before = loads();
        expect(i, purges[i], 200, NULL);
        open_gate();
        assert_int_equal(crowd_answered(4), 4);
        expect(1 - i, path, 200, "xxx");
        if (loads() == before)
            fail_msg("%s: %s", purges[i], got.head);
        atomic_store(&server.seen->gather_target, 1000);
    }
}

TEST(a_debug_log_can_be_written)
{
    need_module();
    other_up("debug", "", NULL);
    expect(1, "/key/29", 200, NULL);
    assert_true(is_sound(1));
}

/* Redis holds its answers when they begin: one that takes requests all the same would load by itself. */
TEST(new_workers_answer_what_the_fleet_has)
{
    enum { LOOK_MS = 500 }; /* a worker waits for a second */
    pid_t pids[16];
    need_module();
    assert_true(proxy_open_to(redis.port, &proxy));
    redis_port = proxy_port(proxy, 0);
    other_up("debug", "", NULL); /* which says what it accepts */
    expect(0, "/key/41", 200, NULL);
    const size_t count = workers_of(1, pids);
    for (size_t i = 0; i < count; i++)
        kill(pids[i], SIGSTOP);
    crowd_asks(40, "/key/41"); /* they wait for whoever accepts them */
    const size_t started = times_said(1, "start worker process "), accepted = times_said(1, " accept: ");
    proxy_set(proxy, 0, PROXY_FREEZE_REPLIES, 0);
    kill(nginx[1].pid, SIGHUP);
    WAIT_UNTIL(times_said(1, "start worker process ") == started + 2);
    const uint64_t end_ms = test_now_ms() + LOOK_MS;
    while (test_now_ms() < end_ms)
        assert_int_equal(times_said(1, " accept: "), accepted);
    proxy_set(proxy, 0, PROXY_NONE, 0);
    assert_int_equal(crowd_answered(40), 40);
    for (size_t i = 0; i < count; i++)
        kill(pids[i], SIGCONT);
    assert_int_equal(loads(), 1);
}

TEST(a_worker_without_a_connection_for_a_load_fails_no_page)
{
    enum { MANY = 64 };
    need_module();
    worker_connections = MANY;
    other_up("notice", "master_process off;", NULL);
    char answer[16] = "";
    for (size_t i = 0; i < MANY; i++) {
        crowd[i] = client_asks(1, "/slow/full");
        if (i == 0)
            WAIT_UNTIL(loads() == 1);
    }
    WAIT_UNTIL(has_said(1, "worker_connections are not enough"));
    size_t closed = 0; /* each leaves one connection free, for the request and not for its load */
    ssize_t count = 0;
    for (size_t tries = 0; count <= 0 && closed < MANY - 1; tries++) {
        if (tries % 200 == 0)
            close(crowd[++closed]);
        const int fd = client_asks(1, "/itself?full");
        count = recv(fd, answer, 12, 0);
        close(fd);
    }
    assert_string_equal(answer, "HTTP/1.1 200");
    open_gate();
    close(crowd[0]);
    for (size_t i = closed + 1; i < MANY; i++)
        close(crowd[i]);
}

TEST(a_worker_without_connections_for_its_guard_passes_all_requests)
{
    enum { LISTENING = 4, CLIENTS = 1 };
    need_module();
    worker_connections = LISTENING + CLIENTS;
    other_up("notice", "master_process off;", NULL);
    assert_true(
        has_said(1, "requests of this worker pass: no connection for the guard: raise worker_connections"));
    expect(1, "/itself?few", 200, NULL);
    assert_false(says("Cache-Status", "stampede"));
}

/* One process, which has all that a worker has. */
TEST(ten_thousand_hits_leave_valgrind_nothing_to_say)
{
    enum { HITS = 10000, CONNECTIONS = 20 }; /* a connection has 1000 requests at the most */
    static const char ask_text[] = "GET /key/34 HTTP/1.1\r\nHost: x\r\n\r\n", end[] = "\"version\": 35}";
    static const char *const under[] = {"sh", "-c",
                                        "exec valgrind -q --error-exitcode=9 --log-file={folder}/found "
                                        "nginx -p {folder} -e errors -c nginx",
                                        NULL};
    int fds[CONNECTIONS], status;
    test_needs_long();
    need_module();
    setenv("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin", 1);
    other_up("notice", "master_process off;", under);
    for (size_t i = 0; i < CONNECTIONS; i++)
        fds[i] = socket_connect(nginx[1].port, 0);
    for (size_t i = 0; i < HITS; i++) {
        char text[1024] = "";
        const int fd = fds[i % CONNECTIONS];
        socket_say(fd, ask_text);
        for (size_t bytes = 0; strstr(text, end) == NULL;) {
            const ssize_t count = recv(fd, text + bytes, sizeof text - 1 - bytes, 0);
            assert_true(count > 0);
            bytes += (size_t)count;
        }
    }
    for (size_t i = 0; i < CONNECTIONS; i++)
        close(fds[i]);
    assert_in_range(loads(), 1, 2);            /* the key is fresh for 60 s, less its jitter */
    expect(1, "/purge?key=/stall", 200, NULL); /* what another test knows of it */
    expect(1, "/stall", 504, NULL);            /* a load that is cancelled */
    kill(nginx[1].pid, SIGQUIT);
    assert_true(proc_wait(nginx[1].pid, TEST_LIMIT_MS, &status));
    if (status != 0)
        fail_msg("valgrind: %s", text_of(1, "found"));
    is_other = true;
}

TEST(nginx_t_says_what_is_wrong_and_where)
{
    need_module();
    static const struct {
        const char *http, *location, *wanted;
    } wrong[] = {
        {"stampede_redis http://x;", "", "must begin with redis://"},
        {"stampede_namespace 'a b';", "", "[A-Za-z0-9._-] in"},
        {"stampede_near much;", "", "\"stampede_near\" directive invalid value in"},
        {"stampede_near 1k;", "", "\"stampede_near\" directive takes 64k to 4095m, or 0: none in"},
        {"stampede_near 1m 2h;", "", "\"stampede_near\" directive takes a time up to 1m"},
        {"stampede_loads 0;", "", "\"stampede_loads\" directive takes 1 to 4096 in"},
        {"stampede_max_value 100m;", "", "\"stampede_max_value\" directive takes 1 to 64m in"},
        {"", "stampede \"\";", "\"stampede\" directive needs a key, as $request_uri, or off"},
        {"", "stampede $uri; stampede off;", "\"stampede\" directive is duplicate in"},
        {"", "stampede_load_limit 5h;", "\"stampede_load_limit\" directive takes 1ms to 59m in"},
        {"", "stampede_fresh 2d;", "\"stampede_fresh\" directive takes 0 to 1d in"},
        {"", "stampede_purge $arg_key; proxy_pass http://127.0.0.1;", "give it a location of its own in"},
        {"", "proxy_pass http://127.0.0.1; stampede_metrics;", "give it a location of its own in"},
    };
    char folder[PROC_PATH_BYTES], path[PROC_PATH_BYTES + 16], command[320], text[2048];
    assert_true(proc_folder("wrong", NULL, folder));
    snprintf(path, sizeof path, "%s/nginx", folder);
    snprintf(command, sizeof command,
             "PATH=$PATH:/usr/sbin LD_PRELOAD=$NGINX_PRELOAD nginx -t -p %s -e errors -c nginx", folder);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(text, sizeof text,
                 "load_module %s;\npid pid;\nevents {}\nhttp {\n%s access_log off;\nserver { location / { %s "
                 "} } }\n",
                 module_path, wrong[i].http, wrong[i].location);
        file_write(path, text);
        assert_false(proc_output(command, text, sizeof text));
        if (strstr(text, wrong[i].wanted) == NULL || strstr(text, "/nginx:") == NULL)
            fail_msg("\"%s\" is not in: %s", wrong[i].wanted, text);
    }
}

/* ---- without Redis, without an origin; these end the servers ---- */

static int purge_that_hangs(void)
{
    char pong[4096];
    need_module();
    const int fd = socket_connect(nginx[1].port, 0);
    socket_say(fd, "GET /ping HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_true(recv(fd, pong, sizeof pong, 0) > 0);
    stack_redis_pause(&redis);
    socket_say(fd, "GET /purge?key=x HTTP/1.1\r\nHost: x\r\n\r\n"); /* there before a signal is */
    return fd;
}

TEST(a_purge_that_waits_is_answered_although_its_nginx_quits)
{
    char answer[8];
    const int fd = purge_that_hangs();
    kill(nginx[1].pid, SIGQUIT);
    WAIT_UNTIL(has_said(1, "gracefully shutting down"));
    stack_redis_resume(&redis);
    read_all(fd, answer, sizeof answer);
    assert_memory_equal(answer, "HTTP/1.1", sizeof answer);
    close(fd);
    other_ends();
}

TEST(an_nginx_that_is_stopped_waits_for_no_purge)
{
    const int fd = purge_that_hangs();
    kill(nginx[1].pid, SIGTERM);
    other_ends();
    stack_redis_resume(&redis);
    close(fd);
}

TEST(a_redis_that_hangs_or_is_gone_leaves_one_load_for_each_worker_and_a_purge_that_says_so)
{
    need_module();
    stack_redis_pause(&redis);
    expect(0, "/key/13", 200, NULL);
    stack_redis_resume(&redis);
    stack_redis_kill(&redis);
    WAIT_UNTIL(
        (get(1, "/key/11"), says("Cache-Status", "hit; ttl=") && says("Cache-Status", "detail=outage")));
    expect(1, "/purge?key=%2Fkey%2F13", 503, "{\"status\":\"unknown\",\"dropped\":false}\n");
    rival_stop(&nginx[0]);
    assert_true(nginx_up(0));
    const unsigned before = loads();
    crowd_asks(40, "/slow/alone");
    WAIT_UNTIL(all_wait(40) && loads() >= before + 2);
    open_gate();
    assert_int_equal(crowd_answered(40), 40);
    assert_in_range(loads() - before, 2, 4);
    WAIT_UNTIL(has_said(0, "stampede: redis"));
    assert_true(stack_redis_restart(&redis));
    WAIT_UNTIL((get(0, "/key/8"), get(1, "/key/8"), says("Cache-Status", "hit")));
}

TEST(a_stale_page_is_answered_at_once_and_renewed_in_the_background, P46)
{
    static const char path[] = "/said/max-age=1,stale-while-revalidate=600/key/14";
    expect(0, path, 200, NULL);
    for (unsigned i = 0; i < 3; i++) {
        WAIT_UNTIL((get(i % INSTANCES, path), says("Cache-Status", "fwd=stale")));
        WAIT_UNTIL((get(i % INSTANCES, path), says("Cache-Status", "; hit")));
    }
    assert_true(loads() >= 4);
}

TEST(a_dead_origin_leaves_what_is_stale)
{
    static const char path[] = "/said/max-age=1,stale-while-revalidate=600/key/10";
    expect(0, path, 200, NULL);
    herd_server_stop(&server);
    server.pid = 0;
    WAIT_UNTIL((get(0, path), says("Cache-Status", "fwd=stale")));
    assert_int_equal(got.status, 200);
    expect(1, path, 200, "{\"id\":10,\"version\": 11}");
}

TEST_GROUP(.up = servers_up, .down = servers_down, .before = fresh_test);
