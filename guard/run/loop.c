/* SPDX-License-Identifier: MIT */
/* loop.c - gets on their way to a loop and back, and the life of the loop. See loop.h. */
#include "../base/clock.h"
#include "loop_parts.h"
#include "many.h"
#include "shell.h"
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum { CALLBACKS_PER_TURN = 128 }; /* of each kind, so that the loop's other work is not held up */

/* ---- counters ---- */

/* NULL: it is counted already. */
static _Atomic uint64_t *counter_of(struct loop_counters *counters, const struct guard_result *result)
{
    switch (result->status) {
    case GUARD_OK:
        return result->source == GUARD_FROM_STALE ? &counters->stale : &counters->hit;
    case GUARD_ABSENT:
        return &counters->absent_hit;
    case GUARD_CANCELLED:
        return &counters->cancelled;
    case GUARD_CLOSING:
        return &counters->closed;
    case GUARD_SHED: /* by the core, which had no room for it */
        return NULL;
    case GUARD_FAILED:
    case GUARD_TIMEOUT:
    case GUARD_UNKNOWN:
    case GUARD_INVALID:
    case GUARD_NO_MEMORY:
        break;
    }
    return &counters->failed;
}

void loop_count(struct guard_loop *loop, const struct get *get)
{
    struct loop_counters *counters = &loop->counters;
    uint64_t span_us = clock_now_us() - get->waiter.start_us;
    size_t bucket = core_histogram_bucket(span_us);
    _Atomic uint64_t *outcome = counter_of(counters, &get->waiter.result);
    if (outcome != NULL)
        bump(outcome, 1);
    bump(&counters->duration_count[bucket], 1);
    bump(&counters->duration_sum_us, span_us);
}

/* ---- gets ---- */

static uint32_t deadline_of(const struct guard_request *request)
{
    return request->deadline_ms != 0 ? request->deadline_ms : request->kind->policy.deadline_ms;
}

enum guard_status loop_new_get(struct guard_loop *loop, const struct guard_request *request, struct get **out)
{
    char encoded[KEY_ENCODED_MAX + 1];
    size_t plain_bytes = strlen(request->key);
    size_t encoded_bytes = key_encode(request->key, plain_bytes, encoded);
    struct get *get = malloc(sizeof *get + plain_bytes + encoded_bytes + 2);
    if (get == NULL)
        return GUARD_NO_MEMORY;
    memset(get, 0, sizeof *get);
    memcpy(get->text, request->key, plain_bytes + 1);
    memcpy(get->text + plain_bytes + 1, encoded, encoded_bytes + 1);
    get->plain_bytes = (uint16_t)plain_bytes;
    get->encoded_bytes = (uint16_t)encoded_bytes;
    get->kind = request->kind;
    get->loop = loop;
    get->answered = request->answered;
    get->context = request->context;
    get->waiter.start_us = clock_now_us();
    get->deadline_us = get->waiter.start_us + (uint64_t)deadline_of(request) * 1000;
    *out = get;
    return GUARD_OK;
}

/* ---- calling back ---- */

static void forget_ticket(struct guard_loop *loop, struct get *get)
{
    bool shared = loop == loop->guard->own;
    bool lock = shared || get->cancel_posted;
    if (lock)
        pthread_mutex_lock(&loop->guard->mutex);
    shell_forget_cancel(loop->guard, get);
    tickets_remove(&loop->tickets, get->ticket);
    if (get->many != NULL) {
        loop->gets_of_many--;
        many_forget(get);
    }
    if (lock)
        pthread_mutex_unlock(&loop->guard->mutex);
}

static void call_back(struct guard_loop *loop, struct get *get)
{
    struct guard_result result = get->waiter.result;
    const struct guard_value *value = result.value;
    if (loop->detaching && result.status == GUARD_CANCELLED)
        result.status = GUARD_CLOSING;
    forget_ticket(loop, get);
    loop_remember_loaded(loop, get);
    get->answered(get->context, &result);
    guard_value_unref(&value);
    free(get);
    loop->count--;
}

static void close_handles(struct guard_loop *loop);

/* Nobody waits here. */
static void rest(struct guard_loop *loop)
{
    if (loop->detaching)
        close_handles(loop);
    else if (loop == loop->guard->own)
        shell_rested(loop->guard);
}

static void call_back_some(struct guard_loop *loop, struct get **list)
{
    for (int i = 0; i < CALLBACKS_PER_TURN && *list != NULL; i++) {
        struct get *get = *list;
        DL_DELETE(*list, get);
        call_back(loop, get);
    }
}

static void go_on(struct guard_loop *loop)
{
    if (loop->hits != NULL || loop->ready != NULL)
        uv_async_send(&loop->async);
    else if (loop->count == 0)
        rest(loop);
}

void loop_call_back_hits(struct guard_loop *loop)
{
    call_back_some(loop, &loop->hits);
    go_on(loop);
}

static void call_back_ready(struct guard_loop *loop)
{
    call_back_some(loop, &loop->hits);
    call_back_some(loop, &loop->ready);
    go_on(loop);
}

static void on_loop_async(uv_async_t *async)
{
    struct guard_loop *loop = async->data;
    pthread_mutex_lock(&loop->mutex);
    DL_CONCAT(loop->ready, loop->returned);
    loop->returned = NULL;
    pthread_mutex_unlock(&loop->mutex);
    call_back_ready(loop);
}

void loop_return(struct guard_loop *loop, struct get *list)
{
    pthread_mutex_lock(&loop->mutex);
    DL_CONCAT(loop->returned, list);
    uv_async_send(&loop->async); /* under the mutex: once it is released, the loop may be gone */
    pthread_mutex_unlock(&loop->mutex);
}

void loop_accept(struct guard_loop *loop, struct get *get)
{
    loop->count++;
    if (!loop_look_up(loop, get))
        shell_post_get(loop->guard, get);
}

/* Before the core knows of it. */
static void cancel_here(struct guard_loop *loop, struct get *get)
{
    loop_leave_lookup(get);
    if (get->many != NULL)
        many_cancelled_here(get);
    get->stage = GET_LOOKUP; /* over: it is not cancelled twice */
    get->waiter.result.status = loop->detaching ? GUARD_CLOSING : GUARD_CANCELLED;
    loop_count(loop, get);
    DL_APPEND(loop->ready, get);
    uv_async_send(&loop->async);
}

void loop_cancel(struct guard_loop *loop, struct get *get)
{
    if (get->lookup != NULL || get->stage == GET_HELD) {
        cancel_here(loop, get);
    } else if (get->stage == GET_CORE) {
        get->cancel_posted = true;
        shell_post_cancel(loop->guard, get);
    }
}

/* ---- life ---- */

static void redis_state(void *context, enum guard_redis_state state, const char *text)
{
    struct guard_loop *loop = context;
    bool good = state == GUARD_REDIS_UP && redis_is_whole(loop->redis);
    loop->redis_state = state;
    say(&loop->guard->say, SAY_REDIS, good ? SAY_GOOD : SAY_BAD, "redis %s", text);
    if (loop == loop->guard->own)
        shell_link(loop->guard, redis_is_up(loop->redis));
}

static struct redis *connect_redis(struct guard *guard, struct guard_loop *loop)
{
    uint64_t seed = 0;
    struct redis_config config;
    if (!clock_random(&seed, sizeof seed))
        return NULL;
    shell_redis_config(guard, &config);
    config.jitter_seed = seed;
    loop->chance.state = seed;
    config.hooks = (struct redis_hooks){.context = loop, .state = redis_state};
    return redis_open(loop->loop, &config);
}

enum guard_status loop_open(struct guard *guard, uv_loop_t *uv, struct guard_loop **out)
{
    struct guard_loop *loop = calloc(1, sizeof *loop);
    if (loop == NULL)
        return GUARD_NO_MEMORY;
    loop->guard = guard;
    loop->loop = uv;
    loop->tickets.mark = (uint8_t)atomic_fetch_add(&guard->loop_count, 1);
    if (uv_async_init(uv, &loop->async, on_loop_async) != 0) {
        free(loop);
        return GUARD_NO_MEMORY;
    }
    loop->async.data = loop;
    pthread_mutex_init(&loop->mutex, NULL);
    loop->redis = connect_redis(guard, loop);
    if (loop->redis == NULL) { /* the async handle must be closed by the loop: let it free the rest */
        loop_close(loop, NULL, NULL);
        return GUARD_NO_MEMORY;
    }
    *out = loop;
    return GUARD_OK;
}

static void add_counters(struct loop_counters *sum, const struct loop_counters *counters)
{
    bump(&sum->hit, atomic_load(&counters->hit));
    bump(&sum->stale, atomic_load(&counters->stale));
    bump(&sum->absent_hit, atomic_load(&counters->absent_hit));
    bump(&sum->cancelled, atomic_load(&counters->cancelled));
    bump(&sum->closed, atomic_load(&counters->closed));
    bump(&sum->failed, atomic_load(&counters->failed));
    bump(&sum->entry_rejected, atomic_load(&counters->entry_rejected));
    bump(&sum->entry_outdated, atomic_load(&counters->entry_outdated));
    bump(&sum->duration_sum_us, atomic_load(&counters->duration_sum_us));
    for (size_t i = 0; i < GUARD_HISTOGRAM_BUCKETS; i++)
        bump(&sum->duration_count[i], atomic_load(&counters->duration_count[i]));
}

/* A host's loop leaves the guard's list; what it has counted stays. */
static void leave_guard(struct guard_loop *loop)
{
    struct guard *guard = loop->guard;
    if (!loop->attached)
        return;
    pthread_mutex_lock(&guard->mutex);
    DL_DELETE(guard->loops, loop);
    add_counters(&guard->past_loops, &loop->counters);
    pthread_mutex_unlock(&guard->mutex);
}

static void part_closed(struct guard_loop *loop)
{
    if (--loop->closing > 0)
        return;
    pthread_mutex_destroy(&loop->mutex);
    leave_guard(loop);
    tickets_clear(&loop->tickets);
    tag_memory_free(&loop->tag_memory);
    if (loop->detached != NULL)
        loop->detached(loop->detached_context);
    free(loop);
}

static void async_closed(uv_handle_t *handle)
{
    part_closed(handle->data);
}

static void redis_closed(void *context)
{
    part_closed(context);
}

static void close_handles(struct guard_loop *loop)
{
    if (loop->handles_closed)
        return;
    loop->handles_closed = true;
    pthread_mutex_lock(&loop->mutex); /* waits for a loop_return() that is still leaving */
    pthread_mutex_unlock(&loop->mutex);
    loop->closing = 1 + (loop->redis != NULL);
    uv_close((uv_handle_t *)&loop->async, async_closed);
    if (loop->redis != NULL)
        redis_close(loop->redis, redis_closed, loop);
}

/* Those still looking up or in the core come back as cancelled. */
static void cancel_all(struct guard_loop *loop)
{
    pthread_mutex_lock(&loop->guard->mutex);
    for (uint32_t i = 0; i < loop->tickets.count; i++) {
        struct get *get = loop->tickets.slots[i].what;
        if (get != NULL)
            loop_cancel(loop, get);
    }
    pthread_mutex_unlock(&loop->guard->mutex);
}

void loop_close(struct guard_loop *loop, void (*detached)(void *context), void *context)
{
    loop->detaching = true;
    loop->detached = detached;
    loop->detached_context = context;
    if (loop->count == 0)
        close_handles(loop);
    else
        cancel_all(loop);
}
