/* SPDX-License-Identifier: MIT */
/*
 * trace.h - which request this is, in its own words and in those of the trace that it belongs to.
 *
 *     X-Request-Id: order-4711            1 to 64 of [A-Za-z0-9._-]; anything else is none
 *     traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
 *                  W3C Trace Context, level 1: version, trace id, parent id, flags; 01: sampled
 *
 * Both come from strangers and go into logs, answers and statements. So nothing is kept but what was checked byte by
 * byte: an id of harmless characters, and hexadecimal digits. We are no span of the trace: the parent id is passed on
 * as it came. `tracestate` belongs to spans and to calls over HTTP, of which we make none, so it goes nowhere.
 *
 * Pure, any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TRACE_REQUEST_MAX = 64,
    TRACE_REQUEST_SIZE = TRACE_REQUEST_MAX + 1,
    TRACE_ID_DIGITS = 32,
    TRACE_PARENT_SIZE = 56,
    TRACE_PAIRS_SIZE = 128,
    TRACE_COMMENT_SIZE = 112,
};

/* All zeros: neither. */
struct trace {
    char request[TRACE_REQUEST_SIZE]; /* "": none */
    char parent[TRACE_PARENT_SIZE];   /* of version 00, also if a later one came; "": none */
    bool sampled;                     /* the caller records this trace */
};

/* False: the text is no request id, and `trace` stays as it is. NULL is none. */
bool trace_take_request(struct trace *trace, const char *text);
/* The same of a traceparent. A version that is not known yet counts as far as it begins like version 00. */
bool trace_take_parent(struct trace *trace, const char *text);
/* An id for a request that brought none: 16 digits. */
void trace_make_request(struct trace *trace, uint64_t random);

/* The trace id, TRACE_ID_DIGITS long and not ended there; NULL: none. */
const char *trace_id(const struct trace *trace);

/* For a line of the log: "request=order-4711 trace_id=4bf9... ", with a space behind each; "" for neither. */
const char *trace_pairs(const struct trace *trace, char out[TRACE_PAIRS_SIZE]);

/*
 * What a statement carries if its request's trace is sampled, as sqlcommenter writes it: sorted, values in quotes
 * and percent-encoded, which hexadecimal digits and hyphens already are.
 *
 *     / *load='3f0a6c2d8b7e4f11',traceparent='00-4bf9...-00f0...-01'* /         (without the two spaces)
 *
 * `load` 0: it is no load. NULL: not sampled, no comment.
 */
const char *trace_comment(const struct trace *trace, uint64_t load, char out[TRACE_COMMENT_SIZE]);
