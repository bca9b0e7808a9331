/* SPDX-License-Identifier: MIT */
/* nginx.c - see nginx.h. */
#include "load/stack/nginx.h"

#include <stdio.h>
#include <unistd.h>

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
                                    "        listen 127.0.0.1:{port} backlog=4096;\n"
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

bool nginx_start(struct rival *nginx, const struct nginx_options *options)
{
    static const char installed[] = "/usr/sbin/nginx"; /* not in every PATH */
    char text[RIVAL_FILE_BYTES];
    const char *const arguments[] = {access(installed, X_OK) == 0 ? installed : "nginx",
                                     "-p",
                                     "{folder}",
                                     "-e",
                                     "log",
                                     "-c",
                                     "nginx",
                                     NULL};
    const struct rival_plan plan = {
        .name = "nginx", .arguments = arguments, .file_text = text, .user = proc_plain_user()};
    snprintf(text, sizeof text, configuration, (unsigned)options->origin_port, (unsigned)options->valid_s,
             options->serves_stale ? stale_configuration : "");
    return rival_start(nginx, &plan);
}
