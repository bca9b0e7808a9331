/* SPDX-License-Identifier: MIT */
/* clock.c - see clock.h. */
#include "load/base/clock.h"

#include <errno.h>
#include <time.h>

static uint64_t read_us(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

uint64_t clock_us(void)
{
    return read_us(CLOCK_MONOTONIC);
}

uint64_t clock_wall_us(void)
{
    return read_us(CLOCK_REALTIME);
}

uint64_t clock_wall_ahead_us(void)
{
    enum { TRIES = 20, CLOSE_US = 20 };
    uint64_t ahead_us = 0, closest_us = UINT64_MAX;
    for (int i = 0; i < TRIES && closest_us > CLOSE_US; i++) {
        const uint64_t before_us = clock_us(), wall_us = clock_wall_us(), took_us = clock_us() - before_us;
        if (took_us >= closest_us)
            continue;
        closest_us = took_us;
        ahead_us = wall_us - (before_us + took_us / 2);
    }
    return ahead_us;
}

uint64_t clock_cpu_us(void)
{
    return read_us(CLOCK_PROCESS_CPUTIME_ID);
}

uint64_t clock_after_ms(uint64_t span_ms)
{
    return clock_us() + span_ms * 1000;
}

void clock_pause_ms(uint32_t pause_ms)
{
    struct timespec pause = {.tv_sec = pause_ms / 1000, .tv_nsec = (long)(pause_ms % 1000) * 1000000};
    while (nanosleep(&pause, &pause) == -1 && errno == EINTR)
        ;
}

bool clock_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t end_us)
{
    const struct timespec end = {.tv_sec = (time_t)(end_us / 1000000),
                                 .tv_nsec = (long)(end_us % 1000000) * 1000};
    return pthread_cond_clockwait(condition, mutex, CLOCK_MONOTONIC, &end) == 0;
}
