/* SPDX-License-Identifier: MIT */
/*
 * redis/probe.h - what does a port speak that does not answer as it should?
 *
 * A plain Redis never answers the first bytes of TLS: they hold no line. So where a handshake meets silence, a second
 * connection sends PING without a login, and nothing else. PostgreSQL, a port for TLS and some HTTP servers hang up on a command
 * of Redis without a word, as a server does that is going down: they are asked in their own protocol. Owned by who wants to know;
 * the loop's thread.
 */
#ifndef GUARD_REDIS_PROBE_H
#define GUARD_REDIS_PROBE_H

#include "../base/host.h"
#include <sys/socket.h>

struct redis_probe;

enum redis_probed { REDIS_PROBED_PLAIN, REDIS_PROBED_POSTGRES, REDIS_PROBED_TLS, REDIS_PROBED_HTTP };

/* `found` is called once, not from inside, if it does; never if it does not, or it cannot be told. It may stop the
 * probe. NULL: not now. */
struct redis_probe *redis_probe_start(struct guard_host *host, const struct sockaddr_storage *address,
                                      socklen_t address_bytes, enum redis_probed probed,
                                      void (*found)(void *context), void *context);
/* Leaves NULL. */
void redis_probe_stop(struct redis_probe **probe);

#endif
