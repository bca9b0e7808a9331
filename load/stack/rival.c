/* SPDX-License-Identifier: MIT */
/* rival.c - see rival.h. */
#include "load/stack/rival.h"

#include "load/base/dice.h"
#include "load/base/http.h"
#include "load/base/net.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { START_LIMIT_MS = 60000, STOP_LIMIT_MS = 5000, ASK_LIMIT_MS = 1000, START_TRIES = 5 };

/* ---- a private server ---- */

bool private_begin(const char *name, const char *user, char folder[static PROC_PATH_BYTES],
                   char log_path[static PROC_PATH_BYTES + 16])
{
    bool good = proc_folder(name, user, folder);
    snprintf(log_path, PROC_PATH_BYTES + 16, "%s/log", folder);
    return good;
}

bool private_complain(const char *name, const char *what, const char *log_path)
{
    fprintf(stderr, "stack: %s %s; its log ends:\n", name, what);
    proc_show_tail(log_path);
    return false;
}

bool private_launch(bool (*launch)(void *server), void *server, const char *name, const char *log_path)
{
    for (int i = 0; i < START_TRIES; i++) {
        if (launch(server))
            return true;
    }
    return private_complain(name, "did not start", log_path);
}

bool private_end(pid_t *pid, int signal, uint32_t limit_ms, const char *folder)
{
    bool went = *pid <= 0 || proc_stop(pid, signal, limit_ms);
    if (folder[0] != '\0')
        proc_remove(folder);
    return went;
}

/* ---- a rival ---- */

/* Texts with the rival's own port and folder in them. */
struct texts {
    char at[RIVAL_ARGUMENTS_MAX][RIVAL_TEXT_BYTES];
    const char *list[RIVAL_ARGUMENTS_MAX + 1];
};

static bool fill_in(const struct rival *rival, const char *text, char *out, size_t out_bytes)
{
    static const char port[] = "{port}", folder[] = "{folder}";
    size_t used = 0;
    out[0] = '\0';
    while (*text != '\0' && used + PROC_PATH_BYTES < out_bytes) {
        if (strncmp(text, port, strlen(port)) == 0) {
            used += (size_t)snprintf(out + used, out_bytes - used, "%u", (unsigned)rival->port);
            text += strlen(port);
        } else if (strncmp(text, folder, strlen(folder)) == 0) {
            used += (size_t)snprintf(out + used, out_bytes - used, "%s", rival->folder);
            text += strlen(folder);
        } else {
            out[used++] = *text++;
            out[used] = '\0';
        }
    }
    return *text == '\0';
}

static bool fill_in_all(const struct rival *rival, const char *name, const char *const *from,
                        struct texts *texts)
{
    size_t count = 0;
    for (; from != NULL && from[count] != NULL; count++) {
        if (count == RIVAL_ARGUMENTS_MAX ||
            !fill_in(rival, from[count], texts->at[count], sizeof texts->at[count])) {
            fprintf(stderr, "%s: one argument or setting too many, or too long: %s\n", name, from[count]);
            return false;
        }
        texts->list[count] = texts->at[count];
    }
    texts->list[count] = NULL;
    return true;
}

/* The user that the server runs as may read it. */
static bool write_file(const struct rival *rival, const struct rival_plan *plan)
{
    char path[RIVAL_TEXT_BYTES], text[RIVAL_FILE_BYTES];
    if (plan->file_text == NULL)
        return true;
    snprintf(path, sizeof path, "%s/%s", rival->folder, plan->name);
    FILE *file = fill_in(rival, plan->file_text, text, sizeof text) ? fopen(path, "we") : NULL;
    bool good = file != NULL && fputs(text, file) != EOF;
    good = file != NULL && fclose(file) == 0 && good && chmod(path, 0644) == 0;
    if (!good)
        fprintf(stderr, "%s: cannot write its configuration, %s\n", plan->name, path);
    return good;
}

static bool answers(void *context)
{
    const struct rival *rival = context;
    struct http_answer answer;
    const struct http_request request = {
        .host = "127.0.0.1", .port = rival->port, .path = "/ping", .deadline_ms = ASK_LIMIT_MS};
    bool good = http_ask(&request, &answer) && answer.status == 200;
    http_answer_clear(&answer);
    return good;
}

struct start {
    struct rival *rival;
    const struct rival_plan *plan;
};

static bool launch(void *context)
{
    const struct start *start = context;
    struct rival *rival = start->rival;
    const struct rival_plan *plan = start->plan;
    struct texts arguments, settings;
    rival->port = net_free_port();
    if (!fill_in_all(rival, plan->name, plan->arguments, &arguments) ||
        !fill_in_all(rival, plan->name, plan->settings, &settings) || !write_file(rival, plan))
        return false;
    const struct proc_options options = {.argv = arguments.list,
                                         .settings = settings.list,
                                         .output_path = rival->log_path,
                                         .user = plan->user,
                                         .end_signal = SIGTERM};
    rival->pid = proc_start_up(&options, plan->is_up != NULL ? plan->is_up : answers, rival, START_LIMIT_MS);
    return rival->pid > 0;
}

bool rival_start(struct rival *rival, const struct rival_plan *plan)
{
    struct start start = {rival, plan};
    *rival = (struct rival){.pid = 0};
    return private_begin(plan->name, plan->user, rival->folder, rival->log_path) &&
           private_launch(launch, &start, plan->name, rival->log_path);
}

void rival_stop(struct rival *rival)
{
    private_end(&rival->pid, SIGTERM, STOP_LIMIT_MS, rival->folder);
    *rival = (struct rival){.pid = 0};
}

bool rival_first_line(const char *command, char *line, size_t line_bytes)
{
    bool good = proc_output(command, line, line_bytes);
    line[strcspn(line, "\n")] = '\0';
    return good;
}

/* Not in every PATH. */
static const char *program(const char *installed)
{
    return access(installed, X_OK) == 0 ? installed : strrchr(installed, '/') + 1;
}

/* ---- nginx ---- */

/* The folder is the prefix: all paths below it. */
static const char nginx_configuration[] = "%sdaemon off;\n"
                                          "worker_processes %u;\n"
                                          "worker_rlimit_nofile 16384;\n"
                                          "pid nginx.pid;\n"
                                          "error_log errors warn;\n"
                                          "events { worker_connections 8192; }\n"
                                          "http {\n"
                                          "    access_log off;\n"
                                          "    sendfile on;\n"
                                          "    tcp_nopush on;\n"
                                          "    keepalive_requests 1000000000;\n"
                                          "    keepalive_timeout 300s;\n"
                                          "    open_file_cache max=1000 inactive=300s;\n"
                                          "    open_file_cache_valid 300s;\n"
                                          "    client_body_temp_path body;\n"
                                          "    proxy_temp_path temp;\n"
                                          "    fastcgi_temp_path temp;\n"
                                          "    uwsgi_temp_path temp;\n"
                                          "    scgi_temp_path temp;\n"
                                          "    upstream origin { server 127.0.0.1:%u; keepalive 64; }\n"
                                          "    server {\n"
                                          "        listen 127.0.0.1:{port} backlog=4096;\n"
                                          "        location / {\n"
                                          "            proxy_pass http://origin;\n"
                                          "            proxy_http_version 1.1;\n"
                                          "            proxy_set_header Connection \"\";\n"
                                          "            proxy_set_header X-Worker $pid;\n"
                                          "            proxy_ignore_headers Cache-Control Expires;\n"
                                          "%s"
                                          "}\n";

static const char nginx_cache[] = "            proxy_cache bench;\n"
                                  "            proxy_cache_key $uri;\n"
                                  "            proxy_cache_valid 200 %us;\n"
                                  "            proxy_cache_lock on;\n"
                                  "%s"
                                  "        }\n"
                                  "    }\n"
                                  "    proxy_cache_path cache levels=1:2 keys_zone=bench:10m inactive=10m "
                                  "use_temp_path=off;\n";

static const char nginx_stale[] =
    "            proxy_cache_use_stale updating error timeout http_500 http_502 http_503 http_504;\n"
    "            proxy_cache_background_update on;\n";

static const char nginx_stampede[] =
    "            stampede $uri; stampede_fresh %us; stampede_stale %us;\n"
    "            proxy_hide_header Cache-Control; proxy_hide_header Expires;\n"
    "        }\n"
    "        location = /purge { stampede_purge $arg_key $arg_tag; }\n"
    "    }\n"
    "    stampede_redis redis://127.0.0.1:%u/0; stampede_near 16m;\n";

bool nginx_module(char path[static RIVAL_TEXT_BYTES])
{
    const char *built = getenv("NGINX_MODULE");
    char folder[PROC_PATH_BYTES], command[2 * RIVAL_TEXT_BYTES], output[RIVAL_TEXT_BYTES];
    if (built == NULL || access(built, R_OK) != 0 || !proc_folder("module", proc_plain_user(), folder))
        return false;
    snprintf(path, RIVAL_TEXT_BYTES, "%s/module.so", folder);
    snprintf(command, sizeof command, "cp '%.500s' %s", built, path);
    return proc_output(command, output, sizeof output);
}

bool nginx_start_as(struct rival *nginx, const char *configuration, bool (*is_up)(void *nginx))
{
    const char *const arguments[] = {
        program("/usr/sbin/nginx"), "-p", "{folder}", "-e", "errors", "-c", "nginx", NULL};
    const struct rival_plan plan = {.name = "nginx",
                                    .arguments = arguments,
                                    .file_text = configuration,
                                    .user = proc_plain_user(),
                                    .is_up = is_up};
    return rival_start(nginx, &plan);
}

bool nginx_start(struct rival *nginx, const struct nginx_options *options)
{
    char text[RIVAL_FILE_BYTES], caching[RIVAL_FILE_BYTES / 2], load_module[RIVAL_TEXT_BYTES + 16] = "";
    if (options->module_path != NULL) {
        snprintf(load_module, sizeof load_module, "load_module %s;\n", options->module_path);
        snprintf(caching, sizeof caching, nginx_stampede, (unsigned)options->valid_s,
                 (unsigned)options->stale_s, (unsigned)options->redis_port);
    } else {
        snprintf(caching, sizeof caching, nginx_cache, (unsigned)options->valid_s,
                 options->stale_s > 0 ? nginx_stale : "");
    }
    snprintf(text, sizeof text, nginx_configuration, load_module,
             options->workers > 0 ? (unsigned)options->workers : 1, (unsigned)options->origin_port, caching);
    return nginx_start_as(nginx, text, NULL);
}

/* ---- Varnish ---- */

static const char varnish_configuration[] = "vcl 4.1;\n"
                                            "backend origin { .host = \"127.0.0.1\"; .port = \"%u\"; }\n"
                                            "sub vcl_hash { hash_data(req.url); return (lookup); }\n"
                                            "sub vcl_backend_response {\n"
                                            "    set beresp.ttl = %" PRIu32 "ms;\n"
                                            "    set beresp.grace = %" PRIu32 "ms;\n"
                                            "    return (deliver);\n"
                                            "}\n";

bool varnish_start(struct rival *varnish, const struct varnish_options *options)
{
    char text[RIVAL_FILE_BYTES];
    const char *const arguments[] = {program("/usr/sbin/varnishd"),
                                     "-F",
                                     "-j",
                                     "none",
                                     "-n",
                                     "{folder}/work",
                                     "-a",
                                     "127.0.0.1:{port}",
                                     "-T",
                                     "none",
                                     "-f",
                                     "{folder}/varnish",
                                     "-s",
                                     "malloc,64m",
                                     NULL};
    const struct rival_plan plan = {
        .name = "varnish", .arguments = arguments, .file_text = text, .user = proc_plain_user()};
    snprintf(text, sizeof text, varnish_configuration, (unsigned)options->origin_port, options->ttl_ms,
             options->grace_ms);
    return rival_start(varnish, &plan);
}

/* ---- wrk ---- */

enum { SPARE_MS = 15000 /* over the run itself */, ZIPF_DRAWS = 100000 };
#define ZIPF_EXPONENT 0.99

/* "  100123 requests in 2.00s, ...", "Requests/sec:  50061.50", and lines that come only with failures. */
static bool read_output(const char *path, struct wrk_result *out)
{
    char line[256];
    bool failed = false;
    FILE *file = fopen(path, "re");
    *out = (struct wrk_result){0};
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        sscanf(line, " %" SCNu64 " requests in", &out->requests);
        sscanf(line, "Requests/sec: %lf", &out->requests_per_s);
        failed = failed || strstr(line, "Socket errors") != NULL || strstr(line, "Non-2xx") != NULL;
    }
    if (file != NULL)
        fclose(file);
    return !failed && out->requests > 0 && out->requests_per_s > 0;
}

/* Every number once, or as many draws as make the law felt; one a line. */
static bool write_numbers(const char *path, const struct wrk_options *options)
{
    uint64_t dice = 1;
    struct dice_zipf zipf;
    FILE *file = fopen(path, "we");
    if (file == NULL)
        return false;
    dice_zipf_init(&zipf, options->last - options->first + 1, ZIPF_EXPONENT);
    for (uint32_t i = 0; options->order == WRK_BY_ZIPF && i < ZIPF_DRAWS; i++)
        fprintf(file, "%" PRIu32 "\n", options->first - 1 + dice_zipf_draw(&zipf, &dice));
    for (uint32_t number = options->first; options->order == WRK_IN_TURN && number <= options->last; number++)
        fprintf(file, "%" PRIu32 "\n", number);
    return fclose(file) == 0;
}

/* Requests are made once each, before wrk begins. */
static bool write_script(const char *path, const struct wrk_options *options, const char *numbers)
{
    FILE *file = fopen(path, "we");
    if (file == NULL)
        return false;
    if (options->order != WRK_PLAIN)
        fprintf(file,
                "local made, requests, next = {}, {}, 0\n"
                "function init()\n"
                "    for number in io.lines('%s') do\n"
                "        made[number] = made[number] or wrk.format('GET', (('%s'):gsub('%%*', number)))\n"
                "        requests[#requests + 1] = made[number]\n"
                "    end\n"
                "end\n"
                "function request()\n"
                "    next = next %% #requests + 1\n"
                "    return requests[next]\n"
                "end\n",
                numbers, options->path);
    return fclose(file) == 0;
}

bool wrk_run(const struct wrk_options *options, struct wrk_result *out)
{
    char folder[PROC_PATH_BYTES], output[PROC_PATH_BYTES + 8], script[PROC_PATH_BYTES + 12];
    char numbers[PROC_PATH_BYTES + 12];
    char connections[24], duration[24], url[256];
    snprintf(connections, sizeof connections, "-c%" PRIu32, options->connection_count);
    snprintf(duration, sizeof duration, "-d%" PRIu32 "s", options->seconds);
    snprintf(url, sizeof url, "http://127.0.0.1:%u%s", (unsigned)options->port, options->path);
    const char *const argv[] = {"wrk", "-t1", "-s", script, connections, duration, url, NULL};
    int status = -1;
    if (!proc_folder("wrk", NULL, folder))
        return false;
    snprintf(output, sizeof output, "%s/output", folder);
    snprintf(script, sizeof script, "%s/paths.lua", folder);
    snprintf(numbers, sizeof numbers, "%s/numbers", folder);
    pid_t pid = !write_numbers(numbers, options) || !write_script(script, options, numbers)
                    ? -1
                    : proc_start(&(struct proc_options){.argv = argv, .output_path = output});
    bool ended = pid > 0 && proc_wait(pid, options->seconds * 1000 + SPARE_MS, &status);
    if (pid > 0 && !ended)
        proc_kill_tree(&pid);
    bool good = ended && WIFEXITED(status) && WEXITSTATUS(status) == 0 && read_output(output, out);
    if (!good) {
        fprintf(stderr, "wrk: %s failed:\n", url);
        proc_show_tail(output);
    }
    proc_remove(folder);
    return good;
}
