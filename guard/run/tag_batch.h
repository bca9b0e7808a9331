/* SPDX-License-Identifier: MIT */
/*
 * tag_batch.h - the epochs that all the entries of one turn of a loop need, asked for together, each tag once in a
 * command (wire/epochs.h).
 *
 * They are sent when the turn is over, before the lookups of that turn (lookup.h): under load one command serves many
 * hits. 6 KiB for each turn that Redis has not answered yet.
 *
 * Threads  that of the loop.
 */
#pragma once

#include "state.h"

/* Its memory is the owner's, who keeps it until it is answered. */
struct tag_asker {
    /* the owner's: */
    void (*answered)(void *context); /* once, never from inside tag_batch_join() */
    void *context;
    /* the answer: */
    struct tags_epochs epochs;
    /* tag_batch.c's: */
    struct tag_asker *prev, *next;
    uint8_t which[GUARD_TAGS_MAX]; /* by the index in the question */
};

/* `tags` are sound, at least one; copied. False: no memory, or the loop has closed its connection; it is not
 * answered. */
bool tag_batch_join(struct loop *loop, struct tag_asker *asker, const char *tags, size_t bytes);
/* Sends what has joined. */
void tag_batch_send(struct loop *loop);
