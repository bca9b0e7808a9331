/* SPDX-License-Identifier: MIT */
/*
 * warmer.h - the hot keys of one process for the next one: saved now and then and at the end, loaded at the start.
 *
 *     file -> wait until loads can be stored -> guard_refresh() -> warm
 *     guard_hot(), then what was in the file -> file                            every HOT_SAVE_MS, and at the end
 *
 * Loading goes on in the background, behind every load that a request waits for, under leases: of processes that start
 * together each key is loaded by one, whatever they share. So nothing waits for it, and readiness does not either: a new
 * process beside a warm cache has nothing to do, and one beside a cold cache serves correctly, each key being loaded once
 * anyway.
 *
 * What is hot is what the guard's work was worth it for (guard_hot()): a process that only ever hit saves nothing of its
 * own, and leaves what the file has. An empty list is not written.
 *
 * Threads: one of its own; the state may be read by any. In the modes off and shadow there is nothing to warm.
 */
#ifndef APP_WARMER_H
#define APP_WARMER_H

#include "app/base/settings.h"
#include "app/catalog/catalog.h"

struct warmer;

/* Everything is lent until warmer_close(). *out is NULL without HOT_FILE. False: no memory or thread. */
bool warmer_open(const struct settings *settings, struct guard *guard, const struct catalog *catalog,
                 struct cache_gate *gate, struct warmer **out);
/* Saves for the last time. Before guard_close(); accepts NULL. */
void warmer_stop(struct warmer *warmer);
/* After guard_close(), which calls back what still warms. Leaves NULL; accepts NULL in *warmer. */
void warmer_close(struct warmer **warmer);

struct warmer_state {
    bool is_warming;
    size_t keys; /* of the file */
};
/* Zeros of NULL. */
struct warmer_state warmer_state(const struct warmer *warmer);

#endif
