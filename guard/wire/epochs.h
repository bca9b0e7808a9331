/* SPDX-License-Identifier: MIT */
/*
 * epochs.h - asking Redis for the epochs of some tags, each once; what they mean is in base/tags.h.
 *
 *     one master   one MGET, over the connection that the entries were read over: not while it is down, for the next
 *                  master may not know of an invalidation that this one has confirmed
 *     a Cluster    a lookup for each tag, all in one write: the master of the tags is not that of the entries, and
 *                  answers only as a master; and single keys can be asked for while their slot moves
 *
 * Threads  that of the connection. No I/O of its own.
 */
#pragma once

#include "../base/key.h"
#include "../base/tags.h"
#include "../redis/redis.h"

enum {
    EPOCHS_MAX = 64,                                         /* tags of one question */
    EPOCHS_NAMES_BYTES = 2 * GUARD_TAGS_MAX * KEY_NAME_SIZE, /* likewise */
};

_Static_assert((int)EPOCHS_MAX >= (int)GUARD_TAGS_MAX && EPOCHS_MAX < UINT8_MAX,
               "one entry's fit, as an index and 1 do");

/* A question. Its memory is the owner's, who keeps it until it is answered. */
struct epochs {
    /* the owner's, between begin and send: */
    void (*answered)(void *context); /* once, never from inside epochs_send() */
    void *context;
    /* the answer, by the index that epochs_add() has returned: */
    bool known[EPOCHS_MAX];
    struct tags_clock of[EPOCHS_MAX]; /* of what is known; era 0: it has none */
    /* epochs.c's: */
    size_t count, names_bytes, head_bytes;
    unsigned awaited;
    struct epochs_part {
        struct epochs *epochs;
    } parts[EPOCHS_MAX];
    size_t ends[EPOCHS_MAX];        /* of the names of the tags' keys, one behind the other */
    uint8_t places[2 * EPOCHS_MAX]; /* by the hash of the tag: its index and 1; 0: free */
    char names[EPOCHS_NAMES_BYTES];
};

void epochs_begin(struct epochs *epochs);
/* An encoded tag. Returns its index, -1: no room for another. */
int epochs_add(struct epochs *epochs, const char *name_space, const struct tag *tag);
/* At least one was added. False: it could not be sent, and is not answered. */
bool epochs_send(struct epochs *epochs, struct redis *redis, bool in_cluster);
