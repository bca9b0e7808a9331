/* SPDX-License-Identifier: MIT */
/*
 * redis/reign.h - which master the connections of one process work for: the same one, or none is answered.
 *
 * A reign is the time of one master: it has the name that the master gives its history (INFO replication,
 * master_replid), which a promotion and a restart change (so does its first replica: then only connections are lost).
 * The generation is its number in this process:
 *
 *     a connection is made            seen = redis_reign_now()
 *     its greeting has been answered  redis_reign_join(seen, name): the present reign, or one that begins with it
 *     the connection is told that     redis_reign_end(): READONLY, a replica. The master is not known until one is
 *     its server is no master         confirmed
 *     a reply comes, a while passes   its generation is no longer redis_reign_now(): the connection is given up
 *
 * So the first connection that finds a new master ends all others of its process, whatever the old one still says:
 * each looks at the number before it takes a reply. What began to be asked after an invalidation was confirmed at
 * the new master is never answered by the old one.
 *
 * A login that may not ask for the name has no reigns that follow one another: only redis_reign_end() moves the
 * number on then.
 *
 * Threads  any.
 */
#ifndef GUARD_REDIS_REIGN_H
#define GUARD_REDIS_REIGN_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { REDIS_REIGN_BYTES = 40 };

struct redis_reign {
    _Atomic uint64_t generation;
    pthread_mutex_t mutex;            /* below */
    char name[REDIS_REIGN_BYTES + 1]; /* "": not known, or over */
    void (*ended)(void *context);     /* the generation has moved on; under the mutex; may be NULL */
    void *context;
};

void redis_reign_init(struct redis_reign *reign, void (*ended)(void *context), void *context);
void redis_reign_clear(struct redis_reign *reign);

static inline uint64_t redis_reign_now(const struct redis_reign *reign)
{
    return atomic_load(&reign->generation);
}

/* name: "": unknown. False: while it was asked, another master was confirmed or this one's reign ended; ask again. */
bool redis_reign_join(struct redis_reign *reign, uint64_t seen, const char *name, uint64_t *generation);

/* Nothing happens if that generation is over already. */
void redis_reign_end(struct redis_reign *reign, uint64_t generation);

#endif
