/* SPDX-License-Identifier: MIT */
/*
 * drips.h - clients who begin a request, send little more of it, or the same again, for ever, and come back as soon
 * as they are hung up on.
 *
 * Threads: one of its own for all of them, from open to close; the rest on the test's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DRIPS_MAX = 512, DRIPS_EVERY_MS = 50 };

struct drips_options {
    const char *host; /* see net.h */
    uint16_t port;
    size_t count;
    const char *begun; /* what each sends at once */
    size_t begun_bytes;
    const char *drip; /* and then again and again; NULL: nothing more */
};

struct drips;

/* Returns when all have sent what they begin with, once. `options` and its texts are lent until drips_close(). */
bool drips_open(const struct drips_options *options, struct drips **out);
/* How often the server has hung up on one of them. */
uint64_t drips_hung_up(const struct drips *drips);
void drips_close(struct drips **drips);
