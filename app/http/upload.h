/* SPDX-License-Identifier: MIT */
/*
 * upload.h - from the head of a request that writes to a job, its body into it, and from the job's result to the answer.
 *
 * The head is judged before a byte of the body is taken: what cannot become a write is not read. What was announced
 * costs nothing; a job grows as its body comes.
 *
 * Threads: that of the loop.
 */
#ifndef APP_UPLOAD_H
#define APP_UPLOAD_H

#include "app/http/answer.h"
#include "app/http/route.h"
#include "app/write/writer.h"

#include <microhttpd.h>

/* Whether this method writes here. */
bool upload_is_write(const struct route *route, const char *method);
/* What Allow says of a path. */
const char *upload_allowed(const struct route *route, bool writes_on);

/* PROBLEM_COUNT: *out is set and the caller's. Otherwise what is wrong with the head; PROBLEM_SHED: no memory. */
enum problem upload_open(struct MHD_Connection *connection, const struct route *route,
                         struct write_job **out);
/* Takes what fits into its room. False: it has none for so many. */
bool upload_take(struct write_job *job, const char *bytes, size_t count);

void upload_answer(const struct write_result *result, enum write_kind kind, uint64_t id, const char *path,
                   struct answer *out);

#endif
