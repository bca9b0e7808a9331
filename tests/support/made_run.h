/* SPDX-License-Identifier: MIT */
/*
 * made_run.h - runs made by hand, record by record, for the tests of results.
 */
#pragma once

#include "load/report/result.h"

/* The barrier of all of them. */
enum { MADE_BEGIN_S = 5000 };
#define MADE_BEGIN_US ((uint64_t)MADE_BEGIN_S * 1000000)

struct made_run {
    struct record *at; /* owned */
    size_t count;
    struct record_sample *samples; /* lent until made_run_finish() */
    size_t sample_count;
    struct work work;
    struct witness_view view; /* looked at if source.view points here */
    struct result_source source;
    struct result *result; /* owned; of made_run_finish() */
};

/* So many requests, due at the barrier, answered with 200 after 1 ms; a burst of one round, or a rate of 10 s. There
 * is one run at a time: it is lent until the next one begins. */
struct made_run *made_run_begin(enum work_shape shape, size_t count);
void made_run_finish(struct made_run *run);
