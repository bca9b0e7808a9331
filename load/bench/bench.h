/* SPDX-License-Identifier: MIT */
/*
 * bench.h - what the measurements of the benchmark share: the servers, the samples, the table.
 *
 *     bench.c           the list of measurements, the machine, main()
 *     bench_hits.c      what a hit costs, beside a constant, nginx and Varnish
 *     bench_loads.c     loads by libpq: threads that wait, or deferred to the loop
 *     bench_waiters.c   ten thousand waiters
 *     bench_growth.c    how the cost of the library alone grows
 *     bench_gate.c      what a request costs, counted; against gate.txt
 *     bench_report.c    rows, verdicts
 *     host.h            a guard on a loop of its own, without HTTP
 *     stack/            stack.h: a catalogd that is ready; rival.h: what else answers and asks
 *
 * A measurement starts the services it needs, repeats what it compares in turns (A B A B, never all A and
 * then all B, so that a machine that grows slower does so for both), adds rows to the table and stops its
 * services. A row shows the median of its repetitions and how far they spread.
 *
 * Threads: all from one, see proc.h.
 */
#pragma once

#include "load/herd/burst.h"
#include "load/report/table.h"
#include "load/stack/stack.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- rows: bench_report.c ---- */

enum goal_kind {
    GOAL_NONE = 0,
    GOAL_AT_LEAST,
    GOAL_AT_MOST,
};

/* Of the median. */
struct goal {
    enum goal_kind kind;
    double limit;
};
static const struct goal none = {GOAL_NONE, 0};

static inline struct goal at_least(double limit)
{
    return (struct goal){GOAL_AT_LEAST, limit};
}

static inline struct goal at_most(double limit)
{
    return (struct goal){GOAL_AT_MOST, limit};
}

/* One row. `unit` is lent until report_print(), everything else is copied. `decimals`: 0 to 2. */
void report_row(const char *what, const char *unit, unsigned decimals, const struct samples *samples,
                struct goal goal);
/* The same of one of several contenders: "who: what". */
void report_row_of(const char *who, const char *what, const char *unit, unsigned decimals,
                   const struct samples *samples, struct goal goal);
/* A curve: a row with a bar for each point, "what, X of". */
void report_curve(const char *what, const char *unit, unsigned decimals, const char *of, const double *xs,
                  const double *ys, size_t count);
/* A heading; printf-like. */
void report_heading(const char *format, ...) __attribute__((format(printf, 1, 2)));
void report_print(void);

/* What is being done now: begin, a number for each repetition, end. Returns `good`. */
void progress_begin(const char *text);
void progress_repetition(size_t number);
bool progress_end(bool good);

/* ---- servers: bench.c ---- */

enum {
    BENCH_MANY_PRODUCTS = 10000,
    BENCH_GATE_PRODUCTS = 1280,
}; /* besides those that the other measurements take */

struct bench {
    struct stack_redis redis;
    struct stack_postgres postgres;
    uint32_t next_product; /* nobody has asked for it yet */
    bool gate_closed;      /* something costs more than gate.txt says */
};

/* catalogd over the two servers with these settings ("NAME=value", ends with NULL) over the defaults; returns
 * when it is ready and connected to Redis. */
bool bench_service_start(const struct bench *bench, struct stack_catalogd *catalogd,
                         const char *const *settings);

/* "/products/{id}" of a row that exists and that nobody has asked for. */
void bench_cold_path(struct bench *bench, char path[static BURST_PATH_BYTES]);

/* The id of the first of so many such products: all have ids in turn. */
uint32_t bench_cold_products(struct bench *bench, uint32_t count);

/* One GET that must be answered with 200; one for each of so many products. */
bool bench_ask(uint16_t port, const char *path);
bool bench_ask_each(uint16_t port, uint32_t first, uint32_t count);

/* Runs it in a process of its own, which ends without closing anything: what it writes to *outcome is all that
 * counts. False: it returned false, or took too long. */
typedef bool bench_part(struct bench *bench, const void *of, void *outcome);
bool bench_apart(struct bench *bench, bench_part *part, const void *of, void *outcome, size_t outcome_bytes,
                 uint32_t limit_ms);

/* ---- measurements ---- */

bool measure_hits(struct bench *bench);
bool measure_loads(struct bench *bench);
bool measure_waiters(struct bench *bench);
bool measure_growth(struct bench *bench);
bool measure_gate(struct bench *bench);
