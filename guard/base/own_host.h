/* SPDX-License-Identifier: MIT */
/*
 * own_host.h - host.h on a loop of our own, for a thread of ours. It is adapters/epoll.h with nothing else to watch.
 */
#ifndef GUARD_BASE_OWN_HOST_H
#define GUARD_BASE_OWN_HOST_H

#include "host.h"

/* NULL: no memory or descriptor. */
struct guard_host *own_host_open(void);
/* On the thread that is the guard's from here on; returns when the host is closed. */
void own_host_run(struct guard_host *host);
/* Of one that does not run, with nothing left on it. */
void own_host_free(struct guard_host **host);

#endif
