/* SPDX-License-Identifier: MIT */
/*
 * systemd_test.c - the units of app/deploy as systemd reads them, and the settings beside them as catalogd does. No
 * systemd runs: systemd-analyze judges files.
 */
#include "load/base/home.h"
#include "load/base/proc.h"
#include "load/stack/stack.h"
#include "tests/support/test.h"

enum { SAID_BYTES = 32768, EXPOSURE_TENTHS = 12, NAME_BYTES = 64 };

static char folder[PROC_PATH_BYTES], said[SAID_BYTES];

/* The units in a folder of their own; what they start is the program that was built. */
static bool install(void)
{
    char command[2048], deploy[HOME_PATH_BYTES];
    home_path("app/deploy", deploy);
    if (!proc_folder("units", NULL, folder))
        return false;
    snprintf(command, sizeof command,
             "program=$(readlink -f '%s') && cd %s && cp catalogd.service catalogd.socket %s && "
             "sh instance.sh catalogd.service >%s/catalogd@.service && "
             "sed -i \"s|/usr/bin/catalogd|$program|\" %s/*.service",
             stack_catalogd_program(), deploy, folder, folder, folder);
    if (proc_output(command, said, sizeof said))
        return true;
    fprintf(stderr, "%s\n%s\n", command, said);
    return false;
}

/* In that folder. */
static void run(const char *what, const char *unit)
{
    char command[1024];
    snprintf(command, sizeof command, "cd %s && %s %s", folder, what, unit);
    if (!proc_output(command, said, sizeof said))
        fail_msg("%s\n%s", command, said);
}

static const char *const units[] = {"./catalogd.service", "./catalogd.socket", "./catalogd@.service"};

TEST(systemd_finds_nothing_to_complain_of, P168)
{
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        run("SYSTEMD_UNIT_PATH=$PWD: systemd-analyze verify --man=no", units[i]);
        assert_string_equal(said, "");
    }
}

TEST(the_services_are_exposed_no_more_than_they_must_be, P168)
{
    char judge[160];
    snprintf(judge, sizeof judge, "systemd-analyze security --offline=yes --no-pager --threshold=%d",
             (int)EXPOSURE_TENTHS);
    run(judge, "./catalogd.service");
    run(judge, "./catalogd@.service");
}

TEST(an_instance_takes_the_shared_socket_and_has_operations_of_its_own)
{
    run("cat", "catalogd@.service");
    assert_non_null(strstr(said, "\nSockets=catalogd.socket\n"));
    assert_non_null(strstr(said, "--ops-listen unix:/run/catalogd-%i/ops.sock\n"));
    assert_non_null(strstr(said, "\nRuntimeDirectory=catalogd-%i\n"));
}

/* Those that are commented out, too: each is one that the program has. */
TEST(the_settings_of_the_machine_are_settings, P168)
{
    char command[1200], path[HOME_PATH_BYTES], name[NAME_BYTES], line[256];
    unsigned count = 0;
    snprintf(command, sizeof command, "'%s' --help", stack_catalogd_program());
    assert_true(proc_output(command, said, sizeof said));
    FILE *file = fopen(home_path("app/deploy/catalogd.env", path), "re");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        const char *at = line + (line[0] == '#');
        const size_t bytes = strspn(at, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_");
        if (bytes < 2 || at[bytes] != '=')
            continue;
        snprintf(name, sizeof name, ", %.*s\n", (int)bytes, at);
        if (strstr(said, name) == NULL)
            fail_msg("catalogd has no setting %.*s", (int)bytes, at);
        count++;
    }
    fclose(file);
    assert_true(count >= 10);
}

TEST_GROUP(.up = install);
