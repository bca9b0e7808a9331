/* SPDX-License-Identifier: MIT */
/*
 * story.h - what has happened in the playground, one sentence each; the page shows the last of them.
 *
 * Threads: any.
 */
#ifndef LOAD_GROUND_STORY_H
#define LOAD_GROUND_STORY_H

#include <jansson.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

enum { STORY_KEPT = 24, STORY_TEXT_BYTES = 400 };

/* How the page draws it. */
enum story_kind { STORY_DEED = 0, STORY_RESULT, STORY_TROUBLE };

struct story {
    pthread_mutex_t lock;
    uint64_t count; /* told so far: the next one's number */
    struct {
        uint64_t at_ms; /* the date */
        enum story_kind kind;
        char text[STORY_TEXT_BYTES];
    } told[STORY_KEPT]; /* number n stands at n % STORY_KEPT */
};

void story_init(struct story *story);
void story_tell(struct story *story, enum story_kind kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* [{"n","at_ms","kind","text"}], oldest first. Yours. */
json_t *story_json(struct story *story);

/* 1234 as "1 234", as the page has it; reports leave four digits together. Returns `text`. */
enum { STORY_COUNT_BYTES = 32 };
const char *story_count(uint64_t count, char text[static STORY_COUNT_BYTES]);

#endif
