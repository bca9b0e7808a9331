/* SPDX-License-Identifier: MIT */
/*
 * usage.h - what a server has used of the machine.
 *
 * Threads: any.
 */
#ifndef LOAD_BENCH_USAGE_H
#define LOAD_BENCH_USAGE_H

#include <stdint.h>
#include <sys/types.h>

/* User and system time of the process, all its threads and its living children; in steps of 10 ms. */
uint64_t usage_cpu_us(pid_t pid);

#endif
