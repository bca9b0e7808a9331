/* SPDX-License-Identifier: MIT */
/*
 * answer.h - what a guard result means in HTTP.
 *
 *     result                       status   with
 *     OK                           200      the body, or 304 without it if the client holds the same ETag
 *     ABSENT                       404      a problem document
 *     FAILED, SHED, NO_MEMORY      503      Retry-After
 *     TIMEOUT                      504
 *     CLOSING                      503      Retry-After, and the connection closes
 *     the rest                     500      our bug
 *
 * Refusals are problem documents too (RFC 9457). Every answer that the guard had a part in carries
 * Cache-Status (RFC 9211): "catalogd; hit; ttl=57", "catalogd; fwd=miss; stored; collapsed; ttl=60", ... and
 * which load made the answer, the same in every process: "...; load=\"3f0a6c2d8b7e4f11\"" (a string: RFC 9651 lets no
 * word begin with a digit).
 *
 * Pure, any thread. An answer lends its value from the result it was made of.
 */
#pragma once

#include "app/base/trace.h"
#include "guard/guard.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Refusals. The guard's are among them. */
enum problem {
    PROBLEM_UNKNOWN_PATH,
    PROBLEM_ENCODED_PATH,
    PROBLEM_BAD_ID,
    PROBLEM_BAD_QUERY,
    PROBLEM_BAD_IDS, /* the list of /products?ids= */
    PROBLEM_METHOD,
    PROBLEM_BODY,    /* a body where none is taken */
    PROBLEM_FRAMING, /* a head that two parsers could read differently */
    PROBLEM_HOST,    /* HTTP/1.1 without exactly one Host */
    PROBLEM_ABSENT,
    PROBLEM_FAILED,
    PROBLEM_SHED,
    PROBLEM_UNREAD, /* no room for one more large answer */
    PROBLEM_TIMEOUT,
    PROBLEM_CLOSING,
    PROBLEM_INTERNAL,
    PROBLEM_WRITES_OFF,
    PROBLEM_TOO_LARGE,     /* a body beyond WRITE_BODY_BYTES_MAX */
    PROBLEM_MEDIA_TYPE,    /* a body that is not JSON by its Content-Type */
    PROBLEM_CONDITION,     /* no If-Match where one is required */
    PROBLEM_BAD_CONDITION, /* If-Match is no list of entity tags */
    PROBLEM_BAD_KEY,       /* Idempotency-Key */
    PROBLEM_COUNT
};

/* A row of a table of problems. */
struct answer_refusal {
    unsigned status;
    bool close;
    const char *type, *title, *detail;
};

extern const char ANSWER_JSON_TYPE[];
#define ANSWER_REQUEST_ID "X-Request-Id"
#define ANSWER_AGE "Age"
#define ANSWER_CACHE_STATUS "Cache-Status"
#define ANSWER_TTL "; ttl=" /* in it; a sign may follow, then digits */
enum { ANSWER_ETAG_SIZE = 132, ANSWER_LINES_MAX = 10 };

struct answer {
    unsigned status;
    const char *content_type;        /* NULL: 304, which has no body */
    const char *vary;                /* a header that the answer depends on; NULL: none */
    const char *allow;               /* 405; else NULL */
    const struct guard_value *value; /* 200, 304: its body is the body; lent from the result */
    char *body;                      /* NULL: none; else the body, owned: reply_queue() takes it */
    size_t body_bytes;               /* of `body` */
    size_t text_bytes;               /* otherwise the body is `text` */
    bool close;                      /* the connection ends with this answer */
    char cache_control[40];          /* never "" */
    char cache_status[128];          /* this and the following: "" for none */
    char etag[ANSWER_ETAG_SIZE];
    char age[12];
    char retry_after[12];
    char request[TRACE_REQUEST_SIZE]; /* X-Request-Id */
    char text[1152];
};

/* `path`: for "instance"; NULL, or a path that is not innocent: left out. `fresh_ms`: the policy's, for the ttl of a
 * stale answer. */
void answer_from_result(const struct guard_result *result, const char *path, uint32_t fresh_ms,
                        struct answer *out);
/*
 * What answer_from_result() made of a document with a life of its own, which caches on the way may use for as long,
 * or of one that was made for the client that asked (it has no validator) and that no cache may keep.
 */
void answer_own_life(const struct guard_result *result, struct answer *answer);
/* What answer_from_result() made for a request that asked past the cache: Cache-Status says so. */
void answer_revalidated(struct answer *answer);
/* A document made of several values: `result` is what holds for all of them. Takes the body. */
void answer_from_body(const struct guard_result *result, const char *validator, char *body, size_t body_bytes,
                      uint32_t fresh_ms, struct answer *out);
void answer_problem(enum problem problem, const char *path, struct answer *out);
/* `extra`: further members of the document, each with its leading comma; "" for none. */
void answer_refuse(const struct answer_refusal *refusal, const char *path, const char *extra,
                   struct answer *out);
/* PROBLEM_BAD_IDS, saying which: its place in the list, 1 and up, and its text. */
void answer_bad_id(uint32_t place, const char *text, const char *path, struct answer *out);
/* The answer says which request it is for, and so does its problem document. "" is no name. */
void answer_name_request(const char *request, struct answer *answer);
void answer_retry_after(uint32_t retry_ms, struct answer *out);

/* All that time changes in an answer that is otherwise the same: Age, and the ttl without its sign. */
struct answer_seconds {
    uint32_t age, ttl;
};
struct answer_seconds answer_seconds(const struct guard_result *result, uint32_t fresh_ms);

/* The lines of its head, in their order, all but Connection; no value is "". Returns how many there are. */
struct answer_line {
    const char *name, *value; /* the value lent from the answer */
};
size_t answer_lines(const struct answer *answer, struct answer_line lines[ANSWER_LINES_MAX]);

/* Of the body, as a 200 sends it. */
size_t answer_body_bytes(const struct answer *answer);
/* "": the validator cannot be one. */
void answer_etag(const char *validator, char out[ANSWER_ETAG_SIZE]);
/* One If-None-Match line against the ETag of a 200: "*", or a list with weak comparison (RFC 9110, 13.1.2). */
bool answer_etag_matches(const char *etag, const char *if_none_match);
/* Makes a 200 a 304. It keeps its value, which is not sent, because Content-Length must be that of the 200. */
void answer_not_modified(struct answer *answer);
