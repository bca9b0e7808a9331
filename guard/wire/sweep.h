/* SPDX-License-Identifier: MIT */
/*
 * sweep.h - deleting a namespace's entries in steps of bounded work, one SCAN of one master and a DEL for each name
 * that it brought; and one entry, without a script.
 *
 *   sweep_step() --> SCAN cursor, of these roles; fence --> DEL, DEL, DEL --> `stepped`: the next cursor
 *
 * The fence is a write that changes nothing: a replica, and a master that has lost its replicas, would answer the
 * SCAN.
 *
 * Threads  that of the connection. No I/O of its own.
 */
#pragma once

#include "../base/key.h"
#include "../core/core.h"
#include "../redis/redis.h"

enum { SWEEP_CURSOR_SIZE = 24 };

struct sweep {
    /* set by the owner, which keeps it until `stepped` was called: */
    struct redis *redis;
    const char *name_space;
    enum key_role roles[2];
    unsigned shard;
    char cursor[SWEEP_CURSOR_SIZE]; /* "0": from the beginning */
    /* Once, never from inside sweep_step(). False: the step must be taken again. True: the cursor is the next one;
     * "0": the master has been gone through. */
    void (*stepped)(void *context, bool done);
    void *context;
    uint64_t values; /* deleted so far */
    /* sweep.c's: */
    char next_cursor[SWEEP_CURSOR_SIZE];
    unsigned awaited;
    bool failed;
    char why[128]; /* what Redis said last, if it refused; "": nothing */
};

/* False: it could not be sent, and `stepped` is not called. */
bool sweep_step(struct sweep *sweep);

/*
 * ---- an invalidation without its script ----
 *
 * For a key whose slot moves.
 *
 * While a slot moves Redis runs no script over several of its keys, but single commands: DEL lease, and once that is
 * confirmed DEL value, each at the master that has the key. The lease goes first: nothing can be stored under it once
 * the value has gone, and no other is granted before the slot has moved, for that takes a script. Then its message.
 *
 * The failure lease stays: until it runs out its failure is answered, as before the invalidation.
 *
 * Threads  that of the connection. No I/O of its own.
 */

/* Replies as the script invalidate does; `replied` once. channel: of the wake-ups; copied. False: it could not be
 * sent, and is not answered. */
bool deletion_send(struct redis *redis, const char *name_space, const char *channel,
                   const struct core_key *key, redis_replied *replied, void *context);
