/* SPDX-License-Identifier: MIT */
/*
 * redis/replicated.h - scripts that count as done only once replicas have what they did: a script, and WAIT behind
 * it.
 *
 *     run:  script  WAIT n ms     one write, over a connection of its own: WAIT holds up what comes behind it
 *
 *     both answered over that connection, the script first, at least n replicas ------> the script's reply
 *     fewer replicas, or a connection lost on the way: it ran, and may yet be lost ---> UNKNOWN
 *     an error of either -------------------------------------------------------------> that error
 *
 * Scripts that come while a WAIT is out share the next one. WAIT is never sent alone: a connection that wrote nothing
 * is told at once of how many replicas there are. A script that Redis did not know is sent again as EVAL, behind the
 * WAIT: then the next WAIT is its own.
 *
 * What it does not promise: with n below the number of replicas one that has not confirmed may be promoted, and a
 * replica that has confirmed may lose its memory. It does not fence either: an old master reads as before.
 *
 * Threads  that of its loop.
 */
#pragma once

#include "connection.h"

struct redis_replicated;

/* So many replicas as the URL of its topology says. The connection's limit is what it says and wait_ms more. NULL: no
 * memory. */
struct redis_replicated *replicated_open(struct guard_host *host, const struct redis_config *config);
/* As connection_close(). */
void replicated_close(struct redis_replicated *replicated, void (*closed)(void *context), void *context);

/* As connection_call(), of a script that replies with a number. */
bool replicated_run(struct redis_replicated *replicated, const struct redis_call *call);
