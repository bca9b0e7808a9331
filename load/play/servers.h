/* SPDX-License-Identifier: MIT */
/*
 * servers.h - the servers of a scenario: its stack, or the user's own.
 *
 *     servers_open()             Redis, PostgreSQL with its products, proxy, replica
 *       servers_start_variant()  an empty Redis and the processes, ready
 *       ...                      runs; faults through `stack.h` and `proxy.h`
 *       servers_stop_variant()   SIGTERM
 *     servers_close()
 *
 * For a scenario without a stack the same functions do nothing, and the addresses are those that it names. With a
 * stack and a redis_url or database_url, that server is the user's: it is neither started nor emptied, and the
 * processes find it in their environment.
 *
 * Threads: one, that of proc.h; servers_post() and servers_database(): any. Errors: false, the reason on stderr
 * unless there is a `why`.
 */
#pragma once

#include "load/play/scenario.h"
#include "load/stack/stack.h"

enum { SERVERS_SETTINGS_MAX = SCENARIO_SETTINGS_MAX + 4, SERVERS_JOIN_LIMIT_MS = 5000 };

struct servers {
    const struct scenario *scenario; /* lent */
    struct stack_redis redis, replica;
    struct stack_postgres postgres;
    struct stack_catalogd catalogd[SCENARIO_PROCESSES_MAX];
    struct proxy *proxy; /* owned; NULL without */
    size_t redis_route, postgres_route;
    char texts[SERVERS_SETTINGS_MAX][SCENARIO_SETTING_BYTES + PROC_PATH_BYTES];
    const char *settings[SERVERS_SETTINGS_MAX + 1]; /* into texts; of every process, for a restart, too */
    bool has_failed_over;
};

bool servers_open(struct servers *servers, const struct scenario *scenario);
/* `variant`: a value of what varies; "" without. */
bool servers_start_variant(struct servers *servers, const char *variant);
void servers_stop_variant(struct servers *servers);
/* Accepts zeros. */
void servers_close(struct servers *servers);

/* Of every process from its next start on. False: too many, or it is too long. */
bool servers_set(struct servers *servers, const char *name, const char *value);
/* Puts the targets into the work. */
void servers_name_targets(const struct servers *servers, struct work *work);
/* How loads and commands are counted. False: not at all. */
bool servers_witness(const struct servers *servers, struct witness_options *out);
/* For statements; NULL: there is none. */
const char *servers_database(const struct servers *servers);

/* The one that the services use now: after a failover the replica. */
struct stack_redis *servers_redis(struct servers *servers);
bool servers_empty_redis(struct servers *servers);

/* Whom a lease, "<uuid> <tag> <lease_ms> <host:pid> <since>", is of; 0: it is none. */
pid_t servers_lease_holder(const char *lease, uint32_t *lease_ms);
/* The process that holds a lease in this instant, by its index. */
bool servers_find_leader(struct servers *servers, size_t *process);

/* To "/path" of the first process or target, or to "http://host:port/path". True: 2xx within limit_ms. */
bool servers_ask(const struct servers *servers, const char *method, const char *url, uint32_t limit_ms,
                 char why[static SCENARIO_WHY_BYTES]);

/*
 * POST to "/path" or "http://host:port/path"; a path goes to the operations listener of the first process of the
 * stack that answers, otherwise to the first target. True: 2xx within limit_ms.
 */
bool servers_post(const struct servers *servers, const char *url, uint32_t limit_ms,
                  char why[static SCENARIO_WHY_BYTES]);
