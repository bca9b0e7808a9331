/* SPDX-License-Identifier: MIT */
/*
 * defer.h - loads that are finished later, without a thread, and loads that nobody waits for. Private to the room.
 *
 *                    its loader returned      finished
 *     on a thread ------------------> DEFERRED ----------------------------> over
 *                                        |                                    ^
 *                                        | limit, hold, abandoned             | finished, or hold_until_us:
 *                                        v                                    | CORE_FORGET
 *                                     given up by its flight, cancelled ------+
 *
 * Limit      A running loader cannot be stopped, so it is told and waited for. A deferred load is ended: at its
 *            limit its key fails, its lease is released, and a verdict that comes later says nothing.
 * Place      It keeps its place and its permit until it is finished, because until then its query may be running; at
 *            the latest until hold_until_us, because nobody may ever finish it.
 * Closing    None is waited for.
 */
#pragma once

#include "core.h"

struct load;

void defer_begins(struct core *core, struct load *load);
/* Its flight has given it up. */
void defer_given_up(struct core *core, struct load *load);
/* Its hold limit is over. */
void defer_alarm(struct core *core, struct load *load);
/* Those that are deferred now are not waited for. */
void defer_drain(struct core *core);

/*
 * ---- a load that nobody waits for ----
 *
 * A load that nobody waits for any more, in the whole fleet, is cancelled; of a policy that says
 * `abandon`.
 *
 *     the last waiter leaves      under a lease: a renewal asks      no other process
 *     LOADING ------------------> whether another process ---------> waits: ABANDONED: cancelled, lease released,
 *                                 waits; and so does every               note left (without a lease or alone: now)
 *                                 later renewal
 *
 * Never twice   The load after an abandoned one is spared. Otherwise a patience that is shorter than the load keeps a
 *               key cold for ever: each load ends with the request that began it. The release leaves a note, the next
 *               lease comes with it, in whatever process; a lease that is given back before its load has begun leaves
 *               it again. Without a lease this process remembers, by the hash of the key: another key may be spared
 *               with it.
 * Refreshes     A load that refreshes a value which is there has no waiters and needs none: it is never abandoned.
 * Afterwards    The flight has given the load up, and the release is sent: a waiter that joins now gets another load.
 */

enum { ABANDON_BITS = 4096 };

/* Loads without a lease that were abandoned, by hash. */
struct abandon {
    uint8_t bits[ABANDON_BITS / 8];
};

/* Its load begins, which may be abandoned. */
void abandon_load_starts(struct flight *flight);
/* A waiter has left. */
void abandon_left(struct flight *flight);
/* A renewal says that no other process waits. True: its load was abandoned. */
bool abandon_alone(struct flight *flight);
/* For how long its release says that the next load is not to be abandoned; 0: it says nothing. */
uint32_t abandon_note_ms(const struct flight *flight);
