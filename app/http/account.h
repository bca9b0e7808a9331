/* SPDX-License-Identifier: MIT */
/*
 * account.h - what is noted of one request while it is under way: what it is called, and its line in the access log.
 *
 *     request line --> account_begin() --> account_head() --> asking: account.asker --> account_source()
 *                                                          --> account_name(), account_answer() --> account_end()
 *
 * A request is called what it says (X-Request-Id, traceparent; trace.h). Without an id it is given one where one is
 * needed: in an answer of 400 and above, and in all if the access log is on. A request that says nothing costs
 * nothing if the log is off.
 *
 * What libmicrohttpd refuses before it has a request line (no space in it, more than 8 KiB) is not seen, and of a
 * request whose head never became whole, method and protocol are not. The date is that of the request line.
 *
 * Threads: that of the loop. Time: of clock.h.
 */
#pragma once

#include "app/catalog/asker.h"
#include "app/http/access.h"
#include "app/http/answer.h"
#include "app/http/head.h"
#include "guard/guard.h"

#include <microhttpd.h>

struct account_record;

/* All zeros between two requests. */
struct account {
    struct asker *asker;           /* what a load may know of the request; NULL: nothing; ours */
    struct account_record *record; /* for the line; NULL: there is no log; ours */
};

/* `lane` NULL: there is no log. `target`: copied. */
void account_begin(struct account *account, const struct access_lane *lane, const char *target);

struct account_head {
    struct MHD_Connection *connection;
    const char *method, *protocol;
    const struct head_names *names;
    bool may_own; /* its token matters */
};
/* `dice`: of random_next(). */
void account_head(struct account *account, const struct account_head *head, uint64_t *dice);

/* "": none. */
const char *account_request(const struct account *account);

/* Where the answer comes from, or why there is none. */
void account_source(struct account *account, const struct guard_result *result);
/* What became of it else; a static text. */
void account_outcome(struct account *account, const char *outcome);
/* The answer says which request it is for. */
void account_name(const struct account *account, struct answer *answer, uint64_t *dice);
/* It was sent. */
void account_answer(struct account *account, unsigned status, size_t body_bytes);

struct account_over {
    struct MHD_Connection *connection;
    enum MHD_RequestTerminationCode code;
    bool expired; /* we closed it */
    const char *route;
};
/*
 * Puts the line into the lane, and leaves zeros. Without an answer the status is libmicrohttpd's, if it refused the
 * request itself; else 408 if we closed the connection, 503 if the process ended, 499 if the client hung up.
 */
void account_end(struct account *account, struct access_lane *lane, const struct account_over *over);
