/* SPDX-License-Identifier: MIT */
/*
 * fuzz_locks.c - the bytes decide what happens to a core of the locks next: requests of every kind, replies of every
 * kind, hints, drops, holds that are given back, time, the link, owners, the end.
 *
 * The provider may lie as it likes. Judged is what must hold all the same: every accepted request is answered once
 * and by its deadline; a hold is lost once at most, never after it was given back, and giving it back is told once
 * and in time; a token that is being given back is not used otherwise; no action is repeated while it is under way;
 * alarms ring when they should; and at the end nothing is left. How well the fleet does is the simulator's subject.
 */
#include "tests/fuzz/fuzz.h"

#include "guard/locks/lock_core.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ASKERS = 24,
    OWNERS = 2,
    NAMES = 4,
    PENDING_MAX = 512,
    TOKENS = 8192,
    WAITING_MAX = 16,
    LIMIT_MS = 250,
    QUIET_STEPS = 100000, /* more than any calm world needs to come to rest */
};

struct asker {
    struct lock_request request;
    struct lock_hold hold;
    struct lock_name names[NAMES];
    bool waits, holds, gives, is_lost;
    uint64_t gave_us;
};

struct sent {
    enum lock_action_kind kind;
    uint64_t op;
    char token[LOCK_TOKEN_SIZE];
    size_t token_count;
};

struct play {
    struct lock_core *core;
    struct lock_core_config config;
    uint64_t now_us;
    unsigned tokens;
    bool closed;
    bool is_given[TOKENS];
    struct asker askers[ASKERS];
    struct lock_owner *owners[OWNERS];
    struct sent sent[PENDING_MAX];
    size_t sent_count;
    char last_token[LOCK_TOKEN_SIZE];
};

#define ASKER_OF(member, pointer) ((struct asker *)(void *)((char *)(pointer)-offsetof(struct asker, member)))

static const char *const lock_names[NAMES] = {"a", "b", "catalog:7", "z"};

static void make_lock_token(void *context, uint32_t units, uint32_t limit, uint32_t lease_ms,
                            char token[LOCK_TOKEN_SIZE])
{
    struct play *play = context;
    snprintf(token, LOCK_TOKEN_SIZE, "%08x-0000-4000-8000-000000000000 %07u %07u %08u fuzz:1 0",
             ++play->tokens, (unsigned)units, (unsigned)limit, (unsigned)lease_ms);
}

/* ---- what the core wants, and whom it tells ---- */

static void check_token(struct play *play, const struct lock_action *action)
{
    unsigned long number = strtoul(action->token, NULL, 16);
    assert(number > 0 && number <= play->tokens);
    if (number >= TOKENS)
        return;
    assert(action->kind == LOCK_GIVE || !play->is_given[number]);
    play->is_given[number] = action->kind == LOCK_GIVE;
}

static void take_action(struct play *play, const struct lock_action *action)
{
    assert(action->count > 0 && action->names[0].bytes == strlen(action->names[0].encoded));
    assert((action->kind == LOCK_STAY) == (action->token == NULL));
    assert((action->kind == LOCK_STAY) == (action->token_count > 0));
    for (size_t i = 0; i < play->sent_count; i++)
        assert(play->sent[i].op != action->op);
    assert(play->sent_count < PENDING_MAX);
    struct sent *sent = &play->sent[play->sent_count++];
    *sent = (struct sent){.kind = action->kind, .op = action->op, .token_count = action->token_count};
    if (action->token == NULL)
        return;
    check_token(play, action);
    snprintf(sent->token, sizeof sent->token, "%s", action->token);
    memcpy(play->last_token, sent->token, sizeof play->last_token);
}

static void take_answer(struct asker *asker)
{
    const struct guard_lock_result *result = &asker->request.result;
    assert(asker->waits);
    asker->waits = false;
    asker->holds = result->status == GUARD_LOCK_OK && asker->request.hold != NULL;
    assert(result->status != GUARD_LOCK_SHED && result->status != GUARD_LOCK_LOST &&
           result->status != GUARD_LOCK_UNKNOWN);
}

static void check_rest(const struct play *play)
{
    struct guard_locks_stats stats = {.granted = 0};
    unsigned waiting = 0, held = 0;
    lock_core_stats(play->core, &stats);
    for (unsigned i = 0; i < ASKERS; i++) {
        const struct asker *asker = &play->askers[i];
        waiting += asker->waits;
        held += asker->holds;
        assert(!asker->holds || asker->is_lost || asker->hold.valid_until_us > 0);
        assert(!asker->gives || lock_core_next_us(play->core) <= asker->gave_us + 2000 * LIMIT_MS);
    }
    assert(stats.waiting == waiting && stats.held == held && waiting <= WAITING_MAX);
}

static void drain(struct play *play)
{
    struct lock_action action;
    struct lock_request *request;
    struct lock_hold *hold;
    while (lock_core_next_action(play->core, &action))
        take_action(play, &action);
    while ((request = lock_core_next_answer(play->core)) != NULL)
        take_answer(ASKER_OF(request, request));
    while ((hold = lock_core_next_lost(play->core)) != NULL) {
        struct asker *asker = ASKER_OF(hold, hold);
        assert(asker->holds && !asker->is_lost && hold->why != NULL);
        asker->is_lost = true;
    }
    while ((hold = lock_core_next_given(play->core)) != NULL) {
        struct asker *asker = ASKER_OF(hold, hold);
        assert(asker->gives);
        asker->gives = false;
    }
    check_rest(play);
}

/* ---- requests and holds ---- */

static void fill_request(struct play *play, struct asker *asker, uint8_t how, uint8_t what)
{
    struct lock_request *request = &asker->request;
    *asker = (struct asker){.waits = true};
    for (unsigned i = 0; i < NAMES; i++)
        if ((what >> i & 1) != 0 || (i == NAMES - 1 && request->count == 0))
            asker->names[request->count++] = (struct lock_name){lock_names[i], strlen(lock_names[i])};
    request->names = asker->names;
    request->kind = (enum guard_lock_kind)(how % (GUARD_LOCK_LATCH + 1));
    request->limit = 3;
    request->units = how >> 3 & 1;
    if (request->kind != GUARD_LOCK_LATCH)
        request->units++;
    request->lock_owner = (how & 64) != 0 ? play->owners[how >> 7] : NULL;
    request->once = (how & 48) == 48;
    request->start_us = play->now_us;
    request->deadline_us = play->now_us + (uint64_t)(what >> 4) * (what >> 4) * 100000;
    request->lease_ms = 1000 + 1000 * (uint32_t)(how & 3);
    request->hold_ms = (what & 32) != 0 ? 1500 : 0;
    request->hold = request->kind == GUARD_LOCK_LATCH ? NULL : &asker->hold;
}

static void ask(struct play *play, uint8_t which, uint8_t how, uint8_t what)
{
    struct asker *asker = &play->askers[which % ASKERS];
    const char *why = NULL;
    if (asker->waits || asker->holds || asker->gives)
        return;
    fill_request(play, asker, how, what);
    enum guard_lock_status status = lock_core_ask(play->core, play->now_us, &asker->request, &why);
    asker->waits = status == GUARD_LOCK_OK;
    assert((status == GUARD_LOCK_INVALID) == (why != NULL));
    assert((status == GUARD_LOCK_CLOSING) == play->closed);
    drain(play);
}

static void cancel(struct play *play, uint8_t which)
{
    struct asker *asker = &play->askers[which % ASKERS];
    if (!asker->waits)
        return;
    lock_core_cancel(play->core, play->now_us, &asker->request);
    drain(play);
    assert(!asker->waits);
}

static void give(struct play *play, uint8_t which)
{
    struct asker *asker = &play->askers[which % ASKERS];
    if (!asker->holds)
        return;
    asker->holds = false;
    asker->gives = true;
    asker->gave_us = play->now_us;
    lock_core_give(play->core, play->now_us, &asker->hold);
    drain(play);
    assert(!play->closed || !asker->gives);
}

static void free_owner(struct play *play, uint8_t which)
{
    struct lock_owner **owner = &play->owners[which % OWNERS];
    lock_core_owner_free(play->core, play->now_us, owner);
    assert(*owner == NULL);
    drain(play);
    *owner = lock_core_owner_new(play->core);
    assert(*owner != NULL);
}

/* ---- the provider, and time ---- */

static void reply_to(struct play *play, size_t at, uint8_t how, uint8_t what)
{
    const uint32_t ask_now[] = {what, 0, 3};
    struct sent sent = play->sent[at];
    struct lock_reply reply = {
        .kind = (enum lock_reply_kind)(how % (LOCK_UNANSWERED + 1)),
        .fence = {what, what, what, what},
        .valid_ms = (how & 64) != 0 ? what : 0,
        .hint_ms = (how & 32) != 0 ? what : 0,
        .before = what & 3,
        .ask_now = ask_now,
        .ask_now_count = how >> 3 & 3,
        .why = (how & 128) != 0 ? "why" : NULL,
    };
    play->sent[at] = play->sent[--play->sent_count];
    lock_core_replied(play->core, play->now_us, sent.op, &reply);
    drain(play);
}

static void pass(struct play *play, uint64_t span_us)
{
    uint64_t until_us = play->now_us + span_us;
    for (unsigned rounds = 0; lock_core_next_us(play->core) <= until_us; rounds++) {
        uint64_t next_us = lock_core_next_us(play->core);
        assert(rounds < QUIET_STEPS);
        play->now_us = next_us > play->now_us ? next_us : play->now_us;
        lock_core_tick(play->core, play->now_us);
        assert(lock_core_next_us(play->core) > play->now_us);
        drain(play);
    }
    play->now_us = until_us;
    for (unsigned i = 0; i < ASKERS; i++)
        assert(!play->askers[i].waits || play->now_us < play->askers[i].request.deadline_us);
}

static void tell(struct play *play, uint8_t what)
{
    const char *name = lock_names[what % NAMES];
    bool all = (what & 64) != 0 || play->last_token[0] == '\0';
    lock_core_told(play->core, play->now_us, all ? NULL : play->last_token, name, strlen(name));
    drain(play);
}

static void drop(struct play *play)
{
    lock_core_dropped(play->core, play->now_us, play->last_token, "dropped");
    drain(play);
}

static void close_locks(struct play *play)
{
    play->closed = true;
    lock_core_close(play->core, play->now_us);
    drain(play);
    for (unsigned i = 0; i < ASKERS; i++)
        assert(!play->askers[i].waits && (!play->askers[i].holds || play->askers[i].is_lost));
}

/* ---- the play ---- */

static void step(struct play *play, struct fuzz_input *input)
{
    uint8_t event = fuzz_byte(input), which = fuzz_byte(input), what = fuzz_byte(input);
    switch (event & 15) {
    case 0:
    case 1:
    case 2:
        ask(play, which, what, fuzz_byte(input));
        break;
    case 3:
        cancel(play, which);
        break;
    case 4:
        give(play, which);
        break;
    case 5:
        tell(play, which);
        break;
    case 6:
        pass(play, (uint64_t)which * which * 200);
        break;
    case 7:
        play->now_us += (uint64_t)which * what * 100; /* it was stopped */
        break;
    case 8:
        lock_core_link(play->core, play->now_us, (which & 3) != 0, "link");
        drain(play);
        break;
    case 9:
        if (what < 8)
            free_owner(play, which);
        else if (what < 16)
            close_locks(play);
        else if (what < 128)
            drop(play);
        else
            lock_core_resync(play->core, play->now_us);
        drain(play);
        break;
    default:
        if (play->sent_count > 0)
            reply_to(play, which % play->sent_count, event >> 4 | (what & 0xf0), what);
        break;
    }
    if (play->sent_count > PENDING_MAX / 2)
        reply_to(play, 0, LOCK_UNANSWERED, 0);
}

static void end(struct play *play)
{
    close_locks(play);
    for (unsigned i = 0; i < ASKERS; i++)
        give(play, (uint8_t)i);
    for (unsigned i = 0; i < QUIET_STEPS && !lock_core_idle(play->core); i++) {
        while (play->sent_count > 0)
            reply_to(play, 0, LOCK_UNANSWERED, 0);
        if (lock_core_next_us(play->core) != UINT64_MAX)
            pass(play, lock_core_next_us(play->core) > play->now_us
                           ? lock_core_next_us(play->core) - play->now_us
                           : 0);
    }
    assert(lock_core_idle(play->core));
    assert(lock_core_next_us(play->core) == UINT64_MAX);
    for (unsigned i = 0; i < ASKERS; i++)
        assert(!play->askers[i].waits && !play->askers[i].holds && !play->askers[i].gives);
}

void fuzz_locks(const uint8_t *data, size_t bytes)
{
    static struct play play;
    struct fuzz_input input = {data, bytes};
    uint8_t settings = fuzz_byte(&input);
    play = (struct play){.now_us = 1000000};
    play.config = (struct lock_core_config){
        .kinds = (1u << (GUARD_LOCK_LATCH + 1)) - 1,
        .all_at_once = (settings & 1) != 0,
        .stays = (settings & 2) != 0,
        .limit_ms = LIMIT_MS,
        .place_ms = 600,
        .warn_ms = (settings & 4) != 0 ? 300 : 0,
        .max_requests = WAITING_MAX,
        .once_ms = 400,
        .seed = settings,
        .make_token = make_lock_token,
        .token_context = &play,
    };
    play.core = lock_core_new(&play.config);
    assert(play.core != NULL);
    for (unsigned i = 0; i < OWNERS; i++)
        play.owners[i] = lock_core_owner_new(play.core);
    lock_core_link(play.core, play.now_us, true, NULL);
    while (input.left > 0)
        step(&play, &input);
    end(&play);
    lock_core_free(&play.core);
}
