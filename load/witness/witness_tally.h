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

#endif
