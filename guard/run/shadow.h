/* SPDX-License-Identifier: MIT */
/*
 * shadow.h - mode shadow: what a fleet would have done, beside gets that do without it.
 *
 *     get -> core in mode off, no Redis -> its own load -> answered
 *      \                                       | what it loaded
 *       +-> shadow: a core in mode fleet  <----+      lookups, leases, fills, wake-ups in a namespace of their own
 *           its waiters are no requests, its loads are the loads of the gets: no load is added, no get waits for it
 *
 * The shadow's counters are the answer: what it answered without a load of its own is what a fleet would have saved.
 * Its values are stored in full, because hits, memory and eviction would not be true otherwise, under the namespace
 * and a "~", which no configuration can name: no request is ever answered with them. They may be older than a fleet
 * would allow: a query may have begun before its lease.
 *
 * Threads   the guard's.
 */
#pragma once

#include "get.h"

struct shadow;

/* The core is lent, in mode fleet; its actions are the caller's to perform, but for LOAD and CANCEL. NULL: no
 * memory. */
struct shadow *shadow_open(struct core *core);
/* When the core is idle. Accepts NULL in *shadow. */
void shadow_close(struct shadow **shadow);

/* This get has been accepted: the shadow gets its key, too, unless memory is short. */
void shadow_get(struct shadow *shadow, uint64_t now_us, struct get *get);
/* It is the starter of this load of the callers' core; what the loader of that has said (NULL: nothing), before the
 * core is told. */
void shadow_started(const struct get *get, uint64_t load);
void shadow_kept(struct shadow *shadow, uint64_t load, const struct guard_keep *keep);
/* It has been answered, by its own load or not at all. */
void shadow_told(struct shadow *shadow, uint64_t now_us, struct get *get);

/* The core's actions that are about loads. */
void shadow_load(struct shadow *shadow, const struct core_action *action);
void shadow_cancel(struct shadow *shadow, uint64_t load);
/* After the core's actions: one event. Those whose gets have been answered end; false: nothing to do. */
bool shadow_step(struct shadow *shadow, uint64_t now_us);
/* Takes the core's answers. */
void shadow_answers(struct shadow *shadow);
/* shadow_saved and its companions, and what the shadow did in Redis. */
void shadow_stats(const struct guard_stats *fleet, struct guard_stats *stats);
