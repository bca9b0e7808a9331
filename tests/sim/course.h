/* SPDX-License-Identifier: MIT */
/*
 * course.h - what one seed stands for while it runs: its time, its dice, the queue of its events, its verdict. A
 * simulator begins its world with one.
 *
 * Time     now_us is the world's; only course_next() moves it on.
 * Threads  none. Two courses of one seed are the same, event for event.
 */
#pragma once

#include "guard/base/chance.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { COURSE_TEXT = 256, COURSE_EVENTS_MOST = 400000 };

struct event {
    uint64_t at_us, number; /* number: first in, first out among equals */
    uint32_t kind;          /* the simulator's */
    uint32_t process, life; /* life: 0 or the process's life it belongs to */
    uint32_t subject;       /* command, load, request, write or fault */
    uint32_t key;
    uint32_t subscription; /* MESSAGE: what is on its way when one ends is lost with it */
    bool gone;
    bool filled;      /* MESSAGE */
    uint64_t lease;   /* MESSAGE, filled: the number of its tag */
    bool of_tag;      /* MESSAGE: key is that of a tag, subject the command */
    uint16_t version; /* MESSAGE: nothing older is in Redis */
};

struct events {
    struct event *heap; /* owned */
    size_t count, capacity;
    uint64_t numbered;
};

void events_clear(struct events *events);
void events_push(struct events *events, struct event event);
bool events_pop(struct events *events, struct event *out);
uint64_t events_next_us(const struct events *events);

struct course {
    uint64_t seed, now_us;
    struct chance chance;
    struct events events;
    bool trace, failed;
    char failure[COURSE_TEXT];
    uint64_t events_seen;
    uint64_t hash; /* of what happened and when, in numbers: the same until a decision changes */
};

/* Keeps the memory of its events for the next seed. */
void course_begin(struct course *course, uint64_t seed, bool trace);
uint64_t course_between(struct course *course, uint64_t low, uint64_t high);
bool course_one_in(struct course *course, uint32_t chances);
void course_at(struct course *course, uint64_t at_us, struct event event);
/* The next event due by then; false: there is none, or it has failed. */
bool course_next(struct course *course, uint64_t until_us, struct event *out);
/* Takes one number into the hash. */
void course_note(struct course *course, uint64_t number);
void course_trace(struct course *course, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));
void course_fail(struct course *course, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));
