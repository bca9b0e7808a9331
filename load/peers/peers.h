/* SPDX-License-Identifier: MIT */
/*
 * peers.h - the known caches beside ours, on the same work, in one run.
 *
 *     look()  ---> may run ---> peer_start(ttl) ---> ports, pids ---> contests ---> peer_stop()
 *        +-------> why_not: "not run: ..." in the report             (start and stop once for each contest)
 *
 * A peer is two instances of one cache. All of them get their documents from the same origin: one catalogd that
 * guards nothing, so that PostgreSQL's statement log counts every origin call of all peers alike; ours asks that
 * PostgreSQL itself. Same documents, same TTL, same time to serve stale, see peers.c.
 *
 *     peers.c         the choice, main()
 *     peer.c          what all have in common, ours, nginx with and without our module, Varnish
 *     peer_scripts.c  the others; both: how each is set up, and which page of its documentation says so
 *     stage.c         the servers that all peers share, meters, counting
 *     contests.c      what they are asked for, and what is measured of it
 *     faults.c        the same when something breaks
 *     outcome.c       the tables
 *
 * Threads: all from one, see proc.h. Errors: false, and the reason on stderr or in peer->why_not.
 */
#pragma once

#include "load/herd/burst.h"
#include "load/herd/record.h"
#include "load/report/table.h"
#include "load/stack/proxy.h"
#include "load/stack/rival.h"
#include "load/stack/stack.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { PEER_INSTANCES = 2, PEER_TEXT_BYTES = 192, PEERS_MAX = 8, CONTESTS_MAX = 4 };
enum { QUERY_MS = 200 }; /* what PostgreSQL takes for each load */

/* ---- figures ---- */

/* A figure has a sample for each repetition; its median stands for it. */
enum { SCORE_STATUSES = 600, SCORE_STRAIN_BYTES = 320 };

enum figure {
    FIGURE_ORIGIN_CALLS = 0,
    FIGURE_CALLS_PER_EXPIRY,
    FIGURE_GOOD, /* answered with 200 and the origin's body, in percent of those asked */
    FIGURE_P50,  /* milliseconds, of those answered */
    FIGURE_P99,
    FIGURE_P999,
    FIGURE_MAX,
    FIGURE_SPAN,      /* from the first answer, which comes when the load ends, to the last one */
    FIGURE_RATE,      /* answers a second */
    FIGURE_CPU,       /* of the peer's processes and of Redis, microseconds for each request */
    FIGURE_REDIS,     /* how much of it is Redis's; only of peers that use it */
    FIGURE_FULL_RATE, /* as many as go: answers a second of one instance, and what each costs */
    FIGURE_FULL_CPU,
    FIGURE_FULL_REDIS,
    FIGURE_KILLED_CALLS, /* origin calls when the worker that loads is killed in mid-load ... */
    FIGURE_KILLED_GOOD,  /* ... and answers as in FIGURE_GOOD and FIGURE_MAX */
    FIGURE_KILLED_MAX,
    FIGURE_EXPIRED_GOOD, /* the origin is dead: of an expired document */
    FIGURE_EXPIRED_MAX,
    FIGURE_DEAD_CALLS, /* the same: of one that is in no cache, connections that the dead origin has reset */
    FIGURE_DEAD_MAX,
    FIGURE_PURGE_OLD, /* answers to requests made after a purge was confirmed, with the body from before it */
    FIGURE_PURGE_CALLS,
    FIGURE_COUNT
};

/* What one peer did in one contest; the counts are over all repetitions. */
struct score {
    struct samples figures[FIGURE_COUNT];
    uint64_t asked;
    uint64_t statuses[SCORE_STATUSES];
    uint64_t unanswered[RECORD_OUTCOMES];
    uint64_t wrong_bodies;           /* 200 with another body than the origin's */
    uint32_t strained_count;         /* repetitions in which the generator may have been the bottleneck ... */
    char strain[SCORE_STRAIN_BYTES]; /* ... and how, the last time */
};

/* ---- peers ---- */

/* What all peers share. */
struct stage {
    struct stack_redis redis;
    struct stack_postgres postgres;
    struct stack_catalogd origin;
    struct proxy *road;    /* to the origin: of all but ours, which asks PostgreSQL itself */
    uint16_t origin_port;  /* its end on this side */
    atomic_int loader;     /* the worker (X-Worker) that was the first to ask the origin since this was 0 */
    uint32_t next_product; /* nobody has asked for it yet */
    uint32_t rolling_s;    /* how long the contest "rolling" takes */
};

bool stage_open(struct stage *stage);
void stage_close(struct stage *stage);  /* also one that is all zeros */
void stage_forget(struct stage *stage); /* empties Redis */

/* What every peer is told, in the same numbers. */
struct terms {
    uint32_t ttl_ms;
    uint32_t stale_ms; /* an expired document is served so much longer while one request renews it */
};

struct peer {
    const char *name; /* of its column, and on the command line */
    const char *what; /* one line */
    bool uses_redis;
    bool has_workers;       /* several processes in each instance, of which one can be killed */
    const char *purge_path; /* before the path of what is to be dropped everywhere; NULL: it has none */
    /* Is it installed? Fills in `version`, or `why_not`. */
    bool (*look)(struct peer *peer);
    /* One instance, answering, with nothing cached: one of `rivals`, or of `processes`. */
    bool (*start)(struct peer *peer, size_t index, const struct stage *stage, const struct terms *terms);
    const struct peer_script *script; /* of peer_scripts.c */

    struct rival rivals[PEER_INSTANCES];
    struct stack_catalogd processes[PEER_INSTANCES];
    uint16_t ports[PEER_INSTANCES]; /* on 127.0.0.1; peer_start()'s, like the next one */
    pid_t pids[PEER_INSTANCES];
    char version[PEER_TEXT_BYTES];
    char why_not[PEER_TEXT_BYTES]; /* "": it runs */
};

extern struct peer peer_catalogd, peer_module, peer_nginx, peer_varnish, peer_bentocache, peer_dedupe,
    peer_dogpile, peer_guide;

/* All instances; peer_stop() follows in any case. */
bool peer_start(struct peer *peer, const struct stage *stage, const struct terms *terms);
void peer_stop(struct peer *peer); /* also one that was never started */

/* printf-like; the first reason stays. Returns false. */
bool peer_fail(struct peer *peer, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- contests ---- */

struct contest {
    const char *name;  /* on the command line */
    const char *title; /* over its table */
    struct terms terms;
    const enum figure *figures; /* its rows; ends with FIGURE_COUNT */
    bool needs_wrk;
    bool needs_workers; /* only of peers that have them */
    /* Once for each peer, before anything counts. */
    bool (*prepare)(struct stage *stage, struct peer *peer);
    /* One repetition; a sample of each of its figures goes into the score. */
    bool (*run)(struct stage *stage, struct peer *peer, struct score *score);
};

extern const struct contest contest_burst, contest_rolling, contest_hits, contest_faults;

/* Peers that the contest is not for have no column in its table. */
bool contest_is_for(const struct contest *contest, const struct peer *peer);

/* Both instances are asked for a document of their own once, so that a contest does not begin with what is slow
 * once. */
bool contest_prepare(struct stage *stage, struct peer *peer);

/* A herd over all instances, connected; `event` happens while it waits, and may be NULL. False: peer->why_not. */
enum { HERD = 500 };
bool herd_gather(struct peer *peer, const char *path, const struct burst_event *event, struct burst **burst);

/* "/products/{id}" of a row that nobody has asked for yet. */
void stage_cold_path(struct stage *stage, char path[static BURST_PATH_BYTES]);

/* Both instances answer with the origin's body, which is cached then; its size goes into *body_bytes. False:
 * peer->why_not. */
bool stage_same_body(const struct stage *stage, struct peer *peer, const char *path, uint64_t *body_bytes);

/* Until a load has begun in PostgreSQL since the mark; false after limit_ms. */
bool stage_wait_for_load(const struct stage *stage, uint64_t mark, uint32_t limit_ms);

/* How many loads began in PostgreSQL since the mark; lets those that are still under way show up first. */
uint32_t stage_origin_calls(const struct stage *stage, uint64_t mark);

/* How often the value of one document had to be loaded since the mark, as stack_postgres_expiries() has it. */
uint32_t stage_expiries(const struct stage *stage, uint64_t mark, uint32_t ttl_ms);

/* CPU time so far: of a peer's processes, and of Redis if it uses it. */
struct meter {
    uint64_t peer_us, redis_us;
};
struct meter stage_meter(const struct stage *stage, const struct peer *peer);

/* A sample of what was used since, for each of so many requests: all of it, and Redis's part if there is one. */
void stage_shares(const struct stage *stage, const struct peer *peer, struct meter since, uint64_t requests,
                  struct samples *share, struct samples *redis_share);

/* Samples of FIGURE_P50 to FIGURE_MAX; sorts the times. */
void score_latencies(struct score *score, uint64_t *times_us, size_t count);

/* Counts one request; true: it is a 200 with the right body. */
bool score_tally(struct score *score, enum record_outcome outcome, uint16_t status, bool right_body);

/* ---- reports ---- */

/* Everything that one run showed. */
struct outcome {
    struct peer *peers[PEERS_MAX];
    size_t peer_count;
    const struct contest *contests[CONTESTS_MAX];
    size_t contest_count;
    struct score scores[CONTESTS_MAX][PEERS_MAX];
    char machine[512];
};

void outcome_print(const struct outcome *outcome);
