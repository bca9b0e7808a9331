/* SPDX-License-Identifier: MIT */
/*
 * growth.h - the points at which bench_growth.c measures the library alone: each in a process of its own that opens
 * guards over the bench's Redis.
 *
 * Threads: as proc.h has it. Errors: false, and the reason on stderr.
 */
#ifndef LOAD_BENCH_GROWTH_H
#define LOAD_BENCH_GROWTH_H

#include "load/bench/bench.h"

/* So many keys are loaded, then all are asked for again, over Redis and out of the near cache. */
struct growth_keys {
    double load_us, hit_us, near_us;           /* CPU of the process for each */
    double redis_bytes, near_bytes, rss_bytes; /* memory for each */
};
/* Each value has so many bytes and each entry so many tags. */
struct growth_keys_of {
    uint32_t keys, value_bytes, tags;
    bool is_near;
};
bool growth_keys(struct bench *bench, struct growth_keys_of of, struct growth_keys *out);

/* So many requests of one process wait for one load. */
struct growth_waiters {
    double ask_us, answer_us; /* CPU of the process for each */
    double bytes;             /* memory for each */
};
bool growth_waiters(struct bench *bench, uint32_t waiters, struct growth_waiters *out);

/* So many guards, each with connections of its own, as many processes would have them; all ask for one cold key at once,
 * then one invalidates it. */
struct growth_fleet {
    double miss_commands, miss_messages,
        miss_polls; /* that Redis ran; that the guards heard, sent, all together */
    double loads;
    double miss_ms, invalidate_ms; /* until the last is answered; until it is confirmed */
    double invalidate_commands, invalidate_messages;
};
bool growth_fleet(struct bench *bench, uint32_t guards, struct growth_fleet *out);

#endif
