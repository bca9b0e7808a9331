/* SPDX-License-Identifier: MIT */
/* stack_pgbouncer.c - a private PgBouncer; see stack.h. */
#include "load/base/sql.h"
#include "load/stack/stack.h"

#include <stdio.h>
#include <unistd.h>

enum { ASK_LIMIT_MS = 1000, URL_BYTES = sizeof(((struct stack_pgbouncer *)NULL)->url) };

/* Any user gets in without a password and becomes the server's postgres. */
static const char configuration[] = "[databases]\n"
                                    "* = host=127.0.0.1 port=%u user=postgres\n"
                                    "[pgbouncer]\n"
                                    "listen_addr = 127.0.0.1\n"
                                    "listen_port = {port}\n"
                                    "unix_socket_dir =\n"
                                    "auth_type = any\n"
                                    "pool_mode = %s\n"
                                    "default_pool_size = 2\n"
                                    "ignore_startup_parameters = extra_float_digits, options\n";

static void write_url(const struct rival *server, char url[static URL_BYTES])
{
    snprintf(url, URL_BYTES, "postgresql://postgres@127.0.0.1:%u/postgres", (unsigned)server->port);
}

static bool is_up(void *server)
{
    char url[URL_BYTES], why[SQL_WHY_BYTES];
    write_url(server, url);
    return sql_run(url, "SELECT 1", ASK_LIMIT_MS, NULL, 0, why);
}

bool stack_pgbouncer_start(struct stack_pgbouncer *pgbouncer, const struct stack_postgres *postgres,
                           const char *pool_mode)
{
    static const char installed[] = "/usr/sbin/pgbouncer"; /* not in every PATH */
    char text[RIVAL_FILE_BYTES];
    const char *const arguments[] = {access(installed, X_OK) == 0 ? installed : "pgbouncer",
                                     "{folder}/pgbouncer", NULL};
    const struct rival_plan plan = {.name = "pgbouncer",
                                    .arguments = arguments,
                                    .file_text = text,
                                    .user = proc_plain_user(),
                                    .is_up = is_up};
    snprintf(text, sizeof text, configuration, (unsigned)postgres->port, pool_mode);
    if (!rival_start(&pgbouncer->server, &plan)) {
        fprintf(stderr, "stack: sh load/deps.sh pgbouncer installs it\n");
        return false;
    }
    write_url(&pgbouncer->server, pgbouncer->url);
    return true;
}

void stack_pgbouncer_stop(struct stack_pgbouncer *pgbouncer)
{
    rival_stop(&pgbouncer->server);
}
