/* SPDX-License-Identifier: MIT */
/*
 * script.h - a peer that is a library: two processes of a small HTTP server of ours around it.
 *
 * The server is told by its environment: PORT, ORIGIN (http://127.0.0.1:port), REDIS_PORT, TTL_S, STALE_S,
 * PEER (its name). It answers GET /ping itself and everything else with the origin's document through its cache.
 *
 * Threads: as proc.h has it.
 */
#ifndef LOAD_PEERS_SCRIPT_H
#define LOAD_PEERS_SCRIPT_H

#include "load/bench/rival.h"
#include "load/peers/peers.h"

/* Both processes: `program` with the script. False: peer->why_not. */
bool script_start(struct peer *peer, struct rival servers[static PEER_INSTANCES], const char *program,
                  const char *script, const struct stage *stage, const struct terms *terms);
void script_stop(struct rival servers[static PEER_INSTANCES]);

#endif
