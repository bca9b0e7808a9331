/* SPDX-License-Identifier: MIT */
/*
 * nemesis.h - a seeded schedule of disasters, and its execution.
 *
 *     nemesis_plan()   pure: the same seed, the same plan
 *     nemesis_run()    strikes and mends in the order of the plan's times, writes each fault into the history
 *
 * A party (a process, a server, a route of the proxy) has one fault at a time; those of different parties meet.
 * A mend that takes long (a server that starts) delays what comes behind it, it leaves nothing out: when
 * nemesis_run() returns, everything was mended.
 *
 * Threads: all from one, the scene's.
 */
#pragma once

#include "tests/chaos/history.h"
#include "tests/chaos/scene.h"

enum { NEMESIS_MAX = 4096 };

struct nemesis_entry {
    struct fault fault;        /* its times are filled in by the run */
    uint32_t begin_ms, end_ms; /* from the beginning of the plan */
    uint32_t amount_ms;        /* of a link's fault, see proxy.h */
};

struct nemesis_options {
    uint64_t seed;
    uint32_t span_ms;             /* everything is mended by then */
    uint32_t gap_ms;              /* between two blows, on average */
    size_t first_mortal;          /* processes before this one are not killed */
    enum fault_topology topology; /* 0: one Redis */
};

struct nemesis_plan {
    struct nemesis_entry entries[NEMESIS_MAX]; /* by begin_ms */
    size_t count;
};

void nemesis_plan(const struct nemesis_options *options, struct nemesis_plan *out);

/* Called between two blows and at least every 100 ms; false ends the run early, everything mended. */
typedef bool nemesis_idle(void *context);

/* Runs the plan to its span. False: something could not be mended, or `idle` said so; the reason is on stderr. */
bool nemesis_run(struct nemesis_plan *plan, uint32_t span_ms, struct scene *scene, struct history *history,
                 nemesis_idle *idle, void *context);
