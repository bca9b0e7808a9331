/* SPDX-License-Identifier: MIT */
/*
 * say.h - what the guard says to an operator, a line at a time: to the host's log, or to stderr where it has none.
 *
 *     stampede-guard shop: redis 10.0.0.7:6379: connect: connection refused
 *
 * What is not printable ASCII is escaped as \xNN, so a key cannot forge a line or move a cursor. Of each subject
 * SAY_BURST lines pass in SAY_WINDOW_MS, none of them twice in a row; the last line withheld is said when the window
 * is over. On stderr, which belongs to the host, good news is told only after bad; a line leaves in one write(2), or
 * not at all where that would block, and the next one that does says how many did not. No signal is raised.
 *
 * Threads   any. `mutex` guards the gates; it is not held while anything is written or the host's log called.
 */
#pragma once

#include "../guard.h"
#include <pthread.h>
#include <stdatomic.h>

enum { SAY_BURST = 5, SAY_WINDOW_MS = 10000, SAY_TEXT_SIZE = 768 };

enum say_subject { SAY_REDIS, SAY_WAKE, SAY_LOADER, SAY_CALLER, SAY_SUBJECTS };
enum say_tone { SAY_BAD, SAY_GOOD };

struct say_gate {
    uint64_t since_us; /* of its window */
    uint32_t passed, withheld;
    bool troubled; /* bad news was the last */
    char last[SAY_TEXT_SIZE];
};

struct say {
    guard_log *log; /* NULL: stderr */
    void *context;
    const char *name_space; /* lent */
    atomic_uint lost;       /* lines that stderr did not take, since it took one */
    pthread_mutex_t mutex;
    struct say_gate gates[SAY_SUBJECTS];
};

/* What is lent is so until say_clear(). A zeroed one becomes one that speaks. */
void say_init(struct say *say, const char *name_space, guard_log *log, void *context);
void say_clear(struct say *say);

void say(struct say *say, enum say_subject subject, enum say_tone tone, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Says what was withheld in windows that are over; to be called now and then. UINT64_MAX: in all windows. */
void say_rest(struct say *say, uint64_t now_us);
/* In the child of a fork: to stderr even if the host has a log, because a lock of the host may be held for ever
 * there. */
void say_in_child(const struct say *say, const char *format, ...) __attribute__((format(printf, 2, 3)));
