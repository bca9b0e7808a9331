/* SPDX-License-Identifier: MIT */
/*
 * contenders.h - what is compared with each other where hits are measured: a constant and a hit in Redis of one catalogd, a
 * near hit of another, and nginx and Varnish, which have the first one behind them. All have one server loop or one worker,
 * Varnish its default threads.
 *
 * Threads: as proc.h has it. Errors: false, and the reason on stderr.
 */
#ifndef LOAD_BENCH_CONTENDERS_H
#define LOAD_BENCH_CONTENDERS_H

#include "load/bench/bench.h"
#include "load/stack/rival.h"

enum contender { CONSTANT, NEAR, HIT, NGINX, VARNISH, CONTENDER_COUNT };

struct contenders {
    struct stack_catalogd catalogd, near;
    struct rival nginx, varnish;
    struct {
        pid_t pid;
        uint16_t port;
    } at[CONTENDER_COUNT]; /* where each is asked; 0: it was not started */
};

/* The two catalogd, `near_setting` ("NEAR_BYTES=...") for the second; the rivals. Stop them also if they did not start. */
bool contenders_start(const struct bench *bench, struct contenders *contenders, const char *near_setting);
bool contenders_start_rivals(struct contenders *contenders);
void contenders_stop(struct contenders *contenders);

#endif
