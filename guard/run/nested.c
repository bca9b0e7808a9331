/* SPDX-License-Identifier: MIT */
/*
 * nested.c - guard_load_get(): a loader waits for another key and lends its thread meanwhile.
 *
 *     loader(A) -> guard_load_get(B) -> the core -> a load of B, lent to this thread -> loader(B) -> ...
 *                        <------------------ the answer, from wherever it came ------------------
 *
 * The core lends a thread only to a flight in which its get waits, one load at a time; so once it is answered nothing comes
 * any more, and the thread leaves.
 */
#include "../base/check.h"
#include "../base/clock.h"
#include "../base/process.h"
#include "ask.h"
#include "defer.h"
#include "mailbox.h"
#include <string.h>

/* A loader waits for another key and lends its thread meanwhile; on the stack of guard_load_get(). */
struct nested {
    struct blocking blocking;
    struct running_load *parent; /* its loader waits for the answer */
    bool thread_ends;            /* a loader ended it, none is called any more */
    struct guard_result *result;
};

/* NULL: no more. */
static void waits_in(struct running_load *load, struct blocking *blocking)
{
    desk_lock();
    load->waits = blocking;
    desk_unlock();
}

/* The guard's thread. */
static void nested_answered(void *context, const struct guard_result *result)
{
    struct nested *nested = context;
    waits_in(nested->parent, NULL);
    *nested->result = *result;
    if (result->value != NULL)
        guard_value_ref(result->value);
    blocking_over(&nested->blocking);
}

/* ---- running what is lent to this thread ---- */

static void serve(struct nested *nested)
{
    struct running_load *load = NULL;
    while ((load = blocking_next(&nested->blocking)) != NULL) {
        load->parent = nested->parent;
        if (!nested->thread_ends) {
            load_run_here(load);
            continue;
        }
        load->start_us = clock_now_us();
        guard_load_fail(load->handle, GUARD_FAILURE_INTERNAL);
        load_returned(load, true);
    }
}

/* A nested loader ended the thread: the guard still holds what is on this stack, and loads that it has lent. */
static void thread_over(void *context)
{
    struct nested *nested = context;
    nested->thread_ends = true;
    serve(nested);
    guard_value_unref(&nested->result->value);
}

static void serve_until_answered(struct nested *nested)
{
    pthread_cleanup_push(thread_over, nested);
    serve(nested);
    pthread_cleanup_pop(0);
}

/* ---- asking ---- */

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

static enum guard_status get_nested(struct guard *guard, struct running_load *load,
                                    const struct guard_request *request, struct guard_result *result)
{
    struct nested nested = {.parent = load, .result = result};
    struct guard_request own = *request;
    const struct parent_load parent = {load->result.load, load->deadline_us};
    own.answered = nested_answered;
    own.context = &nested;
    blocking_init(&nested.blocking, NULL);
    waits_in(load, &nested.blocking);
    enum guard_status status = ask(guard, &own, &parent, NULL, NULL);
    if (status == GUARD_OK) {
        serve_until_answered(&nested);
    } else {
        waits_in(load, NULL);
        result->status = status;
    }
    return result->status;
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
    const size_t key_bytes = check_length(request->key, request->key_bytes);
    if (in_chain(load, request->key, key_bytes) || load->depth >= GUARD_NESTED_MAX)
        *result = (struct guard_result){.status = GUARD_FAILED, .failure = GUARD_FAILURE_CYCLE};
    else
        get_nested(guard, load, request, result);
    if (result->failure == GUARD_FAILURE_CYCLE && result->source == GUARD_FROM_NOWHERE)
        say_circle(guard, load, request->key, key_bytes);
    return result->status;
}
