/* SPDX-License-Identifier: MIT */
/*
 * clock.h - the only place in app/ that asks the operating system for the time; libuv's loops have their own
 * uv_now().
 *
 * And how threads are started, whose timed waits are in that time.
 *
 * Any thread.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* Never jumps; instants and deadlines are in this one unless they say otherwise. */
uint64_t clock_ms(void);
/* The same in microseconds. */
uint64_t clock_fine_us(void);
/* Until the deadline; 0 once it has passed. */
uint32_t clock_left_ms(uint64_t deadline_ms);
/* The instant in span_ms, for a condition of thread_condition_init(). */
struct timespec clock_in_ms(uint32_t span_ms);

/* Goes on while the machine sleeps. */
uint64_t clock_boot_ms(void);
/* The date. */
struct timespec clock_wall(void);
/* The same in milliseconds since 1970. */
uint64_t clock_wall_ms(void);
/* So long ago. */
struct timespec clock_wall_before(uint64_t span_us);

/* ---- threads ---- */

/* With all signals blocked: they belong to the main thread, which waits for them. */
bool thread_start(pthread_t *thread, void *(*run)(void *), void *context);
/* Timed waits on it take clock_in_ms(). */
void thread_condition_init(pthread_cond_t *condition);
