/* SPDX-License-Identifier: MIT */
/*
 * lock_model_test.c - random histories through the scripts of the locks and their model: requests for one to three
 * names, asked again, renewed, given back, late, dead; parties of a latch; keys evicted, everything forgotten, the
 * clock stepped, scripts forgotten, no memory, no writes. Besides what lock_script_rig.h compares: nobody holds
 * beside another what does not fit, numbers rise, and in the calm at the end everybody has its turn.
 *
 * LOCK_SEED=n runs that history alone, LOCK_SEEDS=n so many.
 */
#include "guard/base/chance.h"
#include "tests/live/locks/lock_script_rig.h"

enum {
    SEEDS = 30,
    SEEN = 3, /* so often at least must each kind of reply, step and trouble have come up */
    REQUESTS = 140,
    BACK_MAX_MS =
        3000000, /* a number outlives a step back or its key: all steps back are shorter than fence_ms */
};

static struct chance chance;

static uint32_t below(uint32_t bound)
{
    return (uint32_t)chance_below(&chance, bound);
}

static struct asker askers[REQUESTS];
static size_t asker_count;
static struct {
    size_t names;
    uint32_t limit;  /* 0: readers and writers */
    bool is_crowded; /* so many wait that not each is told */
    bool steps_back; /* the clock may, and no fence is lost then: a number survives either */
    int64_t back_ms;
    uint64_t fence[NAMES];
} scene;
static uint32_t step_count[16], most_waiting;

static struct asker *any_asker(unsigned states)
{
    for (size_t i = 0; i < 8 && asker_count > 0; i++) {
        struct asker *asker = &askers[below((uint32_t)asker_count)];
        if ((states >> asker->state & 1) != 0)
            return asker;
    }
    return NULL;
}

static uint32_t some_lease_ms(void)
{
    static const uint32_t leases[] = {8000, LEASE_MS, LEASE_MS, MAX_LEASE_MS};
    return leases[below(COUNT(leases))];
}

/* A few of the names, in their order. */
static void some_names(char names[static NAMES + 1])
{
    size_t count = 0;
    for (size_t n = 0; n < scene.names; n++)
        if (below(2) == 0)
            names[count++] = plain_names[n];
    if (count == 0)
        names[count++] = plain_names[below((uint32_t)scene.names)];
    names[count] = '\0';
}

static struct asker some_asker(void)
{
    char names[NAMES + 1];
    const uint32_t dice = below(10), lease_ms = some_lease_ms();
    some_names(names);
    struct asker asker;
    if (scene.limit > 0)
        asker = asker_for(GUARD_LOCK_PERMITS, names, 1 + below(scene.limit), scene.limit, lease_ms);
    else if (dice < 5)
        asker = asker_for(GUARD_LOCK_READ, names, 1, LOCK_ALL, lease_ms);
    else
        asker =
            asker_for(dice < 8 ? GUARD_LOCK_WRITE : GUARD_LOCK_MUTEX, names, LOCK_ALL, LOCK_ALL, lease_ms);
    if (below(5) == 0)
        asker.place_ms = 0;
    return asker;
}

/* No two hold what does not fit together, and numbers rise. */
static void check_grant(const struct asker *asker)
{
    for (size_t i = 0; i < asker->count; i++) {
        const size_t n = (size_t)(asker->names[i].encoded - plain_names);
        const struct lock_model_set *held = &model_name(n)->held;
        uint64_t units = 0;
        for (size_t m = 0; m < held->count; m++)
            units += strtoul(held->member[m].token + LOCK_UUID_BYTES + 1, NULL, 10);
        if (units > asker->limit)
            differ("%" PRIu64 " units of %c are held, of %u", units, plain_names[n], asker->limit);
        if (answer.reply.fence[i] <= scene.fence[n])
            differ("number %" PRIu64 " after %" PRIu64, answer.reply.fence[i], scene.fence[n]);
        scene.fence[n] = answer.reply.fence[i];
    }
}

static void ask(struct asker *asker)
{
    if (take(asker) == LOCK_GRANTED)
        check_grant(asker);
}

static void step_ask(void)
{
    const size_t count = scene.is_crowded ? 1 + below(12) : 1;
    for (size_t i = 0; i < count && asker_count < REQUESTS; i++) {
        askers[asker_count] = some_asker();
        ask(&askers[asker_count++]);
    }
    const size_t waiting = model_name(0)->queue.count;
    most_waiting = waiting > most_waiting ? (uint32_t)waiting : most_waiting;
}

static void step_ask_again(void)
{
    struct asker *asker = any_asker(1u << NEW | 1u << WAITS | 1u << HOLDS);
    if (asker != NULL)
        ask(asker);
}

static void step_ask_late(void)
{
    struct asker *asker = any_asker(1u << OVER);
    if (asker == NULL || !asker->in_doubt)
        return;
    ask(asker);
    asker->state = OVER;
}

static void step_renew(void)
{
    struct asker *asker = any_asker(1u << WAITS | 1u << HOLDS | 1u << OVER);
    if (asker != NULL)
        renew(asker);
}

static void step_raise(void)
{
    uint64_t floors[NAMES] = {model.now_us + 3, 0, model.now_us + 5000};
    struct asker *asker = any_asker(1u << HOLDS);
    if (asker == NULL || !scene.steps_back)
        return;
    const struct lock_action action = action_of(asker, LOCK_RENEW);
    run_in_both(&action, floors);
}

static void step_give(void)
{
    struct asker *asker = any_asker(1u << NEW | 1u << WAITS | 1u << HOLDS | 1u << OVER);
    if (asker != NULL)
        give(asker, asker->in_doubt || below(3) == 0);
}

static void step_die(void)
{
    struct asker *asker = any_asker(1u << WAITS | 1u << HOLDS);
    if (asker != NULL)
        asker->state = DEAD;
}

/* One process's requests on a name: most of them stand there. */
static void step_stay(void)
{
    struct asker *mine[REQUESTS];
    size_t count = 0;
    const struct asker *first = any_asker(1u << WAITS);
    for (size_t i = 0; first != NULL && i < asker_count; i++)
        if (askers[i].names[0].encoded == first->names[0].encoded && askers[i].state != DEAD &&
            below(askers[i].state == WAITS ? 2 : 12) != 0)
            mine[count++] = &askers[i];
    if (count > 0)
        stay(mine, count);
}

static void step_time(void)
{
    static const int64_t spans_ms[] = {1, 500, 1000, 5000, 11000, 30000, 61000};
    pass_ms(spans_ms[below(COUNT(spans_ms))]);
}

/* To the end of what ends first, or a moment before or after it. */
static void step_to_an_end(void)
{
    const struct lock_model_name *name = model_name(below((uint32_t)scene.names));
    const struct lock_model_set *set = below(2) == 0 ? &name->held : &name->alive;
    const int64_t now_ms = (int64_t)(model.now_us / 1000);
    int64_t end_ms = INT64_MAX;
    for (size_t i = 0; i < set->count; i++)
        if (set->member[i].until_ms > now_ms && set->member[i].until_ms < end_ms)
            end_ms = set->member[i].until_ms;
    if (end_ms != INT64_MAX)
        pass_ms(end_ms - now_ms + (int64_t)below(4) - 1);
}

static void step_moment(void)
{
    model.now_us++;
}

static void step_clock(void)
{
    const int64_t step_ms = 30000 * ((int64_t)below(12) - 8);
    if (!scene.steps_back || (step_ms < 0 && scene.back_ms - step_ms > BACK_MAX_MS))
        return;
    pass_ms(step_ms);
    scene.back_ms -= step_ms < 0 ? step_ms : 0;
}

/* What is left, the clock or the number, is above all that were given. */
static bool may_lose_fence(size_t n)
{
    return !scene.steps_back && model.now_us > scene.fence[n];
}

static void step_lose(void)
{
    const size_t n = below((uint32_t)scene.names);
    const enum key_lock_role role = roles[below(ROLES)];
    if (role != KEY_LOCK_FENCE || may_lose_fence(n))
        lose(n, role);
}

static void step_lose_all(void)
{
    for (size_t n = 0; n < scene.names; n++)
        if (!may_lose_fence(n))
            return;
    must("FLUSHALL");
    lock_model_forget(&model);
}

/* A party of two, three or four. */
static void step_latch(void)
{
    static struct asker parties[4];
    struct asker *one = &parties[below(COUNT(parties))];
    if (one->token[0] == '\0' || one->state == OVER)
        *one = asker_for(GUARD_LOCK_LATCH, "c", below(4) != 0, 2 + below(3), some_lease_ms());
    if (below(4) == 0)
        give(one, below(2) == 0);
    else
        take(one);
    if (one->state == OVER && one->in_doubt && below(2) == 0) {
        take(one);
        one->state = OVER;
    }
}

static const struct {
    uint32_t weight;
    void (*step)(void);
} steps[] = {
    {24, step_ask},   {20, step_ask_again}, {3, step_ask_late}, {8, step_renew},    {2, step_raise},
    {20, step_give},  {4, step_die},        {8, step_stay},     {9, step_time},     {6, step_to_an_end},
    {6, step_moment}, {3, step_clock},      {4, step_lose},     {1, step_lose_all}, {4, step_latch},
};

static void one_step(void)
{
    uint32_t sum = 0, at;
    for (size_t i = 0; i < COUNT(steps); i++)
        sum += steps[i].weight;
    at = below(sum);
    for (size_t i = 0; i < COUNT(steps); i++) {
        if (at < steps[i].weight) {
            steps[i].step();
            step_count[i]++;
            return;
        }
        at -= steps[i].weight;
    }
}

/* ---- trouble around a step ---- */

static const struct {
    uint32_t one_in;
    const struct trouble *trouble;
} troubles[] = {{12, &scripts_forgotten}, {6, &no_memory}, {60, &read_only}};
static uint32_t trouble_count[COUNT(troubles)];

static void step_in_trouble(void)
{
    for (size_t i = 0; i < COUNT(troubles) && world.trouble == NULL; i++)
        if (below(troubles[i].one_in) == 0) {
            world.trouble = troubles[i].trouble;
            trouble_count[i]++;
        }
    one_step();
    world.trouble = NULL;
}

/* ---- histories ---- */

static void set_scene(uint64_t seed)
{
    begin_steps();
    chance.state = seed;
    asker_count = 0;
    memset(&scene, 0, sizeof scene);
    scene.is_crowded = below(8) == 0;
    scene.names = scene.is_crowded ? 1 : 1 + below(NAMES);
    scene.limit = below(3) == 0 ? 2 + below(4) : 0;
    scene.steps_back = below(2) == 0;
}

/* Those that live ask in turn and give back, until the dead are over: everybody has its turn. */
static void calm_down(void)
{
    for (size_t turn = 0; turn < 40; turn++) {
        for (size_t i = 0; i < asker_count && world.difference[0] == '\0'; i++) {
            if (askers[i].state == WAITS)
                ask(&askers[i]);
            if (askers[i].state == HOLDS)
                give(&askers[i], false);
        }
        pass_ms(turn < 4 ? MAX_LEASE_MS / 3 : 0);
    }
    for (size_t i = 0; i < asker_count; i++)
        if (askers[i].state == WAITS)
            differ("%.8s never has its turn", askers[i].token);
}

static bool history_agrees(uint64_t seed)
{
    set_scene(seed);
    const uint32_t count = 40 + below(120);
    for (uint32_t i = 0; i < count && world.difference[0] == '\0'; i++)
        step_in_trouble();
    if (world.difference[0] == '\0')
        calm_down();
    return world.difference[0] == '\0';
}

static void every_history_agrees(uint64_t first, uint64_t last)
{
    for (uint64_t seed = first; seed <= last; seed++) {
        if (history_agrees(seed))
            continue;
        for (size_t i = 0; i < HISTORY; i++)
            fprintf(stderr, "  %s\n", world.history[(world.step + i) % HISTORY]);
        fail_msg("LOCK_SEED=%" PRIu64 ", step %u: %s", seed, world.step - 1, world.difference);
    }
}

static void assert_everything_was_seen(void)
{
    static const int seen[][2] = {{LOCK_TAKE, LOCK_GRANTED},   {LOCK_TAKE, LOCK_REFUSED},
                                  {LOCK_TAKE, LOCK_GONE},      {LOCK_RENEW, LOCK_DONE},
                                  {LOCK_RENEW, LOCK_NOT_HELD}, {LOCK_GIVE, LOCK_DONE},
                                  {LOCK_GIVE, LOCK_NOT_HELD},  {LOCK_STAY, LOCK_DONE}};
    for (size_t i = 0; i < COUNT(seen); i++)
        assert_in_range(reply_count[seen[i][0]][seen[i][1]], SEEN, UINT32_MAX);
    for (size_t i = 0; i < COUNT(steps); i++)
        assert_in_range(step_count[i], SEEN, UINT32_MAX);
    for (size_t i = 0; i < COUNT(troubles); i++)
        assert_in_range(trouble_count[i], SEEN, UINT32_MAX);
    assert_in_range(most_waiting, 51, UINT32_MAX);
}

TEST(the_scripts_answer_and_store_what_the_model_does)
{
    const char *seed = getenv("LOCK_SEED"), *seeds = getenv("LOCK_SEEDS");
    if (seed != NULL) {
        every_history_agrees(strtoull(seed, NULL, 10), strtoull(seed, NULL, 10));
        return;
    }
    every_history_agrees(1, seeds != NULL ? strtoull(seeds, NULL, 10) : SEEDS);
    assert_everything_was_seen();
}

/* ---- what hardly a history reaches, or none ---- */

static struct asker writer_of(const char *names)
{
    return asker_for(GUARD_LOCK_WRITE, names, LOCK_ALL, LOCK_ALL, LEASE_MS);
}

/* It is refused once it has lost one of them. */
TEST(a_part_of_what_was_asked_for_is_given_back)
{
    struct asker both = writer_of("ab"), other = writer_of("b"), next = writer_of("a");
    begin_steps();
    assert_int_equal(take(&both), LOCK_GRANTED);
    assert_int_equal(take(&next), LOCK_REFUSED);
    lose(1, KEY_LOCK_HELD);
    assert_int_equal(take(&other), LOCK_GRANTED);
    assert_int_equal(take(&both), LOCK_REFUSED);
    assert_int_equal(take(&next), LOCK_GRANTED);
    assert_string_equal(world.difference, "");
}

TEST(a_release_before_more_than_sixteen_tells_everybody)
{
    struct asker one = writer_of("a"), many[70];
    begin_steps();
    assert_int_equal(take(&one), LOCK_GRANTED);
    for (size_t i = 0; i < COUNT(many); i++) {
        many[i] = asker_for(GUARD_LOCK_READ, "a", 1, LOCK_ALL, LEASE_MS);
        assert_int_equal(take(&many[i]), LOCK_REFUSED);
    }
    give(&one, false);
    assert_int_equal(answer.told_count, 17);
    assert_string_equal(answer.told[16].uuid, "");
    assert_string_equal(world.difference, "");
}

/* As much as one command may carry; the keys of the rig are not these. */
TEST(eight_names_of_the_greatest_length_travel)
{
    static const enum lock_action_kind kinds[] = {LOCK_TAKE, LOCK_RENEW, LOCK_GIVE};
    static char texts[GUARD_LOCK_NAMES_MAX][KEY_ENCODED_MAX];
    struct lock_name names[GUARD_LOCK_NAMES_MAX];
    uint64_t floors[GUARD_LOCK_NAMES_MAX];
    struct asker asker = writer_of("a");
    struct lock_action action = action_of(&asker, LOCK_TAKE);
    for (size_t i = 0; i < GUARD_LOCK_NAMES_MAX; i++) {
        memset(texts[i], 'a' + (int)i, sizeof texts[i]);
        names[i] = (struct lock_name){texts[i], sizeof texts[i]};
        floors[i] = UINT64_MAX / 4096;
    }
    action.names = names;
    action.count = GUARD_LOCK_NAMES_MAX;
    action.doubt = true;
    begin_steps();
    align_time();
    for (size_t i = 0; i < COUNT(kinds); i++) {
        action.kind = kinds[i];
        struct exchange exchange = {.asked = lock_asked_of(&action)};
        run_in_redis(&action, kinds[i] == LOCK_RENEW ? floors : NULL, &exchange);
        assert_int_equal(exchange.reply.kind, kinds[i] == LOCK_TAKE ? LOCK_GRANTED : LOCK_DONE);
    }
}

/* Of one command since CONFIG RESETSTAT. */
static unsigned long long calls_of(const char *command)
{
    unsigned long long calls = 0;
    char line[48];
    redisReply *info = asked("INFO commandstats");
    const int bytes = snprintf(line, sizeof line, "cmdstat_%s:", command);
    const char *at = strstr(info->str, line);
    if (at != NULL)
        assert_int_equal(sscanf(at + bytes, "calls=%llu", &calls), 1);
    freeReplyObject(info);
    return calls;
}

/* By the scripts; what the connection does for itself is not among them. */
static unsigned long long commands_called(void)
{
    static const char *const commands[] = {"lrange", "exists", "zadd",          "pexpire", "pttl",
                                           "get",    "set",    "zrem",          "zcard",   "zrank",
                                           "zscore", "zrange", "zrangebyscore", "del"};
    unsigned long long calls = 0;
    for (size_t i = 0; i < COUNT(commands); i++)
        calls += calls_of(commands[i]);
    return calls;
}

static void run_alone(struct asker *asker, enum lock_action_kind kind)
{
    const struct lock_action action = action_of(asker, kind);
    struct exchange exchange = {.asked = lock_asked_of(&action)};
    run_in_redis(&action, NULL, &exchange);
    assert_in_range(exchange.reply.kind, LOCK_GRANTED, LOCK_DONE);
}

/* TIME, EXISTS, ZADD, PEXPIRE, GET, SET; and ZREM, EXISTS. */
TEST(a_lone_take_costs_redis_six_commands_and_its_release_two)
{
    struct asker one = writer_of("a");
    begin_steps();
    align_time();
    run_alone(&one, LOCK_TAKE); /* the scripts are loaded */
    run_alone(&one, LOCK_GIVE);
    must("CONFIG RESETSTAT");
    run_alone(&one, LOCK_TAKE);
    assert_int_equal(commands_called(), 6);
    must("CONFIG RESETSTAT");
    run_alone(&one, LOCK_GIVE);
    assert_int_equal(commands_called(), 2);
}

struct looked {
    bool answered, sound;
    struct guard_lock_view view;
};

static void on_looked(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    struct looked *looked = context;
    const char *why = "";
    looked->answered = true;
    looked->sound = lock_wire_read_look(outcome, reply, &looked->view, &why);
    assert_string_equal(why, "");
}

TEST(a_look_shows_those_that_hold_then_those_that_wait_and_none_that_is_dead)
{
    struct asker one = writer_of("a");
    struct asker dead = asker_for(GUARD_LOCK_READ, "a", 1, LOCK_ALL, LEASE_MS);
    struct asker two = asker_for(GUARD_LOCK_READ, "a", 1, LOCK_ALL, LEASE_MS);
    enum { AWHILE_MS = 10000 };
    const struct lock_name name = {"a", 1};
    struct looked looked = {.answered = false};
    begin_steps();
    assert_int_equal(take(&one), LOCK_GRANTED);
    assert_int_equal(take(&dead), LOCK_REFUSED);
    pass_ms(2 * AWHILE_MS);
    assert_int_equal(renew(&one), LOCK_DONE);
    assert_int_equal(take(&two), LOCK_REFUSED);
    pass_ms(2 * AWHILE_MS);
    align_time();
    assert_true(lock_wire_send_look(&world.wire, rig.redis, &name, on_looked, &looked));
    rig_wait_until(looked.answered);
    assert_true(looked.sound);
    assert_int_equal(looked.view.fence, model_name(0)->fence);
    assert_int_equal(looked.view.holder_count, 1);
    assert_int_equal(looked.view.waiter_count, 1);
    assert_int_equal(looked.view.seen_count, 2);
    assert_int_equal(looked.view.seen[0].left_ms, LEASE_MS - 2 * AWHILE_MS);
    assert_string_equal(looked.view.seen[0].who, "host:7");
    assert_int_equal(looked.view.seen[0].since_s, 1);
    assert_int_equal(looked.view.seen[1].units, 1);
    assert_true(looked.view.seen[0].holds && !looked.view.seen[1].holds);
}

TEST_GROUP(.up = lock_rig_up, .down = lock_rig_down);
