/* SPDX-License-Identifier: MIT */
/*
 * chance.h - jitter and backoff from a seeded generator (splitmix64; Steele, Lea, Flood, OOPSLA 2014).
 * For spreading work in time only; tokens come from the operating system (clock.h), or from a secret that it gave
 * where it gives nothing any more: a sandbox may be closed behind a process that has started.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct chance {
    uint64_t state;
};

uint64_t chance_next(struct chance *chance);
/* 0..bound-1; 0 when bound is 0. */
uint64_t chance_below(struct chance *chance, uint64_t bound);

/* The value shortened by a random 0..percent of itself, at least 1. */
uint32_t chance_shorten(struct chance *chance, uint32_t value, uint32_t percent);

/* Exponentially distributed with this mean: -ln(u) * mean. At most 45 times the mean; mean below 2^40. */
uint64_t chance_exponential(struct chance *chance, uint64_t mean);

/* Exponential backoff with jitter: first * 2^attempt, at most `most`, then +-50 %. The jitter keeps the
 * processes of a fleet from retrying in step (Brooker, "Exponential Backoff And Jitter", AWS 2015). */
uint32_t chance_backoff(struct chance *chance, uint32_t first, uint32_t most, uint32_t attempt);

/* What nobody can guess who does not know the secret, and never the same twice: SHA-256 of it and of `used`, which
 * counts. One owner. */
enum { CHANCE_SECRET_BYTES = 32 };
struct chance_secret {
    uint8_t bytes[CHANCE_SECRET_BYTES]; /* from the operating system */
    uint64_t used;
};
void chance_from_secret(struct chance_secret *secret, uint8_t out[CHANCE_SECRET_BYTES]);
