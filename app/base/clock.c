/* SPDX-License-Identifier: MIT */
/* clock.c - see clock.h. */
#include "app/base/clock.h"

#include <signal.h>

static struct timespec read_clock(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return now;
}

static uint64_t ms_of(struct timespec instant)
{
    return (uint64_t)instant.tv_sec * 1000 + (uint64_t)instant.tv_nsec / 1000000;
}

uint64_t clock_ms(void)
{
    return ms_of(read_clock(CLOCK_MONOTONIC));
}

uint64_t clock_fine_us(void)
{
    const struct timespec now = read_clock(CLOCK_MONOTONIC);

    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

uint32_t clock_left_ms(uint64_t deadline_ms)
{
    const uint64_t now_ms = clock_ms();

    return now_ms < deadline_ms ? (uint32_t)(deadline_ms - now_ms) : 0;
}

struct timespec clock_in_ms(uint32_t span_ms)
{
    struct timespec instant = read_clock(CLOCK_MONOTONIC);

    instant.tv_nsec += (long)(span_ms % 1000) * 1000000;
    instant.tv_sec += span_ms / 1000 + instant.tv_nsec / 1000000000;
    instant.tv_nsec %= 1000000000;
    return instant;
}

uint64_t clock_boot_ms(void)
{
    return ms_of(read_clock(CLOCK_BOOTTIME));
}

struct timespec clock_wall(void)
{
    return read_clock(CLOCK_REALTIME);
}

uint64_t clock_wall_ms(void)
{
    return ms_of(clock_wall());
}

struct timespec clock_wall_before(uint64_t span_us)
{
    struct timespec instant = read_clock(CLOCK_REALTIME);

    instant.tv_sec -= (time_t)(span_us / 1000000);
    instant.tv_nsec -= (long)(span_us % 1000000) * 1000;
    if (instant.tv_nsec < 0) {
        instant.tv_nsec += 1000000000;
        instant.tv_sec--;
    }
    return instant;
}

/* ---- threads ---- */

bool thread_start(pthread_t *thread, void *(*run)(void *), void *context)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool started = pthread_create(thread, NULL, run, context) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

void thread_condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t monotonic;

    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &monotonic);
    pthread_condattr_destroy(&monotonic);
}
