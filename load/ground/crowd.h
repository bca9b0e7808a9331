/* SPDX-License-Identifier: MIT */
/*
 * crowd.h - the crowd of the playground: N requests at one instant, half of them at each process; what became of
 * them, and the sentence that says it. One crowd at a time, by a thread of its own (a job).
 *
 * Threads: jobs_open() and jobs_close() from one, the others from any. Errors: false,
 * told as trouble.
 */
#pragma once

#include "load/ground/site.h"

#include <jansson.h>

#include <stdbool.h>
#include <stdint.h>

enum { RUSH_REQUESTS_MAX = 3000, RUSH_PRODUCTS = 100 };

struct rush {
    uint32_t requests;
    bool is_many;          /* RUSH_PRODUCTS products; otherwise the one */
    bool is_warm;          /* each of them is asked for before; otherwise none is in the cache */
    bool hits;             /* something happens to the process that loads ... */
    struct site_order hit; /* ... this */
};

/* What a client has of its request, and its Cache-Status says. */
enum rush_end {
    RUSH_ASKED,
    RUSH_WAITED,
    RUSH_FLEET,
    RUSH_HIT,
    RUSH_STALE,
    RUSH_REFUSED,
    RUSH_RESET,
    RUSH_SILENT,
    RUSH_ENDS
};

struct rush_result {
    char mode[SITE_MODE_BYTES];
    uint32_t requests, ok;
    uint32_t ends[DEED_PROCESSES][RUSH_ENDS]; /* of the requests to each process */
    uint64_t queries;                         /* for the products of the crowd, whoever wanted them */
    uint64_t saved;                           /* mode shadow: what the guard would have saved */
    uint64_t max_us;                          /* of those answered */
};

/* ---- a crowd as a job ---- */

/* The page's guide: without a guard, with it, and with a process that dies. */
enum job_step { JOB_NO_STEP = 0, JOB_OFF, JOB_FLEET, JOB_HIT, JOB_STEPS };

struct job {
    enum job_step step;         /* what its result is kept for */
    char mode[SITE_MODE_BYTES]; /* set before; "": as it is */
    struct rush rush;
};

struct jobs {
    struct site *site; /* lent */
    pthread_t thread;
    bool is_open;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* under lock */
    bool is_busy, is_closing;
    struct job job;
    uint64_t queries_before;             /* the crowd */
    struct rush_result steps[JOB_STEPS]; /* requests 0: none yet */
};

/* "off", "fleet", "hit"; JOB_NO_STEP: none of that name. */
enum job_step jobs_step(const char *name);

bool jobs_open(struct jobs *jobs, struct site *site);
/* False: a crowd is under way and not waited for; it uses `jobs` and `site` until the program ends. */
bool jobs_close(struct jobs *jobs);

/* False: one is under way. */
bool jobs_begin(struct jobs *jobs, const struct job *job);
bool jobs_busy(struct jobs *jobs);

/* As state.h has it: {"job":{...} or null,"steps":{...}}. Yours. */
json_t *jobs_json(struct jobs *jobs);
