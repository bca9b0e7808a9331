/* SPDX-License-Identifier: MIT */
/* serve.c - see serve.h. */
#include "load/play/serve.h"

#include "load/base/progress.h"
#include "load/stack/stack.h"

#include <stdio.h>
#include <stdlib.h>

enum { CONNECTIONS = 100, READY_LIMIT_MS = 15000, SETTING_BYTES = 256, ENDED_BY_ITSELF = 3 };

static struct {
    struct stack_redis redis;
    struct stack_postgres postgres;
    struct stack_catalogd catalogd;
} servers;

static bool is_given(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0';
}

static bool start_redis(void)
{
    if (is_given("REDIS_URL"))
        return true;
    progress_step("private Redis");
    return progress_done(stack_redis_start(&servers.redis, NULL));
}

static bool start_database(uint32_t product_count)
{
    char text[64];
    if (is_given("DATABASE_URL"))
        return true;
    progress_step("private PostgreSQL");
    if (!progress_done(stack_postgres_start(&servers.postgres, CONNECTIONS)))
        return false;
    snprintf(text, sizeof text, "%u products", (unsigned)product_count);
    progress_step(text);
    return progress_done(stack_postgres_load(servers.postgres.url, product_count));
}

static bool start_service(void)
{
    char redis[SETTING_BYTES], database[SETTING_BYTES];
    const char *settings[3] = {NULL};
    size_t count = 0;
    snprintf(redis, sizeof redis, "REDIS_URL=%s", servers.redis.url);
    snprintf(database, sizeof database, "DATABASE_URL=%s", servers.postgres.url);
    if (!is_given("REDIS_URL"))
        settings[count++] = redis;
    if (!is_given("DATABASE_URL"))
        settings[count++] = database;
    progress_step("catalogd");
    return progress_done(stack_catalogd_start(&servers.catalogd, settings) &&
                         stack_catalogd_wait_ready(&servers.catalogd, READY_LIMIT_MS));
}

static void invite(uint32_t product_count)
{
    const struct stack_catalogd *catalogd = &servers.catalogd;
    unsigned port = catalogd->port, ops_port = catalogd->ops_port;
    printf("\ncatalogd is up; its log: %s\n\n", catalogd->log_path);
    printf("  curl -i http://127.0.0.1:%u/products/7\n", port);
    printf("  curl -i http://127.0.0.1:%u/categories/30\n", port);
    printf("  curl -s http://127.0.0.1:%u/catalog | head -c 400\n", port);
    printf("  curl -X POST 'http://127.0.0.1:%u/invalidate?key=product:7'\n", ops_port);
    printf("  curl -s http://127.0.0.1:%u/metrics\n", ops_port);
    printf("  build/stampede --url 'http://127.0.0.1:%u/products/{zipf:1-%u}' --rate 2000 --for 10s\n", port,
           (unsigned)product_count);
    if (servers.postgres.pid > 0)
        printf("  psql %s\n", servers.postgres.url);
    if (servers.redis.pid > 0)
        printf("  redis-cli -p %u\n", (unsigned)servers.redis.port);
    printf("\nEvery setting of catalogd but the addresses works here, for instance: LOAD_DELAY_MS=2000 make "
           "run. Ctrl-C ends it.\n");
    fflush(stdout);
}

int serve(uint32_t product_count)
{
    if (start_redis() && start_database(product_count) && start_service()) {
        invite(product_count);
        while (!proc_wait(servers.catalogd.pid, UINT32_MAX, NULL))
            ;
        servers.catalogd.pid = 0;
        fprintf(stderr, "stampede: catalogd ended by itself; its log ends:\n");
        proc_show_tail(servers.catalogd.log_path);
    }
    stack_catalogd_stop(&servers.catalogd);
    stack_postgres_stop(&servers.postgres);
    stack_redis_stop(&servers.redis);
    return ENDED_BY_ITSELF;
}
