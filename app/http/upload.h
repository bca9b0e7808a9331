/* SPDX-License-Identifier: MIT */
/*
 * upload.h - requests that write: their head becomes a job, their body goes into it, its result becomes the answer.
 *
 * The head is judged before a byte of the body is taken: what cannot become a write is not read. An announced body
 * costs nothing; a job grows as its body arrives.
 *
 * Threads: that of the loop.
 */
#pragma once

#include "app/http/answer.h"
#include "app/http/route.h"
#include "app/write/writer.h"

#include <microhttpd.h>

/* Does this method write here? */
bool upload_is_write(const struct route *route, const char *method);
/* The Allow header of a path. */
const char *upload_allowed(const struct route *route, bool writes_on);

/* PROBLEM_COUNT: *out is set and yours. Otherwise what is wrong with the head; PROBLEM_SHED: no memory. */
enum problem upload_open(struct MHD_Connection *connection, const struct route *route,
                         struct write_job **out);
/* False: the job has no room for so many. */
bool upload_take(struct write_job *job, const char *bytes, size_t count);

void upload_answer(const struct write_result *result, enum write_kind kind, uint64_t id, const char *path,
                   struct answer *out);
