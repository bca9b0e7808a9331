/* SPDX-License-Identifier: MIT */
/* stack_pgbouncer.c - a private PgBouncer; see stack.h. */
#include "load/base/net.h"
#include "load/base/sql.h"
#include "load/stack/stack.h"

#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { START_LIMIT_MS = 60000, STOP_LIMIT_MS = 5000, ASK_LIMIT_MS = 1000, START_TRIES = 5 };
enum { PATH_BYTES = PROC_PATH_BYTES + 16 };

/* Any user gets in without a password and becomes the server's postgres. */
static const char configuration[] = "[databases]\n"
                                    "* = host=127.0.0.1 port=%u user=postgres\n"
                                    "[pgbouncer]\n"
                                    "listen_addr = 127.0.0.1\n"
                                    "listen_port = %u\n"
                                    "unix_socket_dir =\n"
                                    "auth_type = any\n"
                                    "pool_mode = %s\n"
                                    "default_pool_size = 2\n"
                                    "ignore_startup_parameters = extra_float_digits, options\n";

/* The user that it runs as may read it. */
static bool write_configuration(const struct stack_pgbouncer *pgbouncer,
                                const struct stack_postgres *postgres, const char *pool_mode,
                                const char *path)
{
    FILE *file = fopen(path, "we");
    if (file == NULL)
        return false;
    fprintf(file, configuration, (unsigned)postgres->port, (unsigned)pgbouncer->port, pool_mode);
    return fclose(file) == 0 && chmod(path, 0644) == 0;
}

static bool is_up(void *context)
{
    const struct stack_pgbouncer *pgbouncer = context;
    char why[SQL_WHY_BYTES];
    return sql_run(pgbouncer->url, "SELECT 1", ASK_LIMIT_MS, NULL, 0, why);
}

static bool launch(struct stack_pgbouncer *pgbouncer, const struct stack_postgres *postgres,
                   const char *pool_mode)
{
    static const char installed[] = "/usr/sbin/pgbouncer"; /* not in every PATH */
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/settings", pgbouncer->folder);
    const char *const argv[] = {access(installed, X_OK) == 0 ? installed : "pgbouncer", path, NULL};
    const struct proc_options options = {
        .argv = argv, .output_path = pgbouncer->log_path, .user = proc_plain_user(), .end_signal = SIGTERM};
    pgbouncer->port = net_free_port();
    snprintf(pgbouncer->url, sizeof pgbouncer->url, "postgresql://postgres@127.0.0.1:%u/postgres",
             (unsigned)pgbouncer->port);
    if (!write_configuration(pgbouncer, postgres, pool_mode, path))
        return false;
    pgbouncer->pid = proc_start_up(&options, is_up, pgbouncer, START_LIMIT_MS);
    return pgbouncer->pid > 0;
}

bool stack_pgbouncer_start(struct stack_pgbouncer *pgbouncer, const struct stack_postgres *postgres,
                           const char *pool_mode)
{
    *pgbouncer = (struct stack_pgbouncer){.pid = 0};
    if (!proc_folder("pgbouncer", proc_plain_user(), pgbouncer->folder))
        return false;
    snprintf(pgbouncer->log_path, sizeof pgbouncer->log_path, "%s/log", pgbouncer->folder);
    for (int i = 0; i < START_TRIES; i++) { /* somebody may take the port first */
        if (launch(pgbouncer, postgres, pool_mode))
            return true;
    }
    fprintf(stderr,
            "stack: PgBouncer did not start (sh load/deps.sh pgbouncer installs it); its log ends:\n");
    proc_show_tail(pgbouncer->log_path);
    return false;
}

void stack_pgbouncer_stop(struct stack_pgbouncer *pgbouncer)
{
    if (pgbouncer->pid > 0)
        proc_stop(&pgbouncer->pid, SIGTERM, STOP_LIMIT_MS);
    if (pgbouncer->folder[0] != '\0')
        proc_remove(pgbouncer->folder);
    *pgbouncer = (struct stack_pgbouncer){.pid = 0};
}
