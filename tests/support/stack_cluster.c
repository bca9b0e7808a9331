/* SPDX-License-Identifier: MIT */
/* stack_cluster.c - see stack_cluster.h. */
#include "tests/support/stack_cluster.h"

#include "load/base/clock.h"

#include <assert.h>
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    SETTLE_LIMIT_MS = 30000,
    LOOK_EVERY_MS = 10,
    MOVE_AT_ONCE = 100,
    MIGRATE_LIMIT_MS = 5000,
    FAILOVER_TRIES = 5,
    FAILOVER_LIMIT_MS = 5500
};

/* ---- what each node has ---- */

/* What a node says of itself: "id ip:port@bus flags master ping pong epoch link slot slot-slot ...". */
struct view {
    bool is_master;
    char master_id[STACK_CLUSTER_ID_BYTES]; /* of a replica */
    unsigned long epoch;
    char *slots; /* owned, with the line; "" if it has none */
    char *line;
};

static bool look(struct stack_cluster *cluster, size_t at, struct view *out)
{
    *out = (struct view){.epoch = 0};
    struct redisReply *reply = stack_redis_runs(&cluster->node[at])
                                   ? stack_redis_command(&cluster->node[at], "CLUSTER NODES")
                                   : NULL;
    const char *line =
        reply != NULL && reply->type == REDIS_REPLY_STRING ? strstr(reply->str, "myself") : NULL;
    char *own = line != NULL ? strndup(line, strcspn(line, "\n")) : NULL;
    freeReplyObject(reply);
    char flags[64];
    int used = 0;
    if (own == NULL ||
        sscanf(own, "%63s %40s %*s %*s %lu %*s%n", flags, out->master_id, &out->epoch, &used) < 3) {
        free(own);
        return false;
    }
    out->line = own;
    out->is_master = strstr(flags, "master") != NULL;
    out->slots = own + used;
    return true;
}

/* The next range; false: none. "[93->-id]" is one that is about to leave: it is in the ranges, too. */
static bool next_range(const char **slots, unsigned *first, unsigned *last)
{
    int used;
    if (sscanf(*slots, " %u%n", first, &used) != 1)
        return false;
    *slots += used;
    *last = *first;
    if (**slots == '-' && sscanf(*slots, "-%u%n", last, &used) == 1)
        *slots += used;
    return true;
}

static bool has_slot(const struct view *view, unsigned slot)
{
    unsigned first, last;
    for (const char *slots = view->slots; next_range(&slots, &first, &last);) {
        if (slot >= first && slot <= last)
            return true;
    }
    return false;
}

unsigned stack_cluster_slot(struct stack_cluster *cluster, const char *key)
{
    for (size_t i = 0; i < cluster->count; i++) {
        if (!stack_redis_runs(&cluster->node[i]))
            continue;
        const long long slot = stack_redis_number(&cluster->node[i], "CLUSTER KEYSLOT %s", key);
        if (slot >= 0)
            return (unsigned)slot;
    }
    return STACK_CLUSTER_SLOTS;
}

size_t stack_cluster_owner(struct stack_cluster *cluster, unsigned slot)
{
    size_t owner = STACK_CLUSTER_NOBODY;
    unsigned long epoch = 0;
    for (size_t i = 0; i < cluster->count; i++) {
        struct view view;
        if (!look(cluster, i, &view))
            continue;
        if (view.is_master && has_slot(&view, slot) &&
            (owner == STACK_CLUSTER_NOBODY || view.epoch > epoch)) {
            owner = i;
            epoch = view.epoch;
        }
        free(view.line);
    }
    return owner;
}

size_t stack_cluster_wait_owner(struct stack_cluster *cluster, unsigned slot, size_t old, uint32_t limit_ms)
{
    for (uint64_t end_us = clock_after_ms(limit_ms); clock_us() < end_us; clock_pause_ms(LOOK_EVERY_MS)) {
        size_t owner = stack_cluster_owner(cluster, slot);
        if (owner != STACK_CLUSTER_NOBODY && owner != old)
            return owner;
    }
    fprintf(stderr, "stack: slot %u has no other owner after %" PRIu32 " ms; the log of one ends:\n", slot,
            limit_ms);
    proc_show_tail(cluster->node[cluster->count - 1].log_path);
    return STACK_CLUSTER_NOBODY;
}

size_t stack_cluster_replica(struct stack_cluster *cluster, size_t master)
{
    for (size_t i = 0; i < cluster->count; i++) {
        struct view view;
        if (!look(cluster, i, &view))
            continue;
        bool found = !view.is_master && strcmp(view.master_id, cluster->id[master]) == 0;
        free(view.line);
        if (found)
            return i;
    }
    return STACK_CLUSTER_NOBODY;
}

/* A replica must have its master's data. */
static bool node_is_ok(struct stack_cluster *cluster, size_t at)
{
    struct view view;
    if (!stack_redis_mentions(&cluster->node[at], "cluster_state:ok", "CLUSTER INFO") ||
        !look(cluster, at, &view))
        return false;
    bool good = view.is_master && strpbrk(view.slots, "0123456789") != NULL;
    for (size_t i = 0; !view.is_master && i < cluster->count; i++) {
        if (strcmp(view.master_id, cluster->id[i]) == 0)
            good = stack_redis_follows(&cluster->node[at], stack_redis_used_port(&cluster->node[i]));
    }
    free(view.line);
    return good;
}

/* The line of CLUSTER NODES about this one; NULL: it is not in there. */
static const char *line_about(const char *nodes, const char *id)
{
    const char *line = strstr(nodes, id);
    while (line != NULL && line != nodes && line[-1] != '\n') /* there it is somebody's master */
        line = strstr(line + 1, id);
    return line;
}

static uint64_t mix(uint64_t digest, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        digest = (digest ^ (unsigned char)text[i]) * 0x100000001B3u;
    return digest;
}

/* Who has which slots, and whom those that run follow and their epochs, in one number: nodes that agree have the
 * same. 0: no answer. */
static uint64_t map_digest(struct stack_cluster *cluster, struct stack_redis *node)
{
    uint64_t digest = 0;
    struct redisReply *reply = stack_redis_command(node, "CLUSTER NODES");
    for (size_t i = 0; reply != NULL && reply->type == REDIS_REPLY_STRING && i < cluster->count; i++) {
        char master_id[STACK_CLUSTER_ID_BYTES]; /* or "-" */
        char epoch[24];
        int used = 0;
        const char *line = line_about(reply->str, cluster->id[i]);
        if (line == NULL || sscanf(line, "%*s %*s %*s %40s %*s %*s %23s %*s%n", master_id, epoch, &used) != 2)
            continue;
        size_t bytes = strcspn(line + used, "[\n"); /* what moves is told by its owner only */
        while (bytes > 0 && line[used + (int)bytes - 1] == ' ')
            bytes--;
        digest = mix(digest + i + 1, line + used, bytes);
        if (stack_redis_runs(&cluster->node[i]))
            digest = mix(mix(digest, master_id, strlen(master_id)), epoch, strlen(epoch));
    }
    freeReplyObject(reply);
    return digest;
}

/* All that run. A replica that others take for a master yet gets no vote. */
static bool all_agree(struct stack_cluster *cluster)
{
    uint64_t digest = 0;
    for (size_t i = 0; i < cluster->count; i++) {
        if (!stack_redis_runs(&cluster->node[i]))
            continue;
        uint64_t its = map_digest(cluster, &cluster->node[i]);
        if (digest != 0 && its != digest)
            return false;
        digest = its;
    }
    return true;
}

/* ---- waiting ---- */

typedef bool settled(struct stack_cluster *cluster);

/* What each says of all, and the log of those that are not well. */
static void show(struct stack_cluster *cluster)
{
    for (size_t i = 0; i < cluster->count; i++) {
        struct stack_redis *node = &cluster->node[i];
        if (!stack_redis_runs(node))
            continue;
        const bool good = node_is_ok(cluster, i);
        struct redisReply *reply = stack_redis_command(node, "CLUSTER NODES");
        fprintf(stderr, "stack: node %zu %s:\n%s", i, good ? "says" : "is not well and says",
                reply != NULL && reply->str != NULL ? reply->str : "nothing\n");
        freeReplyObject(reply);
        if (!good)
            proc_show_tail(node->log_path);
    }
}

static bool wait_until(struct stack_cluster *cluster, settled *holds, uint32_t limit_ms)
{
    for (uint64_t end_us = clock_after_ms(limit_ms); !holds(cluster); clock_pause_ms(LOOK_EVERY_MS)) {
        if (clock_us() < end_us)
            continue;
        fprintf(stderr, "stack: the Cluster is not well after %" PRIu32 " ms\n", limit_ms);
        show(cluster);
        return false;
    }
    return true;
}

static bool is_ok(struct stack_cluster *cluster)
{
    for (size_t i = 0; i < cluster->count; i++) {
        if (stack_redis_runs(&cluster->node[i]) && !node_is_ok(cluster, i))
            return false;
    }
    return all_agree(cluster);
}

bool stack_cluster_wait_ok(struct stack_cluster *cluster, uint32_t limit_ms)
{
    return wait_until(cluster, is_ok, limit_ms);
}

/* ---- start ---- */

static void write_arguments(struct stack_cluster *cluster)
{
    const struct stack_cluster_options *options = &cluster->options;
    size_t count = 0;
    snprintf(cluster->node_timeout, sizeof cluster->node_timeout, "%" PRIu32, options->node_timeout_ms);
    cluster->list[count++] = "--cluster-node-timeout";
    cluster->list[count++] = cluster->node_timeout;
    cluster->list[count++] = "--cluster-require-full-coverage";
    cluster->list[count++] = options->serves_in_part ? "no" : "yes";
    if (options->password != NULL) {
        cluster->list[count++] = "--requirepass";
        cluster->list[count++] = options->password;
        cluster->list[count++] = "--masterauth";
        cluster->list[count++] = options->password;
    }
    if (options->tls != NULL) {
        cluster->list[count++] = "--tls-cluster";
        cluster->list[count++] = "yes";
        cluster->list[count++] = "--tls-replication";
        cluster->list[count++] = "yes";
    }
    for (size_t i = 0; options->arguments != NULL && options->arguments[i] != NULL; i++) {
        assert(count + 1 < sizeof cluster->list / sizeof *cluster->list);
        cluster->list[count++] = options->arguments[i];
    }
}

static bool ask_id(struct stack_cluster *cluster, size_t at)
{
    struct redisReply *reply = stack_redis_command(&cluster->node[at], "CLUSTER MYID");
    bool good = reply != NULL && reply->type == REDIS_REPLY_STRING;
    snprintf(cluster->id[at], sizeof cluster->id[at], "%s", good ? reply->str : "");
    return stack_redis_done("CLUSTER MYID", reply) && good;
}

static bool start_node(struct stack_cluster *cluster, size_t at)
{
    struct stack_redis *node = &cluster->node[at];
    if (!stack_redis_start_as(node, &(struct stack_redis_options){.host = cluster->options.host,
                                                                  .arguments = cluster->list,
                                                                  .tls = cluster->options.tls,
                                                                  .password = cluster->options.password,
                                                                  .is_node = true}))
        return false;
    return ask_id(cluster, at) && stack_redis_do(node, "CLUSTER SET-CONFIG-EPOCH %d", (int)at + 1);
}

static bool meet_all(struct stack_cluster *cluster, size_t at)
{
    for (size_t i = 0; i < cluster->count; i++) {
        if (i != at && stack_redis_runs(&cluster->node[i]) &&
            !stack_redis_do(&cluster->node[at], "CLUSTER MEET %s %u %u", cluster->node[i].host,
                            (unsigned)stack_redis_used_port(&cluster->node[i]),
                            (unsigned)cluster->node[i].bus_port))
            return false;
    }
    return true;
}

static bool deal_slots(struct stack_cluster *cluster)
{
    for (size_t i = 0; i < cluster->master_count; i++) {
        unsigned first = (unsigned)(i * STACK_CLUSTER_SLOTS / cluster->master_count);
        unsigned last = (unsigned)((i + 1) * STACK_CLUSTER_SLOTS / cluster->master_count) - 1;
        if (!stack_redis_do(&cluster->node[i], "CLUSTER ADDSLOTSRANGE %u %u", first, last))
            return false;
    }
    return meet_all(cluster, 0);
}

/* No handshake is under way any more: each is known by its id. */
static bool all_are_known(struct stack_cluster *cluster)
{
    for (size_t i = 0; i < cluster->count; i++) {
        if (!stack_redis_runs(&cluster->node[i]))
            continue;
        struct redisReply *reply = stack_redis_command(&cluster->node[i], "CLUSTER NODES");
        bool good = reply != NULL && reply->str != NULL && strstr(reply->str, "handshake") == NULL;
        for (size_t other = 0; good && other < cluster->count; other++)
            good = !stack_redis_runs(&cluster->node[other]) || strstr(reply->str, cluster->id[other]) != NULL;
        freeReplyObject(reply);
        if (!good)
            return false;
    }
    return true;
}

static bool attach_replicas(struct stack_cluster *cluster)
{
    for (size_t i = cluster->master_count; i < cluster->count; i++) {
        if (!stack_redis_do(&cluster->node[i], "CLUSTER REPLICATE %s",
                            cluster->id[i % cluster->master_count]))
            return false;
    }
    return true;
}

static void write_url(struct stack_cluster *cluster)
{
    const char *password = cluster->options.password;
    int used = snprintf(cluster->url, sizeof cluster->url, "%s+cluster://%s%s%s",
                        cluster->options.tls != NULL ? "rediss" : "redis", password != NULL ? ":" : "",
                        password != NULL ? password : "", password != NULL ? "@" : "");
    for (size_t i = 0; i < cluster->master_count; i++)
        used += snprintf(cluster->url + used, sizeof cluster->url - (size_t)used, "%s%s:%u", i > 0 ? "," : "",
                         cluster->node[i].host, (unsigned)stack_redis_used_port(&cluster->node[i]));
}

bool stack_cluster_start(struct stack_cluster *cluster, const struct stack_cluster_options *options)
{
    *cluster = (struct stack_cluster){.options = *options};
    cluster->master_count = options->master_count != 0 ? options->master_count : 3;
    cluster->count = cluster->master_count * (1 + options->replicas_per_master);
    assert(cluster->count <= STACK_CLUSTER_NODES_MAX);
    if (cluster->options.node_timeout_ms == 0)
        cluster->options.node_timeout_ms = 1000;
    write_arguments(cluster);
    for (size_t i = 0; i < cluster->count; i++) {
        if (!start_node(cluster, i))
            return false;
    }
    write_url(cluster);
    return deal_slots(cluster) && wait_until(cluster, all_are_known, SETTLE_LIMIT_MS) &&
           attach_replicas(cluster) && stack_cluster_wait_ok(cluster, SETTLE_LIMIT_MS);
}

void stack_cluster_stop(struct stack_cluster *cluster)
{
    for (size_t i = 0; i < STACK_CLUSTER_NODES_MAX; i++)
        stack_redis_stop(&cluster->node[i]);
    *cluster = (struct stack_cluster){.count = 0};
}

/* ---- moving ---- */

static bool is_master(struct stack_cluster *cluster, size_t at)
{
    struct view view;
    if (!look(cluster, at, &view))
        return false;
    free(view.line);
    return view.is_master;
}

bool stack_cluster_failover(struct stack_cluster *cluster, size_t replica, const char *kind)
{
    struct stack_redis *node = &cluster->node[replica];
    if (kind == NULL && !wait_until(cluster, all_agree, SETTLE_LIMIT_MS))
        return false;
    for (unsigned i = 0; i < FAILOVER_TRIES; i++) {
        if (!(kind != NULL ? stack_redis_do(node, "CLUSTER FAILOVER %s", kind)
                           : stack_redis_do(node, "CLUSTER FAILOVER")))
            return false;
        for (uint64_t end_us = clock_after_ms(FAILOVER_LIMIT_MS); clock_us() < end_us;
             clock_pause_ms(LOOK_EVERY_MS)) {
            if (is_master(cluster, replica))
                return true;
        }
    }
    fprintf(stderr, "stack: the replica did not become a master; its log ends:\n");
    proc_show_tail(node->log_path);
    return false;
}

bool stack_cluster_begin_move(struct stack_cluster *cluster, unsigned slot, size_t from, size_t to)
{
    return stack_redis_do(&cluster->node[to], "CLUSTER SETSLOT %u IMPORTING %s", slot, cluster->id[from]) &&
           stack_redis_do(&cluster->node[from], "CLUSTER SETSLOT %u MIGRATING %s", slot, cluster->id[to]);
}

/* MIGRATE of all of them in one command. */
static bool migrate(struct stack_cluster *cluster, size_t from, size_t to, const struct redisReply *keys)
{
    const char *words[MOVE_AT_ONCE + 12];
    char port[8], limit[16];
    size_t count = 0;
    snprintf(port, sizeof port, "%u", (unsigned)stack_redis_used_port(&cluster->node[to]));
    snprintf(limit, sizeof limit, "%d", (int)MIGRATE_LIMIT_MS);
    for (const char *const *word =
             (const char *const[]){"MIGRATE", cluster->node[to].host, port, "", "0", limit, NULL};
         *word != NULL; word++)
        words[count++] = *word;
    if (cluster->options.password != NULL) {
        words[count++] = "AUTH";
        words[count++] = cluster->options.password;
    }
    words[count++] = "KEYS";
    for (size_t i = 0; i < keys->elements; i++)
        words[count++] = keys->element[i]->str;
    return stack_redis_done("MIGRATE", stack_redis_command_words(&cluster->node[from], words, count));
}

int stack_cluster_move_keys(struct stack_cluster *cluster, unsigned slot, size_t from, size_t to,
                            unsigned most)
{
    int went = 0;
    while (most > 0) {
        unsigned at_once = most < MOVE_AT_ONCE ? most : MOVE_AT_ONCE;
        struct redisReply *keys =
            stack_redis_command(&cluster->node[from], "CLUSTER GETKEYSINSLOT %u %u", slot, at_once);
        int count = keys != NULL && keys->type == REDIS_REPLY_ARRAY ? (int)keys->elements : -1;
        bool good = count >= 0 && (count == 0 || migrate(cluster, from, to, keys));
        freeReplyObject(keys);
        if (!good)
            return -1;
        if (count == 0)
            break;
        went += count;
        most -= at_once;
    }
    return went;
}

bool stack_cluster_end_move(struct stack_cluster *cluster, unsigned slot, size_t from, size_t to)
{
    bool good = stack_redis_do(&cluster->node[to], "CLUSTER SETSLOT %u NODE %s", slot, cluster->id[to]) &&
                stack_redis_do(&cluster->node[from], "CLUSTER SETSLOT %u NODE %s", slot, cluster->id[to]);
    for (size_t i = 0; good && i < cluster->count; i++) {
        struct view view;
        if (i == from || i == to || !look(cluster, i, &view))
            continue;
        if (view.is_master)
            good = stack_redis_do(&cluster->node[i], "CLUSTER SETSLOT %u NODE %s", slot, cluster->id[to]);
        free(view.line);
    }
    return good;
}

/* A node that takes a slot before it has heard of the last move may take an epoch that is another's. When one of the
 * two then takes the next epoch, a late message of its can undo the move in the eyes of the new owner, for good. */
bool stack_cluster_move(struct stack_cluster *cluster, unsigned slot, size_t to)
{
    size_t from = stack_cluster_owner(cluster, slot);
    if (from == STACK_CLUSTER_NOBODY || from == to)
        return from == to;
    return wait_until(cluster, all_agree, SETTLE_LIMIT_MS) &&
           stack_cluster_begin_move(cluster, slot, from, to) &&
           stack_cluster_move_keys(cluster, slot, from, to, UINT32_MAX) >= 0 &&
           stack_cluster_end_move(cluster, slot, from, to);
}

/* ---- giving up ---- */

bool stack_cluster_forget(struct stack_cluster *cluster, size_t at)
{
    bool good = true;
    for (size_t i = 0; i < cluster->count; i++) {
        struct stack_redis *node = &cluster->node[i];
        if (i != at && stack_redis_runs(node) && stack_redis_mentions(node, cluster->id[at], "CLUSTER NODES"))
            good = stack_redis_do(node, "CLUSTER FORGET %s", cluster->id[at]) && good;
    }
    return good;
}

static bool join_anew(struct stack_cluster *cluster, size_t at)
{
    return ask_id(cluster, at) && meet_all(cluster, at) &&
           wait_until(cluster, all_are_known, SETTLE_LIMIT_MS);
}

static bool add_slots(struct stack_cluster *cluster, size_t at, const char *slots)
{
    unsigned first, last;
    while (next_range(&slots, &first, &last)) {
        if (!stack_redis_do(&cluster->node[at], "CLUSTER ADDSLOTSRANGE %u %u", first, last))
            return false;
    }
    return true;
}

/* The replica lets go of its past before its master dies, or it would be elected; it takes the slots once it knows
 * the others, or it would tell clients of a Cluster of its own. */
bool stack_cluster_replace(struct stack_cluster *cluster, size_t master)
{
    const size_t heir = stack_cluster_replica(cluster, master);
    struct view view;
    if (heir == STACK_CLUSTER_NOBODY || !look(cluster, master, &view))
        return false;
    bool good = stack_redis_do(&cluster->node[heir], "CLUSTER RESET HARD");
    stack_redis_kill(&cluster->node[master]);
    good = good && stack_cluster_forget(cluster, master) && stack_cluster_forget(cluster, heir) &&
           join_anew(cluster, heir) && add_slots(cluster, heir, view.slots) &&
           stack_cluster_wait_ok(cluster, SETTLE_LIMIT_MS);
    free(view.line);
    return good;
}

/* What it knew would bring it back as the owner of its slots, at an epoch that wins; data it once got as a replica,
 * as the owner of the slots of these keys. */
static void erase_past(const struct stack_redis *node)
{
    static const char *const names[] = {"nodes.conf", "dump.rdb"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[PROC_PATH_BYTES + 16];
        snprintf(path, sizeof path, "%s/%s", node->folder, names[i]);
        unlink(path);
    }
}

/* Of two masters with the same epoch, which is 0 for who is new, one takes a higher one than all; it shall not be the
 * one that has the slots. */
bool stack_cluster_rejoin(struct stack_cluster *cluster, size_t at)
{
    erase_past(&cluster->node[at]);
    return stack_redis_restart(&cluster->node[at]) &&
           stack_redis_do(&cluster->node[at], "CLUSTER SET-CONFIG-EPOCH %d",
                          STACK_CLUSTER_NODES_MAX + (int)at + 1) &&
           join_anew(cluster, at);
}

bool stack_cluster_return(struct stack_cluster *cluster, size_t at)
{
    size_t master = 0;
    if (!stack_redis_runs(&cluster->node[at]) && !stack_cluster_rejoin(cluster, at))
        return false;
    while (master < cluster->count && (master == at || !is_master(cluster, master) ||
                                       stack_cluster_replica(cluster, master) != STACK_CLUSTER_NOBODY))
        master++;
    return master < cluster->count &&
           stack_redis_do(&cluster->node[at], "CLUSTER REPLICATE %s", cluster->id[master]) &&
           stack_cluster_wait_ok(cluster, SETTLE_LIMIT_MS);
}
