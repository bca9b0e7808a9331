/* SPDX-License-Identifier: MIT */
/*
 * load.h - one running load, as its loader sees it: the handle, and the verdict that it leaves.
 *
 * Threads   the one that runs the loader, but for what its fields say.
 * Lifetime  made by workers.c for a job; the owner of its report frees it.
 */
#ifndef GUARD_LOAD_H
#define GUARD_LOAD_H

#include "../core/core.h"
#include "../wire/envelope.h"
#include <stdatomic.h>

struct nested;
struct worker;

struct finished_load {
    struct finished_load *next; /* for the owner's list */
    uint64_t load;
    struct core_loaded loaded;
    const char *key;
    const char *breach; /* what the loader did against its contract, a static text; NULL: nothing */
};

void finished_load_free(struct finished_load *finished);

struct guard_load {
    struct finished_load result;    /* first: what the owner gets is freed as a guard_load */
    struct guard_load *prev, *next; /* queued or running, the first of a batch; under the mutex */
    struct guard_load *mate;        /* the next of its batch; not changed once queued */
    uint64_t deadline_us, start_us;
    const struct guard_policy *policy;
    int cancel_fd; /* the worker's, or its own if it is nested; -1: none; under the mutex until it runs */
    bool has_previous;
    char previous_validator[ENVELOPE_VALIDATOR_MAX + 1];
    atomic_bool cancelled;
    struct guard_keep keep; /* only on the worker's thread, like the next five */
    bool kept;              /* the loader has said that */
    bool finished;
    struct worker *worker;     /* whose thread runs it */
    struct guard_load *parent; /* waits for this one on the same thread; NULL: none */
    uint32_t depth;            /* how many do */
    struct nested *nested;     /* its loader waits for another key; under the mutex; NULL: it does not */
    size_t tags_bytes;
    char *tags; /* room for TAGS_TEXT_MAX and NUL behind the key if its kind is tagged; else NULL */
    char key[]; /* owned */
};

/* Fails a load that is over and has no verdict. */
void load_unfinished(struct guard_load *load, bool thread_ends);

#endif
