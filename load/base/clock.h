/* SPDX-License-Identifier: MIT */
/*
 * clock.h - the time, for load/ and the tests.
 *
 * Instants are microseconds of CLOCK_MONOTONIC, unless their name says "wall". Threads: any.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

uint64_t clock_us(void);
/* Since 1970. */
uint64_t clock_wall_us(void);

/* By how much the wall clock is ahead of clock_us() now. Two looks by the caller could have a stall between them. */
uint64_t clock_wall_ahead_us(void);

/* The instant so long from now: until when something is waited for. */
uint64_t clock_after_ms(uint64_t span_ms);

/* CPU time of this process so far, all its threads. */
uint64_t clock_cpu_us(void);

/* Signals do not end it. */
void clock_pause_ms(uint32_t pause_ms);

/* Waits until the condition is signalled; false: end_us has come. */
bool clock_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t end_us);
