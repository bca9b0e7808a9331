/* SPDX-License-Identifier: MIT */
/*
 * wake.h - how many of those that wait are woken at a time.
 *
 * libmicrohttpd walks over all suspended connections for each batch that is resumed, and ten thousand of them lie scattered
 * in memory: a batch must be large enough that answering it costs more than the walk. While others make requests it stays
 * small, because each of their steps waits for a batch.
 *
 * Pure, any thread.
 */
#ifndef APP_WAKE_H
#define APP_WAKE_H

#include <stdbool.h>

enum {
    WAKE_BATCH = 128,     /* the least when alone, the most while others make requests */
    WAKE_PART = 8,        /* when alone, one in so many of the suspended */
    WAKE_MOST = 2048,     /* the most at a time */
    WAKE_FEW = 24,        /* the least while others make requests */
    WAKE_WALKED_FOR = 64, /* suspended connections that may then be walked over for each one that is woken */
};

static inline unsigned wake_clamp(unsigned count, unsigned least, unsigned most)
{
    return count < least ? least : count > most ? most : count;
}

/* alone: nobody has made a request lately. */
static inline unsigned wake_count(unsigned suspended, bool alone)
{
    return alone ? wake_clamp(suspended / WAKE_PART, WAKE_BATCH, WAKE_MOST)
                 : wake_clamp(suspended / WAKE_WALKED_FOR, WAKE_FEW, WAKE_BATCH);
}

/* The guard calls back for some waiters in each turn. While many more come, the loop waits until they are a batch. *waking:
 * how many there were in the turn before; becomes how many there are. */
static inline bool wake_gathers(unsigned *waking, unsigned now, unsigned batch)
{
    const unsigned before = *waking;

    *waking = now;
    return now >= before + WAKE_FEW && now < batch;
}

#endif
