/* SPDX-License-Identifier: MIT */
/*
 * lock_wire_test.c - what Redis's replies and messages mean to the core of the locks, and what is none of ours.
 * Replies come out of hiredis's own reader.
 */
#include "guard/locks/lock_wire.h"
#include "tests/support/test.h"

#include <inttypes.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define UUID "01234567-89ab-4def-8123-456789abcdef"

/* ---- tokens ---- */

TEST(a_token_has_its_fields_where_the_scripts_look)
{
    struct lock_token token = {
        .uuid = UUID, .units = 1, .limit = LOCK_ALL, .lease_ms = 10000, .who = "host:7", .since_s = 99};
    char text[LOCK_TOKEN_SIZE];
    const size_t bytes = lock_token_write(&token, text);
    assert_string_equal(text, UUID " 0000001 1000000 00010000 host:7 99");
    assert_int_equal(bytes, strlen(text));
}

TEST(a_token_comes_back_as_it_went)
{
    struct lock_token token = {
        .uuid = UUID, .units = 3, .limit = 999999, .lease_ms = 99999999, .who = "h", .since_s = 1700000000};
    struct lock_token back;
    char text[LOCK_TOKEN_SIZE];
    const size_t bytes = lock_token_write(&token, text);
    assert_true(lock_token_read(text, bytes, &back));
    assert_string_equal(back.uuid, token.uuid);
    assert_string_equal(back.who, token.who);
    assert_int_equal(back.units, 3);
    assert_int_equal(back.limit, 999999);
    assert_int_equal(back.lease_ms, 99999999);
    assert_int_equal(back.since_s, 1700000000);
}

/* No space and no newline, which would end it in a list; and never longer than there is room. */
TEST(no_name_of_a_host_breaks_a_token)
{
    struct lock_token token = {.uuid = UUID, .units = 1, .limit = 1, .since_s = UINT64_MAX}, back;
    char text[LOCK_TOKEN_SIZE];
    memset(token.who, '\n', sizeof token.who - 1);
    token.who[1] = ' ';
    const size_t bytes = lock_token_write(&token, text);
    assert_in_range(bytes, LOCK_TOKEN_HEAD_BYTES, LOCK_TOKEN_SIZE - 1);
    assert_null(strchr(text, '\n'));
    assert_true(lock_token_read(text, bytes, &back));
    assert_string_equal(back.who, "????????????????????????????????????????????????");
}

TEST(what_is_no_token_is_told_apart)
{
    static const char *const others[] = {
        "",
        "open",
        UUID " 0000001 1000000 0001000",
        UUID " 000001 1000000 00010000 h:1 1",
        UUID " 0000001 1000000 0001000x h:1 1",
        UUID "_0000001 1000000 00010000 h:1 1",
        "01234567-89ab-4def-8123-456789abcdeF 0000001 1000000 00010000 h:1 1",
        "01234567+89ab-4def-8123-456789abcdef 0000001 1000000 00010000 h:1 1",
    };
    struct lock_token token;
    for (size_t i = 0; i < COUNT(others); i++)
        assert_false(lock_token_read(others[i], strlen(others[i]), &token));
    char longest[LOCK_TOKEN_SIZE];
    memset(longest, '1', sizeof longest);
    memcpy(longest, UUID " 0000001 1000000 00010000 ", LOCK_TOKEN_HEAD_BYTES + 1);
    assert_true(lock_token_read(longest, sizeof longest - 1, &token));
    assert_false(lock_token_read(longest, sizeof longest, &token));
}

TEST(of_what_is_there_for_people_nothing_need_be_sound)
{
    static const char *const rests[] = {
        "", " ", " h:1", " h:1 ", " h:1 x", "_h:1 1", " h:1 11111111111111111111"};
    for (size_t i = 0; i < COUNT(rests); i++) {
        char text[LOCK_TOKEN_SIZE];
        struct lock_token token;
        snprintf(text, sizeof text, UUID " 0000001 1000000 00010000%s", rests[i]);
        assert_true(lock_token_read(text, strlen(text), &token));
        assert_string_equal(token.who, "");
        assert_int_equal(token.since_s, 0);
    }
}

/* ---- messages ---- */

TEST(a_message_names_a_token_or_all_on_a_name)
{
    static const char one[] = "k " UUID " a%2Fb", all[] = "k * x";
    struct lock_message message;
    assert_true(lock_message_read(one, sizeof one - 1, &message));
    assert_memory_equal(message.uuid, UUID, LOCK_UUID_BYTES);
    assert_int_equal(message.encoded_bytes, 5);
    assert_memory_equal(message.encoded, "a%2Fb", 5);
    assert_true(lock_message_read(all, sizeof all - 1, &message));
    assert_null(message.uuid);
    assert_int_equal(message.encoded_bytes, 1);
}

TEST(what_is_no_message_of_ours_is_told_apart)
{
    static const char *const others[] = {"",
                                         "k",
                                         "k *",
                                         "k * ",
                                         "k *x",
                                         "k  x",
                                         "f * x",
                                         "k ** x",
                                         "k * a b",
                                         "k * a\nb",
                                         "k " UUID,
                                         "k " UUID " ",
                                         "k " UUID "x",
                                         "k 01234567-89ab-4def-8123-456789abcdeX a",
                                         "c " UUID " 1"};
    struct lock_message message;
    char longest[4 + KEY_ENCODED_MAX + 1];
    for (size_t i = 0; i < COUNT(others); i++)
        assert_false(lock_message_read(others[i], strlen(others[i]), &message));
    memset(longest, 'a', sizeof longest);
    memcpy(longest, "k * ", 4);
    assert_true(lock_message_read(longest, sizeof longest - 1, &message));
    assert_false(lock_message_read(longest, sizeof longest, &message));
}

/* ---- replies ---- */

static redisReply *parsed(const char *wire)
{
    void *raw = NULL;
    redisReader *reader = redisReaderCreate();
    assert_int_equal(redisReaderFeed(reader, wire, strlen(wire)), REDIS_OK);
    assert_int_equal(redisReaderGetReply(reader, &raw), REDIS_OK);
    assert_non_null(raw);
    redisReaderFree(reader);
    return raw;
}

static uint32_t ask_now[4];
static struct lock_reply reply; /* the last */

/* Only the kind, and whether there is a reason. */
static void assert_read(const struct lock_asked *asked, const char *wire, enum lock_reply_kind kind)
{
    redisReply *raw = parsed(wire);
    lock_wire_read(asked, REDIS_REPLIED, raw, &reply, ask_now);
    assert_int_equal(reply.kind, kind);
    assert_true((reply.why != NULL) == (kind == LOCK_UNANSWERED));
    freeReplyObject(raw);
}

static const struct lock_asked two_names = {LOCK_TAKE, false, 2};
static const struct lock_asked latch = {LOCK_TAKE, true, 1}, leaving = {LOCK_GIVE, true, 1};
static const struct lock_asked renewal = {LOCK_RENEW, false, 1}, giving = {LOCK_GIVE, false, 1};
static const struct lock_asked three_stay = {LOCK_STAY, false, 3};

TEST(a_grant_has_a_number_for_each_name)
{
    assert_read(&two_names, "*3\r\n:1\r\n:1700000000000000\r\n:7\r\n", LOCK_GRANTED);
    assert_int_equal(reply.fence[0], 1700000000000000);
    assert_int_equal(reply.fence[1], 7);
    assert_int_equal(reply.valid_ms, 0);
}

TEST(a_refusal_says_when_to_ask_again_and_how_many_stand_in_front)
{
    assert_read(&two_names, "*3\r\n:0\r\n:250\r\n:9\r\n", LOCK_REFUSED);
    assert_int_equal(reply.hint_ms, 250);
    assert_int_equal(reply.before, 9);
    assert_read(&two_names, "*1\r\n:-1\r\n", LOCK_GONE);
}

TEST(renewals_and_releases_are_held_or_not)
{
    assert_read(&renewal, ":1\r\n", LOCK_DONE);
    assert_read(&renewal, ":0\r\n", LOCK_NOT_HELD);
    assert_read(&giving, ":1\r\n", LOCK_DONE);
    assert_read(&giving, ":0\r\n", LOCK_NOT_HELD);
}

TEST(a_latch_is_open_or_some_are_missing)
{
    assert_read(&latch, ":0\r\n", LOCK_GRANTED);
    assert_read(&latch, ":3\r\n", LOCK_REFUSED);
    assert_int_equal(reply.before, 3);
    assert_read(&latch, ":-1\r\n", LOCK_GONE);
    assert_read(&leaving, ":3\r\n", LOCK_DONE);
}

TEST(those_that_should_ask_are_counted_from_nought)
{
    assert_read(&three_stay, "$3\r\n101\r\n", LOCK_DONE);
    assert_int_equal(reply.ask_now_count, 2);
    assert_int_equal(reply.ask_now[0], 0);
    assert_int_equal(reply.ask_now[1], 2);
    assert_read(&three_stay, "$3\r\n000\r\n", LOCK_DONE);
    assert_int_equal(reply.ask_now_count, 0);
}

TEST(anything_else_is_no_answer_and_says_why)
{
    static const struct {
        const struct lock_asked *asked;
        const char *wire;
    } nonsense[] = {
        {&two_names, ":1\r\n"},
        {&two_names, "*0\r\n"},
        {&two_names, "*2\r\n:1\r\n:7\r\n"},
        {&two_names, "*4\r\n:1\r\n:7\r\n:7\r\n:7\r\n"},
        {&two_names, "*3\r\n:1\r\n:7\r\n$1\r\n7\r\n"},
        {&two_names, "*3\r\n:1\r\n:0\r\n:7\r\n"},
        {&two_names, "*3\r\n:2\r\n:7\r\n:7\r\n"},
        {&two_names, "*3\r\n:0\r\n:0\r\n:1\r\n"},
        {&two_names, "*3\r\n:0\r\n:1\r\n:-1\r\n"},
        {&two_names, "*3\r\n:0\r\n:4294967296\r\n:1\r\n"},
        {&two_names, "*2\r\n:0\r\n:1\r\n"},
        {&two_names, "*2\r\n:-1\r\n:1\r\n"},
        {&two_names, "$2\r\nOK\r\n"},
        {&two_names, "*3\r\n$1\r\n1\r\n:7\r\n:7\r\n"},
        {&renewal, ":2\r\n"},
        {&renewal, ":-1\r\n"},
        {&renewal, "$-1\r\n"},
        {&renewal, "*1\r\n:1\r\n"},
        {&giving, "+OK\r\n"},
        {&latch, ":-2\r\n"},
        {&latch, ":1000001\r\n"},
        {&latch, "*1\r\n:0\r\n"},
        {&leaving, ":-1\r\n"},
        {&three_stay, "$2\r\n10\r\n"},
        {&three_stay, "$4\r\n1010\r\n"},
        {&three_stay, "$3\r\n12 \r\n"},
        {&three_stay, "*3\r\n:1\r\n:0\r\n:1\r\n"},
        {&three_stay, "$-1\r\n"},
    };
    for (size_t i = 0; i < COUNT(nonsense); i++)
        assert_read(nonsense[i].asked, nonsense[i].wire, LOCK_UNANSWERED);
}

/* An error may come from the middle of a script. */
TEST(an_error_is_no_answer_and_its_text_the_reason)
{
    redisReply *raw = parsed("-READONLY You can't write against a read only replica.\r\n");
    lock_wire_read(&renewal, REDIS_REPLIED, raw, &reply, NULL);
    assert_int_equal(reply.kind, LOCK_UNANSWERED);
    assert_string_equal(reply.why, "READONLY You can't write against a read only replica.");
    freeReplyObject(raw);
}

TEST(a_take_that_an_operator_must_allow_first_is_impossible)
{
    static const char *const refusals[] = {
        "-NOPERM this user has no permissions to run the 'evalsha' command\r\n",
        "-ERR unknown command 'EVALSHA', with args beginning with: 'x'\r\n",
        "-ERR Unknown Redis command called from script script: 8a, on @user_script:1.\r\n"};
    const struct lock_asked take = {.kind = LOCK_TAKE, .count = 1};
    for (size_t i = 0; i < COUNT(refusals); i++) {
        redisReply *raw = parsed(refusals[i]);
        lock_wire_read(&take, REDIS_REPLIED, raw, &reply, NULL);
        assert_int_equal(reply.kind, LOCK_IMPOSSIBLE);
        assert_string_equal(reply.why, raw->str);
        lock_wire_read(&renewal, REDIS_REPLIED, raw, &reply, NULL);
        assert_int_equal(reply.kind, LOCK_UNANSWERED);
        freeReplyObject(raw);
    }
}

TEST(what_was_not_sent_has_not_run_and_what_was_not_answered_may_have)
{
    lock_wire_read(&renewal, REDIS_UNSENT, NULL, &reply, NULL);
    assert_int_equal(reply.kind, LOCK_UNSENT);
    lock_wire_read(&renewal, REDIS_UNKNOWN, NULL, &reply, NULL);
    assert_int_equal(reply.kind, LOCK_UNANSWERED);
}

/* ---- looking ---- */

#define TOKEN UUID " 0000001 1000000 00010000 h:1 5"
#define BULK "$67\r\n" TOKEN "\r\n"
_Static_assert(sizeof TOKEN - 1 == 67, "as the bulk says");

TEST(a_look_names_those_that_hold_and_those_that_wait)
{
    struct guard_lock_view view;
    const char *why = NULL;
    redisReply *raw = parsed("*5\r\n:7\r\n:1\r\n:2\r\n*2\r\n" BULK ":250\r\n*1\r\n" BULK);
    assert_true(lock_wire_read_look(REDIS_REPLIED, raw, &view, &why));
    assert_int_equal(view.fence, 7);
    assert_int_equal(view.holder_count, 1);
    assert_int_equal(view.waiter_count, 2);
    assert_int_equal(view.seen_count, 2);
    assert_int_equal(view.seen[0].left_ms, 250);
    assert_string_equal(view.seen[1].who, "h:1");
    assert_int_equal(view.seen[1].since_s, 5);
    freeReplyObject(raw);
}

TEST(a_look_at_nonsense_is_no_answer_and_says_why)
{
    static const char *const nonsense[] = {
        ":1\r\n",
        "*0\r\n",
        "*5\r\n:7\r\n:1\r\n:2\r\n*1\r\n" BULK "*0\r\n",
        "*5\r\n:7\r\n:1\r\n:2\r\n*2\r\n" BULK ":0\r\n*0\r\n",
        "*5\r\n:7\r\n:1\r\n:2\r\n*2\r\n$1\r\nx\r\n:1\r\n*0\r\n",
        "*5\r\n:7\r\n:1\r\n:2\r\n*0\r\n:1\r\n",
        "*5\r\n:-7\r\n:1\r\n:2\r\n*0\r\n*0\r\n",
        "*5\r\n:7\r\n:1\r\n$1\r\n2\r\n*0\r\n*0\r\n",
        "-LOADING Redis is loading the dataset in memory\r\n",
    };
    for (size_t i = 0; i < COUNT(nonsense); i++) {
        struct guard_lock_view view;
        const char *why = NULL;
        redisReply *raw = parsed(nonsense[i]);
        assert_false(lock_wire_read_look(REDIS_REPLIED, raw, &view, &why));
        assert_non_null(why);
        freeReplyObject(raw);
    }
}

/* ---- names of keys ---- */

TEST(a_lock_has_keys_of_its_own_in_the_slot_of_its_name)
{
    struct lock_wire wire;
    char name[KEY_NAME_SIZE];
    lock_wire_init(&wire, "ns", 3, 60000, 3600000);
    assert_string_equal(wire.channel, "csg1:locks:ns:3");
    const size_t bytes = key_lock("ns", "a%20b and what follows", 5, KEY_LOCK_FENCE, name);
    assert_int_equal(bytes, strlen(name));
    assert_string_equal(name, "csg1:{ns:a%20b}:kf");
}
