/* SPDX-License-Identifier: MIT */
/*
 * witness_postgres.h - what PostgreSQL answers when asked: counters, and where it logs.
 *
 *     open --> begin: counter --> finish: counter again
 *
 * One session for all of it. It logs nothing itself where it may decide that (as a superuser), writes nothing, and
 * its statements begin with WITNESS_OURS, so that nobody counts them.
 *
 * Threads: one. Errors: false, and the reason in `why`.
 */
#pragma once

#include "load/witness/witness_view.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct witness_postgres;

/* `options` with a database_url; copied, its texts are lent until ..._close(). Within 3 s. */
bool witness_postgres_open(const struct witness_options *options, struct witness_postgres **out,
                           char why[static WITNESS_WHY_BYTES]);
bool witness_postgres_begin(struct witness_postgres *postgres, char why[static WITNESS_WHY_BYTES]);

/* How many loads run in this instant; 0 if nobody answers. A leader of parallel workers counts once. */
uint32_t witness_postgres_running(struct witness_postgres *postgres);

/* Within 700 ms: for STATEMENTS loads go into the view. If the counter cannot be had any more, view->way becomes
 * NONE. */
void witness_postgres_finish(struct witness_postgres *postgres, struct witness_view *view);

enum witness_mark {
    WITNESS_MARKED,   /* a statement of ours with this number is in the log by now, or will be at once */
    WITNESS_UNLOGGED, /* not each statement of this role is logged, and it may not change that */
    WITNESS_UNMARKED  /* no answer */
};

enum witness_mark witness_postgres_mark(struct witness_postgres *postgres, uint64_t number, uint32_t limit_ms,
                                        char why[static WITNESS_WHY_BYTES]);

/* As the last mark found it: is each statement logged of who sets nothing? */
bool witness_postgres_is_loud_by_default(const struct witness_postgres *postgres);

/* Where the server says that it logs to, for the words of an error. */
void witness_postgres_log_place(struct witness_postgres *postgres, char *text, size_t text_bytes);

/* The file that the server logs to, if it is on this machine and can be read. */
bool witness_postgres_find_log(struct witness_postgres *postgres, char path[static WITNESS_PATH_BYTES],
                               char why[static WITNESS_WHY_BYTES]);

/* Leaves NULL. Accepts NULL in *postgres. */
void witness_postgres_close(struct witness_postgres **postgres);
