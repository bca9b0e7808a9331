/* SPDX-License-Identifier: MIT */
/* breaker.c - see breaker.h. */
#include "breaker.h"

bool breaker_allow(struct breaker *breaker, uint64_t now_us)
{
    if (breaker->state == BREAKER_CLOSED)
        return true;
    if (breaker->state == BREAKER_HALF_OPEN || !breaker->link_up || now_us < breaker->open_until_us)
        return false;
    breaker->state = BREAKER_HALF_OPEN;
    return true;
}

void breaker_answered(struct breaker *breaker)
{
    breaker->state = BREAKER_CLOSED;
    breaker->failures = 0;
    breaker->openings = 0;
}

void breaker_heard(struct breaker *breaker, uint64_t now_us)
{
    if (breaker->state != BREAKER_OPEN || !breaker->link_up || now_us < breaker->open_until_us)
        return;
    breaker->state = BREAKER_CLOSED;
    breaker->failures = BREAKER_TRIP - 1;
}

static void open_for_a_pause(struct breaker *breaker, uint64_t now_us, struct chance *chance)
{
    uint32_t pause_ms = chance_backoff(chance, BREAKER_PAUSE_MS, BREAKER_MAX_PAUSE_MS, breaker->openings);
    breaker->state = BREAKER_OPEN;
    breaker->open_until_us = now_us + (uint64_t)pause_ms * 1000;
    breaker->openings++;
    breaker->opened_count++;
    breaker->failures = 0;
}

void breaker_unanswered(struct breaker *breaker, uint64_t now_us, struct chance *chance)
{
    breaker->failures++;
    bool probe_failed = breaker->state == BREAKER_HALF_OPEN;
    if (probe_failed || (breaker->state == BREAKER_CLOSED && breaker->failures >= BREAKER_TRIP))
        open_for_a_pause(breaker, now_us, chance);
}

void breaker_link(struct breaker *breaker, uint64_t now_us, bool up)
{
    breaker->link_up = up;
    if (up && breaker->openings <= 1 && breaker->open_until_us > now_us)
        breaker->open_until_us = now_us;
}

void breaker_forget(struct breaker *breaker)
{
    *breaker = (struct breaker){.opened_count = breaker->opened_count};
}
