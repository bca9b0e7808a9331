/* SPDX-License-Identifier: MIT */
/*
 * witness_follow.h - follows PostgreSQL's log file through a run.
 *
 *     open: can it be read? --> begin: from its end, by a thread of its own --> end --> finish: all, into a view
 *
 * Where a session with the server is given, a statement of ours is looked for in the log before and after the run:
 * so it is the log of that server, and nothing is missing behind it.
 *
 * Threads: one, and its own between begin and finish. Errors: false, and the reason in `why`.
 */
#pragma once

#include "load/witness/witness_postgres.h"
#include "load/witness/witness_view.h"

#include <stdbool.h>
#include <stddef.h>
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
/* As witness_loads_of(); any thread. */
uint64_t witness_follow_count_of(struct witness_follow *follow, uint64_t from, uint64_t first, uint64_t last);

/* Returns at once. */
void witness_follow_end(struct witness_follow *follow);

/* Within a second; `postgres` as it was at the beginning. */
bool witness_follow_finish(struct witness_follow *follow, struct witness_postgres *postgres,
                           struct witness_view *view, char why[static WITNESS_WHY_BYTES]);

/* Leaves NULL. Accepts NULL in *follow. */
void witness_follow_close(struct witness_follow **follow);

/* ---- a file that others write: tail.c ---- */

/*
 * What is added to a file while others write it, rename it, cut it or begin a new one in its place.
 *
 *     tail_open(): at its end ---> tail_read(): what is new, again and again ---> tail_close()
 *
 * A file that was renamed is read on, until it is renamed again, beside the new one of its name. One that was cut is
 * read from its beginning again; what had been added to it and not been read by then is lost.
 *
 * Threads: one at a time. Errors: false, and the reason in `why`.
 */

enum { TAIL_WHY_BYTES = 256 };

struct tail;

/* `bytes` are lent until it returns. NULL, 0: what follows does not continue what came before. */
typedef void tail_take(void *context, const char *bytes, size_t count);

/* The path is copied. `history`: the last so many bytes of the file are read first; the first line is torn then. */
bool tail_open(const char *path, uint64_t history_bytes, struct tail **out, char why[static TAIL_WHY_BYTES]);

/* To the end as it is now (at most 64 MiB at a time); true: there was something. */
bool tail_read(struct tail *tail, tail_take *take, void *context);

/* How often the file was cut. */
uint32_t tail_cut_count(const struct tail *tail);

/* Leaves NULL. Accepts NULL in *tail. */
void tail_close(struct tail **tail);
