/* SPDX-License-Identifier: MIT */
/*
 * alarm.h - many deadlines, one question: which is next? A binary heap of intrusive alarms.
 *
 * Room is reserved before an alarm is first set, so that setting it can never fail. Pure; one thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct alarm {
    uint64_t at_us;
    uint32_t place; /* 1-based place in the heap, 0 when not set */
    unsigned owner; /* the caller's: what kind of thing the alarm is in */
};

struct alarms {
    struct alarm **heap; /* owned; heap[0] is unused */
    uint32_t count, reserved, capacity;
};

/* Makes room for one more owner; give it back with alarms_unreserve(). False: no memory. */
bool alarms_reserve(struct alarms *alarms);
void alarms_unreserve(struct alarms *alarms);
void alarms_clear(struct alarms *alarms);

void alarm_set(struct alarms *alarms, struct alarm *alarm, uint64_t at_us);
void alarm_unset(struct alarms *alarms, struct alarm *alarm);

/* The earliest, or NULL. */
struct alarm *alarms_first(const struct alarms *alarms);
