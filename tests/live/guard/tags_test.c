/* SPDX-License-Identifier: MIT */
/*
 * tags_test.c - groups of entries that are invalidated together, with whole guards and a real Redis.
 *
 * Every row has the tag "all", and one named by the first letter of its key. The loader names them after its query,
 * like a loader that learns from the row what it belongs to.
 */
#include "guard/wire/epochs.h"
#include "guard_rig.h"

enum { NEAR_BYTES = 1 << 20, LONG_MS = 60000, WRITES = 100, WRITERS = 2, READERS = 2, TRIES = 20 };

static atomic_bool moved; /* then it is "m" instead */

static void name_tags(struct guard_load *load)
{
    const char first[2] = {atomic_load(&moved) ? 'm' : guard_load_key(load)[0], '\0'};
    assert_int_equal(guard_load_tag(load, "all"), GUARD_OK);
    assert_int_equal(guard_load_tag(load, first), GUARD_OK);
}

/* As source_load(), with tags. */
static void load_tagged(struct guard_load *load, void *context)
{
    struct source *source = context;
    unsigned version = atomic_load(&source->version);
    atomic_fetch_add(&source->begun, 1);
    bool passed = source_pass(source, load);
    name_tags(load);
    if (passed)
        source_finish(source, load, version);
    else
        guard_load_fail(load, GUARD_FAILURE_UNAVAILABLE);
    atomic_fetch_add(&source->over, 1);
}

static void load_many_tagged(struct guard_load *const *loads, size_t count, void *context)
{
    struct source *source = context;
    unsigned version = atomic_load(&source->version);
    for (size_t i = 0; i < count; i++) {
        name_tags(loads[i]);
        source_row(source, loads[i], version);
    }
    atomic_fetch_add(&source->begun, 1);
}

static void tags_init(void)
{
    fleet_init();
    fleet.policy.loader = load_tagged;
    fleet.policy.tagged = true;
}

static void tags_open(size_t count)
{
    tags_init();
    fleet_open(count);
}

/* The row changes, and whoever changed it says so. */
static void change(size_t i, const char *tag)
{
    atomic_fetch_add(&fleet.source.version, 1);
    assert_false(rig_invalidate(i, TAG_CHANGE(tag, RIG_LIMIT_MS)).load_voided);
}

/* A command on a key of the tags, "clock" or "t:TAG". */
static void on_tag_key(const char *command, const char *key, const char *rest)
{
    rig_do("%s csg1:{%s:tags}:%s %s", command, fleet.name_space, key, rest);
}

/* ---- stale, and somebody else refreshes it ---- */

/* The lease that he waits for is known from a reply that is over when its tags have been looked at. */
TEST(who_waits_softly_for_the_refresh_of_a_tagged_value_gets_it)
{
    static struct ask holder, waiter;
    tags_init();
    fleet.policy.stale_ms = LONG_MS;
    fleet.policy.soft_ms = fleet.policy.deadline_ms;
    fleet_open(2);
    expect_row(0, "k", "k v1");
    age_value("k", LONG_MS / 2);
    source_shut(&fleet.source);
    atomic_store(&fleet.source.version, 2);
    ask_start(0, &holder, "k");
    WAIT_UNTIL(fleet.source.begun == 2);
    ask_start(1, &waiter, "k");
    WAIT_UNTIL(stats_of(fleet.guards[1]).lease_busy > 0);
    source_open(&fleet.source);
    expect_answer(&holder, "k v2");
    expect_answer(&waiter, "k v2");
    assert_int_equal(waiter.result.source, GUARD_FROM_FLEET);
}

/* ---- what a tag reaches ---- */

TEST(a_tag_takes_all_that_have_it_in_every_process_and_nothing_else, P73)
{
    tags_open(2);
    expect_row(0, "a1", "a1 v1");
    expect_row(0, "a2", "a2 v1");
    expect_row(1, "b1", "b1 v1");
    change(0, "a");
    expect_row(1, "a1", "a1 v2");
    expect_row(0, "a2", "a2 v2");
    assert_int_equal(expect_row(0, "b1", "b1 v1").source, GUARD_FROM_CACHE);
    assert_int_equal(fleet.source.begun, 5);
    change(1, "all");
    expect_row(0, "a1", "a1 v3");
    expect_row(0, "b1", "b1 v3");
    assert_int_equal(FLEET_SUM(entry_rejected), 0);
    assert_true(FLEET_SUM(entry_outdated) >= 4);
    assert_int_equal(expect_row(1, "a1", "a1 v3").source, GUARD_FROM_CACHE);
}

TEST(an_invalidation_says_whether_anything_may_have_had_the_tag)
{
    struct guard_invalidated result;
    tags_open(1);
    guard_invalidate_wait(fleet.guards[0], TAG_CHANGE("a", RIG_LIMIT_MS), &result);
    assert_int_equal(result.status, GUARD_OK);
    assert_false(result.value_dropped);
    guard_invalidate_wait(fleet.guards[0], TAG_CHANGE("a", RIG_LIMIT_MS), &result);
    assert_true(result.value_dropped);
    assert_int_equal(guard_invalidate_wait(fleet.guards[0], TAG_CHANGE("", 0), &result), GUARD_INVALID);
    assert_int_equal(guard_invalidate_wait(fleet.guards[0], TAG_CHANGE(NULL, 0), &result), GUARD_INVALID);
    char long_tag[GUARD_TAG_BYTES_MAX + 2];
    memset(long_tag, 'x', sizeof long_tag);
    long_tag[GUARD_TAG_BYTES_MAX + 1] = '\0';
    assert_int_equal(guard_invalidate(fleet.guards[0], TAG_CHANGE(long_tag, 0)), GUARD_INVALID);
    rig_invalidate(0, TAG_CHANGE(long_tag + 1, RIG_LIMIT_MS));
}

TEST(each_key_of_a_batch_has_its_own_tags, P73)
{
    const char *keys[] = {"a1", "b1", "a2"};
    struct guard_result results[3];
    tags_init();
    fleet.policy.batch_loader = load_many_tagged;
    fleet_open(1);
    const struct guard_request request = {.kind = fleet.kinds[0], .keys = keys, .count = 3};
    for (int round = 1; round <= 2; round++) {
        assert_int_equal(guard_get_wait(fleet.guards[0], &request, results), GUARD_OK);
        assert_row(&results[0], round == 1 ? "a1 v1" : "a1 v2");
        assert_row(&results[1], "b1 v1");
        assert_row(&results[2], round == 1 ? "a2 v1" : "a2 v2");
        for (size_t i = 0; i < 3; i++)
            guard_value_unref(&results[i].value);
        atomic_fetch_add(&fleet.accepted[0], 3);
        atomic_fetch_add(&fleet.answered, 3);
        if (round == 1)
            change(0, "a");
    }
    assert_int_equal(fleet.source.begun, 2);
}

/* ---- against loads and fills ---- */

TEST(a_load_that_an_invalidation_overtakes_answers_only_who_asked_before, P74)
{
    static struct ask before, after, elsewhere;
    tags_open(2);
    source_shut(&fleet.source);
    ask_start(0, &before, "a1");
    WAIT_UNTIL(fleet.source.begun == 1);
    change(1, "a");
    ask_start(0, &after, "a1");
    ask_start(1, &elsewhere, "a1");
    WAIT_UNTIL(stats_of(fleet.guards[0]).waiters == 2 && stats_of(fleet.guards[1]).lease_busy > 0);
    source_open(&fleet.source);
    expect_answer(&before, "a1 v1");
    assert_false(before.result.stored);
    expect_answer(&after, "a1 v2");
    expect_answer(&elsewhere, "a1 v2");
    assert_int_equal(fleet.source.begun, 2);
}

/* One process loads, another waits for it. False: it looked by itself, so that the message may have found nobody. */
static bool is_answered_by_the_message(const char *key)
{
    char row[24];
    struct ask here, elsewhere;
    const unsigned begun = atomic_load(&fleet.source.begun);
    const struct guard_stats before = stats_of(fleet.guards[1]);
    snprintf(row, sizeof row, "%s v1", key);
    source_shut(&fleet.source);
    ask_start(0, &here, key);
    WAIT_UNTIL(atomic_load(&fleet.source.begun) == begun + 1);
    ask_start(1, &elsewhere, key);
    const struct guard_stats poll = await_poll(fleet.guards[1], &before);
    source_open(&fleet.source);
    expect_answer(&here, row);
    expect_answer(&elsewhere, row);
    if (!undisturbed(fleet.guards[1], &before, &poll))
        return false;
    assert_int_equal(elsewhere.result.source, GUARD_FROM_FLEET);
    assert_int_equal(stats_of(fleet.guards[1]).push_answered, before.push_answered + 1);
    return true;
}

/* Its tags are looked at first: one MGET instead of another acquire. */
TEST(a_value_that_comes_with_the_message_answers_who_waits_elsewhere)
{
    char key[16];
    bool answered = false;
    tags_open(2);
    expect_row(0, "a0", "a0 v1"); /* so that the epochs are there, as in a running fleet */
    for (int try = 1; try <= TRIES && !answered; try++) {
        snprintf(key, sizeof key, "a%d", try);
        answered = is_answered_by_the_message(key);
    }
    if (!answered)
        fail_msg("%d times a poll came in between", (int)TRIES);
}

/* The rows of `source` with their version as validator; a row that is known already is unchanged. */
static void load_if_changed(struct guard_load *load, void *context)
{
    struct source *source = context;
    char version[16];
    const char *previous = guard_load_previous_validator(load);
    snprintf(version, sizeof version, "v%u", atomic_load(&source->version));
    atomic_fetch_add(&source->begun, 1);
    if (previous != NULL && strcmp(previous, version) == 0) {
        guard_load_unchanged(load);
        return;
    }
    name_tags(load);
    guard_load_done(load, version, strlen(version), version);
}

TEST(what_is_found_unchanged_is_born_again_and_keeps_its_tags)
{
    tags_init();
    fleet.policy.loader = load_if_changed;
    fleet.policy.stale_ms = LONG_MS;
    fleet_open(1);
    expect_row(0, "a1", "v1");
    rig_invalidate(0, TAG_CHANGE("z", RIG_LIMIT_MS)); /* what is loaded from here on is born later */
    age_value("a1", LONG_MS / 2);
    assert_int_equal(expect_row(0, "a1", "v1").source, GUARD_FROM_STALE);
    WAIT_UNTIL(stats_of(fleet.guards[0]).fill_stored == 2);
    assert_int_equal(stats_of(fleet.guards[0]).load_unchanged, 1);
    /* as if its tag had been invalidated just before it was found unchanged */
    char clock[64];
    assert_true(
        stack_redis_text(&rig_redis, clock, sizeof clock, "GET csg1:{%s:tags}:clock", fleet.name_space));
    on_tag_key("SET", "t:a", clock);
    assert_int_equal(expect_row(0, "a1", "v1").source, GUARD_FROM_CACHE);
    change(0, "a");
    expect_row(0, "a1", "v2");
}

/* ---- what Redis loses ---- */

TEST(after_a_flush_everything_works_on)
{
    tags_open(1);
    expect_row(0, "a1", "a1 v1");
    rig_do("FLUSHALL");
    rig_do("SCRIPT FLUSH");
    change(0, "a");
    expect_row(0, "a1", "a1 v2");
    assert_int_equal(expect_row(0, "a1", "a1 v2").source, GUARD_FROM_CACHE);
}

TEST(who_may_not_ask_for_epochs_answers_nothing_that_is_cached)
{
    tags_open(1);
    expect_row(0, "a1", "a1 v1");
    rig_permit("default", "-mget");
    change(0, "a");
    expect_row(0, "a1", "a1 v2");
    change(0, "a");
    expect_row(0, "a1", "a1 v3");
    rig_permit("default", "+mget");
    expect_row(0, "a1", "a1 v3");
    assert_int_equal(expect_row(0, "a1", "a1 v3").source, GUARD_FROM_CACHE);
}

TEST(the_login_of_the_readme_may_do_all_that_is_needed)
{
    char url[RIG_URL_BYTES], rules[RIG_RULES_BYTES];
    tags_init();
    rig_rules_of_readme(rules);
    rig_permit("guard", rules);
    rig_url_of("guard", 0, url);
    fleet.config.redis_url = url;
    fleet_open(2);
    expect_row(0, "a1", "a1 v1");
    assert_int_equal(expect_row(1, "a1", "a1 v1").source, GUARD_FROM_CACHE);
    change(0, "a");
    expect_row(1, "a1", "a1 v2");
    assert_int_equal(FLEET_SUM(redis_errors), 0);
}

TEST(where_the_clock_cannot_be_read_nothing_is_stored_and_no_lease_stays)
{
    tags_open(1);
    rig_permit("default", "-time");
    struct guard_result result = expect_row(0, "a1", "a1 v1");
    assert_false(result.stored);
    WAIT_UNTIL(!is_leased("a1"));
    assert_false(is_cached("a1"));
    rig_permit("default", "+time");
    assert_true(expect_row(0, "a1", "a1 v1").stored);
}

/* ---- what it costs ---- */

TEST(a_hit_is_one_command_more_in_the_same_round_trip_and_none_without_tags, P76)
{
    for (int tagged = 0; tagged <= 1; tagged++) {
        tags_init();
        fleet.policy.tagged = tagged == 1;
        fleet.policy.loader = tagged == 1 ? load_tagged : source_load;
        fleet_open(1);
        expect_row(0, "a1", "a1 v1");
        expect_row(0, "a1", "a1 v1"); /* from here on its tags are remembered */
        uint64_t mget = stack_redis_calls(&rig_redis, "mget"), get = stack_redis_calls(&rig_redis, "get");
        uint64_t pttl = stack_redis_calls(&rig_redis, "pttl"), getex = stack_redis_calls(&rig_redis, "getex");
        uint64_t round_trips = stats_of(fleet.guards[0]).redis_round_trips, canaries = 0;
        uint64_t begun_ms = rig_now_ms();
        for (int i = 0; i < 10; i++)
            expect_row(0, "a1", "a1 v1");
        canaries = stats_of(fleet.guards[0]).redis_round_trips - round_trips - 10;
        assert_int_equal(stack_redis_calls(&rig_redis, "get"), get);
        assert_true(stack_redis_calls(&rig_redis, "getex") - getex >= 10); /* heartbeats, too */
        assert_int_equal(stack_redis_calls(&rig_redis, "pttl") - pttl, 10);
        assert_int_equal(stack_redis_calls(&rig_redis, "mget") - mget, tagged * 10);
        assert_in_range(canaries, 0, canaries_since(begun_ms));
        fleet_close();
    }
}

enum { LETTERS = 90, FIRST_LETTER = '!' };

/* A key for each letter, so that there are as many tags, and the one that they share. Only the row of `changed` may
 * have another version. */
static void expect_letters(char changed)
{
    static char text[LETTERS][3];
    static struct guard_result results[LETTERS];
    const char *keys[LETTERS];
    for (size_t i = 0; i < LETTERS; i++) {
        text[i][0] = (char)(FIRST_LETTER + (int)i);
        text[i][1] = '1';
        keys[i] = text[i];
    }
    const struct guard_request request = {.kind = fleet.kinds[0], .keys = keys, .count = LETTERS};
    assert_int_equal(guard_get_wait(fleet.guards[0], &request, results), GUARD_OK);
    for (size_t i = 0; i < LETTERS; i++) {
        char row[8];
        snprintf(row, sizeof row, "%s v%d", keys[i], keys[i][0] == changed ? 2 : 1);
        assert_row(&results[i], row);
        guard_value_unref(&results[i].value);
    }
    atomic_fetch_add(&fleet.accepted[0], LETTERS);
    atomic_fetch_add(&fleet.answered, LETTERS);
}

TEST(the_hits_of_one_turn_ask_for_each_tag_once, P76)
{
    tags_init();
    fleet.policy.batch_loader = load_many_tagged;
    fleet_open(1);
    expect_letters('\0');
    expect_letters('\0'); /* from here on their tags are remembered */
    const uint64_t mget = stack_redis_calls(&rig_redis, "mget"), pttl = stack_redis_calls(&rig_redis, "pttl");
    expect_letters('\0');
    assert_int_equal(stack_redis_calls(&rig_redis, "pttl") - pttl, LETTERS);
    assert_int_equal(stack_redis_calls(&rig_redis, "mget") - mget,
                     (1 + LETTERS + EPOCHS_MAX - 1) / EPOCHS_MAX);
    change(0, "z");
    expect_letters('z');
}

TEST(an_entry_whose_tags_have_changed_is_judged_by_those_it_has)
{
    tags_open(2);
    expect_row(0, "a1", "a1 v1");
    expect_row(0, "a1", "a1 v1");
    /* another process stores it without tags, as after a change of its loader */
    fleet.policy.loader = source_load;
    fleet.policy.tagged = false;
    fleet_add();
    rig_invalidate(0, KEY_CHANGE("a1", RIG_LIMIT_MS));
    expect_row(2, "a1", "a1 v1");
    change(0, "a");
    assert_int_equal(expect_row(0, "a1", "a1 v1").source, GUARD_FROM_CACHE);
    uint64_t mget = stack_redis_calls(&rig_redis, "mget");
    expect_row(0, "a1", "a1 v1");
    assert_int_equal(stack_redis_calls(&rig_redis, "mget"), mget);
    /* and one that names no tags itself respects those it finds */
    rig_invalidate(0, KEY_CHANGE("a1", RIG_LIMIT_MS));
    expect_row(1, "a1", "a1 v2");
    change(1, "a");
    expect_row(2, "a1", "a1 v3");
}

TEST(an_entry_that_has_moved_to_another_tag_goes_with_that_one)
{
    tags_open(2);
    expect_row(0, "a1", "a1 v1");
    expect_row(0, "a1", "a1 v1");
    atomic_store(&moved, true);
    rig_invalidate(1, KEY_CHANGE("a1", RIG_LIMIT_MS));
    expect_row(1, "a1", "a1 v1");
    change(1, "m");
    expect_row(0, "a1", "a1 v2");
    atomic_store(&moved, false);
}

/* ---- near ---- */

static const char *const OTHERS[] = {"w1", "x1", "y1", "z1"};
enum { OTHER_COUNT = sizeof OTHERS / sizeof *OTHERS };

static void bring_others_near(size_t i)
{
    char row[32];
    for (size_t k = 0; k < OTHER_COUNT; k++) {
        snprintf(row, sizeof row, "%s v1", OTHERS[k]);
        bring_near(i, OTHERS[k], row);
    }
}

static bool are_others_near(size_t i)
{
    size_t count = 0;
    for (size_t k = 0; k < OTHER_COUNT; k++)
        count += is_near(i, OTHERS[k]);
    return count == OTHER_COUNT;
}

/* False: others have gone, too. They may: a few tags share a slot (near.h), and a lost subscription takes
 * everything. */
static bool goes_alone(char tag)
{
    const char name[] = {tag, '\0'}, key[] = {tag, '1', '\0'}, row[] = {tag, '1', ' ', 'v', '1', '\0'};
    for (size_t i = 0; i < 2; i++) {
        bring_near(i, key, row);
        bring_others_near(i);
    }
    assert_int_equal(guard_invalidate(fleet.guards[0], TAG_CHANGE(name, RIG_LIMIT_MS)), GUARD_OK);
    assert_false(is_near(0, key));
    bool here = are_others_near(0);
    WAIT_UNTIL(!is_near(1, key));
    return here && are_others_near(1);
}

TEST(near_entries_go_with_their_tag_here_at_once_and_elsewhere_with_the_message, P73)
{
    char tag = 'a';
    tags_init();
    fleet.config.near_bytes = NEAR_BYTES;
    fleet.policy.near_ms = LONG_MS;
    fleet_open(2);
    while (tag < 'k' && !goes_alone(tag))
        tag++;
    assert_int_not_equal(tag, 'k');
    WAIT_UNTIL(stats_of(fleet.guards[0]).invalidated == (uint64_t)(tag - 'a' + 1));
}

/* ---- modes ---- */

TEST(in_every_mode_that_answers_from_redis_a_tag_holds, P73)
{
    static const enum guard_mode modes[] = {GUARD_MODE_LOCAL, GUARD_MODE_OFF};
    for (size_t i = 0; i < 2; i++) {
        tags_init();
        fleet.config.mode = modes[i];
        fleet_open(2);
        expect_row(0, "a1", "a1 v1");
        assert_int_equal(expect_row(1, "a1", "a1 v1").source, GUARD_FROM_CACHE);
        change(0, "a");
        expect_row(1, "a1", "a1 v2");
        fleet_close();
    }
}

/* ---- who breaks the contract ---- */

static const char *const NINE[] = {"1", "2", "3", "4", "5", "6", "7", "8", "9"};

static void load_with_nine(struct guard_load *load, void *context)
{
    (void)context;
    for (size_t i = 0; i < 9; i++)
        assert_int_equal(guard_load_tag(load, NINE[i]), i < 8 ? GUARD_OK : GUARD_INVALID);
    guard_load_done(load, "row", 3, NULL);
}

static void load_with_no_name(struct guard_load *load, void *context)
{
    (void)context;
    assert_int_equal(guard_load_tag(load, ""), GUARD_INVALID);
    guard_load_done(load, "row", 3, NULL);
}

static void load_with_a_tag_too_late(struct guard_load *load, void *context)
{
    (void)context;
    guard_load_done(load, "row", 3, NULL);
    assert_int_equal(guard_load_tag(load, "late"), GUARD_INVALID);
}

static void load_with_one(struct guard_load *load, void *context)
{
    (void)context;
    assert_int_equal(guard_load_tag(load, "one"), GUARD_INVALID);
    guard_load_absent(load);
}

TEST(a_tag_that_cannot_be_kept_fails_the_load)
{
    guard_loader *const loaders[] = {load_with_nine, load_with_no_name, load_with_a_tag_too_late,
                                     load_with_one};
    for (size_t i = 0; i < sizeof loaders / sizeof *loaders; i++) {
        tags_init();
        fleet.policy.loader = loaders[i];
        fleet.policy.tagged = loaders[i] != load_with_one;
        fleet_open(1);
        assert_int_equal(expect(0, "a1", GUARD_FAILED).failure, GUARD_FAILURE_INTERNAL);
        assert_false(is_cached("a1"));
        fleet_close();
    }
}

/* ---- everything at once ---- */

struct writer {
    size_t i;
    atomic_bool *over;
    unsigned wrong;
};

static unsigned version_of(const struct guard_result *result)
{
    unsigned version = 0;
    if (result->status == GUARD_OK)
        sscanf(result->value->body, "a%*u v%u", &version);
    return version;
}

/* Reads its own writes, of every key of the tag. */
static void *write_and_read(void *context)
{
    struct writer *writer = context;
    for (unsigned n = 0; n < WRITES; n++) {
        struct guard_invalidated done;
        unsigned version = atomic_fetch_add(&fleet.source.version, 1) + 1;
        guard_invalidate_wait(fleet.guards[writer->i], TAG_CHANGE("a", RIG_LIMIT_MS), &done);
        writer->wrong += done.status != GUARD_OK;
        for (unsigned key = 0; key < 3; key++) {
            char name[16];
            snprintf(name, sizeof name, "a%u", key);
            struct guard_result result = get_of(writer->i, name);
            writer->wrong += version_of(&result) < version;
            guard_value_unref(&result.value);
        }
    }
    return NULL;
}

/* Keeps loads, fills and hits going. */
static void *read_on(void *context)
{
    struct writer *reader = context;
    while (!atomic_load(reader->over)) {
        struct guard_result result = get_of(reader->i, "a1");
        reader->wrong += result.status != GUARD_OK;
        guard_value_unref(&result.value);
    }
    return NULL;
}

TEST(two_writers_of_one_tag_each_read_what_they_have_written, P74)
{
    pthread_t threads[WRITERS + READERS];
    struct writer who[WRITERS + READERS];
    atomic_bool over = false;
    tags_open(2);
    for (size_t i = 0; i < WRITERS + READERS; i++) {
        who[i] = (struct writer){i % 2, &over, 0};
        pthread_create(&threads[i], NULL, i < WRITERS ? write_and_read : read_on, &who[i]);
    }
    for (size_t i = 0; i < WRITERS + READERS; i++) {
        if (i == WRITERS)
            atomic_store(&over, true);
        pthread_join(threads[i], NULL);
        assert_int_equal(who[i].wrong, 0);
    }
}

TEST_GROUP(.up = rig_start, .down = rig_stop, .before = fleet_before, .end = fleet_close);
