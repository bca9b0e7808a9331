/* SPDX-License-Identifier: MIT */
/*
 * burst.h - many HTTP/1.1 requests at the same instant, from one thread.
 *
 *     burst_open()   connects everybody
 *     burst_run()    the barrier: connects who is missing, then writes all requests at once, then reads the
 *                    answers until each has one, failed or ran out of time
 *     burst_run()    another round over the connections that stayed open
 *     burst_close()
 *
 * Threads: a burst belongs to one thread at a time; several may run in several threads.
 * Time: microseconds of CLOCK_MONOTONIC, taken when the bytes were written or read.
 * Errors: a function that fails says why on stderr; what happens to a single request stands in its answer.
 */
#ifndef LOAD_BASE_BURST_H
#define LOAD_BASE_BURST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BURST_PATH_BYTES = 512, BURST_MAX_CONNECTIONS = 20000 };

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

/* What it points to is lent until burst_close(). */
struct burst_options {
    const struct burst_target *targets; /* connections are dealt to them in turn */
    size_t target_count;
    uint32_t connection_count;
    uint32_t connect_limit_ms; /* for all of them together */
    uint32_t request_limit_ms; /* for each */
    const char *method;        /* NULL: GET */
    const char *path;          /* for everybody, unless path_of is given */
    burst_path *path_of;
    void *path_context;
    const char *headers; /* further lines, each with its "\r\n"; NULL: none */
    bool keeps_bodies;   /* struct burst_answer.body is wanted */
    const struct burst_event *events;
    size_t event_count;
    uint32_t leave_count; /* the first ones hang up leave_ms after their request, if not answered by then */
    uint32_t leave_ms;
};

enum burst_outcome {
    BURST_ANSWERED = 0, /* a whole response */
    BURST_UNCONNECTED,  /* never got a connection */
    BURST_RESET,        /* the connection ended before the response did */
    BURST_TIMEOUT,      /* no whole response within request_limit_ms */
    BURST_BAD,          /* what came is not HTTP */
    BURST_LEFT,         /* hung up, as told */
};
enum { BURST_OUTCOMES = 6 };

struct burst_answer {
    enum burst_outcome outcome;
    uint16_t status;                    /* 0 unless BURST_ANSWERED */
    uint64_t sent_us, first_us, end_us; /* request written, first byte, last byte (or the failure) */
    uint64_t body_bytes;
    uint64_t body_hash; /* FNV-1a, 64 bits */
    char *head;         /* status line and headers; NULL if there is none; http_parse_header() reads it */
    char *body;         /* NUL-terminated; NULL unless keeps_bodies */
};

struct burst_summary {
    uint32_t requests;
    uint32_t outcomes[BURST_OUTCOMES];
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

/* connection_count of them, by connection; valid until the next burst_run() or burst_close(). */
const struct burst_answer *burst_answers(const struct burst *burst);
void burst_summarise(const struct burst *burst, struct burst_summary *out);

/* A header's value cut to fit; "" if there is no such header or no answer. Returns `value`. */
const char *burst_header(const struct burst_answer *answer, const char *name, char *value,
                         size_t value_bytes);

/* Hangs up everywhere. Leaves NULL. */
void burst_close(struct burst **burst);

/* The value at the given rank of count sorted ones: nearest rank, 0 < percent <= 100. */
uint64_t burst_percentile(const uint64_t *sorted, size_t count, double percent);

/* How many values it takes for that not to be the largest of them: 100 for 99, 10 000 for 99.99; 1 for 100. */
uint64_t burst_percentile_least(double percent);

#endif
