/* SPDX-License-Identifier: MIT */
/*
 * guard.h - the cache-stampede guard: one load per key, fleet-wide.
 *
 * Many processes share a Redis cache in front of a slow source. When an entry is missing, exactly one caller of the whole
 * fleet runs the loader, and all others get its result.
 *
 *     static void load_user(struct guard_load *load, void *context)
 *     {
 *         ...query the row of guard_load_key(load), with guard_load_left_ms(load) as the limit...
 *         guard_load_done(load, row, row_bytes, NULL);       or guard_load_absent(load), or guard_load_fail(load, why)
 *     }
 *
 *     struct guard_config config = GUARD_CONFIG_DEFAULTS;
 *     struct guard_policy policy = GUARD_POLICY_DEFAULTS;
 *     policy.loader = load_user;
 *     guard_open(&config, &guard, &error);
 *     guard_kind_add(guard, &policy, &users, &error);
 *
 *     struct guard_request request = {.kind = users, .key = "user:7"};
 *     if (guard_get_wait(guard, &request, &result) == GUARD_OK) use(result.value->body, result.value->body_bytes);
 *     guard_value_unref(&result.value);
 *
 * Five promises, valid for every function:
 *
 * Threads    Any thread may call any function, unless it says otherwise. Callbacks run on the guard's own thread, those of
 *            a request with a loop on the thread of that loop: keep them short, never block in them. What blocks is
 *            INVALID there, in the callbacks of every guard and of locks.h, with a line in the log that names the
 *            call. Loaders run on load threads and may block.
 * Once       What was accepted calls back exactly once, never from inside the call that started it, also when it is
 *            cancelled or the guard closes. What was refused (a status other than GUARD_OK) never calls back.
 * Ownership  Arguments are *copied*, or *lent until X*. What is *yours* you give back with the function named there.
 *            Handles are closed with **, which leaves NULL.
 * Time       Spans are milliseconds and end in _ms. No wall clock takes part in any decision, neither this machine's nor
 *            another's.
 * Errors     "No such row" (GUARD_ABSENT) is an answer. `struct guard_error` is the caller's and may be NULL; one line of
 *            text says what is wrong and what to do. When a call without one returns INVALID, the log names the function
 *            and the argument. Nothing here reads or sets errno, raises SIGPIPE or exits.
 */
#ifndef GUARD_H
#define GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GUARD_VERSION "0.3.0"

#if defined(__GNUC__)
#define GUARD_API __attribute__((visibility("default")))
#else
#define GUARD_API
#endif

struct guard;        /* one per process and namespace: a thread, load threads, two Redis connections */
struct guard_kind;   /* one kind of data: a policy and its loader */
struct guard_load;   /* one running load, as its loader sees it */
struct guard_loop;   /* an event loop of the host's: see "loops" */
struct guard_config; /* see "the guard's settings" */
struct guard_policy; /* see "policy" */

enum guard_status {
    GUARD_OK = 0,    /* a value */
    GUARD_ABSENT,    /* the source was asked (now or within absent_ms) and has no such row */
    GUARD_FAILED,    /* the load failed, now or within failure_ms, anywhere in the fleet */
    GUARD_SHED,      /* refused to protect the source: load queue or waiter limit full */
    GUARD_TIMEOUT,   /* the request's deadline passed; the load goes on for the cache, but see "Abandon" */
    GUARD_CANCELLED, /* guard_cancel() */
    GUARD_CLOSING,   /* the guard is closing */
    GUARD_UNKNOWN, /* a change: Redis did not confirm in time, it may have happened; GUARD_PEEK: Redis is away */
    GUARD_INVALID,   /* an argument or a setting is wrong; the error text names it */
    GUARD_NO_MEMORY, /* an allocation or a system resource failed */
    GUARD_MISS,      /* GUARD_PEEK: there is no answer without a load */
    GUARD_NOW,       /* guard_get(): answered already; the only status that no result has */
};
struct guard_error {
    enum guard_status status;
    char text[256];
};

/* Starts the guard's threads. Does not wait for Redis: while Redis is away the guard goes on by itself ("outage"), and joins
 * the fleet when Redis comes. guard_connected_wait() waits, before requests come. INVALID, NO_MEMORY. */
GUARD_API enum guard_status guard_open(const struct guard_config *config, struct guard **out,
                                       struct guard_error *error);
/* Declares a kind of data, at most GUARD_KINDS_MAX. The policy is copied, and checked against the guard's limits: INVALID
 * with the field's name and the reason. So is a name that another kind has. Lives until guard_close(). All that ask for a key
 * must use the same kind; a load runs under the policy of the request that started it. */
enum { GUARD_KINDS_MAX = 64 };
GUARD_API enum guard_status guard_kind_add(struct guard *guard, const struct guard_policy *policy,
                                           struct guard_kind **out, struct guard_error *error);

/* Runs on a load thread, and finishes the load by exactly one of done, absent, unchanged and fail, before it returns or
 * after guard_load_defer(). The query must begin in here: by now the lease has been granted, and that is what makes the
 * value safe to cache. Returning without finishing, or ending the thread, fails the load as INTERNAL. Of two verdicts
 * the first stands: a later one is INVALID, on any thread and at any time. So is every call about a load that is
 * over: such a handle names nothing any more, and never another load. Each breach is a line in the log, which names
 * the key as long as the load is not over. Where this process has no thread for a load or no memory for its answer, that
 * is no failure: its requests get NO_MEMORY, and another process may load. */
typedef void guard_loader(struct guard_load *load, void *context);
GUARD_API const char *guard_load_key(const struct guard_load *load); /* lent until the loader returns */
/* What is left of load_limit_ms (never more than the hold limit of the lease); 0 when it is over. For
 * statement_timeout and poll(). */
GUARD_API uint32_t guard_load_left_ms(const struct guard_load *load);

/* OK, or INVALID: it was finished before. body: copied, any bytes, may be empty. validator: an ETag, a version;
 * copied, NULL or at most 127 bytes of printable ASCII, otherwise the load fails as INTERNAL. */
GUARD_API enum guard_status guard_load_done(struct guard_load *load, const void *body, size_t body_bytes,
                                            const char *validator);
GUARD_API enum guard_status guard_load_absent(struct guard_load *load); /* no such row: an answer, too */
/* Travels through Redis to the waiters of other processes. */
enum guard_failure {
    GUARD_FAILURE_NONE = 0,
    GUARD_FAILURE_UNAVAILABLE, /* the source cannot be reached or refuses work; may pass */
    GUARD_FAILURE_TIMEOUT,     /* the load ran into load_limit_ms */
    GUARD_FAILURE_REJECTED,    /* the source refuses this load; will not pass by itself */
    GUARD_FAILURE_INTERNAL,    /* the loader broke its contract */
    GUARD_FAILURE_CYCLE, /* guard_load_get(): the key waits for the load that wants it, or nests too deep */
};
GUARD_API enum guard_status guard_load_fail(struct guard_load *load, enum guard_failure failure);

struct guard_request; /* {.kind, .key} is enough: see "asking" */
struct guard_result;  /* .status; .value, if that is OK: see "asking" */
/* Immutable, reference-counted, shared by all its waiters. body[body_bytes] is always 0. */
struct guard_value {
    const char *body;
    size_t body_bytes;
    const char *validator; /* what the loader passed, "" if nothing */
};
/* Asks and waits; not on a thread that runs a loop, which would stand still. INVALID in a callback, and on a thread
 * that runs a loader of this guard: that uses guard_load_get(). *result is always set; its value is yours. Returns
 * result->status. */
GUARD_API enum guard_status guard_get_wait(struct guard *guard, const struct guard_request *request,
                                           struct guard_result *result);
/* Gives one reference back and leaves NULL. Accepts NULL in *value. */
GUARD_API void guard_value_unref(const struct guard_value **value);

struct guard_change;      /* {.key} is enough: see "changing" */
struct guard_invalidated; /* its .status is what is returned */
/* Call after COMMIT, until it returns OK: a get that starts after that never sees an older row, in any process, but for what
 * "the near cache" and "outage" allow others. For a thread that can block; not from a callback. */
GUARD_API enum guard_status guard_invalidate_wait(struct guard *guard, const struct guard_change *change,
                                                  struct guard_invalidated *result);

/* Refuses new requests, lets running loads finish for drain_ms, answers the rest with CLOSING: see "Closing". Blocks.
 * In a callback or a loader of this guard it is INVALID, and *guard stays. */
GUARD_API enum guard_status guard_close(struct guard **guard, uint32_t drain_ms);

/* ---- asking ---- */

/* Where an answer came from. */
enum guard_source {
    GUARD_FROM_NOWHERE = 0, /* no answer: shed, timed out, cancelled, closing */
    GUARD_FROM_CACHE,       /* a fresh value, absent entry or remembered failure in Redis */
    GUARD_FROM_STALE,       /* a value past fresh_ms, within stale_ms; its refresh is under way or failed */
    GUARD_FROM_LOAD,        /* this request started the load */
    GUARD_FROM_FLIGHT,      /* collapsed: another request of this process loaded it */
    GUARD_FROM_FLEET,       /* collapsed: another process loaded it while this request waited */
    GUARD_FROM_NEAR,        /* from this process's memory: see "the near cache" */
    GUARD_FROM_KEPT,        /* likewise, because Redis could not be asked: see "outage" */
};

struct guard_result {
    enum guard_status status;
    enum guard_source source;
    enum guard_failure failure;      /* GUARD_FAILED: why; else NONE */
    const struct guard_value *value; /* GUARD_OK; else NULL */
    uint32_t age_ms;                 /* OK, ABSENT: time since the entry was filled, an upper bound */
    uint32_t left_ms;                /* OK, ABSENT: time for which it stays fresh; 0 if stale or uncached */
    uint32_t retry_ms;               /* FAILED, SHED: asking again earlier is pointless */
    bool stored;                     /* the answer is in the cache for the others */
    uint64_t load; /* of the load that made the answer, the same in every process: guard_load_id(); 0: none */
    const char *wrong; /* INVALID: which argument and why, a static text; else NULL; of the blocking forms */
};

/* results[0..count), one for each key. Lent until the callback returns, their values too. */
typedef void guard_answered(void *context, const struct guard_result *results);

struct guard_request {
    struct guard_kind *kind;
    const char *key;          /* 1..4096 bytes, NUL-terminated; copied */
    uint32_t deadline_ms;     /* 0: the policy's; for all keys */
    guard_answered *answered; /* not used by the blocking forms */
    void *context;

    const char *const *keys;   /* in place of `key`; see "many keys at once" */
    size_t count;              /* of keys, 1..GUARD_MANY_MAX; 0 with `key` */
    struct guard_loop *loop;   /* asked and answered on its thread; NULL: on any, and on the guard's */
    unsigned flags;            /* GUARD_PEEK, GUARD_REVALIDATE; not both */
    struct guard_load *within; /* a deferred load that needs this answer: see guard_load_defer() */
    void *asker; /* reaches the load that this request starts, guard_load_asker(), and no other */
    void (*asker_ref)(void *asker); /* both NULL: `asker` outlives the request and its load by other means; */
    void (*asker_unref)(void *asker); /* else each asker_ref is paired with one asker_unref, on any thread */
};

/*
 * PEEK        Looks, and does not load, wait or refresh: what is in the cache, fresh or stale, or MISS. UNKNOWN: Redis could
 *             not be asked, and nothing is kept for an outage. Answered within redis_limit_ms, twice that where tags have to
 *             be looked at, and five times where one was expired, whatever its deadline is. In mode SHADOW MISS.
 * REVALIDATE  Only a load that begins after this request answers it, in another process one whose lease was granted after
 *             its first lookup: no near value, none of an outage, no cached one, no stale one, no load that was running.
 *             Such requests collapse among themselves. The value that is there stays, and answers others, until the new
 *             one is stored; where it is near in another process, until the message arrives, and for near_ms at the most.
 *             A remembered failure still answers FAILED within failure_ms. Beside such a load another one of the key may
 *             run in this process, for requests that do not revalidate, if neither has a lease.
 */
enum { GUARD_PEEK = 1, GUARD_REVALIDATE = 2 };

/* Names one accepted request for guard_cancel(); never 0, never used twice. */
typedef uint64_t guard_ticket;

/*
 * OK   `answered` will be called once (with SHED if the last place was taken meanwhile).
 * NOW  Answered by this call, from this process's memory: results[0..count) are set, their values are yours
 *      (guard_value_unref()), and `answered` is never called. Only if `results` is not NULL and every key is in the near
 *      cache. After any other status `results` holds nothing of use.
 *
 * SHED (max_waiters), INVALID, CLOSING, NO_MEMORY: nothing was asked. `results` and `ticket` may be NULL.
 */
GUARD_API enum guard_status guard_get(struct guard *guard, const struct guard_request *request,
                                      struct guard_result *results, guard_ticket *ticket);

/* Answers what has no answer yet with CANCELLED; the loads go on for others. `loop` is that of the request. A ticket that
 * is no longer waiting is ignored. */
GUARD_API void guard_cancel(struct guard *guard, struct guard_loop *loop, guard_ticket ticket);

/* Keeps a lent value beyond its callback; what it returns is yours. */
GUARD_API const struct guard_value *guard_value_ref(const struct guard_value *value);

/* "ok", "absent", ...: the same words as in logs and metrics. Never NULL. */
GUARD_API const char *guard_status_name(enum guard_status status);
GUARD_API const char *guard_source_name(enum guard_source source);
GUARD_API const char *guard_failure_name(enum guard_failure failure);

/*
 * ---- policy: how one kind of data is cached ----
 *
 *   age   0            fresh_ms              fresh_ms + stale_ms
 *         |--- fresh ------|------- stale ---------|--- missing: requests wait for the load
 *              ^ early        one process of the fleet refreshes
 *
 * Stale        A request that finds a stale value gets it immediately, and one process of the fleet refreshes it in the
 *              background. A process that dies meanwhile is replaced once its lease has run out. When a refresh
 *              fails, the stale value goes on being served and nobody tries again for failure_ms. An invalidation
 *              drops a stale value like any other. age_ms says how old it is: at most fresh_ms + stale_ms.
 * Soft limit   With soft_ms, a request that finds a stale value waits up to soft_ms for its refresh. It gets the new
 *              value if that comes in time, else the stale one while the load goes on: after soft_ms, at its deadline
 *              if that is earlier, or immediately if the refresh fails, cannot begin (cooling down, no place among
 *              the loads) or runs in another process while the mode is not FLEET. The limit counts from the start of
 *              the request. Without a stale value soft_ms means nothing: deadline_ms is the limit, and TIMEOUT (or
 *              FAILED, SHED) the answer.
 * Early        With early_percent a hit may refresh a fresh value before its time (XFetch; Vattani, Chierichetti,
 *              Lowenstein, VLDB 2015): when -ln(random) * load time * early_percent / 100 exceeds what is left of
 *              its freshness. The load time is the one measured at the last fill. The request that draws the lot is
 *              answered like any hit; its process then tries for the lease and loads in the background. Nobody waits.
 * Abandon      With `abandon`, a load is cancelled when nobody waits for it any more, in this process or in another
 *              (that the last one elsewhere has left is noticed within lease_ms). A request that comes just then gets
 *              another load. The load that follows is never abandoned, so clients that give up before the source has
 *              answered cannot keep a key cold for ever; nor is the refresh of a value that is there.
 */
enum { GUARD_MANY_MAX = 256 };
/* Loads several keys with one query: see "many keys at once". */
typedef void guard_batch_loader(struct guard_load *const *loads, size_t count, void *context);

struct guard_policy {
    size_t struct_size;      /* sizeof(struct guard_policy); as in guard_config */
    guard_loader *loader;    /* required */
    void *context;           /* lent until guard_close() has returned */
    uint32_t fresh_ms;       /* a value is served without question for this long */
    uint32_t stale_ms;       /* and for this much longer while one process refreshes it; 0 = never */
    uint32_t absent_ms;      /* "no such row" is remembered for this long; at least 1 */
    uint32_t failure_ms;     /* a failed load is not tried again for this long; at least 1 */
    uint32_t jitter_percent; /* fresh, absent and failure_ms are shortened by a random 0..this; at most 90 */
    uint32_t lease_ms;       /* TTL of the lease; renewed at a third of it while the load runs */
    uint32_t max_hold_ms;    /* a lease is given up after this long, even if the loader hangs */
    uint32_t load_limit_ms;  /* a load is cancelled after this long; at most max_hold_ms */
    uint32_t deadline_ms;    /* a request is answered within this, whatever happens */
    uint32_t near_ms; /* the near cache answers for so long without Redis; needs near_bytes; 0 = never */
    uint32_t soft_ms; /* a stale value is answered after waiting this long for a fresh one; 0 = at once; needs
                         stale_ms; at most deadline_ms */
    uint32_t early_percent;           /* XFetch's beta in percent: 100 as in the paper; 0 = never early */
    guard_batch_loader *batch_loader; /* NULL: every key is a query of its own */
    uint32_t batch_max;               /* keys in one call of it; 1..GUARD_MANY_MAX */
    bool tagged;  /* loaders may name tags; a hit of a tagged entry costs Redis one command more */
    bool abandon; /* a load that nobody waits for any more, in the fleet, is cancelled */
    bool apart;   /* keys of different requests are never one query: see "many keys at once" */
    const char
        *name; /* in numbers and events: 1..32 of [a-z0-9_], of no other kind; copied; NULL: "kind0", ... */
    uint32_t outage_ms; /* while Redis cannot be asked, what this process has answers for so long after it was
                           known to be right: see "outage"; 0 = never */
};

/* For the defaults: C++ before C++20 cannot name a field here, and need not, because all are there in order. */
#ifdef __cplusplus
#define GUARD_FIELD(name, value) value
#else
#define GUARD_FIELD(name, value) .name = value
#endif

#define GUARD_POLICY_DEFAULTS                                                                                \
    {                                                                                                        \
        GUARD_FIELD(struct_size, sizeof(struct guard_policy)), GUARD_FIELD(loader, NULL),                    \
            GUARD_FIELD(context, NULL), GUARD_FIELD(fresh_ms, 60000), GUARD_FIELD(stale_ms, 0),              \
            GUARD_FIELD(absent_ms, 10000), GUARD_FIELD(failure_ms, 1000), GUARD_FIELD(jitter_percent, 10),   \
            GUARD_FIELD(lease_ms, 3000), GUARD_FIELD(max_hold_ms, 30000), GUARD_FIELD(load_limit_ms, 10000), \
            GUARD_FIELD(deadline_ms, 15000), GUARD_FIELD(near_ms, 0), GUARD_FIELD(soft_ms, 0),               \
            GUARD_FIELD(early_percent, 0), GUARD_FIELD(batch_loader, NULL), GUARD_FIELD(batch_max, 64),      \
            GUARD_FIELD(tagged, false), GUARD_FIELD(abandon, false), GUARD_FIELD(apart, false),              \
            GUARD_FIELD(name, NULL), GUARD_FIELD(outage_ms, 5000)                                            \
    }

/* ---- the guard's settings ---- */

struct guard_event;

/* Who waits for whom when a key is missing. Fills are fenced by the lease in every mode. */
enum guard_mode {
    GUARD_MODE_FLEET = 0, /* one load in the whole fleet */
    GUARD_MODE_LOCAL,     /* one load per process: nobody waits for another process */
    GUARD_MODE_OFF,       /* one load per request: nobody waits for anybody */
    GUARD_MODE_SHADOW,    /* as OFF, while the whole protocol is rehearsed beside it: see "shadow mode" */
};

/*
 * One line about something an operator should know: Redis comes or goes or refuses us, a loader breaks its contract, a
 * call has a wrong argument. Printable ASCII, the rest escaped as \xNN; no passwords. At most five lines on each of
 * these in 10 s, none of them twice in a row; after those 10 s the last line that was withheld. `good`: something is
 * well again, or there is nothing to be mended. `text` is lent until the function returns. Any thread, also inside the call that is wrong; never in the child of a fork.
 *
 * On stderr a line begins with "stampede-guard NAME_SPACE: " and is written by guard_write_stderr(); good news is told only
 * after bad, and with the first line that can be written again, how many before it could not be.
 */
typedef void guard_log(void *context, const char *text, bool good);
/* For guard_config.log: nothing is said, also not on stderr. */
GUARD_API void guard_log_none(void *context, const char *text, bool good);
/* One line of at most 4096 bytes to stderr, in one write(2) or not at all, which is false: its reader stands still or has
 * left, or the file may not grow. Never blocks, whoever else writes there, and raises no signal. For a host's own log: it is
 * called where nothing may block. */
GUARD_API bool guard_write_stderr(const char *line, size_t bytes);

/* struct_size is what the host was built with. The struct grows at its end: a host that knows less of it gets the defaults
 * of the rest, and one that knows more than the library is refused. */
struct guard_config {
    size_t struct_size;     /* sizeof(struct guard_config) */
    const char *redis_url;  /* see guard/README.md, "Which Redis"; copied */
    const char *name_space; /* separates applications that share a Redis; 1..32 of [A-Za-z0-9._-]; copied */
    enum guard_mode mode;
    uint32_t redis_limit_ms;   /* limit of one Redis command; at most a third of any lease_ms */
    uint32_t connect_limit_ms; /* limit of connecting to Redis, DNS and login included */
    uint32_t max_loads;        /* B: loads at a time in this process; 1..4096 */
    uint32_t load_queue;       /* further loads that may queue; shed beyond: see "shares" */
    uint32_t max_waiters;     /* requests at a time on each loop, and waiting in this process: see "shares" */
    uint32_t max_value_bytes; /* larger bodies are answered but not cached */
    uint32_t max_lease_ms;    /* the same in the whole namespace; policies above it are refused */
    uint32_t max_value_ms;    /* likewise, for fresh_ms + stale_ms and absent_ms */
    guard_log *log;           /* NULL: to stderr; guard_log_none: nothing is said */
    void *log_context;        /* lent until guard_close() has returned */
    uint32_t near_bytes;      /* of near values and what is kept for an outage, overhead included; 0 = none */
    uint32_t push_bytes;      /* entries up to this size travel with wake-ups: see "push_bytes"; 0 = none */
    uint32_t load_permits; /* S: loads at a time in the whole namespace: see "permits"; 0 = no such limit */
    uint32_t permit_ms;    /* a dead process keeps its permits for so long; likewise the same for all */
    uint32_t load_threads; /* threads that run loaders; 0: max_loads of them; at most max_loads; see below */
    /* On each load thread before its first load and after its last, also if a loader ends the thread: for its database
     * connection, say. Each may be NULL. */
    void (*thread_begins)(void *context);
    void (*thread_ends)(void *context);
    void *thread_context; /* of both; lent until guard_close() has returned */
    void (*event)(void *context, const struct guard_event *event); /* see "watching"; NULL: none */
    void *event_context;                                           /* lent until guard_close() has returned */
    uint32_t hot_keys; /* guard_hot() knows so many; 0 means 64; at most 256 */
};

#define GUARD_CONFIG_DEFAULTS                                                                                \
    {                                                                                                        \
        GUARD_FIELD(struct_size, sizeof(struct guard_config)),                                               \
            GUARD_FIELD(redis_url, "redis://127.0.0.1:6379/0"), GUARD_FIELD(name_space, "default"),          \
            GUARD_FIELD(mode, GUARD_MODE_FLEET), GUARD_FIELD(redis_limit_ms, 250),                           \
            GUARD_FIELD(connect_limit_ms, 1000), GUARD_FIELD(max_loads, 8), GUARD_FIELD(load_queue, 1000),   \
            GUARD_FIELD(max_waiters, 20000), GUARD_FIELD(max_value_bytes, 1048576),                          \
            GUARD_FIELD(max_lease_ms, 60000), GUARD_FIELD(max_value_ms, 86400000), GUARD_FIELD(log, NULL),   \
            GUARD_FIELD(log_context, NULL), GUARD_FIELD(near_bytes, 8388608),                                \
            GUARD_FIELD(push_bytes, 16384), GUARD_FIELD(load_permits, 0), GUARD_FIELD(permit_ms, 3000),      \
            GUARD_FIELD(load_threads, 0), GUARD_FIELD(thread_begins, NULL), GUARD_FIELD(thread_ends, NULL),  \
            GUARD_FIELD(thread_context, NULL), GUARD_FIELD(event, NULL), GUARD_FIELD(event_context, NULL),   \
            GUARD_FIELD(hot_keys, 0)                                                                         \
    }

/*
 * push_bytes. A process that waits for another one's load leaves a mark beside the lease, and the fill then sends the
 * entry with its wake-up message, which answers the waiters without another round trip. The size is that of the entry:
 * some 130 bytes and the key more than the value. Every process of the namespace hears every message, so a value travels
 * once to each process for every load that another process waits for; waiters look larger values up. With 0 this process
 * neither asks for such messages nor sends any. In a Redis Cluster every node hears every message, too: there the default
 * stands for 2048.
 */

/*
 * load_threads. Made when they are needed. A load begins when one is free for it and fewer than max_loads run; until then it
 * is queued, its lease is renewed, and load_limit_ms has not begun. Where every loader defers, one or two will do.
 * thread_begins and thread_ends are called as often on each; a loader that still runs when guard_close() returns TIMEOUT
 * ends its thread later, so thread_context lives until then.
 */

/*
 * Closing. New requests are refused at once; after drain_ms the loads that still run are cancelled, everybody left is
 * answered with CLOSING, the leases still held are released, and the threads end. guard_close() blocks: not from a callback
 * or a loader, and only when every guard_loop has been detached. A loader that ignores its cancellation is waited for 5 s
 * more; then the guard's memory is left to it and the call returns TIMEOUT. OK otherwise. A lookup of the Redis host's name
 * in DNS cannot be interrupted: its thread may outlive the call and ends by itself, having touched nothing of the guard. It
 * still runs the guard's code: do not unload that (dlclose()). No other call of this guard may run beside guard_close(),
 * guard_stats() included.
 *
 * guard_drain() is its first half: from now on requests are refused with CLOSING, running ones go on. Any number of times.
 */
GUARD_API void guard_drain(struct guard *guard);

/* ======== Advanced ======== */

/*
 * ---- many keys at once ----
 *
 * One request, one answer, for up to GUARD_MANY_MAX keys of one kind; the same key may come more than once. All are
 * accepted or none; each counts as a get, in max_waiters and in the statistics. The near cache answers those that it can,
 * and the lookups of the others leave in one write. The keys that miss then fly as if each had been requested singly: every
 * promise holds for each key, one load in the fleet, a lease and an outcome of its own. One call of the policy's
 * batch_loader (or several, of batch_max keys each) loads those whose leases this process gets, and they are stored in one
 * write. So n cold keys are one query and three round trips to Redis, n fresh ones are one round trip.
 *
 * guard_get_wait() sets results[0..count), each value yours, and returns OK, or why nothing was asked, which every result
 * says, too. (Of a single key, also as a list of one, it returns the status of the result.)
 *
 * No deadlock: a flight with a lease waits for no other key. A request only waits for its flights; a flight that has its
 * lease waits for a place and its loader, and before that at most for Redis's replies to acquires that left in the same
 * write as its own. So two processes with overlapping keys, in any order, each load those whose leases they got, and
 * wait for the rest.
 *
 * What has to wait leaves together. Loads of different requests, for one key each or for many, are one query if they have
 * to wait for a worker or a permit: the oldest that may begin takes with it, up to batch_max, what is queued under the same
 * policy; what a request waits for comes first, background refreshes fill what is left. Nothing waits in order to be in a
 * query: with few misses nothing is queued, and a load that is alone goes to the loader. Each keeps its own lease, outcome
 * and limits, but the query has one thread, one permit, one place and the shortest time of its loads; one that is cancelled
 * has them until the query is over. Never with others: what passes, what another load waits for, everything in mode
 * OFF, and all of a policy that says `apart`.
 *
 * A batch loader loads the rows of several keys of its policy with one query. loads[0..count) are lent until it returns,
 * count is 2..batch_max, and all keys differ but in mode OFF. It finishes each of them as a guard_loader does its one, each
 * with a verdict of its own; what it leaves unfinished fails as INTERNAL. It occupies one thread. guard_load_left_ms() is
 * that of the whole batch. guard_load_cancelled() says which keys are no longer wanted; the others go on.
 * guard_load_cancel_fd() is the same for all and becomes readable when no result is wanted any more.
 *
 * If all fail as REJECTED or INTERNAL, nobody knows which key that is about: none has failed yet, and the query is
 * made again by halves until the key stands alone. UNAVAILABLE and TIMEOUT are of the source, and all fail with them.
 * guard_load_get() may ask for a key that is in the same call: that one leaves it, is loaded by itself on this thread, and
 * what the call brings for it is dropped. Only a key that needs itself is a CYCLE.
 */

/*
 * ---- loops ----
 *
 * For a host with an event loop: libuv here, any other by host.h and adapters/. A hit is looked up over a Redis connection
 * of the loop's own and answered without a second thread; the rest goes to the guard's, and its answer comes back on this
 * loop. Attaching, detaching, and whatever names the loop: only on the thread that runs it, but for
 * guard_load_defer(), where a loader names it on its load thread. A loop that is detached may be named until
 * guard_close(), because a loader cannot know: requests are CLOSING then. What it is called by takes some 50 bytes
 * until guard_close(). If guard_loop_attach() fails, run the loop once more before you close it, because libuv closes
 * handles only then.
 */
struct uv_loop_s; /* libuv's uv_loop_t */

GUARD_API enum guard_status guard_loop_attach(struct guard *guard, struct uv_loop_s *loop,
                                              struct guard_loop **out, struct guard_error *error);
/* Answers what is still waiting here with CLOSING, closes the loop's handles and then calls `detached`;
 * keep running the loop until then. Leaves NULL. */
GUARD_API void guard_loop_detach(struct guard_loop **loop, void (*detached)(void *context), void *context);

/* ---- loaders ---- */

/* True once the result is no longer wanted (lease lost, limit passed, nobody waits under `abandon`, guard closing). */
GUARD_API bool guard_load_cancelled(const struct guard_load *load);
/* A descriptor that becomes readable at that moment, to poll() beside the source's socket. Never read from it or close it.
 * -1 if none could be made. */
GUARD_API int guard_load_cancel_fd(const struct guard_load *load);

/*
 * A refresh may be conditional. previous_validator: that of the value which this load would replace, "" if it has
 * none; lent until the loader returns. NULL: there is none to compare with (nothing cached, an absent entry, a
 * policy that accepts no stale value, no lease): load in full. unchanged: the source still has exactly what that
 * validator names. A validator must name everything the value is made of, and must never come to mean anything else.
 * The old value is then the answer and lives for another fresh_ms + stale_ms without travelling to Redis again; if Redis
 * has lost it meanwhile, it is stored anew. After a NULL validator, unchanged fails the load as INTERNAL.
 */
GUARD_API const char *guard_load_previous_validator(const struct guard_load *load);
GUARD_API enum guard_status guard_load_unchanged(struct guard_load *load);

/*
 * How the answer of this load is kept, in place of what the policy says. Call it before the load is finished, for a value,
 * an absent row or an unchanged value; of several calls the last one counts. Without it an unchanged value keeps the life
 * that it had, its own or the policy's. In a batch each key has its own. INVALID, and the load fails as INTERNAL: a number
 * that is no enum guard_how, or the load is finished.
 *
 * STORE  Stored for all. fresh_ms and stale_ms are the entry's own: they travel with it and decide for every reader,
 *        whatever its policy says. Jitter applies. What is longer than max_value_ms is cut, and counted (keep_cut). An
 *        absent row has no stale time: stale_ms means nothing then. If both are 0 nothing is stored, and what is in the
 *        cache stays: the answer is for those requests of this process that wait for it and began before its query.
 * SHARE  Answers every request of the fleet that waits for this load and began before its query, and is not stored. In
 *        another process it also answers one that began later, if nothing was invalidated between that and the end of
 *        the load: as a value that was stored would. The answer travels with the message that the lease is free, up to
 *        max_value_bytes, whatever push_bytes says. A process that does not hear it loads by itself. What is in the cache
 *        stays.
 * PASS   For the request that started the load, and for no other: the others ask again. A background load that passes
 *        answers nobody. A mark takes the value's place for pass_ms: while it stands, every request loads at once, without
 *        a lease and without lining up for another one, with a place and a permit as any load, and such loads take at
 *        most half of the places that may queue. An invalidation removes the mark, and so does expiry. A load that
 *        began without a lease leaves no mark; requests that wait for it load by themselves at once. A load that fails is
 *        nobody's secret: its failure answers all.
 * HERE   As STORE with two zeros: it is not stored. But this process keeps it for an outage ("outage"), with fresh_ms and
 *        stale_ms as if it were.
 */
enum guard_how { GUARD_STORE = 0, GUARD_SHARE, GUARD_PASS, GUARD_HERE };

#define GUARD_POLICY_MS UINT32_MAX /* what the policy says; 0 means 0 */

struct guard_keep {
    enum guard_how how;
    uint32_t fresh_ms, stale_ms; /* STORE; of an absent row fresh_ms stands for absent_ms */
    uint32_t pass_ms;            /* PASS; GUARD_POLICY_MS: the policy's failure_ms; 0: no mark */
};
GUARD_API enum guard_status guard_load_keep(struct guard_load *load, const struct guard_keep *keep);

/* What the request that started this load passed as `asker`; NULL: nothing, or no request waits for it (a refresh in the
 * background). Lent until the load is finished. In a batch each key has its own. */
GUARD_API void *guard_load_asker(const struct guard_load *load);
/* Names this load in guard_result.load, in events and in logs, also in other processes. Never 0. */
GUARD_API uint64_t guard_load_id(const struct guard_load *load);

/*
 * Finishes the load later, without a thread: the loader starts a query on an event loop, calls this and returns. The
 * load is finished by the same calls as any other: on `loop`, or on any thread if that is NULL. An answer that is
 * faster than this call, or comes while it runs, is as good: it counts, and cancelled() is never called. What the
 * load is to say beside its verdict, its tags and guard_load_keep(), it says before it starts the query. It holds one
 * of max_loads and its permit, and no load thread.
 *
 * Handle    Lives until its loader has returned and it has been finished, in either order, and also past guard_close().
 *           Finish it exactly once, whatever happens: a handle that nobody finishes is a leak.
 * Limit     At load_limit_ms the load fails as TIMEOUT, and a verdict that comes later is accepted and ignored. A handle
 *           that has not been finished after max_hold_ms gives its place and its permit back, with a line in the log.
 * Cancel    cancelled(context) is called at most once when the result is not wanted any more (limit, lease lost, nobody
 *           waits under `abandon`, closing): on `loop`, else on the guard's thread; never before the loader has
 *           returned, and never once a call that finishes the load has returned, on whatever thread: then `context`
 *           may go. Such a call waits for a cancelled() that runs on another thread; hold nothing over it that
 *           cancelled() takes. NULL: look at guard_load_cancelled() or at the
 *           descriptor, which is the handle's own now: one that the loader has polled already stays. Finish it then as you
 *           would without, soon. Detaching `loop` cancels what is deferred to it, before `detached`; others load again.
 * Closing   guard_close() cancels what is deferred at once, without drain_ms, because its loop may be blocked in that very
 *           call. To let it end, call guard_drain() and run the loop until nothing waits any more.
 * Nested    guard_load_get() is INVALID from here on; a request for another key says `within` instead, until the load is
 *           finished. It is answered by its callback, has the load's time at most, and is refused in a circle like a
 *           nested one. Its load runs in the place and under the permit of this one, one at a time; further ones queue.
 *
 * In a batch each key is deferred by itself. CLOSING: `loop` is being detached, or gone. The load is not deferred and
 * not wanted any more; fail it, and others load again. INVALID: deferred already. NO_MEMORY: not deferred; go on as
 * without. Only from inside the loader.
 */
GUARD_API enum guard_status guard_load_defer(struct guard_load *load, struct guard_loop *loop,
                                             void (*cancelled)(void *context), void *context);

/*
 * Names a group that the row belongs to. Call it before the load is finished, up to GUARD_TAGS_MAX times, for a value or
 * an absent entry; guard_invalidate() of the tag makes every entry with that tag out of date at once. Only in a kind whose
 * policy says `tagged`. tag: copied, 1..GUARD_TAG_BYTES_MAX bytes; naming one twice changes nothing. Otherwise INVALID,
 * and the load fails as INTERNAL, because nothing may be stored that an invalidation would miss. In a batch each key has
 * its own tags. Tags of a value that came from guard_load_get() are not inherited: name them if they apply. An entry
 * that is found unchanged keeps its tags.
 */
enum { GUARD_TAGS_MAX = 8, GUARD_TAG_BYTES_MAX = 64 };
GUARD_API enum guard_status guard_load_tag(struct guard_load *load, const char *tag);

/*
 * For a loader that needs another key: like guard_get_wait() with a kind of the same guard, to be called on the thread
 * that runs the loader. (guard_get_wait() in a loader would keep a thread idle; B of them, waiting for loads that queue
 * behind them, would wait until their deadlines.)
 *
 * Threads   If the key has to be loaded here, the waiting thread does it itself before this function returns; likewise,
 *           if it waits for a deferred load, what that one needs. No other thread is needed and nothing queues; still at
 *           most max_loads loaders are at work, because the outer ones stand still. So do not hold a connection,
 *           transaction or lock that another loader needs over this call: that loader may run inside it, on this stack
 *           (1 MiB for all that are nested).
 * Time      At most what is left of this load, or deadline_ms if that is less. A nested load ends with its outer load,
 *           and a load that is cut short by that is no failure of its key. The call may return a little later than its
 *           deadline while its thread is still loading.
 * Circles   FAILED with GUARD_FAILURE_CYCLE, and a line in the log that names both keys: at once if the key is this
 *           load's own or that of one of its outer loads, if the load of the key waits for this load on another thread
 *           of this process, or if it would nest more than GUARD_NESTED_MAX deep. A circle through several processes
 *           is found after half of the time: a nested request then stops waiting for the other process and loads
 *           without a lease (uncached), which leads back to a key of its own chain. Any nested request for a key that
 *           another process loads that slowly pays with a load of its own. With load_permits it is 200 ms, because
 *           the other process may be waiting for the permit that this load holds.
 * Fresh     Never from the near cache, nor of what is kept for an outage: what a loader makes of the value is stored for all,
 *           and longer.
 */
enum { GUARD_NESTED_MAX = 8 };

GUARD_API enum guard_status guard_load_get(struct guard_load *load, const struct guard_request *request,
                                           struct guard_result *result);

/* ---- changing ---- */

struct guard_invalidated {
    enum guard_status status; /* OK; UNKNOWN: not confirmed, do it again; CLOSING */
    bool value_dropped;       /* there was a value or an absent entry; of a tag: there may have been some */
    bool load_voided; /* a load was running somewhere; its result will not be stored; of a tag: false */
};
typedef void guard_invalidate_done(void *context, const struct guard_invalidated *result);

/* One key, or all entries with a tag. */
struct guard_change {
    const char *key;             /* as in guard_request; copied; or */
    const char *tag;             /* as in guard_load_tag(); copied; the other one is NULL */
    uint32_t deadline_ms;        /* 0: 1 s */
    guard_invalidate_done *done; /* may be NULL; not used by the blocking forms */
    void *context;
};

/*
 * guard_invalidate_wait() for a thread that cannot block. Unconfirmed attempts are repeated until deadline_ms has passed.
 * INVALID, CLOSING, NO_MEMORY, SHED (GUARD_INVALIDATIONS_MAX are under way): never calls back.
 *
 * A tag drops all entries that have it (guard_load_tag()), in every process, however many there are: one command, which
 * touches none of them. A running load goes on and answers the requests that began before its query; what it
 * stores does not count. A remembered failure stays. Modes LOCAL and OFF are like FLEET here, because their values are
 * in Redis, too; in mode SHADOW the fleet's entries are meant. An entry is also out of date when Redis has evicted what
 * it knows of one of its tags: a tag costs some 120 bytes there, and keeps them for max_value_ms after its last entry
 * was stored.
 */
enum { GUARD_INVALIDATIONS_MAX = 10000 };

GUARD_API enum guard_status guard_invalidate(struct guard *guard, const struct guard_change *change);

/*
 * From now on the entry is stale, not gone. A load that runs is voided as by an invalidation. Where the entry has no stale
 * time it is an invalidation. A get that starts after OK was reported gets a value that was loaded after it, or an older
 * one that is marked GUARD_FROM_STALE, for no longer than the entry's own stale time; in another process also a near
 * value, until the message arrives and for near_ms at the most, or one of an outage. value_dropped: there was one, and it is
 * stale or gone.
 * Repeated, refused and reported as guard_invalidate(). Where Redis's clock steps back, an expired value may be fresh
 * again for as long. Of a key whose slot of the Cluster moves it is an invalidation.
 *
 * A tag expires all entries that have it, with one command, which touches none of them: each becomes stale when it is first
 * found, for what is then left of its own stale time since the expiry. What was invalidated before, by this tag or another,
 * or is later, is gone; so is what was expired when Redis has evicted what it knows of that (at most 512 bytes for a tag,
 * for max_value_ms after its last expiry). Of more than 16 expiries within that time some count from an earlier one. A
 * running load goes on, as after an invalidation of the tag; what it stores is stale.
 */
GUARD_API enum guard_status guard_expire(struct guard *guard, const struct guard_change *change);
GUARD_API enum guard_status guard_expire_wait(struct guard *guard, const struct guard_change *change,
                                              struct guard_invalidated *result);

struct guard_refreshed {
    enum guard_status status; /* OK: every key was looked at; TIMEOUT; CLOSING */
    size_t loaded;            /* by this process, or by another one meanwhile; absent rows, too */
    size_t fresh;             /* were there already */
    size_t failed;            /* their loads failed, now or within failure_ms */
    size_t shed; /* not loaded: no place, no worker within lease_ms, Redis away, or the time was over */
};
struct guard_refresh_request {
    struct guard_kind *kind;
    const char *const *keys; /* each as in guard_request; copied */
    size_t count;            /* 1..GUARD_REFRESH_MAX */
    uint32_t deadline_ms;    /* for all; 0: a minute */
    void (*done)(void *context,
                 const struct guard_refreshed *result); /* once, on the guard's thread; may be NULL */
    void *context;
};
enum { GUARD_REFRESH_MAX = 10000 };

/* Loads what is missing or stale, in the background: under leases and permits, after all loads that a request waits for,
 * four keys at a time, each looked at before. So a deployment can warm its hot keys. A request for one of these keys is
 * answered as soon as without the refresh, in another process at most lease_ms later. Its lookups and loads count as requests
 * in the statistics. INVALID, CLOSING, SHED (max_waiters), NO_MEMORY: `done` is never called. */
GUARD_API enum guard_status guard_refresh(struct guard *guard, const struct guard_refresh_request *request);

struct guard_cleared {
    enum guard_status status; /* OK; UNKNOWN: not confirmed, some of it may be left, do it again; CLOSING */
    uint64_t entries;         /* removed, since the call that it goes on for */
};
typedef void guard_clear_done(void *context, const struct guard_cleared *result);

/*
 * Drops every entry of the namespace, of all kinds: first all leases are voided, so that no load that runs is stored, then
 * values, absent entries, marks and remembered failures go, in steps of bounded work. Permits, locks and what is known of
 * tags stay. A get that starts after OK was reported sees no value that was loaded before the call, but in another process
 * a near one, until the message arrives and for near_ms at the most. deadline_ms 0: a minute. Repeated within a minute of an
 * UNKNOWN it goes on where that one stopped, and its OK is about what was loaded before the first of these calls, so any
 * number of keys is gone through in the end, however short deadline_ms is. A process that dies half way
 * leaves a cache that is partly cleared, and correct. A master that changes within 30 s of OK is cleared, too, while this
 * process lives. In mode SHADOW the fleet's. The login needs SCAN.
 * INVALID, CLOSING, NO_MEMORY: never calls back. `done` may be NULL; on the guard's thread.
 */
GUARD_API enum guard_status guard_clear(struct guard *guard, uint32_t deadline_ms, guard_clear_done *done,
                                        void *context);
GUARD_API enum guard_status guard_clear_wait(struct guard *guard, uint32_t deadline_ms,
                                             struct guard_cleared *result);

/* ---- a policy changed while running ---- */

/* Another policy for the kind, from the next request on. What is under way keeps the one it began with: a request, a load,
 * also for a request that joins it, and what is stored or near, until its time is over. Loader, batch loader, context and
 * tagged must be the same, and the name, or NULL. INVALID, as guard_kind_add(): the old one stands. Each policy that differs
 * from the one before takes some 150 bytes until guard_close(). */
GUARD_API enum guard_status guard_kind_set(struct guard_kind *kind, const struct guard_policy *policy,
                                           struct guard_error *error);
/* The policy as it is now; its `name` is lent until guard_close(). */
GUARD_API void guard_kind_read(const struct guard_kind *kind, struct guard_policy *out, size_t struct_size);
static inline void guard_kind_get(const struct guard_kind *kind, struct guard_policy *out)
{
    guard_kind_read(kind, out, sizeof *out);
}

/* ---- the first word of Redis ---- */

/*
 * A process that is handed requests before it is connected loads for itself what lies warm in the cache, or what another
 * one is loading. So between guard_open() and listening wait until Redis has said how it is: OK, connected (to all masters
 * of a Cluster); UNKNOWN, it could not be reached or refused, or connect_limit_ms were over: serve all the same, uncached
 * until it comes. From then on a call is told at once how that is now. A loop that is attached later connects by itself, and
 * its requests go by the guard's connection until then. INVALID, CLOSING, NO_MEMORY: never calls back.
 */
typedef void guard_connected_done(void *context, enum guard_status status); /* OK, UNKNOWN, CLOSING */
/* `done` on the guard's thread. */
GUARD_API enum guard_status guard_connected(struct guard *guard, guard_connected_done *done, void *context);
/* For a thread that can block: not from a callback, not on a thread that runs a loop. */
GUARD_API enum guard_status guard_connected_wait(struct guard *guard);

/* ---- which cache ---- */

/*
 * The name of the cache that this guard invalidates: a UUID that stands for one namespace in the data of one Redis,
 * however that Redis is reached and spelled. A replica has the same name; a Redis that lost its data gets another one, unless a
 * process that knew the old name gives it back; in mode SHADOW it is the fleet's. False, and "": not known at present,
 * because Redis cannot be reached or because this is the first call, which only begins to ask. In the callback of an
 * invalidation that was OK it names the cache in which it happened. Never blocks.
 */
enum { GUARD_CACHE_ID_BYTES = 36 };
GUARD_API bool guard_cache(struct guard *guard, char id[GUARD_CACHE_ID_BYTES + 1]);

/*
 * ---- the near cache ----
 *
 * With near_bytes and near_ms, what a lookup found in Redis stays in this process's memory for near_ms and is answered from
 * there: no Redis, no callback (GUARD_NOW), no allocation. OK and ABSENT only; never in the modes OFF and SHADOW.
 *
 * What it costs in freshness: the process that invalidates, or stores a newer value, sees it at once, others when the message
 * arrives, and after near_ms at the latest. While the subscription is down nothing is near.
 */

/*
 * ---- outage ----
 *
 * While this process cannot ask Redis, an answer that it has serves requests for up to outage_ms after an instant at which it
 * was known to be right: so a key whose answer is there costs no query, and any other key one in each process, and one more
 * in each outage_ms. GUARD_FROM_KEPT says so, and guard_stats.kept counts it, as no hit.
 *
 * Price      An invalidation that Redis confirmed to another process while this one was cut off shows here after the longer of
 *            outage_ms and near_ms at the latest, counted from the invalidation. Where Redis is away for all, none can be
 *            confirmed meanwhile, and there is no price. One by this process shows at once, confirmed or not; and once the
 *            subscription is back nothing is served that is older than a confirmed one. outage_ms 0: no price.
 * What       What lookups have found and what loads have brought, OK and ABSENT, fresh or within its stale time; in kinds
 *            without near_ms, too. Not failures, nor what is shared or for one request. near_bytes is the memory for it; with 0
 *            a line in the log says that there is none. The modes OFF and SHADOW keep nothing.
 * Known      From when its lookup was sent, or its query began; of a near value also from the last moment at which all messages
 *            are known to have been heard, no longer than it is near (not in a Cluster). The end comes by up to a twentieth
 *            of outage_ms sooner, by lot. In the last tenth (a third, if its load is slow) a request that gets it has it
 *            loaded in the background, behind users; of a stale one, too, whatever soft_ms says.
 * When       Only in place of Redis: a lookup could not be sent, was refused, or had no answer within half of redis_limit_ms.
 *            Where that is known beforehand, GUARD_NOW if there is room for results. A get that Redis has answered loads,
 *            and so do REVALIDATE, guard_refresh() and what a loader asks for.
 * Gone       All of it when the subscription is up again, when another master reigns, and when a server says that it is none or
 *            has lost its replicas; a key or a tag when this process invalidates it, or hears of that.
 * Bounds     fresh_ms and stale_ms, its own or the policy's. A load that takes longer than outage_ms, a value above a 64th of
 *            near_bytes, and a failure cost one query after another.
 */

/*
 * ---- shares ----
 *
 * Requests for one key (`key`) and requests for many (`keys`) cannot keep each other from being loaded:
 *
 * Places     Each share has max_loads + load_queue of its own. A place is one query: batch_max keys of requests for
 *            many take one if the kind has a batch loader. Loads that are queued singly take one each until they leave
 *            as one query, which is of the share of its oldest load. So a request for one key is shed only because
 *            of others for one key, and a request for many only because of others for many.
 * Waiters    Each share has max_waiters of its own; every key counts.
 * Turns      While both wait, the next load is one of the share with fewer queries running; if they have the same
 *            number, they take turns: each gets half of max_loads as loads end (with max_loads 1 every other query).
 *            While only one waits it may use them all. With load_permits the next permit of this process goes the same
 *            way.
 * Keys       A key of both kinds of request counts as one that is requested singly; if there is no place for it there,
 *            it stays where it is queued. A background refresh takes a whole place, and gives it up for a user of its
 *            share that would be shed otherwise. One that has only queued for lease_ms gives its lease back.
 */

/*
 * ---- permits ----
 *
 * max_loads, B, bounds what one process does to the source; in an avalanche, when thousands of keys expire
 * together, that is B queries for each process. With load_permits no more than that many queries run at a time over all
 * processes: a load takes a permit from Redis, or from the load before it in this process, and stays queued, without a thread,
 * until it has one. A batch is one query and takes one permit, whatever requests its keys are of; a nested load runs under the
 * permit of its outer load.
 *
 * Order      First come, first served among the processes that wait. A process keeps a permit for a turn: for 50 ms, or 8
 *            queries if that is less, it passes to the next load that has waiters, without a round trip; so another
 *            process waits for its first one at most so much longer. Loads with waiters come before background refreshes,
 *            in this process and in the fleet.
 * Life       A permit lasts permit_ms and is renewed while its query runs. The permit of a killed process comes back
 *            when it runs out; the query may still be running then, beside one more.
 * Limits     When a process is stopped for longer than permit_ms, or Redis loses its data, permits in use are lost
 *            (permit_lost): their loads go on and are counted again, and until they end there may be more than
 *            load_permits. While Redis is away, the breaker is open or Redis refuses the script, loads start without
 *            a permit (permit_spared); B per process is the bound then, as in the modes LOCAL and OFF. SHADOW takes no
 *            permits. Give the source a hard limit of its own, above S (PostgreSQL: ALTER ROLE ... CONNECTION LIMIT).
 */

/*
 * ---- shadow mode ----
 *
 * Shadow mode is the first step into a running backend. Every request is answered by a load of its own: nothing cached,
 * stale or remembered ever answers, nobody waits for anybody or for Redis, and no caller notices when Redis is away.
 * Beside it the guard does all that mode FLEET does with the same keys and policies: lookups, leases, waits, fills,
 * wake-ups; it stores what those loads brought. guard_stats() says what would have come of it: shadow_saved loads would
 * not have been made.
 *
 * Invalidations happen in name_space itself, because a fleet beside this process must not keep what was changed here;
 * they report as in mode FLEET, when Redis has confirmed them.
 *
 * The values are stored in full (hits and memory would not be true otherwise), but in a namespace of their own,
 * name_space and "~": a fleet that is switched on later starts empty. Processes in this mode share it. There is no
 * near cache, which would save Redis work and no loads.
 */

/* ---- watching ---- */

/*
 * What just happened, told once by the process in which it happened, in the order in which it did. On the guard's thread,
 * outside every lock, after guard_stats() counts it and before the callbacks that this thread makes of it; all of it is
 * lent until the hook returns. The hook may call what any callback may. No event is made of a hit. For want of memory
 * some are lost, and those of loads that guard_close() leaves to their loaders.
 */
enum guard_event_what {
    GUARD_EVENT_LOAD_STARTED, /* key, kind, load; count: requests that wait */
    GUARD_EVENT_LOAD_ENDED, /* key, kind, load, status, failure, us; count: as above; CANCELLED: not wanted; NO_MEMORY:
                               this process had no thread or no memory for it */
    GUARD_EVENT_LEASE_LOST,   /* key, kind, load */
    GUARD_EVENT_FILL_REFUSED, /* key, kind, load: the lease was lost before, or Redis refused */
    GUARD_EVENT_SHED,         /* key, kind: no place for a load; count: requests that got SHED */
    GUARD_EVENT_INVALIDATED,  /* or expired: key, or a tag in `key` and count 1; status; us; kind NULL */
    GUARD_EVENT_REDIS,        /* redis_state */
    GUARD_EVENT_BREAKER,      /* count: 1 opened, of any master; 0 closed, of all */
};
struct guard_event {
    enum guard_event_what what;
    const struct guard_kind *kind; /* NULL: of no kind, or not known */
    const char *key;               /* NULL: of none */
    uint64_t load;                 /* as in guard_result; 0: none */
    enum guard_status status;
    enum guard_failure failure;
    int redis_state; /* enum guard_redis_state */
    uint64_t us;
    uint64_t count;
};

enum guard_redis_state {
    GUARD_REDIS_DOWN = 0, /* not connected */
    GUARD_REDIS_DENIED, /* password, ACL, database number; a server that is too old, or no Redis: see the log */
    GUARD_REDIS_UP,
    GUARD_REDIS_REPLICA, /* the server is a replica, or has become one; connected again until it is a master */
    GUARD_REDIS_FENCED, /* a master without its replicas (NOREPLICAS): answers nothing; every 5 s connected anew */
};

/* Upper bounds of the histogram buckets below in microseconds; the last bucket has none. */
#define GUARD_HISTOGRAM_BOUNDS_US                                                                            \
    {                                                                                                        \
        250, 500, 1000, 2500, 5000, 10000, 25000, 50000, 100000, 250000, 500000, 1000000, 2500000, 5000000,  \
            10000000                                                                                         \
    }
enum { GUARD_HISTOGRAM_BUCKETS = 16 };

struct guard_histogram {
    uint64_t count[GUARD_HISTOGRAM_BUCKETS]; /* per bucket, not cumulative */
    uint64_t sum_us;
};

/* Counters since guard_open() and gauges of now. */
struct guard_stats {
    /* answers, each get in exactly one, near_hit below being one more; `shed` also counts those refused at once */
    uint64_t hit, stale, absent_hit, failed_hit; /* from Redis without waiting */
    uint64_t loaded, collapsed_process, collapsed_fleet;
    uint64_t failed, shed, timed_out, cancelled, closed;
    uint64_t missed; /* GUARD_PEEK: MISS; its UNKNOWN is in `failed` */
    /* loads of this process */
    uint64_t load_started, load_ok, load_absent, load_failed, load_cancelled;
    uint64_t load_queries;  /* that those started were: all loads of one call of a batch loader are one */
    uint64_t load_uncached; /* of those started: without a lease (Redis gone, mode local or off, ...) */
    /* started while another load of the key ran here under a live lease: 0. One that revalidates is apart */
    uint64_t load_duplicate;
    /* get_duration: every get but those refused at once; near hits as 0 us */
    struct guard_histogram load_duration, lease_wait, get_duration;
    /* the lease */
    uint64_t lease_acquired, lease_busy, lease_renewed, lease_lost, lease_released;
    uint64_t fill_stored, fill_late, fill_refused, fill_unknown, fill_too_big;
    uint64_t wake_messages, wake_polls, wake_resyncs;
    uint64_t invalidated, invalidate_unknown;
    uint64_t entry_rejected; /* entries in Redis that were not ours, damaged or of another key */
    /* Redis */
    uint64_t redis_commands, redis_round_trips, redis_timeouts, redis_errors, redis_connects;
    uint64_t breaker_opened;
    /* the near cache */
    uint64_t near_hit, near_miss, near_evicted, near_dropped, near_cleared;
    uint64_t near_entries, near_bytes; /* now */
    /* gauges */
    uint32_t waiters, flights, loads_running, loads_queued;
    uint32_t beat_age_ms; /* since the guard's thread last had a free moment; it has one every 500 ms */
    enum guard_redis_state redis_state, wake_state;
    bool breaker_open; /* of any master */
    /* stale values and refreshes; of the answers counted in `stale` and the loads counted in `load_started` */
    uint64_t stale_soft;      /* answered at the soft limit */
    uint64_t stale_rescued;   /* answered instead of FAILED, SHED or TIMEOUT */
    uint64_t refresh_started; /* background refreshes of a stale value */
    uint64_t refresh_early;   /* loads begun before a value was stale */
    uint64_t refresh_failed;  /* of both */
    uint64_t load_unchanged;  /* ended by guard_load_unchanged(); counted in no other outcome */
    uint64_t load_nested;     /* of those started: inside a loader that waited for them in guard_load_get() */
    /* mode SHADOW: what mode FLEET would have done. lease_, fill_, wake_, breaker_ and invalidated are its, too */
    uint64_t shadow_saved; /* loads that it would not have made: shadow_hits + shadow_waits */
    uint64_t shadow_hits;  /* gets that would have been answered from the cache, stale and failed ones too */
    uint64_t shadow_waits; /* gets that would have waited for the load of another */
    uint64_t shadow_loads; /* loads that it would have made */
    /* tags */
    uint64_t entry_outdated; /* entries found in Redis older than an invalidation of one of their tags */
    /* of the answers counted in collapsed_fleet: with a value that came with the wake-up message */
    uint64_t push_answered;
    /* fleet-wide load permits: of this process */
    uint32_t permits_held;                   /* now */
    uint32_t permits_waiting;                /* loads whose turn it is and that wait for a permit, now */
    uint64_t permit_granted, permit_refused; /* answers of Redis; a refusal is asked for again */
    uint64_t permit_lost;   /* not renewed in time, or forgotten by Redis, while their loads ran */
    uint64_t permit_spared; /* loads that began without, because Redis could not be asked */
    uint64_t
        refresh_yielded; /* refreshes that gave their place in the queue to a user, or up after lease_ms */
    uint64_t
        redis_reigns; /* times that another master was found, or none any more: all connections were reset */
    /* Redis Cluster: commands that did not run because their keys were under way to another master */
    uint64_t moving;
    /* confirmed invalidations that were sent again to another master; those that would not be or were given up: more
     * than 4096 within 30 s, or never confirmed there */
    uint64_t replayed, replay_dropped;
    uint64_t keep_cut; /* lives that a loader wanted longer than max_value_ms */
    uint64_t kept;     /* gets answered in place of Redis with what this process has: in no other outcome */
};

GUARD_API void guard_stats(struct guard *guard, struct guard_stats *out);
/* The same of one kind: those numbers whose guard_stat_info says per_kind; the others are 0. */
GUARD_API void guard_kind_stats(const struct guard_kind *kind, struct guard_stats *out);
GUARD_API const char *guard_kind_name(const struct guard_kind *kind);

enum guard_stat_type { GUARD_STAT_COUNTER, GUARD_STAT_GAUGE, GUARD_STAT_HISTOGRAM };
/* What the numbers above are, so that a page of metrics is a loop. */
struct guard_stat_info {
    const char *name, *unit, *help; /* "load_started"; "" or "us", "ms", "bytes"; one sentence */
    enum guard_stat_type type;
    bool per_kind;
};
/* i from 0; NULL: there are no more. */
GUARD_API const struct guard_stat_info *guard_stat_info(size_t i);
/* Of a counter or a gauge; 0 of a histogram. */
GUARD_API uint64_t guard_stat_value(const struct guard_stats *stats, size_t i);
/* NULL: not a histogram. */
GUARD_API const struct guard_histogram *guard_stat_histogram(const struct guard_stats *stats, size_t i);

/* Which keys the guard works for. Weights are of this process and halve every minute. */
enum guard_hot_by {
    GUARD_HOT_COLLAPSED = 0, /* gets that the load of another get answered: queries saved */
    GUARD_HOT_WAIT,          /* microseconds that gets have waited for a load or a lease */
};

enum { GUARD_HOT_KEY_BYTES = 96 };

struct guard_hot_key {
    char key[GUARD_HOT_KEY_BYTES]; /* a longer one is cut */
    uint64_t weight;               /* never too low ... */
    uint64_t error;                /* ... and too high by this at most */
    struct guard_kind *kind;       /* so that guard_refresh() can load it elsewhere */
};

/* The heaviest first, at most `max` of them; returns how many. There are guard_config.hot_keys at the most. */
GUARD_API size_t guard_hot(struct guard *guard, enum guard_hot_by by, struct guard_hot_key *out, size_t max);

/*
 * ---- after fork() ----
 *
 * A guard belongs to the process that opened it. In a child, functions that return a status refuse with INVALID at once,
 * with one line on stderr; guard_hot() finds nothing, guard_stats() counts nothing, guard_cancel() and guard_drain() do
 * nothing. The child may close what it has: guard_close() returns OK, and guard_loop_detach() calls `detached` before it
 * returns. Neither touches the parent's threads and connections; their memory and descriptors stay until exec or exit. The
 * child may keep and give back values, and open guards of its own, on a loop of its own. A child forked in a callback or a
 * loader must end there. vfork() and _Fork() go unnoticed.
 */

#ifdef __cplusplus
}
#endif

#endif
