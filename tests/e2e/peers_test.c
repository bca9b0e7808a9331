/* SPDX-License-Identifier: MIT */
/*
 * peers_test.c - the program that compares caches, run for real with what needs no further installation: catalogd,
 * and a cache whose packages are not there. It measures for real with LONG=1.
 */
#include "load/base/proc.h"
#include "tests/support/files.h"
#include "tests/support/test.h"

#include <jansson.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUN_LIMIT_MS = 100000, OUTPUT_BYTES = 65536, WORDS_MAX = 16 };

struct run {
    char folder[PROC_PATH_BYTES];
    char json_path[PROC_PATH_BYTES + 16];
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
static void run_peers(struct run *run, ...)
{
    char program[512], output[PROC_PATH_BYTES + 16];
    const char *argv[WORDS_MAX + 1] = {program};
    static const char *const settings[] = {"PEERS_NODE=/nonexistent", NULL};
    va_list words;
    size_t count = 1;
    find_program(program, sizeof program);
    assert_true(proc_folder("peers", NULL, run->folder));
    snprintf(run->json_path, sizeof run->json_path, "%s/json", run->folder);
    snprintf(output, sizeof output, "%s/output", run->folder);
    va_start(words, run);
    while (count < WORDS_MAX && (argv[count] = va_arg(words, const char *)) != NULL) {
        if (strcmp(argv[count], "--json") == 0)
            argv[++count] = run->json_path;
        count++;
    }
    va_end(words);
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

static const json_t *element_named(const json_t *array, const char *key, const char *name)
{
    size_t index;
    const json_t *element;
    json_array_foreach(array, index, element)
    {
        if (strcmp(json_string_value(json_object_get(element, key)), name) == 0)
            return element;
    }
    return NULL;
}

static const json_t *score_of(const json_t *report, const char *contest, const char *peer)
{
    const json_t *about = element_named(json_object_get(report, "contests"), "name", contest);
    const json_t *score = element_named(json_object_get(about, "scores"), "peer", peer);
    assert_non_null(score);
    return score;
}

static double median_of(const json_t *score, const char *figure)
{
    const json_t *about = json_object_get(json_object_get(score, "figures"), figure);
    assert_non_null(about);
    return json_number_value(json_object_get(about, "median"));
}

static json_int_t count_of(const json_t *score, const char *key)
{
    return json_integer_value(json_object_get(json_object_get(score, "statuses"), key));
}

static void expect_scores(const struct run *run)
{
    json_error_t error;
    json_t *report = json_load_file(run->json_path, 0, &error);
    assert_non_null(report);
    const json_t *burst = score_of(report, "burst", "catalogd");
    assert_int_equal(json_integer_value(json_object_get(burst, "asked")), 1000);
    assert_int_equal(count_of(burst, "200"), 1000);
    assert_true(median_of(burst, "origin_calls") == 1);
    assert_true(median_of(burst, "max_ms") >= 100); /* the first one waits for all of the query */
    const json_t *rolling = score_of(report, "rolling", "catalogd");
    assert_int_equal(json_integer_value(json_object_get(rolling, "asked")), 4000);
    assert_int_equal(count_of(rolling, "200"), 4000);
    assert_true(median_of(rolling, "origin_calls") >= 1);
    assert_true(median_of(rolling, "origin_calls_per_expiry") == 1);
    const json_t *absent = element_named(json_object_get(report, "peers"), "name", "bentocache");
    assert_non_null(json_object_get(absent, "not_run"));
    assert_null(
        json_object_get(element_named(json_object_get(report, "peers"), "name", "catalogd"), "not_run"));
    json_decref(report);
}

TEST(a_cache_that_is_not_installed_is_reported_and_the_others_are_measured)
{
    static struct run run;
    test_needs_long();
    run_peers(&run, "bentocache", "catalogd", "burst", "rolling", "--repetitions", "1", "--seconds", "2",
              "--json", NULL);
    expect_status(&run, 0);
    expect_text(&run, "bentocache: not run: ");
    expect_text(&run, "origin calls per expiry");
    expect_scores(&run);
    run_clear(&run);
}

/* ---- wrong calls ---- */

TEST(a_name_that_is_none_is_refused_with_those_that_are)
{
    static struct run run;
    run_peers(&run, "squid", NULL);
    expect_status(&run, 2);
    expect_text(&run, "squid is none of these");
    expect_text(&run, "catalogd nginx varnish bentocache dedupe dogpile memcached guide");
    expect_text(&run, "burst rolling hits");
    run_clear(&run);
}
