/* SPDX-License-Identifier: MIT */
/* redis_pipeline_test.c - the order, the places and the limits of pipelined commands, and their bytes. */
#include "guard/redis/pipeline.h"
#include "tests/support/test.h"

static const size_t ping_bytes = 14;

struct answer {
    size_t place; /* 1 for the first that was answered */
    enum redis_outcome outcome;
};

static size_t answered_count;
static struct answer answers[4];
static struct redis_pipeline pipeline;
static struct redis_command command; /* that was taken last */

static void on_answer(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    assert_null(reply);
    *(struct answer *)context = (struct answer){++answered_count, outcome};
}

static bool begin(void)
{
    answered_count = 0;
    pipeline = (struct redis_pipeline){.count = 0};
    return true;
}

static void end(void)
{
    redis_pipeline_abandon(&pipeline);
}

static bool take_written(void)
{
    return redis_pipeline_take_written(&pipeline, &command);
}

static bool add_ping(uint64_t deadline_ms, bool resent, struct answer *answer)
{
    const char *argv[] = {"PING"};
    const size_t argv_bytes[] = {4};
    struct redis_command ping = {
        .replied = on_answer, .context = answer, .deadline_ms = deadline_ms, .resent = resent};
    return redis_pipeline_add(&pipeline, 1, argv, argv_bytes, &ping);
}

TEST(a_command_is_spelled_as_redis_expects_it)
{
    static const char expected[] = "*3\r\n$3\r\nSET\r\n$0\r\n\r\n$12\r\na\r\n\0b\r\n$1\r\nx\r\n";
    const char *argv[] = {"SET", "", "a\r\n\0b\r\n$1\r\nx"};
    const size_t argv_bytes[] = {3, 0, 12};
    struct redis_buffer buffer = {.data = NULL};
    assert_true(redis_buffer_command(&buffer, 3, argv, argv_bytes));
    assert_int_equal(redis_buffer_bytes(&buffer), 4 + 9 + 6 + 5 + 12 + 2);
    assert_memory_equal(buffer.data + buffer.begin, expected, redis_buffer_bytes(&buffer));
    redis_buffer_clear(&buffer);
}

TEST(absurd_sizes_are_refused_and_leave_the_buffer_as_it_was)
{
    const char *argv[] = {"SET", "a"};
    const size_t too_big[] = {SIZE_MAX, 1}, overflowing[] = {SIZE_MAX / 2, SIZE_MAX / 2};
    struct redis_buffer buffer = {.data = NULL};
    assert_false(redis_buffer_command(&buffer, 2, argv, too_big));
    assert_false(redis_buffer_command(&buffer, 2, argv, overflowing));
    assert_int_equal(redis_buffer_bytes(&buffer), 0);
    redis_buffer_clear(&buffer);
}

/* Against a second copy of what was appended and not consumed. */
TEST(a_buffer_keeps_its_bytes_while_it_is_filled_and_emptied)
{
    enum { ROUNDS = 5000, ALL = ROUNDS * 40 };
    struct redis_buffer buffer = {.data = NULL};
    char *all = malloc(ALL);
    size_t consumed = 0, appended = 0;
    unsigned dice = 1;
    for (unsigned i = 0; i < ROUNDS; i++) {
        char text[16];
        const char *argv[] = {text};
        size_t argv_bytes[] = {(size_t)snprintf(text, sizeof text, "%u", i * 7919)};
        dice = dice * 1103515245 + 12345;
        assert_true(redis_buffer_command(&buffer, 1, argv, argv_bytes));
        appended +=
            (size_t)snprintf(all + appended, ALL - appended, "*1\r\n$%zu\r\n%s\r\n", argv_bytes[0], text);
        size_t held = redis_buffer_bytes(&buffer);
        assert_int_equal(held, appended - consumed);
        assert_memory_equal(buffer.data + buffer.begin, all + consumed, held);
        size_t bytes = (dice >> 16) % 50;
        bytes = bytes < held ? bytes : held;
        redis_buffer_consume(&buffer, bytes);
        consumed += bytes;
    }
    redis_buffer_clear(&buffer);
    free(all);
}

TEST(replies_belong_to_the_oldest_command_that_was_written_whole)
{
    assert_false(take_written());
    assert_true(add_ping(10, false, &answers[0]));
    assert_true(add_ping(11, false, &answers[1]));
    assert_int_equal(redis_pipeline_bytes(&pipeline), 2 * ping_bytes);
    redis_buffer_consume(&pipeline.out, ping_bytes - 1);
    assert_false(take_written());
    redis_buffer_consume(&pipeline.out, 2);
    assert_true(take_written());
    assert_ptr_equal(command.context, &answers[0]);
    assert_false(take_written());
    assert_int_equal(redis_pipeline_bytes(&pipeline), ping_bytes);
}

TEST(what_was_not_written_whole_is_unsent)
{
    for (size_t i = 0; i < 4; i++)
        assert_true(add_ping(10, false, &answers[i]));
    redis_buffer_consume(&pipeline.out, 2 * ping_bytes + 5);
    struct redis_pipeline detached = redis_pipeline_detach(&pipeline);
    assert_int_equal(pipeline.count, 0);
    assert_int_equal(redis_pipeline_bytes(&pipeline), 0);
    redis_pipeline_abandon(&detached);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(answers[i].place, i + 1);
        assert_int_equal(answers[i].outcome, i < 2 ? REDIS_UNKNOWN : REDIS_UNSENT);
    }
}

TEST(only_what_has_not_begun_to_leave_is_taken_back)
{
    for (size_t i = 0; i < 3; i++)
        assert_true(add_ping(10 + i, false, &answers[i]));
    assert_false(redis_pipeline_take_back(&pipeline, 9, &command));
    assert_true(redis_pipeline_take_back(&pipeline, 10, &command));
    assert_ptr_equal(command.context, &answers[0]);
    assert_int_equal(redis_buffer_bytes(&pipeline.out), 2 * ping_bytes);
    redis_buffer_consume(&pipeline.out, 1);
    assert_false(redis_pipeline_take_back(&pipeline, 100, &command));
    redis_buffer_consume(&pipeline.out, ping_bytes - 1);
    assert_false(redis_pipeline_take_back(&pipeline, 100, &command)); /* under way */
    assert_true(take_written());
    assert_ptr_equal(command.context, &answers[1]);
    assert_true(redis_pipeline_take_back(&pipeline, 100, &command)); /* nothing is under way any more */
    assert_ptr_equal(command.context, &answers[2]);
    assert_int_equal(redis_buffer_bytes(&pipeline.out), 0);
}

TEST(only_what_was_added_since_is_given_more_time)
{
    static const uint64_t limits[] = {10, 11, 50, 13}, later[] = {10, 11, 50, 40};
    uint64_t queued = 0;
    for (size_t i = 0; i < 4; i++) {
        queued = i == 2 ? pipeline.queued : queued;
        assert_true(add_ping(limits[i], true, &answers[i]));
    }
    redis_pipeline_reprieve(&pipeline, queued, 40);
    redis_buffer_consume(&pipeline.out, 4 * ping_bytes);
    for (size_t i = 0; i < 4; i++) {
        assert_true(take_written());
        assert_int_equal(command.deadline_ms, later[i]);
    }
}

TEST(the_earliest_limit_is_found_also_among_commands_sent_again)
{
    assert_int_equal(redis_pipeline_deadline(&pipeline), UINT64_MAX);
    assert_true(add_ping(20, false, &answers[0]));
    assert_true(add_ping(5, true, &answers[1]));
    assert_true(add_ping(30, false, &answers[2]));
    assert_int_equal(redis_pipeline_deadline(&pipeline), 5);
    redis_buffer_consume(&pipeline.out, 2 * ping_bytes);
    assert_true(take_written());
    assert_int_equal(redis_pipeline_deadline(&pipeline), 5);
    assert_true(take_written());
    assert_int_equal(redis_pipeline_deadline(&pipeline), 30);
    assert_int_equal(pipeline.resent_count, 0);
}

TEST(the_ring_grows_wherever_it_begins)
{
    enum { COUNT = 1000 };
    struct answer *many = calloc(COUNT, sizeof *many);
    size_t added = 0, taken = 0;
    while (added < COUNT) {
        for (size_t i = added; i < added + 7 && i < COUNT; i++)
            assert_true(add_ping(i, false, &many[i]));
        added = added + 7 < COUNT ? added + 7 : COUNT;
        redis_buffer_consume(&pipeline.out, redis_buffer_bytes(&pipeline.out));
        for (size_t i = 0; i < 3; i++) {
            assert_true(take_written());
            assert_ptr_equal(command.context, &many[taken++]);
        }
    }
    answered_count = 0;
    redis_pipeline_abandon(&pipeline);
    for (size_t i = taken; i < COUNT; i++)
        assert_int_equal(many[i].place, i - taken + 1);
    assert_int_equal(answered_count, COUNT - taken);
    free(many);
}

TEST_GROUP(.before = begin, .end = end);
