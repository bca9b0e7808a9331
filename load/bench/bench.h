/* SPDX-License-Identifier: MIT */
/*
 * bench.h - what the measurements of the benchmark share: the servers, the samples, the table.
 *
 *     bench.c           the list of measurements, the machine, main()
 *     bench_hits.c      what a hit costs, beside a constant, nginx and Varnish
 *     bench_sizes.c     hits of 1 KiB to 1 MiB, beside constants as long; copies
 *     bench_burst.c     cold bursts over two processes, beside nginx
 *     bench_misses.c    Redis commands of a hit, round trips of a miss
 *     bench_waiters.c   ten thousand waiters
 *     bench_rolling.c   one hot product that expires every second, beside nginx
 *     bench_avalanche.c thousands of products that expire together
 *     bench_merge.c     different keys at once: what has to wait as one query, and a query for each
 *     bench_growth.c    how cost grows: over HTTP; bench_growth_inside.c: of the library alone
 *     bench_gate.c      what a request costs, counted; against gate.txt
 *     bench_report.c    rows, verdicts
 *     watched.h         a catalogd under callgrind, strace or DHAT
 *     hall.h            a burst in which every answer must be a 200; one that waits in one process until the product is
 *                       stored, and when that is; pace.h of herd/, wrk.h of stack/: what else asks
 *     host.h            a guard on a loop of its own, without HTTP
 *     contenders.h      what is compared where hits are measured
 *     stack/            service.h: a catalogd that is ready; rival.h: what else answers, a
 *                       server of constants, too
 *
 * A measurement starts the services it needs, repeats what it compares in turns (A B A B, never all A and
 * then all B, so that a machine that grows slower does so for both), adds rows to the table and stops its
 * services. A row shows the median of its repetitions and how far they spread.
 *
 * Threads: all from one, see proc.h.
 */
#ifndef LOAD_BENCH_BENCH_H
#define LOAD_BENCH_BENCH_H

#include "load/herd/burst.h"
#include "load/herd/pace.h"
#include "load/report/table.h"
#include "load/stack/service.h"
#include "load/stack/stack.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- rows: bench_report.c ---- */

enum goal_kind {
    GOAL_NONE = 0,
    GOAL_AT_LEAST,    /* the median */
    GOAL_AT_MOST,     /* the median */
    GOAL_ALL_AT_MOST, /* every repetition */
};

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

static inline struct goal all_at_most(double limit)
{
    return (struct goal){GOAL_ALL_AT_MOST, limit};
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
    BENCH_AVALANCHE_PRODUCTS = 3000,
    BENCH_GATE_PRODUCTS = 1280,
}; /* besides those that the other measurements take */

struct bench {
    struct stack_redis redis;
    struct stack_postgres postgres;
    uint32_t next_product; /* nobody has asked for it yet */
    bool gate_closed;      /* something costs more than gate.txt says */
};

extern const char bench_query_marker[]; /* what PostgreSQL logs when products are loaded */

/* catalogd over the two servers with these settings ("NAME=value", ends with NULL) over the defaults; returns
 * when it is ready and connected to Redis. */
bool bench_service_start(const struct bench *bench, struct stack_catalogd *catalogd,
                         const char *const *settings);

/* Two of them. */
bool bench_pair_start(const struct bench *bench, struct service_pair *pair, const char *const *settings);

/* "/products/{id}" of a row that exists and that nobody has asked for. */
void bench_cold_path(struct bench *bench, char path[static BURST_PATH_BYTES]);

/* The id of the first of so many such products: all have ids in turn. */
uint32_t bench_cold_products(struct bench *bench, uint32_t count);

/* One GET that must be answered with 200; one for each of so many products. */
bool bench_ask(uint16_t port, const char *path);
bool bench_ask_each(uint16_t port, uint32_t first, uint32_t count);

/* pace_begin() and pace_run() of herd/pace.h; all must be answered with 200. */
bool bench_pace_begin(const struct pace *pace, struct herd **out, uint64_t *begin_us);
bool bench_pace_end(struct herd **herd, struct latencies *out);
bool bench_pace(const struct pace *pace, struct latencies *out);

/* Runs it in a process of its own, which ends without closing anything: what it writes to *outcome is all that counts.
 * False: it returned false, or took too long. */
typedef bool bench_part(struct bench *bench, const void *of, void *outcome);
bool bench_apart(struct bench *bench, bench_part *part, const void *of, void *outcome, size_t outcome_bytes,
                 uint32_t limit_ms);

/* bench_merge.c: so many keys of the library alone, each asked for by itself, at once. */
struct bench_keys_at_once {
    uint32_t count, workers;
    uint32_t permits; /* 0: no limit of the fleet */
    bool stale;       /* they are there, and to be refreshed; else they are cold */
    bool apart;       /* each is a query of its own */
};
struct bench_at_once {
    double queries, at_once;
    double ms; /* until all are answered, or refreshed */
};
bool bench_at_once(struct bench *bench, const struct bench_keys_at_once *course, struct bench_at_once *out);

/* ---- measurements ---- */

bool measure_hits(struct bench *bench);
bool measure_sizes(struct bench *bench);
bool measure_burst(struct bench *bench);
bool measure_misses(struct bench *bench);
bool measure_loads(struct bench *bench);
bool measure_waiters(struct bench *bench);
bool measure_rolling(struct bench *bench);
bool measure_avalanche(struct bench *bench);
bool measure_merge(struct bench *bench);
bool measure_growth(struct bench *bench);
bool measure_gate(struct bench *bench);

#endif
