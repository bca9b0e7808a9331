/* SPDX-License-Identifier: MIT */
/*
 * wrong_redis_test.c - a REDIS_URL that leads to something else than it says: the process says what, and serves on.
 *
 * A node of a Cluster that names its plain ports, Sentinels with a login of their own and a Redis that stands alone are
 * there; each URL is right but for one thing.
 */
#include "load/base/clock.h"
#include "load/stack/stack_certificates.h"
#include "load/stack/stack_sentinel.h"
#include "tests/support/fleet.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#define SECRET "hidden-5e1f" /* in every URL */
#define WRONG "mistaken-7c2d"

enum {
    URL_BYTES = 768,
    CONNECT_LIMIT_MS = 1000, /* guard_config's */
    STILL_MS = 9000 /* how long this machine may stand still meanwhile, and the process take to start */
};

static struct stack_certificates files;
static struct stack_redis node;
static struct stack_sentinel sentinels;

/* ---- servers ---- */

static bool start_node(void)
{
    static char cert[CERTIFICATES_PATH_BYTES], key[CERTIFICATES_PATH_BYTES];
    static const char *const arguments[] = {"--cluster-enabled", "yes", "--requirepass", SECRET, NULL};
    static const char *tls[] = {"--tls-cert-file",
                                cert,
                                "--tls-key-file",
                                key,
                                "--tls-ca-cert-file",
                                files.ca,
                                "--tls-auth-clients",
                                "no",
                                NULL};
    if (!stack_certificates_start(&files) ||
        !stack_certificates_issue(&files, "node", "IP:127.0.0.1", -1, 30))
        return false;
    stack_certificates_path(&files, "node.pem", cert);
    stack_certificates_path(&files, "node.key", key);
    if (!stack_redis_start_as(
            &node, &(struct stack_redis_options){.arguments = arguments, .tls = tls, .password = SECRET}))
        return false;
    return stack_redis_do(&node, "CLUSTER ADDSLOTSRANGE 0 16383");
}

static bool up(void)
{
    return fleet_up() && start_node() &&
           stack_sentinel_start(&sentinels, &(struct stack_sentinel_options){.hurried = true,
                                                                             .password = SECRET,
                                                                             .sentinel_password = SECRET});
}

static bool down(void)
{
    stack_sentinel_stop(&sentinels);
    stack_redis_stop(&node);
    stack_certificates_stop(&files);
    return fleet_down();
}

/* ---- what it says ---- */

static void expect_no_secret_at(const char *path)
{
    struct http_answer answer;
    assert_true(fleet_ask_ops(0, NULL, path, &answer));
    assert_null(strstr(answer.body, SECRET));
    assert_null(strstr(answer.body, WRONG));
    http_answer_clear(&answer);
}

static void expect_no_secret(void)
{
    assert_int_equal(stack_log_count(fleet.catalogd[0].log_path, 0, SECRET), 0);
    assert_int_equal(stack_log_count(fleet.catalogd[0].log_path, 0, WRONG), 0);
    expect_no_secret_at("/readyz");
    expect_no_secret_at("/metrics");
}

static void wait_said(const char *line, uint32_t limit_ms)
{
    uint64_t end_us = clock_after_ms(limit_ms);
    while (stack_log_count(fleet.catalogd[0].log_path, 0, line) == 0) {
        if (clock_us() >= end_us) {
            proc_show_tail(fleet.catalogd[0].log_path);
            fail_msg("the log has no line with \"%s\"", line);
        }
        clock_pause_ms(5);
    }
}

/* Nothing is stored: each request is a load. */
static void expect_served(void)
{
    char path[BURST_PATH_BYTES];
    fleet_cold_product(path);
    fleet_mark();
    for (uint32_t i = 1; i <= 2; i++) {
        assert_int_equal(fleet_ask_status(0, path), 200);
        assert_int_equal(fleet_loads(FLEET_LOAD_PRODUCT), i);
    }
}

static void expect_said(const char *line, const char *redis_url)
{
    char setting[URL_BYTES];
    const char *const settings[] = {setting, "REDIS_LIMIT_MS=50", NULL};
    snprintf(setting, sizeof setting, "REDIS_URL=%s", redis_url);
    assert_true(fleet_start(0, NULL));
    assert_true(fleet_add(settings));
    wait_said(line, CONNECT_LIMIT_MS + STILL_MS);
    expect_served();
    expect_no_secret();
}

#define EXPECT_SAID(line, ...)                                                                               \
    do {                                                                                                     \
        char redis_url[URL_BYTES / 2];                                                                       \
        snprintf(redis_url, sizeof redis_url, __VA_ARGS__);                                                  \
        expect_said(line, redis_url);                                                                        \
    } while (0)

/* ---- what is wrong ---- */

TEST(one_redis_is_no_cluster)
{
    EXPECT_SAID("this is a single Redis: the URL must begin with redis://", "redis+cluster://127.0.0.1:%u",
                (unsigned)fleet.redis.port);
}

TEST(one_redis_is_no_sentinel)
{
    EXPECT_SAID("this is a single Redis: the URL must begin with redis://",
                "redis+sentinel://127.0.0.1:%u/" STACK_SENTINEL_NAME, (unsigned)fleet.redis.port);
}

TEST(a_node_of_a_cluster_is_not_one_redis)
{
    EXPECT_SAID("the URL must begin with redis+cluster://", "redis://:" SECRET "@127.0.0.1:%u",
                (unsigned)node.port);
}

TEST(a_sentinel_is_not_one_redis)
{
    EXPECT_SAID("this is a Sentinel: the URL must begin with redis+sentinel://",
                "redis://:" SECRET "@127.0.0.1:%u", (unsigned)sentinels.sentinel[0].port);
}

TEST(a_sentinel_is_no_node_of_a_cluster)
{
    EXPECT_SAID("this is a Sentinel: the URL must begin with redis+sentinel://",
                "redis+cluster://:" SECRET "@127.0.0.1:%u", (unsigned)sentinels.sentinel[0].port);
}

TEST(a_wrong_password_is_said_to_be_that_of_the_sentinels)
{
    EXPECT_SAID("AUTH of a Sentinel (sentinel_username, sentinel_password) refused",
                "redis+sentinel://:" SECRET "@127.0.0.1:%u,127.0.0.1:%u/" STACK_SENTINEL_NAME
                "?sentinel_password=" WRONG,
                (unsigned)sentinels.sentinel[0].port, (unsigned)sentinels.sentinel[1].port);
}

TEST(a_wrong_password_is_said_to_be_that_of_the_master)
{
    EXPECT_SAID("AUTH of the master (user and password before the @) refused",
                "redis+sentinel://:" WRONG "@127.0.0.1:%u/" STACK_SENTINEL_NAME "?sentinel_password=" SECRET,
                (unsigned)sentinels.sentinel[0].port);
}

TEST(a_name_that_no_sentinel_knows_is_said)
{
    EXPECT_SAID("the Sentinels know no master of the name in the URL",
                "redis+sentinel://:" SECRET "@127.0.0.1:%u/another?sentinel_password=" SECRET,
                (unsigned)sentinels.sentinel[0].port);
}

TEST(a_host_without_an_address_is_said)
{
    EXPECT_SAID("cache.invalid", "redis://:" SECRET "@cache.invalid");
}

TEST(sentinels_without_an_address_are_said)
{
    EXPECT_SAID("cache.invalid", "redis+sentinel://:" SECRET "@cache.invalid/" STACK_SENTINEL_NAME
                                 "?sentinel_password=" SECRET);
}

TEST(nodes_without_an_address_are_said)
{
    EXPECT_SAID("cache.invalid", "redis+cluster://:" SECRET "@cache.invalid");
}

TEST(nodes_that_name_their_plain_ports_are_told_to_name_the_others)
{
    if (stack_redis_is_since(&node, 7, 2))
        test_skip("this Redis names its TLS ports to who asks over TLS");
    EXPECT_SAID("set tls-cluster yes on the nodes",
                "rediss+cluster://:" SECRET "@127.0.0.1:%u?ssl_ca_certs=%s", (unsigned)node.tls_port,
                files.ca);
}

TEST_GROUP(.up = up, .down = down, .after = fleet_end);
