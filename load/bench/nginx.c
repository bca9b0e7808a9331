/* SPDX-License-Identifier: MIT */
/* nginx.c - see nginx.h. */
#include "load/bench/nginx.h"

#include "load/base/http.h"
#include "load/base/net.h"

#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { START_LIMIT_MS = 5000, STOP_LIMIT_MS = 5000, ASK_LIMIT_MS = 1000, START_TRIES = 3 };

/* The folder is the prefix: all paths below it. */
static const char configuration[] = "daemon off;\n"
                                    "worker_processes 1;\n"
                                    "worker_rlimit_nofile 16384;\n"
                                    "pid nginx.pid;\n"
                                    "error_log log warn;\n"
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
                                    "    proxy_cache_path cache levels=1:2 keys_zone=bench:10m inactive=10m "
                                    "use_temp_path=off;\n"
                                    "    upstream origin { server 127.0.0.1:%u; keepalive 64; }\n"
                                    "    server {\n"
                                    "        listen 127.0.0.1:%u backlog=4096;\n"
                                    "        location / {\n"
                                    "            proxy_pass http://origin;\n"
                                    "            proxy_http_version 1.1;\n"
                                    "            proxy_set_header Connection \"\";\n"
                                    "            proxy_cache bench;\n"
                                    "            proxy_cache_key $uri;\n"
                                    "            proxy_cache_valid 200 %us;\n"
                                    "            proxy_ignore_headers Cache-Control Expires;\n"
                                    "            proxy_cache_lock on;\n"
                                    "%s"
                                    "        }\n"
                                    "    }\n"
                                    "}\n";

static const char stale_configuration[] = "            proxy_cache_use_stale updating;\n"
                                          "            proxy_cache_background_update on;\n";

static bool write_configuration(const struct nginx *nginx, const struct nginx_options *options)
{
    char path[PROC_PATH_BYTES + 16];
    snprintf(path, sizeof path, "%s/nginx.conf", nginx->folder);
    FILE *file = fopen(path, "we");
    if (file == NULL)
        return false;
    fprintf(file, configuration, (unsigned)options->origin_port, (unsigned)nginx->port,
            (unsigned)options->valid_s, options->serves_stale ? stale_configuration : "");
    return fclose(file) == 0 && chmod(path, 0644) == 0;
}

static bool answers(const struct nginx *nginx)
{
    struct http_answer answer;
    const struct http_request request = {
        .host = "127.0.0.1", .port = nginx->port, .path = "/ping", .deadline_ms = ASK_LIMIT_MS};
    bool good = http_ask(&request, &answer) && answer.status == 200;
    http_answer_clear(&answer);
    return good;
}

static bool wait_until_up(struct nginx *nginx)
{
    uint64_t end_us = net_now_us() + (uint64_t)START_LIMIT_MS * 1000;
    while (net_now_us() < end_us) {
        if (answers(nginx))
            return true;
        if (proc_wait(nginx->pid, 2, NULL)) {
            nginx->pid = 0;
            return false;
        }
    }
    return false;
}

static bool launch(struct nginx *nginx, const struct nginx_options *options)
{
    static const char installed[] = "/usr/sbin/nginx"; /* not everybody's PATH has this folder */
    const char *program = access(installed, X_OK) == 0 ? installed : "nginx";
    const char *const argv[] = {program, "-p", nginx->folder, "-e", "log", "-c", "nginx.conf", NULL};
    nginx->port = net_free_port();
    if (!write_configuration(nginx, options))
        return false;
    const struct proc_options process = {
        .argv = argv, .output_path = nginx->log_path, .user = proc_plain_user(), .end_signal = SIGTERM};
    nginx->pid = proc_start(&process);
    if (nginx->pid > 0 && wait_until_up(nginx))
        return true;
    if (nginx->pid > 0)
        proc_kill_tree(&nginx->pid);
    nginx->pid = 0;
    return false;
}

bool nginx_start_with(struct nginx *nginx, const struct nginx_options *options)
{
    *nginx = (struct nginx){.pid = 0};
    if (!proc_folder("nginx", proc_plain_user(), nginx->folder))
        return false;
    snprintf(nginx->log_path, sizeof nginx->log_path, "%s/output", nginx->folder);
    for (int i = 0; i < START_TRIES; i++) { /* somebody may take the port first */
        if (launch(nginx, options))
            return true;
    }
    fprintf(stderr, "nginx: did not start; its log ends:\n");
    proc_show_tail(nginx->log_path);
    return false;
}

bool nginx_start(struct nginx *nginx, uint16_t origin_port)
{
    const struct nginx_options options = {.origin_port = origin_port, .valid_s = 600};
    return nginx_start_with(nginx, &options);
}

void nginx_stop(struct nginx *nginx)
{
    if (nginx->pid > 0)
        proc_stop(&nginx->pid, SIGTERM, STOP_LIMIT_MS);
    if (nginx->folder[0] != '\0')
        proc_remove(nginx->folder);
    *nginx = (struct nginx){.pid = 0};
}
