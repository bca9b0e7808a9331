/* SPDX-License-Identifier: MIT */
/* many.c - see many.h. */
#include "many.h"
#include "blocking.h"
#include "shell.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

struct many_part {
    struct many *many;
    struct get *get; /* NULL: called back */
};

struct many {
    struct guard_loop *loop;
    struct get *stand_in; /* owned: has the ticket */
    guard_many_answered *answered;
    void *context;
    struct get *held;             /* looked up in vain */
    uint32_t looking;             /* lookups that are outstanding */
    size_t left, count;           /* not called back, all */
    struct guard_result *results; /* in the same allocation; their values are ours */
    struct many_part parts[];
};

static bool is_own(const struct guard_loop *loop)
{
    return loop == loop->guard->own;
}

/* ---- between lookup and core ---- */

void many_looking(struct many *many)
{
    many->looking++;
}

/* No lookup is outstanding: on with those that were no hits. */
static void looked(struct many *many)
{
    struct get *list = many->held;
    if (--many->looking > 0 || list == NULL)
        return;
    many->held = NULL;
    pthread_mutex_lock(&many->loop->guard->mutex);
    shell_add_gets(many->loop->guard, list);
    pthread_mutex_unlock(&many->loop->guard->mutex);
}

void many_missed(struct get *get)
{
    get->stage = GET_HELD;
    DL_APPEND(get->many->held, get);
    looked(get->many);
}

void many_answered_here(struct get *get)
{
    looked(get->many);
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
    if (is_own(loop))
        pthread_mutex_lock(&loop->guard->mutex);
    tickets_remove(&loop->tickets, many->stand_in->ticket);
    loop->many_count--;
    if (is_own(loop))
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

void many_cancel(struct many *many)
{
    for (size_t i = 0; i < many->count; i++) {
        struct get *get = many->parts[i].get;
        if (get != NULL && is_own(many->loop))
            shell_post_cancel(many->loop->guard, get);
        else if (get != NULL)
            loop_cancel(many->loop, get);
    }
}

/* ---- making ---- */

/* As shell_refuse(), naming the key if it is the only one. */
static enum guard_status refuse_many(struct guard *guard, const char *function, size_t i, const char *wrong)
{
    char text[160];
    if (shell_forked(guard))
        return shell_refuse(guard, function, wrong);
    snprintf(text, sizeof text, "keys[%zu]: %s", i, wrong);
    return shell_refuse(guard, function, text);
}

static const char *wrong_many(const struct guard_many_request *request)
{
    if (request == NULL)
        return "request is NULL";
    if (request->keys == NULL)
        return "request->keys is NULL";
    if (request->count == 0)
        return "request->count is 0";
    return request->count > GUARD_MANY_MAX ? "request->count is above GUARD_MANY_MAX" : NULL;
}

static enum guard_status check_many(struct guard *guard, const struct guard_many_request *request,
                                    const char *function)
{
    const char *wrong = wrong_many(request);
    if (wrong != NULL)
        return shell_refuse(guard, function, wrong);
    for (size_t i = 0; i < request->count; i++) {
        wrong = shell_wrong(guard, request->kind, request->keys[i]);
        if (wrong != NULL)
            return refuse_many(guard, function, i, wrong);
    }
    return GUARD_OK;
}

static enum guard_status check_asynchronous(struct guard *guard, const struct guard_many_request *request,
                                            const char *function)
{
    if (request != NULL && request->answered == NULL)
        return shell_refuse(guard, function, "request->answered is NULL");
    return check_many(guard, request, function);
}

/* Before anybody knows of its gets. */
static void discard_many(struct many *many)
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
    enum guard_status status = loop_new_get(many->loop, &one, &part->get);
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

static enum guard_status make_many(struct guard_loop *loop, const struct guard_many_request *request,
                                   struct many **out)
{
    enum guard_status status = GUARD_OK;
    struct many *many = new_many(loop, request);
    if (many == NULL)
        return GUARD_NO_MEMORY;
    for (size_t i = 0; i < many->count && status == GUARD_OK; i++)
        status = make_get(many, request, i);
    if (status != GUARD_OK)
        discard_many(many);
    else
        *out = many;
    return status;
}

/* ---- accepting ---- */

static enum guard_status take_one_ticket(struct guard_loop *loop, struct get *get)
{
    get->ticket = tickets_add(&loop->tickets, get);
    return get->ticket != 0 ? GUARD_OK : GUARD_NO_MEMORY;
}

/* All or none. The one that stands in for all is no request and not counted. */
static enum guard_status take_tickets(struct many *many)
{
    struct guard_loop *loop = many->loop;
    if (many->count + loop->gets_of_many > loop->guard->config.max_waiters) {
        atomic_fetch_add_explicit(&loop->guard->shed, many->count, memory_order_relaxed);
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

/* Under the mutex. */
static enum guard_status admit_many(struct guard *guard, struct many *many)
{
    if (guard->draining)
        return GUARD_CLOSING;
    enum guard_status status = take_tickets(many);
    for (size_t i = 0; i < many->count && status == GUARD_OK; i++)
        DL_APPEND(guard->incoming, many->parts[i].get);
    if (status == GUARD_OK)
        uv_async_send(&guard->async);
    return status;
}

/* Of a request that was checked. */
static enum guard_status get_many(struct guard *guard, const struct guard_many_request *request,
                                  guard_ticket *ticket)
{
    struct many *many = NULL;
    enum guard_status status = make_many(guard->own, request, &many);
    if (status != GUARD_OK)
        return status;
    pthread_mutex_lock(&guard->mutex);
    status = admit_many(guard, many);
    if (status == GUARD_OK && ticket != NULL)
        *ticket = many->stand_in->ticket;
    pthread_mutex_unlock(&guard->mutex);
    if (status != GUARD_OK)
        discard_many(many);
    return status;
}

enum guard_status guard_get_many(struct guard *guard, const struct guard_many_request *request,
                                 guard_ticket *ticket)
{
    enum guard_status status = check_asynchronous(guard, request, "guard_get_many");
    return status == GUARD_OK ? get_many(guard, request, ticket) : status;
}

enum guard_status guard_loop_get_many(struct guard_loop *loop, const struct guard_many_request *request,
                                      guard_ticket *ticket)
{
    struct many *many = NULL;
    enum guard_status status = check_asynchronous(loop->guard, request, "guard_loop_get_many");
    if (status != GUARD_OK)
        return status;
    if (loop->detaching || atomic_load_explicit(&loop->guard->refusing, memory_order_relaxed))
        return GUARD_CLOSING;
    status = make_many(loop, request, &many);
    if (status != GUARD_OK)
        return status;
    status = take_tickets(many);
    if (status != GUARD_OK) {
        discard_many(many);
        return status;
    }
    if (ticket != NULL)
        *ticket = many->stand_in->ticket;
    for (size_t i = 0; i < many->count; i++)
        loop_accept(loop, many->parts[i].get);
    return GUARD_OK;
}

/* ---- the blocking form ---- */

struct many_answers {
    struct guard_result *results; /* the caller's */
    const size_t *places;         /* where in them each answer goes */
};

static void got_many(void *context, const struct guard_result *results, size_t count)
{
    struct blocking *blocking = context;
    const struct many_answers *answers = blocking->out;
    for (size_t i = 0; i < count; i++) {
        answers->results[answers->places[i]] = results[i];
        if (results[i].value != NULL)
            guard_value_ref(results[i].value);
    }
    blocking_over(blocking);
}

static enum guard_status ask_and_wait(struct guard *guard, const struct guard_many_request *request,
                                      struct many_answers *answers)
{
    struct blocking blocking;
    struct guard_many_request own = *request;
    blocking_init(&blocking, answers);
    own.answered = got_many;
    own.context = &blocking;
    enum guard_status status = get_many(guard, &own, NULL);
    if (status == GUARD_OK)
        blocking_wait(&blocking);
    blocking_clear(&blocking);
    return status;
}

enum guard_status guard_get_many_wait(struct guard *guard, const struct guard_many_request *request,
                                      struct guard_result *results)
{
    const char *keys[GUARD_MANY_MAX];
    size_t places[GUARD_MANY_MAX], count = 0;
    struct many_answers answers = {results, places};
    enum guard_status status = check_many(guard, request, "guard_get_many_wait");
    if (status != GUARD_OK)
        return status;
    memset(results, 0, request->count * sizeof *results);
    for (size_t i = 0; i < request->count; i++) {
        if (guard_near(guard, request->kind, request->keys[i], &results[i]))
            continue;
        keys[count] = request->keys[i];
        places[count++] = i;
    }
    if (count == 0)
        return GUARD_OK;
    struct guard_many_request rest = *request;
    rest.keys = keys;
    rest.count = count;
    status = ask_and_wait(guard, &rest, &answers);
    for (size_t i = 0; i < request->count && status != GUARD_OK; i++)
        guard_value_unref(&results[i].value);
    return status;
}
