/* SPDX-License-Identifier: MIT */
/* course.c - time, dice, events and verdict of one seed. */
#include "course.h"

#include <stdio.h>

void course_begin(struct course *course, uint64_t seed, bool trace)
{
    struct events events = course->events;
    events.count = 0;
    events.numbered = 0;
    *course = (struct course){.seed = seed, .now_us = 1000000, .trace = trace};
    course->chance = (struct chance){.state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1};
    course->events = events;
}

uint64_t course_between(struct course *course, uint64_t low, uint64_t high)
{
    return low + chance_below(&course->chance, high - low + 1);
}

bool course_one_in(struct course *course, uint32_t chances)
{
    return chance_below(&course->chance, chances) == 0;
}

void course_at(struct course *course, uint64_t at_us, struct event event)
{
    event.at_us = at_us;
    events_push(&course->events, event);
}

static void fail(struct course *course, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void fail(struct course *course, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    course_fail(course, format, args);
    va_end(args);
}

bool course_next(struct course *course, uint64_t until_us, struct event *out)
{
    if (!course->failed && course->events_seen > COURSE_EVENTS_MOST)
        fail(course, "does not come to rest");
    bool due =
        !course->failed && events_next_us(&course->events) <= until_us && events_pop(&course->events, out);
    if (!due && course->now_us < until_us)
        course->now_us = until_us;
    if (!due)
        return false;
    course->now_us = out->at_us > course->now_us ? out->at_us : course->now_us;
    course_note(course, out->at_us);
    course_note(course, (uint64_t)out->kind << 48 | (uint64_t)out->process << 40 | out->subject);
    course_note(course, (uint64_t)out->version << 48 | out->key);
    course->events_seen++;
    return true;
}

/* A step of splitmix64: a moved bit moves half of those of all that follow. */
void course_note(struct course *course, uint64_t number)
{
    struct chance mixed = {.state = course->hash ^ number};
    course->hash = chance_next(&mixed);
}

void course_trace(struct course *course, const char *format, va_list args)
{
    if (!course->trace)
        return;
    printf("%10.3f ms  ", (double)course->now_us / 1000);
    vprintf(format, args);
    putchar('\n');
}

void course_fail(struct course *course, const char *format, va_list args)
{
    if (course->failed)
        return;
    vsnprintf(course->failure, sizeof course->failure, format, args);
    course->failed = true;
    if (course->trace)
        printf("%10.3f ms  !!! %s\n", (double)course->now_us / 1000, course->failure);
}
