/* SPDX-License-Identifier: MIT */
/*
 * rush.h - the crowd of the playground: N requests at one instant, half of them at each process; what became of them, and
 * the sentence that says it.
 *
 * Threads: one at a time. Errors: false, told as trouble.
 */
#ifndef LOAD_GROUND_RUSH_H
#define LOAD_GROUND_RUSH_H

#include "load/ground/site.h"
#include "load/herd/record.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum { RUSH_REQUESTS_MAX = 3000, RUSH_PRODUCTS = 100 };

struct rush {
    uint32_t requests;
    bool is_many;          /* RUSH_PRODUCTS products that nobody has asked for; otherwise the one */
    bool is_warm;          /* the product is left in the cache */
    bool hits;             /* something happens to the process that loads ... */
    struct site_order hit; /* ... this */
};

struct rush_result {
    char mode[SITE_MODE_BYTES];
    uint32_t requests, ok, failed, refused; /* 200, no answer, another status */
    uint32_t reset;                         /* of the failed: their connection ended */
    uint32_t caches[RECORD_CACHES];
    uint64_t queries;
    uint64_t loads[DEED_PROCESSES]; /* of each process; 0 of one that died */
    uint64_t saved;                 /* mode shadow: what the guard would have saved */
    uint64_t p50_us, max_us, span_us;
};

/* Blocks until all are answered or their time is up. */
bool rush_run(struct site *site, const struct rush *rush, struct rush_result *out);

/* Tells what happened. */
void rush_tell(struct site *site, const struct rush *rush, const struct rush_result *result);

/* {"mode","requests","queries",...}. Yours. */
json_t *rush_json(const struct rush_result *result);

#endif
