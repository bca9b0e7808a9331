/* SPDX-License-Identifier: MIT */
/* mailbox.c - see mailbox.h. */
#include "mailbox.h"
#include "../base/check.h"
#include "../base/clock.h"
#include "../base/key.h"
#include "../core/near.h"
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum { BREACH_KEY_BYTES = 100 };

/* ---- requests ---- */

const char *request_wrong(const struct guard *guard, const struct guard_kind *kind, const char *key)
{
    if (is_forked(guard))
        return FORKED_TEXT;
    if (kind == NULL)
        return "the kind is NULL";
    if (kind->guard != guard)
        return "the kind is another guard's";
    return check_key(key);
}

enum guard_status request_refuse(struct guard *guard, const char *function, const char *wrong)
{
    if (!is_forked(guard))
        say(&guard->say, SAY_CALLER, SAY_BAD, "%s: %s", function, wrong);
    else if (!atomic_exchange(&guard->forked_said, true))
        say_in_child(&guard->say, "%s: %s", function, wrong);
    return GUARD_INVALID;
}

static uint32_t deadline_of(const struct guard_request *request)
{
    return request->deadline_ms != 0 ? request->deadline_ms : request->kind->policy.deadline_ms;
}

enum guard_status mailbox_new_get(struct guard_loop *loop, const struct guard_request *request,
                                  struct get **out)
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

/* The core counts waiters too, but a get reaches it only after its lookup. */
enum guard_status mailbox_take_ticket(struct guard_loop *loop, struct get *get)
{
    uint32_t single = loop->tickets.used - loop->many_count - loop->gets_of_many;
    if (single >= loop->guard->config.max_waiters) {
        atomic_fetch_add_explicit(&get->kind->shed, 1, memory_order_relaxed);
        return GUARD_SHED;
    }
    get->ticket = tickets_add(&loop->tickets, get);
    return get->ticket != 0 ? GUARD_OK : GUARD_NO_MEMORY;
}

/* ---- posting ---- */

void mailbox_wake(struct guard *guard)
{
    host_wake_send(&guard->mail);
}

void mailbox_add_gets(struct guard *guard, struct get *list)
{
    for (struct get *get = list; get != NULL; get = get->next)
        get->stage = GET_CORE;
    DL_CONCAT(guard->incoming, list);
    mailbox_wake(guard);
}

void mailbox_post_get(struct guard *guard, struct get *get)
{
    struct get *list = NULL;
    DL_APPEND(list, get);
    pthread_mutex_lock(&guard->mutex);
    mailbox_add_gets(guard, list);
    pthread_mutex_unlock(&guard->mutex);
}

/* Under the mutex. A load that may still end may still get other keys. */
static enum guard_status admit(struct guard *guard, struct get *get)
{
    if (guard->draining && (get->waiter.parent_load == 0 || guard->cancelling))
        return GUARD_CLOSING;
    enum guard_status status = mailbox_take_ticket(guard->own, get);
    if (status != GUARD_OK)
        return status;
    DL_APPEND(guard->incoming, get);
    mailbox_wake(guard);
    return GUARD_OK;
}

static void nest(struct get *get, const struct parent_load *parent)
{
    get->waiter.parent_load = parent->load;
    if (parent->deadline_us < get->deadline_us)
        get->deadline_us = parent->deadline_us;
    if (get->deadline_us < get->waiter.start_us)
        get->deadline_us = get->waiter.start_us;
}

enum guard_status mailbox_get(struct guard *guard, const struct guard_request *request,
                              const struct parent_load *parent, guard_ticket *ticket)
{
    struct get *get = NULL;
    enum guard_status status = mailbox_new_get(guard->own, request, &get);
    if (status != GUARD_OK)
        return status;
    if (parent != NULL)
        nest(get, parent);
    pthread_mutex_lock(&guard->mutex);
    status = admit(guard, get);
    if (status == GUARD_OK && ticket != NULL)
        *ticket = get->ticket;
    pthread_mutex_unlock(&guard->mutex);
    if (status != GUARD_OK)
        free(get);
    return status;
}

/* Under the mutex. */
static enum guard_status admit_invalidation(const struct guard *guard)
{
    if (guard->closing_asked)
        return GUARD_CLOSING;
    return guard->invalidation_count < GUARD_INVALIDATIONS_MAX ? GUARD_OK : GUARD_SHED;
}

enum guard_status mailbox_post_invalidation(struct guard *guard, struct invalidation *invalidation)
{
    const struct core_invalidation *core = &invalidation->core;
    near_invalidation_begins(guard->near, core->of_tag, core->key.encoded, core->key.encoded_bytes);
    pthread_mutex_lock(&guard->mutex);
    enum guard_status status = admit_invalidation(guard);
    if (status == GUARD_OK) {
        guard->invalidation_count++;
        DL_APPEND(guard->invalidations, invalidation);
        mailbox_wake(guard);
    }
    pthread_mutex_unlock(&guard->mutex);
    return status;
}

void mailbox_post_cancel(struct guard *guard, struct get *get)
{
    if (get->cancelling)
        return;
    get->cancelling = true;
    DL_APPEND2(guard->cancels, get, cancel_prev, cancel_next);
    mailbox_wake(guard);
}

void mailbox_forget_cancel(struct guard *guard, struct get *get)
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

void mailbox_post_finished(void *context, struct finished_load *finished)
{
    struct guard *guard = context;
    for (const struct finished_load *each = finished; each != NULL; each = each->next)
        if (each->breach != NULL)
            say_breach(guard, each);
    pthread_mutex_lock(&guard->mutex);
    bool ended = guard->ended;
    if (!ended) {
        LL_CONCAT(guard->finished, finished);
        mailbox_wake(guard);
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

void mailbox_post_refresh(struct guard *guard, const struct get *get, const char *filler)
{
    struct refresh *refresh = new_refresh(get, filler);
    if (refresh == NULL)
        return;
    pthread_mutex_lock(&guard->mutex);
    bool wanted = !guard->draining && !guard->ended;
    if (wanted) {
        LL_PREPEND(guard->refreshes, refresh);
        mailbox_wake(guard);
    }
    pthread_mutex_unlock(&guard->mutex);
    if (!wanted)
        free(refresh);
}
