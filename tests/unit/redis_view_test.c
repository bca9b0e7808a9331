/* SPDX-License-Identifier: MIT */
/* redis_view_test.c - what a node of a Cluster says about all of it, and redirections, right and wrong. */
#include "guard/redis/reader.h"
#include "guard/redis/view.h"
#include "tests/support/test.h"

#define ID_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define ID_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define ID_C "cccccccccccccccccccccccccccccccccccccccc"

static struct redis_view view;
static char why[REDIS_WHY_SIZE];

static struct redisReply *parse(const char *resp)
{
    redisReader *reader = redisReaderCreate();
    void *reply = NULL;
    assert_int_equal(redisReaderFeed(reader, resp, strlen(resp)), REDIS_OK);
    assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
    assert_non_null(reply);
    redisReaderFree(reader);
    return reply;
}

static bool read_view(const char *slots_resp, const char *nodes_text)
{
    char nodes_resp[2048];
    snprintf(nodes_resp, sizeof nodes_resp, "$%zu\r\n%s\r\n", strlen(nodes_text), nodes_text);
    struct redisReply *slots = parse(slots_resp), *nodes = parse(nodes_resp);
    why[0] = '\0';
    bool read = redis_view_read_slots(&view, slots, "asked.example", why) &&
                redis_view_read_epochs(&view, nodes, why);
    assert_int_equal(read, why[0] == '\0');
    freeReplyObject(slots);
    freeReplyObject(nodes);
    return read;
}

#define NODE(host, port, id) "*4\r\n" host ":" #port "\r\n$40\r\n" id "\r\n*0\r\n"
#define LOCAL "$9\r\n127.0.0.1\r\n"

TEST(a_view_joins_addresses_owners_replicas_and_epochs)
{
    assert_true(read_view("*3\r\n"
                          "*4\r\n:0\r\n:5460\r\n" NODE(LOCAL, 7000, ID_A)
                              NODE(LOCAL, 7003, ID_C) "*3\r\n:5461\r\n:16382\r\n" NODE(
                                  LOCAL, 7001, ID_B) "*4\r\n:16383\r\n:16383\r\n" NODE(LOCAL, 7000, ID_A)
                                  NODE(LOCAL, 7003, ID_C),
                          ID_A
                          " 127.0.0.1:7000@17000 myself,master - 0 0 7 connected 0-5460 16383\n" ID_C
                          " 127.0.0.1:7003@17003 slave " ID_A " 0 0 7 connected\n" ID_B
                          " 127.0.0.1:7001@17001,name master - 0 16 18446744073709551615 connected 5461\n"));
    assert_int_equal(view.master_count, 2);
    assert_string_equal(view.masters[0].id, ID_A);
    assert_string_equal(view.masters[0].at.host, "127.0.0.1");
    assert_int_equal(view.masters[0].at.port, 7000);
    assert_int_equal(view.masters[0].epoch, 7);
    assert_true(view.masters[1].epoch == UINT64_MAX);
    assert_int_equal(view.replica_count, 1);
    assert_int_equal(view.replicas[0].port, 7003);
    assert_int_equal(view.owner[0], 0);
    assert_int_equal(view.owner[5460], 0);
    assert_int_equal(view.owner[5461], 1);
    assert_int_equal(view.owner[16382], 1);
    assert_int_equal(view.owner[16383], 0);
}

TEST(a_host_that_is_empty_or_null_is_the_one_that_was_asked_and_a_question_mark_is_none)
{
    assert_true(read_view("*3\r\n"
                          "*3\r\n:0\r\n:1\r\n" NODE("$0\r\n\r\n", 7000, ID_A) "*3\r\n:2\r\n:3\r\n" NODE(
                              "$-1\r\n", 7001, ID_B) "*4\r\n:4\r\n:5\r\n" NODE("$1\r\n?\r\n", 7002, ID_C)
                              NODE("$1\r\n?\r\n", 7003, ID_A),
                          ""));
    assert_string_equal(view.masters[0].at.host, "asked.example");
    assert_string_equal(view.masters[1].at.host, "asked.example");
    assert_int_equal(view.masters[1].at.port, 7001);
    assert_string_equal(view.masters[2].at.host, "");
    assert_int_equal(view.replica_count, 0);
    assert_int_equal(view.owner[6], REDIS_NO_NODE);
    assert_int_equal(view.masters[0].epoch, 0);
}

TEST(a_malformed_view_is_refused_with_the_reason)
{
    static const struct {
        const char *slots, *said;
    } samples[] = {
        {"-ERR This instance has cluster support disabled\r\n", "cluster support disabled"},
        {"-NOPERM this user has no permissions to run the 'cluster|slots' command\r\n",
         "CLUSTER SLOTS refused: NOPERM"},
        {"+OK\r\n", "not an answer of Redis"},
        {"*0\r\n", "knows no owner"},
        {"*1\r\n:1\r\n", "not an answer of Redis"},
        {"*1\r\n*2\r\n:0\r\n:1\r\n", "not an answer of Redis"},
        {"*1\r\n*3\r\n$1\r\n0\r\n:1\r\n" NODE(LOCAL, 7000, ID_A), "not an answer of Redis"},
        {"*1\r\n*3\r\n:-1\r\n:1\r\n" NODE(LOCAL, 7000, ID_A), "no such slots"},
        {"*1\r\n*3\r\n:5\r\n:4\r\n" NODE(LOCAL, 7000, ID_A), "no such slots"},
        {"*1\r\n*3\r\n:0\r\n:16384\r\n" NODE(LOCAL, 7000, ID_A), "no such slots"},
        {"*1\r\n*3\r\n:0\r\n:1\r\n" NODE(LOCAL, 0, ID_A), "without address"},
        {"*1\r\n*3\r\n:0\r\n:1\r\n" NODE(LOCAL, 65536, ID_A), "without address"},
        {"*1\r\n*3\r\n:0\r\n:1\r\n" NODE("$3\r\na b\r\n", 7000, ID_A), "without address"},
        {"*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n" LOCAL ":1\r\n", "without address"},
        {"*1\r\n*3\r\n:0\r\n:1\r\n*3\r\n" LOCAL ":1\r\n$2\r\nid\r\n", "without address"},
        {"*2\r\n*3\r\n:0\r\n:7\r\n" NODE(LOCAL, 7000, ID_A) "*3\r\n:7\r\n:9\r\n" NODE(LOCAL, 7001, ID_B),
         "slot 7 twice"},
    };
    for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++) {
        assert_false(read_view(samples[i].slots, ""));
        if (strstr(why, samples[i].said) == NULL)
            fail_msg("sample %zu: %s", i, why);
    }
}

TEST(more_masters_than_there_is_room_for_are_refused)
{
    char *resp = malloc(300 * 96);
    size_t bytes = (size_t)sprintf(resp, "*%d\r\n", REDIS_NODES_MAX + 1);
    for (int i = 0; i <= REDIS_NODES_MAX; i++)
        bytes += (size_t)sprintf(resp + bytes, "*3\r\n:%d\r\n:%d\r\n*3\r\n" LOCAL ":%d\r\n$40\r\n%040d\r\n",
                                 i, i, i + 1, i);
    assert_false(read_view(resp, ""));
    assert_non_null(strstr(why, "more than 256 masters"));
    free(resp);
}

/* Round the masters, so that no two slots in a row are of one; each with a replica, all with names. */
static size_t say_each_slot_by_itself(char *resp)
{
    static const char node[] = "*4\r\n" LOCAL ":%d\r\n$40\r\n%040d\r\n*2\r\n$8\r\nhostname\r\n$4\r\nhost\r\n";
    size_t bytes = (size_t)sprintf(resp, "*%d\r\n", REDIS_SLOTS);
    for (int slot = 0; slot < REDIS_SLOTS; slot++) {
        bytes += (size_t)sprintf(resp + bytes, "*4\r\n:%d\r\n:%d\r\n", slot, slot);
        bytes += (size_t)sprintf(resp + bytes, node, 7000 + slot % 3, slot % 3);
        bytes += (size_t)sprintf(resp + bytes, node, 7003 + slot % 3, 3 + slot % 3);
    }
    return bytes;
}

TEST(a_view_with_each_slot_by_itself_is_within_the_bounds_of_a_reply)
{
    char *resp = malloc(REDIS_SLOTS * 400);
    size_t bytes = say_each_slot_by_itself(resp), fed = 0;
    struct redis_reader reader = {.parser = NULL};
    struct redisReply *reply = NULL;
    assert_true(redis_reader_open(&reader, REDIS_VIEW_BYTES_MAX, REDIS_VIEW_ELEMENTS_MAX));
    while (reply == NULL && fed < bytes) {
        size_t part = bytes - fed < REDIS_FEED_BYTES ? bytes - fed : REDIS_FEED_BYTES;
        assert_true(redis_reader_feed(&reader, resp + fed, part));
        fed += part;
        if (!redis_reader_next(&reader, &reply))
            fail_msg("%s", redis_reader_error(&reader));
    }
    assert_non_null(reply);
    assert_true(redis_view_read_slots(&view, reply, "asked.example", why));
    assert_int_equal(view.master_count, 3);
    assert_int_equal(view.replica_count, 3);
    assert_int_equal(view.owner[REDIS_SLOTS - 1], (REDIS_SLOTS - 1) % 3);
    redis_reader_free(&reader, reply);
    redis_reader_close(&reader);
    free(resp);
}

static bool redirects(const char *text, struct redis_redirect *out)
{
    return redis_redirect_read(text, strlen(text), "asked.example", out);
}

TEST(redirections_are_read, P140)
{
    struct redis_redirect to;
    assert_true(redirects("MOVED 3999 127.0.0.1:6381", &to));
    assert_false(to.ask);
    assert_int_equal(to.slot, 3999);
    assert_string_equal(to.to.host, "127.0.0.1");
    assert_int_equal(to.to.port, 6381);
    assert_true(redirects("ASK 16383 ::1:1", &to));
    assert_true(to.ask);
    assert_string_equal(to.to.host, "::1");
    assert_int_equal(to.to.port, 1);
    assert_true(redirects("MOVED 0 :65535", &to));
    assert_string_equal(to.to.host, "asked.example");
    assert_true(redirects("MOVED 0 ?:6379", &to));
    assert_string_equal(to.to.host, "");
    assert_true(redirects("MOVED 0 a-name.example:6379", &to));
    assert_string_equal(to.to.host, "a-name.example");
}

TEST(what_is_no_redirection_is_none)
{
    static const char *const texts[] = {
        "",
        "MOVED",
        "MOVED ",
        "MOVED 1",
        "MOVED 1 ",
        "MOVED 1 host",
        "MOVED 1 host:",
        "MOVED 1 host:0",
        "MOVED 1 host:65536",
        "MOVED 1 host:99999999999999999999",
        "MOVED 1 host:1 ",
        "MOVED 16384 host:1",
        "MOVED -1 host:1",
        "MOVED 99999999999999999999 host:1",
        "MOVED  1 host:1",
        "MOVED 1 ho st:1",
        "moved 1 host:1",
        "ASKING 1 host:1",
        "TRYAGAIN Multiple keys request during rehashing of slot",
    };
    struct redis_redirect to;
    char longest[300];
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (redirects(texts[i], &to))
            fail_msg("\"%s\"", texts[i]);
    memset(longest, 'a', sizeof longest);
    memcpy(longest, "MOVED 1 ", 8);
    memcpy(longest + 8 + 255, ":1", 2);
    assert_true(redis_redirect_read(longest, 8 + 255 + 2, "", &to));
    memset(longest + 8, 'a', 290);
    memcpy(longest + 8 + 256, ":1", 2);
    assert_false(redis_redirect_read(longest, 8 + 256 + 2, "", &to));
}
