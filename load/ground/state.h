/* SPDX-License-Identifier: MIT */
/*
 * state.h - the playground as one line of JSON, made anew every STATE_EVERY_MS while somebody reads it:
 *
 *     {"v":1,"at_ms":...,"mode":"fleet","delay_ms":500,"per_second":0,"key":"product:7",
 *      "processes":[{"name":"A","health":"up","back_ms":0,"address":"127.0.0.1:8080",
 *                    "view":"127.0.0.1:8081","age_ms":90,         its live view; how old the rest is
 *                    "waiters":480,"running":1,"queued":0}, ...],
 *      "redis":{"health":"up","back_ms":0},
 *      "postgres":{"health":"up","back_ms":0,"queries":1012},   as its own log counts them
 *      "lease":{"process":"A","left_ms":1400,"lease_ms":2000},  on the key; null: none is seen
 *      "clients":{"waiting":480},                                of all traffic: requests without an answer
 *      "job":{"step":"off","requests":1000,"queries":12},        null: none is under way
 *      "steps":{"off":{...}},                                    of the guide: off, fleet, hit; as crowd.c has it
 *      "story":[{"n":0,"at_ms":...,"kind":"deed","text":"..."}]}
 *
 *     page.html, page.js   the page
 *     serve.c              the command; serves the page on loopback
 *     buttons.c            who may press, and what
 *     crowd.c              a crowd, and what became of it, in one sentence
 *     site.c, deeds.c      the servers, what is done to them, what stands in Redis, and what has happened
 *     state.c              what the processes say of themselves (GET /metrics); all of it as one line of JSON
 *
 * Threads: state_open() and state_close() from one, state_wait() from any.
 */
#pragma once

#include "load/base/text.h"
#include "load/base/ticker.h"
#include "load/ground/crowd.h"

#include <jansson.h>

#include <pthread.h>
#include <stdint.h>

/* ---- what one process says of itself ---- */

/* Asks for it by a thread of its own. */
enum { READER_EVERY_MS = 200, READER_LIMIT_MS = 500 };
enum reader_figure { READER_WAITERS = 0, READER_RUNNING, READER_QUEUED, READER_FIGURES };

struct reader {
    uint16_t port; /* of its operations listener */
    struct ticker ticker;
    pthread_mutex_t lock;
    double said[READER_FIGURES]; /* under lock, like the rest */
    uint64_t said_us;
};

/* ---- all that the playground consists of ---- */

struct ground {
    struct story story;
    struct site site;
    struct reader readers[DEED_PROCESSES];
    struct jobs jobs;
};

enum { STATE_EVERY_MS = 200, STATE_READERS = 6 };

struct state {
    struct ground *ground; /* lent */
    struct shelf shelf;    /* the ticker's */
    struct ticker ticker;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    char *line; /* owned, from malloc(), with its "\n"; under lock, like the number */
    uint64_t number;
    uint32_t readers;
};

/* With the readers of the ground. False: no thread; state_close() is to follow. */
bool state_open(struct state *state, struct ground *ground);
void state_close(struct state *state);

/* Somebody reads from now on; or no longer. False: STATE_READERS do already. */
bool state_read(struct state *state, bool begins);

/* The next line after *number, which becomes its own; waits for it at most limit_ms. Added to `out`. False: none
 * came. */
bool state_wait(struct state *state, uint64_t *number, uint32_t limit_ms, struct text *out);
