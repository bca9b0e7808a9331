/* SPDX-License-Identifier: MIT */
/* service.c - see service.h. */
#include "load/stack/service.h"

#include "load/base/clock.h"
#include "load/base/sql.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { READY_LIMIT_MS = 60000, SQL_LIMIT_MS = 5000, SETTINGS_MAX = 32, SETTING_BYTES = 256 };

/* A login that may not subscribe polls. */
static bool is_connected(const struct stack_catalogd *catalogd)
{
    return stack_catalogd_metric(catalogd, "guard_redis_state{connection=\"commands\",state=\"up\"}") == 1 &&
           (stack_catalogd_metric(catalogd, "guard_redis_state{connection=\"wake\",state=\"up\"}") == 1 ||
            stack_catalogd_metric(catalogd, "guard_redis_state{connection=\"wake\",state=\"denied\"}") == 1);
}

bool service_wait_joined(const struct stack_catalogd *catalogd, uint32_t limit_ms)
{
    uint64_t end_us = clock_after_ms(limit_ms);
    while (!is_connected(catalogd)) {
        if (clock_us() >= end_us)
            return private_complain("catalogd", "is not connected to its Redis", catalogd->log_path);
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
           service_wait_joined(catalogd, READY_LIMIT_MS);
}

/* ---- the machine ---- */

void machine_describe(struct stack_redis *redis, const char *database_url, char text[static MACHINE_BYTES])
{
    struct utsname system = {.sysname = "?"};
    char version[48], why[SQL_WHY_BYTES];
    uname(&system);
    size_t used =
        (size_t)snprintf(text, MACHINE_BYTES, "%ld cores, %.20s %.60s %.20s", sysconf(_SC_NPROCESSORS_ONLN),
                         system.sysname, system.release, system.machine);
    if (redis != NULL) {
        stack_redis_version(redis, version, sizeof version);
        used += (size_t)snprintf(text + used, MACHINE_BYTES - used, "; Redis %s", version);
    }
    if (database_url == NULL)
        return;
    bool is_told = sql_run(database_url, "SELECT split_part(version(), ' ', 2)", SQL_LIMIT_MS, version,
                           sizeof version, why);
    snprintf(text + used, MACHINE_BYTES - used, "%s PostgreSQL %s", redis != NULL ? "," : ";",
             is_told ? version : "?");
}
