/* SPDX-License-Identifier: MIT */
/*
 * refresh.c - guard_refresh(): a list of keys that is loaded in the background, a few at a time.
 *
 *   the next key --> peek -- fresh ------------------------------------------------> counted
 *        ^             +---- missing --> get, behind loads of users ----------------> counted
 *        |             +---- stale ----> revalidate, likewise ----------------------> counted
 *        +--------------------------------------------------------------------------------+
 *
 * What another process loads meanwhile is good enough for a missing key: of processes that start together one loads it.
 * All are gets as any other, so leases, permits, deadlines and the end of the guard are theirs. AT_ONCE of them are on
 * their way: however long the list is, it takes no more places than that.
 *
 * Threads   guard_refresh() any; it asks for the first key, the last that it does. The rest the guard's.
 * Lifetime  a refreshing is freed after `done`.
 */
#include "../base/clock.h"
#include "ask.h"
#include "kind.h"
#include "mailbox.h"
#include <stdlib.h>
#include <string.h>

enum { AT_ONCE = 4, REFRESH_DEADLINE_MS = 60000 };

/* One key that is on its way. */
struct refresh_turn {
    struct refreshing *refreshing;
    const char *key;
    bool loads;    /* it was not fresh, */
    bool is_stale; /* but there */
};

struct refreshing {
    struct guard *guard;
    struct guard_kind *kind;
    void (*done)(void *context, const struct guard_refreshed *result);
    void *context;
    uint64_t deadline_us;
    struct refresh_turn turns[AT_ONCE];
    size_t turns_begun, turns_left;
    size_t next, count;
    const char *at; /* the next key's text */
    struct guard_refreshed result;
    char keys[]; /* each with its NUL */
};

/* ---- one key ---- */

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

static void on_key_answered(void *context, const struct guard_result *results);

static enum guard_status ask_for_key(struct refresh_turn *turn)
{
    const struct refreshing *refreshing = turn->refreshing;
    const unsigned loads = (turn->is_stale ? GUARD_REVALIDATE : 0) | ASK_REFRESHES;
    uint64_t now_us = clock_now_us();
    if (now_us >= refreshing->deadline_us)
        return GUARD_TIMEOUT;
    const struct guard_request request = {
        .kind = refreshing->kind,
        .key = turn->key,
        .deadline_ms = (uint32_t)((refreshing->deadline_us - now_us + 999) / 1000),
        .flags = turn->loads ? loads : GUARD_PEEK,
        .answered = on_key_answered,
        .context = turn,
    };
    return ask(refreshing->guard, &request, NULL, NULL, NULL);
}

/* False: the list is at its end. */
static bool take_key(struct refresh_turn *turn)
{
    struct refreshing *refreshing = turn->refreshing;
    if (refreshing->next == refreshing->count)
        return false;
    refreshing->next++;
    turn->key = refreshing->at;
    turn->loads = false;
    refreshing->at += strlen(refreshing->at) + 1;
    return true;
}

/* ---- the list ---- */

static void end_turn(struct refreshing *refreshing)
{
    if (--refreshing->turns_left > 0)
        return;
    if (refreshing->done != NULL)
        refreshing->done(refreshing->context, &refreshing->result);
    free(refreshing);
}

/* Asks for its key, or for the next one that can be asked for. */
static void go_on_with(struct refresh_turn *turn)
{
    while (turn->loads || take_key(turn)) {
        enum guard_status status = ask_for_key(turn);
        if (status == GUARD_OK)
            return;
        count_key(turn->refreshing, status);
        turn->loads = false;
    }
    end_turn(turn->refreshing);
}

/* The first answer has come: the others begin. */
static void begin_others(struct refreshing *refreshing)
{
    while (refreshing->turns_begun < AT_ONCE && refreshing->next < refreshing->count) {
        struct refresh_turn *turn = &refreshing->turns[refreshing->turns_begun++];
        turn->refreshing = refreshing;
        refreshing->turns_left++;
        go_on_with(turn);
    }
}

static void on_key_answered(void *context, const struct guard_result *results)
{
    struct refresh_turn *turn = context;
    struct refreshing *refreshing = turn->refreshing;
    bool found = is_answer(results->status);
    bool is_fresh = found && results->source != GUARD_FROM_STALE;
    bool peeked = !turn->loads;
    turn->is_stale = found && !is_fresh;
    turn->loads = peeked && !is_fresh && (found || results->status == GUARD_MISS);
    if (peeked && is_fresh)
        refreshing->result.fresh++;
    else if (!turn->loads)
        count_key(refreshing, results->status);
    begin_others(refreshing);
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
    if (request->keys == NULL)
        return "request->keys is NULL";
    if (request->count == 0)
        return "request->count is 0";
    return request->count > GUARD_REFRESH_MAX ? "request->count is above GUARD_REFRESH_MAX" : NULL;
}

static enum guard_status check_refresh(struct guard *guard, const struct guard_refresh_request *request)
{
    const char *wrong = wrong_refresh(guard, request);
    if (wrong != NULL)
        return request_refuse(guard, "guard_refresh", wrong);
    bool right = ask_check_keys(guard, request->keys, request->count, "guard_refresh") == NULL;
    return right ? GUARD_OK : GUARD_INVALID;
}

static struct refreshing *new_refreshing(struct guard *guard, const struct guard_refresh_request *request)
{
    size_t bytes = 0, used = 0;
    for (size_t i = 0; i < request->count; i++)
        bytes += strlen(request->keys[i]) + 1;
    struct refreshing *refreshing = calloc(1, sizeof *refreshing + bytes);
    if (refreshing == NULL)
        return NULL;
    for (size_t i = 0; i < request->count; i++) {
        size_t key_bytes = strlen(request->keys[i]) + 1;
        memcpy(refreshing->keys + used, request->keys[i], key_bytes);
        used += key_bytes;
    }
    uint32_t within_ms = request->deadline_ms != 0 ? request->deadline_ms : REFRESH_DEADLINE_MS;
    refreshing->guard = guard;
    refreshing->kind = request->kind;
    refreshing->done = request->done;
    refreshing->context = request->context;
    refreshing->deadline_us = clock_now_us() + (uint64_t)within_ms * 1000;
    refreshing->count = request->count;
    refreshing->at = refreshing->keys;
    return refreshing;
}

enum guard_status guard_refresh(struct guard *guard, const struct guard_refresh_request *request)
{
    enum guard_status status = check_refresh(guard, request);
    if (status != GUARD_OK)
        return status;
    struct refreshing *refreshing = new_refreshing(guard, request);
    if (refreshing == NULL)
        return GUARD_NO_MEMORY;
    struct refresh_turn *first = &refreshing->turns[0];
    first->refreshing = refreshing;
    refreshing->turns_begun = refreshing->turns_left = 1;
    take_key(first);
    status = ask_for_key(first);
    if (status != GUARD_OK)
        free(refreshing);
    return status;
}
