/* SPDX-License-Identifier: MIT */
/*
 * refresh.c - guard_refresh(): a list of keys that is loaded in the background, a few at a time.
 *
 *   the next keys --> peek -- fresh ------------------------------------------------> counted
 *        ^             +---- missing --> get, behind loads of users ----------------> counted
 *        |             +---- stale ----> revalidate, likewise ----------------------> counted
 *        +--------------------------------------------------------------------------------+
 *
 * What another process loads meanwhile is good enough for a missing key: of processes that start together one loads
 * it. All are gets as any other, so leases, permits, deadlines and the end of the guard are theirs. AT_ONCE turns are
 * on their way. A turn is one key, or where there is a batch loader as many as one query may have: they are asked for
 * as a request of many. So however long the list is, it takes no more places and workers than there are turns, and of
 * the waiters a quarter at the most.
 *
 * Threads   guard_refresh() any; it asks for the first keys, the last that it does. The rest the guard's.
 * Lifetime  a refreshing is freed after `done`.
 */
#include "../base/check.h"
#include "../base/clock.h"
#include "ask.h"
#include "kind.h"
#include "mailbox.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { AT_ONCE = 4, REFRESH_DEADLINE_MS = 60000, SHARE_OF_WAITERS = 4 };

enum refresh_step {
    REFRESH_LOOKS,  /* are they there? */
    REFRESH_LOADS,  /* what is missing */
    REFRESH_RENEWS, /* what is stale */
};

/* Some keys that are on their way. */
struct refresh_turn {
    struct refreshing *refreshing;
    enum refresh_step step;
    const char *const *asked; /* in this step */
    size_t asked_count;
    const char **missing, **stale; /* what the look has found */
    size_t missing_count, stale_count;
};

struct refreshing {
    struct guard *guard;
    struct guard_refresh_request request; /* but its keys */
    uint64_t deadline_us;
    struct refresh_turn turns[AT_ONCE];
    size_t turns_begun, turns_left;
    size_t next, of_turn; /* keys; so many at a time */
    struct guard_refreshed result;
    const char *keys[]; /* count of them, the same again for what is stale, then each text with its NUL */
};

/* ---- what came of them ---- */

static bool is_answer(enum guard_status status)
{
    return status == GUARD_OK || status == GUARD_ABSENT;
}

static void count_key(struct refreshing *refreshing, enum guard_status status)
{
    struct guard_refreshed *result = &refreshing->result;
    result->loaded += is_answer(status);
    result->failed += status == GUARD_FAILED;
    result->shed += !is_answer(status) && status != GUARD_FAILED;
    if (status == GUARD_TIMEOUT || status == GUARD_CLOSING)
        result->status = status;
}

/* `asked` and `missing` begin at the same place: what is missing comes no later there than it was. */
static void note_found(struct refresh_turn *turn, size_t i, const struct guard_result *found)
{
    if (found->status == GUARD_MISS)
        turn->missing[turn->missing_count++] = turn->asked[i];
    else if (!is_answer(found->status))
        count_key(turn->refreshing, found->status);
    else if (found->source == GUARD_FROM_STALE)
        turn->stale[turn->stale_count++] = turn->asked[i];
    else
        turn->refreshing->result.fresh++;
}

static void on_keys_answered(void *context, const struct guard_result *results);

static enum guard_status ask_for_keys(struct refresh_turn *turn)
{
    static const unsigned flags[] = {
        [REFRESH_LOOKS] = GUARD_PEEK,
        [REFRESH_LOADS] = ASK_REFRESHES,
        [REFRESH_RENEWS] = GUARD_REVALIDATE | ASK_REFRESHES,
    };
    const struct refreshing *refreshing = turn->refreshing;
    uint64_t now_us = clock_now_us();
    if (now_us >= refreshing->deadline_us)
        return GUARD_TIMEOUT;
    struct guard_request request = {
        .kind = refreshing->request.kind,
        .deadline_ms = (uint32_t)((refreshing->deadline_us - now_us + 999) / 1000),
        .flags = flags[turn->step],
        .loop = turn->step == REFRESH_LOOKS ? NULL : refreshing->request.loop,
        .answered = on_keys_answered,
        .context = turn,
    };
    if (refreshing->of_turn == 1) {
        request.key = turn->asked[0];
    } else {
        request.keys = turn->asked;
        request.count = turn->asked_count;
    }
    return ask(refreshing->guard, &request, NULL, NULL, NULL);
}

/* False: the list is at its end. */
static bool take_keys(struct refresh_turn *turn)
{
    struct refreshing *refreshing = turn->refreshing;
    size_t left = refreshing->request.count - refreshing->next;
    turn->step = REFRESH_LOOKS;
    turn->missing = refreshing->keys + refreshing->next;
    turn->stale = turn->missing + refreshing->request.count;
    turn->asked = turn->missing;
    turn->asked_count = left < refreshing->of_turn ? left : refreshing->of_turn;
    refreshing->next += turn->asked_count;
    return turn->asked_count > 0;
}

/* What its keys need next, or the next keys. */
static bool next_keys_of_turn(struct refresh_turn *turn)
{
    bool loads = turn->missing_count > 0;
    if (!loads && turn->stale_count == 0)
        return take_keys(turn);
    size_t *count = loads ? &turn->missing_count : &turn->stale_count;
    turn->step = loads ? REFRESH_LOADS : REFRESH_RENEWS;
    turn->asked = loads ? turn->missing : turn->stale;
    turn->asked_count = *count;
    *count = 0;
    return true;
}

/* ---- the list ---- */

/* Asks for its keys, or for the next ones that can be asked for. */
static void go_on_with(struct refresh_turn *turn)
{
    while (next_keys_of_turn(turn)) {
        enum guard_status status = ask_for_keys(turn);
        if (status == GUARD_OK)
            return;
        for (size_t i = 0; i < turn->asked_count; i++)
            count_key(turn->refreshing, status);
    }
    struct refreshing *refreshing = turn->refreshing;
    if (--refreshing->turns_left > 0)
        return;
    if (refreshing->request.done != NULL)
        refreshing->request.done(refreshing->request.context, &refreshing->result);
    free(refreshing);
}

/* The first answer has come: the others begin. The turn that has it goes on: the list does not end in here. */
static void begin_others(struct refreshing *refreshing)
{
    assert(refreshing->turns_left > 0);
    while (refreshing->turns_begun < AT_ONCE && refreshing->next < refreshing->request.count) {
        struct refresh_turn *turn = &refreshing->turns[refreshing->turns_begun++];
        turn->refreshing = refreshing;
        refreshing->turns_left++;
        go_on_with(turn);
    }
}

static void on_keys_answered(void *context, const struct guard_result *results)
{
    struct refresh_turn *turn = context;
    const bool looked = turn->step == REFRESH_LOOKS;
    for (size_t i = 0; i < turn->asked_count; i++) {
        if (looked)
            note_found(turn, i, &results[i]);
        else
            count_key(turn->refreshing, results[i].status);
    }
    begin_others(turn->refreshing);
    go_on_with(turn);
}

/* ---- asked for ---- */

static const char *wrong_refresh(const struct guard *guard, const struct guard_refresh_request *request)
{
    if (is_forked(guard))
        return FORKED_TEXT;
    if (request == NULL)
        return "request is NULL";
    if (request->kind == NULL)
        return "the kind is NULL";
    if (request->kind->guard != guard)
        return "the kind is another guard's";
    const bool on_loop = kind_policy(request->kind)->loads_on == GUARD_ON_LOOP;
    if (on_loop && request->loop == NULL)
        return "guard_refresh_request.loop is NULL, but the kind's guard_policy.loads_on is GUARD_ON_LOOP";
    if (on_loop && request->loop->guard != guard)
        return "guard_refresh_request.loop is another guard's";
    if (request->keys == NULL)
        return "request->keys is NULL";
    if (request->count == 0)
        return "request->count is 0";
    return request->count > GUARD_REFRESH_MAX ? "request->count is above GUARD_REFRESH_MAX" : NULL;
}

/* How many keys a turn has. */
static size_t keys_of_turn(const struct guard *guard, const struct guard_kind *kind)
{
    const struct guard_policy *policy = kind_policy(kind);
    size_t most = guard->config.max_waiters / (AT_ONCE * SHARE_OF_WAITERS);
    size_t wanted = policy->batch_loader != NULL ? policy->batch_max : 1;
    if (wanted > most)
        wanted = most;
    return wanted > 0 ? wanted : 1;
}

static size_t key_length(const struct guard_refresh_request *request, size_t i)
{
    return check_length(request->keys[i], request->keys_bytes != NULL ? request->keys_bytes[i] : 0);
}

static struct refreshing *new_refreshing(struct guard *guard, const struct guard_refresh_request *request)
{
    size_t bytes = 0;
    for (size_t i = 0; i < request->count; i++)
        bytes += key_length(request, i) + 1;
    size_t lists = 2 * request->count;
    struct refreshing *refreshing = calloc(1, sizeof *refreshing + lists * sizeof *refreshing->keys + bytes);
    if (refreshing == NULL)
        return NULL;
    char *text = (char *)(refreshing->keys + lists);
    for (size_t i = 0; i < request->count; i++) {
        size_t key_bytes = key_length(request, i);
        refreshing->keys[i] = memcpy(text, request->keys[i], key_bytes);
        text += key_bytes + 1; /* its NUL is there: calloc() */
    }
    uint32_t within_ms = request->deadline_ms != 0 ? request->deadline_ms : REFRESH_DEADLINE_MS;
    refreshing->guard = guard;
    refreshing->request = *request;
    refreshing->deadline_us = clock_now_us() + (uint64_t)within_ms * 1000;
    refreshing->of_turn = keys_of_turn(guard, request->kind);
    return refreshing;
}

enum guard_status guard_refresh(struct guard *guard, const struct guard_refresh_request *request)
{
    const char *wrong = wrong_refresh(guard, request);
    if (wrong != NULL)
        return request_refuse(guard, "guard_refresh", wrong);
    const struct ask_keys keys = {request->keys, request->keys_bytes, request->count, false};
    if (ask_check_keys(guard, &keys, "guard_refresh") != NULL)
        return GUARD_INVALID;
    struct refreshing *refreshing = new_refreshing(guard, request);
    if (refreshing == NULL)
        return GUARD_NO_MEMORY;
    struct refresh_turn *first = &refreshing->turns[0];
    first->refreshing = refreshing;
    refreshing->turns_begun = refreshing->turns_left = 1;
    take_keys(first);
    const enum guard_status status = ask_for_keys(first);
    if (status != GUARD_OK)
        free(refreshing);
    return status;
}
