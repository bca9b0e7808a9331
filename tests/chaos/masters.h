/* SPDX-License-Identifier: MIT */
/*
 * masters.h - what befalls the masters of a scene: under Sentinels, or in a Cluster.
 *
 *     masters_strike() --> masters_wait_switch() --> masters_mend()
 *     what is done         another is the master     the old one is back, as a replica, and all agree
 *
 * One that was forgotten is back before the next strike: until then the others are all there is, and what is calm is
 * judged without it.
 *
 * For the kinds of fault whose party is FAULT_OF_MASTERS; fault.h says what each does. In a Cluster it is the master
 * of one slot; where a slot moves, its neighbours go with it.
 *
 * Threads: the scene's.
 * Errors: false, and the reason on stderr.
 */
#pragma once

#include "tests/chaos/fault.h"
#include "tests/chaos/scene.h"

enum { MASTERS_ANY_SLOT = STACK_CLUSTER_SLOTS, MASTERS_LIMIT_MS = 40000 };

struct masters {
    struct scene *scene;
    enum fault_kind kind;
    unsigned slot;
    size_t old, other; /* nodes; the other one is known once it has been waited for */
    uint64_t struck_us, switched_us;
};

/* MASTERS_ANY_SLOT: that of the tags. */
bool masters_strike(struct masters *masters, struct scene *scene, enum fault_kind kind, unsigned slot);
/* Notes when; faults that move nothing have switched at once. */
bool masters_wait_switch(struct masters *masters);
/* Waits for the switch, too. */
bool masters_mend(struct masters *masters);
