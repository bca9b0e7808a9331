/* SPDX-License-Identifier: MIT */
/* stall.c - see stall.h. */
#include "tests/chaos/stall.h"

#include "load/base/net.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { LOOK_EVERY_MS = 10, STALL_MS = 100 }; /* less than half of the limit of a command of Redis */

struct stall {
    struct history *history;
    pthread_t thread;
    atomic_bool ends;
};

static void note(struct stall *stall, uint64_t begin_us, uint64_t end_us)
{
    static const enum fault_party sides[] = {FAULT_OF_REDIS, FAULT_OF_POSTGRES};
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++)
        history_add_fault(stall->history, &(struct fault){.kind = FAULT_LINK_SILENT,
                                                          .side = sides[i],
                                                          .process = FAULT_EVERYBODY,
                                                          .begin_us = begin_us,
                                                          .end_us = end_us});
}

static void *watch(void *context)
{
    struct stall *stall = context;
    uint64_t last_us = net_now_us();
    while (!atomic_load(&stall->ends)) {
        net_pause_ms(LOOK_EVERY_MS);
        uint64_t now_us = net_now_us();
        if (now_us - last_us >= (uint64_t)STALL_MS * 1000)
            note(stall, last_us, now_us);
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
