/* SPDX-License-Identifier: MIT */
/* stack_postgres.c - a private PostgreSQL; see stack.h. */
#include "load/base/clock.h"
#include "load/base/home.h"
#include "load/base/net.h"
#include "load/base/sql.h"
#include "load/stack/stack.h"
#include "load/witness/witness_log.h"

#include <libpq-fe.h>

#include <assert.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    INIT_LIMIT_MS = 120000,
    START_LIMIT_MS = 60000,
    STOP_LIMIT_MS = 20000,
    LOAD_LIMIT_MS = 600000,
    QUERY_LIMIT_MS = 120000
};
enum { SEED_CONNECTIONS = 10, ARGUMENTS_MAX = 64, CHUNK_BYTES = 65536 };

/*
 * log_statement writes before the statement runs, also when it fails or is cancelled later, and the parameters as
 * its DETAIL. An error does not repeat the statement. Nothing is synced, as the cluster lives as long as we do; what
 * was committed has left the server, though, and outlives a SIGKILL of it.
 */
static const char *const server_settings[] = {
    "log_statement=all",
    "log_min_messages=warning",
    "log_min_error_statement=panic",
    "log_error_verbosity=default",
    "log_parameter_max_length=-1",
    "lc_messages=C",
    "log_line_prefix=%p %n ",
    "log_destination=stderr",
    "logging_collector=off",
    "fsync=off",
    "full_page_writes=off",
    "max_wal_size=1GB",
    "shared_buffers=128MB",
    "superuser_reserved_connections=3",
    "listen_addresses=127.0.0.1",
    "timezone=UTC",
};

/* Debian keeps the server's programs out of PATH, a folder for each version; the newest is taken.
 * Where there is none, the programs are looked up in PATH. */
static void find_programs(struct stack_postgres *postgres)
{
    glob_t found;
    postgres->programs[0] = '\0';
    if (glob("/usr/lib/postgresql/*/bin/initdb", 0, NULL, &found) == 0) {
        const char *newest = found.gl_pathv[0];
        for (size_t i = 1; i < found.gl_pathc; i++) {
            if (strverscmp(found.gl_pathv[i], newest) > 0)
                newest = found.gl_pathv[i];
        }
        size_t count = strlen(newest) - strlen("initdb");
        snprintf(postgres->programs, sizeof postgres->programs, "%.*s", (int)count, newest);
    }
    globfree(&found);
}

static bool init_cluster(const struct stack_postgres *postgres, const char *data)
{
    char program[160];
    snprintf(program, sizeof program, "%sinitdb", postgres->programs);
    const char *const argv[] = {program,    "--pgdata", data,        "--username", "postgres",
                                "--auth",   "trust",    "--no-sync", "--encoding", "UTF8",
                                "--locale", "C.UTF-8",  NULL};
    const struct proc_options options = {.argv = argv, .user = proc_plain_user()};
    return proc_run(&options, INIT_LIMIT_MS);
}

/* The data of a server that is down. */
static bool copy_cluster(const char *from, const char *to)
{
    const char *const argv[] = {"cp", "-a", "--reflink=auto", from, to, NULL};
    const struct proc_options options = {.argv = argv, .user = proc_plain_user()};
    return proc_run(&options, INIT_LIMIT_MS);
}

/* A server of its own fills it, and is stopped: nothing of a copy is still to be recovered. */
static bool seed_cluster(const char *data, uint32_t scale)
{
    struct stack_postgres seeding;
    char seeded[PROC_PATH_BYTES + 16];
    bool good = stack_postgres_start(&seeding, SEED_CONNECTIONS) && stack_postgres_load(seeding.url, scale);
    if (seeding.pid > 0)
        proc_stop(&seeding.pid, SIGINT, STOP_LIMIT_MS);
    snprintf(seeded, sizeof seeded, "%s/data", seeding.folder);
    good = good && copy_cluster(seeded, data);
    stack_postgres_stop(&seeding);
    return good;
}

/* The first of all programs makes it while the others wait; what a killed one left half made is made anew. */
static bool make_template(const struct stack_postgres *postgres, const char *template, uint32_t scale)
{
    char lock[PATH_MAX], half[PATH_MAX];
    snprintf(lock, sizeof lock, "%.4000s.lock", template);
    snprintf(half, sizeof half, "%.4000s.half", template);
    const int fd = open(lock, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    bool good = fd != -1 && flock(fd, LOCK_EX) == 0;
    if (!good)
        perror(lock);
    if (good && access(template, F_OK) != 0) {
        proc_remove(half);
        good = scale == 0 ? init_cluster(postgres, half) : seed_cluster(half, scale);
        if (good && rename(half, template) != 0) {
            perror(template);
            good = false;
        }
    }
    if (fd != -1)
        close(fd);
    return good;
}

/* A folder for templates that all programs of a test run copy: an empty cluster in less than half of the CPU that
 * initdb takes, a seeded one in a seventh of what loading does. NULL: there is none. */
static const char *templates(void)
{
    const char *folder = getenv("STACK_CLUSTERS");
    return folder != NULL && folder[0] != '\0' ? folder : NULL;
}

static bool create_cluster(const struct stack_postgres *postgres, uint32_t scale)
{
    char data[PROC_PATH_BYTES + 16], template[PATH_MAX];
    snprintf(data, sizeof data, "%s/data", postgres->folder);
    if (templates() == NULL)
        return init_cluster(postgres, data);
    snprintf(template, sizeof template, "%.4000s/%" PRIu32, templates(), scale);
    return make_template(postgres, template, scale) && copy_cluster(template, data);
}

static bool is_up(void *context)
{
    const struct stack_postgres *postgres = context;
    return PQping(postgres->socket_url) == PQPING_OK;
}

/* When this program is gone PostgreSQL gets SIGQUIT: it ends its sessions and frees its shared memory. */
static bool launch(struct stack_postgres *postgres)
{
    char program[160], data[PROC_PATH_BYTES + 16], port[16], connections[48], sockets[PROC_PATH_BYTES + 32];
    snprintf(program, sizeof program, "%spostgres", postgres->programs);
    snprintf(data, sizeof data, "%s/data", postgres->folder);
    snprintf(port, sizeof port, "port=%u", (unsigned)postgres->port);
    snprintf(connections, sizeof connections, "max_connections=%" PRIu32, postgres->max_connections);
    snprintf(sockets, sizeof sockets, "unix_socket_directories=%s", postgres->folder);
    const char *argv[ARGUMENTS_MAX] = {program, "-D", data, "-c", port, "-c", connections, "-c", sockets};
    size_t count = 9;
    for (size_t i = 0; i < sizeof server_settings / sizeof *server_settings; i++) {
        argv[count++] = "-c";
        argv[count++] = server_settings[i];
    }
    for (size_t i = 0; postgres->settings != NULL && postgres->settings[i] != NULL; i++) {
        assert(count + 2 < ARGUMENTS_MAX);
        argv[count++] = "-c";
        argv[count++] = postgres->settings[i];
    }
    const struct proc_options options = {
        .argv = argv, .output_path = postgres->log_path, .user = proc_plain_user(), .end_signal = SIGQUIT};
    postgres->pid = proc_start_up(&options, is_up, postgres, START_LIMIT_MS);
    return postgres->pid > 0;
}

/* False: the reason is on stderr. */
static bool begin(struct stack_postgres *postgres, uint32_t max_connections)
{
    *postgres = (struct stack_postgres){.max_connections = max_connections};
    find_programs(postgres);
    return private_begin("postgres", proc_plain_user(), postgres->folder, postgres->log_path);
}

static bool launch_anew(void *server)
{
    struct stack_postgres *postgres = server;
    postgres->port = net_free_port();
    snprintf(postgres->url, sizeof postgres->url, "postgresql://postgres@127.0.0.1:%u/postgres",
             (unsigned)postgres->port);
    snprintf(postgres->socket_url, sizeof postgres->socket_url,
             "host=%s port=%u user=postgres dbname=postgres connect_timeout=5", postgres->folder,
             (unsigned)postgres->port);
    return launch(postgres);
}

static bool launch_somewhere(struct stack_postgres *postgres)
{
    return private_launch(launch_anew, postgres, "PostgreSQL", postgres->log_path);
}

bool stack_postgres_start(struct stack_postgres *postgres, uint32_t max_connections)
{
    return begin(postgres, max_connections) && create_cluster(postgres, 0) && launch_somewhere(postgres);
}

bool stack_postgres_start_seeded(struct stack_postgres *postgres, uint32_t max_connections, uint32_t scale)
{
    if (templates() == NULL)
        return stack_postgres_start(postgres, max_connections) && stack_postgres_load(postgres->url, scale);
    return begin(postgres, max_connections) && create_cluster(postgres, scale) && launch_somewhere(postgres);
}

static bool copy_primary(const struct stack_postgres *standby, const struct stack_postgres *primary)
{
    char program[160], data[PROC_PATH_BYTES + 16];
    snprintf(program, sizeof program, "%spg_basebackup", standby->programs);
    snprintf(data, sizeof data, "%s/data", standby->folder);
    const char *const argv[] = {
        program, "--pgdata", data, "--dbname", primary->socket_url, "--write-recovery-conf",
        "-X",    "stream",   "-c", "fast",     "--no-sync",         NULL};
    const struct proc_options options = {.argv = argv, .user = proc_plain_user()};
    return proc_run(&options, INIT_LIMIT_MS);
}

bool stack_postgres_start_standby(struct stack_postgres *standby, const struct stack_postgres *primary)
{
    return begin(standby, primary->max_connections) && copy_primary(standby, primary) &&
           launch_somewhere(standby);
}

bool stack_postgres_promote(struct stack_postgres *standby)
{
    char promoted[8] = "";
    return stack_postgres_query(standby->url, "SELECT pg_promote()", promoted, sizeof promoted) &&
           strcmp(promoted, "t") == 0;
}

bool stack_postgres_hold_replay(const struct stack_postgres *standby, bool held)
{
    return stack_postgres_query(
        standby->url, held ? "SELECT pg_wal_replay_pause()" : "SELECT pg_wal_replay_resume()", NULL, 0);
}

bool stack_postgres_restart(struct stack_postgres *postgres)
{
    if (postgres->pid > 0)
        proc_stop(&postgres->pid, SIGINT, STOP_LIMIT_MS);
    return launch(postgres) || private_complain("PostgreSQL", "did not start", postgres->log_path);
}

void stack_postgres_stop(struct stack_postgres *postgres)
{
    proc_resume(postgres->pid);
    private_end(&postgres->pid, SIGINT, STOP_LIMIT_MS, postgres->folder);
    *postgres = (struct stack_postgres){.pid = 0};
}

bool stack_postgres_load(const char *url, uint32_t scale)
{
    char setting[32];
    snprintf(setting, sizeof setting, "scale=%" PRIu32, scale);
    char schema[HOME_PATH_BYTES], seed[HOME_PATH_BYTES];
    const char *argv[] = {"psql", url,    "-X", "-q", "-v", "ON_ERROR_STOP=1", "-v", setting,
                          "-f",   schema, "-f", seed, NULL};
    home_path("sql/schema.sql", schema);
    home_path("sql/seed.sql", seed);
    if (scale == 0)
        argv[10] = NULL;
    const struct proc_options options = {.argv = argv};
    return proc_run(&options, LOAD_LIMIT_MS);
}

bool stack_postgres_query(const char *url, const char *statement, char *value, size_t value_bytes)
{
    char why[SQL_WHY_BYTES];
    bool good = sql_run(url, statement, QUERY_LIMIT_MS, value, value_bytes, why);
    if (!good)
        fprintf(stderr, "stack: %s: %s\n", statement, why);
    return good;
}

uint64_t stack_postgres_mark(const struct stack_postgres *postgres)
{
    struct stat now;
    return stat(postgres->log_path, &now) == 0 ? (uint64_t)now.st_size : 0;
}

/* Yours to clear, whatever comes. */
static void read_log(const struct stack_postgres *postgres, uint64_t mark, const char *text,
                     struct witness_log *log)
{
    char chunk[CHUNK_BYTES];
    const struct witness_clock no_matter = {.wall_us = 0};
    witness_log_init(log, text);
    FILE *file = fopen(postgres->log_path, "re");
    if (file == NULL)
        return;
    size_t got = fseek(file, (long)mark, SEEK_SET) == 0 ? sizeof chunk : 0;
    while (got == sizeof chunk) {
        got = fread(chunk, 1, sizeof chunk, file);
        witness_log_feed(log, chunk, got, no_matter);
    }
    fclose(file);
}

uint32_t stack_postgres_count(const struct stack_postgres *postgres, uint64_t mark, const char *text)
{
    struct witness_log log;
    read_log(postgres, mark, text, &log);
    uint32_t count = (uint32_t)log.load_count;
    witness_log_clear(&log);
    return count;
}

uint32_t stack_postgres_expiries(const struct stack_postgres *postgres, uint64_t mark, const char *text,
                                 uint32_t ttl_ms)
{
    struct witness_log log;
    const struct witness_load *first = NULL;
    uint32_t count = 0;
    read_log(postgres, mark, text, &log);
    for (size_t i = 0; i < log.load_count; i++) {
        if (first != NULL && !witness_outlived(first, &log.loads[i], (uint64_t)ttl_ms * 1000))
            continue;
        first = &log.loads[i];
        count++;
    }
    witness_log_clear(&log);
    return count;
}

bool stack_postgres_log_ends(const struct stack_postgres *postgres, bool wanted)
{
    char set[64];
    snprintf(set, sizeof set, "ALTER SYSTEM SET log_duration = %s", wanted ? "on" : "off");
    return stack_postgres_query(postgres->url, set, NULL, 0) &&
           stack_postgres_query(postgres->url, "SELECT pg_reload_conf()", NULL, 0);
}

bool stack_postgres_wait(const struct stack_postgres *postgres, uint64_t mark, const char *text,
                         uint32_t wanted, uint32_t limit_ms)
{
    uint64_t end_us = clock_after_ms(limit_ms);
    while (stack_postgres_count(postgres, mark, text) < wanted) {
        if (clock_us() >= end_us)
            return false;
        clock_pause_ms(5);
    }
    return true;
}
