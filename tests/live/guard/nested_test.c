/* SPDX-License-Identifier: MIT */
/*
 * nested_test.c - loaders that ask for other keys with guard_load_get(), with a real Redis.
 */
#include "guard_rig.h"

enum { LINKS_MAX = 12, SOON_MS = 8000 }; /* sooner than any limit that would end it */

/* Which key a loader asks for before it answers its own. */
struct link {
    const char *key, *next;
};

struct plan {
    size_t guard; /* index of the guard whose loader this is */
    struct link links[LINKS_MAX];
    atomic_bool flat;    /* nobody asks for another key any more */
    const char *gated;   /* this key waits at the source's gate before it goes on; NULL: none */
    atomic_uint at_gate; /* loads that have come to it */
    atomic_uint begun;   /* loads */
    atomic_uint working; /* loaders that are called and do not wait for another */
    atomic_uint most;    /* of them at a time */
};

static bool is_named(const char *name, const char *key)
{
    return name != NULL && strcmp(name, key) == 0;
}

static void work(struct plan *plan)
{
    rig_raise(&plan->most, atomic_fetch_add(&plan->working, 1) + 1);
}

static void rest(struct plan *plan)
{
    atomic_fetch_sub(&plan->working, 1);
}

static const char *next_of(const struct plan *plan, const char *key)
{
    for (size_t i = 0; i < LINKS_MAX && !atomic_load(&plan->flat); i++)
        if (is_named(plan->links[i].key, key))
            return plan->links[i].next;
    return NULL;
}

/* "KEY(row of the next)" */
static void answer(struct guard_load *load, const struct guard_result *inner)
{
    char row[400];
    int bytes = snprintf(row, sizeof row, "%s(%s)", guard_load_key(load),
                         inner != NULL && inner->value != NULL ? inner->value->body : "");
    guard_load_done(load, row, (size_t)bytes, NULL);
}

/* The key comes with its length: the begin of the load's own where that is one, else memory without a byte behind
 * it. */
static void load_with(struct plan *plan, struct guard_load *load, const char *next)
{
    struct guard_result inner;
    const size_t bytes = strlen(next);
    const char *own = guard_load_key(load);
    char *copy = malloc(bytes);
    assert_non_null(copy);
    memcpy(copy, next, bytes);
    const bool is_begin = strlen(own) > bytes && strncmp(own, next, bytes) == 0;
    const struct guard_request request = {
        .kind = fleet.kinds[plan->guard], .key = is_begin ? own : copy, .key_bytes = bytes};
    rest(plan);
    enum guard_status status = guard_load_get(load, &request, &inner);
    free(copy);
    assert_int_equal(status, inner.status);
    work(plan);
    if (inner.status == GUARD_OK)
        answer(load, &inner);
    else
        guard_load_fail(load, inner.failure);
    guard_value_unref(&inner.value);
}

static void load_plan(struct guard_load *load, void *context)
{
    struct plan *plan = context;
    const char *key = guard_load_key(load), *next = next_of(plan, key);
    atomic_fetch_add(&plan->begun, 1);
    work(plan);
    if (is_named(plan->gated, key) || is_named("*", plan->gated != NULL ? plan->gated : "")) {
        atomic_fetch_add(&plan->at_gate, 1);
        source_pass(&fleet.source, load);
    }
    if (next != NULL)
        load_with(plan, load, next);
    else
        answer(load, NULL);
    rest(plan);
}

static void plan_init(struct plan *plan, uint32_t workers)
{
    memset(plan, 0, sizeof *plan);
    fleet_init();
    fleet.config.max_loads = workers;
    fleet.policy.loader = load_plan;
    fleet.policy.context = plan;
}

/* Nested gets are counted with the others: what was accepted is not compared. */
static void close_all(void)
{
    if (fleet.source.gate > 0)
        source_open(&fleet.source);
    for (size_t i = 0; i < fleet.count; i++) {
        if (fleet.guards[i] == NULL)
            continue;
        if (fleet.config.mode != GUARD_MODE_OFF)
            assert_int_equal(stats_of(fleet.guards[i]).load_duplicate, 0);
        assert_int_equal(guard_close(&fleet.guards[i], 5000), GUARD_OK);
    }
    source_clear(&fleet.source);
}

static struct plan plan, plans[2];

/* ---- the bulkhead ---- */

TEST(one_worker_loads_what_is_nested_three_deep)
{
    plan_init(&plan, 1);
    plan.links[0] = (struct link){"a", "b"};
    plan.links[1] = (struct link){"b", "c"};
    plan.links[2] = (struct link){"c", "d"};
    fleet_open(1);
    uint64_t start_ms = rig_now_ms();
    expect_row(0, "a", "a(b(c(d())))");
    assert_true(rig_now_ms() - start_ms < SOON_MS);
    assert_int_equal(plan.begun, 4);
    assert_int_equal(plan.most, 1);
    assert_int_equal(stats_of(fleet.guards[0]).load_nested, 3);
    assert_int_equal(stats_of(fleet.guards[0]).loads_running, 0);
    assert_true(is_cached("b") && is_cached("c") && is_cached("d"));
    assert_int_equal(expect_row(0, "c", "c(d())").source, GUARD_FROM_CACHE);
}

/* ---- circles ---- */

TEST(a_key_in_its_own_chain_is_an_error_at_once, P67)
{
    static const struct link CIRCLES[][3] = {
        {{"a", "a"}, {NULL, NULL}, {NULL, NULL}},
        {{"a", "b"}, {"b", "a"}, {NULL, NULL}},
        {{"a", "b"}, {"b", "c"}, {"c", "a"}},
    };
    for (int mode = GUARD_MODE_FLEET; mode <= GUARD_MODE_OFF; mode++)
        for (size_t i = 0; i < sizeof CIRCLES / sizeof *CIRCLES; i++) {
            plan_init(&plan, 1);
            memcpy(plan.links, CIRCLES[i], sizeof CIRCLES[i]);
            fleet.config.mode = (enum guard_mode)mode;
            fleet_open(1);
            uint64_t start_ms = rig_now_ms();
            struct guard_result result = expect(0, "a", GUARD_FAILED);
            assert_int_equal(result.failure, GUARD_FAILURE_CYCLE);
            assert_true(rig_now_ms() - start_ms < SOON_MS);
            assert_int_equal(plan.begun, i + 1);
            close_all();
        }
}

TEST(a_key_that_begins_another_is_no_circle)
{
    plan_init(&plan, 1);
    plan.links[0] = (struct link){"a/b/c", "a/b"};
    plan.links[1] = (struct link){"a/b", "a"};
    fleet_open(1);
    expect_row(0, "a/b/c", "a/b/c(a/b(a()))");
}

TEST(a_circle_through_two_processes_ends_before_the_deadline, P67)
{
    enum { LIMIT_MS = 8000 }; /* half of it is for waiting for others */
    static struct ask asks[2];
    static const char *const KEYS[] = {"a", "b"};
    plan_init(&plans[0], 1);
    fleet.policy.failure_ms = 1;
    fleet.policy.load_limit_ms = LIMIT_MS;
    plans[0].links[0] = (struct link){"a", "b"};
    plans[0].links[1] = (struct link){"b", "a"};
    plans[0].gated = "*";
    plans[1] = plans[0];
    plans[1].guard = 1;
    fleet_add();
    fleet.policy.context = &plans[1];
    fleet_open(2);
    source_shut(&fleet.source);
    for (size_t i = 0; i < 2; i++)
        ask_start(i, &asks[i], KEYS[i]);
    WAIT_UNTIL(plans[0].at_gate == 1 && plans[1].at_gate == 1);
    uint64_t start_ms = rig_now_ms();
    source_open(&fleet.source);
    for (size_t i = 0; i < 2; i++) {
        ask_wait(&asks[i]);
        assert_int_equal(asks[i].result.status, GUARD_FAILED);
        assert_int_equal(asks[i].result.failure, GUARD_FAILURE_CYCLE);
    }
    assert_true(rig_now_ms() - start_ms < LIMIT_MS);
    for (size_t i = 0; i < 2; i++) {
        struct guard_result again;
        atomic_store(&plans[0].flat, true);
        atomic_store(&plans[1].flat, true);
        WAIT_UNTIL((again = get_of(i, KEYS[i]), again.status == GUARD_OK));
        guard_value_unref(&again.value);
    }
}

/* ---- time and ends ---- */

static struct guard_request foreign;
static enum guard_status foreign_status;

static void load_foreign(struct guard_load *load, void *context)
{
    struct guard_result result;
    (void)context;
    foreign_status = guard_load_get(load, &foreign, &result);
    guard_load_absent(load);
}

TEST(a_request_of_another_guard_is_refused)
{
    fleet.policy.loader = load_foreign;
    fleet_open(2);
    foreign = (struct guard_request){.kind = fleet.kinds[1], .key = "b"};
    expect(0, "a", GUARD_ABSENT);
    assert_int_equal(foreign_status, GUARD_INVALID);
    foreign = (struct guard_request){.kind = fleet.kinds[0], .key = ""};
    expect(0, "c", GUARD_ABSENT);
    assert_int_equal(foreign_status, GUARD_INVALID);
    foreign = (struct guard_request){.kind = fleet.kinds[0], .keys = &(const char *){"d"}, .count = 1};
    expect(0, "e", GUARD_ABSENT);
    assert_int_equal(foreign_status, GUARD_INVALID);
}

TEST_GROUP(.up = rig_start, .down = rig_stop, .before = fleet_before, .end = close_all);
