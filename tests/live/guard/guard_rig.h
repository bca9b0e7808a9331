/* SPDX-License-Identifier: MIT */
/*
 * guard_rig.h - a fleet in one process: several guards, one private Redis, one source behind a gate.
 *
 * There is one fleet. Each of its guards stands for a process: they share nothing but Redis. The source counts its
 * loads and holds them at its gate until the test opens it, so that a test waits for what it needs instead of
 * sleeping. fleet_close() ends every test, so asks are static: each accepted get must have been answered once and
 * counted once.
 */
#pragma once

#include "guard/guard.h"
#include "guard/run/ask.h"
#include "load/base/clock.h"
#include "load/stack/stack.h"
#include "tests/support/test.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { RIG_LIMIT_MS = 40000, FLEET_MAX = 20 };

/* ---- waiting for what another thread does ---- */

static inline uint64_t rig_now_ms(void)
{
    return clock_us() / 1000;
}

/* ---- the source ---- */

enum source_verdict {
    SOURCE_ROW,
    SOURCE_ABSENT,
    SOURCE_UNCHANGED,
    SOURCE_FAIL,
    SOURCE_NOTHING,
    SOURCE_TWICE,
    SOURCE_EXIT
};

struct source {
    int gate;                                /* an eventfd; readable: open */
    atomic_bool stubborn;                    /* does not look at its cancellation */
    _Atomic(const struct guard_keep *) keep; /* said of what it loads; NULL: nothing */
    atomic_bool of_asker;                    /* a row is the text that its asker is */
    atomic_uint begun, over;                 /* loads */
    atomic_uint running, most;               /* at a time */
    atomic_uint saw_cancel; /* loads that found cancel_fd readable and were told so by the flag too */
    atomic_uint left_ms;    /* what the last load had left when it began */
    _Atomic(enum source_verdict) verdict;
    enum guard_failure failure;
    const char *body; /* NULL: "KEY vN", N the version */
    size_t body_bytes;
    const char *validator;
    const char *tag;     /* NULL: none */
    atomic_uint version; /* of the rows */
};

static inline void source_init(struct source *source)
{
    memset(source, 0, sizeof *source);
    source->gate = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    source->failure = GUARD_FAILURE_UNAVAILABLE;
    atomic_store(&source->version, 1);
}

/* Does nothing if that is done, or nothing was there. */
static inline void source_clear(struct source *source)
{
    if (source->gate > 0)
        close(source->gate);
    source->gate = 0;
}

static inline void source_shut(struct source *source)
{
    eventfd_t count = 0;
    eventfd_read(source->gate, &count);
}

static inline void source_open(struct source *source)
{
    eventfd_write(source->gate, 1);
}

/* False: cancelled first. */
static inline bool source_pass(struct source *source, struct guard_load *load)
{
    struct pollfd fds[] = {{source->gate, POLLIN, 0}, {guard_load_cancel_fd(load), POLLIN, 0}};
    while (poll(fds, atomic_load(&source->stubborn) ? 1 : 2, -1) <= 0)
        ;
    if ((fds[0].revents & POLLIN) != 0 || !guard_load_cancelled(load))
        return true;
    atomic_fetch_add(&source->saw_cancel, 1);
    return false;
}

static inline void source_row(struct source *source, struct guard_load *load, unsigned version)
{
    char row[4200];
    const char *asker = guard_load_asker(load);
    if (atomic_load(&source->of_asker)) {
        guard_load_done(load, asker != NULL ? asker : "", asker != NULL ? strlen(asker) : 0, NULL);
        return;
    }
    if (source->body != NULL) {
        guard_load_done(load, source->body, source->body_bytes, source->validator);
        return;
    }
    int bytes = snprintf(row, sizeof row, "%s v%u", guard_load_key(load), version);
    guard_load_done(load, row, (size_t)bytes, source->validator);
}

static inline void source_leave(void *context)
{
    struct source *source = context;
    atomic_fetch_sub(&source->running, 1);
    atomic_fetch_add(&source->over, 1);
}

static inline void source_finish(struct source *source, struct guard_load *load, unsigned version)
{
    if (source->tag != NULL)
        guard_load_tag(load, source->tag);
    const struct guard_keep *keep = atomic_load(&source->keep);
    if (keep != NULL)
        guard_load_keep(load, keep);
    switch (atomic_load(&source->verdict)) {
    case SOURCE_ROW:
        source_row(source, load, version);
        return;
    case SOURCE_ABSENT:
        guard_load_absent(load);
        return;
    case SOURCE_UNCHANGED:
        guard_load_unchanged(load);
        return;
    case SOURCE_FAIL:
        guard_load_fail(load, source->failure);
        return;
    case SOURCE_TWICE:
        source_row(source, load, version);
        guard_load_fail(load, GUARD_FAILURE_REJECTED);
        guard_load_done(load, "second", 6, NULL);
        return;
    case SOURCE_EXIT:
        pthread_exit(NULL);
    case SOURCE_NOTHING:
        return;
    }
}

/* Two threads may do this at a time, and the smaller number last. */
static inline void rig_raise(atomic_uint *most, unsigned value)
{
    unsigned seen = atomic_load(most);
    while (value > seen && !atomic_compare_exchange_weak(most, &seen, value))
        ;
}

/* The loader of all tests. It reads the row's version when it begins, as a query would. */
static inline void source_load(struct guard_load *load, void *context)
{
    struct source *source = context;
    unsigned version = atomic_load(&source->version);
    rig_raise(&source->most, atomic_fetch_add(&source->running, 1) + 1);
    atomic_store(&source->left_ms, guard_load_left_ms(load));
    atomic_fetch_add(&source->begun, 1);
    pthread_cleanup_push(source_leave, source);
    if (source_pass(source, load))
        source_finish(source, load, version);
    else
        guard_load_fail(load, GUARD_FAILURE_UNAVAILABLE);
    pthread_cleanup_pop(1);
}

/* ---- the fleet ---- */

static struct stack_redis rig_redis; /* of the program */
static unsigned rig_tests;

static struct fleet {
    struct guard_config config;
    struct guard_policy policy;
    char name_space[16];
    struct source source;
    size_t count;
    struct guard *guards[FLEET_MAX];
    struct guard_kind *kinds[FLEET_MAX];
    atomic_uint accepted[FLEET_MAX];
    atomic_uint shed[FLEET_MAX]; /* refused at once, but counted */
    atomic_uint answered;
    uint32_t drain_ms; /* of fleet_close() */
} fleet;

static inline bool rig_start(void)
{
    return stack_redis_start(&rig_redis, NULL);
}

static inline bool rig_stop(void)
{
    stack_redis_stop(&rig_redis);
    return true;
}

/* Before every test: settings of its own; change them before fleet_open(). */
static inline void fleet_init(void)
{
    source_clear(&fleet.source); /* of settings that were thrown away */
    memset(&fleet, 0, sizeof fleet);
    fleet.config = (struct guard_config)GUARD_CONFIG_DEFAULTS;
    fleet.policy = (struct guard_policy)GUARD_POLICY_DEFAULTS;
    snprintf(fleet.name_space, sizeof fleet.name_space, "t%u", ++rig_tests);
    fleet.config.name_space = fleet.name_space;
    fleet.config.redis_url = rig_redis.url;
    /* So long that a machine that stands still for seconds neither times a command out nor ends a lease, a load at
     * the gate or a get: where that is what a test is about, it sets its own. */
    fleet.config.redis_limit_ms = 5000;
    fleet.policy.lease_ms = 15000;
    fleet.policy.load_limit_ms = 30000;
    fleet.policy.deadline_ms = 60000;
    fleet.policy.jitter_percent = 0;
    source_init(&fleet.source);
    fleet.policy.loader = source_load;
    fleet.policy.context = &fleet.source;
    fleet.drain_ms = 10000;
}

/* With a near cache whose entries live longer than anything is waited for. */
static inline void fleet_keep_near(void)
{
    fleet.config.near_bytes = 1 << 20;
    fleet.policy.near_ms = 60000;
}

static inline bool fleet_before(void)
{
    fleet_init();
    return true;
}

static inline struct guard_stats stats_of(struct guard *guard)
{
    struct guard_stats stats;
    guard_stats(guard, &stats);
    return stats;
}

static inline bool is_up(struct guard *guard)
{
    struct guard_stats stats = stats_of(guard);
    return stats.redis_state == GUARD_REDIS_UP && stats.wake_state == GUARD_REDIS_UP;
}

static inline void fleet_add(void)
{
    struct guard_error error = {.text = ""};
    size_t i = fleet.count++;
    if (guard_open(&fleet.config, &fleet.guards[i], &error) != GUARD_OK)
        fail_msg("guard_open: %s", error.text);
    if (guard_kind_add(fleet.guards[i], &fleet.policy, &fleet.kinds[i], &error) != GUARD_OK)
        fail_msg("guard_kind_add: %s", error.text);
}

/* `count` guards, connected. */
static inline void fleet_open(size_t count)
{
    while (fleet.count < count)
        fleet_add();
    for (size_t i = 0; i < count; i++)
        WAIT_UNTIL(is_up(fleet.guards[i]));
}

static inline uint64_t answers_of(const struct guard_stats *s)
{
    return s->hit + s->stale + s->absent_hit + s->failed_hit + s->loaded + s->collapsed_process +
           s->collapsed_fleet + s->failed + s->shed + s->timed_out + s->cancelled + s->closed + s->missed +
           s->near_hit + s->kept;
}

static inline uint64_t answers_counted(struct guard *guard)
{
    struct guard_stats stats = stats_of(guard);
    return answers_of(&stats);
}

static inline uint64_t durations_counted(struct guard *guard)
{
    struct guard_stats stats = stats_of(guard);
    uint64_t sum = 0;
    for (size_t i = 0; i < GUARD_HISTOGRAM_BUCKETS; i++)
        sum += stats.get_duration.count[i];
    return sum;
}

static inline unsigned fleet_accepted(void)
{
    unsigned sum = 0;
    for (size_t i = 0; i < FLEET_MAX; i++)
        sum += atomic_load(&fleet.accepted[i]);
    return sum;
}

/* Sum of one gauge or counter over the fleet. */
#define FLEET_SUM(field)                                                                                     \
    fleet_sum(offsetof(struct guard_stats, field), sizeof((struct guard_stats *)0)->field)

static inline uint64_t fleet_sum(size_t offset, size_t bytes)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < fleet.count; i++) {
        struct guard_stats stats = stats_of(fleet.guards[i]);
        uint32_t gauge = 0;
        uint64_t counter = 0;
        memcpy(bytes == sizeof gauge ? (void *)&gauge : (void *)&counter, (char *)&stats + offset, bytes);
        sum += gauge + counter;
    }
    return sum;
}

/* The same again, and no more, if the test has done it. */
static inline void fleet_close(void)
{
    if (fleet.source.gate > 0)
        source_open(&fleet.source);
    WAIT_UNTIL(atomic_load(&fleet.answered) == fleet_accepted());
    for (size_t i = 0; i < fleet.count; i++) {
        struct guard *guard = fleet.guards[i];
        if (guard == NULL)
            continue;
        WAIT_UNTIL(answers_counted(guard) == atomic_load(&fleet.accepted[i]) + atomic_load(&fleet.shed[i]));
        WAIT_UNTIL(durations_counted(guard) == atomic_load(&fleet.accepted[i]));
        if (fleet.config.mode != GUARD_MODE_OFF)
            assert_int_equal(stats_of(guard).load_duplicate, 0);
        assert_int_equal(guard_close(&fleet.guards[i], fleet.drain_ms), GUARD_OK);
        assert_null(fleet.guards[i]);
    }
    assert_int_equal(atomic_load(&fleet.answered), fleet_accepted());
    assert_int_equal(atomic_load(&fleet.source.running), 0);
    source_clear(&fleet.source);
}

/* ---- asking ---- */

struct ask {
    struct guard_result result; /* its value is ours */
    atomic_uint answers;
    pthread_t thread;
    guard_ticket ticket;
    atomic_bool starting; /* the caller is still inside its call */
    pthread_t caller;
};

static inline void ask_answered(void *context, const struct guard_result *result)
{
    struct ask *ask = context;
    assert_false(atomic_load(&ask->starting) && pthread_equal(pthread_self(), ask->caller));
    ask->thread = pthread_self();
    ask->result = *result;
    if (result->value != NULL)
        guard_value_ref(result->value);
    atomic_fetch_add(&fleet.answered, 1);
    atomic_fetch_add(&ask->answers, 1);
}

/* What is missing in the request is who asks, and who is told. */
static inline enum guard_status ask_as(size_t i, struct ask *ask, struct guard_request request)
{
    request.kind = fleet.kinds[i];
    request.answered = ask_answered;
    request.context = ask;
    memset(ask, 0, sizeof *ask);
    ask->caller = pthread_self();
    atomic_store(&ask->starting, true);
    atomic_fetch_add(&fleet.accepted[i], 1);
    enum guard_status status = guard_get(fleet.guards[i], &request, NULL, &ask->ticket);
    atomic_store(&ask->starting, false);
    if (status != GUARD_OK)
        atomic_fetch_sub(&fleet.accepted[i], 1);
    if (status == GUARD_SHED)
        atomic_fetch_add(&fleet.shed[i], 1);
    return status;
}

static inline enum guard_status ask_try_as(size_t i, struct ask *ask, const char *key, uint32_t deadline_ms,
                                           unsigned flags)
{
    return ask_as(i, ask, (struct guard_request){.key = key, .deadline_ms = deadline_ms, .flags = flags});
}

static inline enum guard_status ask_try(size_t i, struct ask *ask, const char *key, uint32_t deadline_ms)
{
    return ask_try_as(i, ask, key, deadline_ms, 0);
}

static inline void ask_start(size_t i, struct ask *ask, const char *key)
{
    assert_int_equal(ask_try(i, ask, key, 0), GUARD_OK);
    assert_true(ask->ticket != 0);
}

static inline void ask_wait(struct ask *ask)
{
    WAIT_UNTIL(atomic_load(&ask->answers) > 0);
    assert_int_equal(atomic_load(&ask->answers), 1);
}

static inline void ask_clear(struct ask *ask)
{
    guard_value_unref(&ask->result.value);
}

/* References to the askers of all requests that name these. */
static atomic_int asker_refs;

static inline void ref_asker(void *asker)
{
    (void)asker;
    atomic_fetch_add(&asker_refs, 1);
}

static inline void unref_asker(void *asker)
{
    (void)asker;
    atomic_fetch_sub(&asker_refs, 1);
}

/* For guard_invalidate() and its kin. */
#define KEY_CHANGE(name, within_ms) (&(const struct guard_change){.key = (name), .deadline_ms = (within_ms)})
#define TAG_CHANGE(name, within_ms) (&(const struct guard_change){.tag = (name), .deadline_ms = (within_ms)})

/* Confirmed by Redis. */
static inline struct guard_invalidated rig_invalidate(size_t i, const struct guard_change *change)
{
    struct guard_invalidated result;
    assert_int_equal(guard_invalidate_wait(fleet.guards[i], change, &result), GUARD_OK);
    return result;
}

/* The blocking form; the value is the caller's. */
static inline struct guard_result get_as(size_t i, const char *key, unsigned flags)
{
    struct guard_result result;
    struct guard_request request = {.kind = fleet.kinds[i], .key = key, .flags = flags};
    atomic_fetch_add(&fleet.accepted[i], 1);
    enum guard_status status = guard_get_wait(fleet.guards[i], &request, &result);
    atomic_fetch_add(&fleet.answered, 1);
    assert_int_equal(status, result.status);
    return result;
}

static inline struct guard_result get_of(size_t i, const char *key)
{
    return get_as(i, key, 0);
}

static inline void assert_row(const struct guard_result *result, const char *row)
{
    assert_int_equal(result->status, GUARD_OK);
    assert_non_null(result->value);
    assert_string_equal(result->value->body, row);
    assert_int_equal(result->value->body_bytes, strlen(row));
    assert_int_equal(result->failure, GUARD_FAILURE_NONE);
}

/* Waits for the answer, checks it and lets go. */
static inline void expect_answer(struct ask *ask, const char *row)
{
    ask_wait(ask);
    assert_row(&ask->result, row);
    ask_clear(ask);
}

/* Asks, checks and lets go. */
static inline struct guard_result expect_row(size_t i, const char *key, const char *row)
{
    struct guard_result result = get_of(i, key);
    assert_row(&result, row);
    guard_value_unref(&result.value);
    assert_null(result.value);
    return result;
}

static inline struct guard_result expect(size_t i, const char *key, enum guard_status status)
{
    struct guard_result result = get_of(i, key);
    assert_int_equal(result.status, status);
    guard_value_unref(&result.value);
    return result;
}

/* One command to Redis that must work, in hiredis's format. */
#define rig_do(...) assert_true(stack_redis_do(&rig_redis, __VA_ARGS__))

/* What Redis answers to a command with one key of this fleet, as guard/base/key.h names it. */
static inline long long redis_number(const char *command, const char *key, char role)
{
    char name[256];
    snprintf(name, sizeof name, "%s csg1:{%s:%s}:%c", command, fleet.name_space, key, role);
    const long long number = stack_redis_number(&rig_redis, name);
    assert_int_not_equal(number, STACK_REDIS_NO_NUMBER);
    return number;
}

static inline bool is_cached(const char *key)
{
    return redis_number("EXISTS", key, 'v') == 1;
}

static inline bool is_leased(const char *key)
{
    return redis_number("EXISTS", key, 'l') == 1;
}

/* The value that is there grows older: it has so long to live. */
static inline void age_value(const char *key, int left_ms)
{
    assert_int_equal(
        stack_redis_number(&rig_redis, "PEXPIRE csg1:{%s:%s}:v %d", fleet.name_space, key, left_ms), 1);
}

/* ---- while another process loads ---- */

/*
 * A flight that waits for another process also polls, soon every 250 to 750 ms. What needs a time without a question
 * of its own begins right after a poll (await_poll()), and begins again if it was not undisturbed().
 *
 * A poll is counted when it is decided, an answer when it has been read: none is under way when each lookup, the
 * first included, was answered "busy". `since` was read before the only flight of the guard began.
 */
enum { SLOW_POLLS = 6 };

static inline uint64_t lookups_decided(const struct guard_stats *now, const struct guard_stats *since)
{
    return 1 + now->wake_polls - since->wake_polls;
}

static inline bool has_polled(const struct guard_stats *now, const struct guard_stats *since)
{
    const uint64_t decided = lookups_decided(now, since);
    return decided > SLOW_POLLS && now->lease_busy - since->lease_busy >= decided;
}

/* Returns right after a poll that is followed by a pause, what the guard had counted then. */
static inline struct guard_stats await_poll(struct guard *guard, const struct guard_stats *since)
{
    struct guard_stats now;
    WAIT_UNTIL((now = stats_of(guard), has_polled(&now, since)));
    return now;
}

/* Since that poll nothing was asked, nor was anything then. (Beside its polls a flight looks again when the
 * subscription was made anew; if it was just asking, only the answer shows it.) */
static inline bool undisturbed(struct guard *guard, const struct guard_stats *since,
                               const struct guard_stats *poll)
{
    const struct guard_stats now = stats_of(guard);
    return poll->lease_busy - since->lease_busy == lookups_decided(poll, since) &&
           now.wake_polls == poll->wake_polls && now.wake_resyncs == since->wake_resyncs;
}

/* At most so many canaries has a guard published since, each a command and a round trip: one a second. */
static inline uint64_t canaries_since(uint64_t begun_ms)
{
    return 2 + (rig_now_ms() - begun_ms) / 1000;
}

/* ---- near ---- */

/* Only there. As a get: it is accepted and answered if it is a hit. */
static inline bool near_of(size_t i, const char *key, struct guard_result *result)
{
    bool hit = ask_near(fleet.guards[i], fleet.kinds[i], key, strlen(key), result);
    if (hit) {
        atomic_fetch_add(&fleet.accepted[i], 1);
        atomic_fetch_add(&fleet.answered, 1);
    }
    return hit;
}

static inline void now_unasked(void *context, const struct guard_result *results)
{
    (void)context, (void)results;
    fail_msg("an answer to what was answered at once, or refused");
}

/* What guard_get() says of a key that is near, or of a guard that refuses it. */
static inline enum guard_status now_of(size_t i, const char *key, struct guard_result *result)
{
    struct guard_request request = {.kind = fleet.kinds[i], .key = key, .answered = now_unasked};
    enum guard_status status = guard_get(fleet.guards[i], &request, result, NULL);
    if (status == GUARD_NOW) {
        atomic_fetch_add(&fleet.accepted[i], 1);
        atomic_fetch_add(&fleet.answered, 1);
    }
    return status;
}

static inline bool is_near(size_t i, const char *key)
{
    struct guard_result result;
    bool hit = near_of(i, key, &result);
    if (hit)
        guard_value_unref(&result.value);
    return hit;
}

/* A hit in Redis is what puts it in. */
static inline void bring_near(size_t i, const char *key, const char *row)
{
    uint64_t end_ms = rig_now_ms() + RIG_LIMIT_MS;
    while (!is_near(i, key)) {
        assert_true(rig_now_ms() < end_ms);
        expect_row(i, key, row);
    }
}

/* ---- logins ---- */

enum { RIG_URL_BYTES = 96, RIG_RULES_BYTES = 1024 };

/* A user of the password PASSWORD is given these rules, or further ones. */
static inline void rig_permit(const char *user, const char *rules)
{
    char command[RIG_RULES_BYTES + 64];
    snprintf(command, sizeof command, "ACL SETUSER %s %s", user, rules);
    rig_do(command);
}

static inline void rig_forget(const char *user)
{
    rig_do("ACL DELUSER %s", user);
}

static inline void rig_url_of(const char *user, unsigned database, char url[static RIG_URL_BYTES])
{
    snprintf(url, RIG_URL_BYTES, "redis://%s:PASSWORD@127.0.0.1:%u/%u", user, (unsigned)rig_redis.port,
             database);
}

/* Those that guard/README.md gives operators. */
static inline void rig_rules_of_readme(char rules[static RIG_RULES_BYTES])
{
    static const char start[] = "    user guard ";
    char line[RIG_RULES_BYTES] = "";
    FILE *readme = fopen("guard/README.md", "r");
    assert_non_null(readme);
    while (strncmp(line, start, strlen(start)) != 0)
        assert_non_null(fgets(line, sizeof line, readme));
    fclose(readme);
    snprintf(rules, RIG_RULES_BYTES, "%.*s", (int)strcspn(line + strlen(start), "\n"), line + strlen(start));
}

/* ---- calls that block ---- */

enum { RIG_BLOCKING = 6 };

/* How many of them are refused, and leave what they are given; one that is not may never return. */
static inline unsigned rig_blocking_refused(size_t i)
{
    struct guard *guard = fleet.guards[i], *closing = guard;
    const struct guard_request request = {.kind = fleet.kinds[i], .key = "other"};
    struct guard_result result;
    struct guard_invalidated changed;
    struct guard_cleared cleared;
    unsigned refused = guard_close(&closing, 0) == GUARD_INVALID && closing == guard;
    refused += guard_get_wait(guard, &request, &result) == GUARD_INVALID && result.wrong != NULL;
    refused += guard_invalidate_wait(guard, KEY_CHANGE("other", 0), &changed) == GUARD_INVALID;
    refused += guard_expire_wait(guard, KEY_CHANGE("other", 0), &changed) == GUARD_INVALID;
    refused += guard_clear_wait(guard, 0, &cleared) == GUARD_INVALID;
    refused += guard_connected_wait(guard) == GUARD_INVALID;
    return refused;
}
