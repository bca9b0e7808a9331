/* SPDX-License-Identifier: MIT */
/*
 * peer_proxies.c - two nginx, and two Varnish, before the origin, each instance with its own cache.
 *
 * nginx, on disk and with one worker, as nginx.org/en/docs/http/ngx_http_proxy_module.html has it: proxy_cache_lock
 * lets one request at a time fill a new entry, proxy_cache_use_stale updating serves the expired one meanwhile, and
 * with proxy_cache_background_update nobody waits for the renewal. Locks are those of one nginx: two have two. Its
 * times are whole seconds: what is valid for 1 s expires 1 to 2 s later.
 *
 * Varnish, in memory, as varnish.h sets it up.
 */
#include "load/peers/peers.h"
#include "load/stack/nginx.h"
#include "load/stack/varnish.h"

#include <stdio.h>
#include <string.h>

static bool nginx_look(struct peer *peer)
{
    char line[PEER_TEXT_BYTES];
    if (!rival_first_line("PATH=$PATH:/usr/sbin nginx -v", line, sizeof line))
        return peer_fail(peer, "not installed (Debian: nginx): %.100s", line);
    const char *version = strchr(line, '/');
    snprintf(peer->version, sizeof peer->version, "nginx %.60s", version != NULL ? version + 1 : line);
    return true;
}

static bool nginx_begin(struct peer *peer, size_t index, const struct stage *stage, const struct terms *terms)
{
    const struct nginx_options options = {.origin_port = stage->origin.port,
                                          .valid_s = terms->ttl_ms / 1000,
                                          .serves_stale = terms->stale_ms > 0};
    return nginx_start(&peer->rivals[index], &options) || peer_fail(peer, "nginx did not start");
}

static bool varnish_look(struct peer *peer)
{
    char line[PEER_TEXT_BYTES];
    if (!rival_first_line("PATH=$PATH:/usr/sbin varnishd -V", line, sizeof line))
        return peer_fail(peer, "not installed (Debian: varnish): %.100s", line);
    const char *version = strstr(line, "varnish-");
    version = version != NULL ? version + strlen("varnish-") : "";
    snprintf(peer->version, sizeof peer->version, "Varnish %.*s", (int)strcspn(version, " )"), version);
    return true;
}

static bool varnish_begin(struct peer *peer, size_t index, const struct stage *stage,
                          const struct terms *terms)
{
    const struct varnish_options options = {
        .origin_port = stage->origin.port, .ttl_ms = terms->ttl_ms, .grace_ms = terms->stale_ms};
    return varnish_start(&peer->rivals[index], &options) || peer_fail(peer, "varnishd did not start");
}

struct peer peer_nginx = {
    .name = "nginx",
    .what =
        "two nginx, proxy_cache_lock on, use_stale updating, background_update, one worker each; times are "
        "whole seconds, so that a TTL of 1 s lasts 1 to 2",
    .look = nginx_look,
    .start = nginx_begin,
};

struct peer peer_varnish = {
    .name = "varnish",
    .what = "two Varnish with grace, documents in memory",
    .look = varnish_look,
    .start = varnish_begin,
};
