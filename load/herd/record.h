/* SPDX-License-Identifier: MIT */
/*
 * record.h - what became of one request; a run is an array of them, and every figure is made from it.
 *
 * Time: due_us is CLOCK_MONOTONIC, absolute. The other times count from due_us, the instant at which the request
 * was meant to leave, whether it could or not: a server that stalls, and a generator that lags, are charged for
 * everybody who would have come meanwhile (no coordinated omission).
 */
#ifndef LOAD_HERD_RECORD_H
#define LOAD_HERD_RECORD_H

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

/* What the Cache-Status header (RFC 9211) of an answer says about the last cache that it names. */
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
    uint32_t sent_us;  /* after due_us, like the next two, and 0 for never: just before it was written */
    uint32_t first_us; /* the first byte read */
    uint32_t end_us;   /* the last byte read, or the failure */
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

_Static_assert(sizeof(struct record) == 40, "generators and the program share memory full of them");

struct records {
    struct record *at; /* owned; by due_us */
    size_t count;
};

/* "answered", "refused", ...: the words of reports and JSON. */
const char *record_outcome_name(enum record_outcome outcome);
const char *record_cache_name(enum record_cache cache);

/* Several that are each by due_us become one; the parts stay the caller's. False: no memory. */
bool records_merge(const struct records *parts, size_t part_count, struct records *out);

void records_clear(struct records *records);

#endif
