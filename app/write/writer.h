/* SPDX-License-Identifier: MIT */
/*
 * writer.h - carries out writes: a bounded queue, workers with database connections of their own, and the
 * invalidation that stands between COMMIT and the answer.
 *
 *     server loop                worker                                guard's thread            server loop
 *     write_job_new()
 *     body arrives
 *     writer_submit() --queue--> parse, one statement, COMMIT
 *                                what does it owe? guard_invalidate() --> all confirmed, or
 *                                                                         not within the limit --> done()
 *
 * If other caches are registered, they must have confirmed within the same limit, too (other_caches.c). So after
 * "visible" any later reader, in any process, finds the new row. If a cache does not confirm in time the change
 * stands all the same: the answer says visible: false, and the outbox goes on (outbox.h). None of this runs on the
 * load workers or on their connections.
 *
 * The room write/ owns everything that changes the database. Its threads: the workers (this file), one that pays what
 * committed changes owe (outbox) and one that waits for other caches (other_caches). Reading order: write (a write as
 * data), store (its statements), writer, outbox, other_caches.
 *
 * Threads: open, drain and close on one thread; the rest on any. `done` is called exactly once for every accepted
 * job, on a worker or on the guard's thread; it must not block.
 */
#pragma once

#include "app/base/settings.h"
#include "app/base/trace.h"
#include "app/write/outbox.h"
#include "app/write/write.h"
#include "guard/guard.h"

#include <stdatomic.h>

struct write_job;
typedef void write_done(struct write_job *job);

/* Filled in by its maker, then the writer's from submit to done. */
struct write_job {
    struct write_job *prev, *next; /* for a list of its holder's */
    enum write_kind kind;
    uint64_t id;                         /* product */
    bool any_version;                    /* WRITE_PRODUCT: If-Match: * */
    char versions[WRITE_VERSIONS_BYTES]; /* otherwise: write_versions_text() */
    char key[WRITE_KEY_SIZE];            /* WRITE_PURCHASE: "" for none */
    write_done *done;
    void *context;
    const struct trace *trace;               /* of its request, lent until done(); NULL: of none */
    size_t body_bytes, body_room, body_size; /* received, that fit, announced */
    struct write_result result;              /* valid from done() on */

    /* the writer's */
    struct writer *writer;
    uint64_t deadline_ms;
    int64_t transaction_id;
    atomic_uint unconfirmed; /* invalidations that are running, and one while they are being started */
    atomic_bool missed;
    char cache[GUARD_CACHE_ID_BYTES + 1]; /* the cache that is invalidated; "": not known */
    bool to_others;                       /* other caches are owed them, too */
    struct other_caches_wait others_wait;

    char body[]; /* body_room of them */
};

enum { WRITE_ROOM_BYTES = 512 }; /* at first; most bodies fit */

/* NULL: no memory. free() frees it. It has room for WRITE_ROOM_BYTES, or for the announced body if that is less. */
struct write_job *write_job_new(enum write_kind kind, uint64_t id, size_t body_size);
/* The room that a job needs for so many bytes in all: at least what it has, never more than was announced. */
size_t write_job_room(const struct write_job *job, size_t bytes);
/* Moves the job before it is submitted. False: no memory, and it stays where it is. */
bool write_job_grow(struct write_job **job, size_t room);

struct writer;

/* NULL: the reason was logged. The settings' texts and the gate are lent until writer_close(). */
struct writer *writer_open(const struct settings *settings, struct guard *guard, struct cache_gate *gate);

/* WRITE_DONE: accepted. WRITE_SHED, WRITE_CLOSING: not, the job is still the caller's. Never blocks. */
enum write_outcome writer_submit(struct writer *writer, struct write_job *job);

/* For so long jobs are still taken and begun; those that have not begun then are answered CLOSING. A running one is
 * finished, within its limit. */
void writer_drain(struct writer *writer, uint32_t drain_ms);
/* After the last done(), before guard_close(). Leaves NULL; accepts NULL in *writer. */
void writer_close(struct writer **writer);

struct writer_stats {
    uint64_t outcomes[WRITE_OUTCOME_COUNT]; /* of jobs; refused ones count as SHED or CLOSING */
    uint64_t invisible;                     /* committed, and answered before all caches confirmed */
    uint64_t unstored;                      /* loads answered and not stored, see cache_gate.h */
    bool may_store;
    uint32_t running, queued;
    struct outbox_stats outbox;
};
void writer_stats(struct writer *writer, struct writer_stats *out);
