/* SPDX-License-Identifier: MIT */
/*
 * redis/view.h - what one node of a Cluster says about all of it, and where a redirection leads.
 *
 * CLUSTER SLOTS tells which master owns which slot, and addresses as they fit the connection that asks; CLUSTER NODES
 * tells each master's config epoch, by which a newer claim to a slot is known from an older one, and every node that
 * is not forgotten. Both are asked in one write and joined by the nodes' ids.
 *
 * A host that is empty or null is the one that was asked; "?" is a node that does not know its own name yet.
 *
 * Pure; any thread. What it reads may be any nonsense.
 */
#pragma once

#include "types.h"
#include "url.h"

enum {
    REDIS_SLOTS = 16384,
    REDIS_NODES_MAX = 256,   /* masters */
    REDIS_REPLICAS_MAX = 64, /* that are remembered */
    REDIS_NODE_ID_BYTES = 40,
    REDIS_NAMED_MAX = 1024,           /* nodes of any kind; of a larger Cluster none counts as forgotten */
    REDIS_VIEW_ELEMENTS_MAX = 300000, /* each slot a range of its own, with a replica and names */
    REDIS_VIEW_BYTES_MAX = 8 << 20,
    REDIS_NO_NODE = UINT16_MAX,
};

struct redis_view_master {
    char id[REDIS_NODE_ID_BYTES + 1];
    struct redis_endpoint at;
    uint64_t epoch; /* 0: it is not among those of CLUSTER NODES */
};

struct redis_view {
    struct redis_view_master masters[REDIS_NODES_MAX];
    size_t master_count;
    struct redis_endpoint replicas[REDIS_REPLICAS_MAX]; /* with known hosts */
    size_t replica_count;
    uint16_t owner[REDIS_SLOTS]; /* index of a master; REDIS_NO_NODE: none */
    char named[REDIS_NAMED_MAX][REDIS_NODE_ID_BYTES];
    size_t named_count; /* lines of CLUSTER NODES, those without room included */
};

/* Begins a view with the reply to CLUSTER SLOTS of the server that was reached as `asked`. False: *why. */
bool redis_view_read_slots(struct redis_view *view, const struct redisReply *slots, const char *asked,
                           char why[REDIS_WHY_SIZE]);
/* Completes it with the same server's reply to CLUSTER NODES. */
bool redis_view_read_epochs(struct redis_view *view, const struct redisReply *nodes,
                            char why[REDIS_WHY_SIZE]);

/* The node that was asked has lost sight of this one for good: CLUSTER FORGET. One that is only dead is
 * still named. */
bool redis_view_forgets(const struct redis_view *view, const char *id);

struct redis_redirect {
    bool ask; /* this command alone, after ASKING */
    uint16_t slot;
    struct redis_endpoint to; /* host "": see above, or not known */
};
/* "MOVED 3999 127.0.0.1:6381", "ASK ...", from a server that was reached as `asked`. False: it is none. */
bool redis_redirect_read(const char *text, size_t bytes, const char *asked, struct redis_redirect *out);
