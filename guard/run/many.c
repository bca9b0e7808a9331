/* SPDX-License-Identifier: MIT */
/* many.c - see many.h. */
#include "many.h"
#include "mailbox.h"
#include <stdlib.h>
#include <utlist.h>

/* ---- between lookup and core ---- */

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

/* ---- answering ---- */

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

void many_forget(struct get *get)
{
    ((struct many_part *)get->context)->get = NULL;
}

/* ---- making ---- */

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
