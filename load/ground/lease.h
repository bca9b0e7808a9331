/* SPDX-License-Identifier: MIT */
/*
 * lease.h - which process has the lease of a key, as it stands in Redis, and for how long still.
 *
 * One connection, made when it is needed; a Redis that is away costs a refused connection, one that hangs LIMIT_MS, and is
 * then left alone for a second.
 *
 * Threads: one at a time for each. Errors: there is no lease to be seen.
 */
#ifndef LOAD_GROUND_LEASE_H
#define LOAD_GROUND_LEASE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct lease_look_up;

struct lease_seen {
    pid_t pid; /* of its holder */
    uint32_t left_ms;
    uint32_t lease_ms; /* as it was taken */
};

/* Texts are copied. NULL: no memory, or a URL of another kind than redis:// and unix://: nothing will be seen. */
struct lease_look_up *lease_open(const char *redis_url, const char *name_space);
/* `key`: "product:7". Accepts NULL. */
bool lease_look(struct lease_look_up *leases, const char *key, struct lease_seen *out);
/* Leaves NULL. Accepts NULL in *leases. */
void lease_close(struct lease_look_up **leases);

#endif
