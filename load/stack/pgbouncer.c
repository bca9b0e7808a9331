/* SPDX-License-Identifier: MIT */
/* pgbouncer.c - see pgbouncer.h. */
#include "load/stack/pgbouncer.h"

#include <libpq-fe.h>

#include <stdio.h>
#include <unistd.h>

/* Parameters that libpq sends at login would be refused if it did not ignore them. */
static const char configuration[] =
    "[databases]\n"
    "postgres = host=127.0.0.1 port=%u dbname=postgres user=postgres\n"
    "[pgbouncer]\n"
    "listen_addr = 127.0.0.1\n"
    "listen_port = {port}\n"
    "unix_socket_dir =\n"
    "auth_type = any\n"
    "pool_mode = transaction\n"
    "default_pool_size = 1\n"
    "max_client_conn = 100\n"
    "ignore_startup_parameters = options, extra_float_digits, tcp_keepalives_idle\n";

static bool is_up(void *context)
{
    const struct rival *pgbouncer = context;
    char url[64];
    snprintf(url, sizeof url, "postgresql://postgres@127.0.0.1:%u/postgres", (unsigned)pgbouncer->port);
    return PQping(url) == PQPING_OK;
}

bool pgbouncer_start(struct rival *pgbouncer, uint16_t postgres_port)
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
    snprintf(text, sizeof text, configuration, (unsigned)postgres_port);
    return rival_start(pgbouncer, &plan);
}
