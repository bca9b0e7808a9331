/* SPDX-License-Identifier: MIT */
/*
 * base/resolve.h - from the host of a URL to addresses: digits at once, a name on a thread of its own.
 *
 * getaddrinfo() cannot be interrupted and may take as long as it likes, so every name gets a thread that nothing
 * waits for: it blocks all signals, is detached, and wakes the loop when it ends. One that was forgotten meanwhile
 * touches nothing but itself, which it frees; it may outlive the loop, and the process may exit around it, but its
 * code may not be unloaded. RESOLVE_THREADS_MAX of them run in a process at a time; a further name is refused until
 * one has ended. The child of a fork begins with none.
 *
 * Threads  The loop's.
 */
#pragma once

#include "host.h"
#include <netdb.h>

enum { RESOLVE_THREADS_MAX = 16 };

/* An IPv4 address, or an IPv6 address with or without %zone. Returns its size, 0: it is neither. Any thread. */
socklen_t resolve_digits(const char *host, uint16_t port, struct sockaddr_storage *out);

struct resolve;

/* `problem` NULL: `found` has at least one address; lent. Else it says why there is none. */
typedef void resolve_done(void *context, const struct addrinfo *found, const char *problem);

/* Calls `done` once, not from inside. NULL, and errno: not now. */
struct resolve *resolve_start(struct guard_host *host, const char *name, uint16_t port, resolve_done *done,
                              void *context);
/* `done` will not be called. Leaves NULL. After `done` there is nothing to forget. */
void resolve_forget(struct resolve **resolve);
