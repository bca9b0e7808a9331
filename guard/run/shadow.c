/* SPDX-License-Identifier: MIT */
/* shadow.c - see shadow.h. */
#include "shadow.h"
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

/* What is left of a get here: until it was told and the shadow has answered, too. */
struct twin {
    struct core_waiter waiter; /* first: of the shadow */
    struct twin *prev, *next;
    bool waits;                /* in the shadow's core */
    bool told;                 /* its get has been answered */
    bool lost;                 /* without a word about its load: cancelled, timed out, shed */
    bool leaves;               /* it was cancelled: so it is to be here */
    uint64_t load;             /* the one that its get has started */
    struct guard_keep keep;    /* what that has said */
    bool kept;                 /* anything */
    struct core_loaded loaded; /* once told: how its load ended; the value is owned */
    size_t key_bytes;
    char key[]; /* encoded */
};

/* A load that the shadow's core wants: that of a get stands in for it. */
struct borrowed {
    struct borrowed *prev, *next;
    uint64_t load;
    struct twin *twin; /* whose load it is; NULL: that has ended */
    bool cancelled;
};

struct shadow {
    struct core *core; /* lent */
    struct twin *twins;
    struct borrowed *borrowed;
    uint32_t leaving; /* of the twins */
};

struct shadow *shadow_open(struct core *core)
{
    struct shadow *shadow = calloc(1, sizeof *shadow);
    if (shadow != NULL)
        shadow->core = core;
    return shadow;
}

static void free_twin(struct shadow *shadow, struct twin *twin)
{
    DL_DELETE(shadow->twins, twin);
    value_unref(&twin->loaded.value);
    free(twin);
}

void shadow_close(struct shadow **closing)
{
    struct shadow *shadow = *closing;
    *closing = NULL;
    if (shadow == NULL)
        return;
    while (shadow->twins != NULL)
        free_twin(shadow, shadow->twins);
    while (shadow->borrowed != NULL) {
        struct borrowed *borrowed = shadow->borrowed;
        DL_DELETE(shadow->borrowed, borrowed);
        free(borrowed);
    }
    free(shadow);
}

/* ---- gets ---- */

static bool is_borrowed(const struct shadow *shadow, const struct twin *twin)
{
    const struct borrowed *borrowed = shadow->borrowed;
    while (borrowed != NULL && borrowed->twin != twin)
        borrowed = borrowed->next;
    return borrowed != NULL;
}

static void free_if_over(struct shadow *shadow, struct twin *twin)
{
    if (!twin->waits && twin->told && !is_borrowed(shadow, twin))
        free_twin(shadow, twin);
}

void shadow_get(struct shadow *shadow, uint64_t now_us, struct get *get)
{
    struct core_key key = get_key(get);
    struct twin *twin = calloc(1, sizeof *twin + key.encoded_bytes);
    if (twin == NULL)
        return;
    twin->key_bytes = key.encoded_bytes;
    memcpy(twin->key, key.encoded, key.encoded_bytes);
    twin->waiter.start_us = get->waiter.start_us;
    twin->waiter.revalidates = get->waiter.revalidates;
    DL_APPEND(shadow->twins, twin);
    get->twin = twin;
    twin->waits =
        core_get(shadow->core, now_us, &key, get->policy, &twin->waiter, get->deadline_us) == GUARD_OK;
}

void shadow_started(const struct get *get, uint64_t load)
{
    if (get->twin != NULL)
        get->twin->load = load;
}

void shadow_kept(struct shadow *shadow, uint64_t load, const struct guard_keep *keep)
{
    struct twin *twin = keep != NULL ? shadow->twins : NULL;
    while (twin != NULL && twin->load != load)
        twin = twin->next;
    if (twin == NULL)
        return;
    twin->keep = *keep;
    twin->kept = true;
}

static struct core_loaded loaded_of(const struct get *get, uint64_t now_us)
{
    const struct guard_result *result = &get->waiter.result;
    struct core_loaded loaded = {.outcome = LOAD_FAILED, .failure = GUARD_FAILURE_UNAVAILABLE};
    loaded.load_us = now_us - get->waiter.start_us;
    if (result->status == GUARD_OK) {
        loaded.outcome = LOAD_OK;
        loaded.value = value_ref(value_behind(result->value));
    } else if (result->status == GUARD_ABSENT) {
        loaded.outcome = LOAD_ABSENT;
    } else if (result->status == GUARD_FAILED) {
        loaded.failure = result->failure;
    }
    return loaded;
}

void shadow_told(struct shadow *shadow, uint64_t now_us, struct get *get)
{
    struct twin *twin = get->twin;
    get->twin = NULL;
    if (twin == NULL)
        return;
    twin->loaded = loaded_of(get, now_us);
    twin->loaded.keep = twin->kept ? &twin->keep : NULL;
    twin->told = true;
    const enum guard_status status = get->waiter.result.status;
    twin->lost = status != GUARD_OK && status != GUARD_ABSENT && status != GUARD_FAILED; /* of its load */
    twin->leaves = twin->waits && status == GUARD_CANCELLED;
    shadow->leaving += twin->leaves;
    free_if_over(shadow, twin);
}

void shadow_answers(struct shadow *shadow)
{
    struct core_waiter *waiter = core_next_answer(shadow->core);
    for (; waiter != NULL; waiter = core_next_answer(shadow->core)) {
        struct twin *twin = (struct twin *)waiter;
        guard_value_unref(&waiter->result.value);
        twin->waits = false;
        shadow->leaving -= twin->leaves;
        twin->leaves = false;
        free_if_over(shadow, twin);
    }
}

/* ---- loads ---- */

/* One whose load has ended is the best: it answers at once. */
static struct twin *find_twin(const struct shadow *shadow, const char *key, size_t key_bytes)
{
    struct twin *found = NULL;
    for (struct twin *twin = shadow->twins; twin != NULL; twin = twin->next) {
        if (twin->lost || twin->key_bytes != key_bytes || memcmp(twin->key, key, key_bytes) != 0)
            continue;
        if (twin->told)
            return twin;
        if (found == NULL)
            found = twin;
    }
    return found;
}

void shadow_load(struct shadow *shadow, const struct core_action *action)
{
    struct borrowed *borrowed = calloc(1, sizeof *borrowed);
    if (borrowed == NULL) {
        core_unperformed(shadow->core, action);
        return;
    }
    borrowed->load = action->load;
    borrowed->twin = find_twin(shadow, action->key.encoded, action->key.encoded_bytes);
    DL_APPEND(shadow->borrowed, borrowed);
}

void shadow_cancel(struct shadow *shadow, uint64_t load)
{
    for (struct borrowed *borrowed = shadow->borrowed; borrowed != NULL; borrowed = borrowed->next)
        if (borrowed->load == load)
            borrowed->cancelled = true;
}

/* One of them. */
static void leave(struct shadow *shadow, uint64_t now_us)
{
    struct twin *twin = shadow->twins;
    while (!twin->leaves)
        twin = twin->next;
    shadow->leaving--;
    twin->leaves = false;
    core_cancel(shadow->core, now_us, &twin->waiter);
}

bool shadow_step(struct shadow *shadow, uint64_t now_us)
{
    if (shadow->leaving > 0) {
        leave(shadow, now_us);
        return true;
    }
    struct borrowed *borrowed = shadow->borrowed;
    while (borrowed != NULL && !borrowed->cancelled && borrowed->twin != NULL && !borrowed->twin->told)
        borrowed = borrowed->next;
    if (borrowed == NULL)
        return core_tell_unperformed(shadow->core, now_us);
    struct twin *twin = borrowed->twin;
    if (!borrowed->cancelled && twin != NULL && twin->lost) {
        /* Its get will not say how the load ended: another one's may. */
        borrowed->twin = find_twin(shadow, twin->key, twin->key_bytes);
        free_if_over(shadow, twin);
        return true;
    }
    struct core_loaded loaded = {.outcome = LOAD_FAILED, .failure = GUARD_FAILURE_UNAVAILABLE};
    if (twin != NULL && twin->told)
        loaded = twin->loaded;
    DL_DELETE(shadow->borrowed, borrowed);
    core_loaded(shadow->core, now_us, borrowed->load, &loaded);
    free(borrowed);
    if (twin != NULL)
        free_if_over(shadow, twin);
    return true;
}

/* ---- watching ---- */

void shadow_stats(const struct guard_stats *fleet, struct guard_stats *stats)
{
    stats->shadow_waits = fleet->collapsed_process + fleet->collapsed_fleet;
    stats->shadow_hits = fleet->hit + fleet->stale + fleet->absent_hit + fleet->failed_hit;
    stats->shadow_saved = stats->shadow_waits + stats->shadow_hits;
    stats->shadow_loads = fleet->load_started;
    stats->lease_acquired = fleet->lease_acquired;
    stats->lease_busy = fleet->lease_busy;
    stats->lease_renewed = fleet->lease_renewed;
    stats->lease_lost = fleet->lease_lost;
    stats->lease_released = fleet->lease_released;
    stats->fill_stored = fleet->fill_stored;
    stats->fill_late = fleet->fill_late;
    stats->fill_refused = fleet->fill_refused;
    stats->fill_unknown = fleet->fill_unknown;
    stats->fill_too_big = fleet->fill_too_big;
    stats->wake_messages = fleet->wake_messages;
    stats->wake_polls = fleet->wake_polls;
    stats->wake_resyncs = fleet->wake_resyncs;
    stats->push_answered = fleet->push_answered;
    stats->invalidated = fleet->invalidated;
    stats->invalidate_unknown = fleet->invalidate_unknown;
    stats->lease_wait = fleet->lease_wait;
    stats->breaker_open = fleet->breaker_open;
    stats->breaker_opened = fleet->breaker_opened;
    stats->moving = fleet->moving;
    stats->replayed = fleet->replayed;
    stats->replay_dropped = fleet->replay_dropped;
}
