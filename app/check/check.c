/* SPDX-License-Identifier: MIT */
/* check.c - see check.h. */
#include "app/check/check.h"

#include "app/base/clock.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_SETTINGS = 2 };

static const char HELP[] =
    "catalogd check [--json] [SETTINGS] - is what the service stands on as it must be?\n"
    "\n"
    "Takes the settings of the service, from the environment and as flags (catalogd --help has them), and "
    "looks at the\n"
    "machine, Redis and PostgreSQL. A line for each: ok, warning or wrong, what was found, and what to do. "
    "It uses probe\n"
    "keys in Redis and drops them, changes nothing in PostgreSQL, and is done in some seconds, whatever "
    "hangs.\n"
    "\n"
    "  --json           the same as JSON\n"
    "  --version, -V    the version\n"
    "\n"
    "Exit status: 0: nothing is wrong (there may be warnings), 1: something is, 2: wrong settings.\n"
    "\n"
    "  systemd-run --pipe --wait -p EnvironmentFile=/etc/catalogd/catalogd.env -p User=catalogd "
    "-p DynamicUser=yes catalogd check\n";

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

/* Takes it out of the arguments. */
static bool take_flag(int *argc, char **argv, const char *flag)
{
    for (int i = 1; i < *argc; i++) {
        if (strcmp(argv[i], flag) != 0)
            continue;
        memmove(&argv[i], &argv[i + 1], (size_t)(*argc - i) * sizeof(*argv)); /* its NULL, too */
        (*argc)--;
        return true;
    }
    return false;
}

static int check_all(const struct settings *settings, bool as_json)
{
    struct findings findings;

    findings_init(&findings, as_json ? NULL : stdout);
    check_machine(settings, &findings);
    check_redis(settings, &findings);
    check_database(settings, &findings);
    if (as_json)
        findings_print_json(&findings, stdout);
    const bool good = findings.count[VERDICT_WRONG] == 0;
    findings_clear(&findings);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int say(const char *text)
{
    return fputs(text, stdout) >= 0 && fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int check_main(int argc, char **argv, char **env)
{
    struct settings settings;

    take_flag(&argc, argv, "check");
    const bool as_json = take_flag(&argc, argv, "--json");
    switch (settings_read(argc, argv, env, &settings, stderr)) {
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
    json_object_seed(0);
    return check_all(&settings, as_json);
}
