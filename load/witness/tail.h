/* SPDX-License-Identifier: MIT */
/*
 * tail.h - what is added to a file while others write it, rename it, cut it or begin a new one in its place.
 *
 *     tail_open(): at its end ---> tail_read(): what is new, again and again ---> tail_close()
 *
 * A file that was renamed is read on, until it is renamed again, beside the new one of its name. One that was cut is
 * read from its beginning again; what had been added to it and not been read by then is lost.
 *
 * Threads: one at a time. Errors: false, and the reason in `why`.
 */
#ifndef LOAD_WITNESS_TAIL_H
#define LOAD_WITNESS_TAIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

#endif
