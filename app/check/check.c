/* SPDX-License-Identifier: MIT */
/* check.c - see check.h. */
#include "app/check/check.h"

#include "app/base/clock.h"
#include "app/base/log.h"
#include "app/ops/ops.h"
#include "app/pg/pg.h"

#include <uv.h>

#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { EXIT_SETTINGS = 2 };

static const char HELP[] =
    "catalogd check [SETTINGS] - is what the service stands on as it must be?\n"
    "\n"
    "Takes the settings of the service, from the environment and as flags (catalogd --help has them), and "
    "looks at the\n"
    "machine, Redis and PostgreSQL. A line for each: ok, warning or wrong, what was found, and what to do; "
    "then how many.\n"
    "It uses probe keys in Redis and drops them, changes nothing in PostgreSQL, and is done in some "
    "seconds,\n"
    "whatever hangs.\n"
    "\n"
    "  --version, -V    the version\n"
    "\n"
    "Exit status: 0: nothing is wrong (there may be warnings), 1: something is, 2: wrong settings.\n"
    "\n"
    "  systemd-run --pipe --wait -p EnvironmentFile=/etc/catalogd/catalogd.env -p User=catalogd "
    "-p DynamicUser=yes catalogd check\n";

/* ---- findings ---- */

enum { FOUND_BYTES = 512 };

static const char *const NAMES[VERDICT_COUNT] = {
    [VERDICT_OK] = "ok", [VERDICT_WARNING] = "warning", [VERDICT_WRONG] = "wrong"};

void findings_add(struct findings *findings, enum verdict verdict, const char *what, const char *advice,
                  const char *format, ...)
{
    char found[FOUND_BYTES];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(found, sizeof(found), format, arguments);
    va_end(arguments);
    findings->count[verdict]++;
    printf("%-8s %s: %s%s%s\n", NAMES[verdict], what, found, advice != NULL ? "; " : "",
           advice != NULL ? advice : "");
    fflush(stdout);
}

/* ---- checking ---- */

void check_clock(struct findings *findings, const char *what, int64_t then_ms, int64_t before_ms)
{
    const int64_t now_ms = (int64_t)clock_wall_ms();
    const int64_t ahead_ms = then_ms - now_ms, behind_ms = before_ms - then_ms;
    const int64_t apart_ms = ahead_ms > behind_ms ? ahead_ms : behind_ms;

    if (apart_ms <= CHECK_CLOCK_MS)
        findings_ok(findings, what, "in step with ours within %d ms", CHECK_CLOCK_MS);
    else
        findings_add(findings, VERDICT_WARNING, what,
                     "keep both machines in step (chrony, systemd-timesyncd)", "%" PRId64 " ms %s ours",
                     apart_ms, ahead_ms > behind_ms ? "ahead of" : "behind");
}

static int check_all(const struct settings *settings)
{
    struct findings findings = {.count = {0}};

    check_machine(settings, &findings);
    check_redis(settings, &findings);
    check_database(settings, &findings);
    printf("%u wrong, %u warnings, %u ok\n", findings.count[VERDICT_WRONG], findings.count[VERDICT_WARNING],
           findings.count[VERDICT_OK]);
    return findings.count[VERDICT_WRONG] == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int say(const char *text)
{
    return fputs(text, stdout) >= 0 && fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int check_main(int argc, char **argv, char **env)
{
    struct settings settings;

    switch (settings_read(argc - 1, argv + 1, env, &settings, stderr)) {
    case SETTINGS_OK:
        break;
    case SETTINGS_HELP:
        return say(HELP);
    case SETTINGS_VERSION:
        return say("catalogd " GUARD_VERSION "\n");
    case SETTINGS_WRONG:
        return EXIT_SETTINGS;
    }
    signal(SIGPIPE, SIG_IGN);
    return check_all(&settings);
}

/* ---- limits ---- */

enum {
    SPARE_FDS = 64,     /* logs, listeners, epoll, Redis, DNS */
    FDS_PER_LOOP = 16,  /* libuv's and libmicrohttpd's own, a Redis connection */
    FDS_PER_WORKER = 4, /* a database connection, two at a login beside a silent host; a cancellation pipe */
    WRITER_EXTRA = 2,   /* connections of the outbox: one that pays, one that listens */
};

uint32_t limits_loops(const struct settings *settings)
{
    return settings->server_loops != 0 ? settings->server_loops : uv_available_parallelism();
}

uint64_t limits_descriptors_needed(const struct settings *settings)
{
    return (uint64_t)settings->max_connections + (uint64_t)limits_loops(settings) * FDS_PER_LOOP +
           (uint64_t)settings->guard.max_loads * FDS_PER_WORKER +
           (uint64_t)settings->write_workers * FDS_PER_WORKER + PG_CANCELS_MAX + SPARE_FDS + OPS_CONNECTIONS;
}

uint32_t limits_database_connections(const struct settings *settings)
{
    const uint32_t loaders =
        settings->guard.load_threads != 0 ? settings->guard.load_threads : settings->guard.max_loads;

    return loaders + (settings->write_database_url[0] != '\0' ? settings->write_workers + WRITER_EXTRA : 0);
}

bool limits_raise(const struct settings *settings)
{
    const uint64_t needed = limits_descriptors_needed(settings);
    struct rlimit core = {0, 0}, files;

    if (settings->cores && getrlimit(RLIMIT_CORE, &core) == 0)
        core.rlim_cur = core.rlim_max;
    setrlimit(RLIMIT_CORE, &core);
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return false;
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur >= needed)
        return true;
    log_event(LOG_LEVEL_ERROR, "limits",
              "reason=\"MAX_CONNECTIONS=%" PRIu32 " needs %" PRIu64 " file descriptors but only %" PRIu64
              " may be open: lower it or raise ulimit -n\"",
              settings->max_connections, needed, (uint64_t)files.rlim_cur);
    return false;
}
