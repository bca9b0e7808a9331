/* SPDX-License-Identifier: MIT */
/*
 * watched.h - a catalogd under callgrind or strace, and what it did between two marks: watch.sh does it.
 *
 * Threads: as proc.h has it. Errors: false, and the reason on stderr.
 */
#ifndef LOAD_BENCH_WATCHED_H
#define LOAD_BENCH_WATCHED_H

#include "load/bench/bench.h"

struct watched {
    struct stack_catalogd catalogd;
    char folder[PROC_PATH_BYTES];
};

/* tool: "callgrind" or "strace". One server loop, near values for a minute, and the settings. Stop it also if it did not
 * start. */
bool watched_start(const struct bench *bench, struct watched *watched, const char *tool,
                   const char *const *settings);
void watched_stop(struct watched *watched);

/* From here on. */
bool watched_mark(const struct watched *watched);
/* What it did since, as watch.sh says it. */
bool watched_count(const struct watched *watched, char *text, size_t text_bytes);

#endif
