/* SPDX-License-Identifier: MIT */
/* chance.c - see chance.h. */
#include "chance.h"
#include "digest.h"

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

/* Of a number that is not 0, in units of 2^-16: the digits of the logarithm by squaring. */
static uint64_t log2_fixed(uint64_t number)
{
    unsigned whole = 63 - (unsigned)__builtin_clzll(number);
    uint64_t mantissa = number << (63 - whole) >> 32, log = whole; /* 2^31 up to 2^32 stand for 1 up to 2 */
    for (int digit = 0; digit < 16; digit++) {
        mantissa = mantissa * mantissa >> 31;
        log = log << 1 | mantissa >> 32;
        mantissa >>= mantissa >> 32;
    }
    return log;
}

uint64_t chance_exponential(struct chance *chance, uint64_t mean)
{
    enum { LN_2 = 45426 }; /* in units of 2^-16 */
    uint64_t halvings = (UINT64_C(64) << 16) - log2_fixed(chance_next(chance) | 1);
    return mean * (halvings * LN_2 >> 16) >> 16;
}

uint32_t chance_backoff(struct chance *chance, uint32_t first, uint32_t most, uint32_t attempt)
{
    uint64_t base = attempt < 32 ? (uint64_t)first << attempt : most;
    if (base > most)
        base = most;
    uint64_t jittered = base / 2 + chance_below(chance, base + 1);
    return jittered > 0 ? (uint32_t)jittered : 1;
}

void chance_from_secret(struct chance_secret *secret, uint8_t out[CHANCE_SECRET_BYTES])
{
    secret->used++;
    digest_sha256(secret, sizeof *secret, out);
}
_Static_assert(sizeof(struct chance_secret) == CHANCE_SECRET_BYTES + sizeof(uint64_t),
               "no padding is hashed");
