/* SPDX-License-Identifier: MIT */
/* scenario_run.c - see run.h. */

#include "load/base/interrupt.h"
#include "load/base/progress.h"
#include "load/play/run.h"
#include "load/play/scenario.h"
#include "load/play/servers.h"
#include "load/report/format.h"
#include "load/stack/stack.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(REPORT_RESULTS_MAX == 16, "as in the text");
_Static_assert(sizeof((struct report *)0)->machine == MACHINE_BYTES, "a description fits");

/* ---- variants ---- */

/* Does anything that happens reach what the next variant would find? */
static bool touches_servers(const struct scenario *scenario)
{
    for (size_t i = 0; i < scenario->event_count; i++) {
        const struct scenario_action *action = &scenario->events[i].action;
        bool is_of_processes = action->party == SCENARIO_CATALOGD || action->party == SCENARIO_LEADER;
        if ((action->party != SCENARIO_NOBODY && !is_of_processes) || action->verb == SCENARIO_SQL ||
            action->verb == SCENARIO_RUN)
            return true;
    }
    return scenario->write_count > 0;
}

static bool add_result(struct report *report, struct result *result)
{
    if (result == NULL || report_add(report, result))
        return true;
    result_clear(result);
    free(result);
    fprintf(stderr, "stampede: a report holds at most 16 results: run fewer variants at once\n");
    return false;
}

static enum scenario_end run_variant(struct servers *servers, const char *variant, struct report *report)
{
    char why[SCENARIO_WHY_BYTES] = "";
    struct result *result = NULL;
    const char *name = variant[0] != '\0' ? variant : servers->scenario->name;
    if (!servers_start_variant(servers, variant))
        return interrupt_seen() ? SCENARIO_ENDED_EARLY : SCENARIO_NOT_RUN;
    if (report->machine[0] == '\0')
        machine_describe(servers->scenario->process_count > 0 ? servers_redis(servers) : NULL,
                         servers_database(servers), report->machine);
    enum run_end end = run_once(servers, variant, name, &result, why);
    servers_stop_variant(servers);
    if (end == RUN_FAILED || end == RUN_REFUSED)
        fprintf(stderr, "stampede: %s\n", why);
    if (end == RUN_REFUSED)
        return SCENARIO_BAD_USAGE;
    if (!add_result(report, result) || end == RUN_FAILED)
        return SCENARIO_NOT_RUN;
    return end == RUN_INTERRUPTED ? SCENARIO_ENDED_EARLY : SCENARIO_HELD;
}

static enum scenario_end run_variants(const struct scenario *scenario, struct report *report)
{
    static struct servers servers; /* large; there is one at a time */
    size_t count = scenario->variant_count > 0 ? scenario->variant_count : 1;
    bool are_new_each_time = touches_servers(scenario);
    enum scenario_end end = SCENARIO_HELD;
    for (size_t i = 0; i < count && end == SCENARIO_HELD; i++) {
        bool opens = i == 0 || are_new_each_time;
        if (opens && i > 0)
            servers_close(&servers);
        if (opens && !servers_open(&servers, scenario))
            end = interrupt_seen() ? SCENARIO_ENDED_EARLY : SCENARIO_NOT_RUN;
        else if (interrupt_seen())
            end = SCENARIO_ENDED_EARLY;
        else
            end = run_variant(&servers, scenario->variant_count > 0 ? scenario->variants[i] : "", report);
    }
    servers_close(&servers);
    return end;
}

/* ---- the report ---- */

static struct report baseline; /* large; {0} is empty */

/* The file comes last: find out whether it can be written before an hour is spent on its contents. */
static bool can_write(const char *path)
{
    struct result_file file;
    char why[RESULT_WHY_BYTES];
    struct stat there;
    if (path == NULL || (stat(path, &there) == 0 && !S_ISREG(there.st_mode)))
        return true;
    if (result_file_open(&file, path, why)) {
        result_file_close(&file, false, why);
        return true;
    }
    fprintf(stderr, "stampede: %s\n", why);
    return false;
}

/* Nobody shall measure for an hour and then hear that there is nothing to compare it with. */
static enum scenario_end check_baseline(const struct scenario *scenario,
                                        const struct scenario_outputs *outputs)
{
    static struct result planned; /* large */
    char why[RESULT_WHY_BYTES];
    const char *path = outputs->baseline_path;
    if (!report_read(&baseline, path, why)) {
        fprintf(stderr, "stampede: %s\n", why);
        return SCENARIO_NOT_RUN;
    }
    const struct result *earlier = report_find(&baseline, scenario->name);
    if (earlier == NULL) {
        fprintf(stderr,
                "stampede: --baseline %s: it has no result called \"%s\", it has: %s; give this run one "
                "of these names\n",
                path, scenario->name, report_names(&baseline, why));
        return SCENARIO_BAD_USAGE;
    }
    planned.setting_count = settings_list(scenario, &scenario->work, planned.settings);
    if (outputs->allows_different || report_print_differences(&planned, earlier, stderr) == 0)
        return SCENARIO_HELD;
    fprintf(stderr,
            "stampede: --baseline %s: not comparable: it had other settings; --allow-different compares all "
            "the same\n",
            path);
    return SCENARIO_BAD_USAGE;
}

static enum scenario_end check_outputs(const struct scenario *scenario,
                                       const struct scenario_outputs *outputs)
{
    for (size_t i = 0; i < FORMATS; i++) {
        if (!can_write(outputs->paths[i]))
            return SCENARIO_NOT_RUN;
    }
    return outputs->baseline_path != NULL ? check_baseline(scenario, outputs) : SCENARIO_HELD;
}

bool scenario_write_report(const struct report *report, const struct scenario_outputs *outputs)
{
    char why[RESULT_WHY_BYTES];
    bool good = true;
    for (size_t i = 0; i < FORMATS; i++) {
        bool is_told = !outputs->is_brief || i == FORMAT_HTML;
        if (outputs->paths[i] == NULL)
            continue;
        if (!format_write((enum report_format)i, report, outputs->paths[i], why)) {
            fprintf(stderr, "stampede: %s\n", why);
            good = false;
        } else if (is_told) {
            printf("%s  %s\n", formats[i].title, outputs->paths[i]);
        }
    }
    return good;
}

/* Of a job of GitHub's; its runs share it. */
static bool append_summary(const struct report *report)
{
    char why[RESULT_WHY_BYTES];
    const char *path = getenv("GITHUB_STEP_SUMMARY");
    if (path == NULL || path[0] == '\0' || format_append_summary(report, path, why))
        return true;
    fprintf(stderr, "stampede: %s\n", why);
    return false;
}

static enum scenario_end compare(const struct report *report, const struct scenario_outputs *outputs)
{
    if (outputs->baseline_path == NULL)
        return SCENARIO_HELD;
    printf("\n");
    return (enum scenario_end)report_compare(report, &baseline, outputs->allows_different, stdout);
}

/* The report is shown in any case; what went wrong first decides. */
static enum scenario_end show_report(const struct report *report, const struct scenario_outputs *outputs,
                                     enum scenario_end end)
{
    progress_clear();
    if (outputs->is_brief)
        report_brief(report, stdout);
    else
        report_table(report, stdout, isatty(STDOUT_FILENO) == 1);
    enum scenario_end compared = end == SCENARIO_HELD ? compare(report, outputs) : SCENARIO_HELD;
    bool is_written = scenario_write_report(report, outputs);
    is_written = append_summary(report) && is_written;
    fflush(stdout);
    if (end != SCENARIO_HELD)
        return end;
    if (!is_written)
        return SCENARIO_NOT_RUN;
    return report_held(report) ? compared : SCENARIO_DID_NOT_HOLD;
}

enum scenario_end scenario_run(const struct scenario *scenario, const struct scenario_outputs *outputs)
{
    enum scenario_end end = check_outputs(scenario, outputs);
    if (end != SCENARIO_HELD)
        return end;
    struct report *report = calloc(1, sizeof *report);
    if (report == NULL) {
        fprintf(stderr, "stampede: no memory\n");
        return SCENARIO_NOT_RUN;
    }
    snprintf(report->title, sizeof report->title, "%s", scenario->title);
    snprintf(report->about, sizeof report->about, "%s", scenario->about);
    snprintf(report->command, sizeof report->command, "%s", outputs->command);
    progress_title(scenario->title);
    end = run_variants(scenario, report);
    if (report->result_count > 0)
        end = show_report(report, outputs, end);
    report_clear(&baseline);
    report_clear(report);
    free(report);
    return end;
}
