/* SPDX-License-Identifier: MIT */
/*
 * ticker.h - a thread that does something at a steady pace until it is told to stop.
 *
 *     ticker_start() --> tick, tick, ... --> ticker_end() --> ticker_join(): a last tick, then the thread is gone
 *
 * A tick that takes longer than the pace delays the next one; those missed are not made up for. The thread hears
 * no signal.
 *
 * Threads: all functions from one thread; ticks come from the ticker's own.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

typedef void ticker_tick(void *context, bool is_last);

struct ticker {
    pthread_t thread;
    bool is_running;
    int end_fd; /* owned; readable as soon as it is to end: who waits in a tick waits for this, too */
    uint32_t every_ms;
    ticker_tick *tick;
    void *context; /* lent until ticker_join() */
};

/* False: no thread or no descriptor to be had; errno says why. */
bool ticker_start(struct ticker *ticker, uint32_t every_ms, ticker_tick *tick, void *context);

/* Returns at once. Accepts a ticker that is all zeros or joined, as does ticker_join(). */
void ticker_end(struct ticker *ticker);

/* Ends it and waits for the last tick. */
void ticker_join(struct ticker *ticker);
