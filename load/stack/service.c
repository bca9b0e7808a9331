/* SPDX-License-Identifier: MIT */
/* service.c - see service.h. */
#include "load/stack/service.h"

#include "load/base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { READY_LIMIT_MS = 60000, SETTINGS_MAX = 32, SETTING_BYTES = 256 };

/* A login that may not subscribe polls. */
static bool is_connected(const struct stack_catalogd *catalogd)
{
    return stack_catalogd_metric(catalogd, "guard_redis_state{connection=\"commands\",state=\"up\"}") == 1 &&
           (stack_catalogd_metric(catalogd, "guard_redis_state{connection=\"wake\",state=\"up\"}") == 1 ||
            stack_catalogd_metric(catalogd, "guard_redis_state{connection=\"wake\",state=\"denied\"}") == 1);
}

static bool wait_connected(const struct stack_catalogd *catalogd)
{
    uint64_t end_us = clock_after_ms(READY_LIMIT_MS);
    while (!is_connected(catalogd)) {
        if (clock_us() >= end_us) {
            fprintf(stderr, "%s: catalogd does not reach Redis\n", program_invocation_short_name);
            return false;
        }
        clock_pause_ms(2);
    }
    return true;
}

bool service_start(struct stack_catalogd *catalogd, const struct stack_redis *redis,
                   const struct stack_postgres *postgres, const char *const *settings)
{
    char redis_url[SETTING_BYTES], database_url[SETTING_BYTES];
    const char *all[SETTINGS_MAX + 1] = {redis_url, database_url};
    size_t count = 2;
    snprintf(redis_url, sizeof redis_url, "REDIS_URL=%s", redis->url);
    snprintf(database_url, sizeof database_url, "DATABASE_URL=%s", postgres->url);
    for (size_t i = 0; settings[i] != NULL && count < SETTINGS_MAX; i++)
        all[count++] = settings[i];
    return stack_catalogd_start(catalogd, all) && stack_catalogd_wait_ready(catalogd, READY_LIMIT_MS) &&
           wait_connected(catalogd);
}

/* ---- the machine ---- */

enum { VERSION_BYTES = 48 };

static void postgres_version(const struct stack_postgres *postgres, char version[VERSION_BYTES])
{
    if (!stack_postgres_query(postgres->socket_url, "SHOW server_version", version, VERSION_BYTES))
        snprintf(version, VERSION_BYTES, "?");
    version[strcspn(version, " ")] = '\0';
}

void machine_describe(struct stack_redis *redis, const struct stack_postgres *postgres,
                      char text[static MACHINE_BYTES])
{
    struct utsname system = {.sysname = "?"};
    char redis_is[VERSION_BYTES], postgres_is[VERSION_BYTES];
    uname(&system);
    stack_redis_version(redis, redis_is, sizeof redis_is);
    postgres_version(postgres, postgres_is);
    snprintf(text, MACHINE_BYTES, "%ld cores, %.20s %.60s %.20s; Redis %s, PostgreSQL %s",
             sysconf(_SC_NPROCESSORS_ONLN), system.sysname, system.release, system.machine, redis_is,
             postgres_is);
}
