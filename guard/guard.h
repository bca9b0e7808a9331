/* SPDX-License-Identifier: MIT */
/*
 * guard.h - the cache-stampede guard: one load per key, fleet-wide.
 *
 * Many processes share a Redis cache in front of a slow source. When an entry is missing, exactly one caller in the
 * whole fleet runs the loader, and all others get its result. advanced.h, included at the end, is for hosts that want
 * more.
 *
 *     static void load_user(struct guard_load *load, void *context)
 *     {
 *         ...query the row of guard_load_key(load), within guard_load_left_ms(load)...
 *         guard_load_done(load, row, row_bytes, NULL);    or guard_load_absent(load), or guard_load_fail(load, why)
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
 * Threads    Any thread may call any function, unless it says otherwise. Callbacks run on the guard's own thread;
 *            those of a request or change with a loop on the loop's. Keep them short. A call that blocks is INVALID
 *            in a callback of any guard or of locks.h, as the log says. Loaders run on load threads (see "loads_on").
 * Once       An accepted request calls back exactly once, never from inside the call that started it, also if it is
 *            cancelled or the guard closes; but not after guard_forget(). A refused one (not GUARD_OK) never does.
 * Ownership  Arguments are *copied*, or *lent until X*. What is *yours* you give back with the function named there.
 *            Handles are closed with **, which leaves NULL.
 * Time       Spans are milliseconds and end in _ms. No wall clock takes part in any decision, on any machine.
 * Errors     "No such row" (GUARD_ABSENT) is an answer. `struct guard_error` is the caller's and may be NULL; its
 *            text is one line: what is wrong and what to do. If a call without one returns INVALID, the log names
 *            function and argument. Nothing here reads or sets errno, raises SIGPIPE or exits.
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
struct guard_loop;   /* an event loop of the host's: see "loops" in advanced.h */
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

/* Starts the guard's threads. While Redis is away the guard works by itself; it joins the fleet when Redis comes.
 * guard_connected_wait() waits for that, before requests come. INVALID, NO_MEMORY. */
GUARD_API enum guard_status guard_open(const struct guard_config *config, struct guard **out,
                                       struct guard_error *error);
/* Declares a kind of data, which lives until guard_close(). The policy is copied. INVALID names the field that is out
 * of bounds, and why; also a name that another kind has. All requests for a key must use one kind; a load runs under
 * the policy of the request that started it. */
enum { GUARD_KINDS_MAX = 64 };
GUARD_API enum guard_status guard_kind_add(struct guard *guard, const struct guard_policy *policy,
                                           struct guard_kind **out, struct guard_error *error);

/* Runs on a load thread (but see "loads_on"), and may block. Finishes its load by exactly one of done, absent,
 * unchanged and fail, in here or later (guard_load_defer()). Begin the query in here: now its value is safe to cache.
 *
 *     returns without finishing, or ends the thread    the load fails as INTERNAL
 *     finishes twice, on any thread, at any time       the first verdict stands, the later one is INVALID
 *     any call about a load that is over               INVALID: the handle never names another load
 *
 * Each breach is a line in the log, with the key until the load is over. If this process has no thread for a load, or
 * no memory for its answer, its requests get NO_MEMORY. That is no failure: another process may load. */
typedef void guard_loader(struct guard_load *load, void *context);
GUARD_API const char *guard_load_key(const struct guard_load *load); /* lent until the loader returns */
/* What is left of load_limit_ms, at most of max_hold_ms; 0: it is over. For statement_timeout and poll(). */
GUARD_API uint32_t guard_load_left_ms(const struct guard_load *load);

/* OK; INVALID: already finished. body: copied, any bytes, may be empty. validator: an ETag, a version; copied; NULL
 * or at most 127 bytes of printable ASCII, otherwise the load fails as INTERNAL. */
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
/* Immutable, reference-counted, shared by all its waiters. body[body_bytes] and meta[meta_bytes] are always 0. */
struct guard_value {
    const char *body;
    size_t body_bytes;
    const char *validator, *meta; /* what the loader passed, "" if nothing */
    size_t meta_bytes;
};
/* Asks and waits. Not on a thread that runs a loop: the loop would stand still. INVALID in a callback, and on a
 * thread that runs a loader of this guard: call guard_load_get() there. *result is always set; its value is yours.
 * Returns result->status. */
GUARD_API enum guard_status guard_get_wait(struct guard *guard, const struct guard_request *request,
                                           struct guard_result *result);
/* Gives one reference back and leaves NULL. Accepts NULL in *value. */
GUARD_API void guard_value_unref(const struct guard_value **value);

struct guard_change;      /* {.key} is enough: see "changing" */
struct guard_invalidated; /* its .status is what is returned */
/* Call it after COMMIT, until it returns OK. A get that starts after that never sees an older row, in any process,
 * but for what "the near cache" and "outage" allow others. Blocks: not from a callback. */
GUARD_API enum guard_status guard_invalidate_wait(struct guard *guard, const struct guard_change *change,
                                                  struct guard_invalidated *result);

/* Gives running loads drain_ms, answers the rest with CLOSING: see "closing". INVALID where it may not block. */
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

/* results[0..count), one per key. Lent until the callback returns, their values too. */
typedef void guard_answered(void *context, const struct guard_result *results);

struct guard_request {
    struct guard_kind *kind;
    const char *key;          /* 1..4096 bytes, none of them 0; copied */
    uint32_t deadline_ms;     /* 0: the policy's; for all keys */
    guard_answered *answered; /* not used by the blocking forms */
    void *context;

    const char *const *keys;   /* in place of `key`: see "many keys at once" in advanced.h */
    size_t count;              /* of keys, 1..GUARD_MANY_MAX; 0 with `key` */
    struct guard_loop *loop;   /* asked and answered on its thread; NULL: on any, and on the guard's */
    unsigned flags;            /* GUARD_PEEK, GUARD_REVALIDATE; not both */
    struct guard_load *within; /* a deferred load that needs this answer: see guard_load_defer() */
    void *asker; /* reaches the load that this request, or its stale answer, starts: guard_load_asker() */
    void (*asker_ref)(void *asker);   /* both NULL: `asker` outlives request and load by other means; */
    void (*asker_unref)(void *asker); /* else one asker_unref per asker_ref, on any thread */
    size_t key_bytes;                 /* of `key`; 0: it is NUL-terminated */
    const size_t *keys_bytes;         /* of each of `keys`; NULL: all are NUL-terminated */
};

/*
 * PEEK        Only looks: no load, no wait, no refresh. Answers what is cached, fresh or stale, or MISS. UNKNOWN:
 *             Redis could not be asked and nothing is kept for an outage. Ignores deadline_ms: takes at most
 *             redis_limit_ms, twice that if tags must be checked, five times if one of them was expired. MISS in mode
 *             SHADOW.
 * REVALIDATE  Only a load that begins after this request answers it; in another process, one whose lease was granted
 *             after this request's first lookup. So no near, kept, cached or stale value does, nor a load that was
 *             running. Such requests collapse among themselves. The old value answers others until the new one is
 *             stored; near ones elsewhere until the message arrives, at most near_ms. A remembered failure still
 *             answers FAILED within failure_ms. If neither load has a lease, another load of the key, for requests
 *             that do not revalidate, may run beside it in this process.
 */
enum { GUARD_PEEK = 1, GUARD_REVALIDATE = 2 };

/* Names one accepted request for guard_cancel(); never 0, never used twice. */
typedef uint64_t guard_ticket;

/*
 * Asks, and calls `answered` later. `results` and `ticket` may be NULL.
 *
 * OK      `answered` will be called once (with SHED if the last place was taken meanwhile).
 * NOW     Answered from this process's memory: results[0..count) are set, their values are yours
 *         (guard_value_unref()), and `answered` is never called. Only if `results` is given and every key is in the
 *         near cache or kept for an outage. After any other status `results` holds nothing of use.
 * Others  SHED (max_waiters), INVALID, CLOSING, NO_MEMORY: nothing was asked.
 */
GUARD_API enum guard_status guard_get(struct guard *guard, const struct guard_request *request,
                                      struct guard_result *results, guard_ticket *ticket);

/* Answers with CANCELLED what has no answer yet; the loads go on for others. `loop` is the request's. A ticket that
 * waits no longer is ignored. */
GUARD_API void guard_cancel(struct guard *guard, struct guard_loop *loop, guard_ticket ticket);
/* Cancels so that nobody is told, for a host whose request ends at once. When it has returned, `answered` will not be
 * called and `context` not be looked at, whatever the answer was to be; asker_unref still comes. Also from a callback
 * of that loop, and of a ticket that waits no longer: OK. INVALID: no loop, not the thread that asks on it, or
 * a ticket of a request elsewhere. */
GUARD_API enum guard_status guard_forget(struct guard *guard, struct guard_loop *loop, guard_ticket ticket);

/* Keeps a lent value beyond its callback. What it returns is yours. */
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
 * Stale        A stale value is answered at once, and one process of the fleet refreshes it in the background. If
 *              that process dies, another follows when its lease has run out. If the refresh fails, the stale value
 *              goes on being served and nobody tries again for failure_ms. An invalidation drops stale values too.
 *              age_ms tells the age: at most fresh_ms + stale_ms.
 * Soft limit   With soft_ms, a request that finds a stale value first waits for its refresh, up to soft_ms after the
 *              request began (or its deadline, if earlier). Then it gets the stale one, and the load goes on. It gets
 *              the stale one at once if the refresh fails, cannot begin (failure_ms, no place among the loads), or
 *              runs in another process while the mode is not FLEET. Without a stale value soft_ms means nothing:
 *              deadline_ms is the limit, and TIMEOUT, FAILED or SHED the answer.
 * Early        With early_percent a hit may refresh a fresh value before its time: when -ln(random) * load time *
 *              early_percent / 100 exceeds what is left of its freshness (XFetch; Vattani, Chierichetti, Lowenstein,
 *              VLDB 2015). The load time is that of the last fill. The request is answered like any hit; its process
 *              tries for the lease and loads in the background. Nobody waits.
 * Abandon      With `abandon`, a load is cancelled once nobody in the fleet waits for it (elsewhere that is noticed
 *              within lease_ms). A request that comes just then gets another load, and that one is never abandoned:
 *              so impatient clients cannot keep a key cold for ever. The refresh of an existing value is never
 *              abandoned.
 */
enum { GUARD_MANY_MAX = 256 };
/* Loads several keys with one query: see "many keys at once" in advanced.h. */
typedef void guard_batch_loader(struct guard_load *const *loads, size_t count, void *context);

/* Where a loader runs: see "where a loader runs" in advanced.h. */
enum guard_loads_on {
    GUARD_ON_THREAD = 0, /* on a load thread */
    GUARD_ON_LOOP,       /* on the loop of the request, which must name one; it must not block */
    GUARD_ON_CALLER,     /* on the thread that waits in guard_get_wait(); else on a load thread */
};

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
    uint32_t deadline_ms; /* a request is answered within this, whatever happens; but see GUARD_ON_CALLER */
    uint32_t near_ms;     /* the near cache answers for so long without Redis; needs near_bytes; 0 = never */
    uint32_t soft_ms; /* a stale value is answered after waiting this long for a fresh one; 0 = at once; needs
                         stale_ms; at most deadline_ms */
    uint32_t early_percent;           /* XFetch's beta in percent: 100 as in the paper; 0 = never early */
    guard_batch_loader *batch_loader; /* NULL: every key is a query of its own */
    uint32_t batch_max;               /* keys in one call of it; 1..GUARD_MANY_MAX */
    bool tagged;        /* loaders may name tags; a hit of a tagged entry costs Redis one command more */
    bool abandon;       /* a load that nobody waits for any more, in the fleet, is cancelled */
    bool apart;         /* keys of different requests are never one query: see "many keys at once" */
    const char *name;   /* in numbers and events: 1..32 of [a-z0-9_], unique; copied; NULL: "kind0", ... */
    uint32_t outage_ms; /* while Redis cannot be asked, what this process has answers for so long after it was
                           known to be right: see "outage"; 0 = never */
    bool needs_meta;    /* an entry without meta is a miss: see guard_load_meta() */
    enum guard_loads_on loads_on; /* where its loader runs; ON_LOOP, ON_CALLER: without a batch_loader */
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
            GUARD_FIELD(name, NULL), GUARD_FIELD(outage_ms, 5000), GUARD_FIELD(needs_meta, false),           \
            GUARD_FIELD(loads_on, GUARD_ON_THREAD)                                                           \
    }

/* ---- the guard's settings ---- */

struct guard_event;

/* Who waits for whom when a key is missing. In every mode a fill needs a valid lease. */
enum guard_mode {
    GUARD_MODE_FLEET = 0, /* one load in the whole fleet */
    GUARD_MODE_LOCAL,     /* one load per process: nobody waits for another process */
    GUARD_MODE_OFF,       /* one load per request: nobody waits for anybody */
    GUARD_MODE_SHADOW, /* as OFF, with the whole protocol rehearsed beside it: see "shadow mode" in advanced.h */
};

/*
 * One line for an operator: Redis comes, goes or refuses us, a loader breaks its contract, a call has a wrong
 * argument. Printable ASCII, the rest escaped as \xNN; no passwords. At most five lines per subject in 10 s, never
 * the same line twice running. The last suppressed line follows when the window ends. `good`: something is well
 * again, or needs no mending. `text` is lent until the function returns. Called on any thread, also inside the call
 * that is wrong; never in the child of a fork.
 *
 * On stderr (guard_write_stderr()) a line begins with "stampede-guard NAME_SPACE: ". Good news is told there only
 * after bad. If lines could not be written, the first one that can says how many were lost.
 */
typedef void guard_log(void *context, const char *text, bool good);
/* For guard_config.log: says nothing, not on stderr either. */
GUARD_API void guard_log_none(void *context, const char *text, bool good);
/* For a host's own log, which must not block. Writes one line of at most 4096 bytes to stderr in one write(2), or
 * nothing (false): its reader stands still or has left, or the file may not grow. Never blocks, whoever else writes
 * there; raises no signal. */
GUARD_API bool guard_write_stderr(const char *line, size_t bytes);

/* struct_size is what the host was built with. The struct grows at its end: a smaller one gets the defaults of the
 * rest, one larger than the library knows is refused. */
struct guard_config {
    size_t struct_size;     /* sizeof(struct guard_config) */
    const char *redis_url;  /* see guard/README.md, "Which Redis"; copied */
    const char *name_space; /* separates applications that share a Redis; 1..32 of [A-Za-z0-9._-]; copied */
    enum guard_mode mode;
    uint32_t redis_limit_ms;   /* limit of one Redis command; at most a third of any lease_ms */
    uint32_t connect_limit_ms; /* limit of connecting to Redis, DNS and login included */
    uint32_t max_loads;        /* B: loads at a time in this process; 1..4096 */
    uint32_t load_queue;       /* further loads that may queue; shed beyond: see "lanes" in advanced.h */
    uint32_t max_waiters;      /* requests at a time on each loop, and waiting in this process: likewise */
    uint32_t max_value_bytes;  /* larger bodies are answered but not cached */
    uint32_t max_lease_ms;     /* the same in the whole namespace; policies above it are refused */
    uint32_t max_value_ms;     /* likewise, for fresh_ms + stale_ms and absent_ms */
    guard_log *log;            /* NULL: to stderr; guard_log_none: nothing is said */
    void *log_context;         /* lent until guard_close() has returned */
    uint32_t near_bytes;   /* of near values and what is kept for an outage, overhead included; 0 = none */
    uint32_t push_bytes;   /* entries up to this size travel with wake-ups: see below; 0 = none */
    uint32_t load_permits; /* S: loads at a time in the namespace: see "permits"; 0 = no limit */
    uint32_t permit_ms;    /* a dead process keeps its permits for so long; the same in the whole namespace */
    uint32_t load_threads; /* threads that run loaders; at most max_loads; 0: max_loads; see below */
    /* On each load thread before its first load and after its last, also if a loader ends the thread: for its
     * database connection, say. Each may be NULL. */
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
 * push_bytes    A process that waits for another's load leaves a note beside the lease. The fill then sends the entry
 *               (some 130 bytes and the key more than the value) with its wake-up message, which saves each waiting
 *               process a round trip. Every process of the namespace hears every message, in a Cluster every node
 *               too: there the default counts as 2048. Waiters look larger values up. 0: this process asks for no
 *               such message and sends none.
 * load_threads  Made when needed. A load begins when a thread is free and fewer than max_loads run. Until then it is
 *               queued: its lease is renewed, load_limit_ms has not begun. If every loader defers, one or two will
 *               do. thread_begins and thread_ends are called equally often. A loader that still runs when
 *               guard_close() returns TIMEOUT ends its thread later: thread_context must live until then.
 */

/*
 * ---- closing ----
 *
 * guard_close() refuses new requests at once. After drain_ms it cancels the loads that still run, answers everybody
 * left with CLOSING, releases the leases and ends the threads.
 *
 * When        It blocks: INVALID in a callback or a loader of this guard, and *guard stays. Only after every
 *             guard_loop is detached. No other call of this guard may run beside it, guard_stats() included.
 * TIMEOUT     A loader ignored its cancellation for 5 s more, as the log says with its key; the guard's memory is
 *             left to it. Otherwise OK.
 * dlclose()   Do not unload the guard's code. A lookup of Redis's name in DNS cannot be interrupted: its thread may
 *             outlive the call. It touches nothing of the guard and ends by itself.
 *
 * guard_drain() is the first half: requests are refused with CLOSING, running ones go on. Any number of times.
 */
GUARD_API void guard_drain(struct guard *guard);

/* ---- loaders ---- */

/* True once the result is no longer wanted: lease lost, limit passed, nobody waits under `abandon`, closing. */
GUARD_API bool guard_load_cancelled(const struct guard_load *load);
/* A descriptor that becomes readable at that moment, to poll() beside the source's socket; it is there until the load
 * is over. Never read from or close it. -1: none could be made. */
GUARD_API int guard_load_cancel_fd(const struct guard_load *load);

/*
 * A refresh may be conditional. previous_validator names the value that this load would replace: "" if it has no
 * validator; lent until the loader returns. NULL: there is none to compare with (nothing cached, an absent entry, a
 * policy without stale values, no lease), so load in full.
 *
 * unchanged says that the source still has exactly what the validator names. So a validator must name everything the
 * value is made of, and never come to mean anything else. The old value is then the answer and lives for another
 * fresh_ms + stale_ms without travelling to Redis again; it is stored anew if Redis has lost it. After a NULL
 * validator it fails the load as INTERNAL.
 */
GUARD_API const char *guard_load_previous_validator(const struct guard_load *load);
GUARD_API enum guard_status guard_load_unchanged(struct guard_load *load);

/*
 * Names a group that the row belongs to: guard_invalidate() of the tag makes every entry with that tag out of date at
 * once. Only in a kind whose policy says `tagged`. Call it before the load is finished, up to GUARD_TAGS_MAX times,
 * for a value or an absent entry. tag: copied, 1..GUARD_TAG_BYTES_MAX bytes; the same one twice counts once.
 *
 * Otherwise it is INVALID and the load fails as INTERNAL: nothing may be stored that an invalidation would miss. In a
 * batch each key has its own tags. A value from guard_load_get() passes no tags on: name those that apply. An
 * unchanged entry keeps its tags.
 */
enum { GUARD_TAGS_MAX = 8, GUARD_TAG_BYTES_MAX = 64 };
GUARD_API enum guard_status guard_load_tag(struct guard_load *load, const char *tag);
/* The same; tag_bytes 0: it is NUL-terminated. */
GUARD_API enum guard_status guard_load_tag_of(struct guard_load *load, const char *tag, size_t tag_bytes);

/*
 * A few bytes beside the body, for a status, headers, a type: they are stored, shared and lent with the value. Call
 * it before the load is finished; the last call counts. meta: copied, any bytes, up to GUARD_META_MAX; 0: none. In a
 * batch each key has its own. An unchanged value keeps its meta, an absent row has none. It is INVALID, and the load
 * fails as INTERNAL, if it is longer or the load is finished. NO_MEMORY: so does the load end. In a kind that says
 * `needs_meta` a value without it fails its load as INTERNAL.
 *
 * A process of a release before this takes an entry with meta for a damaged one: it loads, and stores without. So as
 * long as such processes run, a kind that cannot do without says `needs_meta`: each takes the other's entry for a
 * miss, and a key that both ask for is loaded by turns.
 */
enum { GUARD_META_MAX = 4096 };
GUARD_API enum guard_status guard_load_meta(struct guard_load *load, const void *meta, size_t meta_bytes);

/* ---- changing ---- */

struct guard_invalidated {
    enum guard_status status; /* OK; UNKNOWN: not confirmed, do it again; CLOSING */
    bool value_dropped;       /* there was a value or an absent entry; of a tag: there may have been some */
    bool load_voided; /* a load was running somewhere; its result will not be stored; of a tag: false */
};
typedef void guard_invalidate_done(void *context, const struct guard_invalidated *result);

/* One key, or all entries with a tag; or several of both. */
enum { GUARD_CHANGE_MAX = 64 };

struct guard_change {
    const char *key;             /* as in guard_request; copied; or */
    const char *tag;             /* as in guard_load_tag(); copied; the other one is NULL */
    uint32_t deadline_ms;        /* 0: 1 s */
    guard_invalidate_done *done; /* may be NULL; not used by the blocking forms */
    void *context;
    size_t key_bytes, tag_bytes; /* 0: it is NUL-terminated */
    const char *const *keys;  /* in place of `key` and `tag`, up to GUARD_CHANGE_MAX together with `tags` */
    size_t keys_count;        /* of keys */
    const size_t *keys_bytes; /* of each of `keys`; NULL: all are NUL-terminated */
    const char *const *tags;  /* likewise */
    size_t tags_count;
    const size_t *tags_bytes;
    struct guard_loop *loop; /* where the call is made and `done` comes; NULL: any thread, and the guard's */
};

/*
 * guard_invalidate_wait() for a thread that cannot block. Repeats unconfirmed attempts until deadline_ms has passed.
 * OK: accepted; whether it is done comes in `done`.
 * INVALID, CLOSING, NO_MEMORY, SHED (GUARD_INVALIDATIONS_MAX are under way): never calls back, and nothing was done.
 *
 * Many   All leave in one round trip (in a Cluster one to each master that has some), each as if it were alone: it is
 *        an event, counts, is repeated and said to the next master. One result for all: OK if every one was
 *        confirmed, else why the first was not; value_dropped and load_voided if it was so for any.
 * Tags   One command drops all entries with the tag, in every process, however many there are; it touches none of
 *        them. A running load goes on and answers the requests that began before its query; what it stores does not
 *        count. A remembered failure stays. Redis holds some 120 bytes for a tag until max_value_ms after its last
 *        entry was stored; if it evicts them, the tag's entries are out of date.
 * Modes  LOCAL and OFF are like FLEET here: their values are in Redis, too. SHADOW invalidates the fleet's entries.
 */
enum { GUARD_INVALIDATIONS_MAX = 10000 };

GUARD_API enum guard_status guard_invalidate(struct guard *guard, const struct guard_change *change);

/*
 * Makes the entry stale, not missing; one without stale time is invalidated. A running load is voided as by an
 * invalidation. Repeats, refuses, reports like guard_invalidate(). value_dropped: there was one; it is stale or gone.
 *
 * After OK  A get that starts now gets a value loaded after the call, or an older one that says GUARD_FROM_STALE, for
 *           no longer than the entry's own stale time. In another process also a near value, until the message
 *           arrives and for at most near_ms, or one of an outage.
 * Tags      One command expires all entries with the tag and touches none. Each becomes stale when it is next found,
 *           for what is left of its stale time since the expiry. If an invalidation, by this tag or another, came
 *           before or comes later, the entry is gone. It is gone too if Redis has evicted what it knows of the expiry
 *           (at most 512 bytes per tag, for max_value_ms after the last). Of more than 16 expiries within that time
 *           some count from an earlier one. A running load goes on, as after an invalidation of the tag; what it
 *           stores is stale.
 * Limits    If Redis's clock steps back, an expired value may be fresh again for as long. If the key's slot is moving
 *           in a Cluster, it is an invalidation.
 */
GUARD_API enum guard_status guard_expire(struct guard *guard, const struct guard_change *change);
GUARD_API enum guard_status guard_expire_wait(struct guard *guard, const struct guard_change *change,
                                              struct guard_invalidated *result);

struct guard_refreshed {
    enum guard_status status; /* OK: every key was looked at; TIMEOUT; CLOSING */
    size_t loaded;            /* by this process, or by another one meanwhile; absent rows, too */
    size_t fresh;             /* were there already */
    size_t failed;            /* their loads failed, now or within failure_ms */
    size_t shed; /* not loaded: no place, no worker within lease_ms, Redis or its loop gone, no time left */
};
struct guard_refresh_request {
    struct guard_kind *kind;
    const char *const *keys; /* each as in guard_request; copied */
    size_t count;            /* 1..GUARD_REFRESH_MAX */
    uint32_t deadline_ms;    /* for all; 0: a minute */
    void (*done)(void *context,
                 const struct guard_refreshed *result); /* once, on the guard's thread; may be NULL */
    void *context;
    const size_t *keys_bytes; /* as in guard_request */
    struct guard_loop *loop;  /* where loaders run whose kind is GUARD_ON_LOOP; else not looked at */
};
enum { GUARD_REFRESH_MAX = 10000 };

/* Loads what is missing or stale, in the background, under leases and permits, after all loads that a request waits
 * for. Looks at each key first. Asks four queries at a time, each for up to batch_max keys (one without a
 * batch_loader). A deployment warms its hot keys with it. It delays no request for these keys, in another process by
 * at most lease_ms. Its lookups and loads count as requests in the statistics. INVALID, CLOSING, SHED (max_waiters),
 * NO_MEMORY: `done` is never called. */
GUARD_API enum guard_status guard_refresh(struct guard *guard, const struct guard_refresh_request *request);

struct guard_cleared {
    enum guard_status status; /* OK; UNKNOWN: not confirmed, some of it may be left, do it again; CLOSING */
    uint64_t entries;         /* removed, since the call that it goes on for */
};
typedef void guard_clear_done(void *context, const struct guard_cleared *result);

/*
 * Drops every entry of the namespace, of all kinds (SHADOW: the fleet's). First it voids all leases, so that no
 * running load is stored; then values, absent entries, marks of PASS and remembered failures go, in steps of bounded
 * work. Permits, locks and what is known of tags stay. `done` may be NULL; on the guard's thread. INVALID, CLOSING,
 * NO_MEMORY: never calls back. The Redis login needs SCAN.
 *
 * After OK  A get that starts now sees no value loaded before the call; in another process a near one, until the
 *           message arrives and for at most near_ms. A master that changes within 30 s is cleared, too, while this
 *           process lives.
 * UNKNOWN   Within a minute, the next call goes on where this one stopped: in the end all keys are done, however
 *           short deadline_ms is (0: a minute). Its OK is about what was loaded before the first of these calls.
 * Crash     A process that dies half way leaves the cache partly cleared, and correct.
 */
GUARD_API enum guard_status guard_clear(struct guard *guard, uint32_t deadline_ms, guard_clear_done *done,
                                        void *context);
GUARD_API enum guard_status guard_clear_wait(struct guard *guard, uint32_t deadline_ms,
                                             struct guard_cleared *result);

/* ---- waiting for Redis ---- */

/*
 * A process that gets requests before it is connected loads for itself what is warm in the cache, or what another one
 * is loading. So wait between guard_open() and listening, until Redis has said how it is:
 *
 *     OK         connected (to all masters of a Cluster)
 *     UNKNOWN    unreachable, refused, or connect_limit_ms is over: serve all the same, uncached until it comes
 *
 * Later calls are told at once how that is now. A loop that is attached later connects by itself; until then its
 * requests go by the guard's connection. INVALID, CLOSING, NO_MEMORY: never calls back.
 */
typedef void guard_connected_done(void *context, enum guard_status status); /* OK, UNKNOWN, CLOSING */
/* `done` on the guard's thread. */
GUARD_API enum guard_status guard_connected(struct guard *guard, guard_connected_done *done, void *context);
/* For a thread that can block: not from a callback, not on a thread that runs a loop. */
GUARD_API enum guard_status guard_connected_wait(struct guard *guard);

/*
 * ---- the near cache ----
 *
 * With near_bytes and near_ms, what a lookup found in Redis stays in this process's memory for near_ms. It is
 * answered from there: no Redis, no callback (GUARD_NOW), no allocation. OK and ABSENT only; never in the modes OFF
 * and SHADOW.
 *
 * The price is freshness. The process that invalidates, or stores a newer value, sees it at once; others when the
 * message arrives, after near_ms at the latest. While the subscription is down nothing is near.
 */

/*
 * ---- outage ----
 *
 * While this process cannot ask Redis, it answers with what it has, for up to outage_ms after an instant at which
 * that was known to be right. A key it has costs no query; any other costs one per process, and one more per
 * outage_ms. GUARD_FROM_KEPT says so; guard_stats.kept counts it, as no hit.
 *
 * Price      If Redis confirmed an invalidation to another process while this one was cut off, it shows here after
 *            the longer of outage_ms and near_ms at the latest, counted from the invalidation. If Redis is away for
 *            all, none can be confirmed and there is no price. This process's own show at once, confirmed or not.
 *            Once the subscription is back, nothing older than a confirmed one is served. outage_ms 0: no price.
 * What       What lookups found and loads brought: OK and ABSENT, fresh or within its stale time, in kinds without
 *            near_ms too. Not failures, nor what was shared or is for one request. near_bytes is the memory for it;
 *            with 0 the log says that there is none. The modes OFF and SHADOW keep nothing.
 * Known      From when its lookup was sent or its query began; a near value also from the last moment at which all
 *            messages are known to have been heard, while it is near (not in a Cluster). By lot it ends up to a
 *            twentieth of outage_ms sooner. In the last tenth (a third, if its load is slow) a request that gets it
 *            has it loaded in the background, behind users; a stale one too, whatever soft_ms says.
 * When       Only in place of Redis: a lookup could not be sent, was refused, or had no answer within half of
 *            redis_limit_ms. If that is known beforehand: GUARD_NOW, if there is room for results. A get that Redis
 *            has answered loads; so do REVALIDATE, guard_refresh() and what a loader asks for.
 * Gone       All of it, when the subscription is up again, another master reigns, or a server says that it is no
 *            master or has lost its replicas. A key or a tag, when this process invalidates it or hears of that.
 * Bounds     fresh_ms and stale_ms, its own or the policy's. A load slower than outage_ms, a value above a 64th of
 *            near_bytes, and a failure cost one query after another.
 */

/* ---- watching ---- */

/*
 * guard_config.event is told what just happened, once and in order, by the process in which it happened. It runs on
 * the guard's thread with no lock held, after guard_stats() counts the event and before the callbacks that this
 * thread makes of it. It may call what any callback may. The event is lent until it returns. A hit is no event.
 * Events may be lost for want of memory; those of loads that guard_close() leaves to their loaders are.
 */
enum guard_event_what {
    GUARD_EVENT_LOAD_STARTED, /* key, kind, load; count: requests that wait */
    GUARD_EVENT_LOAD_ENDED,   /* key, kind, load, status, failure, us; count: as above; CANCELLED: not wanted;
                                 NO_MEMORY: this process had no thread or no memory for it */
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
    uint64_t entry_rejected; /* entries in Redis: not ours, damaged, of another key, without needed meta */
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
    uint64_t permit_lost;     /* not renewed in time, or forgotten by Redis, while their loads ran */
    uint64_t permit_spared;   /* loads that began without, because Redis could not be asked */
    uint64_t refresh_yielded; /* refreshes that gave way to a user, or up after lease_ms in the queue */
    uint64_t redis_reigns;    /* times that another master was found, or none: all connections were reset */
    /* Redis Cluster: commands that did not run because their keys were under way to another master */
    uint64_t moving;
    /* confirmed invalidations that were sent again to another master; those that would not be or were given up: more
     * than 4096 within 30 s, or never confirmed there */
    uint64_t replayed, replay_dropped;
    uint64_t keep_cut; /* lives that a loader wanted longer than max_value_ms */
    uint64_t kept;     /* gets answered in place of Redis with what this process has: in no other outcome */
};

/* C++: a function may have the name of the struct that it fills, as stat() has. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
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
#pragma GCC diagnostic pop
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

#include "advanced.h"

#ifdef __cplusplus
}
#endif

#endif
