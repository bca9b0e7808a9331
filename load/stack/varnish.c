/* SPDX-License-Identifier: MIT */
/* varnish.c - see varnish.h. */
#include "load/stack/varnish.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

static const char configuration[] = "vcl 4.1;\n"
                                    "backend origin { .host = \"127.0.0.1\"; .port = \"%u\"; }\n"
                                    "sub vcl_hash { hash_data(req.url); return (lookup); }\n"
                                    "sub vcl_backend_response {\n"
                                    "    set beresp.ttl = %" PRIu32 "ms;\n"
                                    "    set beresp.grace = %" PRIu32 "ms;\n"
                                    "    return (deliver);\n"
                                    "}\n";

bool varnish_start(struct rival *varnish, const struct varnish_options *options)
{
    static const char installed[] = "/usr/sbin/varnishd"; /* not in every PATH */
    char text[RIVAL_FILE_BYTES];
    const char *const arguments[] = {access(installed, X_OK) == 0 ? installed : "varnishd",
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
    snprintf(text, sizeof text, configuration, (unsigned)options->origin_port, options->ttl_ms,
             options->grace_ms);
    return rival_start(varnish, &plan);
}
