/* SPDX-License-Identifier: MIT */
/* loop.c - see loop.h. */
#include "loop.h"
#include "../base/check.h"
#include "../base/clock.h"
#include "../base/process.h"
#include "../wire/envelope.h"
#include "../wire/protocol.h"
#include "callback.h"
#include "defer.h"
#include "kind.h"
#include "lookup.h"
#include "mailbox.h"
#include "numbers.h"
#include "tag_memory.h"
#include <stdlib.h>
#include <utlist.h>

enum {
    /* What any process may have filled, and what Redis and a script say around it. */
    REPLY_MOST_BYTES = CHECK_VALUE_MAX_BYTES + ENVELOPE_BESIDE_BODY_MAX + 4096,
    PENDING_BYTES = 64 << 20,
    BACKOFF_MS = 50,
    MAX_BACKOFF_MS = 1000,
    SPREAD_MS = 500, /* of reconnecting, after a change of masters */
};

/* ---- gets ---- */

void loop_accept(struct loop *loop, struct get *get)
{
    loop->count++;
    if (!lookup_begin(loop, get))
        mailbox_post_get(loop->guard, get);
}

/* Before the core knows of it. */
static void cancel_here(struct loop *loop, struct get *get)
{
    lookup_leave(get);
    if (get->many != NULL)
        many_cancelled_here(get);
    get->stage = GET_LOOKUP; /* over: it is not cancelled twice */
    get->waiter.result.status = loop->detaching ? GUARD_CLOSING : GUARD_CANCELLED;
    callback_count(loop, get);
    DL_APPEND(loop->ready, get);
    host_wake_send(&loop->mail);
}

void loop_cancel(struct loop *loop, struct get *get)
{
    if (get->lookup != NULL || get->stage == GET_HELD) {
        cancel_here(loop, get);
    } else if (get->stage == GET_CORE) {
        get->cancel_posted = true;
        mailbox_post_cancel(loop->guard, get);
    }
}

/* What tickets name: one of these, or NULL and nothing is. `cancel` has the guard's mutex. */
static void cancel_named(struct get *get, const struct many *many,
                         void (*cancel)(struct loop *, struct get *))
{
    if (get != NULL)
        cancel(get->loop, get);
    for (size_t i = 0; many != NULL && i < many->asked; i++)
        if (many->parts[i].get != NULL)
            cancel(many->loop, many->parts[i].get);
}

static void post_cancel(struct loop *loop, struct get *get)
{
    mailbox_post_cancel(loop->guard, get);
}

void loop_cancel_ticket(struct loop *loop, guard_ticket ticket)
{
    cancel_named(tickets_find(&loop->tickets, ticket), tickets_find(&loop->many_tickets, ticket),
                 is_own_loop(loop) ? post_cancel : loop_cancel);
}

void loop_return(struct loop *loop, struct get *list)
{
    pthread_mutex_lock(&loop->mutex);
    DL_CONCAT(loop->returned, list);
    host_wake_send(&loop->mail); /* under the mutex: once it is released, the loop may be gone */
    pthread_mutex_unlock(&loop->mutex);
}

void loop_return_change(struct change *change)
{
    struct loop *loop = change->loop;
    pthread_mutex_lock(&loop->mutex);
    LL_APPEND(loop->changed, change);
    host_wake_send(&loop->mail); /* under the mutex, as above */
    pthread_mutex_unlock(&loop->mutex);
}

void loop_tell_change(struct change *change)
{
    if (change->done != NULL) {
        blocking_callback_begins();
        change->done(change->context, &change->result);
        blocking_callback_ends();
    }
    free(change->first);
}

/* ---- the end ---- */

/* A host's loop leaves the guard's list; what it has counted stays. */
static void leave_guard(struct loop *loop)
{
    struct guard *guard = loop->guard;
    if (loop->name == NULL)
        return;
    pthread_mutex_lock(&guard->mutex);
    DL_DELETE(guard->loops, loop);
    for (unsigned kind = 0; kind < guard->kind_count; kind++)
        numbers_add_loop(&guard->kinds[kind]->past, &loop->counters[kind]);
    pthread_mutex_unlock(&guard->mutex);
}

static void on_closed(void *context)
{
    struct loop *loop = context;
    if (loop->name != NULL)
        defer_forget_loop(loop);
    pthread_mutex_destroy(&loop->mutex);
    leave_guard(loop);
    tickets_clear(&loop->tickets);
    tickets_clear(&loop->many_tickets);
    tag_memory_free(&loop->tag_memory);
    free(loop->spare_batch);
    blocking_callback_begins();
    if (loop->detached != NULL)
        loop->detached(loop->detached_context);
    blocking_callback_ends();
    free(loop);
}

static void redis_closed(void *context)
{
    struct loop *loop = context;
    if (loop->name != NULL)
        host_close(loop->host, on_closed, loop);
    else
        on_closed(loop);
}

static void close_parts(struct loop *loop)
{
    if (loop->parts_closed)
        return;
    loop->parts_closed = true;
    pthread_mutex_lock(&loop->mutex); /* waits for a loop_return() that is still leaving */
    pthread_mutex_unlock(&loop->mutex);
    host_wake_clear(&loop->mail);
    host_soon_stop(&loop->sender);
    host_timer_stop(loop->host, &loop->late);
    lookup_send(loop); /* nobody waits for them any more */
    redis_close(loop->redis, redis_closed, loop);
}

/* Those still looking up or in the core come back as cancelled. */
static void cancel_all(struct loop *loop)
{
    pthread_mutex_lock(&loop->guard->mutex);
    for (uint32_t i = 0; i < loop->tickets.count; i++)
        cancel_named(loop->tickets.slots[i].what, NULL, loop_cancel);
    for (uint32_t i = 0; i < loop->many_tickets.count; i++)
        cancel_named(NULL, loop->many_tickets.slots[i].what, loop_cancel);
    pthread_mutex_unlock(&loop->guard->mutex);
}

void loop_close(struct loop *loop, void (*detached)(void *context), void *context)
{
    loop->detaching = true;
    loop->detached = detached;
    loop->detached_context = context;
    cancel_all(loop); /* first: whoever is to load again is not asked for by one of these */
    if (defer_leave_loop(loop))
        host_wake_send(&loop->mail);
    else if (loop->count == 0)
        close_parts(loop);
}

/* ---- the start ---- */

static void on_mail(void *context)
{
    struct loop *loop = context;
    struct change *change = NULL, *next = NULL;
    pthread_mutex_lock(&loop->mutex);
    DL_CONCAT(loop->ready, loop->returned);
    loop->returned = NULL;
    struct change *changed = loop->changed;
    loop->changed = NULL;
    pthread_mutex_unlock(&loop->mutex);
    defer_on_mail(loop);
    LL_FOREACH_SAFE (changed, change, next) {
        loop_tell_change(change);
        loop->count--;
    }
    callback_ready(loop);
    /* Else more mail is on its way: loads are to be called back. */
    if (loop->detaching && loop->count == 0 && !atomic_load(&loop->any_loads))
        close_parts(loop);
}

static void redis_state(void *context, enum guard_redis_state state, const char *text)
{
    struct loop *loop = context;
    bool good = state == GUARD_REDIS_UP && redis_is_whole(loop->redis);
    loop->redis_state = state;
    if (state == GUARD_REDIS_FENCED || state == GUARD_REDIS_REPLICA)
        lookup_hears_no_master(loop->guard);
    else if (state == GUARD_REDIS_UP)
        lookup_hears_master(loop->guard);
    loop->away = redis_is_away(loop->redis);
    if (is_own_loop(loop))
        atomic_store(&loop->guard->away, loop->away);
    say(&loop->guard->say, SAY_REDIS, good ? SAY_GOOD : SAY_BAD, "redis %s", text);
    if (loop->stated != NULL)
        loop->stated(loop->guard);
}

void loop_redis_config(struct guard *guard, struct redis_config *config)
{
    *config = (struct redis_config){
        .topology = guard->topology,
        .limit_ms = guard->config.redis_limit_ms,
        .connect_limit_ms = guard->config.connect_limit_ms,
        .backoff_ms = BACKOFF_MS,
        .max_backoff_ms = MAX_BACKOFF_MS,
        .spread_ms = SPREAD_MS,
        .max_reply_bytes = REPLY_MOST_BYTES,
        .max_pending_bytes = PENDING_BYTES + (size_t)guard->config.max_value_bytes,
        .client_name = "stampede-guard",
        .scripts = protocol_scripts,
        .script_count = SCRIPT_COUNT,
        .counters = &guard->redis_counters,
    };
}

static struct redis *connect_redis(struct guard *guard, struct loop *loop, const struct redis_hooks *hooks)
{
    uint64_t seed = 0;
    struct redis_config config;
    if (!clock_random(&seed, sizeof seed))
        return NULL;
    loop_redis_config(guard, &config);
    config.jitter_seed = seed;
    loop->chance.state = seed;
    if (hooks != NULL) {
        config.spread_ms = 0; /* the guard's own goes first */
        config.hooks = *hooks;
    }
    config.hooks.context = loop;
    config.hooks.state = redis_state;
    return redis_open(loop->host, &config);
}

enum guard_status loop_open(struct guard *guard, struct guard_host *host, const struct redis_hooks *hooks,
                            struct loop **out)
{
    struct loop *loop = calloc(1, sizeof *loop);
    if (loop == NULL)
        return GUARD_NO_MEMORY;
    loop->guard = guard;
    loop->host = host;
    loop->tickets.table = (uint8_t)atomic_fetch_add(&guard->ticket_tables, 2);
    loop->many_tickets.table = (uint8_t)(loop->tickets.table + 1);
    bool foreign = host->state == NULL;
    if (foreign && !host_init(host, &loop->host_state))
        goto failed;
    loop->redis = connect_redis(guard, loop, hooks);
    if (loop->redis == NULL)
        goto failed;
    host_wake_init(host, &loop->mail, on_mail, loop);
    loop->sender = (struct host_soon){.run = lookup_send, .context = loop};
    loop->late = (struct host_timer){.run = lookup_late, .context = loop};
    pthread_mutex_init(&loop->mutex, NULL);
    *out = loop;
    return GUARD_OK;
failed:
    if (foreign && host->state != NULL)
        host_clear(host);
    free(loop);
    return GUARD_NO_MEMORY;
}
