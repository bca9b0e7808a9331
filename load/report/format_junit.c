/* SPDX-License-Identifier: MIT */
/*
 * format_junit.c - a report as JUnit XML, as CI systems read it: a suite for each result, a case for each check. The
 * time is the suite's: a check has none of its own. A result that was interrupted has an error instead of checks.
 */
#include "load/report/format.h"

#include <inttypes.h>
#include <string.h>

/* Texts of a report are UTF-8 without control characters; two characters more are none of XML 1.0. */
static void print_text(const char *text, FILE *out)
{
    for (; *text != '\0'; text++) {
        if (strncmp(text, "\xef\xbf\xbe", 3) == 0 || strncmp(text, "\xef\xbf\xbf", 3) == 0) {
            fputc('?', out);
            text += 2;
        } else if (strchr("&<>\"'\n", *text) != NULL) {
            fprintf(out, "&#%d;", *text);
        } else {
            fputc(*text, out);
        }
    }
}

static void print_attribute(const char *name, const char *text, FILE *out)
{
    fprintf(out, " %s=\"", name);
    print_text(text, out);
    fputc('"', out);
}

static void begin_case(const struct report *report, const struct result *result, const char *name, FILE *out)
{
    char class[2 * RESULT_TEXT_BYTES + 4];
    snprintf(class, sizeof class, "%s.%s", report->title, result->name);
    fputs("    <testcase", out);
    print_attribute("classname", class, out);
    print_attribute("name", name, out);
    fputc('>', out);
}

static void print_case(const struct report *report, const struct result *result,
                       const struct result_check *check, FILE *out)
{
    begin_case(report, result, check->text, out);
    if (!check->held) {
        fputs("<failure", out);
        print_attribute("message", check->measured, out);
        fputs(" type=\"expectation\"/>", out);
    } else {
        fputs("<system-out>", out);
        print_text(check->measured, out);
        fputs("</system-out>", out);
    }
    fputs("</testcase>\n", out);
}

static void print_property(const char *name, const char *value, FILE *out)
{
    if (value[0] == '\0')
        return;
    fputs("      <property", out);
    print_attribute("name", name, out);
    print_attribute("value", value, out);
    fputs("/>\n", out);
}

static void print_suite(const struct report *report, const struct result *result, FILE *out)
{
    char when[sizeof result->when];
    snprintf(when, sizeof when, "%.19s", result->when); /* without its Z: always UTC */
    fputs("  <testsuite", out);
    print_attribute("name", result->name, out);
    fprintf(out, " tests=\"%zu\" failures=\"%zu\" errors=\"%d\" skipped=\"0\" time=\"%.3f\"",
            result->check_count + result->is_partial, result->check_count - result_held(result),
            result->is_partial, result->duration_ms / 1e3);
    print_attribute("timestamp", when, out);
    fputs(">\n    <properties>\n", out);
    print_property("what", result->what, out);
    print_property("command", report->command, out);
    print_property("machine", report->machine, out);
    print_property("counting", result->caveat, out);
    fputs("    </properties>\n", out);
    for (size_t i = 0; i < result->check_count; i++)
        print_case(report, result, &result->checks[i], out);
    if (result->is_partial) {
        begin_case(report, result, "runs to its end", out);
        fputs("<error message=\"interrupted\" type=\"interrupted\"/></testcase>\n", out);
    }
    fputs("  </testsuite>\n", out);
}

bool junit_print(const struct report *report, FILE *out)
{
    size_t tests = 0, failures = 0, errors = 0;
    for (size_t i = 0; i < report->result_count; i++) {
        const struct result *result = report->results[i];
        tests += result->check_count + result->is_partial;
        failures += result->check_count - result_held(result);
        errors += result->is_partial;
    }
    fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites", out);
    print_attribute("name", report->title, out);
    fprintf(out, " tests=\"%zu\" failures=\"%zu\" errors=\"%zu\">\n", tests, failures, errors);
    for (size_t i = 0; i < report->result_count; i++)
        print_suite(report, report->results[i], out);
    fputs("</testsuites>\n", out);
    return true;
}
