/* SPDX-License-Identifier: MIT */
/*
 * peer_varnish.c - two Varnish before the origin, each with its own cache in memory, as varnish.h sets them up.
 */
#include "load/bench/varnish.h"
#include "load/peers/peers.h"

#include <stdio.h>
#include <string.h>

static struct rival instances[PEER_INSTANCES];

static bool look(struct peer *peer)
{
    char line[PEER_TEXT_BYTES];
    if (!rival_first_line("PATH=$PATH:/usr/sbin varnishd -V", line, sizeof line))
        return peer_fail(peer, "not installed (Debian: varnish): %.100s", line);
    const char *version = strstr(line, "varnish-");
    version = version != NULL ? version + strlen("varnish-") : "";
    snprintf(peer->version, sizeof peer->version, "Varnish %.*s", (int)strcspn(version, " )"), version);
    return true;
}

static bool start(struct peer *peer, const struct stage *stage, const struct terms *terms)
{
    const struct varnish_options options = {
        .origin_port = stage->origin.port, .ttl_ms = terms->ttl_ms, .grace_ms = terms->stale_ms};
    for (size_t i = 0; i < PEER_INSTANCES; i++) {
        if (!varnish_start(&instances[i], &options))
            return peer_fail(peer, "varnishd did not start");
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

struct peer peer_varnish = {
    .name = "varnish",
    .what = "two Varnish with grace, documents in memory",
    .look = look,
    .start = start,
    .stop = stop,
};
