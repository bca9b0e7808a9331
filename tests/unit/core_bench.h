/* SPDX-License-Identifier: MIT */
/*
 * core_bench.h - a core on the bench: the test is its clock, its Redis, its loader and its callers.
 *
 * Every event is followed by a drain, as the owner of a core does it: actions go to a queue that the test
 * reads with expect(), answers are noted in the waiters. There is one bench. bench_up() is before every test,
 * bench_close() ends it, so callers are static: the core must come to rest, every accepted get must have been
 * answered once.
 */
#pragma once

#include "guard/core/core.h"
#include "tests/support/test.h"

enum { BENCH_ACTIONS = 4096, BENCH_VALUES = 1 << 16, BENCH_MS = 1000 };

/* An action with its own copy of what it points to. */
struct seen {
    struct core_action action;
    char token[TOKEN_SIZE], prev[TOKEN_SIZE], refused[TOKEN_UUID_BYTES + 1];
    char key[32], waiter[TOKEN_UUID_BYTES + 1], permit[TOKEN_SIZE];
    bool over; /* answered */
};

/* A caller. */
struct caller {
    struct core_waiter waiter; /* first */
    unsigned answers;
    enum guard_status accepted;
};

static struct bench {
    struct core *core;
    struct core_config config;
    struct guard_policy policy;
    uint64_t now_us;
    unsigned tokens;
    struct seen seen[BENCH_ACTIONS];
    size_t seen_first, seen_count;
    unsigned accepted_count, answered_count; /* gets */
    unsigned invalidated;                    /* answered invalidations */
    unsigned spent;                          /* origins given back */
    size_t value_count;
} bench;

static const struct guard_value
    *bench_values[BENCH_VALUES]; /* of all answers; ours until the bench is closed */

static inline void bench_token(void *context, uint32_t lease_ms, char token[TOKEN_SIZE])
{
    (void)context;
    unsigned number = ++bench.tokens;
    snprintf(token, TOKEN_SIZE, "%08x-0000-4000-8000-000000000000 %016x %07u bench", number, number,
             (unsigned)lease_ms);
}

static inline void note_action(const struct core_action *action)
{
    assert_true(bench.seen_count < BENCH_ACTIONS);
    struct seen *seen = &bench.seen[bench.seen_count++];
    *seen = (struct seen){.action = *action};
    if (action->token != NULL)
        snprintf(seen->token, sizeof seen->token, "%s", action->token);
    if (action->prev != NULL)
        snprintf(seen->prev, sizeof seen->prev, "%s", action->prev);
    if (action->refused != NULL)
        snprintf(seen->refused, sizeof seen->refused, "%s", action->refused);
    if (action->waiter != NULL)
        snprintf(seen->waiter, sizeof seen->waiter, "%s", action->waiter);
    if (action->permit != NULL)
        snprintf(seen->permit, sizeof seen->permit, "%s", action->permit);
    if (action->key.encoded != NULL)
        snprintf(seen->key, sizeof seen->key, "%s", action->key.encoded);
}

static inline void drain(void)
{
    struct core_action action;
    while (core_next_action(bench.core, &action))
        note_action(&action);
    struct core_waiter *waiter;
    while ((waiter = core_next_answer(bench.core)) != NULL) {
        ((struct caller *)waiter)->answers++;
        assert_int_equal(((struct caller *)waiter)->answers, 1);
        bench.answered_count++;
        assert_true(bench.value_count < BENCH_VALUES);
        bench_values[bench.value_count++] = waiter->result.value;
    }
    while (core_next_invalidated(bench.core) != NULL)
        bench.invalidated++;
    while (core_next_spent(bench.core) != NULL)
        bench.spent++;
}

/* ---- life ---- */

/* Takes the configuration, after a change of it or a close; a core that has done nothing yet makes way. */
static inline void bench_open(void)
{
    core_free(&bench.core);
    bench.core = core_new(&bench.config);
    assert_non_null(bench.core);
    core_link(bench.core, bench.now_us, 0, true);
}

/* Before every test: a core with the defaults. Its policy may be changed at any time. */
static inline bool bench_up(void)
{
    memset(&bench, 0, sizeof bench);
    bench.now_us = 1000000;
    bench.policy = (struct guard_policy)GUARD_POLICY_DEFAULTS;
    bench.policy.jitter_percent = 0;
    bench.config = (struct core_config){
        .mode = GUARD_MODE_FLEET,
        .max_loads = 2,
        .load_queue = 2,
        .max_waiters = 100,
        .max_value_bytes = 100,
        .max_value_ms = 86400000,
        .seed = 1,
        .make_token = bench_token,
    };
    bench_open();
    return true;
}

/* With so many workers, and so many further places for loads. */
static inline void bench_open_with(uint32_t max_loads, uint32_t load_queue)
{
    bench.config.max_loads = max_loads;
    bench.config.load_queue = load_queue;
    bench_open();
}

/* ---- events ---- */

/* The test has said in the waiter what kind of get this is. */
static inline void get_as_prepared(const char *key, struct caller *caller, uint64_t deadline_us)
{
    struct core_key core_key = {key, strlen(key), key, strlen(key)};
    caller->waiter.start_us = bench.now_us;
    caller->accepted =
        core_get(bench.core, bench.now_us, &core_key, &bench.policy, &caller->waiter, deadline_us);
    bench.accepted_count += caller->accepted == GUARD_OK;
    drain();
}

static inline void get_until(const char *key, struct caller *caller, uint64_t deadline_us)
{
    *caller = (struct caller){.answers = 0};
    get_as_prepared(key, caller, deadline_us);
}

static inline void get_as(const char *key, struct caller *caller, struct core_waiter who)
{
    *caller = (struct caller){.waiter = who};
    get_as_prepared(key, caller, bench.now_us + (uint64_t)bench.policy.deadline_ms * BENCH_MS);
}

static inline void get(const char *key, struct caller *caller)
{
    get_as(key, caller, (struct core_waiter){.of_many = false});
}

/* One of several that are loaded with one query. */
static inline void get_of_many(const char *key, struct caller *caller)
{
    get_as(key, caller, (struct core_waiter){.of_many = true});
}

/* Of a loader, for whose load it asks. */
static inline void get_nested(const char *key, struct caller *caller, const struct seen *load,
                              uint32_t deadline_ms)
{
    *caller = (struct caller){.waiter.parent_load = load->action.load};
    get_as_prepared(key, caller, bench.now_us + (uint64_t)deadline_ms * BENCH_MS);
}

static inline void turn_over(void)
{
    assert_true(core_turn_due(bench.core));
    core_turn_over(bench.core, bench.now_us);
    assert_false(core_turn_due(bench.core));
    drain();
}

static inline void cancel(struct caller *caller)
{
    core_cancel(bench.core, bench.now_us, &caller->waiter);
    drain();
}

static inline void reply(struct seen *to, struct core_reply with)
{
    to->over = true;
    core_replied(bench.core, bench.now_us, to->action.op, &with);
    drain();
}

static inline void reply_code(struct seen *to, int64_t code)
{
    reply(to, (struct core_reply){.kind = REPLY_CODE, .code = code});
}

static inline void reply_kind(struct seen *to, enum core_reply_kind kind)
{
    reply(to, (struct core_reply){.kind = kind});
}

static inline void reply_busy(struct seen *to, uint32_t pttl_ms)
{
    reply(to, (struct core_reply){.kind = REPLY_BUSY, .pttl_ms = pttl_ms});
}

/* Busy with the lease of this tag. */
static inline void reply_leased(struct seen *to, const char *tag)
{
    reply(to, (struct core_reply){.kind = REPLY_BUSY, .pttl_ms = 3000, .lease_tag = tag});
}

static inline void reply_value(struct seen *to, struct core_reply with, const char *body)
{
    struct value *value = value_new(body, strlen(body), "", 0, NULL, 0);
    with.value = value;
    reply(to, with);
    value_unref(&value);
}

static inline void reply_fresh(struct seen *to, const char *body)
{
    reply_value(to, (struct core_reply){.kind = REPLY_FRESH, .age_ms = 10, .left_ms = 20}, body);
}

static inline void reply_stale(struct seen *to, enum core_refresher refresher, const char *body)
{
    reply_value(to, (struct core_reply){.kind = REPLY_STALE, .refresher = refresher, .age_ms = 70}, body);
}

static inline void loaded_as(struct seen *load, struct core_loaded with)
{
    load->over = true;
    core_loaded(bench.core, bench.now_us, load->action.load, &with);
    drain();
}

static inline void loaded(struct seen *load, const char *body)
{
    struct value *value = value_new(body, strlen(body), "", 0, NULL, 0);
    loaded_as(load, (struct core_loaded){.outcome = LOAD_OK, .value = value, .load_us = 5000});
    value_unref(&value);
}

/* With what the loader has said; body NULL: absent. */
static inline void loaded_kept(struct seen *load, const char *body, struct guard_keep keep)
{
    struct value *value = body != NULL ? value_new(body, strlen(body), "", 0, NULL, 0) : NULL;
    loaded_as(load, (struct core_loaded){.outcome = body != NULL ? LOAD_OK : LOAD_ABSENT,
                                         .value = value,
                                         .load_us = 5000,
                                         .keep = &keep});
    value_unref(&value);
}

static inline void load_is_absent(struct seen *load)
{
    loaded_as(load, (struct core_loaded){.outcome = LOAD_ABSENT});
}

static inline void load_fails(struct seen *load, enum guard_failure failure)
{
    loaded_as(load, (struct core_loaded){.outcome = LOAD_FAILED, .failure = failure});
}

static inline void message(const char *key, bool gone)
{
    core_woken(bench.core, bench.now_us, key, strlen(key), gone);
    drain();
}

/* Somebody has stored this, or shares it. */
static inline void hear_pushed(const char *key, const struct core_reply *entry)
{
    core_pushed(bench.core, bench.now_us, key, strlen(key), entry);
    drain();
}

/* Behind an answer of a server loop. */
static inline void refresh_behind(const char *key, struct core_refresh refresh)
{
    refresh.key = (struct core_key){key, strlen(key), key, strlen(key)};
    refresh.policy = &bench.policy;
    core_refresh(bench.core, bench.now_us, &refresh);
    drain();
}

static inline void resync(void)
{
    core_resync(bench.core, bench.now_us);
    drain();
}

static inline void pass_us(uint64_t span_us)
{
    uint64_t until_us = bench.now_us + span_us;
    while (core_next_us(bench.core) <= until_us) {
        if (core_next_us(bench.core) > bench.now_us)
            bench.now_us = core_next_us(bench.core);
        core_tick(bench.core, bench.now_us);
        drain();
    }
    bench.now_us = until_us;
}

static inline void pass(uint32_t span_ms)
{
    pass_us((uint64_t)span_ms * BENCH_MS);
}

/* To the next instant for which the core has something to do. */
static inline void pass_to_next(void)
{
    uint64_t next_us = core_next_us(bench.core);
    assert_true(next_us != UINT64_MAX);
    pass_us(next_us > bench.now_us ? next_us - bench.now_us : 0);
}

/* ---- what is expected ---- */

/* The next action of whatever kind; NULL: none has been sent. */
static inline struct seen *next_seen(void)
{
    return bench.seen_first < bench.seen_count ? &bench.seen[bench.seen_first++] : NULL;
}

/* The next action must be of this kind. */
static inline struct seen *expect(enum core_action_kind kind)
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
    assert_true(core_idle(bench.core));
}

static inline void still_waits(const struct caller *caller)
{
    assert_int_equal(caller->accepted, GUARD_OK);
    assert_int_equal(caller->answers, 0);
}

static inline void answered(const struct caller *caller, enum guard_status status)
{
    assert_int_equal(caller->answers, 1);
    assert_int_equal(caller->waiter.result.status, status);
}

static inline void answered_from(const struct caller *caller, enum guard_status status,
                                 enum guard_source source)
{
    answered(caller, status);
    assert_int_equal(caller->waiter.result.source, source);
}

static inline void answered_value(const struct caller *caller, const char *body, enum guard_source source)
{
    answered_from(caller, GUARD_OK, source);
    assert_non_null(caller->waiter.result.value);
    assert_string_equal(caller->waiter.result.value->body, body);
}

static inline struct guard_stats stats_of(void)
{
    struct guard_stats stats;
    core_stats(bench.core, &stats);
    return stats;
}

/* ---- ways that many tests go ---- */

/* A new get that looks up: the acquire. */
static inline struct seen *lookup_of(const char *key, struct caller *caller)
{
    get(key, caller);
    return expect(CORE_ACQUIRE);
}

/* The lease is granted and its load begins. */
static inline struct seen *lease(struct seen *acquire)
{
    reply_kind(acquire, REPLY_LEASE);
    return expect(CORE_LOAD);
}

/* A new get that leads to a load under the lease. */
static inline struct seen *begin_load(const char *key, struct caller *caller)
{
    return lease(lookup_of(key, caller));
}

/* The same for two callers, of which the second joins. */
static inline struct seen *begin_load_of_two(const char *key, struct caller *first, struct caller *second)
{
    struct seen *load = begin_load(key, first);
    get(key, second);
    return load;
}

/* The lease is renewed after that time. */
static inline void pass_to_renewal(uint32_t span_ms, int64_t code)
{
    pass(span_ms);
    reply_code(expect(CORE_RENEW), code);
}

/* A load is cancelled, and its lease goes back. */
static inline void expect_given_up(void)
{
    expect(CORE_CANCEL);
    reply_code(expect(CORE_RELEASE), 1);
}

static inline void close_core(void)
{
    core_close(bench.core, bench.now_us);
    drain();
}

/* The load comes back and its fill is stored. */
static inline void finish_load(struct seen *load, const char *body)
{
    loaded(load, body);
    reply_code(expect(CORE_FILL), 1);
}

/* The same, and what comes of it for one that waits. */
static inline void loaded_for(struct seen *load, const char *body, struct caller *caller,
                              enum guard_source source)
{
    loaded(load, body);
    answered_value(caller, body, source);
}

static inline void finish_load_for(struct seen *load, const char *body, struct caller *caller,
                                   enum guard_source source)
{
    finish_load(load, body);
    answered_value(caller, body, source);
}

static inline void reply_fresh_for(struct seen *to, const char *body, struct caller *caller,
                                   enum guard_source source)
{
    reply_fresh(to, body);
    answered_value(caller, body, source);
}

/* Answers what is left over, as Redis and a loader would do it that come to their end. */
static inline void answer_leftover(struct seen *seen)
{
    switch (seen->action.kind) {
    case CORE_LOAD:
        load_fails(seen, GUARD_FAILURE_INTERNAL);
        break;
    case CORE_CANCEL:
    case CORE_FORGET:
        break;
    case CORE_ACQUIRE:
    case CORE_RENEW:
    case CORE_FILL:
    case CORE_TOUCH:
    case CORE_RELEASE:
    case CORE_INVALIDATE:
    case CORE_PERMIT_ACQUIRE:
    case CORE_PERMIT_RENEW:
    case CORE_PERMIT_RELEASE:
        reply_kind(seen, REPLY_REFUSED);
        break;
    }
}

/* The end of every test: closes, answers whatever is still under way, and nothing may be left. Does nothing if the
 * test has. */
static inline void bench_close(void)
{
    if (bench.core == NULL)
        return;
    close_core();
    assert_int_equal(bench.answered_count, bench.accepted_count);
    for (size_t i = 0; i < bench.seen_count; i++)
        if (!bench.seen[i].over)
            answer_leftover(&bench.seen[i]);
    assert_true(core_idle(bench.core));
    assert_false(core_has_waiters(bench.core));
    assert_true(core_next_us(bench.core) == UINT64_MAX);
    core_free(&bench.core);
    assert_null(bench.core);
    for (size_t i = 0; i < bench.value_count; i++)
        guard_value_unref(&bench_values[i]);
    bench.value_count = 0;
}

/* For another round of the same test. */
static inline void bench_again(void)
{
    bench_close();
    bench_up();
}
