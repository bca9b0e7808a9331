/* SPDX-License-Identifier: MIT */
/*
 * witness_tally.h - calls by command, out of Redis's INFO, and what was added between two readings.
 *
 * Pure.
 */
#ifndef LOAD_WITNESS_WITNESS_TALLY_H
#define LOAD_WITNESS_WITNESS_TALLY_H

#include "load/witness/witness_view.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WITNESS_TALLY_MAX = 512 }; /* Redis has some 400 commands; what is beyond counts as "other" */

struct witness_tally {
    struct witness_command at[WITNESS_TALLY_MAX];
    size_t count;
};

/* The lines "cmdstat_get:calls=5,..." of a text; others are passed over. */
void witness_tally_read(struct witness_tally *tally, const char *info);

uint64_t witness_tally_get(const struct witness_tally *tally, const char *name);
void witness_tally_add(struct witness_tally *tally, const char *name, uint64_t calls);
/* Not below 0. */
void witness_tally_subtract(struct witness_tally *tally, const char *name, uint64_t calls);

/* Adds to `sum` what `now` has more than `before`. A counter that went backwards was reset: it counts from 0. True:
 * one did. */
bool witness_tally_advance(struct witness_tally *sum, const struct witness_tally *before,
                           const struct witness_tally *now);

/* Into the view: the most frequent first, those without calls left out. */
void witness_tally_show(const struct witness_tally *tally, struct witness_view *view);

/* ---- clients ---- */

/*
 * Who used a Redis: the reply to CLIENT LIST, by address and name.
 *
 * Redis counts its commands for all clients together. (Each client's own number, tot-cmds, came with Redis 8, and not by
 * command.) So where there are several kinds of clients, nobody can say which commands are the service's; a reader can be
 * told that there are.
 *
 * Pure.
 */

enum { WITNESS_CLIENT_KINDS_MAX = 6, WITNESS_CLIENT_BYTES = 64 };

struct witness_clients {
    struct witness_client_kind {
        char host[WITNESS_CLIENT_BYTES], name[WITNESS_CLIENT_BYTES]; /* "": it has none */
        uint32_t count;
    } kinds[WITNESS_CLIENT_KINDS_MAX];
    size_t kind_count;
    uint32_t more; /* clients of further kinds */
};

/* Those that ran a command within the last active_s seconds, but for the one with the id. */
void witness_clients_read(struct witness_clients *clients, const char *list, uint64_t own_id,
                          uint64_t active_s);

/* "127.0.0.1 \"shop\" (4), 10.0.0.9 (1)"; returns `text`. */
const char *witness_clients_text(const struct witness_clients *clients, char *text, size_t text_bytes);

#endif
