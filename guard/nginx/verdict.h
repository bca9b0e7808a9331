/* SPDX-License-Identifier: MIT */
/*
 * verdict.h - what an origin's answer says about itself, and what is made of it: stored and for how long, or passed.
 *
 *     no-store, private, no-cache, Set-Cookie, Vary: *, 401, 407                                    PASS
 *     5xx                                                                                           FAIL
 *     404, 410                                    STORE for what it says itself, else for absent_ms
 *     200, 203, 204, 300, 301, 308                STORE for what it says itself, else for fresh_ms and stale_ms
 *     any other status, X-Accel-Redirect          STORE if it says for how long itself, else PASS
 *     nothing is fresh, or it is an error page    SHARE: for those that wait
 *
 * And how status and headers are kept beside the body, as an entry; what comes out of Redis is not believed:
 *
 *     SG1 STATUS AGE FRESH VARIANT-BYTES       status 0: there is no answer in it
 *     NAMES,OF,VARY,
 *     the variant, then NAME:VALUE for each header, then an empty line
 *
 * Pure, any thread. Texts are lent.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text {
    const char *data;
    size_t bytes;
};

#define TEXT(literal) ((struct text){literal, sizeof(literal) - 1})

/* Spans are seconds; -1: it does not say. */
struct says {
    unsigned status;
    bool no_store, no_cache, is_private, must_revalidate, sets_cookie;
    bool is_handed_on;  /* X-Accel-Redirect: where the page lies says nothing of who may have it */
    bool is_error_page; /* nginx's own took the place of an answer that is not known, and hides its status */
    int64_t s_maxage, max_age, stale_s;
    int64_t expires_s; /* from now on */
    uint32_t age_s;    /* 0 if it does not say */
};

struct rules { /* of the location */
    uint32_t fresh_ms, stale_ms, absent_ms;
};

enum verdict_how { VERDICT_STORE, VERDICT_SHARE, VERDICT_PASS, VERDICT_FAIL };
struct verdict {
    enum verdict_how how;
    uint32_t fresh_ms, stale_ms;
    uint32_t pass_ms; /* if it passes: for how long nobody waits for a load of the page; 0: this one alone */
};

void says_init(struct says *says, unsigned status);
/* One line of Cache-Control; of two that differ the shorter life counts. */
void says_cache_control(struct says *says, struct text line);
/* Age: up to 2^31 seconds; of what cannot be read nothing is known. */
void says_age(struct says *says, struct text value);
struct verdict verdict_of(const struct says *says, const struct rules *rules);

/* The names that Vary lists: lower-case, each once, one ',' after each. */
enum { VARY_BYTES_MAX = 256 };
struct vary {
    char names[VARY_BYTES_MAX];
    size_t bytes;
    bool is_all; /* "*", or more than fits: it cannot join a key */
};
void vary_add(struct vary *vary, struct text line);
/* The next name; false: there is none. `*at` is 0 at first. */
bool vary_next(struct text names, size_t *at, struct text *name);

/* Must it not be passed on: of one connection, said by nginx itself, or a cookie, which only one may get? */
bool header_is_left_out(struct text name, bool is_for_one);

/* ---- an entry ---- */

enum { ENTRY_META_MAX = 4096 };

struct entry {
    uint32_t status;     /* 0: the request goes to the origin itself, and streams */
    uint32_t age_s;      /* that it had when it came */
    uint32_t fresh_s;    /* that it was stored for */
    struct text names;   /* of Vary */
    struct text variant; /* what the request had in them */
    struct text headers; /* see entry_header() */
};

/* Builds the front of an entry: begin, then headers, then end. */
struct entry_writer {
    char *at, *start, *end;
    bool is_full;
};
void entry_begin(struct entry_writer *writer, char *room, size_t bytes, const struct entry *entry);
void entry_add(struct entry_writer *writer, struct text name, struct text value);
/* How long it has become; 0: it does not fit. */
size_t entry_end(struct entry_writer *writer);
bool entry_read(struct text stored, struct entry *out); /* false: it is none */
/* The next header, which leaves the list; false: there is none. */
bool entry_header(struct text *headers, struct text *name, struct text *value);

/* Whatever its case; what it is compared with is lower-case. */
bool text_is(struct text text, const char *name);
bool text_is_in(struct text text, struct text names); /* a list as of Vary */
