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

/* The page's guide: without a guard, with it, and with a process that dies. */
enum job_step { JOB_NO_STEP = 0, JOB_OFF, JOB_FLEET, JOB_HIT, JOB_STEPS };

struct job {
    enum job_step step;         /* what its result is kept for */
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
    const char *running_mode;                                  /* of a comparison: the one it is at */
    uint64_t queries_before;                                   /* the crowd */
    struct rush_result steps[JOB_STEPS], compared[JOBS_MODES]; /* requests 0: none yet */
};

/* "off", "fleet", "hit"; JOB_NO_STEP: none of that name. */
enum job_step jobs_step(const char *name);

/* "off", "local", "fleet", "shadow": the order of a comparison. NULL: there are no more. */
const char *jobs_mode(size_t index);

bool jobs_open(struct jobs *jobs, struct site *site);
/* False: a crowd is under way and not waited for; it uses `jobs` and `site` until the program ends. */
bool jobs_close(struct jobs *jobs);

/* False: one is under way. */
bool jobs_begin(struct jobs *jobs, const struct job *job);
bool jobs_busy(struct jobs *jobs);

/* As state.h has it: {"job":{...} or null,"steps":{...},"compared":{...}}. Yours. */
json_t *jobs_json(struct jobs *jobs);

#endif
