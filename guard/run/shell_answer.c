/* SPDX-License-Identifier: MIT */
/* shell_answer.c - tells whom the core has answered: gets over their loops, invalidations at once. See
 * shell_parts.h. */
#include "../base/clock.h"
#include "shell_parts.h"
#include <stdlib.h>
#include <utlist.h>

void shell_return_get(struct get *get)
{
    get->in_core = false;
    get->prev = get->next = NULL;
    struct get *list = NULL;
    DL_APPEND(list, get);
    loop_return(get->loop, list);
}

/* Into its loop's outbox; `told` links the loops that have something there. */
static void put_in_outbox(struct get *get, struct guard_loop **told)
{
    struct guard_loop *loop = get->loop;
    get->in_core = false;
    get->prev = get->next = NULL;
    if (loop->outbox == NULL) {
        loop->outbox_next = *told;
        *told = loop;
    }
    DL_APPEND(loop->outbox, get);
}

static void note_heat(struct guard *guard, uint64_t now_us, const struct get *get)
{
    enum guard_source source = get->waiter.result.source;
    if (source == GUARD_FROM_FLIGHT || source == GUARD_FROM_FLEET)
        hot_add(&guard->hot[GUARD_HOT_COLLAPSED], now_us, get->text, 1);
    if (now_us > get->waiter.start_us)
        hot_add(&guard->hot[GUARD_HOT_WAIT], now_us, get->text, now_us - get->waiter.start_us);
}

void shell_tell_answered(struct guard *guard)
{
    struct guard_loop *told = NULL;
    struct core_waiter *waiter = core_next_answer(guard->core);
    if (waiter == NULL)
        return;
    uint64_t now_us = clock_now_us();
    pthread_mutex_lock(&guard->hot_mutex);
    for (; waiter != NULL; waiter = core_next_answer(guard->core)) {
        note_heat(guard, now_us, (struct get *)waiter);
        if (guard->shadow != NULL)
            shadow_told(guard->shadow, now_us, (struct get *)waiter);
        put_in_outbox((struct get *)waiter, &told);
    }
    pthread_mutex_unlock(&guard->hot_mutex);
    while (told != NULL) { /* a loop may be gone once it has its answers */
        struct guard_loop *loop = told;
        struct get *list = loop->outbox;
        told = loop->outbox_next;
        loop->outbox = NULL;
        loop_return(loop, list);
    }
}

void shell_end_invalidation(struct guard *guard, struct invalidation *invalidation,
                            const struct guard_invalidated *result)
{
    const struct core_invalidation *core = &invalidation->core;
    near_invalidation_ends(guard->near, core->of_tag, core->key.encoded, core->key.encoded_bytes);
    pthread_mutex_lock(&guard->mutex);
    guard->invalidation_count--;
    pthread_mutex_unlock(&guard->mutex);
    if (invalidation->done != NULL)
        invalidation->done(invalidation->context, result);
    free(invalidation);
}

void shell_tell_invalidated(struct guard *guard)
{
    struct core_invalidation *core = core_next_invalidated(guard->fleet);
    for (; core != NULL; core = core_next_invalidated(guard->fleet)) {
        struct invalidation *invalidation = (struct invalidation *)core;
        shell_end_invalidation(guard, invalidation, &core->result);
    }
}
