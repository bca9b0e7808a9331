/* SPDX-License-Identifier: MIT */
/*
 * record.h - what became of one request; a run is an array of them, and every figure is made from it.
 *
 * Time: due_us is CLOCK_MONOTONIC, absolute. The other times count from due_us, the instant at which the request
 * was meant to leave, whether it could or not: a server that stalls, and a generator that lags, are charged for
 * everybody who would have come meanwhile (no coordinated omission).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum record_outcome {
    RECORD_ANSWERED = 0, /* a whole response, whatever its status */
    RECORD_REFUSED,      /* no connection: refused, unreachable, no address left */
    RECORD_UNCONNECTED,  /* no connection within connect_limit_ms */
    RECORD_RESET,        /* the connection ended before the response did */
    RECORD_TIMEOUT,      /* no whole response within request_limit_ms of due_us */
    RECORD_RUBBISH,      /* what came is not HTTP */
    RECORD_LEFT,         /* hung up, as told by the work */
    RECORD_UNSENT,       /* could not leave within request_limit_ms, or before the run was aborted */
    RECORD_CUT,          /* under way when the run was aborted or its generator died: nobody knows */
    RECORD_OUTCOMES
};

/* What the Cache-Status header (RFC 9211) of an answer says about the last cache that it names, or another header. */
enum record_cache {
    RECORD_CACHE_NONE = 0,  /* no such header */
    RECORD_CACHE_HIT,       /* hit */
    RECORD_CACHE_STALE,     /* fwd=stale, or a hit with a negative ttl */
    RECORD_CACHE_MISS,      /* fwd=miss, fwd=uri-miss, fwd=vary-miss */
    RECORD_CACHE_COLLAPSED, /* collapsed: waited for somebody else's load */
    RECORD_CACHE_BYPASS,    /* fwd=bypass, fwd=method, fwd=request */
    RECORD_CACHE_OTHER,     /* there is a header, and it says something else */
    RECORD_CACHES
};

struct record {
    uint64_t due_us;
    uint32_t sent_us;    /* after due_us, like the next two, and 0 for never: just before it was written */
    uint32_t first_us;   /* the first byte read */
    uint32_t end_us;     /* the last byte read, or the failure */
    uint32_t connect_us; /* how long the connection took that was opened for it, by itself; 0: it had one */
    uint32_t received_bytes; /* head, body and what is between chunks, also of half an answer */
    uint32_t body_bytes;
    uint32_t key;     /* the number that stood for {...} in the URL; 0 where it has none */
    uint32_t version; /* the number that follows work.version_after in the body; 0: none */
    uint16_t status;  /* 0 unless answered */
    uint8_t outcome;  /* enum record_outcome */
    uint8_t cache;    /* enum record_cache */
    uint16_t url;     /* index into work.urls */
    uint8_t target;   /* index into work.targets */
    uint8_t generator;
};

_Static_assert(sizeof(struct record) == 48, "generators and the program share memory full of them");

enum { RECORD_SAMPLES_EACH = 3, RECORD_SAMPLES_MAX = 32, RECORD_SAMPLE_BYTES = 200 };

/* An answer with a 4xx or 5xx, or a request that failed, and what it looked like. */
struct record_sample {
    struct record record; /* due_us 0: not over yet */
    uint32_t slot;
    int error;           /* errno; 0: none, or the other side ended the connection in order */
    uint32_t text_bytes; /* of the beginning of the body, or of what came instead of HTTP */
    char text[RECORD_SAMPLE_BYTES];
};

/* One generator's: the first few of each kind, which is an outcome and a status. All zeros: empty. */
struct record_samples {
    uint32_t count;
    struct record_sample at[RECORD_SAMPLES_MAX];
};

struct records {
    struct record *at; /* owned; by due_us */
    size_t count;
    struct record_sample *samples; /* owned; by due_us */
    size_t sample_count;
};

/* "answered", "refused", ...: the words of reports and JSON. */
const char *record_outcome_name(enum record_outcome outcome);
const char *record_cache_name(enum record_cache cache);

bool record_is_sampled(enum record_outcome outcome, uint16_t status);
/* The sample of the request in this slot, a new one if it has none yet; NULL: its kind has enough, or there is no
 * room. */
struct record_sample *record_samples_take(struct record_samples *samples, uint32_t slot,
                                          enum record_outcome outcome, uint16_t status);
/* As much of it as there is room for. */
void record_sample_add(struct record_sample *sample, const char *bytes, size_t count);

/* Several that are each by due_us become one, without samples; the parts stay the caller's. False: no memory. */
bool records_merge(const struct records *parts, size_t part_count, struct records *out);

void records_clear(struct records *records);

/* ---- what a cache says of an answer: cache_status.c ---- */

/*
 * The Cache-Status header (RFC 9211) of a response or, where there is none, what nginx, Varnish, Squid and CDNs say
 * in a word: CF-Cache-Status, X-Cache-Status, X-Cache.
 *
 * The header is a list of caches, the one closest to the client last: that one counts, for it decided what the
 * client got. Of what it says the first of these counts: "collapsed"; a stale answer ("fwd=stale", or a hit with a
 * negative ttl); "hit"; another "fwd=".
 */

/* `head`: status line and headers, NUL-terminated; repeated headers are one list. */
enum record_cache cache_status_read(const char *head);

/* One header's value; not terminated. */
enum record_cache cache_status_of(const char *value, size_t count);
