/* SPDX-License-Identifier: MIT */
/*
 * clock.h - the only place that asks the operating system for time and chance. Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Monotonic, going on while the machine sleeps: a lease that ran out meanwhile must look so. */
uint64_t clock_now_us(void);
uint64_t clock_now_ms(void);
/* Another number every few milliseconds that the machine is awake; costs a fifth of a look at the time. */
uint64_t clock_tick(void);
/* Wall clock, for people only; nothing decides by it. */
uint64_t clock_wall_s(void);

/* From the kernel. False: none to be had (no such system call, as in a broken sandbox). */
bool clock_random(void *out, size_t bytes);

/* A UUID of version 4 (RFC 9562, 5.4) in lower case and its NUL. */
enum { CLOCK_UUID_SIZE = 37 };
void clock_uuid(const uint8_t random[16], char out[CLOCK_UUID_SIZE]);
