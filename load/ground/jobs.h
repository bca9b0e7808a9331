/* SPDX-License-Identifier: MIT */
/*
 * jobs.h - what takes the playground a while, one at a time by a thread of its own: a crowd, or the same crowd in every mode.
 *
 * Threads: jobs_open() and jobs_close() from one, the others from any.
 */
#ifndef LOAD_GROUND_JOBS_H
#define LOAD_GROUND_JOBS_H

#include "load/ground/rush.h"

enum { JOBS_MODES = 4 };

struct job {
    bool is_comparison;         /* in every mode, the one after the other; otherwise in `mode` */
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
    const char *running_mode; /* of a comparison: the one it is at */
    uint64_t queries_before;  /* the crowd */
    /* by mode, requests 0: none yet; that in which the loading process was hit stands apart */
    struct rush_result last[JOBS_MODES], compared[JOBS_MODES], hit;
};

/* "off", "local", "fleet", "shadow": the order of a comparison. NULL: there are no more. */
const char *jobs_mode(size_t index);

bool jobs_open(struct jobs *jobs, struct site *site);
/* The crowd under way is not waited for: it ends with the program. */
void jobs_close(struct jobs *jobs);

/* False: one is under way. */
bool jobs_begin(struct jobs *jobs, const struct job *job);
bool jobs_busy(struct jobs *jobs);

/* As state.h has it: {"job":{...} or null,"last":{mode or "hit":...},"compared":{mode:...}}. Yours. */
json_t *jobs_json(struct jobs *jobs);

#endif
