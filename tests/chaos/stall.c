/* SPDX-License-Identifier: MIT */
/* stall.c - see stall.h. */
#include "tests/chaos/stall.h"

#include "tests/chaos/scene.h"

#include "load/base/net.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { LOOK_EVERY_MS = 10, STALL_MS = SCENE_REDIS_LIMIT_MS }; /* from there on commands are given up */

struct stall {
    struct history *history;
    pthread_t thread;
    atomic_bool ends;
};

static void *watch(void *context)
{
    struct stall *stall = context;
    uint64_t last_us = net_now_us();
    while (!atomic_load(&stall->ends)) {
        net_pause_ms(LOOK_EVERY_MS);
        uint64_t now_us = net_now_us();
        if (now_us - last_us >= (uint64_t)STALL_MS * 1000)
            history_add_stall(stall->history, &(struct history_stall){.begin_us = last_us, .end_us = now_us});
        last_us = now_us;
    }
    return NULL;
}

bool stall_begin(struct history *history, struct stall **out)
{
    struct stall *stall = calloc(1, sizeof *stall);
    if (stall == NULL)
        return false;
    stall->history = history;
    if (pthread_create(&stall->thread, NULL, watch, stall) != 0) {
        free(stall);
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
    atomic_store(&stall->ends, true);
    pthread_join(stall->thread, NULL);
    free(stall);
}
