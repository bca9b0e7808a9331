/* SPDX-License-Identifier: MIT */
/* herd_shared.c - see herd_shared.h. */
#include "load/herd/herd_shared.h"

#include "load/base/clock.h"

#include <unistd.h>

void herd_ring(int bell)
{
    const uint64_t one = 1;
    ssize_t written = write(bell, &one, sizeof one);
    (void)written; /* it cannot be full: 2^64 rings */
}

static bool all_are_ready(const struct herd_shared *shared, const struct work *work, uint64_t done_us)
{
    for (uint32_t i = 0; i < work->generator_count; i++) {
        if (!atomic_load(&shared->posts[i].is_gone) && atomic_load(&shared->posts[i].done_us) != done_us)
            return false;
    }
    return true;
}

uint64_t herd_round_due_us(const struct herd_shared *shared, const struct work *work, uint64_t done_us)
{
    if (done_us == 0 || !all_are_ready(shared, work, done_us))
        return 0;
    uint64_t pause_us = (uint64_t)work->pause_ms * 1000;
    uint64_t soon_us = clock_us() + (pause_us > HERD_AHEAD_US ? pause_us : HERD_AHEAD_US);
    uint64_t every_us = done_us + (uint64_t)work->every_ms * 1000;
    return every_us > soon_us ? every_us : soon_us;
}

void herd_next_round(struct herd_shared *shared, const struct work *work, uint64_t done_us, int bell)
{
    uint64_t due_us = work->holds_rounds ? 0 : herd_round_due_us(shared, work, done_us);
    if (due_us != 0 && atomic_compare_exchange_strong(&shared->begin_us, &done_us, due_us))
        herd_ring(bell);
}
