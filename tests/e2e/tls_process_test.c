/* SPDX-License-Identifier: MIT */
/* tls_process_test.c - catalogd with TLS to Redis and to PostgreSQL, whose certificates it verifies. */
#include "load/base/clock.h"
#include "load/base/http.h"
#include "load/stack/stack.h"
#include "tests/support/fleet.h"
#include "tests/support/stack_certificates.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

enum { SETTING_BYTES = 512, READY_LIMIT_MS = 20000, ASK_LIMIT_MS = 20000 };

static struct stack_certificates files, others;
static struct stack_redis redis;
static struct stack_postgres postgres;

/* The database speaks TLS and nothing else to what comes over TCP. */
static bool demand_tls(void)
{
    char set[SETTING_BYTES], sessions[16];
    snprintf(set, sizeof set, "ALTER SYSTEM SET ssl_cert_file = '%s/server.pem'", files.folder);
    if (!stack_postgres_query(postgres.url, set, NULL, 0))
        return false;
    snprintf(set, sizeof set, "ALTER SYSTEM SET ssl_key_file = '%s/server.key'", files.folder);
    return stack_postgres_query(postgres.url, set, NULL, 0) &&
           stack_postgres_query(postgres.url, "ALTER SYSTEM SET ssl = on", NULL, 0) &&
           stack_postgres_query(postgres.url, "SELECT pg_reload_conf()", sessions, sizeof sessions);
}

static bool start_servers(void)
{
    static char cert[CERTIFICATES_PATH_BYTES], key[CERTIFICATES_PATH_BYTES];
    static const char *tls[] = {"--tls-cert-file",
                                cert,
                                "--tls-key-file",
                                key,
                                "--tls-ca-cert-file",
                                files.ca,
                                "--tls-auth-clients",
                                "no",
                                NULL};
    if (!stack_certificates_start(&files) || !stack_certificates_start(&others) ||
        !stack_certificates_issue(&files, "server", "DNS:localhost,IP:127.0.0.1", -1, 30))
        return false;
    stack_certificates_path(&files, "server.pem", cert);
    stack_certificates_path(&files, "server.key", key);
    return stack_redis_start_as(&redis, &(struct stack_redis_options){.tls = tls}) &&
           stack_postgres_start_seeded(&postgres, 40, 10) && demand_tls();
}

static bool stop_servers(void)
{
    stack_redis_stop(&redis);
    stack_postgres_stop(&postgres);
    stack_certificates_stop(&files);
    stack_certificates_stop(&others);
    return true;
}

static bool start_catalogd(struct stack_catalogd *catalogd, const char *redis_ca, const char *postgres_ca)
{
    char redis_url[SETTING_BYTES], database_url[SETTING_BYTES];
    const char *settings[] = {redis_url, database_url, "MAX_LOADS=2", NULL};
    snprintf(redis_url, sizeof redis_url, "REDIS_URL=rediss://127.0.0.1:%u?ssl_ca_certs=%s",
             (unsigned)redis.tls_port, redis_ca);
    snprintf(database_url, sizeof database_url, "DATABASE_URL=%s?sslmode=verify-full&sslrootcert=%s",
             postgres.url, postgres_ca);
    return stack_catalogd_start(catalogd, settings);
}

static int ask_status(const struct stack_catalogd *catalogd, const char *path)
{
    struct http_answer answer;
    const struct http_request request = {
        .host = "127.0.0.1", .port = catalogd->port, .path = path, .deadline_ms = ASK_LIMIT_MS};
    int status = http_ask(&request, &answer) ? answer.status : 0;
    http_answer_clear(&answer);
    return status;
}

static void wait_logged(const struct stack_catalogd *catalogd, const char *line)
{
    uint64_t end_us = clock_after_ms(READY_LIMIT_MS);
    while (stack_log_count(catalogd->log_path, 0, line) == 0) {
        if (clock_us() >= end_us) {
            proc_show_tail(catalogd->log_path);
            fail_msg("the log has no line with \"%s\"", line);
        }
        clock_pause_ms(5);
    }
}

TEST(the_service_reads_and_caches_over_tls, P129)
{
    struct stack_catalogd catalogd;
    char plain[16], secure[16];
    assert_true(start_catalogd(&catalogd, files.ca, files.ca));
    assert_true(stack_catalogd_wait_ready(&catalogd, READY_LIMIT_MS));
    uint64_t mark = stack_postgres_mark(&postgres);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(ask_status(&catalogd, "/products/7"), 200);
    assert_int_equal(stack_postgres_count(&postgres, mark, FLEET_LOAD_PRODUCT), 1);
    assert_true(
        stack_postgres_query(postgres.socket_url,
                             "SELECT count(*) FILTER (WHERE ssl) FROM pg_stat_ssl JOIN pg_stat_activity "
                             "USING (pid) WHERE application_name LIKE 'catalogd%'",
                             secure, sizeof secure));
    assert_true(stack_postgres_query(postgres.socket_url,
                                     "SELECT count(*) FILTER (WHERE NOT ssl) FROM pg_stat_ssl JOIN "
                                     "pg_stat_activity USING (pid) WHERE application_name LIKE 'catalogd%'",
                                     plain, sizeof plain));
    assert_string_not_equal(secure, "0");
    assert_string_equal(plain, "0");
    assert_true(stack_catalogd_stop(&catalogd));
}

TEST(an_authority_that_is_not_theirs_is_named_by_both, P129)
{
    struct stack_catalogd catalogd;
    assert_true(start_catalogd(&catalogd, others.ca, others.ca));
    ask_status(&catalogd, "/products/8");
    wait_logged(&catalogd, "TLS: the certificate's issuer is not trusted; set ssl_ca_certs");
    wait_logged(&catalogd, "certificate verify failed");
    assert_true(stack_catalogd_stop(&catalogd));
}

TEST_GROUP(.up = start_servers, .down = stop_servers);
