/* SPDX-License-Identifier: MIT */
/* callback.c - see callback.h. */
#include "callback.h"
#include "../base/clock.h"
#include "../base/process.h"
#include "mailbox.h"
#include "tag_memory.h"
#include <stdlib.h>
#include <utlist.h>

enum { CALLBACKS_PER_TURN = 128 }; /* of each kind, so that the loop's other work is not held up */

/* ---- counters ---- */

void callback_count(struct loop *loop, const struct get *get)
{
    struct loop_counters *counters = counters_of(loop, get);
    uint64_t span_us = clock_now_us() - get->waiter.start_us;
    size_t bucket = histogram_bucket(span_us);
    const struct guard_result *result = &get->waiter.result;
    if (result->status != GUARD_SHED) /* counted by the core, which had no room for it */
        counter_add(&counters->requests[stats_request_of(result)], 1);
    counter_add(&counters->duration_count[bucket], 1);
    counter_add(&counters->duration_sum_us, span_us);
}

/* ---- calling back ---- */

static void forget_ticket(struct loop *loop, struct get *get)
{
    bool lock = is_own_loop(loop) || get->cancel_posted;
    if (lock)
        pthread_mutex_lock(&loop->guard->mutex);
    mailbox_forget_cancel(loop->guard, get);
    if (get->many != NULL) {
        loop->gets_of_many--;
        ((struct many_part *)get->context)->get = NULL;
    } else {
        tickets_remove(&loop->tickets, get->ticket);
    }
    if (lock)
        pthread_mutex_unlock(&loop->guard->mutex);
}

static void call_back(struct loop *loop, struct get *get)
{
    struct guard_result result = get->waiter.result;
    const struct guard_value *value = result.value;
    if (loop->detaching && result.status == GUARD_CANCELLED)
        result.status = GUARD_CLOSING;
    forget_ticket(loop, get);
    const struct value *loaded = get->stage == GET_CORE ? value_behind(value) : NULL;
    if (loaded != NULL && loaded->tags_bytes > 0) /* the next lookup of its key asks for these */
        tag_memory_remember(&loop->tag_memory, get_hash(get), loaded->tags, loaded->tags_bytes);
    blocking_callback_begins();
    get->answered(get->context, &result);
    blocking_callback_ends();
    guard_value_unref(&value);
    get_free(get);
    loop->count--;
}

static void call_back_some(struct loop *loop, struct get **list)
{
    for (int i = 0; i < CALLBACKS_PER_TURN && *list != NULL; i++) {
        struct get *get = *list;
        DL_DELETE(*list, get);
        call_back(loop, get);
    }
}

/* The rest is called back in the next turn. A loop, or a guard, that has no get left may be at its end. */
static void go_on(struct loop *loop)
{
    bool left = loop->hits != NULL || loop->ready != NULL;
    bool rests = loop->count == 0 && !loop->parts_closed;
    if (left || (rests && loop->detaching))
        host_wake_send(&loop->mail);
    else if (rests && is_own_loop(loop) && atomic_load_explicit(&loop->guard->refusing, memory_order_relaxed))
        mailbox_wake(loop->guard);
}

void callback_hits(struct loop *loop)
{
    call_back_some(loop, &loop->hits);
    go_on(loop);
}

void callback_ready(struct loop *loop)
{
    call_back_some(loop, &loop->hits);
    call_back_some(loop, &loop->ready);
    go_on(loop);
}

/* ---- of many: between lookup and core ---- */

/* No lookup is outstanding: on with those that were no hits. */
static void many_looked_up(struct many *many)
{
    struct get *list = many->held;
    if (--many->looking > 0 || list == NULL)
        return;
    many->held = NULL;
    pthread_mutex_lock(&many->loop->guard->mutex);
    mailbox_add_gets(many->loop->guard, list);
    pthread_mutex_unlock(&many->loop->guard->mutex);
}

void many_missed(struct get *get)
{
    get->stage = GET_HELD;
    DL_APPEND(get->many->held, get);
    many_looked_up(get->many);
}

void many_answered_here(struct get *get)
{
    if (get->many != NULL)
        many_looked_up(get->many);
}

/* Those that are held stay so until they are cancelled themselves: all are, or none. */
void many_cancelled_here(struct get *get)
{
    if (get->stage == GET_HELD)
        DL_DELETE(get->many->held, get);
    else
        get->many->looking--;
}

/* ---- of many: answering ---- */

void many_discard(struct many *many)
{
    for (size_t i = 0; i < many->count; i++)
        guard_value_unref(&many->results[i].value);
    free(many);
}

static void part_answered(void *context, const struct guard_result *result)
{
    struct many_part *part = context;
    struct many *many = part->many;
    struct guard_result *own = &many->results[part->i];
    *own = *result;
    if (result->value != NULL)
        guard_value_ref(result->value);
    if (--many->left > 0)
        return;
    struct loop *loop = many->loop;
    if (is_own_loop(loop))
        pthread_mutex_lock(&loop->guard->mutex);
    tickets_remove(&loop->many_tickets, many->ticket);
    if (is_own_loop(loop))
        pthread_mutex_unlock(&loop->guard->mutex);
    many->answered(many->context, many->results);
    many_discard(many);
}

/* ---- of many: making ---- */

struct many *many_new(struct loop *loop, const struct guard_request *request, size_t asked)
{
    size_t parts_bytes = sizeof(struct many) + asked * sizeof(struct many_part);
    struct many *many = calloc(1, parts_bytes + request->count * sizeof *many->results);
    if (many == NULL)
        return NULL;
    many->results = (struct guard_result *)(void *)((char *)many + parts_bytes);
    many->loop = loop;
    many->answered = request->answered;
    many->context = request->context;
    many->count = request->count;
    return many;
}
_Static_assert(sizeof(struct many) % _Alignof(struct guard_result) == 0 &&
                   sizeof(struct many_part) % _Alignof(struct guard_result) == 0,
               "the results follow the parts");

void many_add(struct many *many, struct get *get, size_t i)
{
    struct many_part *part = &many->parts[many->asked++];
    *part = (struct many_part){many, get, i};
    many->left++;
    get->many = many;
    get->waiter.of_many = true;
    get->answered = part_answered;
    get->context = part;
}
