/* SPDX-License-Identifier: MIT */
/* ticker.c - see ticker.h. */
#include "load/base/ticker.h"

#include "load/base/clock.h"
#include "load/base/net.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void *run(void *context)
{
    const struct ticker *ticker = context;
    const uint64_t every_us = (uint64_t)ticker->every_ms * 1000;
    uint64_t next_us = clock_us();
    do {
        ticker->tick(ticker->context, false);
        next_us += every_us;
        if (next_us < clock_us())
            next_us = clock_us();
    } while (!net_wait(ticker->end_fd, POLLIN, next_us));
    ticker->tick(ticker->context, true);
    return NULL;
}

/* Signals are for the thread that knows what to do with them. */
static int start_deaf(struct ticker *ticker)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&ticker->thread, NULL, run, ticker);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

bool ticker_start(struct ticker *ticker, uint32_t every_ms, ticker_tick *tick, void *context)
{
    *ticker = (struct ticker){.every_ms = every_ms, .tick = tick, .context = context};
    ticker->end_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (ticker->end_fd == -1)
        return false;
    int error = start_deaf(ticker);
    ticker->is_running = error == 0;
    if (error != 0) {
        close(ticker->end_fd);
        errno = error;
    }
    return error == 0;
}

void ticker_end(struct ticker *ticker)
{
    const uint64_t one = 1;
    if (ticker->is_running && write(ticker->end_fd, &one, sizeof one) != sizeof one)
        perror("stampede: the clock thread cannot be ended");
}

void ticker_join(struct ticker *ticker)
{
    if (!ticker->is_running)
        return;
    ticker_end(ticker);
    pthread_join(ticker->thread, NULL);
    close(ticker->end_fd);
    ticker->is_running = false;
}
