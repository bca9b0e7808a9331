/* SPDX-License-Identifier: MIT */
/*
 * script_test.c - the Lua scripts of an entry against a real redis-server: bad data and arguments, what is cut, what is
 * refused. What they answer to sound data is model_test.c's, which compares them with the simulator's model.
 *
 * Time  Nothing sleeps. TTLs are long and changed by hand (PEXPIRE, PERSIST, DEL) where a test needs a key to age.
 */
#include "guard/base/key.h"
#include "guard/wire/envelope.h"
#include "tests/live/script_rig.h"

#include <inttypes.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum {
    LEASE_MS = 30000,
    MAX_LEASE_MS = 120000,
    PX_MS = 600000,
    STALE_MS = 100000,
    MAX_VALUE_MS = 3600000,
    FAILURE_MS = 20000,
    TEXT_SIZE = 512,
};

/* ---- names, tokens, envelopes ---- */

struct names {
    char value[KEY_NAME_SIZE], lease[KEY_NAME_SIZE], failure[KEY_NAME_SIZE], waiting[KEY_NAME_SIZE];
};

static struct names names_of(const char *key)
{
    struct names names;
    char encoded[KEY_ENCODED_MAX + 1];
    key_encode(key, strlen(key), encoded);
    key_name("test", encoded, KEY_VALUE, names.value);
    key_name("test", encoded, KEY_LEASE, names.lease);
    key_name("test", encoded, KEY_FAILURE, names.failure);
    key_name("test", encoded, KEY_WAITING, names.waiting);
    return names;
}

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

static struct token token_of(uint64_t serial)
{
    return token_with(serial, LEASE_MS);
}

struct text {
    char bytes[TEXT_SIZE];
    size_t size;
};

static struct text envelope_with(const struct token *token, uint64_t px_ms, uint64_t stale_ms,
                                 const char *body)
{
    struct envelope envelope = {.px_ms = px_ms,
                                .stale_ms = stale_ms,
                                .key = "k",
                                .key_bytes = 1,
                                .validator = "",
                                .body = body,
                                .body_bytes = strlen(body)};
    memcpy(envelope.filler, token->text, ENVELOPE_UUID_BYTES);
    struct text text = {.size = envelope_size(&envelope)};
    assert_in_range(text.size, 1, sizeof(text.bytes));
    envelope_write(&envelope, text.bytes);
    return text;
}

static struct text envelope_of(const struct token *token)
{
    return envelope_with(token, PX_MS, STALE_MS, "body");
}

static struct text text_of(const char *bytes, size_t size)
{
    struct text text = {.size = size};
    memcpy(text.bytes, bytes, size);
    return text;
}

static void put(const char *name, const struct text *text, long long px_ms)
{
    must("SET %s %b PX %lld", name, text->bytes, text->size, px_ms);
}

/* One key for most tests, and tokens that differ. */
static struct names k;
static struct token a, b, c, d, asker, filler, foreign, holder, late, leader, other, reader;

static bool start(void)
{
    struct token *const tokens[] = {&a,       &b,      &c,    &d,      &asker, &filler,
                                    &foreign, &holder, &late, &leader, &other, &reader};
    k = names_of("k");
    for (size_t i = 0; i < COUNT(tokens); i++)
        *tokens[i] = token_of(i + 1);
    return server_up();
}

/* ---- the scripts ---- */

static struct words words_of_entry(enum script script, const struct names *names)
{
    struct words words = words_for(script, "4");
    add(&words, names->value);
    add(&words, names->lease);
    add(&words, names->failure);
    add(&words, names->waiting);
    return words;
}

/* What one acquire asks; 0 and NULL mean the usual. */
struct ask {
    const struct token *token, *prev;
    char mode;
    long long max_lease_ms, max_value_ms;
    const char *refused;
    const char *waits;
};

static redisReply *acquire_raw(const struct names *names, struct ask ask)
{
    char mode[2] = {ask.mode != 0 ? ask.mode : 'n'};
    char lease[24], max_lease[24], max_value[24];
    struct words words = words_of_entry(SCRIPT_ACQUIRE, names);
    snprintf(lease, sizeof(lease), "%d", (int)strtol(ask.token->text + 54, NULL, 10));
    snprintf(max_lease, sizeof(max_lease), "%lld", ask.max_lease_ms != 0 ? ask.max_lease_ms : MAX_LEASE_MS);
    snprintf(max_value, sizeof(max_value), "%lld", ask.max_value_ms != 0 ? ask.max_value_ms : MAX_VALUE_MS);
    add(&words, ask.token->text);
    add(&words, ask.prev != NULL ? ask.prev->text : "");
    add(&words, lease);
    add(&words, max_lease);
    add(&words, max_value);
    add(&words, mode);
    if (ask.refused != NULL || ask.waits != NULL)
        add(&words, ask.refused != NULL ? ask.refused : "");
    if (ask.waits != NULL)
        add(&words, ask.waits);
    return run(&words);
}

/* An acquire's reply. `kind` is the letter and, for S, what follows it: "S1", "S0", "S-1". */
struct acquired {
    char kind[4];
    struct text value;  /* H, S */
    long long ttl_ms;   /* of the value, the lease or the failure the reply is about; of L the lease_ms */
    long long extra_ms; /* S-1: of the failure */
    char word[80];      /* B, S0: tag; B to v and w: both names; E: code */
};

/* The shape of each reply: s status letter, b bulk string, i integer. */
static const struct {
    char letter;
    const char *shape;
} reply_shapes[] = {{'H', "sbi"}, {'S', "sbii"}, {'S', "sbiii"}, {'S', "sbiib"}, {'L', "si"},
                    {'B', "sib"}, {'B', "sibb"}, {'E', "sbi"},   {'M', "s"}};

static void assert_shape(const redisReply *reply)
{
    char shape[8] = "";
    assert_int_equal(reply->type, REDIS_REPLY_ARRAY);
    assert_in_range(reply->elements, 1, 5);
    assert_int_equal(reply->element[0]->type, REDIS_REPLY_STRING);
    assert_int_equal(reply->element[0]->len, 1);
    shape[0] = 's';
    for (size_t i = 1; i < reply->elements; i++)
        shape[i] = reply->element[i]->type == REDIS_REPLY_STRING    ? 'b'
                   : reply->element[i]->type == REDIS_REPLY_INTEGER ? 'i'
                                                                    : '?';
    for (size_t i = 0; i < COUNT(reply_shapes); i++)
        if (reply_shapes[i].letter == reply->element[0]->str[0] && strcmp(reply_shapes[i].shape, shape) == 0)
            return;
    fail_msg("no such reply: %s of shape %s", reply->element[0]->str, shape);
}

static struct acquired acquired_from(const redisReply *reply)
{
    struct acquired acquired = {.kind = {reply->element[0]->str[0]}};
    for (size_t i = 1; i < reply->elements; i++) {
        const redisReply *element = reply->element[i];
        if (i == 3 && acquired.kind[0] == 'S') {
            snprintf(acquired.kind + 1, 3, "%lld", element->integer);
        } else if (element->type == REDIS_REPLY_INTEGER) {
            *(i == 4 ? &acquired.extra_ms : &acquired.ttl_ms) = element->integer;
        } else if (i == 1 && (acquired.kind[0] == 'H' || acquired.kind[0] == 'S')) {
            acquired.value = text_of(element->str, (size_t)element->len);
        } else {
            snprintf(acquired.word, sizeof(acquired.word), "%s", element->str);
        }
    }
    return acquired;
}

static struct acquired acquire(const struct names *names, struct ask ask)
{
    redisReply *reply = acquire_raw(names, ask);
    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s", reply->str);
    assert_shape(reply);
    const struct acquired acquired = acquired_from(reply);
    if (strcmp(acquired.kind, "S1") == 0)
        assert_int_equal(reply->elements, 4);
    else if (acquired.kind[0] == 'S')
        assert_int_equal(reply->elements, 5);
    freeReplyObject(reply);
    return acquired;
}

static void assert_acquire(const struct names *names, struct ask ask, const char *kind)
{
    assert_string_equal(acquire(names, ask).kind, kind);
}

static redisReply *renew_raw(const struct names *names, const char *token)
{
    char lease[24];
    struct words words = words_for(SCRIPT_RENEW, "1");
    add(&words, names->lease);
    snprintf(lease, sizeof(lease), "%d", LEASE_MS);
    add(&words, token);
    add(&words, lease);
    return run(&words);
}

static redisReply *fill_with(const struct names *names, const char *token, const struct text *value,
                             const char *px_ms, const char *message, const char *push_bytes)
{
    struct words words = words_of_entry(SCRIPT_FILL, names);
    add(&words, token);
    add_bytes(&words, value->bytes, value->size);
    add(&words, px_ms);
    add(&words, channel);
    add(&words, message);
    add(&words, push_bytes);
    return run(&words);
}

static redisReply *fill_raw(const struct names *names, const char *token, const struct text *value,
                            const char *px_ms, const char *message)
{
    return fill_with(names, token, value, px_ms, message, "0");
}

static redisReply *release_with(const struct names *names, const char *token, const char *message,
                                const char *code, const char *failure_ms, const char *shared)
{
    struct words words = words_for(SCRIPT_RELEASE, "3");
    add(&words, names->lease);
    add(&words, names->failure);
    add(&words, names->waiting);
    add(&words, token);
    add(&words, channel);
    add(&words, message);
    add(&words, code);
    add(&words, failure_ms);
    add(&words, shared);
    return run(&words);
}

static redisReply *release_raw(const struct names *names, const char *token, const char *message,
                               const char *code, const char *failure_ms)
{
    return release_with(names, token, message, code, failure_ms, "");
}

static redisReply *invalidate_raw(const struct names *names, const char *message, char mode,
                                  const char *stale_ms)
{
    const char mode_text[2] = {mode};
    struct words words = words_of_entry(SCRIPT_INVALIDATE, names);
    add(&words, channel);
    add(&words, message);
    add(&words, mode_text);
    add(&words, stale_ms);
    return run(&words);
}

static long long renew(const struct names *names, const struct token *token)
{
    return number(renew_raw(names, token->text));
}

static long long fill(const struct names *names, const struct token *token, const char *message)
{
    char px[24];
    const struct text value = envelope_of(token);
    snprintf(px, sizeof(px), "%d", PX_MS);
    return number(fill_raw(names, token->text, &value, px, message));
}

/* The value of `old` gets a new life under `token`, as protocol.c asks for it. */
static redisReply *touch_with(const struct names *names, const struct token *token, const struct token *old,
                              const char *message, const char *push_bytes)
{
    char px[24], bytes[24];
    const struct text value = envelope_of(token);
    struct words words = words_of_entry(SCRIPT_TOUCH, names);
    snprintf(px, sizeof(px), "%d", PX_MS);
    snprintf(bytes, sizeof(bytes), "%zu", value.size);
    add(&words, token->text);
    add_bytes(&words, old->text, ENVELOPE_UUID_BYTES);
    add_bytes(&words, value.bytes, ENVELOPE_HEAD_BYTES);
    add_bytes(&words, value.bytes + value.size - ENVELOPE_CHECKSUM_BYTES, ENVELOPE_CHECKSUM_BYTES);
    add(&words, bytes);
    add(&words, px);
    add(&words, channel);
    add(&words, message);
    add(&words, push_bytes);
    return run(&words);
}

static redisReply *touch_raw(const struct names *names, const struct token *token, const struct token *old,
                             const char *message)
{
    return touch_with(names, token, old, message, "0");
}

static long long touch(const struct names *names, const struct token *token, const struct token *old,
                       const char *message)
{
    return number(touch_raw(names, token, old, message));
}

static long long release(const struct names *names, const struct token *token, const char *message,
                         const char *code)
{
    char failure[24];
    snprintf(failure, sizeof(failure), "%d", FAILURE_MS);
    return number(release_raw(names, token->text, message, code, failure));
}

static long long invalidate(const struct names *names, const char *message)
{
    return number(invalidate_raw(names, message, 'h', "100000"));
}

/* A value of `token` that has `ttl_ms` left. */
static void put_value(const struct names *names, const struct token *token, long long ttl_ms)
{
    const struct text value = envelope_of(token);
    put(names->value, &value, ttl_ms);
}

static void put_failure(const struct names *names)
{
    const struct token token = token_of(0xfa11);
    must("SET %s %s PX %d", names->lease, token.text, LEASE_MS);
    assert_int_equal(release(names, &token, "failed", "unavailable"), 1);
}

/* Contents and expiry instants of all four keys, for comparing. */
struct snapshot {
    char text[4 * TEXT_SIZE];
};

static void add_to_snapshot(struct snapshot *snapshot, const char *name)
{
    redisReply *dump = asked("DUMP %s", name);
    size_t used = strlen(snapshot->text);
    for (size_t i = 0; i < (size_t)dump->len && used + 3 < sizeof(snapshot->text); i++, used += 2)
        snprintf(snapshot->text + used, 3, "%02x", (unsigned)(uint8_t)dump->str[i]);
    freeReplyObject(dump);
    snprintf(snapshot->text + used, sizeof(snapshot->text) - used, " %lld;",
             number(asked("PEXPIRETIME %s", name)));
}

static struct snapshot snapshot_of(const struct names *names)
{
    struct snapshot snapshot = {.text = ""};
    add_to_snapshot(&snapshot, names->value);
    add_to_snapshot(&snapshot, names->lease);
    add_to_snapshot(&snapshot, names->failure);
    add_to_snapshot(&snapshot, names->waiting);
    return snapshot;
}

static void assert_unchanged(const struct names *names, const struct snapshot *before)
{
    const struct snapshot now = snapshot_of(names);
    assert_string_equal(now.text, before->text);
}

/* ---- the lease ---- */

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

TEST(a_foreign_token_changes_nothing_and_tells_nobody, P2)
{
    const struct text value = envelope_of(&foreign);
    struct token longer = a, shorter = a;
    strcat(longer.text, " ");
    shorter.text[strlen(shorter.text) - 1] = '\0';
    char uuid[37] = "";
    memcpy(uuid, a.text, 36);
    const char *const wrong[] = {foreign.text, longer.text, shorter.text, uuid, ""};
    enum { EMPTY, FREE, HELD, SITUATIONS };
    for (int situation = EMPTY; situation < SITUATIONS; situation++) {
        if (situation != EMPTY) {
            put_failure(&k);
            put_value(&k, &filler, PX_MS);
            told("failed");
        }
        if (situation == HELD)
            must("SET %s %s PX %d", k.lease, a.text, LEASE_MS);
        const struct snapshot before = snapshot_of(&k);
        for (size_t i = 0; i < COUNT(wrong); i++) {
            assert_int_equal(number(renew_raw(&k, wrong[i])), 0);
            assert_int_equal(number(fill_raw(&k, wrong[i], &value, "1000", "no")), 0);
            assert_int_equal(number(release_raw(&k, wrong[i], "no", "", "0")), 0);
            assert_int_equal(number(release_raw(&k, wrong[i], "no", "unavailable", "1000")), 0);
            assert_unchanged(&k, &before);
        }
        told("");
    }
}

TEST(a_renewal_lengthens_the_lease_and_never_creates_one, P4)
{
    assert_acquire(&k, (struct ask){.token = &a}, "L");
    must("PEXPIRE %s 5000", k.lease);
    assert_int_equal(renew(&k, &a), 1);
    assert_ttl(pttl(k.lease), LEASE_MS);
    assert_true(pttl(k.lease) > 5000);
    must("DEL %s", k.lease);
    assert_int_equal(renew(&k, &a), 0);
    assert_false(exists(k.lease));
}

/* ---- lookups ---- */

TEST(a_value_is_stale_from_stale_ms_downwards, P37)
{
    put_value(&k, &filler, STALE_MS + SLACK_MS);
    assert_acquire(&k, (struct ask){.token = &a, .mode = 'p'}, "H");
    put_value(&k, &filler, STALE_MS);
    assert_acquire(&k, (struct ask){.token = &a, .mode = 'p'}, "S0");
    /* An entry without stale time is fresh to its end. */
    const struct text value = envelope_with(&filler, PX_MS, 0, "");
    put(k.value, &value, SLACK_MS);
    assert_acquire(&k, (struct ask){.token = &a, .mode = 'p'}, "H");
}

/* ---- clamps ---- */

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
            assert_ttl(acquire(&k, (struct ask){.token = &asker, .mode = *mode}).ttl_ms,
                       rows[i / 2].expected_ms);
            assert_ttl(pttl(k.lease), rows[i / 2].expected_ms);
            /* Also when the answer does not depend on the lease. */
            put_value(&k, &filler, PX_MS);
            must("PERSIST %s", k.lease);
            assert_acquire(&k, (struct ask){.token = &asker, .mode = *mode}, "H");
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
    const struct text sound = envelope_of(&filler);
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
        put(k.value, &odd[i], PX_MS);
        assert_acquire(&k, (struct ask){.token = &a, .mode = 'p'}, "M");
        for (const char *mode = "nxr"; *mode != '\0'; mode++) {
            assert_acquire(&k, (struct ask){.token = &a, .mode = *mode}, "L");
            assert_int_equal(release(&k, &a, "released", ""), 1);
        }
        assert_acquire(&k, (struct ask){.token = &a}, "L");
        assert_int_equal(fill(&k, &a, "filled"), 1);
        assert_acquire(&k, (struct ask){.token = &a}, "H");
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
enum { CALLS = 9 };

static redisReply *call(unsigned number_of_call)
{
    const struct text value = envelope_of(&a);
    switch (number_of_call) {
    case 4:
        return renew_raw(&k, a.text);
    case 5:
        return fill_with(&k, a.text, &value, "600000", "message", "4096");
    case 6:
        return release_raw(&k, a.text, "message", "unavailable", "1000");
    case 7:
        return invalidate_raw(&k, "message", 'h', "100000");
    case 8:
        return invalidate_raw(&k, "message", 's', "1000");
    default:
        return acquire_raw(
            &k, (struct ask){.token = &a, .prev = &a, .mode = "nxrp"[number_of_call], .waits = "s"});
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

/* ---- early ---- */

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
    const struct text value = envelope_of(&a);
    for (size_t i = 0; i < COUNT(rows); i++) {
        must("FLUSHALL");
        assert_acquire(&k, (struct ask){.token = &a}, "L");
        assert_int_equal(number(fill_raw(&k, a.text, &value, rows[i].ms, "m")), rows[i].works ? 1 : -1);
        assert_int_not_equal(pttl(k.value), -1);
        assert_true(rows[i].works || !exists(k.value));
        assert_false(exists(k.lease));

        assert_int_equal(invalidate(&k, "m") & 2, 0);
        assert_acquire(&k, (struct ask){.token = &a}, "L");
        assert_int_equal(number(release_raw(&k, a.text, "m", "unavailable", rows[i].ms)), 1);
        assert_int_not_equal(pttl(k.failure), -1);
        assert_true(rows[i].works || !exists(k.failure));
        assert_false(exists(k.lease));

        put_value(&k, &a, PX_MS);
        assert_int_equal(number(invalidate_raw(&k, "m", 's', rows[i].ms)), 1);
        assert_true(pttl(k.value) == -2 || (pttl(k.value) >= 0 && pttl(k.value) <= STALE_MS));
    }
    told("m, m, m, m, m, m, m, m, m, m, m, m, m, m, m, m, m, m, m, m, m, m, m, m, m, m, m, m, m, m, m, m");
}

TEST(without_memory_nothing_is_stored_but_everybody_is_released, P31)
{
    const struct names second = names_of("second"), third = names_of("third");
    assert_acquire(&k, (struct ask){.token = &a}, "L");
    assert_acquire(&second, (struct ask){.token = &b}, "L");
    put_value(&third, &c, PX_MS);
    must("CONFIG SET maxmemory-policy noeviction");
    must("CONFIG SET maxmemory 1");

    redisReply *reply = acquire_raw(&(struct names){"n:v", "n:l", "n:e", "n:w"}, (struct ask){.token = &c});
    assert_int_equal(reply->type, REDIS_REPLY_ERROR);
    assert_memory_equal(reply->str, "OOM", 3);
    freeReplyObject(reply);
    assert_acquire(&k, (struct ask){.token = &c, .waits = "b"}, "B");
    assert_false(exists(k.waiting));
    assert_int_equal(renew(&k, &a), 1);
    assert_int_equal(fill(&k, &a, "refused"), -1);
    assert_false(exists(k.value) || exists(k.lease));
    assert_int_equal(release(&second, &b, "released", "unavailable"), 1);
    assert_false(exists(second.lease));
    assert_acquire(&third, (struct ask){.token = &c}, "H");
    assert_int_equal(number(invalidate_raw(&third, "stale", 's', "1000")), 1);
    assert_int_equal(invalidate(&third, "gone"), 1);
    assert_false(exists(third.value));
    told("refused, released, stale, gone");
}

/* A server that may write nothing: its error, and the commands that make it one and end that. */
static const struct no_master {
    const char *error, *begins, *ends;
} no_masters[] = {
    {"READONLY", "REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"},
    {"NOREPLICAS", "CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0"},
};

static void assert_refused(redisReply *reply, const char *error)
{
    assert_int_equal(reply->type, REDIS_REPLY_ERROR);
    assert_non_null(strstr(reply->str, error));
    freeReplyObject(reply);
}

TEST(acquire_answers_nothing_where_it_may_not_write, P84)
{
    for (unsigned i = 0; i < 3 * 2 * 2 * COUNT(no_masters); i++) {
        const struct no_master *no_master = &no_masters[i / 12];
        const unsigned value = i % 3, held = i / 3 % 2, failed = i / 6 % 2;
        must("FLUSHALL");
        if (failed)
            put_failure(&k);
        if (held)
            must("SET %s %s PX %d", k.lease, holder.text, LEASE_MS);
        if (value > 0)
            put_value(&k, &filler, value == 1 ? PX_MS : STALE_MS);
        must(no_master->begins);
        const struct snapshot before = snapshot_of(&k);
        for (const char *mode = "nxrp"; *mode != '\0'; mode++)
            assert_refused(acquire_raw(&k, (struct ask){.token = &asker, .mode = *mode, .waits = "s"}),
                           no_master->error);
        assert_unchanged(&k, &before);
        must(no_master->ends);
    }
}

TEST(only_the_master_says_that_a_value_is_stored_already, P84)
{
    const struct text value = envelope_of(&a);
    for (size_t i = 0; i < COUNT(no_masters); i++) {
        must("FLUSHALL");
        assert_acquire(&k, (struct ask){.token = &a}, "L");
        assert_int_equal(fill(&k, &a, "filled"), 1);
        must(no_masters[i].begins);
        assert_refused(fill_raw(&k, a.text, &value, "600000", "no"), no_masters[i].error);
        assert_refused(touch_raw(&k, &a, &a, "no"), no_masters[i].error);
        must(no_masters[i].ends);
        assert_int_equal(fill(&k, &a, "again"), 2);
        assert_int_equal(touch(&k, &a, &a, "again"), 2);
        put_failure(&k);
        assert_int_equal(fill(&k, &a, "again"), 2);
    }
}

/* ---- invalidations ---- */

TEST(an_invalidation_voids_the_load_that_runs, P43)
{
    assert_int_equal(invalidate(&k, "i1"), 0); /* before the acquire: nothing to do */
    assert_acquire(&k, (struct ask){.token = &a}, "L");
    assert_int_equal(invalidate(&k, "i2"), 2); /* nothing stored yet, but a load was running */
    assert_int_equal(renew(&k, &a), 0);
    assert_int_equal(fill(&k, &a, "no"), 0);
    assert_int_equal(release(&k, &a, "no", "unavailable"), 0);
    assert_false(exists(k.value) || exists(k.failure));
    assert_acquire(&k, (struct ask){.token = &b}, "L");
    assert_int_equal(fill(&k, &b, "filled"), 1);
    assert_int_equal(invalidate(&k, "i3"), 1); /* after the fill */
    assert_int_equal(fill(&k, &b, "no"), 0);   /* its reply was lost; it must not come back */
    assert_false(exists(k.value));
    assert_int_equal(invalidate(&k, "i4"), 0); /* again, harmless */
    told("i1, i2, filled, i3, i4");
}

TEST(a_soft_invalidation_removes_what_has_no_stale_time)
{
    const struct text entries[] = {envelope_with(&filler, PX_MS, 0, ""), text_of("not ours", 8),
                                   text_of("", 0)};
    for (size_t i = 0; i < COUNT(entries); i++) {
        put(k.value, &entries[i], PX_MS);
        assert_int_equal(number(invalidate_raw(&k, "gone", 's', "60000")), 1);
        assert_false(exists(k.value));
    }
    put_value(&k, &filler, PX_MS);
    assert_int_equal(number(invalidate_raw(&k, "gone", 's', "0")), 1);
    assert_false(exists(k.value));
    assert_int_equal(number(invalidate_raw(&k, "gone", 's', "60000")), 0);
    told("gone, gone, gone, gone, gone");
}

/* ---- the value travels with the message ---- */

static const char *tag_of(const struct token *token, char out[17])
{
    snprintf(out, 17, "%.16s", token->text + 37);
    return out;
}

TEST(nobody_can_wait_for_what_is_no_lease_of_ours)
{
    must("SET %s %s PX %d", k.lease, "somebody else's lock, of another program altogether", LEASE_MS);
    const struct acquired got = acquire(&k, (struct ask){.token = &a, .waits = "b"});
    assert_string_equal(got.kind, "B");
    assert_string_equal(got.word, "");
    assert_false(exists(k.waiting));
}

static void expect_message(const char *message, const struct text *value)
{
    char expected[2 * TEXT_SIZE];
    if (value != NULL)
        snprintf(expected, sizeof(expected), "%s %.*s", message, (int)value->size, value->bytes);
    told(value != NULL ? expected : message);
}

TEST(a_fill_sends_its_value_to_those_who_wait_for_its_lease)
{
    enum { NOBODY, FOR_IT, FOR_ANOTHER, NONSENSE };
    static const struct {
        int waits;
        int spare_bytes; /* push_bytes beyond the envelope's */
        bool travels;
    } rows[] = {{NOBODY, 100, false}, {FOR_IT, 100, true},       {FOR_IT, 0, true},
                {FOR_IT, -1, false},  {FOR_ANOTHER, 100, false}, {NONSENSE, 100, false}};
    const struct text value = envelope_of(&a);
    char tag[17], push_bytes[24];
    for (size_t i = 0; i < COUNT(rows); i++) {
        must("FLUSHALL");
        assert_acquire(&k, (struct ask){.token = &a}, "L");
        if (rows[i].waits == FOR_IT)
            assert_acquire(&k, (struct ask){.token = &b, .waits = "b"}, "B");
        else if (rows[i].waits == FOR_ANOTHER)
            must("SET %s %s PX %d", k.waiting, tag_of(&b, tag), LEASE_MS);
        else if (rows[i].waits == NONSENSE)
            must("RPUSH %s nonsense", k.waiting);
        snprintf(push_bytes, sizeof(push_bytes), "%d", (int)value.size + rows[i].spare_bytes);
        assert_int_equal(number(fill_with(&k, a.text, &value, "600000", "message", push_bytes)), 1);
        expect_message("message", rows[i].travels ? &value : NULL);
    }
}

TEST(a_touch_sends_what_it_has_stored)
{
    const struct text touched = envelope_of(&a);
    char push_bytes[24];
    for (int spare_bytes = -1; spare_bytes <= 0; spare_bytes++) {
        put_value(&k, &filler, STALE_MS);
        assert_acquire(&k, (struct ask){.token = &a}, "S1");
        assert_acquire(&k, (struct ask){.token = &b, .waits = "s"}, "S0");
        snprintf(push_bytes, sizeof(push_bytes), "%d", (int)touched.size + spare_bytes);
        assert_int_equal(number(touch_with(&k, &a, &filler, "message", push_bytes)), 1);
        expect_message("message", spare_bytes == 0 ? &touched : NULL);
    }
}

TEST(a_grant_executed_after_all_was_over_can_store_nothing, P6)
{
    /* The reply to `late` never came; its command is still on its way. The next attempt loads and fills. */
    assert_acquire(&k, (struct ask){.token = &b, .prev = &late}, "L");
    assert_int_equal(fill(&k, &b, "filled"), 1);
    assert_int_equal(invalidate(&k, "gone"), 1);
    assert_acquire(&k, (struct ask){.token = &late}, "L"); /* now it arrives */
    assert_ttl(pttl(k.lease), LEASE_MS);
    assert_int_equal(fill(&k, &b, "stale"), 0);
    assert_false(exists(k.value));
    assert_acquire(&k, (struct ask){.token = &c}, "B");
    must("DEL %s", k.lease); /* the orphan runs out */
    assert_acquire(&k, (struct ask){.token = &c}, "L");
    told("filled, gone");
}

TEST_GROUP(.up = start, .down = server_down, .before = server_empty);
