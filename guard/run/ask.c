/* SPDX-License-Identifier: MIT */
/* ask.c - see ask.h. */
#include "ask.h"
#include "../base/check.h"
#include "../base/clock.h"
#include "../base/key.h"
#include "../base/process.h"
#include "../core/near.h"
#include "callback.h"
#include "defer.h"
#include "kind.h"
#include "loop.h"
#include "mailbox.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

/* ---- checking ---- */

static size_t key_count(const struct guard_request *request)
{
    return request->count > 0 ? request->count : 1;
}

/* As it was given, and checked. */
struct plain_key {
    const char *text;
    size_t bytes;
};

static struct plain_key key_of(const struct guard_request *request, size_t i)
{
    const char *text = request->key;
    size_t given = request->key_bytes;
    if (request->count > 0) {
        text = request->keys[i];
        given = request->keys_bytes != NULL ? request->keys_bytes[i] : 0;
    }
    return (struct plain_key){text, check_length(text, given)};
}

static struct asker asker_of(const struct guard_request *request)
{
    bool on_loop = kind_policy(request->kind)->loads_on == GUARD_ON_LOOP;
    return (struct asker){request->asker, request->asker_ref, request->asker_unref,
                          on_loop ? request->loop : NULL};
}

static const char *wrong_count(const struct guard_request *request)
{
    if (request->keys == NULL)
        return request->count == 0 ? NULL : "request->keys is NULL";
    if (request->key != NULL)
        return "request->key and request->keys are both set";
    if (request->count == 0)
        return "request->count is 0";
    return request->count > GUARD_MANY_MAX ? "request->count is above GUARD_MANY_MAX" : NULL;
}

static const char *wrong_way(const struct guard *guard, const struct guard_request *request, bool blocks)
{
    if (blocks && request->loop != NULL)
        return "request->loop is not NULL, but the call would block that loop";
    if (blocks && request->within != NULL)
        return "request->within is not NULL, but a deferred load is not waited for in a blocking call";
    if (!blocks && request->answered == NULL)
        return "request->answered is NULL";
    if (request->loop != NULL && request->loop->guard != guard)
        return "request->loop is another guard's";
    return NULL;
}

static const char *wrong_place(const struct guard_request *request, bool blocks)
{
    bool loads = kind_policy(request->kind)->loads_on == GUARD_ON_LOOP && (request->flags & GUARD_PEEK) == 0;
    if (!loads || request->loop != NULL)
        return NULL;
    return blocks ? "the kind's guard_policy.loads_on is GUARD_ON_LOOP: no call that blocks can ask for it"
                  : "request->loop is NULL, but the kind's guard_policy.loads_on is GUARD_ON_LOOP";
}

static const char *wrong_request(const struct guard *guard, const struct guard_request *request, bool blocks)
{
    const char *wrong = NULL;
    if (is_forked(guard))
        return FORKED_TEXT;
    if (request == NULL)
        return "request is NULL";
    if ((wrong = wrong_way(guard, request, blocks)) != NULL)
        return wrong;
    if (request->kind == NULL)
        return "the kind is NULL";
    if (request->kind->guard != guard)
        return "the kind is another guard's";
    if ((request->flags & ~(unsigned)(GUARD_PEEK | GUARD_REVALIDATE)) != 0)
        return "request->flags has an unknown bit";
    if (request->flags == (GUARD_PEEK | GUARD_REVALIDATE))
        return "request->flags says both GUARD_PEEK and GUARD_REVALIDATE";
    if ((request->asker_ref == NULL) != (request->asker_unref == NULL))
        return "request->asker_ref and request->asker_unref must both be set, or neither";
    if ((wrong = wrong_place(request, blocks)) != NULL)
        return wrong;
    return wrong_count(request);
}

const char *ask_check_keys(struct guard *guard, const struct ask_keys *keys, const char *function)
{
    char text[160];
    for (size_t i = 0; i < keys->count; i++) {
        const size_t bytes = keys->bytes != NULL ? keys->bytes[i] : 0;
        const char *key = keys->bytes != NULL && bytes == 0 ? "" : keys->keys[i];
        const char *wrong = keys->are_tags ? check_tag(key, bytes) : check_key(key, bytes);
        if (wrong == NULL)
            continue;
        snprintf(text, sizeof text, "%s[%zu]: %s", keys->are_tags ? "tags" : "keys", i, wrong);
        request_refuse(guard, function, text);
        return wrong;
    }
    return NULL;
}

const char *ask_check(struct guard *guard, const struct guard_request *request, const char *function,
                      bool blocks)
{
    const char *wrong = wrong_request(guard, request, blocks);
    if (wrong == NULL && request->count == 0)
        wrong = check_key(request->key, request->key_bytes);
    if (wrong != NULL) {
        request_refuse(guard, function, wrong);
        return wrong;
    }
    const struct ask_keys keys = {request->keys, request->keys_bytes, request->count, false};
    return ask_check_keys(guard, &keys, function);
}

/* ---- what this process has itself ---- */

bool ask_near(struct guard *guard, const struct guard_kind *kind, const char *key, size_t key_bytes,
              struct guard_result *result)
{
    char encoded[KEY_ENCODED_MAX + 1];
    if (guard->near == NULL || kind_policy(kind)->near_ms == 0)
        return false;
    return near_answer(guard->near, encoded, key_encode(key, key_bytes, encoded), kind->index, clock_now_us(),
                       result);
}

static bool ask_kept(struct guard *guard, const struct guard_request *request, const struct plain_key *plain,
                     struct guard_result *result)
{
    const struct guard_policy *policy = kind_policy(request->kind);
    char encoded[KEY_ENCODED_MAX + 1];
    if (policy->outage_ms == 0)
        return false;
    struct core_key key = {plain->text, plain->bytes, encoded,
                           key_encode(plain->text, plain->bytes, encoded)};
    enum near_kept kept = near_kept(guard->near, encoded, key.encoded_bytes, policy, clock_now_us(), result);
    if (kept == NEAR_KEPT_NOT)
        return false;
    const struct asker asker = asker_of(request);
    atomic_fetch_add_explicit(&request->kind->kept, 1, memory_order_relaxed);
    if (kept == NEAR_KEPT_REFRESH && (request->flags & GUARD_PEEK) == 0)
        mailbox_post_kept(guard, &key, policy, &asker, request->count > 0);
    return true;
}

/* Returns how many keys it does not answer: their results are MISS. */
static size_t look_near(struct guard *guard, const struct guard_request *request,
                        struct guard_result *results)
{
    size_t count = key_count(request), missing = 0;
    bool looks = (request->flags & GUARD_REVALIDATE) == 0;
    /* Redis cannot be asked, as the request's loop knows. */
    bool away = looks && guard->near != NULL &&
                (request->loop != NULL ? request->loop->there->away
                                       : atomic_load_explicit(&guard->away, memory_order_relaxed));
    for (size_t i = 0; i < count; i++) {
        const struct plain_key key = key_of(request, i);
        if (looks && ask_near(guard, request->kind, key.text, key.bytes, &results[i]))
            continue;
        if (away && ask_kept(guard, request, &key, &results[i]))
            continue;
        results[i] = (struct guard_result){.status = GUARD_MISS};
        missing++;
    }
    return missing;
}

/* ---- making gets ---- */

/* What a request becomes, before it is accepted. */
struct asking {
    struct loop *loop;
    struct many *many; /* owned; NULL: it is for one key */
    struct get *gets;  /* owned, by prev and next */
    size_t count;      /* of them */
};

static struct get *new_get(struct loop *loop, const struct guard_request *request, struct plain_key key)
{
    char encoded[KEY_ENCODED_MAX + 1];
    size_t encoded_bytes = key_encode(key.text, key.bytes, encoded);
    struct get *get = malloc(sizeof *get + key.bytes + encoded_bytes + 2);
    if (get == NULL)
        return NULL;
    memset(get, 0, sizeof *get);
    memcpy(get->text, key.text, key.bytes);
    get->text[key.bytes] = '\0';
    memcpy(get->text + key.bytes + 1, encoded, encoded_bytes + 1);
    get->plain_bytes = (uint16_t)key.bytes;
    get->encoded_bytes = (uint16_t)encoded_bytes;
    get->kind = request->kind;
    get->policy = kind_policy(request->kind);
    get->loop = loop;
    get->answered = request->answered;
    get->context = request->context;
    get->flags = request->flags;
    get->waiter.revalidates = (request->flags & GUARD_REVALIDATE) != 0;
    get->waiter.refreshes = (request->flags & ASK_REFRESHES) != 0;
    get->waiter.lends = (request->flags & ASK_LENDS) != 0;
    get->within = request->within;
    get->asker = asker_of(request);
    if (get->asker.ref != NULL)
        get->asker.ref(get->asker.what);
    get->waiter.start_us = clock_now_us();
    uint32_t deadline_ms = request->deadline_ms != 0 ? request->deadline_ms : get->policy->deadline_ms;
    get->deadline_us = get->waiter.start_us + (uint64_t)deadline_ms * 1000;
    return get;
}

static struct get *add_get(struct asking *asking, const struct guard_request *request, size_t i)
{
    struct get *get = new_get(asking->loop, request, key_of(request, i));
    if (get == NULL)
        return NULL;
    DL_APPEND(asking->gets, get);
    asking->count++;
    if (asking->many != NULL)
        many_add(asking->many, get, i);
    return get;
}

static void nest(struct get *get, const struct parent_load *parent)
{
    if (parent == NULL)
        return;
    get->waiter.parent_load = parent->load;
    if (parent->deadline_us < get->deadline_us)
        get->deadline_us = parent->deadline_us;
    if (get->deadline_us < get->waiter.start_us)
        get->deadline_us = get->waiter.start_us;
}

/* False: no memory. What this process had goes over to `many`. */
static bool make_gets(struct asking *asking, const struct guard_request *request, size_t missing,
                      struct guard_result *results)
{
    if (request->count == 0)
        return add_get(asking, request, 0) != NULL;
    asking->many = many_new(asking->loop, request, missing);
    if (asking->many == NULL)
        return false;
    for (size_t i = 0; i < request->count; i++) {
        if (results != NULL && results[i].status != GUARD_MISS) {
            asking->many->results[i] = results[i];
            results[i].value = NULL;
        } else if (add_get(asking, request, i) == NULL) {
            return false;
        }
    }
    return true;
}

/* ---- accepting them ---- */

/* The core counts waiters too, but a get reaches it only after its lookup. */
static bool has_room(const struct asking *asking)
{
    const struct loop *loop = asking->loop;
    uint32_t waiting = asking->many != NULL ? loop->gets_of_many : loop->tickets.used;
    if (waiting + asking->count <= loop->guard->config.max_waiters)
        return true;
    atomic_fetch_add_explicit(&asking->gets->kind->shed, asking->count, memory_order_relaxed);
    return false;
}

/* On the thread of the loop, for the guard's own under the guard's mutex. */
static enum guard_status admit_gets(struct asking *asking, guard_ticket *ticket)
{
    struct loop *loop = asking->loop;
    struct many *many = asking->many;
    if (!has_room(asking))
        return GUARD_SHED;
    guard_ticket taken =
        many != NULL ? tickets_add(&loop->many_tickets, many) : tickets_add(&loop->tickets, asking->gets);
    if (taken == 0)
        return GUARD_NO_MEMORY;
    *(many != NULL ? &many->ticket : &asking->gets->ticket) = taken;
    loop->gets_of_many += many != NULL ? (uint32_t)asking->count : 0;
    if (ticket != NULL)
        *ticket = taken;
    return GUARD_OK;
}

static enum guard_status accept_on_loop(struct asking *asking, guard_ticket *ticket)
{
    enum guard_status status = admit_gets(asking, ticket);
    atomic_store_explicit(&asking->loop->name->thread, pthread_self(), memory_order_relaxed);
    while (status == GUARD_OK && asking->gets != NULL) {
        struct get *get = asking->gets;
        DL_DELETE(asking->gets, get);
        loop_accept(asking->loop, get);
    }
    return status;
}

/* A load that may still end may still get other keys. One that outlives guard_close() finds a guard without a
 * loop. */
static enum guard_status accept_in_mailbox(struct guard *guard, struct asking *asking, bool nested,
                                           guard_ticket *ticket)
{
    pthread_mutex_lock(&guard->mutex);
    bool closed = guard->draining && (!nested || guard->cancelling);
    enum guard_status status = closed ? GUARD_CLOSING : admit_gets(asking, ticket);
    if (status == GUARD_OK) {
        DL_CONCAT(guard->posted.gets, asking->gets);
        mailbox_wake(guard);
    }
    pthread_mutex_unlock(&guard->mutex);
    return status;
}

enum guard_status ask(struct guard *guard, const struct guard_request *request,
                      const struct parent_load *parent, struct guard_result *results, guard_ticket *ticket)
{
    const bool there = request->loop != NULL && (request->flags & ASK_REFRESHES) == 0;
    struct asking asking = {.loop = there ? request->loop->there : guard->own};
    bool gone = asking.loop == NULL || (there && asking.loop->detaching);
    if (gone || (parent == NULL && atomic_load_explicit(&guard->refusing, memory_order_relaxed)))
        return GUARD_CLOSING;
    size_t missing = results != NULL ? look_near(guard, request, results) : key_count(request);
    if (missing == 0)
        return GUARD_NOW;
    enum guard_status status = GUARD_NO_MEMORY;
    if (make_gets(&asking, request, missing, results)) {
        struct get *get = NULL;
        DL_FOREACH (asking.gets, get)
            nest(get, parent);
        status = there ? accept_on_loop(&asking, ticket)
                       : accept_in_mailbox(guard, &asking, parent != NULL, ticket);
    }
    if (status != GUARD_OK) {
        struct get *get = NULL, *next = NULL;
        DL_FOREACH_SAFE (asking.gets, get, next)
            get_free(get);
        if (asking.many != NULL)
            many_discard(asking.many);
        for (size_t i = 0; i < request->count && results != NULL; i++)
            guard_value_unref(&results[i].value); /* near ones, of a request that was not accepted */
    }
    return status;
}

/* ---- the public functions ---- */

enum guard_status guard_get(struct guard *guard, const struct guard_request *request,
                            struct guard_result *results, guard_ticket *ticket)
{
    struct parent_load parent;
    if (ask_check(guard, request, "guard_get", false) != NULL)
        return GUARD_INVALID;
    if (request->within == NULL)
        return ask(guard, request, NULL, results, ticket);
    if (!defer_parent(guard, request->within, &parent))
        return request_refuse(guard, "guard_get", "request->within is no deferred load, or finished");
    return ask(guard, request, &parent, NULL, ticket);
}

/* ---- waiting for the answer ---- */

/*
 * A call that waits, and may run loads meanwhile: its own, or what its loader needs, for which the core lends the
 * thread:
 *
 *     loader(A) -> guard_load_get(B) -> the core -> a load of B, lent to this thread -> loader(B) -> ...
 *                        <------------------ the answer, from wherever it came ------------------
 *
 * It is lent only to a flight in which this get waits, one load at a time: once it is answered nothing comes any
 * more.
 */
struct waiting {
    struct blocking blocking; /* first */
    struct guard *guard;
    struct running_load *parent;  /* whose loader asks; NULL: none does */
    struct guard_result *results; /* the caller's */
    size_t count;
    uint64_t deadline_us;  /* no load is begun from here on */
    _Atomic uint64_t load; /* that runs here; 0: none */
    bool thread_ends;      /* a loader ended it, none is called any more */
};

/* Whether its thread can be lent. */
static void set_waits(struct waiting *waiting, bool lends)
{
    if (waiting->parent == NULL)
        return;
    desk_lock();
    waiting->parent->waits = lends ? &waiting->blocking : NULL;
    desk_unlock();
}

static void got(void *context, const struct guard_result *results)
{
    struct waiting *waiting = context;
    uint64_t load = atomic_load(&waiting->load);
    /* Is told; before its deadline the core sees to a load that nobody wants. */
    if (load != 0 && clock_now_us() >= waiting->deadline_us)
        load_leave(waiting->guard->desk, load);
    set_waits(waiting, false);
    for (size_t i = 0; i < waiting->count; i++) {
        waiting->results[i] = results[i];
        if (results[i].value != NULL)
            guard_value_ref(results[i].value);
    }
    blocking_over(&waiting->blocking);
}

/* Its loader is not called. A load that is nested would be lent to this thread again. */
static void refuse_given(struct running_load *load)
{
    struct desk *desk = load->desk;
    struct finished_load *over = NULL;
    if (load->parent != NULL) {
        load->start_us = clock_now_us();
        guard_load_fail(load->handle, GUARD_FAILURE_INTERNAL);
        load_returned(load, true);
        return;
    }
    desk_lock();
    load_give_back(load, &over);
    desk_unlock();
    load_hand_in(desk, over);
}

/* Its load is known before the clock is read: an answer at the deadline finds one that began just before. */
static void run_given(struct waiting *waiting, struct running_load *load)
{
    const void *loads_for = blocking_here.loads_for;
    atomic_store(&waiting->load, load->result.load);
    load->parent = waiting->parent;
    if (!waiting->thread_ends && clock_now_us() < waiting->deadline_us) {
        blocking_here.loads_for = waiting->guard;
        load_run_here(load);
        blocking_here.loads_for = loads_for;
    } else {
        refuse_given(load);
    }
    atomic_store(&waiting->load, 0);
}

static void wait_and_run(struct waiting *waiting)
{
    void *given = NULL;
    while ((given = blocking_next(&waiting->blocking)) != NULL)
        run_given(waiting, given);
}

/* The guard still holds what is on this stack, and perhaps loads that it has lent. There is one result. */
static void waiting_over(void *context)
{
    struct waiting *waiting = context;
    waiting->thread_ends = true;
    wait_and_run(waiting);
    guard_value_unref(&waiting->results->value);
}

static void lend_thread(struct waiting *waiting)
{
    pthread_cleanup_push(waiting_over, waiting);
    wait_and_run(waiting);
    pthread_cleanup_pop(0);
}

/* Of a request that was checked. OK: `results` are set. */
static enum guard_status ask_and_wait(struct waiting *waiting, const struct guard_request *request)
{
    struct guard_request own = *request;
    const struct guard_policy *policy = kind_policy(request->kind);
    const struct running_load *outer = waiting->parent;
    const bool lends = outer == NULL && policy->loads_on == GUARD_ON_CALLER && request->count == 0;
    struct parent_load parent = {0, UINT64_MAX};
    blocking_init(&waiting->blocking, NULL);
    own.answered = got;
    own.context = waiting;
    waiting->deadline_us = UINT64_MAX;
    if (outer != NULL)
        parent = (struct parent_load){outer->result.load, outer->deadline_us};
    if (lends) {
        uint32_t deadline_ms = request->deadline_ms != 0 ? request->deadline_ms : policy->deadline_ms;
        own.flags |= ASK_LENDS;
        waiting->deadline_us = clock_now_us() + (uint64_t)deadline_ms * 1000;
    }
    set_waits(waiting, true);
    enum guard_status status = outer != NULL ? ask(waiting->guard, &own, &parent, NULL, NULL)
                                             : ask(waiting->guard, &own, NULL, waiting->results, NULL);
    if (status != GUARD_OK)
        set_waits(waiting, false);
    else if (lends || outer != NULL)
        lend_thread(waiting);
    else
        blocking_wait(&waiting->blocking);
    return status == GUARD_NOW ? GUARD_OK : status;
}

/* As many results as a request may have. */
static size_t result_count(const struct guard_request *request)
{
    if (request == NULL || request->count == 0)
        return 1;
    return request->count < GUARD_MANY_MAX ? request->count : GUARD_MANY_MAX;
}

enum guard_status guard_get_wait(struct guard *guard, const struct guard_request *request,
                                 struct guard_result *results)
{
    struct waiting waiting = {.guard = guard, .results = results, .count = result_count(request)};
    if (results == NULL)
        return request_refuse(guard, "guard_get_wait", "results is NULL");
    const char *wrong = NULL; /* of this thread: it may not wait for an answer of this guard */
    if (blocking_in_callback())
        wrong = CALLBACK_TEXT;
    else if (blocking_here.loads_for == guard)
        wrong = "a loader of this guard runs on this thread; use guard_load_get()";
    if (wrong != NULL)
        request_refuse(guard, "guard_get_wait", wrong);
    else
        wrong = ask_check(guard, request, "guard_get_wait", true);
    enum guard_status status = wrong == NULL ? ask_and_wait(&waiting, request) : GUARD_INVALID;
    for (size_t i = 0; i < waiting.count && status != GUARD_OK; i++)
        results[i] = (struct guard_result){.status = status, .wrong = wrong};
    return waiting.count == 1 ? results->status : status;
}

/* ---- a loader that asks ---- */

static void say_circle(struct guard *guard, const struct running_load *load, const char *key,
                       size_t key_bytes)
{
    say(&guard->say, SAY_LOADER, SAY_BAD,
        "the load of %.100s asks for %.*s, which waits for it or nests too deep: it fails", load->key,
        key_bytes < 100 ? (int)key_bytes : 100, key);
}

/* A load's key has its NUL; the one that is asked for need not. */
static bool in_chain(const struct running_load *load, const char *key, size_t key_bytes)
{
    while (load != NULL && (strncmp(load->key, key, key_bytes) != 0 || load->key[key_bytes] != '\0'))
        load = load->parent;
    return load != NULL;
}

/* The guard is there as long as a loader runs; a load that is deferred may outlive it. */
static const char *refuse_nested(const struct guard_load *handle, const char *wrong)
{
    desk_refuse(handle, "guard_load_get", wrong);
    return wrong;
}

enum guard_status guard_load_get(struct guard_load *handle, const struct guard_request *request,
                                 struct guard_result *result)
{
    desk_lock();
    struct running_load *load = load_of(handle);
    if (load != NULL && load->stage != LOAD_RUNS)
        load = NULL; /* it is deferred */
    desk_unlock();
    struct guard *guard = load != NULL ? load->desk->context : NULL;
    const char *wrong =
        load == NULL ? refuse_nested(handle, "the load is deferred, or over; of a deferred one say `within` "
                                             "in a request instead")
        : blocking_in_callback() ? refuse_nested(handle, CALLBACK_TEXT)
                                 : ask_check(guard, request, "guard_load_get", true);
    if (wrong == NULL && request->count > 0)
        wrong = refuse_nested(handle, "request->keys: a loader asks for one key at a time");
    *result = (struct guard_result){.status = GUARD_INVALID, .wrong = wrong};
    if (wrong != NULL)
        return GUARD_INVALID;
    struct waiting waiting = {.guard = guard, .parent = load, .results = result, .count = 1};
    enum guard_status status = GUARD_OK;
    const size_t key_bytes = check_length(request->key, request->key_bytes);
    if (in_chain(load, request->key, key_bytes) || load->depth >= GUARD_NESTED_MAX)
        *result = (struct guard_result){.status = GUARD_FAILED, .failure = GUARD_FAILURE_CYCLE};
    else
        status = ask_and_wait(&waiting, request);
    if (status != GUARD_OK)
        result->status = status;
    if (result->failure == GUARD_FAILURE_CYCLE && result->source == GUARD_FROM_NOWHERE)
        say_circle(guard, load, request->key, key_bytes);
    return result->status;
}

/* ---- leaving ---- */

void guard_cancel(struct guard *guard, struct guard_loop *name, guard_ticket ticket)
{
    if (is_forked(guard))
        return;
    struct loop *loop = name != NULL ? name->there : guard->own;
    pthread_mutex_lock(&guard->mutex);
    if (loop != NULL)
        loop_cancel_ticket(loop, ticket);
    pthread_mutex_unlock(&guard->mutex);
}

static const char *wrong_forget(const struct guard *guard, struct guard_loop *loop, guard_ticket ticket)
{
    if (loop == NULL)
        return "loop is NULL: a request without one can be cancelled, and is answered all the same";
    if (loop->guard != guard)
        return "loop is another guard's";
    if (!pthread_equal(atomic_load_explicit(&loop->thread, memory_order_relaxed), pthread_self()))
        return "this is not the thread that asks on the loop; call it there";
    return loop->there == NULL || tickets_is_of(&loop->there->tickets, ticket) ||
                   tickets_is_of(&loop->there->many_tickets, ticket)
               ? NULL
               : "ticket is of another loop, or of a request without one";
}

static void answered_nobody(void *context, const struct guard_result *results)
{
    (void)context, (void)results;
}

/* It goes the way of a cancelled one, and is called back as that, or as what it was answered before: by this. */
enum guard_status guard_forget(struct guard *guard, struct guard_loop *loop, guard_ticket ticket)
{
    if (is_forked(guard))
        return GUARD_OK; /* nobody is called back there */
    const char *wrong = wrong_forget(guard, loop, ticket);
    if (wrong != NULL)
        return request_refuse(guard, "guard_forget", wrong);
    if (loop->there == NULL)
        return GUARD_OK;
    struct get *get = tickets_find(&loop->there->tickets, ticket);
    struct many *many = tickets_find(&loop->there->many_tickets, ticket);
    if (get != NULL)
        get->answered = answered_nobody;
    if (many != NULL)
        many->answered = answered_nobody;
    guard_cancel(guard, loop, ticket);
    return GUARD_OK;
}
