/* SPDX-License-Identifier: MIT */
/*
 * locks.h - locks for a fleet of processes: fair, read-write, several names at once, permits, latch; over one Redis,
 * several independent ones (RedLock), PostgreSQL or ZooKeeper.
 *
 *     struct guard_locks_config config = GUARD_LOCKS_CONFIG_DEFAULTS;
 *     guard_locks_open(&config, &locks, &error);
 *
 *     struct guard_lock_request request = GUARD_LOCK_REQUEST_DEFAULTS;
 *     request.names = (const char *[]){"catalog"};
 *     if (guard_lock_wait(locks, &request, &result, &error) == GUARD_LOCK_OK) {
 *         ...write, with result.fence[0] beside it...
 *         guard_unlock_wait(&result.hold);
 *     }
 *
 * What a lock can promise. A lock is a lease: it ends at a known instant, whether or not its holder has finished. A
 * process can be paused between its last check and its next write, so no lock service can promise that a holder acts
 * alone (Kleppmann, How to do distributed locking, 2016).
 *
 *   An efficiency lock  saves work: two holders at once cost time, not data. Every lock here is one.
 *   A fenced lock       is for work that two must not do; so are the database's own locks. The holder shows its
 *   fencing
 *                       number to what it writes to, before it reads what the write depends on. A number lower than
 *                       one seen before is refused there.
 *
 * Every grant carries a fencing number for each name. An exclusive grant's is above all earlier ones of its name. It
 * fits a bigint of SQL. Only numbers of one provider and namespace can be compared. With REDIS and REDLOCK a number
 * may repeat if the last one is lost before a clock that was set back has caught up with it.
 *
 * When two may hold a name at once, besides a holder that was paused:
 *
 *   REDIS      after Redis lost its memory (restart, FLUSHALL, eviction, failover to a lagging replica) or its clock
 *              jumped ahead: until the first renewal, which a reconnect sends at once
 *   REDLOCK    likewise, if only a bare majority had granted it: then one master that loses its memory without a
 *   restart
 *              is enough. One that restarts does not vote for max_lease_ms
 *   POSTGRES   after a failover to an asynchronous standby
 *   ZOOKEEPER  never, while a majority of the ensemble keeps its data
 *
 * The clocks of all hosts must run at the same rate, within 1 %; their time of day does not matter.
 *
 * Threads    Any thread may call any function, unless it says otherwise. Callbacks run on the locks' own thread. Keep
 *            them short. A call that blocks is INVALID there, and in every callback of guard.h.
 * Once       An accepted request is answered exactly once, never from inside the call that made it, also when it is
 *            cancelled or the locks close. A refused one (a status other than OK from guard_lock()) never is.
 *            What one thread asks for and gives back is done in that order.
 * Ownership  Arguments are *copied*. A hold is *yours* until guard_unlock() takes it. Whatever closes or takes a
 *            handle gets its address and leaves NULL there.
 * Time       Spans are milliseconds. Validity is counted on a monotonic clock that goes on while the machine sleeps,
 *            from the instant at which the last confirmed acquire or renewal was *sent*.
 * Errors     0 is OK. BUSY is an answer, not an error. `struct guard_error` is the caller's and may be NULL; its text
 *            says what is wrong, where and what to do. Nothing here reads or sets errno, raises SIGPIPE or exits.
 *
 * Locks fail closed: while the provider is away, requests wait, and a holder keeps its lock until its validity ends.
 * After fork() the child holds nothing: functions that return a status refuse with INVALID, handles may be closed.
 */
#ifndef GUARD_LOCKS_H
#define GUARD_LOCKS_H

#include "guard.h"

#ifdef __cplusplus
extern "C" {
#endif

struct guard_locks; /* one provider; owns a thread and its connections */
struct guard_owner; /* on whose behalf a lock is held: its requests re-enter its locks, on any thread */
struct guard_hold;  /* what was granted; any thread may give it back */

enum guard_lock_kind {
    GUARD_LOCK_FAIR = 0, /* exclusive; first come, first served */
    GUARD_LOCK_MUTEX,    /* exclusive; a newcomer may overtake those that wait, and starve them */
    GUARD_LOCK_WRITE,    /* FAIR, by the name it has beside READ */
    GUARD_LOCK_READ,     /* beside other readers, but behind a writer that waits */
    GUARD_LOCK_PERMITS,  /* `units` of `limit`; never re-entrant */
    GUARD_LOCK_LATCH, /* OK once `limit` parties are there; units 1: be one of them, 0: only wait. No hold */
};

enum guard_lock_status {
    GUARD_LOCK_OK = 0,
    GUARD_LOCK_BUSY,        /* others had it until wait_ms was over. LATCH: not open yet */
    GUARD_LOCK_UNREACHABLE, /* no answer of the provider within wait_ms: neither granted nor refused */
    GUARD_LOCK_LOST,        /* unlock: the lease had ended, or the provider has forgotten it */
    GUARD_LOCK_UNKNOWN,     /* unlock: not confirmed; the lock ends with its lease at the latest */
    GUARD_LOCK_CANCELLED,   /* guard_lock_cancel() */
    GUARD_LOCK_CLOSING,     /* guard_locks_close() */
    GUARD_LOCK_SHED,        /* max_requests wait here already */
    /* An argument is wrong, or this provider cannot do it, or refuses it until an operator acts (a password, a right,
     * a renamed command, a schema): at once, whatever wait_ms is; the text says which and why. */
    GUARD_LOCK_INVALID,
    GUARD_LOCK_NO_MEMORY,
};
/* "ok", "busy", ...: as in logs. Never NULL. */
GUARD_API const char *guard_lock_status_name(enum guard_lock_status status);

/*
 * Kinds     REDIS all; REDLOCK MUTEX; POSTGRES MUTEX, FAIR, READ, WRITE; ZOOKEEPER all but LATCH. The last two always
 *           queue: MUTEX is FAIR there.
 * A dead holder blocks for its lease; with ZOOKEEPER for the session timeout, which is max_lease_ms.
 */
enum guard_lock_provider {
    GUARD_LOCKS_REDIS = 0,
    /* An odd number of masters, 3 to 9, that replicate nothing and that nobody fails over. Two that are
     * one server, by its run_id, are INVALID. */
    GUARD_LOCKS_REDLOCK,
    GUARD_LOCKS_POSTGRES, /* a direct connection to the primary; through a pooler: INVALID */
    GUARD_LOCKS_ZOOKEEPER,
};
/* Whether this build has that provider; in the shared library, whether POSTGRES's or ZOOKEEPER's plug-in is
 * installed. */
GUARD_API bool guard_locks_has(enum guard_lock_provider provider);

enum { GUARD_LOCK_NAMES_MAX = 8, GUARD_LOCK_NAME_BYTES_MAX = 4096, GUARD_LOCK_UNITS_MAX = 999999 };

struct guard_locks_config {
    size_t struct_size; /* sizeof(struct guard_locks_config) */
    enum guard_lock_provider provider;
    /* Copied. A Redis of locks evicts nothing: `noeviction`.
     * REDIS: one, as guard_config.redis_url, but no Cluster; NULL: redis://127.0.0.1:6379/0.
     * REDLOCK: 3, 5, 7 or 9 of these, no Sentinels, each a master of its own.
     * POSTGRES: one connection string of libpq. ZOOKEEPER: one, "host:port,host:port[/chroot]". */
    const char *const *urls;
    size_t url_count;
    const char *name_space;    /* separates applications; 1..32 of [A-Za-z0-9._-]; copied */
    uint32_t limit_ms;         /* of one command to the provider */
    uint32_t connect_limit_ms; /* of connecting to it, login included */
    uint32_t max_lease_ms;     /* this and the next two must be the same in all of a namespace */
    uint32_t place_ms;         /* a waiter not heard from for this long loses its place */
    uint32_t fence_ms; /* an idle name's fencing number is kept for this long; later ones go on above it */
    uint32_t warn_ms;  /* `lost` is told this long before the validity ends; 0: a sixth of the lease */
    uint32_t max_requests; /* waiting in this process; SHED beyond */
    /* REDIS: grants nothing until it has been up for max_lease_ms, as REDLOCK always does. A replica that takes over
     * has been up. */
    bool wait_after_restart;
    guard_log *log; /* as in guard_config; likewise lent */
    void *log_context;
};
#define GUARD_LOCKS_CONFIG_DEFAULTS                                                                          \
    {                                                                                                        \
        GUARD_FIELD(struct_size, sizeof(struct guard_locks_config)),                                         \
            GUARD_FIELD(provider, GUARD_LOCKS_REDIS), GUARD_FIELD(urls, NULL), GUARD_FIELD(url_count, 1),    \
            GUARD_FIELD(name_space, "default"), GUARD_FIELD(limit_ms, 250),                                  \
            GUARD_FIELD(connect_limit_ms, 1000), GUARD_FIELD(max_lease_ms, 60000),                           \
            GUARD_FIELD(place_ms, 3000), GUARD_FIELD(fence_ms, 3600000), GUARD_FIELD(warn_ms, 0),            \
            GUARD_FIELD(max_requests, 10000), GUARD_FIELD(wait_after_restart, false),                        \
            GUARD_FIELD(log, NULL), GUARD_FIELD(log_context, NULL)                                           \
    }

/* Starts the thread; does not wait for the provider. OK, INVALID, NO_MEMORY. */
GUARD_API enum guard_status guard_locks_open(const struct guard_locks_config *config,
                                             struct guard_locks **locks, struct guard_error *error);
/* Answers what waits with CLOSING, tells holders `lost`, gives everything back; takes at most drain_ms. Holds that
 * are still out are lost: guard_unlock() frees each, and calls `done` before it returns. Likewise owners. OK;
 * UNKNOWN: what was not confirmed ends with its lease; INVALID: in a callback, nothing was done. */
GUARD_API enum guard_lock_status guard_locks_close(struct guard_locks **locks, uint32_t drain_ms);

/* Re-entrance: a request for a name that its owner holds is granted at once and counted; the name is free once all
 * are given back. READ joins the owner's own exclusive hold. An exclusive request under its own READ is INVALID: two
 * such would wait for each other. */
GUARD_API enum guard_lock_status guard_owner_new(struct guard_locks *locks, struct guard_owner **owner);
/* What it still holds is given back, and those holds are lost. */
GUARD_API void guard_owner_free(struct guard_owner **owner);

struct guard_lock_result {
    enum guard_lock_status status;
    struct guard_hold *hold;              /* OK, but for a latch: yours; else NULL */
    uint64_t fence[GUARD_LOCK_NAMES_MAX]; /* OK: one for each name, in the request's order */
    uint32_t waited_ms;
    uint32_t before; /* BUSY: waiters in front at the last refusal, without holders; LATCH: parties missing */
    const char *why; /* INVALID, UNREACHABLE: one line, lent until the callback returns; else NULL */
};
typedef void guard_lock_answered(void *context, const struct guard_lock_result *result);
/* Once for a hold, at least warn_ms before anybody else can get it, if this process runs and the provider has not
 * forgotten it. If it runs beside guard_unlock(), it ends before `done` is called; none follows. Still give the hold
 * back. `why` is one line, lent. */
typedef void guard_lock_lost(void *context, struct guard_hold *hold, const char *why);

struct guard_lock_request {
    size_t struct_size; /* sizeof(struct guard_lock_request) */
    enum guard_lock_kind kind;
    const char *const *names; /* copied; each 1..4096 bytes, all different. Several: all or none */
    size_t count;
    uint32_t units, limit;     /* PERMITS: 1..999999, units <= limit, one limit for all of a name; LATCH */
    struct guard_owner *owner; /* NULL: nobody's, never re-entrant */
    uint32_t wait_ms; /* 0: once, UNREACHABLE after connect_limit_ms + 2 * limit_ms; UINT32_MAX: for ever */
    /* A dead holder blocks for this long. At least 100, 4 * limit_ms and 2 * warn_ms; at most max_lease_ms. */
    uint32_t lease_ms;
    uint32_t hold_ms; /* it is renewed for at most this long; 0: for as long as the process lives */
    guard_lock_answered *answered; /* not used by guard_lock_wait() */
    guard_lock_lost *lost;         /* may be NULL */
    void *context;
};
#define GUARD_LOCK_REQUEST_DEFAULTS                                                                          \
    {                                                                                                        \
        GUARD_FIELD(struct_size, sizeof(struct guard_lock_request)), GUARD_FIELD(kind, GUARD_LOCK_FAIR),     \
            GUARD_FIELD(names, NULL), GUARD_FIELD(count, 1), GUARD_FIELD(units, 1), GUARD_FIELD(limit, 1),   \
            GUARD_FIELD(owner, NULL), GUARD_FIELD(wait_ms, 10000), GUARD_FIELD(lease_ms, 10000),             \
            GUARD_FIELD(hold_ms, 0), GUARD_FIELD(answered, NULL), GUARD_FIELD(lost, NULL),                   \
            GUARD_FIELD(context, NULL)                                                                       \
    }

/* `ticket` may be NULL. OK: it will be answered. SHED, CLOSING, INVALID, NO_MEMORY: it will not. */
GUARD_API enum guard_lock_status guard_lock(struct guard_locks *locks,
                                            const struct guard_lock_request *request, guard_ticket *ticket,
                                            struct guard_error *error);
/* Blocks until it is answered; the status is result->status. `error` says why there is no lock; result->why is its
 * text, or NULL: refused before the provider was asked. */
GUARD_API enum guard_lock_status guard_lock_wait(struct guard_locks *locks,
                                                 const struct guard_lock_request *request,
                                                 struct guard_lock_result *result, struct guard_error *error);
/* Answers it with CANCELLED unless it is answered already. */
GUARD_API void guard_lock_cancel(struct guard_locks *locks, guard_ticket ticket);

/* Takes the hold; `done` (may be NULL) is called once: OK, LOST or UNKNOWN. Accepts NULL in *hold. */
typedef void guard_unlocked(void *context, enum guard_lock_status status);
GUARD_API void guard_unlock(struct guard_hold **hold, guard_unlocked *done, void *context);
/* Blocks until confirmed, at most twice limit_ms. In a callback it does not wait: UNKNOWN. INVALID: NULL in *hold. */
GUARD_API enum guard_lock_status guard_unlock_wait(struct guard_hold **hold);

/* What is left of its validity, also after an early `lost`: the time in which to stop. 0: over, or the provider has
 * forgotten it. Look right before what cannot be undone. */
GUARD_API uint32_t guard_hold_left_ms(const struct guard_hold *hold);
/* A descriptor to poll(): readable once `lost` is told. Never read from or close it: it closes with the hold. -1:
 * none could be made. */
GUARD_API int guard_hold_lost_fd(struct guard_hold *hold);

/* GUARD_SCOPED_HOLD hold = result.hold; when the block is left, guard_unlock_wait() gives it back (gcc and clang). */
GUARD_API void guard_unlock_scoped(struct guard_hold **hold);
#define GUARD_SCOPED_HOLD __attribute__((cleanup(guard_unlock_scoped))) struct guard_hold *

/* ---- looking ---- */

enum { GUARD_LOCK_SEEN_MAX = 64, GUARD_LOCK_WHO_BYTES = 64 };
struct guard_lock_seen {
    char who[GUARD_LOCK_WHO_BYTES]; /* host:pid */
    uint64_t since_s;      /* wall clock of that host, for people: when the request was made; 0: not known */
    uint32_t units, limit; /* 1000000 of 1000000: exclusive; 1 of 1000000: a reader */
    uint32_t left_ms;      /* a holder: of its lease; 0: not known */
    bool holds;            /* else it waits */
};
struct guard_lock_view {
    uint64_t fence; /* the last number that was granted; 0: none is known */
    uint32_t holder_count, waiter_count;
    uint32_t seen_count; /* of them, holders first, then those that wait in their order */
    struct guard_lock_seen seen[GUARD_LOCK_SEEN_MAX];
    uint32_t young_ms; /* so long nothing is granted, for a holder may have been forgotten; 0: it is */
};
/* What holds a name and what waits for it. Blocks, at most connect_limit_ms + 2 * limit_ms. OK, UNREACHABLE, CLOSING,
 * INVALID, NO_MEMORY. */
GUARD_API enum guard_lock_status guard_lock_look(struct guard_locks *locks, const char *name,
                                                 struct guard_lock_view *view, struct guard_error *error);

/* ---- counting ---- */

struct guard_locks_stats {
    uint64_t granted, reentered, busy, unreachable, cancelled, closed, shed;
    uint64_t given_back, lost, renewals, renewals_unanswered, polls, hints;
    uint64_t waiting, held; /* now */
    bool is_up;             /* the provider answers */
};
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* C++: the name of the struct that it fills */
GUARD_API void guard_locks_stats(struct guard_locks *locks, struct guard_locks_stats *stats);
#pragma GCC diagnostic pop

#ifdef __cplusplus
}
#endif

#endif
