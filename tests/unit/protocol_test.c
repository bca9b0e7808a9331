/* SPDX-License-Identifier: MIT */
/*
 * protocol_test.c - what Redis's replies and messages mean to the core. Replies come out of hiredis's own
 * reader.
 */
#include "guard/base/clock.h"
#include "guard/wire/envelope.h"
#include "guard/wire/protocol.h"
#include "guard/wire/wake.h"
#include "tests/support/test.h"

static const char FILLER[] = "11111111-1111-4111-8111-111111111111";

/* ---- tokens ---- */

TEST(a_token_has_uuid_tag_and_lease_where_the_scripts_look)
{
    struct protocol protocol;
    uint8_t random[24] = {0};
    char token[TOKEN_SIZE], rest[TOKEN_SIZE];
    for (size_t i = 0; i < sizeof random; i++)
        random[i] = (uint8_t)i;
    protocol_init(&protocol, "ns", 3, 60000, 86400000);
    assert_string_equal(protocol.channel, "csg1:wake:ns:3");
    protocol_token(&protocol, random, 3000, 1700000000, token);
    assert_memory_equal(token, "00010203-0405-4607-8809-0a0b0c0d0e0f ", 37);
    assert_int_equal(strspn(token + TOKEN_TAG_AT, "0123456789abcdef"), TOKEN_TAG_BYTES);
    snprintf(rest, sizeof rest, " 0003000 %s 1700000000", protocol.process);
    assert_string_equal(token + TOKEN_TAG_AT + TOKEN_TAG_BYTES, rest);
}

TEST(tokens_differ_in_uuid_and_tag)
{
    struct protocol protocol;
    uint8_t random[24] = {0};
    char first[TOKEN_SIZE], second[TOKEN_SIZE];
    protocol_init(&protocol, "ns", 0, 60000, 86400000);
    protocol_token(&protocol, random, 3000, 0, first);
    random[0] = random[20] = 1;
    protocol_token(&protocol, random, 3000, 0, second);
    assert_memory_not_equal(first, second, TOKEN_UUID_BYTES);
    assert_memory_not_equal(first + TOKEN_TAG_AT, second + TOKEN_TAG_AT, TOKEN_TAG_BYTES);
}

/* ---- replies ---- */

struct reading {
    struct core_reply reply;
    struct value *value; /* ours */
    redisReply *raw;
};

/* Reads one reply as it stands on the wire. */
static struct reading reading_of(enum core_action_kind kind, const char *wire, size_t wire_bytes)
{
    struct reading reading = {.value = NULL};
    void *raw = NULL;
    redisReader *reader = redisReaderCreate();
    assert_int_equal(redisReaderFeed(reader, wire, wire_bytes), REDIS_OK);
    assert_int_equal(redisReaderGetReply(reader, &raw), REDIS_OK);
    assert_non_null(raw);
    redisReaderFree(reader);
    reading.raw = raw;
    protocol_read(kind, "product:7", 9, REDIS_REPLIED, raw, &reading.reply, &reading.value);
    return reading;
}

static void reading_clear(struct reading *reading)
{
    value_unref(&reading->value);
    freeReplyObject(reading->raw);
}

static struct reading text_reading(enum core_action_kind kind, const char *wire)
{
    return reading_of(kind, wire, strlen(wire));
}

static enum core_reply_kind kind_of(enum core_action_kind kind, const char *wire)
{
    struct reading reading = text_reading(kind, wire);
    enum core_reply_kind read = reading.reply.kind;
    assert_null(reading.value);
    reading_clear(&reading);
    return read;
}

TEST(a_command_that_was_not_answered_is_unsent_or_unknown)
{
    struct core_reply reply;
    struct value *value = NULL;
    protocol_read(CORE_ACQUIRE, "k", 1, REDIS_UNSENT, NULL, &reply, &value);
    assert_int_equal(reply.kind, REPLY_UNSENT);
    protocol_read(CORE_FILL, "k", 1, REDIS_UNKNOWN, NULL, &reply, &value);
    assert_int_equal(reply.kind, REPLY_UNKNOWN);
    assert_null(value);
}

TEST(replies_without_a_value_are_read)
{
    assert_int_equal(kind_of(CORE_ACQUIRE, "*2\r\n$1\r\nL\r\n:3000\r\n"), REPLY_LEASE);
    assert_int_equal(kind_of(CORE_ACQUIRE, "*1\r\n$1\r\nM\r\n"), REPLY_FREE);
    struct reading busy = text_reading(CORE_ACQUIRE, "*3\r\n$1\r\nB\r\n:1234\r\n$0\r\n\r\n");
    assert_int_equal(busy.reply.kind, REPLY_BUSY);
    assert_int_equal(busy.reply.pttl_ms, 1234);
    reading_clear(&busy);
    struct reading code = text_reading(CORE_FILL, ":-1\r\n");
    assert_int_equal(code.reply.kind, REPLY_CODE);
    assert_int_equal(code.reply.code, -1);
    reading_clear(&code);
}

TEST(a_lease_is_known_by_a_tag_of_sixteen_hex_digits)
{
    static const struct {
        const char *wire;
        bool known;
    } REPLIES[] = {
        {"*3\r\n$1\r\nB\r\n:1\r\n$16\r\n0123456789abcdef\r\n", true},
        {"*3\r\n$1\r\nB\r\n:1\r\n$16\r\n0123456789abcdeF\r\n", false},
        {"*3\r\n$1\r\nB\r\n:1\r\n$15\r\n0123456789abcde\r\n", false},
        {"*3\r\n$1\r\nB\r\n:1\r\n$17\r\n0123456789abcdef0\r\n", false},
        {"*3\r\n$1\r\nB\r\n:1\r\n$0\r\n\r\n", false},
        {"*3\r\n$1\r\nB\r\n:1\r\n:7\r\n", false},
        {"*2\r\n$1\r\nB\r\n:1\r\n", false},
    };
    for (size_t i = 0; i < sizeof REPLIES / sizeof *REPLIES; i++) {
        struct reading busy = text_reading(CORE_ACQUIRE, REPLIES[i].wire);
        assert_int_equal(busy.reply.kind, REPLY_BUSY);
        assert_int_equal(busy.reply.lease_tag != NULL, REPLIES[i].known);
        if (REPLIES[i].known)
            assert_memory_equal(busy.reply.lease_tag, "0123456789abcdef", TOKEN_TAG_BYTES);
        reading_clear(&busy);
    }
}

TEST(a_remembered_failure_keeps_its_class)
{
    static const struct {
        const char *code;
        enum guard_failure failure;
        bool too_big;
    } CODES[] = {
        {"unavailable", GUARD_FAILURE_UNAVAILABLE, false},
        {"timeout", GUARD_FAILURE_TIMEOUT, false},
        {"rejected", GUARD_FAILURE_REJECTED, false},
        {"internal", GUARD_FAILURE_INTERNAL, false},
        {"too_big", GUARD_FAILURE_INTERNAL, true},
        {"of a later version", GUARD_FAILURE_INTERNAL, false},
        {"none", GUARD_FAILURE_INTERNAL, false},
        {"", GUARD_FAILURE_INTERNAL, false},
    };
    for (size_t i = 0; i < sizeof CODES / sizeof *CODES; i++) {
        char wire[96];
        int bytes = snprintf(wire, sizeof wire, "*3\r\n$1\r\nE\r\n$%zu\r\n%s\r\n:700\r\n",
                             strlen(CODES[i].code), CODES[i].code);
        struct reading reading = reading_of(CORE_ACQUIRE, wire, (size_t)bytes);
        assert_int_equal(reading.reply.kind, REPLY_FAILED);
        assert_int_equal(reading.reply.failure, CODES[i].failure);
        assert_int_equal(reading.reply.too_big, CODES[i].too_big);
        assert_int_equal(reading.reply.pttl_ms, 700);
        reading_clear(&reading);
    }
}

/* A stored entry as acquire replies it. */
static struct reading entry_reading(const struct envelope *envelope, const char *head, long long pttl_ms,
                                    const char *tail)
{
    char wire[1024];
    size_t bytes = envelope_size(envelope);
    int at = snprintf(wire, sizeof wire, "%s$%zu\r\n", head, bytes);
    envelope_write(envelope, wire + at);
    at += (int)bytes;
    at += snprintf(wire + at, sizeof wire - (size_t)at, "\r\n:%lld\r\n%s", pttl_ms, tail);
    return reading_of(CORE_ACQUIRE, wire, (size_t)at);
}

static struct envelope row_envelope(void)
{
    struct envelope envelope = {.px_ms = 90000,
                                .stale_ms = 30000,
                                .key = "product:7",
                                .key_bytes = 9,
                                .validator = "v7",
                                .validator_bytes = 2,
                                .body = "a\0row",
                                .body_bytes = 5};
    memcpy(envelope.filler, FILLER, sizeof FILLER);
    return envelope;
}

TEST(a_fresh_entry_brings_its_value_age_and_rest)
{
    struct envelope envelope = row_envelope();
    struct reading reading = entry_reading(&envelope, "*3\r\n$1\r\nH\r\n", 80000, "");
    assert_int_equal(reading.reply.kind, REPLY_FRESH);
    assert_false(reading.reply.damaged || reading.reply.absent);
    assert_int_equal(reading.reply.age_ms, 10000);
    assert_int_equal(reading.reply.left_ms, 50000);
    assert_ptr_equal(reading.reply.value, reading.value);
    assert_memory_equal(reading.value->public.body, "a\0row", 6);
    assert_string_equal(reading.value->public.validator, "v7");
    reading_clear(&reading);
}

TEST(a_stale_entry_says_whose_turn_it_is)
{
    static const struct {
        const char *head, *tail;
        enum core_refresher refresher;
    } REFRESHERS[] = {
        {"*4\r\n$1\r\nS\r\n", ":1\r\n", REFRESH_OURS},
        {"*5\r\n$1\r\nS\r\n", ":0\r\n$16\r\n0123456789abcdef\r\n", REFRESH_OTHERS},
        {"*5\r\n$1\r\nS\r\n", ":0\r\n$0\r\n\r\n", REFRESH_OTHERS},
        {"*5\r\n$1\r\nS\r\n", ":-1\r\n:500\r\n", REFRESH_COOLING},
    };
    struct envelope envelope = row_envelope();
    for (size_t i = 0; i < sizeof REFRESHERS / sizeof *REFRESHERS; i++) {
        struct reading reading = entry_reading(&envelope, REFRESHERS[i].head, 20000, REFRESHERS[i].tail);
        assert_int_equal(reading.reply.kind, REPLY_STALE);
        assert_int_equal(reading.reply.refresher, REFRESHERS[i].refresher);
        assert_int_equal(reading.reply.left_ms, 0);
        assert_int_equal(reading.reply.age_ms, 70000);
        assert_non_null(reading.value);
        reading_clear(&reading);
    }
}

TEST(an_absent_entry_has_no_value)
{
    struct envelope envelope = row_envelope();
    envelope.absent = true;
    envelope.stale_ms = 0;
    envelope.validator_bytes = envelope.body_bytes = 0;
    struct reading reading = entry_reading(&envelope, "*3\r\n$1\r\nH\r\n", 80000, "");
    assert_int_equal(reading.reply.kind, REPLY_FRESH);
    assert_true(reading.reply.absent);
    assert_null(reading.value);
    reading_clear(&reading);
}

TEST(an_entry_of_another_key_is_damaged_and_named_by_its_head)
{
    struct envelope envelope = row_envelope();
    envelope.key = "product:8";
    struct reading reading = entry_reading(&envelope, "*3\r\n$1\r\nH\r\n", 80000, "");
    assert_true(reading.reply.damaged);
    assert_memory_equal(reading.reply.head, FILLER, TOKEN_UUID_BYTES);
    assert_null(reading.value);
    reading_clear(&reading);
}

TEST(what_no_script_of_ours_answers_is_refused)
{
    static const char *const NONSENSE[] = {
        "+OK\r\n",
        "-OOM command not allowed when used memory > 'maxmemory'.\r\n",
        "-NOSCRIPT No matching script\r\n",
        ":1\r\n",
        "$-1\r\n",
        "*-1\r\n",
        "*0\r\n",
        "*1\r\n:1\r\n",
        "*1\r\n$1\r\nZ\r\n",
        "*1\r\n$1\r\nH\r\n",
        "*2\r\n$1\r\nH\r\n:1\r\n",
        "*3\r\n$1\r\nS\r\n$5\r\nshort\r\n:1\r\n",
        "*2\r\n$1\r\nE\r\n:1\r\n",
        "*2\r\n$2\r\nLL\r\n:1\r\n",
        "*1\r\n*1\r\n:1\r\n",
    };
    for (size_t i = 0; i < sizeof NONSENSE / sizeof *NONSENSE; i++)
        assert_int_equal(kind_of(CORE_ACQUIRE, NONSENSE[i]), REPLY_REFUSED);
    assert_int_equal(kind_of(CORE_RENEW, "*1\r\n:1\r\n"), REPLY_REFUSED);
    assert_int_equal(kind_of(CORE_INVALIDATE, "-READONLY You can't write\r\n"), REPLY_REFUSED);
}

TEST(spans_beyond_their_type_are_cut_not_wrapped)
{
    struct reading busy = text_reading(CORE_ACQUIRE, "*2\r\n$1\r\nB\r\n:99999999999\r\n");
    assert_int_equal(busy.reply.pttl_ms, UINT32_MAX);
    reading_clear(&busy);
    busy = text_reading(CORE_ACQUIRE, "*2\r\n$1\r\nB\r\n:-2\r\n");
    assert_int_equal(busy.reply.pttl_ms, 0);
    reading_clear(&busy);
}

/* ---- messages ---- */

TEST(messages_are_told_apart)
{
    static const struct {
        const char *payload;
        enum message_kind kind;
        const char *subject;
    } MESSAGES[] = {
        {"f 0123456789abcdef product:7", MESSAGE_FILLED, "product:7"},
        {"r 0123456789abcdef k", MESSAGE_RELEASED, "k"},
        {"i - category:3", MESSAGE_INVALIDATED, "category:3"},
    };
    for (size_t i = 0; i < sizeof MESSAGES / sizeof *MESSAGES; i++) {
        struct message message = message_read(MESSAGES[i].payload, strlen(MESSAGES[i].payload));
        assert_int_equal(message.kind, MESSAGES[i].kind);
        assert_int_equal(message.subject_bytes, strlen(MESSAGES[i].subject));
        assert_memory_equal(message.subject, MESSAGES[i].subject, message.subject_bytes);
    }
}

TEST(anything_else_is_no_message)
{
    static const char *const OTHERS[] = {"",       "f",         "f ",       "fx",  "f x", "c me 1",
                                         "f tag ", "z tag key", "ftag key", "  x", "i -"};
    for (size_t i = 0; i < sizeof OTHERS / sizeof *OTHERS; i++)
        assert_int_equal(message_read(OTHERS[i], strlen(OTHERS[i])).kind, MESSAGE_NONE);
}

/* A message of product:7 as a fill sends it; *bytes: its length. */
static char *message_with(const struct envelope *envelope, const char *head, size_t *bytes)
{
    size_t head_bytes = strlen(head);
    char *payload = malloc(head_bytes + envelope_size(envelope));
    assert_non_null(payload);
    memcpy(payload, head, head_bytes);
    envelope_write(envelope, payload + head_bytes);
    *bytes = head_bytes + envelope_size(envelope);
    return payload;
}

static const struct core_key PRODUCT_7 = {"product:7", 9, "product:7", 9};
static const char FILLED[] = "f 0123456789abcdef product:7 ";

static bool is_pushed(const char *payload, size_t bytes, struct core_reply *out, struct value **value)
{
    struct message message = message_read(payload, bytes);
    assert_int_equal(message.kind, MESSAGE_FILLED);
    assert_int_equal(message.subject_bytes, 9);
    assert_memory_equal(message.subject, "product:7", 9);
    assert_non_null(message.lease_tag);
    assert_non_null(message.entry);
    return message_read_entry(&message, &PRODUCT_7, 90000, out, value);
}

TEST(what_was_filled_may_follow_the_key)
{
    for (int absent = 0; absent <= 1; absent++) {
        struct envelope envelope = row_envelope();
        struct core_reply pushed;
        struct value *value = NULL;
        size_t bytes = 0;
        if (absent) {
            envelope.absent = true;
            envelope.stale_ms = envelope.validator_bytes = envelope.body_bytes = 0;
        }
        char *payload = message_with(&envelope, FILLED, &bytes);
        assert_true(is_pushed(payload, bytes, &pushed, &value));
        assert_memory_equal(pushed.lease_tag, "0123456789abcdef", TOKEN_TAG_BYTES);
        assert_int_equal(pushed.absent, absent);
        assert_int_equal(pushed.left_ms, absent ? 90000 : 60000);
        assert_ptr_equal(pushed.value, value);
        assert_int_equal(value == NULL, absent);
        if (value != NULL)
            assert_memory_equal(value->public.body, "a\0row", 6);
        value_unref(&value);
        free(payload);
    }
}

/* Cut at every length and with every byte changed: never believed, and still the message that it is. */
TEST(an_entry_that_is_not_whole_and_of_that_key_is_not_believed, P23)
{
    struct envelope envelope = row_envelope();
    struct core_reply pushed;
    struct value *value = NULL;
    size_t bytes = 0, head_bytes = strlen(FILLED);
    char *payload = message_with(&envelope, FILLED, &bytes);
    for (size_t cut = head_bytes; cut < bytes; cut++)
        assert_false(is_pushed(payload, cut, &pushed, &value));
    for (size_t at = head_bytes; at < bytes; at++) {
        payload[at] ^= 1;
        assert_false(is_pushed(payload, bytes, &pushed, &value));
        payload[at] ^= 1;
    }
    assert_true(is_pushed(payload, bytes, &pushed, &value));
    value_unref(&value);
    free(payload);
    envelope.key = "product:8";
    payload = message_with(&envelope, FILLED, &bytes);
    assert_false(is_pushed(payload, bytes, &pushed, &value));
    free(payload);
}

TEST(an_entry_that_lives_longer_than_the_namespace_allows_is_not_believed)
{
    struct envelope envelope = row_envelope();
    struct core_reply pushed;
    struct value *value = NULL;
    size_t bytes = 0;
    envelope.px_ms = 90001;
    char *payload = message_with(&envelope, FILLED, &bytes);
    assert_false(is_pushed(payload, bytes, &pushed, &value));
    assert_null(value);
    free(payload);
}

TEST(what_was_loaded_travels_and_only_under_a_tag)
{
    static const struct {
        const char *payload;
        bool tag, entry;
        size_t subject_bytes;
    } MESSAGES[] = {
        {"f 0123456789abcdef k", true, false, 1},
        {"f 0123456789abcdef k ", true, true, 1},
        {"f 0123456789abcdef k entry", true, true, 1},
        {"f 0123456789abcdeg k entry", false, true, 1},
        {"f - k entry", false, true, 1},
        {"r 0123456789abcdef k", true, false, 1},
        {"r 0123456789abcdef k entry", true, true, 1},
        {"i - k entry", false, false, 7},
    };
    for (size_t i = 0; i < sizeof MESSAGES / sizeof *MESSAGES; i++) {
        struct message message = message_read(MESSAGES[i].payload, strlen(MESSAGES[i].payload));
        assert_int_equal(message.lease_tag != NULL, MESSAGES[i].tag);
        assert_int_equal(message.entry != NULL, MESSAGES[i].entry);
        assert_int_equal(message.subject_bytes, MESSAGES[i].subject_bytes);
    }
    assert_int_equal(message_read("f 0123456789abcdef  entry", 25).kind, MESSAGE_NONE);
}
