/* SPDX-License-Identifier: MIT */
/* lock_model.c - see lock_model.h. */
#include "lock_model.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { TELL_MAX = 16, KEY_SLACK_MS = 1000 };

/* ---- sets ---- */

static int64_t model_now_ms(const struct lock_model *model)
{
    return (int64_t)(model->now_us / 1000);
}

static bool same(const char *one, const char *other)
{
    return strcmp(one, other) == 0;
}

struct lock_model_member *lock_model_find(struct lock_model_set *set, const char *token)
{
    for (size_t i = 0; i < set->count; i++)
        if (same(set->member[i].token, token))
            return &set->member[i];
    return NULL;
}

/* Its place among the members; their number if it is none. */
static size_t rank_of(struct lock_model_set *set, const char *token)
{
    const struct lock_model_member *member = lock_model_find(set, token);
    return member != NULL ? (size_t)(member - set->member) : set->count;
}

static bool take_out(struct lock_model_set *set, const char *token)
{
    const size_t at = rank_of(set, token);
    if (at == set->count)
        return false;
    set->count--;
    memmove(&set->member[at], &set->member[at + 1], (set->count - at) * sizeof set->member[0]);
    return true;
}

/* At the end, or the one that is there anew. */
static void put_in(struct lock_model_set *set, const char *token, int64_t until_ms)
{
    struct lock_model_member *member = lock_model_find(set, token);
    if (member == NULL) {
        assert(set->count < LOCK_MODEL_MEMBERS_MAX);
        if (set->count == 0)
            set->expires_ms = 0;
        member = &set->member[set->count++];
        strcpy(member->token, token);
    }
    member->until_ms = until_ms;
}

static bool drop_ended(struct lock_model_set *set, int64_t now_ms)
{
    const size_t before = set->count;
    size_t kept = 0;
    for (size_t i = 0; i < before; i++)
        if (set->member[i].until_ms > now_ms)
            set->member[kept++] = set->member[i];
    set->count = kept;
    return kept < before;
}

static void keep_key(struct lock_model_set *set, int64_t until_ms)
{
    if (set->expires_ms < until_ms + KEY_SLACK_MS)
        set->expires_ms = until_ms + KEY_SLACK_MS;
}

static uint32_t field(const char *token, size_t at, size_t digits)
{
    char text[9] = "";
    memcpy(text, token + at, digits);
    return (uint32_t)strtoul(text, NULL, 10);
}

static int64_t units_of(const char *token)
{
    return field(token, LOCK_UUID_BYTES + 1, 7);
}

static int64_t limit_of(const char *token)
{
    return field(token, LOCK_UUID_BYTES + 9, 7);
}

static int64_t lease_ms_of(const char *token)
{
    return field(token, LOCK_UUID_BYTES + 17, 8);
}

/* ---- a Redis ---- */

void lock_model_forget(struct lock_model *model)
{
    model->name_count = 0;
}

void lock_model_init(struct lock_model *model, uint32_t max_lease_ms, uint32_t fence_ms)
{
    model->now_us = 0;
    model->max_lease_ms = max_lease_ms;
    model->fence_ms = fence_ms;
    lock_model_forget(model);
}

static void expire_set(const struct lock_model *model, struct lock_model_set *set)
{
    if (set->expires_ms <= model_now_ms(model))
        set->count = 0;
}

/* What has gone by its TTL is not there. */
static struct lock_model_name *look_at(const struct lock_model *model, struct lock_model_name *name)
{
    expire_set(model, &name->held);
    expire_set(model, &name->queue);
    expire_set(model, &name->alive);
    expire_set(model, &name->gone);
    if (name->fence_expires_ms <= model_now_ms(model))
        name->fence = 0;
    if (name->latch.expires_ms <= model_now_ms(model)) {
        name->latch.count = 0;
        name->is_open = false;
    }
    return name;
}

struct lock_model_name *lock_model_name(struct lock_model *model, const char *encoded, size_t bytes)
{
    for (size_t i = 0; i < model->name_count; i++)
        if (strlen(model->name[i].encoded) == bytes && memcmp(model->name[i].encoded, encoded, bytes) == 0)
            return look_at(model, &model->name[i]);
    assert(model->name_count < LOCK_MODEL_NAMES_MAX && bytes <= KEY_ENCODED_MAX);
    struct lock_model_name *name = &model->name[model->name_count++];
    memcpy(name->encoded, encoded, bytes);
    name->encoded[bytes] = '\0';
    name->held.count = name->queue.count = name->alive.count = name->gone.count = name->latch.count = 0;
    name->is_open = false;
    name->fence = 0;
    return name;
}

/* ---- one call ---- */

struct call {
    struct lock_model *model;
    struct lock_model_answer *answer;
    const char *token;
    int64_t now_ms;
    size_t count;
    struct lock_model_name *name[GUARD_LOCK_NAMES_MAX];
};

static struct call begin(struct lock_model *model, const struct lock_action *action,
                         struct lock_model_answer *answer)
{
    struct call call = {.model = model,
                        .answer = answer,
                        .token = action->token,
                        .now_ms = model_now_ms(model),
                        .count = action->count};
    for (size_t i = 0; i < action->count; i++)
        call.name[i] = lock_model_name(model, action->names[i].encoded, action->names[i].bytes);
    answer->reply = (struct lock_reply){.kind = LOCK_DONE};
    answer->told_count = 0;
    return call;
}

static void say_to(struct call *call, const struct lock_model_name *name, const char *token)
{
    assert(call->answer->told_count < LOCK_MODEL_TOLD_MAX);
    struct lock_model_told *told = &call->answer->told[call->answer->told_count++];
    told->name = name;
    told->uuid[0] = '\0';
    if (token != NULL)
        strncat(told->uuid, token, LOCK_UUID_BYTES);
}

/* What has run out goes. A queue and the places in it are two keys: without the other, neither says anything. */
static bool purge(struct call *call, struct lock_model_name *name)
{
    bool changed = drop_ended(&name->held, call->now_ms);
    if (name->queue.count != name->alive.count)
        name->queue.count = name->alive.count = 0;
    for (size_t i = 0; i < name->alive.count; i++)
        if (name->alive.member[i].until_ms <= call->now_ms)
            take_out(&name->queue, name->alive.member[i].token);
    return drop_ended(&name->alive, call->now_ms) || changed;
}

/* What all but one hold. */
static int64_t held_beside(const struct lock_model_name *name, const char *token)
{
    int64_t units = 0;
    for (size_t i = 0; i < name->held.count; i++)
        if (!same(name->held.member[i].token, token))
            units += units_of(name->held.member[i].token);
    return units;
}

/* How many of those in front of the queue may be granted together, now. */
static size_t fitting(const struct lock_model_name *name)
{
    int64_t units = held_beside(name, "");
    size_t count = 0;
    while (count < name->queue.count) {
        const char *token = name->queue.member[count].token;
        units += units_of(token);
        if (units > limit_of(token))
            break;
        count++;
    }
    return count;
}

static bool is_one_of(const char *token, const char *const *tokens, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (same(token, tokens[i]))
            return true;
    return false;
}

/* Those that fit, or everybody if they are many; but for the askers. */
static void tell(struct call *call, const struct lock_model_name *name, const char *const *askers,
                 size_t asker_count)
{
    const size_t count = fitting(name);
    for (size_t i = 0; i < count && i < TELL_MAX; i++)
        if (!is_one_of(name->queue.member[i].token, askers, asker_count))
            say_to(call, name, name->queue.member[i].token);
    if (count > TELL_MAX)
        say_to(call, name, NULL);
}

static void shorten(struct lock_model_member *member, int64_t latest_ms)
{
    if (member->until_ms > latest_ms)
        member->until_ms = latest_ms;
}

/* ---- taking ---- */

static bool fits(const struct call *call, struct lock_model_name *name, bool overtakes)
{
    int64_t units = held_beside(name, call->token) + units_of(call->token);
    const size_t before = overtakes ? 0 : rank_of(&name->queue, call->token);
    for (size_t i = 0; i < before; i++)
        units += units_of(name->queue.member[i].token);
    return units <= limit_of(call->token) || lock_model_find(&name->held, call->token) != NULL;
}

static void grant(struct call *call, size_t i, bool changed)
{
    struct lock_model_name *name = call->name[i];
    const int64_t until_ms = call->now_ms + lease_ms_of(call->token);
    put_in(&name->held, call->token, until_ms);
    keep_key(&name->held, until_ms);
    take_out(&name->queue, call->token);
    take_out(&name->alive, call->token);
    name->fence = name->fence + 1 > call->model->now_us ? name->fence + 1 : call->model->now_us;
    name->fence_expires_ms = call->now_ms + call->model->fence_ms;
    call->answer->reply.fence[i] = name->fence;
    if (changed)
        tell(call, name, &call->token, 1);
}

static int64_t earliest_ms(const struct lock_model_set *set)
{
    int64_t first_ms = INT64_MAX;
    for (size_t i = 0; i < set->count; i++)
        if (set->member[i].until_ms < first_ms)
            first_ms = set->member[i].until_ms;
    return first_ms;
}

/* When does the first hold or place run out? */
static int64_t first_end_ms(const struct lock_model_name *name)
{
    const int64_t held_ms = earliest_ms(&name->held), alive_ms = earliest_ms(&name->alive);
    return held_ms < alive_ms ? held_ms : alive_ms;
}

/* Whoever is refused cuts what it waits for to what it can rightly be. */
static void shorten_ends(const struct call *call, struct lock_model_name *name,
                         const struct lock_action *action)
{
    const bool is_first = action->overtakes || rank_of(&name->queue, call->token) == 0;
    for (size_t i = 0; is_first && i < name->held.count; i++)
        shorten(&name->held.member[i], call->now_ms + lease_ms_of(name->held.member[i].token));
    for (size_t i = 0; !is_first && action->place_ms > 0 && i < name->alive.count; i++)
        shorten(&name->alive.member[i], call->now_ms + action->place_ms);
}

static void note_refusal(struct call *call, const struct lock_action *action, struct lock_model_name *name)
{
    struct lock_reply *reply = &call->answer->reply;
    shorten_ends(call, name, action);
    const int64_t left_ms = first_end_ms(name) - call->now_ms;
    const uint32_t before = (uint32_t)rank_of(&name->queue, call->token);
    if (left_ms < reply->hint_ms)
        reply->hint_ms = (uint32_t)left_ms;
    if (before > reply->before)
        reply->before = before;
}

static void stand_in_line(struct call *call, struct lock_model_name *name, uint32_t place_ms, bool anew)
{
    const int64_t until_ms = call->now_ms + place_ms;
    if (anew)
        take_out(&name->queue, call->token);
    put_in(&name->queue, call->token, 0);
    put_in(&name->alive, call->token, until_ms);
    keep_key(&name->queue, until_ms);
    keep_key(&name->alive, until_ms);
}

static void refuse(struct call *call, struct lock_model_name *name, const struct lock_action *action,
                   bool anew, bool changed)
{
    const bool had_a_part = take_out(&name->held, call->token);
    const bool stood = (anew || action->place_ms == 0) && lock_model_find(&name->queue, call->token) != NULL;
    if (action->place_ms > 0) {
        stand_in_line(call, name, action->place_ms, anew);
    } else {
        take_out(&name->queue, call->token);
        take_out(&name->alive, call->token);
    }
    if (changed || had_a_part || stood)
        tell(call, name, &call->token, 1);
}

static void take(struct call *call, const struct lock_action *action)
{
    struct lock_reply *reply = &call->answer->reply;
    bool changed[GUARD_LOCK_NAMES_MAX], granted = true, anew = false;
    if (lock_model_find(&call->name[0]->gone, call->token) != NULL) {
        reply->kind = LOCK_GONE;
        return;
    }
    reply->hint_ms = action->place_ms > 0 ? action->place_ms : (uint32_t)lease_ms_of(call->token);
    for (size_t i = 0; i < call->count; i++) {
        changed[i] = purge(call, call->name[i]);
        anew = anew || lock_model_find(&call->name[i]->queue, call->token) == NULL;
        if (fits(call, call->name[i], action->overtakes))
            continue;
        granted = false;
        note_refusal(call, action, call->name[i]);
    }
    for (size_t i = 0; i < call->count; i++) {
        if (granted)
            grant(call, i, changed[i]);
        else
            refuse(call, call->name[i], action, anew, changed[i]);
    }
    reply->kind = granted ? LOCK_GRANTED : LOCK_REFUSED;
    if (granted)
        reply->hint_ms = 0;
}

/* ---- the other verbs ---- */

void lock_model_raise(struct lock_model *model, const struct lock_action *action, const uint64_t fence[],
                      struct lock_model_answer *answer)
{
    struct call call = begin(model, action, answer);
    const int64_t until_ms = call.now_ms + lease_ms_of(action->token);
    for (size_t i = 0; i < call.count; i++)
        if (lock_model_find(&call.name[i]->held, action->token) == NULL)
            answer->reply.kind = LOCK_NOT_HELD;
    for (size_t i = 0; i < call.count && answer->reply.kind == LOCK_DONE; i++) {
        struct lock_model_name *name = call.name[i];
        put_in(&name->held, action->token, until_ms);
        keep_key(&name->held, until_ms);
        if (fence != NULL && fence[i] > name->fence)
            name->fence = fence[i];
        name->fence_expires_ms = call.now_ms + model->fence_ms;
    }
}

static void bury(struct call *call, struct lock_model_set *gone)
{
    const int64_t until_ms = call->now_ms + call->model->max_lease_ms;
    drop_ended(gone, call->now_ms);
    put_in(gone, call->token, until_ms);
    keep_key(gone, until_ms);
}

static void give(struct call *call, const struct lock_action *action)
{
    if (action->doubt)
        bury(call, &call->name[0]->gone);
    for (size_t i = 0; i < call->count; i++) {
        struct lock_model_name *name = call->name[i];
        if (!take_out(&name->held, call->token))
            call->answer->reply.kind = LOCK_NOT_HELD;
        if (name->queue.count == 0 && name->alive.count == 0)
            continue;
        purge(call, name);
        take_out(&name->queue, call->token);
        take_out(&name->alive, call->token);
        tell(call, name, &call->token, 1);
    }
}

static void stay(struct call *call, const struct lock_action *action)
{
    struct lock_model_name *name = call->name[0];
    const bool changed = purge(call, name);
    const int64_t until_ms = call->now_ms + action->place_ms;
    const size_t fit = fitting(name);
    struct lock_reply *reply = &call->answer->reply;
    for (size_t i = 0; i < name->alive.count; i++)
        shorten(&name->alive.member[i], until_ms);
    reply->ask_now = call->answer->ask_now;
    for (size_t i = 0; i < action->token_count; i++) {
        const size_t rank = rank_of(&name->queue, action->tokens[i]);
        const bool stands = rank < name->queue.count;
        if (!stands || rank == 0 || rank < fit)
            call->answer->ask_now[reply->ask_now_count++] = (uint32_t)i;
        if (!stands)
            continue;
        put_in(&name->alive, action->tokens[i], until_ms);
        keep_key(&name->queue, until_ms);
        keep_key(&name->alive, until_ms);
    }
    if (changed)
        tell(call, name, action->tokens, action->token_count);
}

/* ---- latch ---- */

/* Who is here now, once this one has come or gone. */
static size_t parties(struct call *call, struct lock_model_set *here, bool is_party, bool leaves)
{
    drop_ended(here, call->now_ms);
    for (size_t i = 0; i < here->count; i++)
        shorten(&here->member[i], call->now_ms + lease_ms_of(here->member[i].token));
    if (leaves)
        take_out(here, call->token);
    else if (is_party)
        put_in(here, call->token, call->now_ms + lease_ms_of(call->token));
    return here->count;
}

static void latch(struct call *call, const struct lock_action *action)
{
    struct lock_model_name *name = call->name[0];
    struct lock_reply *reply = &call->answer->reply;
    const struct lock_model *model = call->model;
    const bool leaves = action->kind == LOCK_GIVE, is_party = leaves || action->units > 0;
    drop_ended(&name->gone, call->now_ms);
    if (leaves && action->doubt)
        bury(call, &name->gone);
    if (!leaves && is_party && lock_model_find(&name->gone, call->token) != NULL) {
        reply->kind = LOCK_GONE;
        return;
    }
    const size_t here = name->is_open ? action->limit : parties(call, &name->latch, is_party, leaves);
    if (!name->is_open && here >= action->limit) {
        name->is_open = true;
        say_to(call, name, NULL);
    }
    name->latch.expires_ms =
        call->now_ms + (model->fence_ms > model->max_lease_ms ? model->fence_ms : model->max_lease_ms);
    reply->before = name->is_open ? 0 : action->limit - (uint32_t)here;
    if (!leaves)
        reply->kind = name->is_open ? LOCK_GRANTED : LOCK_REFUSED;
}

void lock_model_run(struct lock_model *model, const struct lock_action *action,
                    struct lock_model_answer *answer)
{
    struct call call = begin(model, action, answer);
    const bool is_latch = action->lock == GUARD_LOCK_LATCH;
    switch (action->kind) {
    case LOCK_TAKE:
    case LOCK_GIVE:
        if (is_latch)
            latch(&call, action);
        else if (action->kind == LOCK_TAKE)
            take(&call, action);
        else
            give(&call, action);
        break;
    case LOCK_RENEW:
        lock_model_raise(model, action, NULL, answer);
        break;
    case LOCK_STAY:
        stay(&call, action);
        break;
    }
}
