/* SPDX-License-Identifier: MIT */
/*
 * formats_test.c - the other formats of a report, read by those who read them: Python's XML and GitHub's
 * Markdown. formats_test.py says what they found.
 */
#include "load/base/proc.h"
#include "load/report/format.h"
#include "load/report/result_text.h"
#include "tests/support/sample.h"
#include "tests/support/test.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { SAID_BYTES = 65536, COMMAND_BYTES = 2048 };

static char folder[PROC_PATH_BYTES], said[SAID_BYTES], why[RESULT_WHY_BYTES];
static struct report report;

static bool make_folder(void)
{
    return proc_folder("formats-test", NULL, folder);
}

static bool remove_folder(void)
{
    proc_remove(folder);
    return true;
}

static bool clear(void)
{
    report_clear(&report);
    return true;
}

static void run(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void run(const char *format, ...)
{
    char command[COMMAND_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    said[0] = '\0';
    if (!proc_output(command, said, sizeof said))
        fail_msg("%s: %s", command, said);
}

static void write_all(void)
{
    for (size_t i = FORMAT_JUNIT; i < FORMATS; i++) {
        char path[PROC_PATH_BYTES + 32];
        snprintf(path, sizeof path, "%s/report.%s", folder, formats[i].ending);
        if (!format_write((enum report_format)i, &report, path, why))
            fail_msg("%s", why);
    }
}

/* What they say of all formats is in `said`. */
static void read_all(void)
{
    write_all();
    run("cmark-gfm -e table --unsafe '%s/report.md' >'%s/report.html' && /usr/bin/python3 "
        "tests/live/tester/formats_test.py '%s'",
        folder, folder, folder);
}

static void expect_line(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void expect_line(const char *format, ...)
{
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    int bytes = vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    snprintf(line + bytes, sizeof line - (size_t)bytes, "\n");
    const char *at = strstr(said, line);
    if (at == NULL || (at != said && at[-1] != '\n'))
        fail_msg("no line \"%s\" in:\n%s", line, said);
}

TEST(every_reader_finds_the_same_figures)
{
    char queries[3][TEXT_NUMBER_BYTES];
    size_t checks = 0;
    sample_burst_report(&report);
    read_all();
    for (size_t i = 0; i < report.result_count; i++) {
        const struct result *result = report.results[i];
        checks += result->check_count;
        expect_line("suite %s %zu 0 0", result->name, result->check_count);
        text_count(queries[i], result->loads);
    }
    expect_line("junit %s %zu 0 0", report.title, checks);
    expect_line("summary 4 columns off, local, fleet");
    expect_line("summary queries %s %s %s", queries[0], queries[1], queries[2]);
    expect_line("summary says %s", report.title);
}

TEST(what_did_not_hold_and_what_was_interrupted_is_a_failure_and_an_error)
{
    sample_rate_report(&report);
    struct result *result = report.results[0];
    result->check_count = 1;
    result->checks[0].held = false;
    report.results[1]->is_partial = true;
    report.results[1]->check_count = 0;
    read_all();
    expect_line("suite %s 1 1 0", result->name);
    expect_line("failure %s | %s", result->checks[0].text, result->checks[0].measured);
    expect_line("suite %s 1 0 1", report.results[1]->name);
}

/* A name may hold what each format makes something of. */
TEST(foreign_texts_stay_texts)
{
    static const char nasty[] = "a,\"b\" <script> & 'c' | `d` *e* [f](g) \\ {h=\"i\"} \xc3\xa4 # !";
    sample_burst_report(&report);
    struct result *result = report.results[0];
    snprintf(report.title, sizeof report.title, "%s", nasty);
    snprintf(result->name, sizeof result->name, "%s", nasty);
    snprintf(result->checks[0].text, sizeof result->checks[0].text, "%s", nasty);
    snprintf(result->checks[0].measured, sizeof result->checks[0].measured, "%s", nasty);
    snprintf(result->connecting, sizeof result->connecting, "%s", nasty);
    result->checks[0].held = false;
    read_all();
    expect_line("suite %s %zu 1 0", nasty, result->check_count);
    expect_line("failure %s | %s", nasty, nasty);
    expect_line("summary 4 columns %s, local, fleet", nasty);
    expect_line("summary says %s", nasty);
    expect_line("summary tags blockquote h3 li p strong table tbody td th thead tr ul");
}

TEST(a_file_is_there_as_a_whole_or_not_at_all)
{
    sample_burst_report(&report);
    for (size_t i = 0; i < FORMATS; i++) {
        assert_false(format_write((enum report_format)i, &report, "/nowhere/at-all", why));
        assert_non_null(strstr(why, "/nowhere/at-all: cannot be written"));
        assert_false(format_write((enum report_format)i, &report, "/dev/full", why));
    }
}

TEST(summaries_of_several_runs_stand_one_after_the_other)
{
    char path[PROC_PATH_BYTES + 32];
    snprintf(path, sizeof path, "%s/steps.md", folder);
    sample_burst_report(&report);
    assert_true(format_append_summary(&report, path, why));
    assert_true(format_append_summary(&report, path, why));
    run("cmark-gfm -e table '%s' | grep -c '<h3>\\|<table>'", path);
    assert_string_equal(said, "4\n");
    assert_false(format_append_summary(&report, "/nowhere/steps", why));
    assert_non_null(strstr(why, "/nowhere/steps: the summary cannot be appended"));
}

TEST_GROUP(.up = make_folder, .down = remove_folder, .after = clear);
