/* SPDX-License-Identifier: MIT */
/*
 * peer_nginx.c - two nginx before the origin, each with its own cache on disk and one worker.
 *
 * As nginx.org/en/docs/http/ngx_http_proxy_module.html has it: proxy_cache_lock lets one request at a time fill
 * a new entry, proxy_cache_use_stale updating serves the expired one meanwhile, and with
 * proxy_cache_background_update nobody waits for the renewal. Locks are those of one nginx: two have two. Its
 * times are whole seconds: what is valid for 1 s expires 1 to 2 s later.
 */
#include "load/bench/nginx.h"
#include "load/peers/peers.h"

#include <stdio.h>
#include <string.h>

static struct rival instances[PEER_INSTANCES];

static bool look(struct peer *peer)
{
    char line[PEER_TEXT_BYTES];
    if (!rival_first_line("PATH=$PATH:/usr/sbin nginx -v", line, sizeof line))
        return peer_fail(peer, "not installed (Debian: nginx): %.100s", line);
    const char *version = strchr(line, '/');
    snprintf(peer->version, sizeof peer->version, "nginx %.60s", version != NULL ? version + 1 : line);
    return true;
}

static bool start(struct peer *peer, const struct stage *stage, const struct terms *terms)
{
    const struct nginx_options options = {.origin_port = stage->origin.port,
                                          .valid_s = terms->ttl_ms / 1000,
                                          .serves_stale = terms->stale_ms > 0};
    for (size_t i = 0; i < PEER_INSTANCES; i++) {
        if (!nginx_start_with(&instances[i], &options))
            return peer_fail(peer, "nginx did not start");
        peer->ports[i] = instances[i].port;
        peer->pids[i] = instances[i].pid;
    }
    return true;
}

static void stop(struct peer *peer)
{
    (void)peer;
    for (size_t i = 0; i < PEER_INSTANCES; i++)
        rival_stop(&instances[i]);
}

struct peer peer_nginx = {
    .name = "nginx",
    .what =
        "two nginx, proxy_cache_lock on, use_stale updating, background_update, one worker each; times are "
        "whole seconds, so that a TTL of 1 s lasts 1 to 2",
    .look = look,
    .start = start,
    .stop = stop,
};
