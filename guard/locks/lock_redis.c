/* SPDX-License-Identifier: MIT */
/*
 * lock_redis.c - locks over one Redis: an action of the core is a call of one script (lock_wire.h), its answer the
 * reply. Redis queues by the token, so nothing is kept here between two actions. See provider.h.
 */
#include "../base/check.h"
#include "../base/clock.h"
#include "lock_node.h"
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

struct lock_redis {
    struct lock_provider provider; /* first */
    struct lock_provider_config config;
    struct lock_node *node;          /* owned */
    struct redis_lock_call *refused; /* without asking Redis, to be told */
    struct host_soon tell;
    bool closing;
    struct host_told told;
};

/* One action on its way. */
struct redis_lock_call {
    struct redis_lock_call *next; /* in `refused` */
    struct lock_redis *self;
    uint64_t op;
    struct lock_asked asked;
    struct lock_reply reply; /* of the refused */
    uint32_t ask_now[];
};

/* ---- actions ---- */

static void on_lock_script(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    struct redis_lock_call *call = context;
    struct lock_redis *self = call->self;
    struct lock_reply out;
    if (!self->closing) {
        lock_wire_read(&call->asked, outcome, reply, &out, call->ask_now);
        if (outcome == REDIS_REPLIED && reply->type == REDIS_REPLY_ERROR)
            say(self->config.say, SAY_REDIS, SAY_BAD, "locks: redis refused a script: %.200s", reply->str);
        if (outcome != REDIS_REPLIED && out.why == NULL)
            out.why = self->node->why;
        self->config.hooks.replied(self->config.hooks.context, call->op, &out);
    }
    free(call);
}

static void tell_redis_refused(void *context)
{
    struct lock_redis *self = context;
    struct redis_lock_call *list = self->refused;
    self->refused = NULL;
    while (list != NULL) {
        struct redis_lock_call *call = list;
        LL_DELETE(list, call);
        self->config.hooks.replied(self->config.hooks.context, call->op, &call->reply);
        free(call);
    }
}

/* By a Redis that lets nobody in, or is too young for it. A latch is no lock: what it has forgotten says so again. */
static bool refuse_unasked(struct lock_redis *self, const struct lock_action *action,
                           struct redis_lock_call *call)
{
    bool is_lock = action->lock != GUARD_LOCK_LATCH;
    uint32_t young_ms = is_lock ? lock_node_young_ms(self->node, clock_now_us()) : 0;
    const char *never = lock_node_denied(self->node);
    if (never == NULL && young_ms > 0)
        never = lock_node_ageless(self->node);
    if (action->kind != LOCK_TAKE || (never == NULL && young_ms == 0))
        return false;
    call->reply = (struct lock_reply){.kind = LOCK_REFUSED, .hint_ms = young_ms};
    if (never != NULL)
        call->reply = (struct lock_reply){.kind = LOCK_IMPOSSIBLE, .why = never};
    LL_APPEND(self->refused, call);
    host_soon(self->config.host, &self->tell);
    return true;
}

static bool redis_lock_perform(struct lock_provider *provider, const struct lock_action *action)
{
    struct lock_redis *self = (struct lock_redis *)provider;
    struct redis_lock_call *call = calloc(1, sizeof *call + action->token_count * sizeof *call->ask_now);
    if (call == NULL)
        return false;
    call->self = self;
    call->op = action->op;
    call->asked = lock_asked_of(action);
    if (refuse_unasked(self, action, call) ||
        lock_wire_send(&self->node->wire, self->node->redis, action, on_lock_script, call))
        return true;
    free(call);
    return false;
}

/* ---- looking ---- */

struct redis_look {
    struct lock_redis *self;
    uint64_t give_up_us;
    lock_looked *looked;
    void *context;
    size_t encoded_bytes;
    char encoded[];
};

static bool send_redis_look(struct redis_look *look);

/* One that was opened just now may not be connected yet. */
static void on_redis_look(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    struct redis_look *look = context;
    struct lock_redis *self = look->self;
    struct guard_lock_view view;
    const char *why = NULL;
    bool again =
        outcome == REDIS_UNSENT && clock_now_us() < look->give_up_us && lock_node_denied(self->node) == NULL;
    if (!self->closing && again && send_redis_look(look))
        return;
    if (!self->closing) {
        bool seen = lock_wire_read_look(outcome, reply, &view, &why);
        if (outcome != REDIS_REPLIED)
            why = self->node->why;
        view.young_ms = lock_node_young_ms(self->node, clock_now_us());
        look->looked(look->context, seen ? &view : NULL, why);
    }
    free(look);
}

static bool send_redis_look(struct redis_look *look)
{
    const struct lock_name name = {look->encoded, look->encoded_bytes};
    struct lock_node *node = look->self->node;
    return lock_wire_send_look(&node->wire, node->redis, &name, on_redis_look, look);
}

static bool redis_lock_look(struct lock_provider *provider, const struct lock_name *name, lock_looked *looked,
                            void *context)
{
    struct lock_redis *self = (struct lock_redis *)provider;
    struct redis_look *look = calloc(1, sizeof *look + name->bytes + 1);
    if (look == NULL)
        return false;
    look->self = self;
    look->give_up_us = clock_now_us() + (uint64_t)self->config.locks->connect_limit_ms * 1000;
    look->looked = looked;
    look->context = context;
    look->encoded_bytes = name->bytes;
    memcpy(look->encoded, name->encoded, name->bytes);
    if (send_redis_look(look))
        return true;
    free(look);
    return false;
}

/* ---- from open to close ---- */

static void on_redis_lock_closed(void *context)
{
    struct lock_redis *self = context;
    host_free_and_tell(self, self->told);
}

static void redis_lock_close(struct lock_provider *provider, void (*closed)(void *context), void *context)
{
    struct lock_redis *self = (struct lock_redis *)provider;
    struct redis_lock_call *call, *next;
    self->closing = true;
    self->told = (struct host_told){closed, context};
    host_soon_stop(&self->tell);
    LL_FOREACH_SAFE (self->refused, call, next)
        free(call);
    lock_node_close(self->node, on_redis_lock_closed, self);
}

struct lock_provider *lock_redis_open(const struct lock_provider_config *config, struct guard_error *error)
{
    struct lock_redis *self = calloc(1, sizeof *self);
    if (self == NULL) {
        check_failed(error, GUARD_NO_MEMORY, "guard_locks_open: no memory");
        return NULL;
    }
    self->config = *config;
    self->tell = (struct host_soon){.run = tell_redis_refused, .context = self};
    self->provider = (struct lock_provider){.kinds = (1u << (GUARD_LOCK_LATCH + 1)) - 1,
                                            .all_at_once = true,
                                            .stays = true,
                                            .look = redis_lock_look,
                                            .close = redis_lock_close};
    self->node = lock_node_open(config, config->locks->urls[0], config->locks->wait_after_restart, error);
    if (self->node == NULL) {
        free(self);
        return NULL;
    }
    self->provider.perform = self->node->subscription != NULL ? redis_lock_perform : NULL;
    return &self->provider;
}
