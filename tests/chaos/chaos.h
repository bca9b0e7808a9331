/* SPDX-License-Identifier: MIT */
/*
 * chaos.h - a fleet under a storm of faults, and whether it kept its promises.
 *
 *     round:  crowd begins --> storm (nemesis) --> all mended --> healthy within a bound --> calm: only 200s
 *             --> crowd ends --> nobody waits, nothing loads --> cold keys: one load each --> history judged
 *
 * A run is as many rounds as fit. One that stood still for most of its calm shows nothing of it and is repeated; a
 * few such rounds in a row end the run as broken. What was confirmed in one round holds in the next. A violation
 * keeps the round's history as a file that `chaos check FILE` judges again.
 *
 * Threads: one run at a time, on the thread that first used proc.h.
 */
#pragma once

#include "tests/chaos/fault.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct chaos_options {
    uint64_t seed;
    enum fault_topology topology; /* 0: one Redis */
    uint32_t seconds;             /* for all rounds; at least one is run whole */
    uint32_t storm_ms;            /* of one round */
    uint32_t gap_ms;              /* between two blows, on average */
    uint32_t client_count, writer_count;
    uint32_t client_pause_ms, writer_pause_ms;
    bool soak;           /* sample what the processes use; it must end flat */
    const char *keep_in; /* folder for histories of violations */
    FILE *out;
};

/* A storm as it comes, and a gentle one for hours. */
void chaos_options_init(struct chaos_options *options, bool soak);

/* True: every promise kept. Everything it started is gone. */
bool chaos_run(const struct chaos_options *options);

/* Judges a history that was kept; prints the verdict. */
bool chaos_check(const char *path, FILE *out);
