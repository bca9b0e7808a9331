/* SPDX-License-Identifier: MIT */
/* many.c - see many.h. */
#include "many.h"
#include "mailbox.h"
#include <stdlib.h>
#include <utlist.h>

/* ---- between lookup and core ---- */

void many_looking(struct many *many)
{
    many->looking++;
}

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

/* ---- answering ---- */

static void free_many(struct many *many)
{
    for (size_t i = 0; i < many->count; i++)
        guard_value_unref(&many->results[i].value);
    free(many->stand_in);
    free(many);
}

/* From here on no ticket leads to it. */
static void forget_stand_in(struct many *many)
{
    struct guard_loop *loop = many->loop;
    if (is_own_loop(loop))
        pthread_mutex_lock(&loop->guard->mutex);
    tickets_remove(&loop->tickets, many->stand_in->ticket);
    loop->many_count--;
    if (is_own_loop(loop))
        pthread_mutex_unlock(&loop->guard->mutex);
}

static void part_answered(void *context, const struct guard_result *result)
{
    struct many_part *part = context;
    struct many *many = part->many;
    struct guard_result *own = &many->results[part - many->parts];
    *own = *result;
    if (result->value != NULL)
        guard_value_ref(result->value);
    if (--many->left > 0)
        return;
    forget_stand_in(many);
    many->answered(many->context, many->results, many->count);
    free_many(many);
}

void many_forget(struct get *get)
{
    ((struct many_part *)get->context)->get = NULL;
}

/* ---- making ---- */

void many_discard(struct many *many)
{
    for (size_t i = 0; i < many->count; i++)
        free(many->parts[i].get);
    free_many(many);
}

static enum guard_status make_get(struct many *many, const struct guard_many_request *request, size_t i)
{
    struct many_part *part = &many->parts[i];
    const struct guard_request one = {
        .kind = request->kind,
        .key = request->keys[i],
        .deadline_ms = request->deadline_ms,
        .answered = part_answered,
        .context = part,
    };
    part->many = many;
    enum guard_status status = mailbox_new_get(many->loop, &one, &part->get);
    if (status != GUARD_OK)
        return status;
    part->get->many = many;
    part->get->waiter.of_many = true;
    return GUARD_OK;
}

static struct many *new_many(struct guard_loop *loop, const struct guard_many_request *request)
{
    size_t parts_bytes = sizeof(struct many) + request->count * sizeof(struct many_part);
    struct many *many = calloc(1, parts_bytes + request->count * sizeof *many->results);
    if (many == NULL)
        return NULL;
    many->results = (struct guard_result *)(void *)((char *)many + parts_bytes);
    many->loop = loop;
    many->answered = request->answered;
    many->context = request->context;
    many->left = many->count = request->count;
    many->stand_in = calloc(1, sizeof *many->stand_in);
    if (many->stand_in == NULL) {
        free(many);
        return NULL;
    }
    many->stand_in->is_stand_in = true;
    many->stand_in->many = many;
    return many;
}
_Static_assert(sizeof(struct many) % _Alignof(struct guard_result) == 0 &&
                   sizeof(struct many_part) % _Alignof(struct guard_result) == 0,
               "the results follow the parts");

enum guard_status many_new(struct guard_loop *loop, const struct guard_many_request *request,
                           struct many **out)
{
    enum guard_status status = GUARD_OK;
    struct many *many = new_many(loop, request);
    if (many == NULL)
        return GUARD_NO_MEMORY;
    for (size_t i = 0; i < many->count && status == GUARD_OK; i++)
        status = make_get(many, request, i);
    if (status != GUARD_OK)
        many_discard(many);
    else
        *out = many;
    return status;
}

static enum guard_status take_one_ticket(struct guard_loop *loop, struct get *get)
{
    get->ticket = tickets_add(&loop->tickets, get);
    return get->ticket != 0 ? GUARD_OK : GUARD_NO_MEMORY;
}

/* All or none. The one that stands in for all is no request and not counted. */
enum guard_status many_take_tickets(struct many *many)
{
    struct guard_loop *loop = many->loop;
    if (many->count + loop->gets_of_many > loop->guard->config.max_waiters) {
        atomic_fetch_add_explicit(&many->parts[0].get->kind->shed, many->count, memory_order_relaxed);
        return GUARD_SHED;
    }
    size_t taken = 0;
    enum guard_status status = take_one_ticket(loop, many->stand_in);
    while (taken < many->count && status == GUARD_OK) {
        status = take_one_ticket(loop, many->parts[taken].get);
        taken += status == GUARD_OK;
    }
    if (status == GUARD_OK) {
        loop->many_count++;
        loop->gets_of_many += (uint32_t)many->count;
        return status;
    }
    while (taken > 0)
        tickets_remove(&loop->tickets, many->parts[--taken].get->ticket);
    if (many->stand_in->ticket != 0)
        tickets_remove(&loop->tickets, many->stand_in->ticket);
    return status;
}

/* ---- handing over ---- */

/* Under the mutex. */
static enum guard_status admit_many(struct guard *guard, struct many *many)
{
    if (guard->draining)
        return GUARD_CLOSING;
    enum guard_status status = many_take_tickets(many);
    for (size_t i = 0; i < many->count && status == GUARD_OK; i++)
        DL_APPEND(guard->incoming, many->parts[i].get);
    if (status == GUARD_OK)
        mailbox_wake(guard);
    return status;
}

enum guard_status many_get(struct guard *guard, const struct guard_many_request *request,
                           guard_ticket *ticket)
{
    struct many *many = NULL;
    enum guard_status status = many_new(guard->own, request, &many);
    if (status != GUARD_OK)
        return status;
    pthread_mutex_lock(&guard->mutex);
    status = admit_many(guard, many);
    if (status == GUARD_OK && ticket != NULL)
        *ticket = many->stand_in->ticket;
    pthread_mutex_unlock(&guard->mutex);
    if (status != GUARD_OK)
        many_discard(many);
    return status;
}
