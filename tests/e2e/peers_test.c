/* SPDX-License-Identifier: MIT */
/*
 * peers_test.c - the program that compares caches, run for real with what needs no further installation: catalogd,
 * and a cache whose packages are not there; and our module in nginx, when something breaks. It measures with LONG=1.
 */
#include "load/base/proc.h"
#include "tests/support/files.h"
#include "tests/support/test.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUN_LIMIT_MS = 100000, OUTPUT_BYTES = 65536, WORDS_MAX = 16 };

struct run {
    char folder[PROC_PATH_BYTES];
    char output[OUTPUT_BYTES]; /* both streams */
    int status;                /* of exit(); -1: it ended otherwise */
};

/* Beside the catalogd that is tested. */
static void find_program(char *path, size_t path_bytes)
{
    const char *catalogd = getenv("CATALOGD");
    const char *slash = catalogd != NULL ? strrchr(catalogd, '/') : NULL;
    if (slash != NULL)
        snprintf(path, path_bytes, "%.*s/peers", (int)(slash - catalogd), catalogd);
    else
        snprintf(path, path_bytes, "build/peers");
}

/* With words of its command line, NULL at the end; npm's packages are looked for where there are none. */
static void run_peers(struct run *run, const char *const *words)
{
    char program[512], output[PROC_PATH_BYTES + 16];
    const char *argv[WORDS_MAX + 1] = {program};
    static const char *const settings[] = {"PEERS_NODE=/nonexistent", NULL};
    size_t count = 1;
    find_program(program, sizeof program);
    assert_true(proc_folder("peers", NULL, run->folder));
    snprintf(output, sizeof output, "%s/output", run->folder);
    for (; count < WORDS_MAX && *words != NULL; words++)
        argv[count++] = *words;
    const struct proc_options options = {
        .argv = argv, .settings = settings, .output_path = output, .end_signal = SIGTERM};
    run->status = program_run(&options, RUN_LIMIT_MS, run->output, sizeof run->output);
}

static void run_clear(struct run *run)
{
    proc_remove(run->folder);
}

static void expect_text(const struct run *run, const char *text)
{
    if (strstr(run->output, text) == NULL)
        fail_msg("\"%s\" is not in:\n%s", text, run->output);
}

static void expect_status(const struct run *run, int status)
{
    if (run->status != status)
        fail_msg("exit status %d instead of %d:\n%s", run->status, status, run->output);
}

/* ---- a real run ---- */

/* A figure in a table's row, of the first cache. */
static void expect_figure(const struct run *run, const char *title, const char *label, double least,
                          double most)
{
    const char *table = strstr(run->output, title), *row = table != NULL ? strstr(table, label) : NULL;
    double figure = -1;
    if (row == NULL || sscanf(row + strlen(label), "%lf", &figure) != 1 || figure < least || figure > most)
        fail_msg("\"%s\" below \"%s\" is not within %g..%g in:\n%s", label + 1, title, least, most,
                 run->output);
}

TEST(a_cache_that_is_not_installed_is_reported_and_the_others_are_measured)
{
    static const char burst[] = "A cold burst", rolling[] = "Rolling expiry";
    static struct run run;
    test_needs_long();
    run_peers(&run, (const char *const[]){"bentocache", "catalogd", "burst", "rolling", "--repetitions", "1",
                                          "--seconds", "2", NULL});
    expect_status(&run, 0);
    expect_text(&run, "bentocache: not run: ");
    expect_figure(&run, burst, "\norigin calls", 1, 1);
    expect_figure(&run, burst, "\nanswered, 200, %", 100, 100);
    /* The first waits for the whole query. */
    expect_figure(&run, burst, "\nslowest answer, ms", 100, HUGE_VAL);
    expect_figure(&run, rolling, "\norigin calls", 1, HUGE_VAL);
    expect_figure(&run, rolling, "\norigin calls per expiry", 1, 1);
    expect_figure(&run, rolling, "\nanswered, 200, %", 100, 100);
    run_clear(&run);
}

TEST(our_module_loads_once_more_when_its_worker_is_killed_and_purges_everywhere)
{
    static const char faults[] = "\nFaults: ";
    static struct run run;
    test_needs_long();
    run_peers(&run, (const char *const[]){"module", "faults", "--repetitions", "1", NULL});
    if (strstr(run.output, "not built: make nginx") != NULL)
        test_skip("the module is not built: nginx-dev is not there");
    expect_status(&run, 0);
    expect_figure(&run, faults, "\nworker killed: origin calls", 2, 2);
    expect_figure(&run, faults, "\norigin dead, expired: 200, %", 100, 100);
    expect_figure(&run, faults, "\norigin dead, cold: its calls", 1, 1);
    expect_figure(&run, "\npurge: old answers after it", "\n    origin calls", 1, 1);
    expect_text(&run, "status 502 x 500, reset x ");
    run_clear(&run);
}

/* ---- wrong calls ---- */

TEST(a_name_that_is_none_is_refused_with_those_that_are)
{
    static struct run run;
    run_peers(&run, (const char *const[]){"squid", NULL});
    expect_status(&run, 2);
    expect_text(&run, "squid is none of these");
    expect_text(&run, "catalogd module nginx varnish bentocache dedupe dogpile guide");
    expect_text(&run, "burst rolling hits faults");
    run_clear(&run);
}
