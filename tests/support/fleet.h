/* SPDX-License-Identifier: MIT */
/*
 * fleet.h - several catalogd processes over one private Redis and one private PostgreSQL.
 *
 *     fleet_up()            once per test program: the two servers, schema and seed data
 *       fleet_start()       per test: an empty Redis and so many processes with these settings
 *       ...                 bursts, invalidations, faults
 *       fleet_end()         per test: SIGTERM to all that still run; each must have ended in order
 *     fleet_down()
 *
 * Loads are counted where they happen: in PostgreSQL's own log, which has a line for every statement that
 * started, also for one that failed or was cancelled. What a process says about itself (/metrics) only tells
 * a test when to go on.
 *
 * A test may pause, kill and restart the servers through stack.h; fleet_start() finds them running again.
 *
 * Threads: all from one, see proc.h. Errors: a function that returns bool says why on stderr.
 */
#pragma once

#include "load/base/http.h"
#include "load/herd/burst.h"
#include "load/stack/stack.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    FLEET_PROCESSES_MAX = 4,
    FLEET_PRODUCTS = 6000, /* ids 1 to this */
    FLEET_LIMIT_MS = 30000 /* of everything a test waits for: generous, nothing is measured with it */
};

/* What fleet_start() sets, for a test that names one of the limits there and still wants to be patient. */
#define FLEET_PATIENT "REDIS_LIMIT_MS=5000", "LEASE_MS=15000"

/* What PostgreSQL logs when such a load starts. */
#define FLEET_LOAD_PRODUCT "/* load product */"
#define FLEET_LOAD_CATALOG "/* load catalog */"

/* The one of the program. */
extern struct fleet {
    struct stack_redis redis;
    struct stack_postgres postgres;
    struct stack_catalogd catalogd[FLEET_PROCESSES_MAX];
    size_t count;          /* of processes that were started; a killed one has pid 0 */
    uint64_t mark;         /* loads are counted from here */
    uint32_t next_product; /* no test of this program has asked for it */
    const int *given;      /* listening sockets that processes are started with (systemd's way); NULL: none */
    size_t given_count;
} fleet;

/* ---- for a group of tests, and after each ---- */

bool fleet_up(void);   /* group */
bool fleet_down(void); /* group */
bool fleet_end(void);  /* test: fleet_stop(), and both servers running again */

/* ---- processes ---- */

/*
 * Empties Redis, has the database forget the caches that were in it, and starts `count` processes in the namespace
 * "fleet" with these settings ("NAME=value", ends with NULL; NULL: none); returns when all are ready and connected to
 * Redis, and registered if they write. Sets the mark.
 *
 * REDIS_LIMIT_MS and LEASE_MS, LOAD_LIMIT_MS and DEADLINE_MS are seconds, more than any machine takes, unless the
 * test names one of the two or what bounds them. Who takes Redis away names what is then waited for.
 */
bool fleet_start(size_t count, const char *const *settings);

/* These settings have one of that name; `settings` may be NULL. */
bool fleet_names(const char *const *settings, const char *name);

/* One more of them, which need not be ready: Redis or PostgreSQL may be away. */
bool fleet_add(const char *const *settings);

/* Ends the process in order, in good time, and frees its place (FLEET_LIMIT_MS, its log is clean). */
bool fleet_retire(size_t process);
/* One more in a place that is free. */
bool fleet_put(size_t process, const char *const *settings);

/* Waits until the process is ready and both its Redis connections are up. */
bool fleet_wait_ready(size_t process);

/* Waits until a process with writes on stores what it loads. */
bool fleet_wait_registered(size_t process);

/*
 * SIGTERM to every process that still runs. False: one crashed, did not end by itself, did not exit with 0 or
 * a sanitizer wrote into its log, the end of which is then on stderr.
 */
bool fleet_stop(void);

/* The parts of it, for any process: SIGTERM, and it ends with 0 in good time; no sanitizer, no assertion in its
 * log. */
bool fleet_ended_in_order(struct stack_catalogd *catalogd);
bool fleet_log_is_clean(const struct stack_catalogd *catalogd);

/* ---- requests ---- */

/* "/products/{id}" of a row that exists and that nobody has asked for in this program; returns its id. */
uint32_t fleet_cold_product(char path[static BURST_PATH_BYTES]);

/*
 * So many requests at once, dealt in turn to the processes that run; the rest of the options is the caller's
 * to fill in. `targets` is lent until burst_close().
 */
struct burst_options fleet_options(struct burst_target targets[FLEET_PROCESSES_MAX], const char *path,
                                   uint32_t request_count);

/* The whole of it: connect, ask at once, read, hang up. `event` runs as soon as all are asked; NULL: none. */
bool fleet_burst(const char *path, uint32_t request_count, const struct burst_event *event,
                 struct burst_summary *out);

/* One request, a GET if `method` is NULL; `*out` is the caller's: http_answer_clear(). */
bool fleet_ask(size_t process, const char *method, const char *path, struct http_answer *out);
/* The same at the operations listener. */
bool fleet_ask_ops(size_t process, const char *method, const char *path, struct http_answer *out);
/* With further lines, or NULL, at either. */
bool fleet_ask_port(uint16_t port, const char *method, const char *path, const char *headers,
                    struct http_answer *out);
/* Of fleet_ask() the status only; 0: no answer. */
unsigned fleet_ask_status(size_t process, const char *path);

struct fleet_invalidated {
    unsigned status; /* of HTTP; 0: no answer */
    bool value_dropped, load_voided;
};
void fleet_invalidate(size_t process, const char *key, struct fleet_invalidated *out);

/* ---- counting and waiting ---- */

/* Loads are counted from here on. */
void fleet_mark(void);
uint32_t fleet_loads(const char *marker);
bool fleet_wait_loads(const char *marker, uint32_t at_least);

/* Waits until PostgreSQL runs so many such loads at one instant. */
bool fleet_wait_running(const char *marker, uint32_t wanted);

/* A sample of a process's /metrics by its whole name; -1: none. And the sum over all that run. */
double fleet_metric(size_t process, const char *sample);
double fleet_sum(const char *sample);
bool fleet_wait_metric(size_t process, const char *sample, double at_least);
/* So many requests wait in the guards of all processes together. */
bool fleet_wait_waiters(uint32_t at_least);

/* ---- the servers' own words ---- */

/* One statement that must work; the first column of the first row, "" if none, into value (may be NULL). */
bool fleet_sql(char *value, size_t value_bytes, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A session of the test's own in a transaction that stays open, which begins with this; NULL: that failed. Whatever
 * comes next in it must work, too; the last of it may be PQfinish(). */
struct pg_conn;
struct pg_conn *fleet_session(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool fleet_session_does(struct pg_conn *session, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool fleet_commit(struct pg_conn *session); /* and ends it */

/* The name of a Redis key of a product: role v (value), l (lease) or e (failure). */
enum { FLEET_KEY_BYTES = 64 };
void fleet_redis_key(char out[static FLEET_KEY_BYTES], uint32_t product, char role);

/* A command with one argument ("PTTL", key) that Redis answers with a number; STACK_REDIS_NO_NUMBER: it did not. */
long long fleet_redis_number(const char *command, const char *key);
/* A command that Redis must not refuse, in hiredis's format. */
#define fleet_redis_does(...) assert_true(stack_redis_do(&fleet.redis, __VA_ARGS__))
