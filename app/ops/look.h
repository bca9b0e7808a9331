/* SPDX-License-Identifier: MIT */
/*
 * look.h - what an operator may look at, as ops.h lists it, and that changes nothing: health, readiness, numbers, hot
 * keys; and the samples of the live view.
 *
 * Threads: any; none of it blocks. What returns bool is false if nothing could be queued: close the connection.
 */
#ifndef APP_LOOK_H
#define APP_LOOK_H

#include "app/ops/parts.h"
#include "app/view/live.h"

#include <microhttpd.h>

bool look_healthz(const struct ops_parts *parts, struct MHD_Connection *connection);
bool look_readyz(const struct ops_parts *parts, struct MHD_Connection *connection);
bool look_metrics(const struct ops_parts *parts, struct MHD_Connection *connection);
bool look_hot(const struct ops_parts *parts, struct MHD_Connection *connection);

/* For struct stream; `context` is a struct ops_parts. */
void look_sample(void *context, struct live_sample *out);

#endif
