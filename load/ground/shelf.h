/* SPDX-License-Identifier: MIT */
/*
 * shelf.h - what stands in Redis about a key: which process has its lease, and for how long still.
 *
 * One connection, made when it is needed; a Redis that is away costs a refused connection, one that hangs LIMIT_MS, and is
 * then left alone for a second.
 *
 * Threads: one at a time for each. Errors: false; nothing is to be seen.
 */
#ifndef LOAD_GROUND_SHELF_H
#define LOAD_GROUND_SHELF_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct shelf;

struct shelf_lease {
    pid_t pid; /* of its holder */
    uint32_t left_ms;
    uint32_t lease_ms; /* as it was taken */
};

/* Texts are copied. NULL: no memory, or a URL of another kind than redis:// and unix://: nothing will be seen. */
struct shelf *shelf_open(const char *redis_url, const char *name_space);
/* `key`: "product:7". Accepts NULL, as shelf_drop() does. */
bool shelf_look(struct shelf *shelf, const char *key, struct shelf_lease *out);
/* Deletes the value, or the failure that is remembered, as if its time had passed: nobody is told, unlike with an
 * invalidation. */
bool shelf_drop(struct shelf *shelf, const char *key);
/* Leaves NULL. Accepts NULL in *shelf. */
void shelf_close(struct shelf **shelf);

#endif
