/* SPDX-License-Identifier: MIT */
/*
 * account.h - what is noted of one request while it is under way, for its line in the access log.
 *
 *     request line --> account_new() --> head: account_head() --> answer: account_answer() --> account_close(): the line
 *
 * There is one for each request while the log is on, and none otherwise: every function but account_new() takes NULL for
 * that and does nothing.
 *
 * What libmicrohttpd refuses before it has a request line (no space in it, more than 8 KiB) is not seen, and of a
 * request whose head never became whole, method and protocol are not. The date is that of the request line.
 *
 * Threads: that of the loop. Time: of clock.h.
 */
#ifndef APP_ACCOUNT_H
#define APP_ACCOUNT_H

#include "app/base/trace.h"
#include "app/http/access.h"

#include <microhttpd.h>

struct account;

/* NULL: there is no log (no lane), or no memory. `target`: copied. */
struct account *account_new(const struct access_lane *lane, const char *target);
void account_head(struct account *account, const char *method, const char *protocol);
/* `source` is a static text, where the answer came from or what became of the request; NULL: nothing to be said. */
void account_source(struct account *account, const char *source, uint64_t load);
void account_answer(struct account *account, unsigned status, size_t body_bytes);

struct account_end {
    struct MHD_Connection *connection;
    enum MHD_RequestTerminationCode code;
    bool expired; /* we closed it */
    const char *route;
    const struct trace *trace;
};
/*
 * Puts the line into the lane, and frees the account. Without an answer the status is libmicrohttpd's, if it refused the
 * request itself; else 408 if we closed the connection, 503 if the process ended, 499 if the client hung up.
 */
void account_close(struct account **account, struct access_lane *lane, const struct account_end *end);

#endif
