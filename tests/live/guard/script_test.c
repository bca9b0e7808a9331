/* SPDX-License-Identifier: MIT */
/*
 * script_test.c - the Lua scripts of an entry against a real redis-server: bad data and arguments, what is cut, what
 * is refused. What they answer to sound data is model_test.c's, which compares them with the simulator's model.
 *
 * Time  Nothing sleeps. TTLs are long and changed by hand (PEXPIRE, PERSIST, DEL) where a test needs a key to age.
 */
#include "guard/base/key.h"
#include "guard/wire/envelope.h"
#include "tests/live/guard/script_rig.h"

#include <inttypes.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum {
    LEASE_MS = 30000,
    MAX_LEASE_MS = 120000,
    PX_MS = 600000,
    STALE_MS = 100000,
    TEXT_SIZE = 512,
};

#define LEASE_TEXT "30000"
#define MAX_LEASE_TEXT "120000"
#define MAX_VALUE_TEXT "3600000"
#define PX_TEXT "600000"

/* ---- names, tokens, envelopes ---- */

static struct {
    char value[KEY_NAME_SIZE], lease[KEY_NAME_SIZE], failure[KEY_NAME_SIZE], waiting[KEY_NAME_SIZE];
} k; /* the one key */

struct token {
    char text[TOKEN_SIZE];
};

static struct token token_with(uint64_t serial, unsigned lease_ms)
{
    struct token token;
    snprintf(token.text, sizeof(token.text),
             "%08" PRIx64 "-0000-4000-8000-000000000000 %016" PRIx64 " %07u host:1", serial,
             serial * 0x9e3779b97f4a7c15, lease_ms);
    return token;
}

static struct token a, b, filler;

static bool start(void)
{
    key_name("test", "k", KEY_VALUE, k.value);
    key_name("test", "k", KEY_LEASE, k.lease);
    key_name("test", "k", KEY_FAILURE, k.failure);
    key_name("test", "k", KEY_WAITING, k.waiting);
    a = token_with(1, LEASE_MS);
    b = token_with(2, LEASE_MS);
    filler = token_with(3, LEASE_MS);
    return server_up();
}

struct text {
    char bytes[TEXT_SIZE];
    size_t size;
};

static struct text envelope_of(const struct token *token, uint64_t stale_ms)
{
    struct envelope envelope = {.px_ms = PX_MS,
                                .stale_ms = stale_ms,
                                .key = "k",
                                .key_bytes = 1,
                                .validator = "",
                                .body = "body",
                                .body_bytes = 4};
    memcpy(envelope.filler, token->text, ENVELOPE_UUID_BYTES);
    struct text text = {.size = envelope_size(&envelope)};
    assert_in_range(text.size, 1, sizeof(text.bytes));
    envelope_write(&envelope, text.bytes);
    return text;
}

static struct text text_of(const char *bytes, size_t size)
{
    struct text text = {.size = size};
    memcpy(text.bytes, bytes, size);
    return text;
}

static void put(const struct text *value, long long px_ms)
{
    must("SET %s %b PX %lld", k.value, value->bytes, value->size, px_ms);
}

/* A value of the filler that has `ttl_ms` left. */
static void put_value(long long ttl_ms)
{
    const struct text value = envelope_of(&filler, STALE_MS);
    put(&value, ttl_ms);
}

/* ---- the scripts ---- */

static struct words words_of_entry(enum script script)
{
    struct words words = words_for(script, "4");
    add(&words, k.value);
    add(&words, k.lease);
    add(&words, k.failure);
    add(&words, k.waiting);
    return words;
}

static redisReply *acquire_raw(const struct token *token, const char *prev, char mode, const char *waits)
{
    const char mode_text[2] = {mode};
    struct words words = words_of_entry(SCRIPT_ACQUIRE);
    add(&words, token->text);
    add(&words, prev);
    add(&words, LEASE_TEXT);
    add(&words, MAX_LEASE_TEXT);
    add(&words, MAX_VALUE_TEXT);
    add(&words, mode_text);
    add(&words, "");
    add(&words, waits);
    return run(&words);
}

/* The caller's; of the kind that its letter says. */
static redisReply *acquire(const struct token *token, char mode, const char *waits, const char *kind)
{
    redisReply *reply = acquire_raw(token, "", mode, waits);
    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s", reply->str);
    assert_string_equal(reply->element[0]->str, kind);
    return reply;
}

static void assert_acquire(const struct token *token, char mode, const char *waits, const char *kind)
{
    freeReplyObject(acquire(token, mode, waits, kind));
}

static redisReply *renew_raw(void)
{
    struct words words = words_for(SCRIPT_RENEW, "1");
    add(&words, k.lease);
    add(&words, a.text);
    add(&words, LEASE_TEXT);
    return run(&words);
}

static redisReply *fill_raw(const struct text *value, const char *px_ms, const char *push_bytes)
{
    struct words words = words_of_entry(SCRIPT_FILL);
    add(&words, a.text);
    add_bytes(&words, value->bytes, value->size);
    add(&words, px_ms);
    add(&words, channel);
    add(&words, "filled");
    add(&words, push_bytes);
    return run(&words);
}

/* The value of the filler gets the new life of another one, as protocol.c asks for it. */
static redisReply *touch_raw(const struct text *value, const char *push_bytes)
{
    char bytes[24];
    struct words words = words_of_entry(SCRIPT_TOUCH);
    snprintf(bytes, sizeof(bytes), "%zu", value->size);
    add(&words, a.text);
    add_bytes(&words, filler.text, ENVELOPE_UUID_BYTES);
    add_bytes(&words, value->bytes, ENVELOPE_HEAD_BYTES);
    add_bytes(&words, value->bytes + value->size - ENVELOPE_CHECKSUM_BYTES, ENVELOPE_CHECKSUM_BYTES);
    add(&words, bytes);
    add(&words, PX_TEXT);
    add(&words, channel);
    add(&words, "touched");
    add(&words, push_bytes);
    return run(&words);
}

static redisReply *release_raw(const char *code, const char *failure_ms)
{
    struct words words = words_for(SCRIPT_RELEASE, "3");
    add(&words, k.lease);
    add(&words, k.failure);
    add(&words, k.waiting);
    add(&words, a.text);
    add(&words, channel);
    add(&words, "released");
    add(&words, code);
    add(&words, failure_ms);
    add(&words, "");
    return run(&words);
}

static redisReply *invalidate_raw(char mode, const char *stale_ms)
{
    const char mode_text[2] = {mode};
    struct words words = words_of_entry(SCRIPT_INVALIDATE);
    add(&words, channel);
    add(&words, "gone");
    add(&words, mode_text);
    add(&words, stale_ms);
    return run(&words);
}

/* ---- the tests ---- */

TEST(every_script_loads)
{
    for (unsigned script = 0; script < SCRIPT_COUNT; script++) {
        assert_int_equal(protocol_scripts[script].source_bytes, strlen(protocol_scripts[script].source));
        assert_null(strstr(protocol_scripts[script].source, "--"));
        redisReply *digest = asked("SCRIPT LOAD %s", protocol_scripts[script].source);
        assert_int_equal(digest->type, REDIS_REPLY_STRING);
        assert_int_equal(digest->len, 40);
        freeReplyObject(digest);
    }
}

TEST(a_lease_that_lasts_too_long_is_cut_to_its_own_length, P1)
{
    const struct {
        struct token lease;
        long long expected_ms;
    } rows[] = {
        {token_with(3, LEASE_MS), LEASE_MS},
        {token_with(4, 2 * LEASE_MS), 2 * LEASE_MS},
        {token_with(5, 0), MAX_LEASE_MS},
        {{"somebody else's"}, MAX_LEASE_MS},
        {{""}, MAX_LEASE_MS},
        {{"00000000-0000-4000-8000-000000000000 0123456789abcdef -030000"}, MAX_LEASE_MS},
        {{"00000000-0000-4000-8000-000000000000 0123456789abcdef 003000"}, MAX_LEASE_MS},
    };
    for (size_t i = 0; i < 2 * COUNT(rows); i++) {
        for (const char *mode = "nxrp"; *mode != '\0'; mode++) {
            must("SET %s %s", k.lease, rows[i / 2].lease.text);
            if (i % 2 == 1)
                must("PEXPIRE %s 3600000", k.lease); /* the clock stepped back an hour */
            redisReply *reply = acquire(&a, *mode, "", "B");
            assert_ttl(reply->element[1]->integer, rows[i / 2].expected_ms);
            freeReplyObject(reply);
            assert_ttl(pttl(k.lease), rows[i / 2].expected_ms);
            /* Also when the answer does not depend on the lease. */
            put_value(PX_MS);
            must("PERSIST %s", k.lease);
            assert_acquire(&a, *mode, "", "H");
            assert_ttl(pttl(k.lease), rows[i / 2].expected_ms);
            must("DEL %s", k.value);
        }
    }
}

/* ---- odd data ---- */

TEST(what_is_not_an_envelope_counts_as_missing_and_is_overwritten)
{
    struct text odd[80] = {{.size = 0}};
    size_t odd_count = 0;
    const struct text sound = envelope_of(&filler, STALE_MS);
    for (size_t size = 0; size < 64; size++)
        odd[odd_count++] = text_of(sound.bytes, size);
    static const char *const fields[] = {"0000000000000", "000000060000 ", "+000000600000", "-000000600000",
                                         "0x00000600000", "0000000.60000", "00000000006e5", "             "};
    for (size_t i = 0; i < COUNT(fields); i++) {
        odd[odd_count] = sound;
        memcpy(odd[odd_count++].bytes + 37, fields[i], 13);
    }
    odd[odd_count] = sound;
    memset(odd[odd_count++].bytes + 51, '\0', 13);
    odd[odd_count] = sound;
    memset(odd[odd_count++].bytes, 0xff, 64);
    for (size_t i = 0; i < odd_count; i++) {
        const struct text value = envelope_of(&a, STALE_MS);
        put(&odd[i], PX_MS);
        assert_acquire(&a, 'p', "", "M");
        for (const char *mode = "nxr"; *mode != '\0'; mode++) {
            assert_acquire(&a, *mode, "", "L");
            assert_int_equal(number(release_raw("", "0")), 1);
        }
        assert_acquire(&a, 'n', "", "L");
        assert_int_equal(number(fill_raw(&value, PX_TEXT, "0")), 1);
        assert_acquire(&a, 'n', "", "H");
        told("released, released, released, filled");
    }
}

/* Puts something of another type, or a string of chance, under a key; without a TTL. */
static void put_odd(const char *name, unsigned kind, unsigned *seed)
{
    static const char *const creators[] = {"RPUSH %s a b", "SADD %s a b", "ZADD %s 1 a 2 b", "HSET %s a b",
                                           "XADD %s * a b"};
    struct text text = {.size = (size_t)rand_r(seed) % 128};
    must("DEL %s", name);
    if (kind < COUNT(creators)) {
        must(creators[kind], name);
        return;
    }
    for (size_t i = 0; i < text.size; i++)
        text.bytes[i] = (char)(kind % 2 == 0 ? rand_r(seed) : '0' + rand_r(seed) % 10);
    must("SET %s %b", name, text.bytes, text.size);
}

/* Every script in every mode, by number. */
enum { CALLS = 10 };

static redisReply *call(unsigned number_of_call)
{
    const struct text value = envelope_of(&a, STALE_MS);
    switch (number_of_call) {
    case 4:
        return renew_raw();
    case 5:
        return fill_raw(&value, PX_TEXT, "4096");
    case 6:
        return touch_raw(&value, "4096");
    case 7:
        return release_raw("unavailable", "1000");
    case 8:
        return invalidate_raw('h', "100000");
    case 9:
        return invalidate_raw('s', "1000");
    default:
        return acquire_raw(&a, a.text, "nxrp"[number_of_call], "s");
    }
}

TEST(no_script_raises_whatever_stands_under_our_keys)
{
    enum { KINDS = 9 };
    unsigned seed = 4711;
    for (unsigned odd = 0; odd < KINDS * KINDS * KINDS; odd++) {
        for (unsigned i = 0; i < CALLS; i++) {
            put_odd(k.value, odd % KINDS, &seed);
            put_odd(k.failure, odd / KINDS / KINDS, &seed);
            put_odd(k.waiting, odd / KINDS / KINDS, &seed);
            put_odd(k.lease, odd / KINDS % KINDS, &seed);
            if (odd / KINDS % KINDS == 0)
                must("SET %s %s PX %d", k.lease, a.text, LEASE_MS); /* ours among the odd */
            redisReply *reply = call(i);
            if (reply->type == REDIS_REPLY_ERROR)
                fail_msg("%s", reply->str);
            freeReplyObject(reply);
        }
    }
}

TEST(no_ttl_argument_makes_a_key_without_ttl, P35)
{
    static const struct {
        const char *ms;
        bool works;
    } rows[] = {{"1", true},
                {"600000", true},
                {"9999999999999", true},
                {"0", false},
                {"-1", false},
                {"9223372036854775807", false},
                {"-9223372036854775808", false},
                {"99999999999999999999", false}};
    const struct text value = envelope_of(&a, STALE_MS);
    for (size_t i = 0; i < COUNT(rows); i++) {
        must("FLUSHALL");
        assert_acquire(&a, 'n', "", "L");
        assert_int_equal(number(fill_raw(&value, rows[i].ms, "0")), rows[i].works ? 1 : -1);
        assert_int_not_equal(pttl(k.value), -1);
        assert_true(rows[i].works || !exists(k.value));
        assert_false(exists(k.lease));

        assert_int_equal(number(invalidate_raw('h', "100000")) & 2, 0);
        assert_acquire(&a, 'n', "", "L");
        assert_int_equal(number(release_raw("unavailable", rows[i].ms)), 1);
        assert_int_not_equal(pttl(k.failure), -1);
        assert_true(rows[i].works || !exists(k.failure));
        assert_false(exists(k.lease));

        put_value(PX_MS);
        assert_int_equal(number(invalidate_raw('s', rows[i].ms)), 1);
        assert_true(pttl(k.value) == -2 || (pttl(k.value) >= 0 && pttl(k.value) <= STALE_MS));
        told("filled, gone, released, gone");
    }
}

TEST(a_part_of_a_token_gives_no_right_to_its_lease)
{
    const struct token whole = a;
    const struct text value = envelope_of(&a, STALE_MS);
    const size_t parts[] = {0, ENVELOPE_UUID_BYTES, strlen(a.text) - 1};
    assert_acquire(&a, 'n', "", "L");
    for (size_t i = 0; i < COUNT(parts); i++) {
        a.text[parts[i]] = '\0';
        const long long replies[] = {number(renew_raw()), number(fill_raw(&value, PX_TEXT, "0")),
                                     number(touch_raw(&value, "0")), number(release_raw("", "0"))};
        a = whole;
        for (size_t script = 0; script < COUNT(replies); script++)
            assert_int_equal(replies[script], 0);
    }
    assert_int_equal(number(renew_raw()), 1);
    told("");
}

TEST(a_soft_invalidation_removes_what_has_no_stale_time_or_shall_have_none)
{
    const struct {
        struct text entry;
        const char *stale_ms;
    } rows[] = {{envelope_of(&filler, 0), "60000"},
                {text_of("not ours", 8), "60000"},
                {text_of("", 0), "60000"},
                {envelope_of(&filler, STALE_MS), "0"}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        put(&rows[i].entry, PX_MS);
        assert_int_equal(number(invalidate_raw('s', rows[i].stale_ms)), 1);
        assert_false(exists(k.value));
        assert_int_equal(number(invalidate_raw('s', rows[i].stale_ms)), 0);
    }
}

TEST(nobody_can_wait_for_what_is_no_lease_of_ours)
{
    must("SET %s %s PX %d", k.lease, "somebody else's lock, of another program altogether", LEASE_MS);
    redisReply *reply = acquire(&a, 'n', "b", "B");
    assert_string_equal(reply->element[2]->str, "");
    assert_false(exists(k.waiting));
    freeReplyObject(reply);
}

static void expect_message(const char *message, const struct text *value)
{
    char expected[2 * TEXT_SIZE];
    snprintf(expected, sizeof(expected), "%s %.*s", message, (int)value->size, value->bytes);
    told(value->size > 0 ? expected : message);
}

TEST(what_others_wait_for_travels_if_it_is_no_longer_than_it_may_be)
{
    const struct text value = envelope_of(&a, STALE_MS), nothing = {.size = 0};
    for (int spare_bytes = -1; spare_bytes <= 0; spare_bytes++) {
        char push_bytes[24];
        snprintf(push_bytes, sizeof(push_bytes), "%d", (int)value.size + spare_bytes);
        must("FLUSHALL");
        assert_acquire(&a, 'n', "", "L");
        assert_acquire(&b, 'n', "b", "B");
        assert_int_equal(number(fill_raw(&value, PX_TEXT, push_bytes)), 1);
        expect_message("filled", spare_bytes < 0 ? &nothing : &value);
        put_value(STALE_MS);
        assert_acquire(&a, 'n', "", "S");
        assert_acquire(&b, 'n', "s", "S");
        assert_int_equal(number(touch_raw(&value, push_bytes)), 1);
        expect_message("touched", spare_bytes < 0 ? &nothing : &value);
    }
    must("DEL %s", k.value);
    assert_acquire(&a, 'n', "", "L");
    must("RPUSH %s a b", k.waiting); /* says of nobody that it waits */
    assert_int_equal(number(fill_raw(&value, PX_TEXT, "4096")), 1);
    expect_message("filled", &nothing);
}

TEST_GROUP(.up = start, .down = server_down, .before = server_empty);
