/* SPDX-License-Identifier: MIT */
/*
 * uv_host.h - host.h on libuv: on a loop of the host's, or on one of our own with a thread of ours.
 *
 * Each takes a timer, an idle and an async handle of the loop, and a poll handle for each descriptor. The async
 * handle keeps the loop alive until the host is closed. The only file that knows libuv.
 */
#ifndef GUARD_UV_HOST_H
#define GUARD_UV_HOST_H

#include "host.h"

struct uv_loop_s;

/* On a loop that another runs. NULL: no memory or descriptor to be had. Frees itself once it is closed; the loop
 * has to run until then. */
struct guard_host *uv_host_attach(struct uv_loop_s *loop);

/* With a loop of its own. NULL as above. */
struct guard_host *uv_host_open(void);
/* Runs that loop on this thread until the host is closed. */
void uv_host_run(struct guard_host *host);
/* After it was closed and has run out. Leaves NULL. */
void uv_host_free(struct guard_host **host);

#endif
