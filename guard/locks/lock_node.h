/* SPDX-License-Identifier: MIT */
/*
 * lock_node.h - one Redis, as the providers of locks see it: a connection for commands, and a subscription to the
 * channel of the namespace's locks.
 *
 * Its age. A Redis that has just started may have forgotten what was held, so one that has to wait grants nothing
 * until it has been up for max_lease_ms. How long it has been up it is asked (INFO) whenever it is reached, before it
 * is told to be up.
 *
 * Threads   that of the host.
 */
#pragma once

#include "lock_wire.h"
#include "provider.h"

enum { LOCK_NODE_WHY_SIZE = 512, LOCK_RUN_ID_SIZE = 41 /* 40 hexadecimal digits */ };

struct lock_node {
    /* for its owner to read: */
    struct redis *redis; /* owned */
    struct subscription
        *subscription; /* owned; NULL: for want of memory it is good for nothing but to be closed */
    struct lock_wire wire;
    char label[REDIS_LABEL_SIZE]; /* host:port, as texts name it */
    char why[LOCK_NODE_WHY_SIZE]; /* it is not up; the reason that was told last */
    char run_id
        [LOCK_RUN_ID_SIZE]; /* of the server that is up, the same under all its names; "": not known. Known
                                        * wherever the age is */
    /* lock_node.c's: */
    /* Of its hooks told(), resync() and link() are called; the `why` of a link is lent until the next one. */
    struct lock_provider_config config;
    struct redis_topology *topology; /* owned */
    bool waits, ageless, is_up, denied;
    uint64_t born_us; /* it has been up since then at the latest; 0: not known */
    bool closing;
    unsigned parts_open;
    struct host_told told;
};

/* Starts connecting. waits: for its age. NULL: INVALID, NO_MEMORY. */
struct lock_node *lock_node_open(const struct lock_provider_config *config, const char *url, bool waits,
                                 struct guard_error *error);
/* Answers what was sent; no hook is called any more. */
void lock_node_close(struct lock_node *node, void (*closed)(void *context), void *context);

/* It grants nothing for this much longer; 0: it may grant. While it is not known, limit_ms. */
uint32_t lock_node_young_ms(const struct lock_node *node, uint64_t now_us);
/* It will never be known: this login may not ask. NULL: it may. */
const char *lock_node_ageless(const struct lock_node *node);
/* It lets nobody in with this login, or to this database; told as a link that is up, so that it is asked for. NULL:
 * it does, or is not reached. */
const char *lock_node_denied(const struct lock_node *node);
