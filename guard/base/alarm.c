/* SPDX-License-Identifier: MIT */
/* alarm.c - see alarm.h. */
#include "alarm.h"
#include <assert.h>
#include <stdlib.h>

enum { FIRST_CAPACITY = 64 };

bool alarms_reserve(struct alarms *alarms)
{
    if (alarms->reserved + 1 >= alarms->capacity) {
        uint32_t capacity = alarms->capacity == 0 ? FIRST_CAPACITY : alarms->capacity * 2;
        if (capacity < alarms->capacity)
            return false;
        struct alarm **heap = realloc(alarms->heap, capacity * sizeof *heap);
        if (heap == NULL)
            return false;
        alarms->heap = heap;
        alarms->capacity = capacity;
    }
    alarms->reserved++;
    return true;
}

void alarms_unreserve(struct alarms *alarms)
{
    assert(alarms->reserved > alarms->count);
    alarms->reserved--;
}

void alarms_clear(struct alarms *alarms)
{
    assert(alarms->count == 0);
    free(alarms->heap);
    *alarms = (struct alarms){0};
}

static void alarm_put(struct alarms *alarms, struct alarm *alarm, uint32_t place)
{
    alarms->heap[place] = alarm;
    alarm->place = place;
}

static void alarm_sift_up(struct alarms *alarms, struct alarm *alarm, uint32_t place)
{
    while (place > 1 && alarms->heap[place / 2]->at_us > alarm->at_us) {
        alarm_put(alarms, alarms->heap[place / 2], place);
        place /= 2;
    }
    alarm_put(alarms, alarm, place);
}

static void alarm_sift_down(struct alarms *alarms, struct alarm *alarm, uint32_t place)
{
    for (uint32_t child = place * 2; child <= alarms->count; child = place * 2) {
        if (child < alarms->count && alarms->heap[child + 1]->at_us < alarms->heap[child]->at_us)
            child++;
        if (alarms->heap[child]->at_us >= alarm->at_us)
            break;
        alarm_put(alarms, alarms->heap[child], place);
        place = child;
    }
    alarm_put(alarms, alarm, place);
}

/* Into a vacant place: at most one of the two directions moves anything. */
static void alarm_settle(struct alarms *alarms, struct alarm *alarm, uint32_t place)
{
    if (place > 1 && alarms->heap[place / 2]->at_us > alarm->at_us)
        alarm_sift_up(alarms, alarm, place);
    else
        alarm_sift_down(alarms, alarm, place);
}

void alarm_set(struct alarms *alarms, struct alarm *alarm, uint64_t at_us)
{
    alarm->at_us = at_us;
    if (alarm->place == 0) {
        assert(alarms->count < alarms->reserved);
        alarms->count++;
        alarm_sift_up(alarms, alarm, alarms->count);
    } else {
        alarm_settle(alarms, alarm, alarm->place);
    }
}

void alarm_unset(struct alarms *alarms, struct alarm *alarm)
{
    if (alarm->place == 0)
        return;
    uint32_t place = alarm->place;
    struct alarm *last = alarms->heap[alarms->count--];
    alarm->place = 0;
    if (last != alarm)
        alarm_settle(alarms, last, place);
}

struct alarm *alarms_first(const struct alarms *alarms)
{
    return alarms->count > 0 ? alarms->heap[1] : NULL;
}
