/* SPDX-License-Identifier: MIT */
/*
 * upload.h - from the head of a request that writes to a job, and its body into it.
 *
 * The head is judged before a byte of the body is taken: what cannot become a write is not read.
 *
 * Threads: that of the loop.
 */
#ifndef APP_UPLOAD_H
#define APP_UPLOAD_H

#include "app/route.h"
#include "app/writer.h"

#include <microhttpd.h>

/* Whether this method writes here. */
bool upload_is_write(const struct route *route, const char *method);
/* What Allow says of a path. */
const char *upload_allowed(const struct route *route, bool writes_on);

/* PROBLEM_COUNT: *out is set, with room for the body, and the caller's. Otherwise what is wrong with the
 * head; PROBLEM_SHED: no memory, or more than `budget_bytes` are wanted. */
enum problem upload_open(struct MHD_Connection *connection, const struct route *route, size_t budget_bytes,
                         struct write_job **out);
/* False: more than was announced. */
bool upload_take(struct write_job *job, const char *bytes, size_t count);

#endif
