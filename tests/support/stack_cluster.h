/* SPDX-License-Identifier: MIT */
/*
 * stack_cluster.h - a private Redis Cluster: masters that share the 16 384 slots, and replicas of them.
 *
 *     stack_cluster_start() --> every node says cluster_state:ok and knows who is a master and who a replica,
 *                               every replica has what its master has
 *
 * At first node[0..masters-1] are the masters, each with as many slots as the others, and node[masters + i] follows
 * node[i]. Each is a struct stack_redis of its own: kill, restart, pause, resume and any command go there. A node
 * that comes back knows its Cluster, and has no data.
 *
 * Client ports and bus ports are below the range of outgoing connections, so nobody else's connection takes one.
 *
 * Threads, errors: as stack.h has it.
 */
#pragma once

#include "load/stack/stack.h"

enum {
    STACK_CLUSTER_NODES_MAX = 12,
    STACK_CLUSTER_SLOTS = 16384,
    STACK_CLUSTER_ID_BYTES = 41,
    STACK_CLUSTER_URL_BYTES = 512,
    STACK_CLUSTER_NOBODY = STACK_CLUSTER_NODES_MAX
};

/* All texts and lists are lent until stack_cluster_stop(). */
struct stack_cluster_options {
    const char *host;             /* all listen there; NULL: 127.0.0.1 */
    size_t master_count;          /* 0: 3 */
    size_t replicas_per_master;   /* 0 to 3 */
    uint32_t node_timeout_ms;     /* 0: 1000 */
    bool serves_in_part;          /* cluster-require-full-coverage no */
    const char *const *arguments; /* "--min-replicas-to-write", "1", ..., NULL; or NULL */
    const char *const *tls;       /* "--tls-cert-file", ..., NULL: clients and the bus use TLS; or NULL */
    const char *password;         /* or NULL */
};

struct stack_cluster {
    struct stack_redis node[STACK_CLUSTER_NODES_MAX];
    char id[STACK_CLUSTER_NODES_MAX][STACK_CLUSTER_ID_BYTES];
    size_t count, master_count; /* of nodes, and how many of them were masters at first */
    struct stack_cluster_options options;
    const char *list[48]; /* arguments of every node */
    char node_timeout[16];
    char url
        [STACK_CLUSTER_URL_BYTES]; /* redis+cluster://... of the first masters, with rediss if there is TLS */
};

bool stack_cluster_start(struct stack_cluster *cluster, const struct stack_cluster_options *options);
void stack_cluster_stop(struct stack_cluster *cluster);

/* Until every node that runs says that all is well and has the same map as the others, and every replica that runs
 * has what its master has. */
bool stack_cluster_wait_ok(struct stack_cluster *cluster, uint32_t limit_ms);

/* ---- what each node has ---- */

/* hash(key) as the servers have it: only what stands in the first {} counts, if anything does. */
unsigned stack_cluster_slot(struct stack_cluster *cluster, const char *key);

/* The node that says it has this slot, with the highest epoch of those that do; STACK_CLUSTER_NOBODY. Only nodes that
 * run are asked. */
size_t stack_cluster_owner(struct stack_cluster *cluster, unsigned slot);

/* Until another than `old` has it; STACK_CLUSTER_NOBODY. */
size_t stack_cluster_wait_owner(struct stack_cluster *cluster, unsigned slot, size_t old, uint32_t limit_ms);

/* A node that runs and follows this one, as it says itself; STACK_CLUSTER_NOBODY. */
size_t stack_cluster_replica(struct stack_cluster *cluster, size_t master);

/* ---- moving ---- */

/* The planned failover of this replica's master, or the FORCE or TAKEOVER; NULL: the planned one, which begins once
 * the nodes that run agree: a master refuses its vote to a replica that has another map. Returns once the replica is
 * a master. It is asked for again if it comes to nothing: a master votes only once in a while. */
bool stack_cluster_failover(struct stack_cluster *cluster, size_t replica, const char *kind);

/*
 * A slot goes from its owner to another node: begin, any number of keys at a time, end. In between both refuse
 * commands with several keys of which some are there and some not.
 */
bool stack_cluster_begin_move(struct stack_cluster *cluster, unsigned slot, size_t from, size_t to);
/* At most so many; how many went, 0: none is left. -1: failed. */
int stack_cluster_move_keys(struct stack_cluster *cluster, unsigned slot, size_t from, size_t to,
                            unsigned most);
bool stack_cluster_end_move(struct stack_cluster *cluster, unsigned slot, size_t from, size_t to);
/* All three. */
bool stack_cluster_move(struct stack_cluster *cluster, unsigned slot, size_t to);

/* ---- giving up ---- */

/* CLUSTER FORGET of this one on all others that run and know it. */
bool stack_cluster_forget(struct stack_cluster *cluster, size_t at);

/* The master is killed and forgotten; its replica begins anew, with another id and nothing in it, and takes the slots
 * with CLUSTER ADDSLOTSRANGE, at a lower epoch. Returns once the others name it as their owner. */
bool stack_cluster_replace(struct stack_cluster *cluster, size_t master);

/* A node that was replaced begins anew, with another id, and joins the others: a master of nothing. */
bool stack_cluster_rejoin(struct stack_cluster *cluster, size_t at);
/* The same, unless it runs; and it becomes the replica of the one that has its slots. */
bool stack_cluster_return(struct stack_cluster *cluster, size_t at);
