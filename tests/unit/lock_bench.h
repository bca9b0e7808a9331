/* SPDX-License-Identifier: MIT */
/*
 * lock_bench.h - the core of the locks on the bench: the test is its clock, its provider and its callers.
 *
 * Every event is followed by a drain, as the owner of a core does it: actions go to a queue that the test reads with
 * expect(), answers, losses and givings are noted in the callers. There is one bench. bench_up() is before every
 * test, bench_close() after it, so callers are static: the core must come to rest, every accepted request must have
 * been answered once, every hold that was given back told once. No token is taken or renewed after it was given back.
 */
#pragma once

#include "guard/locks/lock_core.h"
#include "tests/support/test.h"

enum { BENCH_ACTIONS = 32768, BENCH_MS = 1000, BENCH_LEASE_MS = 12000, BENCH_WAIT_MS = 60000 };

/* An action with its own copy of what it points to. */
struct seen {
    struct lock_action action;
    char token[LOCK_TOKEN_SIZE];
    char names[GUARD_LOCK_NAMES_MAX][24];
    char (*tokens)[LOCK_TOKEN_SIZE]; /* of a stay */
    bool over;                       /* answered */
};

/* A caller. */
struct caller {
    struct lock_request request;
    struct lock_hold hold;
    struct lock_name names[GUARD_LOCK_NAMES_MAX];
    const char *why;
    enum guard_lock_status accepted;
    unsigned answers, losses, givings;
};

static struct bench {
    struct lock_core *core;
    struct lock_core_config config;
    uint64_t now_us;
    unsigned tokens;
    bool *is_given; /* by the number of the token */
    struct seen *seen;
    size_t seen_first, seen_count;
    unsigned accepted_count, answered_count, given_count, told_given_count;
} bench;

static inline void bench_token(void *context, uint32_t units, uint32_t limit, uint32_t lease_ms,
                               char token[LOCK_TOKEN_SIZE])
{
    (void)context;
    snprintf(token, LOCK_TOKEN_SIZE, "%08x-0000-4000-8000-000000000000 %07u %07u %08u bench:1 0",
             ++bench.tokens, (unsigned)units, (unsigned)limit, (unsigned)lease_ms);
}

#define CALLER_OF(member, pointer)                                                                           \
    ((struct caller *)(void *)((char *)(pointer)-offsetof(struct caller, member)))

static inline void note_token(const struct lock_action *action)
{
    unsigned long number = strtoul(action->token, NULL, 16);
    assert_in_range(number, 1, BENCH_ACTIONS - 1);
    if (action->kind == LOCK_GIVE)
        bench.is_given[number] = true;
    else
        assert_false(bench.is_given[number]);
}

static inline void note_action(const struct lock_action *action)
{
    assert_true(bench.seen_count < BENCH_ACTIONS);
    if (action->token != NULL)
        note_token(action);
    struct seen *seen = &bench.seen[bench.seen_count++];
    *seen = (struct seen){.action = *action};
    if (action->token != NULL)
        snprintf(seen->token, sizeof seen->token, "%s", action->token);
    for (size_t i = 0; i < action->count; i++)
        snprintf(seen->names[i], sizeof seen->names[i], "%.*s", (int)action->names[i].bytes,
                 action->names[i].encoded);
    if (action->token_count > 0)
        seen->tokens = calloc(action->token_count, sizeof *seen->tokens);
    for (size_t i = 0; i < action->token_count; i++)
        snprintf(seen->tokens[i], LOCK_TOKEN_SIZE, "%s", action->tokens[i]);
}

static inline void note_answer(struct lock_request *request)
{
    struct caller *caller = CALLER_OF(request, request);
    assert_int_equal(++caller->answers, 1);
    bench.answered_count++;
}

static inline void note_loss(struct lock_hold *hold)
{
    struct caller *caller = CALLER_OF(hold, hold);
    assert_int_equal(++caller->losses, 1);
    assert_false(hold->is_given);
    assert_non_null(hold->why);
}

static inline void drain(void)
{
    struct lock_action action;
    struct lock_request *request;
    struct lock_hold *hold;
    while (lock_core_next_action(bench.core, &action))
        note_action(&action);
    while ((request = lock_core_next_answer(bench.core)) != NULL)
        note_answer(request);
    while ((hold = lock_core_next_lost(bench.core)) != NULL)
        note_loss(hold);
    while ((hold = lock_core_next_given(bench.core)) != NULL) {
        assert_int_equal(++CALLER_OF(hold, hold)->givings, 1);
        bench.told_given_count++;
    }
}

/* ---- life ---- */

/* Takes the configuration after a change of it; a core that has done nothing yet makes way. */
static inline void bench_open(void)
{
    lock_core_free(&bench.core);
    bench.core = lock_core_new(&bench.config);
    assert_non_null(bench.core);
    lock_core_link(bench.core, bench.now_us, true, NULL);
}

/* Before every test: a core with the defaults. */
static inline bool bench_up(void)
{
    memset(&bench, 0, sizeof bench);
    bench.seen = calloc(BENCH_ACTIONS, sizeof *bench.seen);
    bench.is_given = calloc(BENCH_ACTIONS, sizeof *bench.is_given);
    bench.now_us = 1000000;
    bench.config = (struct lock_core_config){
        .kinds = (1u << (GUARD_LOCK_LATCH + 1)) - 1,
        .all_at_once = true,
        .stays = true,
        .limit_ms = 250,
        .place_ms = 3000,
        .max_requests = 20000,
        .once_ms = 1000,
        .seed = 1,
        .make_token = bench_token,
    };
    bench_open();
    return true;
}

/* ---- callers ---- */

/* FAIR for these names, up to a NULL; the test may change what it likes before ask(). */
static inline struct caller *prepare(struct caller *caller, const char *const *names)
{
    *caller = (struct caller){.accepted = GUARD_LOCK_INVALID};
    struct lock_request *request = &caller->request;
    for (size_t i = 0; names[i] != NULL; i++)
        caller->names[request->count++] = (struct lock_name){names[i], strlen(names[i])};
    request->names = caller->names;
    request->kind = GUARD_LOCK_FAIR;
    request->units = request->limit = 1;
    request->start_us = bench.now_us;
    request->deadline_us = bench.now_us + (uint64_t)BENCH_WAIT_MS * BENCH_MS;
    request->lease_ms = BENCH_LEASE_MS;
    request->hold = &caller->hold;
    return caller;
}

#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

static inline void ask(struct caller *caller)
{
    if (caller->request.kind == GUARD_LOCK_LATCH)
        caller->request.hold = NULL;
    caller->accepted = lock_core_ask(bench.core, bench.now_us, &caller->request, &caller->why);
    bench.accepted_count += caller->accepted == GUARD_LOCK_OK;
    drain();
}

static inline void ask_as(struct caller *caller, const char *name, enum guard_lock_kind kind,
                          struct lock_owner *owner)
{
    prepare(caller, NAMES(name));
    caller->request.kind = kind;
    caller->request.lock_owner = owner;
    ask(caller);
}

static inline void ask_for_names(struct caller *caller, const char *const *names, struct lock_owner *owner)
{
    prepare(caller, names);
    caller->request.lock_owner = owner;
    ask(caller);
}

static inline void ask_for(struct caller *caller, const char *name)
{
    ask_as(caller, name, GUARD_LOCK_FAIR, NULL);
}

static inline void ask_once(struct caller *caller, const char *name, struct lock_owner *owner)
{
    prepare(caller, NAMES(name));
    caller->request.once = true;
    caller->request.lock_owner = owner;
    ask(caller);
}

static inline void cancel(struct caller *caller)
{
    lock_core_cancel(bench.core, bench.now_us, &caller->request);
    drain();
}

static inline void give(struct caller *caller)
{
    lock_core_give(bench.core, bench.now_us, &caller->hold);
    bench.given_count++;
    drain();
}

/* ---- the provider ---- */

static inline void reply(struct seen *to, struct lock_reply with)
{
    to->over = true;
    lock_core_replied(bench.core, bench.now_us, to->action.op, &with);
    drain();
}

static inline void reply_kind(struct seen *to, enum lock_reply_kind kind)
{
    reply(to, (struct lock_reply){.kind = kind});
}

static inline void grant(struct seen *to, uint64_t fence)
{
    struct lock_reply with = {.kind = LOCK_GRANTED};
    for (size_t i = 0; i < to->action.count; i++)
        with.fence[i] = fence + i;
    reply(to, with);
}

static inline void refuse(struct seen *to, uint32_t before, uint32_t hint_ms)
{
    reply(to, (struct lock_reply){.kind = LOCK_REFUSED, .before = before, .hint_ms = hint_ms});
}

static inline void told(const struct seen *take)
{
    lock_core_told(bench.core, bench.now_us, take->token, take->names[0], strlen(take->names[0]));
    drain();
}

static inline void told_all(const char *name)
{
    lock_core_told(bench.core, bench.now_us, NULL, name, strlen(name));
    drain();
}

static inline void dropped(const struct seen *take)
{
    lock_core_dropped(bench.core, bench.now_us, take->token, "the session is over");
    drain();
}

static inline void resync(void)
{
    lock_core_resync(bench.core, bench.now_us);
    drain();
}

static inline void link_down(void)
{
    lock_core_link(bench.core, bench.now_us, false, "connection refused");
    drain();
}

static inline void link_up(void)
{
    lock_core_link(bench.core, bench.now_us, true, NULL);
    drain();
}

static inline void close_core(void)
{
    lock_core_close(bench.core, bench.now_us);
    drain();
}

/* ---- time ---- */

static inline void tick(void)
{
    lock_core_tick(bench.core, bench.now_us);
    drain();
}

static inline void pass_us(uint64_t span_us)
{
    uint64_t until_us = bench.now_us + span_us;
    unsigned rounds = 0;
    while (lock_core_next_us(bench.core) <= until_us) {
        uint64_t next_us = lock_core_next_us(bench.core);
        assert_true(++rounds < 100000);
        bench.now_us = next_us > bench.now_us ? next_us : bench.now_us;
        tick();
        assert_true(lock_core_next_us(bench.core) > bench.now_us);
    }
    bench.now_us = until_us;
}

static inline void pass(uint64_t span_ms)
{
    pass_us(span_ms * BENCH_MS);
}

/* The process was stopped: nothing happened meanwhile. */
static inline void stand_still(uint64_t span_ms)
{
    bench.now_us += span_ms * BENCH_MS;
}

/* To the next instant for which the core has something to do; the milliseconds until then, rounded down. */
static inline uint64_t pass_to_next(void)
{
    uint64_t next_us = lock_core_next_us(bench.core);
    assert_true(next_us != UINT64_MAX);
    uint64_t span_us = next_us > bench.now_us ? next_us - bench.now_us : 0;
    pass_us(span_us);
    return span_us / BENCH_MS;
}

/* ---- what is expected ---- */

static inline struct seen *next_seen(void)
{
    return bench.seen_first < bench.seen_count ? &bench.seen[bench.seen_first++] : NULL;
}

/* The next action must be of this kind. */
static inline struct seen *expect(enum lock_action_kind kind)
{
    struct seen *seen = next_seen();
    assert_non_null(seen);
    assert_int_equal(seen->action.kind, kind);
    return seen;
}

static inline void sent_nothing(void)
{
    assert_int_equal(bench.seen_first, bench.seen_count);
}

static inline void at_rest(void)
{
    sent_nothing();
    assert_true(lock_core_idle(bench.core));
}

static inline void still_waits(const struct caller *caller)
{
    assert_int_equal(caller->accepted, GUARD_LOCK_OK);
    assert_int_equal(caller->answers, 0);
}

static inline void answered(const struct caller *caller, enum guard_lock_status status)
{
    assert_int_equal(caller->answers, 1);
    assert_int_equal(caller->request.result.status, status);
}

static inline void holds(const struct caller *caller)
{
    answered(caller, GUARD_LOCK_OK);
    assert_int_equal(caller->losses, 0);
    assert_int_equal(caller->givings, 0);
    assert_true(caller->hold.valid_until_us > bench.now_us);
}

static inline void is_lost(const struct caller *caller)
{
    assert_int_equal(caller->losses, 1);
}

static inline void was_given(const struct caller *caller, enum guard_lock_status status)
{
    assert_int_equal(caller->givings, 1);
    assert_int_equal(caller->hold.given, status);
}

static inline struct guard_locks_stats stats_of(void)
{
    struct guard_locks_stats stats = {.granted = 0};
    lock_core_stats(bench.core, &stats);
    return stats;
}

/* ---- ways that many tests go ---- */

/* Asked: the take. */
static inline struct seen *take_of(struct caller *caller, const char *name)
{
    ask_for(caller, name);
    return expect(LOCK_TAKE);
}

/* And granted at once. */
static inline struct seen *hold_name(struct caller *caller, const char *name)
{
    struct seen *take = take_of(caller, name);
    grant(take, 7);
    holds(caller);
    return take;
}

/* Asked, and refused behind `before` others. */
static inline struct seen *wait_for(struct caller *caller, const char *name, uint32_t before)
{
    struct seen *take = take_of(caller, name);
    refuse(take, before, 0);
    still_waits(caller);
    return take;
}

/* Its renewal comes at a third of its lease, and is answered. */
static inline void renew(enum lock_reply_kind kind)
{
    pass(BENCH_LEASE_MS / 3);
    reply_kind(expect(LOCK_RENEW), kind);
}

/* "a" is held, and its renewal under way. */
static inline struct seen *hold_to_renewal(struct caller *caller)
{
    hold_name(caller, "a");
    pass(BENCH_LEASE_MS / 3);
    return expect(LOCK_RENEW);
}

/* Given back, which is told before the provider knows, or without its being asked. */
static inline void give_at_once(struct caller *caller, enum guard_lock_status status)
{
    give(caller);
    was_given(caller, status);
}

static inline void give_answered(struct caller *caller, enum lock_reply_kind kind,
                                 enum guard_lock_status status)
{
    give(caller);
    reply_kind(expect(LOCK_GIVE), kind);
    was_given(caller, status);
}

static inline void give_back(struct caller *caller)
{
    give_answered(caller, LOCK_DONE, GUARD_LOCK_OK);
}

/* ---- the end ---- */

/* Whatever is still under way is answered as a provider would that has nothing. */
static inline void answer_leftovers(void)
{
    for (size_t i = 0; i < bench.seen_count; i++) {
        struct seen *seen = &bench.seen[i];
        if (!seen->over)
            reply_kind(seen, seen->action.kind == LOCK_TAKE ? LOCK_GONE : LOCK_NOT_HELD);
    }
}

/* After every test: closes, and nothing may be left. */
static inline bool bench_close(void)
{
    close_core();
    if (!stats_of().is_up)
        link_up();
    answer_leftovers();
    assert_int_equal(bench.answered_count, bench.accepted_count);
    assert_int_equal(bench.told_given_count, bench.given_count);
    assert_int_equal(stats_of().waiting, 0);
    assert_true(lock_core_idle(bench.core));
    assert_true(lock_core_next_us(bench.core) == UINT64_MAX);
    lock_core_free(&bench.core);
    assert_null(bench.core);
    for (size_t i = 0; i < bench.seen_count; i++)
        free(bench.seen[i].tokens);
    free(bench.seen);
    free(bench.is_given);
    bench.seen = NULL;
    return true;
}
