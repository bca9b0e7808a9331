/* SPDX-License-Identifier: MIT */
/*
 * lock_redlock.c - locks over several independent masters (Redis, Distributed Locks with Redis): MUTEX only, for
 * there is no queue. Every action goes to all of them at once; what their answers come to is lock_quorum.h's. See
 * provider.h.
 *
 * A master that has just started does not vote before it has been up for max_lease_ms, for it may have forgotten for
 * whom it has voted. One that cannot be reached is not asked for a grant; renewals and what is given back wait for it
 * within limit_ms. Two that are one server, by the run_id that INFO tells, grant nothing at all.
 *
 * A refused token asks again after 50 ms, later 500, +-50 %, so that those that split the votes do not meet again;
 * sooner if a lease ends before that, or if a master says so: a queue place gives no right to the lock; its first
 * waiter is only told of a release.
 */
#include "../../base/chance.h"
#include "../../base/check.h"
#include "../../base/clock.h"
#include "../lock_node.h"
#include "lock_quorum.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum { REDLOCK_FIRST_MS = 50, REDLOCK_MOST_MS = 500, REDLOCK_ATTEMPTS = 256, REDLOCK_WHY_SIZE = 200 };

struct redlock_node {
    struct redlock *self;
    struct lock_node *node; /* owned */
    bool is_up;
};

struct redlock {
    struct lock_provider provider; /* first */
    struct lock_provider_config config;
    struct redlock_node nodes[LOCK_NODES_MAX];
    size_t node_count; /* opened */
    struct chance chance;
    uint8_t attempts
        [REDLOCK_ATTEMPTS]; /* refused in a row, by a hash of the token: that two share one does no harm */
    bool was_up;
    char why[REDLOCK_WHY_SIZE]; /* of the link */
    char twins[REDLOCK_WHY_SIZE +
               2 * REDIS_LABEL_SIZE]; /* two of them are one server: why nothing is granted; "": none are */
    struct redlock_call *decided;     /* while they were sent, to be told */
    struct host_soon tell;
    bool closing;
    size_t parts_open;
    struct host_told told;
};

/* What one node is asked, on behalf of a call. */
struct redlock_part {
    struct redlock_call *call;
    size_t node;
};

/* One action. It lives until the last node has answered. */
struct redlock_call {
    struct redlock_call *next; /* in `decided` */
    struct redlock *self;
    uint64_t op;
    struct lock_asked asked;
    struct lock_round round;
    struct lock_action action; /* for what follows; its texts are below */
    struct lock_reply reply;   /* decided */
    unsigned under_way;        /* answers that are still to come, and 1 while it is begun */
    bool begun;
    struct redlock_part takes[LOCK_NODES_MAX], raises[LOCK_NODES_MAX];
    struct lock_name names[GUARD_LOCK_NAMES_MAX];
    char token[LOCK_TOKEN_SIZE];
    char text[];
};

/* ---- what a round wants ---- */

static uint8_t *attempts_of(struct redlock_call *call)
{
    unsigned hash = 0;
    for (size_t i = 0; i < LOCK_UUID_BYTES; i++)
        hash = hash * 31 + (unsigned char)call->token[i];
    return &call->self->attempts[hash % REDLOCK_ATTEMPTS];
}

/* A refused one asks again when a lease ends, and at the latest after a pause; nobody is known to stand before it but
 * the holder. */
static void spread_redlock(struct redlock_call *call, struct lock_reply *reply)
{
    uint8_t *attempts = attempts_of(call);
    if (reply->kind != LOCK_REFUSED) {
        *attempts = 0;
        return;
    }
    uint32_t pause_ms = chance_backoff(&call->self->chance, REDLOCK_FIRST_MS, REDLOCK_MOST_MS, *attempts);
    if (*attempts < UINT8_MAX)
        ++*attempts;
    reply->before = 1;
    if (reply->hint_ms == 0 || reply->hint_ms > pause_ms)
        reply->hint_ms = pause_ms;
}

/* Nobody waits for the answer: what is not given back ends with its lease. */
static void give_back_on(struct redlock_call *call, size_t node, bool in_doubt)
{
    struct lock_action give = call->action;
    struct lock_node *to = call->self->nodes[node].node;
    give.kind = LOCK_GIVE;
    give.doubt = in_doubt;
    lock_wire_send(&to->wire, to->redis, &give, NULL, NULL);
}

static void on_redlock_raised(void *context, enum redis_outcome outcome, const struct redisReply *reply);

static void raise_on(struct redlock_call *call, size_t node)
{
    struct redlock_part *part = &call->raises[node];
    struct lock_node *to = call->self->nodes[node].node;
    *part = (struct redlock_part){call, node};
    if (lock_wire_send_raise(&to->wire, to->redis, &call->action, call->round.fence, on_redlock_raised, part))
        call->under_way++;
    else
        lock_round_raised(&call->round, node, &(struct lock_reply){.kind = LOCK_UNSENT});
}

/* Not from inside perform(). */
static void tell_redlock(struct redlock_call *call)
{
    struct redlock *self = call->self;
    lock_round_reply(&call->round, &call->reply);
    if (call->action.kind == LOCK_TAKE)
        spread_redlock(call, &call->reply);
    if (call->begun) {
        self->config.hooks.replied(self->config.hooks.context, call->op, &call->reply);
        return;
    }
    call->under_way++;
    LL_APPEND(self->decided, call);
    host_soon(self->config.host, &self->tell);
}

static void one_redlock_answer_less(struct redlock_call *call)
{
    if (--call->under_way == 0)
        free(call);
}

static void go_on_with_redlock(struct redlock_call *call)
{
    size_t node = 0;
    enum lock_round_step step = LOCK_ROUND_WAIT;
    while ((step = lock_round_next(&call->round, &node)) != LOCK_ROUND_WAIT) {
        if (step == LOCK_ROUND_RAISE)
            raise_on(call, node);
        else if (step == LOCK_ROUND_TELL)
            tell_redlock(call);
        else
            give_back_on(call, node, step == LOCK_ROUND_BURY);
    }
}

static void tell_decided_redlocks(void *context)
{
    struct redlock *self = context;
    struct redlock_call *list = self->decided;
    self->decided = NULL;
    while (list != NULL) {
        struct redlock_call *call = list;
        LL_DELETE(list, call);
        self->config.hooks.replied(self->config.hooks.context, call->op, &call->reply);
        one_redlock_answer_less(call);
    }
}

/* ---- answers ---- */

static void read_redlock_answer(const struct redlock_part *part, const struct lock_asked *asked,
                                enum redis_outcome outcome, const struct redisReply *reply,
                                struct lock_reply *out)
{
    struct redlock *self = part->call->self;
    lock_wire_read(asked, outcome, reply, out, NULL);
    if (outcome == REDIS_REPLIED && reply->type == REDIS_REPLY_ERROR)
        say(self->config.say, SAY_REDIS, SAY_BAD, "locks: redis %s refused a script: %.200s",
            self->nodes[part->node].node->label, reply->str);
    if (outcome != REDIS_REPLIED && out->why == NULL)
        out->why = self->nodes[part->node].node->why;
}

static void on_redlock_replied(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    struct redlock_part *part = context;
    struct redlock_call *call = part->call;
    struct lock_reply out;
    if (!call->self->closing) {
        read_redlock_answer(part, &call->asked, outcome, reply, &out);
        lock_round_replied(&call->round, part->node, &out);
        go_on_with_redlock(call);
    }
    one_redlock_answer_less(call);
}

static void on_redlock_raised(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    struct redlock_part *part = context;
    struct redlock_call *call = part->call;
    const struct lock_asked asked = {.kind = LOCK_RENEW, .count = call->action.count};
    struct lock_reply out;
    if (!call->self->closing) {
        read_redlock_answer(part, &asked, outcome, reply, &out);
        lock_round_raised(&call->round, part->node, &out);
        go_on_with_redlock(call);
    }
    one_redlock_answer_less(call);
}

/* ---- actions ---- */

/* False: it may not vote, or need not be asked; *out says so. */
static bool may_vote(const struct redlock_call *call, size_t at, struct lock_reply *out)
{
    const struct redlock_node *node = &call->self->nodes[at];
    uint32_t young_ms = lock_node_young_ms(node->node, clock_now_us());
    *out = (struct lock_reply){.kind = LOCK_UNSENT, .why = node->node->why};
    if (call->action.kind != LOCK_TAKE)
        return true;
    if (call->self->twins[0] != '\0' || lock_node_denied(node->node) != NULL)
        *out = (struct lock_reply){.kind = LOCK_IMPOSSIBLE,
                                   .why = call->self->twins[0] != '\0' ? call->self->twins : out->why};
    if (!node->is_up || out->kind == LOCK_IMPOSSIBLE)
        return false;
    if (lock_node_ageless(node->node) != NULL)
        *out = (struct lock_reply){.kind = LOCK_IMPOSSIBLE, .why = lock_node_ageless(node->node)};
    else if (young_ms > 0)
        *out = (struct lock_reply){.kind = LOCK_REFUSED, .hint_ms = young_ms};
    return young_ms == 0;
}

static void ask_redlock_node(struct redlock_call *call, size_t at)
{
    struct redlock_part *part = &call->takes[at];
    struct lock_node *node = call->self->nodes[at].node;
    struct lock_reply unasked;
    *part = (struct redlock_part){call, at};
    if (may_vote(call, at, &unasked) &&
        lock_wire_send(&node->wire, node->redis, &call->action, on_redlock_replied, part))
        call->under_way++;
    else
        lock_round_replied(&call->round, at, &unasked);
}

static void copy_redlock_action(struct redlock_call *call, const struct lock_action *action)
{
    char *text = call->text;
    call->action = *action;
    for (size_t i = 0; i < action->count; i++) {
        memcpy(text, action->names[i].encoded, action->names[i].bytes);
        call->names[i] = (struct lock_name){text, action->names[i].bytes};
        text += action->names[i].bytes + 1;
    }
    snprintf(call->token, sizeof call->token, "%s", action->token);
    call->action.names = call->names;
    call->action.token = call->token;
    call->action.doubt = true; /* some master may not have answered */
}

static bool redlock_perform(struct lock_provider *provider, const struct lock_action *action)
{
    struct redlock *self = (struct redlock *)provider;
    size_t bytes = 0;
    for (size_t i = 0; i < action->count; i++)
        bytes += action->names[i].bytes + 1;
    struct redlock_call *call = calloc(1, sizeof *call + bytes);
    if (call == NULL)
        return false;
    call->self = self;
    call->op = action->op;
    call->asked = lock_asked_of(action);
    call->under_way = 1;
    copy_redlock_action(call, action);
    lock_round_begin(&call->round, action->kind, self->node_count, action->count);
    for (size_t i = 0; i < self->node_count; i++)
        ask_redlock_node(call, i);
    go_on_with_redlock(call);
    call->begun = true;
    one_redlock_answer_less(call);
    return true;
}

/* ---- the nodes ---- */

static void on_redlock_told(void *context, const char *uuid, const char *encoded, size_t encoded_bytes)
{
    struct redlock *self = ((struct redlock_node *)context)->self;
    self->config.hooks.told(self->config.hooks.context, uuid, encoded, encoded_bytes);
}

static void on_redlock_resync(void *context)
{
    struct redlock *self = ((struct redlock_node *)context)->self;
    self->config.hooks.resync(self->config.hooks.context);
}

/* Whoever is one server under two names would vote twice. */
static void find_redlock_twins(struct redlock *self)
{
    const char *run_ids[LOCK_NODES_MAX];
    size_t one = 0, other = 0;
    for (size_t i = 0; i < self->node_count; i++)
        run_ids[i] = self->nodes[i].node->run_id;
    self->twins[0] = '\0';
    if (lock_round_has_twins(run_ids, self->node_count, &one, &other))
        snprintf(self->twins, sizeof self->twins,
                 "redis %s and %s are one server (run_id %.8s...); each of the masters votes once, so name "
                 "another",
                 self->nodes[one].node->label, self->nodes[other].node->label, run_ids[one]);
}

/* Up: a quorum is. */
static void on_redlock_link(void *context, bool up, const char *why)
{
    struct redlock_node *node = context;
    struct redlock *self = node->self;
    node->is_up = up;
    find_redlock_twins(self);
    size_t reached = 0;
    for (size_t i = 0; i < self->node_count; i++)
        reached += self->nodes[i].is_up;
    bool is_up = reached > self->node_count / 2;
    snprintf(self->why, sizeof self->why, "%zu of %zu masters are reached; %s", reached, self->node_count,
             why);
    if (is_up != self->was_up || !is_up)
        self->config.hooks.link(self->config.hooks.context, is_up, self->why);
    self->was_up = is_up;
}

/* ---- looking ---- */

struct redlock_look {
    struct redlock *self;
    lock_looked *looked;
    void *context;
    unsigned under_way;
    size_t seen; /* views */
    struct guard_lock_view views[];
};

static bool same_holder(const struct guard_lock_view *a, const struct guard_lock_view *b)
{
    if (a->holder_count == 0 || b->holder_count == 0)
        return a->holder_count == b->holder_count;
    return a->seen[0].since_s == b->seen[0].since_s && strcmp(a->seen[0].who, b->seen[0].who) == 0;
}

/* Until so many have grown up that a quorum may vote. */
static uint32_t quorum_young_ms(const struct redlock *self)
{
    const uint64_t now_us = clock_now_us();
    uint32_t least_ms = UINT32_MAX;
    for (size_t i = 0; i < self->node_count; i++) {
        const uint32_t young_ms = lock_node_young_ms(self->nodes[i].node, now_us);
        size_t grown = 0;
        for (size_t other = 0; other < self->node_count; other++)
            grown += lock_node_young_ms(self->nodes[other].node, now_us) <= young_ms;
        if (grown > self->node_count / 2 && young_ms < least_ms)
            least_ms = young_ms;
    }
    return least_ms;
}

/* What most masters say; a minority may have granted it to another, that has to give it back. NULL: none has
 * answered. */
static const struct guard_lock_view *common_view(struct redlock_look *look)
{
    struct guard_lock_view *best = NULL;
    size_t most = 0;
    for (size_t i = 0; i < look->seen; i++) {
        size_t agree = 0;
        for (size_t other = 0; other < look->seen; other++)
            agree += same_holder(&look->views[i], &look->views[other]);
        if (agree > most)
            best = &look->views[i];
        most = agree > most ? agree : most;
    }
    if (best != NULL)
        best->young_ms = quorum_young_ms(look->self);
    return best;
}

static void on_redlock_look(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    struct redlock_look *look = context;
    struct redlock *self = look->self;
    const char *why = NULL;
    if (!self->closing && lock_wire_read_look(outcome, reply, &look->views[look->seen], &why))
        look->seen++;
    if (--look->under_way > 0)
        return;
    if (!self->closing)
        look->looked(look->context, common_view(look), why != NULL ? why : self->why);
    free(look);
}

static bool redlock_look(struct lock_provider *provider, const struct lock_name *name, lock_looked *looked,
                         void *context)
{
    struct redlock *self = (struct redlock *)provider;
    struct redlock_look *look = calloc(1, sizeof *look + self->node_count * sizeof *look->views);
    if (look == NULL)
        return false;
    look->self = self;
    look->looked = looked;
    look->context = context;
    for (size_t i = 0; i < self->node_count; i++) {
        struct lock_node *node = self->nodes[i].node;
        look->under_way += lock_wire_send_look(&node->wire, node->redis, name, on_redlock_look, look);
    }
    bool sent = look->under_way > 0;
    if (!sent)
        free(look);
    return sent;
}

/* ---- from open to close ---- */

static void on_redlock_part_closed(void *context)
{
    struct redlock *self = context;
    if (--self->parts_open > 0)
        return;
    host_free_and_tell(self, self->told);
}

static void redlock_close(struct lock_provider *provider, void (*closed)(void *context), void *context)
{
    struct redlock *self = (struct redlock *)provider;
    struct redlock_call *call, *next;
    self->closing = true;
    self->told = (struct host_told){closed, context};
    host_soon_stop(&self->tell);
    LL_FOREACH_SAFE (self->decided, call, next)
        one_redlock_answer_less(call);
    self->parts_open = 1 + self->node_count;
    for (size_t i = 0; i < self->node_count; i++)
        lock_node_close(self->nodes[i].node, on_redlock_part_closed, self);
    on_redlock_part_closed(self); /* of this call */
}

/* False: the last one is missing, or good for nothing. */
static bool open_redlock_nodes(struct redlock *self, struct guard_error *error)
{
    struct lock_provider_config config = self->config;
    bool whole = true;
    for (size_t i = 0; i < config.locks->url_count && whole; i++) {
        struct redlock_node *node = &self->nodes[i];
        config.hooks = (struct lock_provider_hooks){
            .context = node, .told = on_redlock_told, .resync = on_redlock_resync, .link = on_redlock_link};
        node->self = self;
        node->node = lock_node_open(&config, config.locks->urls[i], true, error);
        self->node_count += node->node != NULL;
        whole = node->node != NULL && node->node->subscription != NULL;
    }
    return whole;
}

struct lock_provider *lock_redlock_open(const struct lock_provider_config *config, struct guard_error *error)
{
    struct redlock *self = calloc(1, sizeof *self);
    if (self == NULL || !clock_random(&self->chance.state, sizeof self->chance.state)) {
        check_failed(error, GUARD_NO_MEMORY, "guard_locks_open: no memory or randomness to be had");
        free(self);
        return NULL;
    }
    self->config = *config;
    self->tell = (struct host_soon){.run = tell_decided_redlocks, .context = self};
    self->provider = (struct lock_provider){
        .kinds = 1u << GUARD_LOCK_MUTEX, .all_at_once = true, .look = redlock_look, .close = redlock_close};
    if (open_redlock_nodes(self, error))
        self->provider.perform = redlock_perform;
    return &self->provider;
}
