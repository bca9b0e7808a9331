/* SPDX-License-Identifier: MIT */
/*
 * epochs.h - asking Redis for the epochs of an entry's tags; what they mean is in base/tags.h.
 *
 *     one master   one MGET. The entry is read behind it, over the same connection, as only a master answers
 *     a Cluster    a lookup for each tag, all in one write: the master of the tags is not that of the entry, and answers
 *                  only as a master; and single keys can be asked for while their slot moves
 *
 * Threads  that of the connection. No I/O of its own.
 */
#ifndef GUARD_EPOCHS_H
#define GUARD_EPOCHS_H

#include "../base/tags.h"
#include "../redis/redis.h"

struct epochs_asked {
    /* set by the owner, which keeps it until it is answered: */
    void (*answered)(void *context); /* once, never from inside epochs_ask() */
    void *context;
    /* the answer: */
    struct tags_epochs epochs;
    /* epochs.c's: */
    unsigned awaited;
    struct epochs_part {
        struct epochs_asked *asked;
    } parts[GUARD_TAGS_MAX];
};

/* `tags` are sound, at least one. False: it could not be sent, and is not answered. */
bool epochs_ask(struct epochs_asked *asked, struct redis *redis, const char *name_space, bool in_cluster,
                const char *tags, size_t tags_bytes);

#endif
