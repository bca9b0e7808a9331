/* SPDX-License-Identifier: MIT */
/*
 * tls_test.c - the Redis connection over TLS, against a real Redis: what works, what an operator reads when it does
 * not, and files that change.
 */
#include "guard/redis/tls.h"
#include "load/stack/stack.h"
#include "tests/support/redis_rig.h"
#include "tests/support/sockets.h"
#include "tests/support/stack_certificates.h"
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A limit that is waited for to pass; and a reply of so many records of TLS that one turn of the loop is not
 * enough. */
enum {
    LIMIT_MS = 250,
    CONNECT_LIMIT_MS = 2000, /* of what is given up; a slow machine connects sooner */
    HUNG_LIMIT_MS = 1000,
    URL_BYTES = 1024,
    RECORDS = 20
};

static struct stack_certificates files, others; /* two authorities */
static struct stack_redis server;
static char cert_path[CERTIFICATES_PATH_BYTES], key_path[CERTIFICATES_PATH_BYTES];

/* ---- the server ---- */

static bool issue_all(void)
{
    return stack_certificates_start(&files) && stack_certificates_start(&others) &&
           stack_certificates_issue(&files, "server", "DNS:localhost,IP:127.0.0.1", -1, 30) &&
           stack_certificates_issue(&files, "elsewhere", "DNS:cache-2,IP:10.0.0.1", -1, 30) &&
           stack_certificates_issue(&files, "expired", "DNS:localhost,IP:127.0.0.1", -30, -1) &&
           stack_certificates_issue(&files, "early", "DNS:localhost,IP:127.0.0.1", 10, 30) &&
           stack_certificates_issue(&files, "client", "DNS:client", -1, 30) &&
           stack_certificates_issue(&others, "server", "DNS:localhost,IP:127.0.0.1", -1, 30) &&
           stack_certificates_issue(&others, "client", "DNS:client", -1, 30);
}

static bool start_server(void)
{
    static const char *tls[] = {"--tls-cert-file",
                                cert_path,
                                "--tls-key-file",
                                key_path,
                                "--tls-ca-cert-file",
                                files.ca,
                                "--tls-auth-clients",
                                "no",
                                NULL};
    uv_loop_t loop;

    if (!issue_all())
        return false;
    stack_certificates_path(&files, "server.pem", cert_path);
    stack_certificates_path(&files, "server.key", key_path);
    if (!stack_redis_start_as(&server, &(struct stack_redis_options){.tls = tls}))
        return false;
    freeReplyObject(stack_redis_command(&server, "PING"));
    return uv_loop_init(&loop) == 0 && uv_loop_close(&loop) == 0;
}

static bool stop_server(void)
{
    stack_redis_stop(&server);
    stack_certificates_stop(&files);
    stack_certificates_stop(&others);
    return true;
}

/* The words as one command. */
#define ask_server(...)                                                                                      \
    ask_server_words((const char *const[]){__VA_ARGS__},                                                     \
                     sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))
static void ask_server_words(const char *const *words, size_t count)
{
    struct redisReply *reply = stack_redis_command_words(&server, words, count);

    assert_non_null(reply);
    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s %s: %s", words[0], words[1], reply->str);
    freeReplyObject(reply);
}

/* From the next handshake on it shows this one. */
static void show(const struct stack_certificates *of, const char *name)
{
    char cert[CERTIFICATES_PATH_BYTES], key[CERTIFICATES_PATH_BYTES];

    snprintf(cert, sizeof cert, "%s/%s.pem", of->folder, name);
    snprintf(key, sizeof key, "%s/%s.key", of->folder, name);
    ask_server("CONFIG", "SET", "tls-cert-file", cert, "tls-key-file", key);
}

/* "yes" or "no". */
static void ask_clients(const char *whether)
{
    ask_server("CONFIG", "SET", "tls-auth-clients", whether);
}

static void speak(const char *versions)
{
    ask_server("CONFIG", "SET", "tls-protocols", versions);
}

static bool heal_server(void)
{
    stack_redis_resume(&server);
    ask_server("CONFIG", "SET", "maxclients", "10000", "tls-ca-cert-file", files.ca);
    ask_clients("no");
    speak("TLSv1.2 TLSv1.3");
    show(&files, "server");
    return true;
}

/* ---- a connection ---- */

/* rediss://HOST:PORT?ssl_ca_certs=...MORE; ca "": none is named. */
static const char *url_of(const char *host, const char *ca, const char *more)
{
    static char url[URL_BYTES];

    snprintf(url, sizeof url, "rediss://%s:%u?%s%s%s%s", host, (unsigned)server.tls_port,
             ca[0] != '\0' ? "ssl_ca_certs=" : "ssl_cert_reqs=required", ca, more[0] != '\0' ? "&" : "",
             more);
    return url;
}

static const char *usual_url(void)
{
    return url_of("127.0.0.1", files.ca, "");
}

static const char *with_client(const struct stack_certificates *of, const char *name)
{
    static char more[URL_BYTES];

    snprintf(more, sizeof more, "ssl_certfile=%s/%s.pem&ssl_keyfile=%s/%s.key", of->folder, name, of->folder,
             name);
    return more;
}

/* What is told behind "host:port: ", without the server's name and version. */
static const char *told(void)
{
    static char line[sizeof rig.text];
    const char *text = strstr(rig.text, ": ");
    char *name = NULL;

    snprintf(line, sizeof line, "%s", text != NULL ? text + 2 : "");
    if ((name = strstr(line, "; redis ")) != NULL || (name = strstr(line, "; valkey ")) != NULL)
        *name = '\0';
    return line;
}

static void expect_told(const char *url, const char *line)
{
    rig_start(url);
    rig_wait_until(rig.state_count > 0);
    assert_string_equal(told(), line);
    rig_finish();
}

static void expect_begin(const char *url, const char *line)
{
    rig_start(url);
    rig_wait_until(rig.state_count > 0);
    if (strncmp(told(), line, strlen(line)) != 0)
        fail_msg("told \"%s\", not \"%s...\"", told(), line);
    rig_finish();
}

static void expect_up(const char *url)
{
    rig_start(url);
    rig_wait_up();
    rig_expect_pong();
    assert_string_equal(told(), "up");
    assert_true(redis_is_whole(rig.redis));
    rig_finish();
}

/* ---- what works ---- */

TEST(values_of_any_size_come_back_whole_over_tls)
{
    enum { BIG = 3 << 20 };
    static const size_t sizes[] = {0, 1, 16383, 16384, 16385, 65536, 1 << 20, BIG};
    char *value = calloc(1, BIG);

    rig_start(usual_url());
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const char *argv[] = {"ECHO", value};
        const size_t argv_bytes[] = {4, sizes[i]};
        struct call call = {.answered = 0};

        assert_true(redis_send(rig.redis, 2, argv, argv_bytes, call_replied, &call));
        rig_wait_until(call.answered > 0);
        assert_int_equal(call.outcome, REDIS_REPLIED);
        assert_int_equal(call.bytes, sizes[i]);
    }
    free(value);
}

static void start_subscriber(void)
{
    rig_prepare(usual_url());
    rig.config.channel = "news";
    rig_open();
    rig_wait_up();
    rig.config.channel = NULL;
}

/* They come while the loop stands, a record each, and one recv() takes them all: then the socket is silent. A
 * subscriber sends nothing by itself, so nothing would ever wake it. */
TEST(messages_that_lie_in_openssl_are_read_though_the_socket_is_silent, P130)
{
    start_subscriber();
    for (unsigned i = 0; i < 2 * RECORDS; i++)
        ask_server("PUBLISH", "news", "small");
    rig_wait_until(rig.message_count == 2 * RECORDS);
}

/* So many bytes that the server answers in several writes. All of them are there when the limit is over. */
TEST(a_loop_that_was_busy_reads_every_record_before_it_declares_anything_late, P130)
{
    enum { ECHOES = 100, BYTES = 1000 };
    static struct call calls[ECHOES];
    char value[BYTES];
    const char *argv[] = {"ECHO", value};
    const size_t argv_bytes[] = {4, BYTES};

    memset(value, 'x', sizeof value);
    rig_prepare(usual_url());
    rig.config.limit_ms = HUNG_LIMIT_MS;
    rig_open();
    rig_wait_up();
    uint64_t before = stack_redis_calls(&server, "echo"), began_ns = uv_hrtime();
    for (size_t i = 0; i < ECHOES; i++) {
        calls[i] = (struct call){.answered = 0};
        assert_true(redis_send(rig.redis, 2, argv, argv_bytes, call_replied, &calls[i]));
    }
    uv_run(&rig.loop, UV_RUN_NOWAIT);
    while (stack_redis_calls(&server, "echo") < before + ECHOES || elapsed_ms(began_ns) <= HUNG_LIMIT_MS)
        poll(NULL, 0, 1);
    rig_wait_until(calls[ECHOES - 1].answered > 0);
    for (size_t i = 0; i < ECHOES; i++)
        assert_int_equal(calls[i].outcome, REDIS_REPLIED);
    assert_int_equal(rig.counters.connects, 1);
}

TEST(a_name_is_verified_as_one_and_an_address_as_one, P129)
{
    expect_up(url_of("localhost", files.ca, ""));
    expect_up(url_of("127.0.0.1", files.ca, ""));
}

TEST(a_folder_of_certificates_is_trusted_by_its_hashes)
{
    char folder[PROC_PATH_BYTES], command[512], text[256];

    assert_true(proc_folder("trusted", NULL, folder));
    snprintf(command, sizeof command, "cp %s %s/ca.pem && openssl rehash %s", files.ca, folder, folder);
    assert_true(proc_output(command, text, sizeof text));
    expect_up(url_of("127.0.0.1", folder, ""));
    proc_remove(folder);
}

TEST(a_client_certificate_is_shown_where_it_is_asked_for)
{
    ask_clients("yes");
    expect_up(url_of("127.0.0.1", files.ca, with_client(&files, "client")));
    speak("TLSv1.2");
    expect_up(url_of("127.0.0.1", files.ca, with_client(&files, "client")));
}

TEST(what_is_verified_is_the_callers_choice, P129)
{
    show(&files, "elsewhere");
    expect_up(url_of("127.0.0.1", files.ca, "ssl_server_name=cache-2"));
    expect_up(url_of("127.0.0.1", files.ca, "ssl_server_name=10.0.0.1"));
    expect_up(url_of("127.0.0.1", files.ca, "ssl_cert_reqs=ca"));
    show(&others, "server");
    expect_told(url_of("127.0.0.1", files.ca, "ssl_cert_reqs=ca"),
                "TLS: the certificate's issuer is not trusted; set ssl_ca_certs");
}

TEST(a_server_that_is_not_verified_is_told_of_with_every_start, P129)
{
    char url[128];

    show(&others, "server");
    snprintf(url, sizeof url, "rediss://127.0.0.1:%u?ssl_cert_reqs=none", (unsigned)server.tls_port);
    rig_start(url);
    rig_wait_up();
    assert_string_equal(told(), "up; TLS: the server's certificate is not verified (ssl_cert_reqs=none)");
    assert_false(redis_is_whole(rig.redis));
    rig_expect_pong();
}

/* ---- what an operator reads ---- */

TEST(an_issuer_that_is_not_trusted_is_named_as_the_reason, P129)
{
    static const char line[] = "TLS: the certificate's issuer is not trusted; set ssl_ca_certs";

    expect_told(url_of("127.0.0.1", "", ""), line); /* the system's */
    expect_told(url_of("127.0.0.1", others.ca, ""), line);
}

TEST(a_certificate_for_another_name_tells_which_it_has)
{
    show(&files, "elsewhere");
    expect_told(usual_url(), "TLS: the certificate is for another name than \"127.0.0.1\" (it has "
                             "DNS:cache-2,IP:10.0.0.1); set ssl_server_name or reissue");
    expect_told(url_of("localhost", files.ca, ""),
                "TLS: the certificate is for another name than \"localhost\" (it has "
                "DNS:cache-2,IP:10.0.0.1); set ssl_server_name or reissue");
}

TEST(a_certificate_out_of_its_time_tells_from_when_to_when)
{
    show(&files, "expired");
    expect_begin(usual_url(), "TLS: the certificate expired on 20");
    show(&files, "early");
    expect_begin(usual_url(), "TLS: the certificate is not valid before 20");
}

TEST(a_client_certificate_that_is_missing_is_asked_for_in_both_versions)
{
    static const char line[] =
        "TLS: the server asks for a client certificate; set ssl_certfile and ssl_keyfile";

    ask_clients("yes");
    speak("TLSv1.2");
    expect_told(usual_url(), line);
    speak("TLSv1.3");
    expect_told(usual_url(), line);
}

TEST(a_client_certificate_that_the_server_does_not_trust_is_refused_by_name)
{
    ask_clients("yes");
    expect_begin(url_of("127.0.0.1", files.ca, with_client(&others, "client")),
                 "TLS: the server refuses the certificate in ssl_certfile (");
}

/* Whom a Redis has no room for it tells so at once, in plain text. */
TEST(a_side_that_speaks_before_it_is_spoken_to_does_not_speak_tls)
{
    char url[URL_BYTES];

    ask_server("CONFIG", "SET", "maxclients", "1");
    snprintf(url, sizeof url, "rediss://127.0.0.1:%u?ssl_ca_certs=%s", (unsigned)server.port, files.ca);
    expect_told(url, "TLS: the other side does not speak TLS");
}

TEST(a_plain_port_leaves_the_handshake_unanswered_and_is_named_as_a_cause, P129)
{
    char url[URL_BYTES];

    snprintf(url, sizeof url, "rediss://127.0.0.1:%u?ssl_ca_certs=%s", (unsigned)server.port, files.ca);
    rig_prepare(url);
    rig.config.connect_limit_ms = CONNECT_LIMIT_MS;
    rig_open();
    rig_wait_until(rig.state_count > 0);
    assert_non_null(strstr(told(), "no answer to the handshake"));
    assert_non_null(strstr(told(), "a port without TLS does that: use the server's tls-port, or redis://"));
    rig_finish();
}

/* Without tls-cluster a Redis before 7.2 names its plain port also to who asks over TLS. */
TEST(a_cluster_that_names_plain_ports_is_told_to_name_the_others)
{
    struct stack_redis node;
    char url[URL_BYTES];

    assert_true(stack_redis_start_as(
        &node, &(struct stack_redis_options){
                   .arguments = (const char *const[]){"--cluster-enabled", "yes", NULL}, .tls = server.tls}));
    if (stack_redis_is_since(&node, 7, 2)) {
        stack_redis_stop(&node);
        test_skip("this Redis names its TLS ports to who asks over TLS");
    }
    assert_true(stack_redis_do(&node, "CLUSTER ADDSLOTSRANGE 0 16383"));
    snprintf(url, sizeof url, "rediss+cluster://127.0.0.1:%u?ssl_ca_certs=%s", (unsigned)node.tls_port,
             files.ca);
    rig_prepare(url);
    rig.config.connect_limit_ms = CONNECT_LIMIT_MS;
    rig_open();
    rig_wait_until(strstr(rig.text, "a port without TLS does that: set tls-cluster yes") != NULL);
    rig_finish();
    stack_redis_stop(&node);
}

/* Accepts what comes and keeps what it hears, without an answer; or hangs up as soon as it has heard something. */
struct mute {
    pthread_t thread;
    bool hangs_up;
    int listener;
    uint16_t port;
    char heard[2048];
    size_t bytes;
};

static void *keep_mute(void *argument)
{
    struct mute *mute = argument;
    int fd = accept(mute->listener, NULL, NULL);

    for (ssize_t got = 1; got > 0 && mute->bytes < sizeof mute->heard;) {
        got = recv(fd, mute->heard + mute->bytes, sizeof mute->heard - mute->bytes, 0);
        mute->bytes += got > 0 ? (size_t)got : 0;
        if (mute->hangs_up)
            break;
    }
    shutdown(fd, SHUT_WR); /* an end, not a reset */
    while (mute->hangs_up && recv(fd, (char[512]){0}, 512, 0) > 0)
        continue;
    close(fd);
    return NULL;
}

static void start_mute(struct mute *mute, bool hangs_up)
{
    char url[URL_BYTES];

    memset(mute, 0, sizeof *mute);
    mute->hangs_up = hangs_up;
    mute->listener = socket_listen(0, 8, &mute->port);
    snprintf(url, sizeof url, "rediss://user:sesame@127.0.0.1:%u?ssl_ca_certs=%s", (unsigned)mute->port,
             files.ca);
    rig_prepare(url);
    rig.config.connect_limit_ms = CONNECT_LIMIT_MS;
    rig.config.backoff_ms = rig.config.max_backoff_ms = RIG_LIMIT_MS;
    assert_int_equal(pthread_create(&mute->thread, NULL, keep_mute, mute), 0);
    rig_open();
    rig_wait_until(rig.state_count > 0);
}

static void finish_mute(struct mute *mute)
{
    pthread_join(mute->thread, NULL);
    rig_close();
    close(mute->listener);
    rig.descriptor_count--; /* the listener's was open before */
    rig_finish();
}

TEST(silence_is_told_of_and_has_heard_nothing_but_a_hello, P129)
{
    struct mute mute;
    char line[64];

    start_mute(&mute, false);
    snprintf(line, sizeof line, "TLS: no answer to the handshake within %d ms", CONNECT_LIMIT_MS);
    assert_memory_equal(told(), line, strlen(line));
    assert_int_equal(rig.counters.timeouts, 1);
    finish_mute(&mute);
    assert_true(mute.bytes > 5);
    assert_int_equal(mute.heard[0], 0x16);
    assert_null(memmem(mute.heard, mute.bytes, "sesame", 6));
}

TEST(a_server_that_hangs_up_in_the_handshake_is_told_of)
{
    struct mute mute;

    start_mute(&mute, true);
    assert_string_equal(told(), "TLS: the other side hangs up in the handshake");
    finish_mute(&mute);
}

TEST(a_plain_greeting_to_a_port_for_tls_is_told_what_that_was)
{
    char url[64];

    snprintf(url, sizeof url, "redis://127.0.0.1:%u", (unsigned)server.tls_port);
    rig_start(url);
    rig_wait_until(strstr(told(), "a port for TLS does that (use rediss://)") != NULL);
    assert_int_equal(rig.states[0], GUARD_REDIS_DOWN); /* hung up without a word: it may be going down */
    rig_finish();
}

/* A server that was stopped and goes on says what it was: it has to say it twice. */
TEST(a_server_that_was_silent_in_the_handshake_is_asked_twice)
{
    rig_prepare(usual_url());
    rig.config.connect_limit_ms = LIMIT_MS;
    stack_redis_pause(&server);
    rig_open();
    rig_wait_until(strstr(rig.text, "TLS: no answer to the handshake within 250 ms") != NULL);
    stack_redis_resume(&server);
    uint64_t roles = stack_redis_calls(&server, "role");
    rig_wait_up();
    assert_true(stack_redis_calls(&server, "role") >= roles + 2);
}

/* ---- what is refused when it is opened ---- */

static void expect_refused(const char *url, const char *line)
{
    struct redis_url parsed;
    struct guard_error error = {.status = GUARD_OK};
    uv_loop_t loop;

    assert_true(redis_url_read(url, &parsed, &error));
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_null(redis_tls_open(&parsed.tls, &error));
    assert_int_equal(error.status, GUARD_INVALID);
    assert_string_equal(error.text, line);
    assert_int_equal(uv_loop_close(&loop), 0);
}

TEST(files_that_are_of_no_use_are_refused_by_the_parameters_name)
{
    char more[URL_BYTES];

    expect_refused(url_of("h", "/no/such/file", ""), "redis_url: ssl_ca_certs: no such file or directory");
    expect_refused(url_of("h", key_path, ""), "redis_url: ssl_ca_certs: it has no certificate in PEM");
    expect_refused(url_of("h", files.ca, with_client(&files, "nobody")),
                   "redis_url: ssl_certfile: no such file or directory");
    snprintf(more, sizeof more, "ssl_certfile=%s/client.key&ssl_keyfile=%s/client.key", files.folder,
             files.folder);
    expect_refused(url_of("h", files.ca, more), "redis_url: ssl_certfile: it has no certificate in PEM");
    snprintf(more, sizeof more, "ssl_certfile=%s/client.pem&ssl_keyfile=%s/client.pem", files.folder,
             files.folder);
    expect_refused(url_of("h", files.ca, more), "redis_url: ssl_keyfile: it has no key in PEM");
    snprintf(more, sizeof more, "ssl_certfile=%s/client.pem&ssl_keyfile=%s/server.key", files.folder,
             files.folder);
    expect_refused(url_of("h", files.ca, more),
                   "redis_url: ssl_keyfile: the key is not that of the certificate "
                   "in ssl_certfile (key values mismatch)");
}

TEST(an_encrypted_key_is_refused_without_a_question_at_the_terminal)
{
    char more[URL_BYTES], command[512], text[256];

    snprintf(command, sizeof command,
             "cd %s && openssl pkey -in client.key -aes256 -passout pass:sesame -out locked.key && chmod 644 "
             "locked.key",
             files.folder);
    assert_true(proc_output(command, text, sizeof text));
    snprintf(more, sizeof more, "ssl_certfile=%s/client.pem&ssl_keyfile=%s/locked.key", files.folder,
             files.folder);
    expect_refused(url_of("h", files.ca, more),
                   "redis_url: ssl_keyfile: it is encrypted; give a key without a "
                   "passphrase (openssl pkey writes one)");
}

/* ---- files that change ---- */

/* A folder of the client's own files, in which they are replaced as one does: whole, by their names. */
static char own[PROC_PATH_BYTES];

static void place(const struct stack_certificates *of, const char *name, const char *as)
{
    char command[512], text[256];

    snprintf(command, sizeof command, "cp %s/%s %s/new && mv %s/new %s/%s", of->folder, name, own, own, own,
             as);
    assert_true(proc_output(command, text, sizeof text));
}

static const char *own_url(void)
{
    static char url[URL_BYTES];

    snprintf(url, sizeof url,
             "rediss://127.0.0.1:%u?ssl_ca_certs=%s/ca&ssl_certfile=%s/cert&ssl_keyfile=%s/key",
             (unsigned)server.tls_port, own, own, own);
    return url;
}

static void begin_own(void)
{
    assert_true(proc_folder("own", NULL, own));
    place(&files, "ca.pem", "ca");
    place(&files, "client.pem", "cert");
    place(&files, "client.key", "key");
}

/* Until it says so: the files are looked at once a second, and only when there is a connection to be made. */
static void reconnect_until(const char *line)
{
    while (rig.state_count == 0 || strcmp(told(), line) != 0) {
        rig.state_count = 0;
        redis_reset(rig.redis, "again");
        rig_wait_until(rig.state_count > 1 || strncmp(told(), "TLS", 3) == 0);
    }
}

TEST(another_authority_and_another_certificate_are_taken_without_a_restart, P131)
{
    begin_own();
    ask_clients("yes");
    rig_start(own_url());
    rig_wait_up();
    ask_server("CONFIG", "SET", "tls-ca-cert-file", others.ca);
    show(&others, "server");
    place(&others, "ca.pem", "ca");
    place(&others, "client.pem", "cert");
    place(&others, "client.key", "key");
    reconnect_until("up");
    rig_expect_pong();
    rig_finish();
    proc_remove(own);
}

TEST(files_that_are_of_no_use_any_more_leave_what_was_read_before_and_are_told_of, P131)
{
    begin_own();
    rig_start(own_url());
    rig_wait_up();
    place(&files, "server.key", "key");
    reconnect_until(
        "up; TLS: the files have changed and are of no use (ssl_keyfile: the key is not that of the "
        "certificate in ssl_certfile (key values mismatch)); what was read before stays");
    rig_expect_pong();
    place(&files, "client.key", "key");
    reconnect_until("up");
    rig_finish();
    proc_remove(own);
}

/* Commands go on and on, while everything is replaced under them. */
TEST(no_request_fails_while_certificates_are_replaced, P131)
{
    enum { SWAPS = 4, AT_ONCE = 32 };
    static struct call calls[AT_ONCE] = {{.answered = 0}};
    unsigned answered = 0;

    begin_own();
    rig_start(own_url());
    rig_wait_up();
    for (unsigned swap = 0; swap < SWAPS; swap++) {
        const struct stack_certificates *of = swap % 2 == 0 ? &others : &files;
        for (size_t i = 0; i < AT_ONCE; i++)
            call_send(&calls[i], "ECHO", "still here");
        show(of, swap == 1 ? "expired" : "server");
        place(of, "ca.pem", "ca");
        rig_wait_until(calls[AT_ONCE - 1].answered > 0);
        for (size_t i = 0; i < AT_ONCE; i++)
            answered += calls[i].answered == 1 && calls[i].outcome == REDIS_REPLIED;
    }
    assert_int_equal(answered, SWAPS * AT_ONCE);
    assert_int_equal(rig.counters.connects, 1);
    reconnect_until("up");
    rig_finish();
    proc_remove(own);
}

TEST_GROUP(.up = start_server, .down = stop_server, .before = rig_forget, .after = heal_server,
           .end = rig_finish);
