/* SPDX-License-Identifier: MIT */
/* clock.c - see clock.h. */
#include "clock.h"
#include <errno.h>
#include <sys/random.h>
#include <time.h>

static uint64_t read_clock_us(clockid_t id)
{
    struct timespec now;
    clock_gettime(id, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

uint64_t clock_now_us(void)
{
    return read_clock_us(CLOCK_BOOTTIME);
}

uint64_t clock_now_ms(void)
{
    return clock_now_us() / 1000;
}

uint64_t clock_tick(void)
{
    return read_clock_us(CLOCK_MONOTONIC_COARSE);
}

uint64_t clock_wall_s(void)
{
    return read_clock_us(CLOCK_REALTIME) / 1000000;
}

bool clock_random(void *out, size_t bytes)
{
    uint8_t *at = out;
    while (bytes > 0) {
        ssize_t got = getrandom(at, bytes, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return false;
        at += got;
        bytes -= (size_t)got;
    }
    return true;
}

void clock_uuid(const uint8_t random[16], char out[CLOCK_UUID_SIZE])
{
    static const char DIGITS[] = "0123456789abcdef";
    char *at = out;
    for (int i = 0; i < 16; i++) {
        uint8_t byte = random[i];
        if (i == 6)
            byte = (uint8_t)((byte & 0x0f) | 0x40);
        if (i == 8)
            byte = (uint8_t)((byte & 0x3f) | 0x80);
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *at++ = '-';
        *at++ = DIGITS[byte >> 4];
        *at++ = DIGITS[byte & 15];
    }
    *at = '\0';
}
