/* SPDX-License-Identifier: MIT */
/* redis_error_test.c - what error replies mean, in the words of Redis 5, 6 and 7. */
#include "guard/redis/types.h"
#include "tests/support/test.h"

struct sample {
    enum redis_error_class class;
    const char *text;
};

static const struct sample samples[] = {
    {REDIS_ERROR_NOSCRIPT, "NOSCRIPT No matching script. Please use EVAL."},
    {REDIS_ERROR_FULL, "OOM command not allowed when used memory > 'maxmemory'."},
    {REDIS_ERROR_READONLY, "READONLY You can't write against a read only replica."},
    {REDIS_ERROR_READONLY,
     "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."},
    {REDIS_ERROR_LOADING, "LOADING Redis is loading the dataset in memory"},
    {REDIS_ERROR_LOADING,
     "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."},
    {REDIS_ERROR_MOVING, "TRYAGAIN Multiple keys request during rehashing of slot"},
    {REDIS_ERROR_LOADING, "CLUSTERDOWN The cluster is down"},
    {REDIS_ERROR_REFUSED,
     "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist"},
    {REDIS_ERROR_FENCED, "NOREPLICAS Not enough good replicas to write."},
    {REDIS_ERROR_DENIED, "NOAUTH Authentication required."},
    {REDIS_ERROR_DENIED, "WRONGPASS invalid username-password pair or user is disabled."},
    {REDIS_ERROR_DENIED, "NOPERM this user has no permissions to run the 'flushall' command"},
    {REDIS_ERROR_DENIED, "DENIED Redis is running in protected mode because protected mode is enabled"},
    {REDIS_ERROR_MOVED, "MOVED 3999 127.0.0.1:6381"},
    {REDIS_ERROR_ASK, "ASK 3999 127.0.0.1:6381"},
    {REDIS_ERROR_DENIED, "CROSSSLOT Keys in request don't hash to the same slot"},
    {REDIS_ERROR_DENIED, "ERR invalid password"},
    {REDIS_ERROR_DENIED, "ERR Client sent AUTH, but no password is set"},
    {REDIS_ERROR_DENIED, "ERR AUTH <password> called without any password configured for the default user."},
    {REDIS_ERROR_DENIED, "ERR DB index is out of range"},
    {REDIS_ERROR_DENIED, "ERR invalid DB index"},
    {REDIS_ERROR_DENIED, "ERR SELECT is not allowed in cluster mode"},
    {REDIS_ERROR_CROWDED, "ERR max number of clients reached"},
    {REDIS_ERROR_CROWDED, "ERR max number of clients + cluster connections reached"},
    {REDIS_ERROR_OTHER, "EXECABORT Transaction discarded because of previous errors."},
    {REDIS_ERROR_OTHER, "EXECABORT Transaction discarded because of: OOM command not allowed"},
    {REDIS_ERROR_OTHER, "WRONGTYPE Operation against a key holding the wrong kind of value"},
    {REDIS_ERROR_OTHER, "ERR unknown command 'FOO', with args beginning with: 'OOM' "},
    {REDIS_ERROR_OTHER, "ERR"},
    {REDIS_ERROR_OTHER, "ERR "},
    {REDIS_ERROR_OTHER, ""},
    {REDIS_ERROR_OTHER, " "},
    {REDIS_ERROR_OTHER, "BUSYKEY Target key name already exists."},
    {REDIS_ERROR_OTHER, "OOMPH"},
    {REDIS_ERROR_OTHER, "oom"},
};

/* The error of a command inside a script, as it reaches the caller. */
static const struct sample scripted[] = {
    {REDIS_ERROR_FULL,
     "OOM command not allowed when used memory > 'maxmemory'. script: 8a1c, on @user_script:1."},
    {REDIS_ERROR_READONLY,
     "READONLY You can't write against a read only replica. script: 8a1c, on @user_script:9."},
    {REDIS_ERROR_STRAYED, "ERR Script attempted to access a non local key in a cluster node script: 8a1c, on "
                          "@user_script:3."},
    {REDIS_ERROR_STRAYED,
     "ERR Error running script (call to f_8a1c): @user_script:1: @user_script: 1: Lua script "
     "attempted to access a non local key in a cluster node"},
    {REDIS_ERROR_FULL,
     "ERR Error running script (call to f_8a1c): @user_script:1: @user_script: 1: -OOM command not "
     "allowed when used memory > 'maxmemory'."},
    {REDIS_ERROR_REFUSED,
     "ERR Error running script (call to f_8a1c): @user_script:12: -MISCONF Redis is configured"},
    {REDIS_ERROR_OTHER,
     "ERR Error running script (call to f_8a1c): @user_script:1: @user_script: 1: Wrong number of "
     "args calling Redis command From Lua script"},
    {REDIS_ERROR_OTHER, "ERR user_script:1: attempt to index a nil value script: 8a1c, on @user_script:1."},
    {REDIS_ERROR_OTHER, "ERR @user_script:"},
};

static void check(const struct sample *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        enum redis_error_class class = redis_error_classify(list[i].text, strlen(list[i].text));
        if (class != list[i].class)
            fail_msg("\"%s\" is of class %d, not %d", list[i].text, (int)class, (int)list[i].class);
    }
}

TEST(every_prefix_has_its_meaning, P53)
{
    check(samples, sizeof samples / sizeof samples[0]);
}

TEST(an_error_inside_a_script_means_what_it_means_outside, P53)
{
    check(scripted, sizeof scripted / sizeof scripted[0]);
}

TEST(bytes_after_the_text_are_not_looked_at)
{
    assert_int_equal(redis_error_classify("OOMxx", 3), REDIS_ERROR_FULL);
    assert_int_equal(redis_error_classify("OOM", 2), REDIS_ERROR_OTHER);
    assert_int_equal(redis_error_classify("ERR max number of clients", 20), REDIS_ERROR_OTHER);
}

TEST(what_an_operator_can_mend_is_told_with_what_to_do, P96)
{
    static const char *const told[][2] = {
        {"ERR Client sent AUTH, but no password is set",
         "this Redis has no password: remove it from the URL"},
        {"ERR AUTH <password> called without any password configured for the default user. Are you sure your "
         "configuration is correct?",
         "this Redis has no password: remove it from the URL"},
        {"WRONGPASS invalid username-password pair or user is disabled.", "user and password in the URL"},
        {"ERR invalid password", "correct the password in the URL"},
        {"NOAUTH Authentication required.", "put it into the URL"},
        {"NOPERM User x has no permissions to run the 'zadd' command script: 8a, on @user_script:1.", "ACL"},
        {"DENIED Redis is running in protected mode", "protected mode"},
        {"ERR DB index is out of range", "another number"},
        {"ERR invalid DB index", "another number"},
        {"ERR SELECT is not allowed in cluster mode", "remove the number"},
        {"ERR max number of clients reached", "maxclients"},
        {"ERR unknown command 'FOO'", ""},
        {"LOADING Redis is loading the dataset in memory", ""},
    };
    for (size_t i = 0; i < sizeof told / sizeof *told; i++) {
        const char *advice = redis_error_advice(told[i][0], strlen(told[i][0]));
        assert_non_null(strstr(advice, told[i][1]));
        assert_true((advice[0] == '\0') == (told[i][1][0] == '\0'));
    }
}

TEST(an_error_is_named_by_the_words_of_redis_alone)
{
    assert_string_equal(redis_error_name("WRONGPASS hunter2", 17), "WRONGPASS");
    assert_string_equal(redis_error_name("ERR invalid password hunter2", 28), "invalid password");
    assert_string_equal(redis_error_name("hunter2 is wrong", 16), "");
    assert_string_equal(redis_error_name("ERR unknown command `AUTH`, with args: `hunter2`", 48), "");
}
