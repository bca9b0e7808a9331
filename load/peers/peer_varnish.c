/* SPDX-License-Identifier: MIT */
/*
 * peer_varnish.c - two Varnish before the origin, each with its own cache in memory.
 *
 * Requests for a document that is being fetched wait for it without being told to, and within beresp.grace an
 * expired one is served while one fetch renews it: varnish-cache.org/docs/trunk/users-guide/vcl-grace.html. Two
 * thread pools of a hundred threads, the defaults. Each runs in a private folder as an ordinary user, without
 * jail and without management port.
 */
#include "load/peers/peers.h"
#include "load/peers/server.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char installed[] = "/usr/sbin/varnishd"; /* not everybody's PATH has this folder */
static struct server servers[PEER_INSTANCES];
static char vcl_folder[PROC_PATH_BYTES];

static bool look(struct peer *peer)
{
    char line[PEER_TEXT_BYTES];
    if (!server_first_line("PATH=$PATH:/usr/sbin varnishd -V", line, sizeof line))
        return peer_fail(peer, "not installed (Debian: varnish): %.100s", line);
    const char *version = strstr(line, "varnish-");
    version = version != NULL ? version + strlen("varnish-") : "";
    snprintf(peer->version, sizeof peer->version, "Varnish %.*s", (int)strcspn(version, " )"), version);
    return true;
}

/* The origin says for how long a client may keep its answer; how long Varnish does is said here. Documents go by
 * their path alone, as with the other caches: by Varnish's own rule a document has a copy for each Host. */
static bool write_vcl(const struct stage *stage, const struct terms *terms, const char *path)
{
    FILE *file = fopen(path, "we");
    if (file == NULL)
        return false;
    fprintf(file,
            "vcl 4.1;\n"
            "backend origin { .host = \"127.0.0.1\"; .port = \"%u\"; }\n"
            "sub vcl_hash { hash_data(req.url); return (lookup); }\n"
            "sub vcl_backend_response {\n"
            "    set beresp.ttl = %" PRIu32 "ms;\n"
            "    set beresp.grace = %" PRIu32 "ms;\n"
            "    return (deliver);\n"
            "}\n",
            (unsigned)stage->origin.port, terms->ttl_ms, terms->stale_ms);
    return fclose(file) == 0 && chmod(path, 0644) == 0;
}

static bool start(struct peer *peer, const struct stage *stage, const struct terms *terms)
{
    char vcl_path[PROC_PATH_BYTES + 16];
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
                                     vcl_path,
                                     "-s",
                                     "malloc,64m",
                                     NULL};
    const struct server_plan plan = {.name = "varnish", .arguments = arguments, .user = proc_plain_user()};
    if (!proc_folder("vcl", plan.user, vcl_folder))
        return peer_fail(peer, "no folder for its configuration");
    snprintf(vcl_path, sizeof vcl_path, "%s/peer.vcl", vcl_folder);
    if (!write_vcl(stage, terms, vcl_path))
        return peer_fail(peer, "cannot write its configuration, %s", vcl_path);
    for (size_t i = 0; i < PEER_INSTANCES; i++) {
        if (!server_start(&servers[i], &plan))
            return peer_fail(peer, "varnishd did not start");
        peer->ports[i] = servers[i].port;
        peer->pids[i] = servers[i].pid;
    }
    return true;
}

static void stop(struct peer *peer)
{
    (void)peer;
    for (size_t i = 0; i < PEER_INSTANCES; i++)
        server_stop(&servers[i]);
    if (vcl_folder[0] != '\0')
        proc_remove(vcl_folder);
    vcl_folder[0] = '\0';
}

struct peer peer_varnish = {
    .name = "varnish",
    .what = "two Varnish with grace, documents in memory",
    .look = look,
    .start = start,
    .stop = stop,
};
