/* SPDX-License-Identifier: MIT */
/* stall.c - see stall.h. */
#include "tests/chaos/stall.h"

#include "tests/chaos/scene.h"

#include "load/base/clock.h"
#include "load/base/ticker.h"

#include <stdlib.h>

enum { LOOK_EVERY_MS = 10, STALL_MS = SCENE_REDIS_LIMIT_MS }; /* from there on commands are given up */

struct stall {
    struct history *history;
    struct ticker ticker;
    uint64_t last_us;
};

static void look(void *context, bool is_last)
{
    struct stall *stall = context;
    uint64_t now_us = clock_us();
    (void)is_last;
    if (now_us - stall->last_us >= (uint64_t)STALL_MS * 1000)
        history_add_stall(stall->history,
                          &(struct history_stall){.begin_us = stall->last_us, .end_us = now_us});
    stall->last_us = now_us;
}

bool stall_begin(struct history *history, struct stall **out)
{
    struct stall *stall = calloc(1, sizeof *stall);
    if (stall == NULL)
        return false;
    stall->history = history;
    stall->last_us = clock_us();
    if (!ticker_start(&stall->ticker, LOOK_EVERY_MS, look, stall)) {
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
    ticker_join(&stall->ticker);
    free(stall);
}
