/* SPDX-License-Identifier: MIT */
/* vote_test.c - which server the Sentinels' answers make the master, and when that is confirmed. */
#include "guard/redis/vote.h"
#include "tests/support/test.h"
#include <hiredis/hiredis.h>

#define OLD "10.0.0.1"
#define NEW "10.0.0.2"

static struct redis_vote vote;
static struct redis_vote_result result;
static uint64_t now_ms;

static struct redis_endpoint name_of(const char *host, uint16_t port)
{
    struct redis_endpoint name = {.port = port};
    snprintf(name.host, sizeof name.host, "%s", host);
    return name;
}

/* So many Sentinels in the URL: s1, s2, ... */
static void begin(size_t seeds)
{
    memset(&vote, 0, sizeof vote);
    now_ms = 1000000;
    for (size_t i = 0; i < seeds; i++) {
        char host[24];
        snprintf(host, sizeof host, "s%zu", i + 1);
        struct redis_endpoint name = name_of(host, 26379);
        assert_true(redis_vote_seed(&vote, &name));
    }
    redis_vote_begin(&vote);
}

static void identify(size_t voter, char letter)
{
    char id[REDIS_VOTER_ID_BYTES];
    memset(id, letter, sizeof id);
    redis_vote_identify(&vote, voter, id, sizeof id);
}

static void cast_with(size_t voter, const char *host, uint64_t epoch, bool down, unsigned others)
{
    struct redis_ballot ballot = {
        .epoch = epoch, .down = down, .others = others, .down_after_ms = 1000 + (uint32_t)epoch};
    if (host != NULL)
        ballot.master = name_of(host, 6379);
    redis_vote_cast(&vote, voter, &ballot, now_ms);
}

static void cast(size_t voter, const char *host, uint64_t epoch)
{
    cast_with(voter, host, epoch, false, 2);
}

static void expect(const char *host, bool confirmed)
{
    redis_vote_count(&vote, now_ms, &result);
    assert_string_equal(result.master.host, host);
    assert_int_equal(result.confirmed, confirmed);
}

static void expect_text(const char *part)
{
    char text[REDIS_VOTE_TEXT_SIZE];
    redis_vote_explain(&result, text);
    if (strstr(text, part) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", part, text);
}

/* ---- counting ---- */

TEST(nothing_is_named_before_one_has_answered)
{
    begin(3);
    expect("", false);
    expect_text("no Sentinel answers");
    cast(0, NULL, 0);
    expect("", false);
    expect_text("no master of the name");
}

TEST(one_answer_names_a_master_and_a_majority_confirms_it, P133)
{
    begin(3);
    cast(2, OLD, 5);
    expect(OLD, false);
    assert_int_equal(result.epoch, 5);
    expect_text("1 of 3 Sentinels agree on the master, 2 must");
    cast(0, OLD, 5);
    expect(OLD, true);
    assert_int_equal(result.down_after_ms, 1005);
}

TEST(half_is_no_majority)
{
    begin(4);
    for (size_t i = 0; i < 2; i++)
        cast_with(i, OLD, 1, false, 3);
    expect(OLD, false);
    expect_text("2 of 4 Sentinels agree on the master, 3 must");
}

TEST(the_higher_epoch_wins_against_any_number, P133)
{
    begin(3);
    cast(0, OLD, 1);
    cast(1, NEW, 2);
    cast(2, OLD, 1);
    expect(NEW, false);
    assert_int_equal(result.epoch, 2);
    cast(0, NEW, 2);
    expect(NEW, true);
}

TEST(the_same_address_of_an_older_epoch_agrees_unless_it_is_thought_to_be_down)
{
    begin(3);
    cast(0, NEW, 2);
    cast(1, NEW, 1);
    expect(NEW, true);
    cast_with(1, NEW, 1, true, 2);
    expect(NEW, false);
}

TEST(a_master_that_is_thought_to_be_down_stays_one_until_another_is_named)
{
    begin(3);
    cast_with(0, OLD, 1, true, 2);
    cast_with(1, OLD, 1, true, 2);
    expect(OLD, true);
}

TEST(of_two_addresses_of_one_epoch_more_answers_decide)
{
    begin(3);
    cast(0, OLD, 0);
    cast(1, NEW, 0);
    expect(OLD, false);
    cast(2, NEW, 0);
    expect(NEW, true);
}

TEST(a_port_tells_masters_apart_and_letters_do_not)
{
    struct redis_ballot ballot = {.master = name_of("Cache-1", 6380), .others = 2};
    begin(3);
    cast(0, "cache-1", 0);
    redis_vote_cast(&vote, 1, &ballot, now_ms);
    expect("cache-1", false);
    ballot.master.port = 6379;
    redis_vote_cast(&vote, 1, &ballot, now_ms);
    expect("cache-1", true);
}

TEST(what_a_sentinel_said_a_moment_ago_counts_against_what_is_older)
{
    begin(3);
    cast(0, NEW, 2);
    now_ms += 500;
    redis_vote_begin(&vote);
    cast(1, OLD, 1);
    cast(2, OLD, 1);
    expect(NEW, false);
    assert_int_equal(result.agreeing, 0);
    now_ms += REDIS_VOTE_KEPT_MS - 500;
    redis_vote_begin(&vote);
    cast(1, OLD, 1);
    cast(2, OLD, 1);
    expect(OLD, true); /* it may have lost what it knew with its life; a majority never heard of it */
}

TEST(what_was_said_in_another_round_confirms_nothing, P133)
{
    begin(3);
    cast(0, OLD, 1);
    cast(1, OLD, 1);
    expect(OLD, true);
    redis_vote_begin(&vote);
    cast(0, OLD, 1);
    expect(OLD, false);
}

/* ---- who is counted ---- */

TEST(there_are_as_many_as_a_sentinel_counts_if_the_url_names_fewer)
{
    begin(1);
    cast_with(0, OLD, 1, false, 4);
    expect(OLD, false);
    assert_int_equal(result.known, 5);
    cast_with(0, OLD, 1, false, 0);
    expect(OLD, true);
}

TEST(a_sentinel_that_knows_no_such_master_does_not_say_how_many_there_are)
{
    begin(1);
    cast_with(0, NULL, 0, false, 8);
    redis_vote_count(&vote, now_ms, &result);
    assert_int_equal(result.known, 1);
}

TEST(one_that_is_reached_by_two_addresses_has_one_vote)
{
    begin(3);
    identify(0, 'a');
    identify(1, 'a');
    cast_with(0, OLD, 1, false, 0);
    cast_with(1, OLD, 1, false, 0);
    expect(OLD, false);
    assert_int_equal(result.known, 2);
    assert_int_equal(result.answered, 1);
    identify(1, 'b');
    expect(OLD, true);
    assert_int_equal(result.known, 3);
}

TEST(an_id_of_another_length_is_none)
{
    begin(2);
    redis_vote_identify(&vote, 0, "short", 5);
    assert_string_equal(vote.voters[0].id, "");
}

/* ---- who is learned ---- */

static struct redisReply *parse(const char *text)
{
    struct redisReader *reader = redisReaderCreate();
    void *reply = NULL;
    assert_int_equal(redisReaderFeed(reader, text, strlen(text)), REDIS_OK);
    assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
    assert_non_null(reply);
    redisReaderFree(reader);
    return reply;
}

static size_t learn_at(const char *host, const char *port, char letter)
{
    char text[256], id[REDIS_VOTER_ID_BYTES + 1] = "";
    memset(id, letter, REDIS_VOTER_ID_BYTES);
    snprintf(text, sizeof text,
             "*6\r\n$2\r\nip\r\n$%zu\r\n%s\r\n$4\r\nport\r\n$%zu\r\n%s\r\n$5\r\nrunid\r\n$40\r\n%s\r\n",
             strlen(host), host, strlen(port), port, id);
    struct redisReply *reply = parse(text);
    size_t voter = redis_vote_learn(&vote, reply, now_ms);
    freeReplyObject(reply);
    return voter;
}

static size_t learn(const char *host, char letter)
{
    return learn_at(host, "26379", letter);
}

TEST(one_that_the_url_names_otherwise_is_not_learned)
{
    begin(2);
    identify(1, 'b');
    assert_int_equal(learn("10.1.0.2", 'b'), REDIS_VOTERS_MAX);
    assert_int_equal(learn("S1", 'a'), REDIS_VOTERS_MAX); /* it has not told its id yet */
}

TEST(one_that_has_moved_is_asked_where_it_is)
{
    begin(1);
    assert_int_equal(learn("10.1.0.2", 'b'), 1);
    cast(1, OLD, 1);
    assert_int_equal(learn("10.1.0.9", 'b'), REDIS_VOTERS_MAX); /* it answers where it is known */
    now_ms += REDIS_VOTE_KEPT_MS;
    redis_vote_begin(&vote);
    assert_int_equal(learn("10.1.0.9", 'b'), 1);
    assert_string_equal(vote.voters[1].name.host, "10.1.0.9");
}

TEST(no_more_than_nine_are_asked_and_silent_ones_make_room)
{
    char host[] = "10.1.0.x";
    begin(1);
    for (char i = 1; i < REDIS_VOTERS_MAX; i++) {
        host[7] = (char)('0' + i);
        assert_int_equal(learn(host, (char)('a' + i)), i);
        cast((size_t)i, OLD, 1);
    }
    assert_int_equal(learn("10.1.1.1", 'z'), REDIS_VOTERS_MAX);
    now_ms += REDIS_VOTE_KEPT_MS;
    redis_vote_begin(&vote);
    for (size_t i = 0; i < REDIS_VOTERS_MAX; i++)
        if (i != 4)
            cast(i, OLD, 1);
    assert_int_equal(learn("10.1.1.1", 'z'), 4);
    struct redis_endpoint tenth = name_of("s10", 1);
    assert_false(redis_vote_seed(&vote, &tenth));
}

TEST(a_name_that_cannot_be_one_is_not_learned)
{
    begin(1);
    assert_int_equal(learn_at("10.1.0.2", "0", 'b'), REDIS_VOTERS_MAX);
    assert_int_equal(learn_at("10.1.0.2", "65536", 'b'), REDIS_VOTERS_MAX);
    assert_int_equal(learn_at("10.1.0.2", "26379x", 'b'), REDIS_VOTERS_MAX);
    assert_int_equal(learn_at("10.1.0.2\n", "26379", 'b'), REDIS_VOTERS_MAX);
    assert_int_equal(learn_at("", "26379", 'b'), REDIS_VOTERS_MAX);
    struct redisReply *nothing = parse("*0\r\n");
    assert_int_equal(redis_vote_learn(&vote, nothing, now_ms), REDIS_VOTERS_MAX);
    freeReplyObject(nothing);
}

/* ---- reading ---- */

static bool read_master(const char *text, struct redis_ballot *ballot)
{
    struct redisReply *reply = parse(text);
    bool good = redis_ballot_read_master(ballot, reply);
    freeReplyObject(reply);
    return good;
}

static bool read_address(const char *text, struct redis_ballot *ballot)
{
    struct redisReply *reply = parse(text);
    bool good = redis_ballot_read_address(ballot, reply);
    freeReplyObject(reply);
    return good;
}

TEST(the_answers_of_a_sentinel_are_read)
{
    struct redis_ballot ballot = {.epoch = 0};
    assert_true(
        read_master("*10\r\n$2\r\nip\r\n$8\r\n10.0.0.9\r\n$5\r\nflags\r\n$20\r\nmaster,s_down,o_down\r\n"
                    "$12\r\nconfig-epoch\r\n$2\r\n17\r\n$19\r\nnum-other-sentinels\r\n$1\r\n2\r\n"
                    "$23\r\ndown-after-milliseconds\r\n$4\r\n5000\r\n",
                    &ballot));
    assert_int_equal(ballot.epoch, 17);
    assert_true(ballot.down);
    assert_int_equal(ballot.others, 2);
    assert_int_equal(ballot.down_after_ms, 5000);
    assert_string_equal(ballot.master.host, ""); /* not of this answer */
    assert_true(read_address("*2\r\n$8\r\n10.0.0.1\r\n$4\r\n6379\r\n", &ballot));
    assert_string_equal(ballot.master.host, "10.0.0.1");
    assert_int_equal(ballot.master.port, 6379);
}

TEST(a_name_that_no_sentinel_knows_is_an_answer)
{
    struct redis_ballot ballot = {.epoch = 0};
    assert_true(read_master("-ERR No such master with that name\r\n", &ballot));
    assert_true(read_address("*-1\r\n", &ballot));
    assert_string_equal(ballot.master.host, "");
}

TEST(what_no_sentinel_answers_is_refused)
{
    static const char *const masters[] = {
        "+OK\r\n",
        "*0\r\n",
        "-ERR unknown command 'SENTINEL'\r\n",
        "*2\r\n$12\r\nconfig-epoch\r\n$1\r\n1\r\n",
        "*4\r\n$5\r\nflags\r\n$6\r\nmaster\r\n$12\r\nconfig-epoch\r\n$2\r\n-1\r\n",
        "*4\r\n$5\r\nflags\r\n:1\r\n$12\r\nconfig-epoch\r\n$1\r\n1\r\n",
        "*3\r\n$12\r\nconfig-epoch\r\n$1\r\n1\r\n$5\r\nflags\r\n",
    };
    static const char *const addresses[] = {
        "+OK\r\n",
        "*1\r\n$1\r\na\r\n",
        "*2\r\n$1\r\na\r\n$5\r\n65536\r\n",
        "*2\r\n$0\r\n\r\n$1\r\n1\r\n",
        "*2\r\n$3\r\na b\r\n$1\r\n1\r\n",
        "*2\r\n*0\r\n*0\r\n",
    };
    struct redis_ballot ballot = {.epoch = 0};
    for (size_t i = 0; i < sizeof masters / sizeof masters[0]; i++)
        assert_false(read_master(masters[i], &ballot));
    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++)
        assert_false(read_address(addresses[i], &ballot));
    assert_string_equal(ballot.master.host, "");
}
