/* SPDX-License-Identifier: MIT */
/* mailbox.c - see mailbox.h. */
#include "mailbox.h"
#include "../base/clock.h"
#include "../core/near.h"
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum guard_status request_refuse(struct guard *guard, const char *function, const char *wrong)
{
    if (!is_forked(guard))
        say(&guard->say, SAY_CALLER, SAY_BAD, "%s: %s", function, wrong);
    else if (!atomic_exchange(&guard->forked_said, true))
        say_in_child(&guard->say, "%s: %s", function, wrong);
    return GUARD_INVALID;
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
    DL_CONCAT(guard->posted.gets, list);
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

enum guard_status mailbox_post_invalidations(struct guard *guard, struct invalidation *list)
{
    const size_t count = list->change->left;
    const struct invalidation *at = NULL;
    DL_FOREACH (list, at)
        near_invalidation_begins(guard->near, at->core.of_tag, at->core.key.encoded,
                                 at->core.key.encoded_bytes);
    pthread_mutex_lock(&guard->mutex);
    enum guard_status status = GUARD_OK;
    if (guard->closing_asked)
        status = GUARD_CLOSING;
    else if (guard->invalidation_count + count > GUARD_INVALIDATIONS_MAX)
        status = GUARD_SHED;
    if (status == GUARD_OK) {
        guard->invalidation_count += (uint32_t)count;
        DL_CONCAT(guard->posted.invalidations, list);
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

void mailbox_post_finished(void *context, struct finished_load *finished)
{
    char key[SAID_KEY_SIZE];
    struct guard *guard = context;
    for (const struct finished_load *each = finished; each != NULL; each = each->next) {
        if (each->breach == NULL)
            continue;
        load_say_key(each->key, key);
        say(&guard->say, SAY_LOADER, SAY_BAD, "the loader of \"%s\" %s", key, each->breach);
    }
    pthread_mutex_lock(&guard->mutex);
    bool ended = guard->ended;
    if (!ended) {
        LL_CONCAT(guard->posted.finished, finished);
        mailbox_wake(guard);
    }
    pthread_mutex_unlock(&guard->mutex);
    while (ended && finished != NULL) {
        struct finished_load *next = finished->next;
        finished_load_free(finished);
        finished = next;
    }
}

void mailbox_refuse(void *context, const char *function, const char *wrong)
{
    request_refuse(context, function, wrong);
}

void refresh_free(struct refresh *refresh)
{
    origin_free((struct origin *)refresh->core.origin);
    free(refresh);
}

static struct refresh *new_refresh(const struct core_key *key, const struct guard_policy *policy,
                                   const struct asker *asker, bool of_many)
{
    struct refresh *refresh = calloc(1, sizeof *refresh + key->plain_bytes + key->encoded_bytes + 2);
    if (refresh == NULL)
        return NULL;
    struct origin *origin = origin_new(asker);
    char *encoded = refresh->text + key->plain_bytes + 1;
    memcpy(refresh->text, key->plain, key->plain_bytes);
    memcpy(encoded, key->encoded, key->encoded_bytes);
    refresh->core = (struct core_refresh){
        .key = {refresh->text, key->plain_bytes, encoded, key->encoded_bytes},
        .policy = policy,
        .of_many = of_many,
        .origin = origin != NULL ? &origin->core : NULL,
    };
    return refresh;
}

/* Owns it. */
static void post_refresh(struct guard *guard, struct refresh *refresh)
{
    pthread_mutex_lock(&guard->mutex);
    bool wanted = !guard->draining && !guard->ended;
    if (wanted) {
        LL_PREPEND(guard->posted.refreshes, refresh);
        mailbox_wake(guard);
    }
    pthread_mutex_unlock(&guard->mutex);
    if (!wanted)
        refresh_free(refresh);
}

void mailbox_post_refresh(struct guard *guard, const struct get *get, const char *filler)
{
    const struct core_key key = get_key(get);
    struct refresh *refresh = new_refresh(&key, get->policy, &get->asker, get->many != NULL);
    if (refresh == NULL)
        return;
    if (filler != NULL)
        refresh->core.filler = memcpy(refresh->filler, filler, TOKEN_UUID_BYTES);
    post_refresh(guard, refresh);
}

void mailbox_post_kept(struct guard *guard, const struct core_key *key, const struct guard_policy *policy,
                       const struct asker *asker, bool of_many)
{
    if (!near_take_on_refresh(guard->near, key->encoded, key->encoded_bytes, clock_now_us(),
                              policy->failure_ms))
        return;
    struct refresh *refresh = new_refresh(key, policy, asker, of_many);
    if (refresh == NULL)
        return;
    refresh->core.of_kept = true;
    post_refresh(guard, refresh);
}
