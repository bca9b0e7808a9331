/* SPDX-License-Identifier: MIT */
/*
 * witness_follow.h - follows PostgreSQL's log file through a run.
 *
 *     open: can it be read? --> begin: from its end, by a thread of its own --> end --> finish: all of it, into a view
 *
 * Where a session with the server is given, a statement of ours is looked for in the log before and after the run:
 * so it is the log of that server, and nothing is missing behind it.
 *
 * Threads: one, and its own between begin and finish. Errors: false, and the reason in `why`.
 */
#ifndef LOAD_WITNESS_WITNESS_FOLLOW_H
#define LOAD_WITNESS_WITNESS_FOLLOW_H

#include "load/witness/witness_postgres.h"
#include "load/witness/witness_view.h"

#include <stdbool.h>
#include <stdint.h>

struct witness_follow;

/* Both texts are lent until ..._close(). */
bool witness_follow_open(const char *path, const char *statement, struct witness_follow **out,
                         char why[static WITNESS_WHY_BYTES]);

/* `postgres` may be NULL. Within 4 s. */
bool witness_follow_begin(struct witness_follow *follow, struct witness_postgres *postgres,
                          char why[static WITNESS_WHY_BYTES]);

/* Loads so far; any thread. */
uint64_t witness_follow_count(struct witness_follow *follow);

/* Returns at once. */
void witness_follow_end(struct witness_follow *follow);

/* Within a second; `postgres` as it was at the beginning, its samples finished. */
bool witness_follow_finish(struct witness_follow *follow, struct witness_postgres *postgres,
                           struct witness_view *view, char why[static WITNESS_WHY_BYTES]);

/* Leaves NULL. Accepts NULL in *follow. */
void witness_follow_close(struct witness_follow **follow);

#endif
