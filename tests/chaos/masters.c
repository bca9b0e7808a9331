/* SPDX-License-Identifier: MIT */
/* masters.c - see masters.h. */
#include "tests/chaos/masters.h"

#include "load/base/clock.h"

#include <stdio.h>

enum { BEHIND_MS = 1000, CUT_ON_MS = 4000, ALL_REPLICAS = 2, SLOTS_AT_ONCE = 20 };

static bool is_cluster(const struct scene *scene)
{
    return scene->options.topology == FAULT_CLUSTER;
}

static struct stack_redis *node_at(struct scene *scene, size_t at)
{
    return is_cluster(scene) ? &scene->cluster.node[at] : &scene->sentinel.node[at];
}

static size_t node_count(const struct scene *scene)
{
    return is_cluster(scene) ? scene->cluster.count : scene->sentinel.node_count;
}

/* The node that is the master (of this slot). */
static size_t master_now(struct scene *scene, unsigned slot)
{
    return is_cluster(scene) ? stack_cluster_owner(&scene->cluster, slot)
                             : stack_sentinel_master(&scene->sentinel);
}

/* ---- strikes ---- */

/* How many replicas there must be for a write. */
static bool guard_all(struct masters *masters, unsigned replicas)
{
    char command[64];
    bool good = true;
    snprintf(command, sizeof command, "CONFIG SET min-replicas-to-write %u", replicas);
    for (size_t i = 0; i < node_count(masters->scene); i++)
        good = stack_redis_do(node_at(masters->scene, i), command) && good;
    return good;
}

/* Their links go first, and who is stopped makes no new one; so nothing of what follows reaches them. A master that
 * needs replicas for a write would confirm nothing meanwhile. */
static bool leave_replicas_behind(struct masters *masters)
{
    bool stopped[STACK_CLUSTER_NODES_MAX] = {false}, good = guard_all(masters, 0);
    struct stack_redis *old = node_at(masters->scene, masters->old);
    const uint16_t port = old->tls != NULL ? old->tls_port : old->port;
    for (size_t i = 0; i < node_count(masters->scene); i++) {
        struct stack_redis *node = node_at(masters->scene, i);
        if (i == masters->old || !stack_redis_follows(node, port))
            continue;
        good = stack_redis_do(node, "CLIENT KILL TYPE master") && good;
        stack_redis_pause(node);
        stopped[i] = true;
    }
    clock_pause_ms(BEHIND_MS); /* how much they lack */
    stack_redis_kill(old);
    for (size_t i = 0; i < node_count(masters->scene); i++) {
        if (stopped[i])
            stack_redis_resume(node_at(masters->scene, i));
    }
    return good;
}

static bool fail_over(struct masters *masters)
{
    struct scene *scene = masters->scene;
    if (!is_cluster(scene))
        return stack_sentinel_failover(&scene->sentinel);
    size_t replica = stack_cluster_replica(&scene->cluster, masters->old);
    return replica != STACK_CLUSTER_NOBODY && stack_cluster_failover(&scene->cluster, replica, NULL);
}

static bool kill_sentinels(struct masters *masters)
{
    for (size_t i = 0; i < STACK_SENTINELS; i++)
        stack_redis_kill(&masters->scene->sentinel.sentinel[i]);
    stack_redis_kill(node_at(masters->scene, masters->old));
    return true;
}

static bool move_slots(struct masters *masters, size_t to)
{
    struct stack_cluster *cluster = &masters->scene->cluster;
    for (unsigned i = 0; i < SLOTS_AT_ONCE; i++) {
        if (!stack_cluster_move(cluster, (masters->slot + i) % STACK_CLUSTER_SLOTS, to))
            return false;
    }
    return true;
}

static size_t another_master(struct masters *masters)
{
    struct stack_cluster *cluster = &masters->scene->cluster;
    for (unsigned slot = 0; slot < STACK_CLUSTER_SLOTS; slot += 1024) {
        size_t owner = stack_cluster_owner(cluster, slot);
        if (owner != masters->old && owner != STACK_CLUSTER_NOBODY)
            return owner;
    }
    return masters->old;
}

static bool strike(struct masters *masters)
{
    struct stack_redis *old = node_at(masters->scene, masters->old);
    switch (masters->kind) {
    case FAULT_MASTER_KILL:
    case FAULT_MASTER_KEPT:
        stack_redis_kill(old);
        return true;
    case FAULT_MASTER_STOP:
        stack_redis_pause(old);
        return true;
    case FAULT_MASTER_CUT:
        return network_cut(&masters->scene->network, 1);
    case FAULT_MASTER_CUT_UNGUARDED:
        return guard_all(masters, 0) && network_cut(&masters->scene->network, 1);
    case FAULT_MASTER_UNGUARDED:
        return guard_all(masters, 0) && fail_over(masters);
    case FAULT_MASTER_GUARDED_BY_ALL:
        return guard_all(masters, ALL_REPLICAS) && fail_over(masters);
    case FAULT_MASTER_FAILOVER:
    case FAULT_MASTER_GUARDED:
        return fail_over(masters);
    case FAULT_REPLICA_BEHIND:
        return leave_replicas_behind(masters);
    case FAULT_SENTINELS_KILL:
        return kill_sentinels(masters);
    case FAULT_SLOTS_MOVE:
        return move_slots(masters, another_master(masters));
    case FAULT_MASTER_FORGOTTEN:
        return stack_cluster_replace(&masters->scene->cluster, masters->old);
    default:
        fprintf(stderr, "masters: no such strike: %s\n", fault_trait(masters->kind)->name);
        return false;
    }
}

/* Who was forgotten stays away until something else befalls the masters: what is judged in between is a Cluster that
 * is whole without it. */
static bool return_forgotten(struct scene *scene)
{
    for (size_t i = 0; is_cluster(scene) && i < scene->cluster.count; i++) {
        if (!stack_redis_runs(&scene->cluster.node[i]) && !stack_cluster_return(&scene->cluster, i))
            return false;
    }
    return true;
}

bool masters_strike(struct masters *masters, struct scene *scene, enum fault_kind kind, unsigned slot)
{
    if (!return_forgotten(scene))
        return false;
    *masters = (struct masters){.scene = scene, .kind = kind, .slot = slot, .struck_us = clock_us()};
    if (is_cluster(scene) && slot == MASTERS_ANY_SLOT)
        masters->slot = stack_cluster_slot(&scene->cluster, "{chaos:tags}");
    masters->old = master_now(scene, masters->slot);
    if (masters->old >= node_count(scene)) {
        fprintf(stderr, "masters: nobody is the master\n");
        return false;
    }
    return strike(masters);
}

/* ---- until another is there ---- */

/* Nobody replaces the master while they are away; only they know it. */
static bool restart_sentinels(struct masters *masters)
{
    bool good = true;
    for (size_t i = 0; i < STACK_SENTINELS; i++)
        good = stack_sentinel_restart(&masters->scene->sentinel, i) && good;
    return good;
}

bool masters_wait_switch(struct masters *masters)
{
    struct scene *scene = masters->scene;
    if (masters->switched_us != 0)
        return true;
    if (masters->kind == FAULT_SENTINELS_KILL && !restart_sentinels(masters))
        return false;
    if (masters->kind == FAULT_SLOTS_MOVE)
        masters->other = master_now(scene, masters->slot);
    else if (is_cluster(scene))
        masters->other =
            stack_cluster_wait_owner(&scene->cluster, masters->slot, masters->old, MASTERS_LIMIT_MS);
    else
        masters->other = stack_sentinel_wait_switch(&scene->sentinel, masters->old, MASTERS_LIMIT_MS);
    if (masters->kind == FAULT_MASTER_CUT || masters->kind == FAULT_MASTER_CUT_UNGUARDED) {
        clock_pause_ms(CUT_ON_MS); /* two at once, if ever there are */
        network_mend(&scene->network, 1);
    }
    masters->switched_us = clock_us();
    return masters->other < node_count(scene);
}

/* ---- and back ---- */

static bool settle(struct scene *scene)
{
    return is_cluster(scene) ? stack_cluster_wait_ok(&scene->cluster, MASTERS_LIMIT_MS)
                             : stack_sentinel_wait_settled(&scene->sentinel, MASTERS_LIMIT_MS);
}

static bool bring_back(struct masters *masters)
{
    struct stack_redis *old = node_at(masters->scene, masters->old);
    switch (masters->kind) {
    case FAULT_MASTER_KILL:
    case FAULT_MASTER_KEPT:
    case FAULT_REPLICA_BEHIND:
    case FAULT_SENTINELS_KILL:
        return stack_redis_restart(old);
    case FAULT_MASTER_STOP:
        stack_redis_resume(old);
        return true;
    case FAULT_SLOTS_MOVE:
        return move_slots(masters, masters->old);
    default:
        return true;
    }
}

bool masters_mend(struct masters *masters)
{
    return masters_wait_switch(masters) && bring_back(masters) && settle(masters->scene) &&
           (is_cluster(masters->scene) || guard_all(masters, 1));
}
