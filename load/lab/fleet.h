/* SPDX-License-Identifier: MIT */
/*
 * fleet.h - the worker processes of one trial, and everything they have said.
 *
 *     fleet_start() --> all ready --> fleet_ask() ... fleet_await() ...  --> fleet_stop()
 *                                       |--> stopped by itself at a step --> fleet_resume() or fleet_kill()
 *
 * Each worker is a process of its own (see note.h) that never outlives this program (see proc.h). What it
 * sends is kept in order; awaiting is reading on until enough of a kind has come. Every wait has its limit.
 *
 * Threads: one, see proc.h. Errors: false, and the reason on stderr. A worker that ends unasked spoils the
 * trial: is_broken is set, its last words are shown, and every wait returns false at once.
 */
#pragma once

#include "load/base/proc.h"
#include "load/lab/note.h"
#include "load/lab/scheme.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { FLEET_WORKERS_MAX = 32, FLEET_NOTES_MAX = 4096, FLEET_ANYBODY = FLEET_WORKERS_MAX };
enum { FLEET_START_LIMIT_MS = 20000, FLEET_ORDER_LIMIT_MS = 5000 };

struct fleet_note {
    uint32_t worker;
    struct note note;
};

struct fleet_worker {
    pid_t pid; /* 0: killed */
    int fd;    /* -1: none */
};

struct fleet {
    struct fleet_worker workers[FLEET_WORKERS_MAX];
    uint32_t worker_count;
    struct fleet_note notes[FLEET_NOTES_MAX];
    size_t note_count;
    bool is_broken;
    char log_path[PROC_PATH_BYTES + 16];
};

struct fleet_options {
    const struct scheme *scheme;
    const char *key, *postgres_url, *folder; /* folder: for the log; may be written */
    const char *const *lock_urls;            /* of each worker; NULL: that of the Redis */
    uint16_t redis_port;
    uint32_t worker_count, lease_s;
};

/* Returns when all workers are connected to everything. fleet_stop() in any case. */
bool fleet_start(struct fleet *fleet, const struct fleet_options *options);
/* Kills a worker that does not end by itself. */
void fleet_stop(struct fleet *fleet);

/* One request, to stop at a step (STEP_NONE: nowhere); returns when it has begun. */
bool fleet_ask(struct fleet *fleet, uint32_t worker, enum lab_step stop_at);
/* The same with all that an order can say. */
bool fleet_ask_for(struct fleet *fleet, uint32_t worker, const struct order *order);
/* A request to each from `first` to the last worker, pause_ms apart; returns when all have begun. */
bool fleet_ask_from(struct fleet *fleet, uint32_t first, uint32_t pause_ms);
/* Asks; true: it stands still at the step. False with *reached false: answered without coming by. */
bool fleet_stop_at(struct fleet *fleet, uint32_t worker, enum lab_step step, bool *reached);
bool fleet_invalidate(struct fleet *fleet, uint32_t worker);

/* SIGSTOP, wherever it is; returns when it stands still. */
void fleet_pause(struct fleet *fleet, uint32_t worker);
void fleet_resume(struct fleet *fleet, uint32_t worker);
/* SIGKILL; returns its instant. */
uint64_t fleet_kill(struct fleet *fleet, uint32_t worker);

/* Waits until so many such notes have come from this worker, or from any. */
bool fleet_await(struct fleet *fleet, enum note_kind kind, uint32_t worker, uint32_t wanted,
                 uint32_t limit_ms);
uint32_t fleet_count(const struct fleet *fleet, enum note_kind kind, uint32_t worker);

/* The first such note from `after_us` on; NULL: none. */
const struct fleet_note *fleet_first(const struct fleet *fleet, enum note_kind kind, uint32_t worker,
                                     uint64_t after_us);

/* A worker held the lock, as it believes: until it gave it back, heard that it is lost, or was killed. */
struct fleet_hold {
    uint64_t from_us, until_us; /* UINT64_MAX: still */
    uint32_t worker, units;
    bool is_released; /* it ended by being given back */
};

/* All of them in the order of from_us; how many. */
size_t fleet_holds(const struct fleet *fleet, struct fleet_hold holds[static FLEET_NOTES_MAX]);

/* The most workers that held it at the same time, and whether they ever had more than `limit` units together. */
struct fleet_peak {
    uint32_t holders;
    bool is_over;
};
struct fleet_peak fleet_peak(const struct fleet *fleet, uint32_t limit);

/* Which worker has, or had, this local port in its connection to Redis; FLEET_ANYBODY: none. */
uint32_t fleet_worker_at(const struct fleet *fleet, uint16_t port);
