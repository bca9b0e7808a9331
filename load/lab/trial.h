/* SPDX-License-Identifier: MIT */
/*
 * trial.h - one scheme under one failure: a fresh key, a fresh fleet, the failure's script, the measurements.
 *
 *     trial_run():  row and key --> MONITOR --> fleet --> failure->run() --> all queries let go,
 *                   all answers read --> counted, judged, fleet gone
 *
 * MONITOR is for GROUP_CACHE; of a lock the row itself and the workers' instants say all.
 *
 * Threads: one, see proc.h. Errors: the cell's state is CELL_NOT_RUN, and the reason is on stderr.
 */
#pragma once

#include "load/lab/cell.h"
#include "load/lab/fleet.h"
#include "load/lab/monitor.h"
#include "load/lab/scheme.h"
#include "load/stack/proxy.h"
#include "load/stack/stack.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- servers that only some schemes need: servers.c ---- */

/*
 * The servers that only some schemes need, each started when the first trial asks for it.
 *
 *     masters     three Redis that know nothing of each other. The first worker reaches them through a proxy (see
 *                 proxy.h), all others directly: so a network fails for one process only
 *     pooler      a PgBouncer in transaction mode: its clients share the sessions of the server
 *     ZooKeeper   one server; the first worker reaches it through a proxy, too
 *
 * The wall clock of master SERVERS_CLOCKED is what servers_step_clock() says: a library is preloaded into it, which
 * the variable CHAOS_SHIM of the environment names (make sets it).
 *
 * Threads: one, see proc.h. Errors: false, and the reason on stderr.
 */

enum { SERVERS_MASTERS = 3, SERVERS_CLOCKED = 1 };

struct servers {
    struct stack_redis masters[SERVERS_MASTERS];
    size_t routes[SERVERS_MASTERS]; /* of the proxy, to each */
    struct proxy *proxy;            /* NULL: no masters yet */
    char clock_folder[PROC_PATH_BYTES];
    _Atomic int64_t *offset_s; /* mapped; of the clocked master. NULL: it has the machine's clock */
    struct stack_pgbouncer pooler;
    struct stack_zookeeper zookeeper;
    struct proxy *zookeeper_proxy; /* one route */
};

/* Their URLs, separated by spaces; for the first worker those of the proxy. */
bool servers_masters(struct servers *servers, bool is_first, char urls[static LAB_URLS_BYTES]);

/* The URL of the pooler before this PostgreSQL. */
bool servers_pooler(struct servers *servers, const struct stack_postgres *postgres,
                    char url[static LAB_URLS_BYTES]);

/* "127.0.0.1:port"; for the first worker that of the proxy. */
bool servers_zookeeper(struct servers *servers, bool is_first, char url[static LAB_URLS_BYTES]);

/* What befalls the first worker's connections to a master from here on. */
void servers_fault(struct servers *servers, size_t master, enum proxy_fault fault);

/* The clocked master's wall clock is so far ahead from here on; 0: it is right again. */
bool servers_step_clock(struct servers *servers, int64_t ahead_s);

/* No fault, and the machine's time. */
void servers_mend(struct servers *servers);

/* Accepts a struct that is all zeros. */
void servers_stop(struct servers *servers);

/* ---- a trial ---- */

/* How long is waited and watched, in quarters of a lease. */
enum {
    TRIAL_FOR_EVER_QUARTERS = 20,   /* no request was served for so long: called for ever */
    TRIAL_OTHERS_QUARTERS = 10,     /* a lock that has a lease is taken by another worker within this */
    TRIAL_COUNT_QUARTERS = 2,       /* commands of waiters are counted over this span; within a lease */
    TRIAL_LONG_LEASE_QUARTERS = 16, /* a lease that outlasts a trial: neither tries nor waiting use it up */
    TRIAL_WATCH_QUARTERS = 1,       /* what must not happen is watched for so long; well within a lease */
};

struct lab {
    struct stack_redis redis;
    struct stack_postgres postgres;
    struct servers servers; /* those that only some groups need */
    struct pg_conn *source; /* the controller's connection */
    char folder[PROC_PATH_BYTES];
    uint32_t lease_s;
};

/* What every group needs. lab_stop() in any case. */
bool lab_start(struct lab *lab);
void lab_stop(struct lab *lab);

struct trial {
    struct lab *lab;
    const struct scheme *scheme;
    const struct failure *failure;
    char key[LAB_KEY_BYTES];
    struct fleet fleet;
    struct monitor monitor;
    uint64_t void_from_us, void_until_us; /* the invalidation */
    double waiter_s;                      /* of waiting while commands were counted */
    struct cell *cell;
};

/* One thing that goes wrong; its script asks, stops, kills, and puts what only it can know into the cell. */
struct failure {
    const char *name, *title;
    const char *story; /* what happens, in a line or two */
    enum lab_group group;
    uint32_t worker_count;
    bool (*run)(struct trial *trial); /* false: the trial could not be run */
    uint32_t limit;                   /* units that may be held at once; 0: LAB_ALL */
    bool is_pooled;                   /* PostgreSQL's locks are reached through a pooler */
    bool wants_wake;                  /* the wake delay means something here */
    struct cell_demand demand;
};

/* A table in each file, in the order of what is printed; ends with a NULL name. */
extern const struct failure failures_cache[], failures_lock[], failures_servers[];

/* The index-th of all; NULL: there are no more. */
const struct failure *failure_at(size_t index);

/* *cell is set in any case. */
void trial_run(struct lab *lab, const struct scheme *scheme, const struct failure *failure,
               struct cell *cell);

/* ---- what scripts are made of ---- */

/* So many quarters of a lease. */
uint32_t trial_ms(const struct trial *trial, uint32_t quarters);

/* The row changes, then worker's process invalidates, as an application does after COMMIT. */
bool trial_change(struct trial *trial, uint32_t worker);

/* Sets the cell's stuck time: until a request that is still unanswered is answered, or for ever. */
bool trial_measure_stuck(struct trial *trial, uint64_t since_us);

/* Sets the cell's stuck time: until this worker, or another than the first (FLEET_ANYBODY), next takes the lock. */
bool trial_measure_taken(struct trial *trial, uint32_t worker, uint64_t since_us, uint32_t quarters);

/* Watches for so long whether this worker, or any, comes to hold the lock as often; *held is told, and may be NULL.
 * False: a worker is broken. */
bool trial_watch(struct trial *trial, uint32_t worker, uint32_t wanted, uint32_t quarters, bool *held);

/* How many nodes of this lock there are, its holder's too; -1: no answer. For PLACE_ZOOKEEPER. */
int64_t trial_count_nodes(struct trial *trial);

/* Waits until so many stand in line for the lock, by what its server says. */
bool trial_wait_in_line(struct trial *trial, uint32_t wanted);

/* Counts the Redis commands for half a lease while all workers without the lock wait for it. */
void trial_measure_polling(struct trial *trial);

/* Lets all held queries go and reads answers until no living worker waits any more. */
bool trial_settle(struct trial *trial);

/* ---- matrix.c: schemes x failures, what came of a run; a matrix for each group of failures ---- */

enum { MATRIX_SCHEMES_MAX = 32, MATRIX_FAILURES_MAX = 40, MATRIX_TEXT_BYTES = 256 };

/* What was chosen, and what came of it: cells[failure][scheme]. */
struct matrix {
    const struct scheme *schemes[MATRIX_SCHEMES_MAX];
    size_t scheme_count;
    const struct failure *failures[MATRIX_FAILURES_MAX];
    size_t failure_count;
    struct cell cells[MATRIX_FAILURES_MAX][MATRIX_SCHEMES_MAX];
    char machine[MACHINE_BYTES], command[MATRIX_TEXT_BYTES];
    uint32_t lease_s;
};

/* Whether this failure strikes this scheme, and how many such cells there are. */
bool matrix_concerns(const struct matrix *matrix, size_t failure, size_t scheme);
size_t matrix_cell_count(const struct matrix *matrix);

/* One failure: a row for each scheme. */
void matrix_print_failure(const struct matrix *matrix, size_t failure);
/* A matrix for each group, and what the words in it mean. */
void matrix_print(const struct matrix *matrix);

/* Says on stdout what ours has kept or not. True: everything, and every cell could be run. */
bool matrix_judge(const struct matrix *matrix);
