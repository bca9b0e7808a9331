/* SPDX-License-Identifier: MIT */
/* stall.c - see stall.h. */
#include "tests/chaos/stall.h"

#include "tests/chaos/scene.h"

#include "load/base/clock.h"
#include "load/base/ticker.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

enum { LOOK_EVERY_MS = 10, STALL_MS = SCENE_REDIS_LIMIT_MS }; /* from there on commands are given up */

/* Over one processor; its thread runs nowhere else. */
struct watch {
    struct history *history;
    struct ticker ticker;
    size_t processor;
    bool has_tried; /* to go there */
    uint64_t last_us;
};

struct stall {
    struct watch *watches; /* owned */
    size_t count;
};

/* One that cannot go where it should (the processor was taken away) watches from where it is. */
static void go_there(struct watch *watch)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(watch->processor, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
    watch->has_tried = true;
}

void stall_look(struct history *history, uint64_t *last_us, uint64_t now_us)
{
    if (now_us - *last_us >= (uint64_t)STALL_MS * 1000)
        history_add_stall(history, &(struct history_stall){.begin_us = *last_us, .end_us = now_us});
    *last_us = now_us;
}

static void look(void *context, bool is_last)
{
    struct watch *watch = context;
    (void)is_last;
    stall_look(watch->history, &watch->last_us, clock_us());
    if (!watch->has_tried)
        go_there(watch);
}

static bool watch_all(struct stall *stall, struct history *history, const cpu_set_t *processors)
{
    for (size_t i = 0; i < CPU_SETSIZE; i++) {
        struct watch *watch = &stall->watches[stall->count];
        if (!CPU_ISSET(i, processors))
            continue;
        *watch = (struct watch){.history = history, .processor = i, .last_us = clock_us()};
        if (!ticker_start(&watch->ticker, LOOK_EVERY_MS, look, watch))
            return false;
        stall->count++;
    }
    return true;
}

bool stall_begin(struct history *history, struct stall **out)
{
    struct stall *stall = calloc(1, sizeof *stall);
    cpu_set_t processors;
    if (stall == NULL || sched_getaffinity(0, sizeof processors, &processors) != 0) {
        free(stall);
        return false;
    }
    stall->watches = calloc((size_t)CPU_COUNT(&processors), sizeof *stall->watches);
    if (stall->watches == NULL || !watch_all(stall, history, &processors)) {
        stall_end(&stall);
        return false;
    }
    *out = stall;
    return true;
}

void stall_end(struct stall **slot)
{
    struct stall *stall = *slot;
    *slot = NULL;
    if (stall == NULL)
        return;
    for (size_t i = 0; i < stall->count; i++)
        ticker_join(&stall->watches[i].ticker);
    free(stall->watches);
    free(stall);
}
