/* SPDX-License-Identifier: MIT */
/*
 * hundred.h - a hundred processes of the service on one Redis Cluster, each in a network of its own.
 *
 * For as long as wanted: everybody is asked for a product that nobody has asked for, at the same instant. Each must
 * make one load and be answered by all. Needs root, see network.h.
 *
 * Threads: the one that first used proc.h.
 */
#ifndef TESTS_CHAOS_HUNDRED_H
#define TESTS_CHAOS_HUNDRED_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { HUNDRED = 100 };

/* True: one load per product, and every request answered with 200. Everything it started is gone. */
bool hundred_run(uint32_t seconds, FILE *out);

#endif
