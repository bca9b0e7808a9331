/* SPDX-License-Identifier: MIT */
/* chance.c - see chance.h. */
#include "chance.h"

uint64_t chance_next(struct chance *chance)
{
    uint64_t z = (chance->state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t chance_below(struct chance *chance, uint64_t bound)
{
    return bound == 0 ? 0 : chance_next(chance) % bound;
}

uint32_t chance_shorten(struct chance *chance, uint32_t value, uint32_t percent)
{
    uint64_t most = (uint64_t)value * percent / 100;
    uint64_t left = value - chance_below(chance, most + 1);
    return left > 0 ? (uint32_t)left : 1;
}

uint32_t chance_backoff(struct chance *chance, uint32_t first, uint32_t most, uint32_t attempt)
{
    uint64_t base = attempt < 32 ? (uint64_t)first << attempt : most;
    if (base > most)
        base = most;
    uint64_t jittered = base / 2 + chance_below(chance, base + 1);
    return jittered > 0 ? (uint32_t)jittered : 1;
}
