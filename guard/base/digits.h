/* SPDX-License-Identifier: MIT */
/*
 * digits.h - bytes that are a number: eight at a time, for every hit reads a dozen of these.
 *
 * Eight digits in one word become four pairs, then two groups of four, then one number; each step multiplies the more
 * significant half, which stands in the lower bytes, and adds the other. Daniel Lemire, "Quickly parsing eight
 * digits", 2018 (lemire.me/blog).
 *
 * Pure, any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Compilers turn it into a plain load. */
static inline uint64_t load_le64(const void *bytes)
{
    const uint8_t *b = bytes;

    return (uint64_t)b[0] | (uint64_t)b[1] << 8 | (uint64_t)b[2] << 16 | (uint64_t)b[3] << 24 |
           (uint64_t)b[4] << 32 | (uint64_t)b[5] << 40 | (uint64_t)b[6] << 48 | (uint64_t)b[7] << 56;
}

/* False: some byte is no digit, and *out means nothing. `count` is a constant where this is to be quick, and at most
 * 19. */
static inline bool digits_read(const char *text, size_t count, uint64_t *out)
{
    uint64_t number = 0, wrong = 0;

    for (; count >= 8; count -= 8, text += 8) {
        const uint64_t word = load_le64(text), digits = word ^ UINT64_C(0x3030303030303030);
        wrong |= (digits + UINT64_C(0x7676767676767676)) | digits;
        const uint64_t pairs = (digits * (1 + (10 << 8))) >> 8 & UINT64_C(0x00ff00ff00ff00ff);
        const uint64_t fours = (pairs * (1 + (100 << 16))) >> 16 & UINT64_C(0x0000ffff0000ffff);
        number = number * 100000000 + (uint32_t)((fours * (1 + (UINT64_C(10000) << 32))) >> 32);
    }
    for (size_t i = 0; i < count; i++) {
        const unsigned digit = (unsigned char)text[i] ^ (unsigned)'0';
        wrong |= (uint64_t)(digit > 9) << 7;
        number = number * 10 + digit;
    }
    *out = number;
    return (wrong & UINT64_C(0x8080808080808080)) == 0;
}
