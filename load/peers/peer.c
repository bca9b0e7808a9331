/* SPDX-License-Identifier: MIT */
/* peer.c - what all peers have in common; see peers.h. */
#include "load/peers/peers.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>

enum { STORE_END_MS = 3000 };

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
    if (peer->store > 0)
        proc_stop(&peer->store, SIGTERM, STORE_END_MS);
}
