/* SPDX-License-Identifier: MIT */
/*
 * scene.h - what the disasters befall: four catalogd processes, Redis and PostgreSQL, a route of the proxy for
 * each process to each server.
 *
 *     clients --> catalogd 0..3 --> proxy: redis_route[0..3]    --> Redis, its wall clock ours to step
 *                               --> proxy: postgres_route[0..3] --> PostgreSQL, which logs loads with times
 *                               --> proxy: silent_route         --> nobody: the first host of DATABASE_URL
 *
 * PostgreSQL has a standby that has replayed nothing since the beginning.
 *
 * In place of the one Redis there may be one master with replicas under three Sentinels, or a Cluster of three
 * masters with a replica each; processes reach those without the proxy, for they are told the servers' own addresses.
 *
 * What a process says goes through a pipe, whose reader, a process of its own, writes it to its log.
 *
 * Besides products there are pages: listings of a category, which have a tag, and of which one product is edited.
 *
 * Writers and the nemesis go to the servers directly. Everything is private and gone when this program is.
 *
 * Threads: all from one, see proc.h; port[] and ops_port[] are read by any.
 * Errors: false, and the reason on stderr.
 */
#pragma once

#include "load/base/proc.h"
#include "load/stack/proxy.h"
#include "tests/chaos/fault.h"
#include "tests/support/network.h"
#include "tests/support/stack_certificates.h"
#include "tests/support/stack_cluster.h"
#include "tests/support/stack_sentinel.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SCENE_PROCESSES = 4,
    SCENE_WORKERS = 4,        /* loads at a time in each */
    SCENE_KEYS = 12,          /* product ids 1 to this are asked for and edited */
    SCENE_PAGES = 4,          /* asked for and edited by the keys behind those */
    SCENE_PRODUCTS = 4000,    /* the rest are cold */
    SCENE_CONNECTIONS = 60,   /* PostgreSQL's */
    SCENE_LOAD_DELAY_MS = 20, /* every load takes at least this long */
    SCENE_FRESH_MS = 700,
    SCENE_OUTAGE_MS = 1000,
    SCENE_FAILURE_MS = 200,
    SCENE_LEASE_MS = 900,
    SCENE_REDIS_LIMIT_MS = 250,
    SCENE_LOAD_LIMIT_MS = 1500,
    SCENE_DEADLINE_MS = 3000,
    SCENE_SHELF_BYTES = 256 << 10, /* of a loop: after a hundred keys it is full */
};

/* What a fleet with these settings is held to. */
extern const struct check_rules scene_rules;

struct scene_page {
    uint32_t category, product;
    long stock; /* of the product, when its version is 1 */
};

/* 0 and NULL: as the storm has it. What it points to is lent until scene_close(). */
struct scene_options {
    uint64_t seed;                /* decides where replies are cut and whether stale answers are allowed */
    enum fault_topology topology; /* 0: one Redis */
    const struct stack_sentinel_options *sentinel;
    uint32_t fresh_ms, stale_ms;
    bool over_tls;          /* not with one Redis */
    uint32_t wait_replicas; /* that must have an invalidation before it is confirmed; not with one Redis */
    /* Of Sentinels: the master, one of them and the first two processes are beyond a cable. */
    bool in_two_networks;
};

struct scene {
    struct scene_options options;
    struct stack_redis redis; /* or one of the next two */
    struct stack_sentinel sentinel;
    struct stack_cluster cluster;
    struct stack_certificates certificates;
    char certificate[CERTIFICATES_PATH_BYTES], key[CERTIFICATES_PATH_BYTES];
    const char *tls[9];                      /* arguments of every Redis */
    struct network network;                  /* its cable: place 1 */
    struct scene_page page[SCENE_PAGES];     /* none with one Redis */
    struct stack_postgres postgres, standby; /* standby: with one Redis */
    struct stack_catalogd catalogd[SCENE_PROCESSES];
    pid_t reader[SCENE_PROCESSES]; /* of its stderr */
    char folder[PROC_PATH_BYTES];  /* of the script that starts both */
    char program[256];             /* that the script becomes */
    struct proxy *proxy;           /* owned */
    size_t redis_route[SCENE_PROCESSES], postgres_route[SCENE_PROCESSES], silent_route;
    bool paused[SCENE_PROCESSES];
    uint64_t epoch_us;               /* instant 0 of clock_us() in PostgreSQL's time */
    _Atomic int64_t *redis_offset_s; /* mapped: how far Redis' wall clock is ahead */
    _Atomic uint16_t port[SCENE_PROCESSES], ops_port[SCENE_PROCESSES]; /* 0: not there now */
};

/* Everything up and healthy. */
bool scene_open(struct scene *scene, const struct scene_options *options);
/* Ends what runs. False: a process did not end in order or a sanitizer wrote into its log. */
bool scene_close(struct scene *scene);

/* SIGKILL; and a new process on other ports, through the same routes. */
bool scene_catalogd_kill(struct scene *scene, size_t process);
bool scene_catalogd_start(struct scene *scene, size_t process);

/* SIGSTOP to the reader of its stderr, and the pipe is full. */
bool scene_reader_stop(struct scene *scene, size_t process);

/* To where the process is, and home: this thread, before and after it connects to it. */
void scene_go_to(const struct scene *scene, size_t process);
void scene_go_home(const struct scene *scene);

/* A sample of its /metrics; -1: none. */
double scene_metric(const struct scene *scene, size_t process, const char *sample);

/* How many keys there are to ask for, from 1: products, then pages. */
uint32_t scene_key_count(const struct scene *scene);
/* The row of a key, as PostgreSQL has it; 0: no answer. */
uint64_t scene_version(const struct scene *scene, uint32_t key);

/* So many requests at once on a product, dealt to all processes: how many loads that made; -1: not all were answered
 * with 200, and how many were is on stderr. Nobody else asks for it meanwhile. */
int scene_burst(struct scene *scene, uint32_t product, uint32_t request_count);

/* For every product, once each loop or more: all are known by then, and what has a fixed size in a process is
 * used. */
bool scene_ask_for_all(struct scene *scene);

/* True: every process that should run does. One that died by itself is named on stderr with its log. */
bool scene_all_alive(struct scene *scene);

/* How each log ends, on stderr: it may say why there was no answer. */
void scene_show_logs(const struct scene *scene);

/* Waits until every process is ready, both its connections to Redis are up and its breaker is closed. */
bool scene_wait_healthy(struct scene *scene, uint32_t limit_ms);

/* Waits until nobody waits and nothing is loaded in any process. */
bool scene_wait_quiet(struct scene *scene, uint32_t limit_ms);
