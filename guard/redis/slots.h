/* SPDX-License-Identifier: MIT */
/*
 * redis/slots.h - which master of a Cluster owns which slot, and which claim is believed.
 *
 *     a node's view of all slots    per slot, the claim with the higher config epoch wins: a node that has not heard
 *                                   of a failover cannot turn the map back
 *     a view that has forgotten     if nobody here reaches it, either, or it has redirected a slot to where the view
 *     the owner                     says (most likely another node is at its address), any claim to its slots wins:
 *                                   it was given up, and whoever has them now may have a lower epoch. An owner
 *                                   without an id is forgotten, if it is not reached, by a view that has no master
 *                                   at its address
 *     MOVED from the slot's owner   the slot moves at once
 *     MOVED from any other node     where that command goes, and nothing else: ask for a view
 *     a view that knows none of     the Cluster is another one: the map begins anew
 *     our masters
 *
 * Each master has a number below REDIS_NODES_MAX, for as long as the map names it or anybody holds it. The same node
 * at another address is another master to us.
 *
 * Threads  redis_slots_owner() any. All else, and the fields of a node, under the owner's mutex.
 * Pure; no I/O, no clock.
 */
#pragma once

#include "view.h"
#include <stdatomic.h>

/* The slot of a name: of what stands between its first { and the next }, if that is anything. */
unsigned redis_slot(const char *name, size_t bytes);

struct redis_node {
    char id[REDIS_NODE_ID_BYTES + 1]; /* "": only redirections have named it */
    struct redis_endpoint at;         /* host "": the entry is free */
    bool named;                       /* by the map; else it is here for those that hold it */
    bool redirects;                   /* what it owned, since a view that did not give it up: */
    unsigned redirected;              /* this slot, the last one */
    unsigned grace;                   /* views that it stays named although it owns nothing */
    unsigned slots;                   /* it owns */
    unsigned holders, lost;           /* how many hold it; of them, those that do not reach it */
    uint64_t takeovers; /* how often it took the last slot of another: a replica that was promoted */
};

struct redis_slots {
    _Atomic uint16_t owner[REDIS_SLOTS]; /* REDIS_NO_NODE: none is known */
    uint64_t epoch[REDIS_SLOTS];         /* of the owner's claim */
    struct redis_node nodes[REDIS_NODES_MAX];
    struct redis_endpoint replicas[REDIS_REPLICAS_MAX]; /* of the last view that had any */
    size_t replica_count;
    uint64_t takeovers; /* of all, also of those that are gone */
};

void redis_slots_init(struct redis_slots *slots);

static inline unsigned redis_slots_owner(const struct redis_slots *slots, unsigned slot)
{
    return atomic_load_explicit(&slots->owner[slot], memory_order_acquire);
}

/* The view names one of the masters of the map, or the map is empty: it is of the same Cluster. */
bool redis_slots_knows(const struct redis_slots *slots, const struct redis_view *view);
/* What the view says and the map does not know better. True: the map has changed. */
bool redis_slots_take(struct redis_slots *slots, const struct redis_view *view);

/* `from` has redirected a command of the slot for good. True: the map has changed. */
bool redis_slots_moved(struct redis_slots *slots, unsigned from, unsigned slot,
                       const struct redis_endpoint *to);

/* The number of the master at that address; it is named then. REDIS_NO_NODE: not known, and there is no room. */
unsigned redis_slots_find(struct redis_slots *slots, const struct redis_endpoint *at);

/* It keeps its number until it is released as often. */
void redis_slots_hold(struct redis_slots *slots, unsigned node);
void redis_slots_release(struct redis_slots *slots, unsigned node);
/* One that holds it does not reach it, or does again. */
void redis_slots_lost(struct redis_slots *slots, unsigned node, bool is_lost);
