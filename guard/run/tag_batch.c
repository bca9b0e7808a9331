/* SPDX-License-Identifier: MIT */
/* tag_batch.c - see tag_batch.h. */
#include "tag_batch.h"
#include "../wire/epochs.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

struct tag_batch {
    struct loop *loop;
    struct tag_batch *next; /* a fuller one of the same turn */
    struct tag_asker *askers;
    struct epochs epochs; /* the question */
};

/* ---- the answer ---- */

static void tell_asker(const struct epochs *epochs, struct tag_asker *asker)
{
    asker->epochs.answered = true;
    for (size_t i = 0; i < asker->epochs.count; i++) {
        const size_t index = asker->which[i];
        if (epochs->known[index])
            asker->epochs.of[i] = epochs->of[index];
        else
            asker->epochs.answered = false;
    }
    asker->answered(asker->context);
}

/* In the order in which they have joined. */
static void on_answer(void *context)
{
    struct tag_batch *batch = context;
    struct loop *loop = batch->loop;
    struct tag_asker *asker = NULL, *next = NULL;
    DL_FOREACH_SAFE (batch->askers, asker, next)
        tell_asker(&batch->epochs, asker);
    free(loop->spare_batch);
    loop->spare_batch = batch;
}

/* ---- the question ---- */

static struct tag_batch *new_batch(struct loop *loop)
{
    struct tag_batch *batch = loop->spare_batch != NULL ? loop->spare_batch : malloc(sizeof *batch);
    if (batch == NULL)
        return NULL;
    loop->spare_batch = NULL;
    batch->loop = loop;
    batch->next = loop->tag_batches;
    batch->askers = NULL;
    epochs_begin(&batch->epochs);
    batch->epochs.answered = on_answer;
    batch->epochs.context = batch;
    return batch;
}

/* False: there is no room for all of them. */
static bool add_asker(struct tag_batch *batch, const char *name_space, const struct tag *tags,
                      struct tag_asker *asker)
{
    for (size_t i = 0; i < asker->epochs.count; i++) {
        int index = epochs_add(&batch->epochs, name_space, &tags[i]);
        if (index < 0)
            return false;
        asker->which[i] = (uint8_t)index;
    }
    DL_APPEND(batch->askers, asker);
    return true;
}

bool tag_batch_join(struct loop *loop, struct tag_asker *asker, const char *tags, size_t bytes)
{
    const char *name_space = loop->guard->protocol.name_space;
    struct tag split[GUARD_TAGS_MAX];
    asker->epochs.count = tags_cut(tags, bytes, split);
    if (loop->parts_closed)
        return false;
    if (loop->tag_batches == NULL || !add_asker(loop->tag_batches, name_space, split, asker)) {
        struct tag_batch *batch = new_batch(loop);
        if (batch == NULL)
            return false;
        loop->tag_batches = batch;
        bool fits = add_asker(batch, name_space, split, asker);
        assert(fits);
        (void)fits;
    }
    host_soon(loop->host, &loop->sender);
    return true;
}

void tag_batch_send(struct loop *loop)
{
    struct tag_batch *batch = loop->tag_batches, *next = NULL;
    loop->tag_batches = NULL;
    for (; batch != NULL; batch = next) {
        next = batch->next;
        if (epochs_send(&batch->epochs, loop->redis, loop->guard->protocol.in_cluster))
            continue;
        memset(batch->epochs.known, 0, sizeof batch->epochs.known); /* nothing is known of any */
        on_answer(batch);
    }
}
