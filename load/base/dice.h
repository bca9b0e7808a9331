/* SPDX-License-Identifier: MIT */
/*
 * dice.h - chance that is the same for the same seed.
 *
 * The state is one number, the caller's; any value is a good seed.
 */
#pragma once

#include <stdint.h>

/* 64 random bits (splitmix64). */
uint64_t dice_next(uint64_t *state);

/* Above 0 and below 1. */
double dice_part(uint64_t *state);

/* 0 to count - 1; count at most 2^32. */
uint64_t dice_below(uint64_t *state, uint64_t count);

/*
 * Zipf's law: rank r of 1 to rank_count has the probability r^-exponent / sum of all. Drawn by rejection-inversion
 * (Hoermann and Derflinger, ACM TOMACS 6, 1996): no table, however many ranks there are.
 */
struct dice_zipf {
    uint32_t rank_count;
    double exponent;
    double first, last; /* the integral of the law's hat over all ranks */
    double certain;     /* so close to its rank, a draw needs no second look */
};

/* rank_count at least 1, exponent above 0. */
void dice_zipf_init(struct dice_zipf *zipf, uint32_t rank_count, double exponent);
uint32_t dice_zipf_draw(const struct dice_zipf *zipf, uint64_t *state);
