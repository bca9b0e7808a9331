/* SPDX-License-Identifier: MIT */
/*
 * random.h - 64 random bits from a state of 64: splitmix64. Good for chance and for names that must differ, not for
 * secrets.
 *
 * Pure, any thread.
 */
#pragma once

#include <stdint.h>

static inline uint64_t random_next(uint64_t *state)
{
    uint64_t bits = *state += UINT64_C(0x9e3779b97f4a7c15);

    bits = (bits ^ bits >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    bits = (bits ^ bits >> 27) * UINT64_C(0x94d049bb133111eb);
    return bits ^ bits >> 31;
}
