/* SPDX-License-Identifier: MIT */
/*
 * shell_mailbox.c - what other threads hand to the guard's: gets, cancellations, invalidations, refreshes behind
 * hits, finished loads. See shell_parts.h.
 */
#include "../base/clock.h"
#include "shell_parts.h"
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum { BREACH_KEY_BYTES = 100 };

/* ---- posting, any thread ---- */

void shell_add_gets(struct guard *guard, struct get *list)
{
    for (struct get *get = list; get != NULL; get = get->next)
        get->stage = GET_CORE;
    DL_CONCAT(guard->incoming, list);
    uv_async_send(&guard->async);
}

void shell_post_get(struct guard *guard, struct get *get)
{
    struct get *list = NULL;
    DL_APPEND(list, get);
    pthread_mutex_lock(&guard->mutex);
    shell_add_gets(guard, list);
    pthread_mutex_unlock(&guard->mutex);
}

/* Under the mutex. */
static enum guard_status admit_invalidation(const struct guard *guard)
{
    if (guard->closing_asked)
        return GUARD_CLOSING;
    return guard->invalidation_count < GUARD_INVALIDATIONS_MAX ? GUARD_OK : GUARD_SHED;
}

enum guard_status shell_post_invalidation(struct guard *guard, struct invalidation *invalidation)
{
    const struct core_invalidation *core = &invalidation->core;
    near_invalidation_begins(guard->near, core->of_tag, core->key.encoded, core->key.encoded_bytes);
    pthread_mutex_lock(&guard->mutex);
    enum guard_status status = admit_invalidation(guard);
    if (status == GUARD_OK) {
        guard->invalidation_count++;
        DL_APPEND(guard->invalidations, invalidation);
        uv_async_send(&guard->async);
    }
    pthread_mutex_unlock(&guard->mutex);
    return status;
}

void shell_post_cancel(struct guard *guard, struct get *get)
{
    if (get->cancelling)
        return;
    get->cancelling = true;
    DL_APPEND2(guard->cancels, get, cancel_prev, cancel_next);
    uv_async_send(&guard->async);
}

void shell_forget_cancel(struct guard *guard, struct get *get)
{
    if (!get->cancelling)
        return;
    get->cancelling = false;
    DL_DELETE2(guard->cancels, get, cancel_prev, cancel_next);
}

static void say_breach(struct guard *guard, const struct finished_load *finished)
{
    bool cut = strnlen(finished->key, BREACH_KEY_BYTES + 1) > BREACH_KEY_BYTES;
    say(&guard->say, SAY_LOADER, SAY_BAD, "the loader of \"%.*s%s\" %s", BREACH_KEY_BYTES, finished->key,
        cut ? "..." : "", finished->breach);
}

void shell_finished(void *context, struct finished_load *finished)
{
    struct guard *guard = context;
    for (const struct finished_load *each = finished; each != NULL; each = each->next)
        if (each->breach != NULL)
            say_breach(guard, each);
    pthread_mutex_lock(&guard->mutex);
    bool ended = guard->ended;
    if (!ended) {
        LL_CONCAT(guard->finished, finished);
        uv_async_send(&guard->async);
    }
    pthread_mutex_unlock(&guard->mutex);
    while (ended && finished != NULL) {
        struct finished_load *next = finished->next;
        finished_load_free(finished);
        finished = next;
    }
}

static struct refresh *new_refresh(const struct get *get, const char *filler)
{
    size_t bytes = (size_t)get->plain_bytes + get->encoded_bytes + 2;
    struct core_key key = get_key(get);
    struct refresh *refresh = calloc(1, sizeof *refresh + bytes);
    if (refresh == NULL)
        return NULL;
    memcpy(refresh->text, get->text, bytes);
    refresh->policy = &get->kind->policy;
    refresh->of_many = get->many != NULL;
    key.plain = refresh->text;
    key.encoded = refresh->text + key.plain_bytes + 1;
    refresh->key = key;
    if (filler != NULL)
        memcpy(refresh->filler, filler, TOKEN_UUID_BYTES);
    return refresh;
}

void shell_post_refresh(struct guard *guard, const struct get *get, const char *filler)
{
    struct refresh *refresh = new_refresh(get, filler);
    if (refresh == NULL)
        return;
    pthread_mutex_lock(&guard->mutex);
    bool wanted = !guard->draining && !guard->ended;
    if (wanted) {
        LL_PREPEND(guard->refreshes, refresh);
        uv_async_send(&guard->async);
    }
    pthread_mutex_unlock(&guard->mutex);
    if (!wanted)
        free(refresh);
}

/* ---- entering, the guard's thread ---- */

static void enter_refreshes(struct guard *guard, struct refresh *list)
{
    while (list != NULL) {
        struct refresh *refresh = list;
        list = refresh->next;
        if (guard->phase == SHELL_RUNNING) {
            const char *filler = refresh->filler[0] != '\0' ? refresh->filler : NULL;
            core_refresh(guard->core, clock_now_us(), &refresh->key, refresh->policy, filler,
                         refresh->of_many);
            shell_perform_all(guard);
        }
        free(refresh);
    }
}

static enum guard_status enter_core(struct guard *guard, struct get *get)
{
    struct core_key key = get_key(get);
    if (get->cancelled_early)
        return GUARD_CANCELLED;
    if (guard->phase == SHELL_ENDING)
        return GUARD_CLOSING;
    get->in_core = true;
    uint64_t now_us = clock_now_us();
    enum guard_status status =
        core_get(guard->core, now_us, &key, &get->kind->policy, &get->waiter, get->deadline_us);
    if (status == GUARD_OK && guard->shadow != NULL)
        shadow_get(guard->shadow, now_us, get);
    return status;
}

/* New: from guard_get(), to be looked up on the guard's own loop. Otherwise its lookup was no hit. */
static void enter_get(struct guard *guard, struct get *get)
{
    bool new = get->stage == GET_NEW;
    if (new)
        guard->own->count++;
    bool over = get->cancelled_early || guard->phase == SHELL_ENDING;
    if (new && !over && loop_look_up(guard->own, get))
        return;
    enum guard_status status = enter_core(guard, get);
    if (status == GUARD_OK) {
        shell_perform_all(guard);
        return;
    }
    get->waiter.result = (struct guard_result){.status = status, .retry_ms = status == GUARD_SHED ? 1000 : 0};
    loop_count(guard->own, get);
    shell_return_get(get);
}

static void enter_gets(struct guard *guard, struct get *list)
{
    while (list != NULL) {
        struct get *get = list;
        DL_DELETE(list, get);
        enter_get(guard, get);
    }
}

static void enter_invalidations(struct guard *guard, struct invalidation *list)
{
    while (list != NULL) {
        struct invalidation *invalidation = list;
        DL_DELETE(list, invalidation);
        enum guard_status status = GUARD_CLOSING;
        if (guard->phase != SHELL_ENDING)
            status = core_invalidate(guard->fleet, clock_now_us(), &invalidation->core);
        if (status == GUARD_OK)
            shell_perform_all(guard);
        else
            shell_end_invalidation(guard, invalidation, &(struct guard_invalidated){.status = status});
    }
}

static void enter_finished(struct guard *guard, struct finished_load *list)
{
    while (list != NULL) {
        struct finished_load *finished = list;
        list = finished->next;
        if (guard->phase != SHELL_ENDING) {
            core_loaded(guard->core, clock_now_us(), finished->load, &finished->loaded);
            shell_perform_all(guard);
        }
        finished_load_free(finished);
    }
}

/* Under the mutex, because a get that has left the core may be freed by its loop as soon as it is released. */
static void cancel(struct guard *guard, struct get *get)
{
    shell_forget_cancel(guard, get);
    if (get->in_core)
        core_cancel(guard->core, clock_now_us(), &get->waiter);
    else if (get->loop == guard->own && (get->lookup != NULL || get->stage == GET_HELD))
        loop_cancel(guard->own, get);
    else
        get->cancelled_early = true; /* still in the mailbox, or answered already */
}

static bool enter_cancel(struct guard *guard)
{
    pthread_mutex_lock(&guard->mutex);
    bool any = guard->cancels != NULL;
    if (any)
        cancel(guard, guard->cancels);
    pthread_mutex_unlock(&guard->mutex);
    return any;
}

void shell_empty_mailbox(struct guard *guard)
{
    pthread_mutex_lock(&guard->mutex);
    struct get *gets = guard->incoming;
    struct invalidation *invalidations = guard->invalidations;
    struct finished_load *finished = guard->finished;
    struct refresh *refreshes = guard->refreshes;
    guard->refreshes = NULL;
    guard->incoming = NULL;
    guard->invalidations = NULL;
    guard->finished = NULL;
    pthread_mutex_unlock(&guard->mutex);
    enter_finished(guard, finished);
    enter_gets(guard, gets);
    enter_invalidations(guard, invalidations);
    enter_refreshes(guard, refreshes);
    while (enter_cancel(guard))
        shell_perform_all(guard);
}

void shell_on_async(uv_async_t *async)
{
    struct guard *guard = async->data;
    shell_empty_mailbox(guard);
    shell_ask_cache(guard);
    shell_after_events(guard);
}
