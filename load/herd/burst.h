/* SPDX-License-Identifier: MIT */
/*
 * burst.h - many HTTP/1.1 requests at the same instant, from one thread of this process, answers and all.
 *
 *     burst_open()   connects everybody
 *     burst_run()    the barrier: connects who is missing, then writes all requests at once, then reads the
 *                    answers until each has one, failed or ran out of time
 *     burst_run()    another round over the connections that stayed open
 *     burst_close()
 *
 * It is a generator of the herd's (generator.h) without a herd: what it adds is a path for each connection, the
 * bodies, and something that happens while requests wait.
 *
 * Threads: a burst belongs to one thread at a time; several may run in several threads.
 * Time: microseconds of CLOCK_MONOTONIC, taken when the bytes were written or read.
 * Errors: a function that fails says why on stderr; what happens to a single request stands in its answer.
 */
#pragma once

#include "load/herd/record.h"
#include "load/herd/work.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BURST_PATH_BYTES = WORK_PATH_BYTES, BURST_MAX_CONNECTIONS = 25000 };

struct burst_target {
    const char *host; /* numeric; see net.h */
    uint16_t port;
};

/* Writes the path of the request on connection `index` into path[BURST_PATH_BYTES]. */
typedef void burst_path(void *context, uint32_t index, char *path);

/* Something to do while a round is under way; runs on the burst's thread, so keep it short. */
struct burst_event {
    uint32_t after_ms; /* after the last request was written; 0: before any answer is read */
    void (*run)(void *context);
    void *context;
};

/* What it points to is lent until burst_close(); the targets only until burst_open() returns. */
struct burst_options {
    const struct burst_target *targets; /* connections are dealt to them in turn */
    size_t target_count;                /* at most WORK_TARGETS_MAX */
    const struct work_target *const
        *whole_targets;  /* in place of `targets`: with names and TLS; NULL: those */
    const char *ca_file; /* of TLS, as struct work has it */
    bool is_insecure;
    uint32_t connection_count;
    uint32_t connect_limit_ms; /* for all of them together */
    uint32_t request_limit_ms; /* for each, from the round's begin */
    const char *path;          /* for everybody, unless path_of is given */
    burst_path *path_of;
    void *path_context;
    bool keeps_bodies; /* struct burst_answer.body is wanted */
    const struct burst_event *events;
    size_t event_count;
    uint32_t leave_count; /* the first ones hang up leave_ms after their request, if not answered by then */
    uint32_t leave_ms;
};

struct burst_answer {
    enum record_outcome outcome;
    uint16_t status; /* 0 unless RECORD_ANSWERED */
    uint64_t sent_us, first_us,
        end_us; /* request written, first byte, last byte (or the failure); 0: never */
    uint64_t body_bytes;
    uint64_t body_hash; /* FNV-1a, 64 bits */
    const char *head;   /* status line and headers; NULL unless RECORD_ANSWERED */
    const char *body;   /* NUL-terminated; NULL unless keeps_bodies */
};

struct burst_summary {
    uint32_t requests;
    uint32_t outcomes[RECORD_OUTCOMES];
    uint32_t statuses[600];          /* how many answers had it */
    uint32_t bodies;                 /* different bodies among the 200s */
    uint64_t p50_us, p99_us, max_us; /* of those answered; nearest rank, exact; 0 if there are none */
    uint64_t span_us;                /* from the first request written to the last answer */
};

struct burst;

/* False if not everybody could be connected; leaves nothing behind then. */
bool burst_open(const struct burst_options *options, struct burst **out);

/* One round. False only if it could not be run at all; failed requests are results. */
bool burst_run(struct burst *burst);

/* Requests that are due and not over; any thread, until burst_close(). */
uint64_t burst_waiting(const struct burst *burst);

/* connection_count of them, by connection; valid until the next burst_run() or burst_close(). */
const struct burst_answer *burst_answers(const struct burst *burst);
void burst_summarise(const struct burst *burst, struct burst_summary *out);

/* A header's value cut to fit; "" if there is no such header or no answer. Returns `value`. */
const char *burst_header(const struct burst_answer *answer, const char *name, char *value,
                         size_t value_bytes);

/* Hangs up everywhere. Leaves NULL. */
void burst_close(struct burst **burst);
