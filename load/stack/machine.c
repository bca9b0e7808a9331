/* SPDX-License-Identifier: MIT */
/* machine.c - see machine.h. */
#include "load/stack/machine.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

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
