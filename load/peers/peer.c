/* SPDX-License-Identifier: MIT */
/* peer.c - what all peers have in common, ours, nginx with and without our module, Varnish; see peers.h. */
#include "load/peers/peers.h"
#include "load/stack/rival.h"
#include "load/stack/stack.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool peer_fail(struct peer *peer, const char *format, ...)
{
    va_list arguments;
    if (peer->why_not[0] != '\0')
        return false;
    va_start(arguments, format);
    vsnprintf(peer->why_not, sizeof peer->why_not, format, arguments);
    va_end(arguments);
    return false;
}

bool peer_start(struct peer *peer, const struct stage *stage, const struct terms *terms)
{
    for (size_t i = 0; i < PEER_INSTANCES; i++) {
        if (!peer->start(peer, i, stage, terms))
            return peer_fail(peer, "did not start");
        bool is_rival = peer->rivals[i].pid > 0;
        peer->ports[i] = is_rival ? peer->rivals[i].port : peer->processes[i].port;
        peer->pids[i] = is_rival ? peer->rivals[i].pid : peer->processes[i].pid;
    }
    return true;
}

void peer_stop(struct peer *peer)
{
    for (size_t i = 0; i < PEER_INSTANCES; i++) {
        rival_stop(&peer->rivals[i]);
        stack_catalogd_stop(&peer->processes[i]);
    }
}

/* ---- ours ---- */

/* Two processes over one Redis, mode fleet, two server loops each. No random shortening of the TTL, for no other has
 * one. The query's delay is in its own load. */

static bool look(struct peer *peer)
{
    snprintf(peer->version, sizeof peer->version, "this build");
    return true;
}

static bool start(struct peer *peer, size_t index, const struct stage *stage, const struct terms *terms)
{
    char delay[48], fresh[48], stale[48];
    const char *const settings[] = {
        delay, fresh, stale, "JITTER_PERCENT=0", "GUARD_MODE=fleet", "NAMESPACE=peers", "SERVER_LOOPS=2",
        NULL};
    snprintf(delay, sizeof delay, "LOAD_DELAY_MS=%d", QUERY_MS);
    snprintf(fresh, sizeof fresh, "FRESH_MS=%" PRIu32, terms->ttl_ms);
    snprintf(stale, sizeof stale, "STALE_MS=%" PRIu32, terms->stale_ms);
    return stack_catalogd_start_over(&peer->processes[index], &stage->redis, &stage->postgres, settings) ||
           peer_fail(peer, "catalogd did not start");
}

struct peer peer_catalogd = {
    .name = "catalogd",
    .what = "ours: two processes, one Redis, GUARD_MODE=fleet, two server loops each",
    .uses_redis = true,
    .look = look,
    .start = start,
};

/* ---- nginx and Varnish ---- */

/*
 * Two of each before the origin, each instance with its own cache.
 *
 * nginx with two workers, on disk, as nginx.org/en/docs/http/ngx_http_proxy_module.html has it: proxy_cache_lock lets
 * one request at a time fill a new entry, proxy_cache_use_stale updating serves the expired one meanwhile, and with
 * proxy_cache_background_update nobody waits for the renewal. Locks are those of one nginx: two have two. Its times
 * are whole seconds: what is valid for 1 s expires 1 to 2 s later.
 *
 * The same nginx with our module in place of proxy_cache, as guard/nginx/README.md has it; two over one Redis.
 *
 * Varnish, in memory, as rival.h sets it up.
 */

static char module_path[RIVAL_TEXT_BYTES];

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
    const struct nginx_options options = {.origin_port = stage->origin_port,
                                          .valid_s = terms->ttl_ms / 1000,
                                          .stale_s = terms->stale_ms / 1000,
                                          .workers = 2,
                                          .module_path = peer->uses_redis ? module_path : NULL,
                                          .redis_port = stage->redis.port};
    return nginx_start(&peer->rivals[index], &options) || peer_fail(peer, "nginx did not start");
}

static bool module_look(struct peer *peer)
{
    return nginx_look(peer) &&
           (nginx_module(module_path) || peer_fail(peer, "not built: make nginx (Debian: nginx-dev)"));
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
        .origin_port = stage->origin_port, .ttl_ms = terms->ttl_ms, .grace_ms = terms->stale_ms};
    return varnish_start(&peer->rivals[index], &options) || peer_fail(peer, "varnishd did not start");
}

struct peer peer_module = {
    .name = "module",
    .what = "ours in two nginx, one Redis, a near cache, two workers each",
    .uses_redis = true,
    .has_workers = true,
    .purge_path = "/purge?key=",
    .look = module_look,
    .start = nginx_begin,
};

struct peer peer_nginx = {
    .name = "nginx",
    .what =
        "two nginx, proxy_cache_lock on, use_stale updating, background_update, two workers each; times are "
        "whole seconds, so that a TTL of 1 s lasts 1 to 2",
    .has_workers = true,
    .look = nginx_look,
    .start = nginx_begin,
};

struct peer peer_varnish = {
    .name = "varnish",
    .what = "two Varnish with grace, documents in memory",
    .look = varnish_look,
    .start = varnish_begin,
};
