/* SPDX-License-Identifier: MIT */
/*
 * stampede.c - the stampede tester: main() and its commands. See options.h.
 *
 *     scenario.h      what a run consists of, whether from a file or from options
 *     run.h           servers, variants, report; one run
 *     work.h, herd.h  the clients; witness.h the database's view; result.h, format.h the report
 */
#include "load/base/home.h"
#include "load/base/interrupt.h"
#include "load/base/proc.h"
#include "load/base/progress.h"
#include "load/ground/serve.h"
#include "load/play/options.h"
#include "load/play/run.h"
#include "load/play/spy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef STAMPEDE_VERSION /* the build says it */
#define STAMPEDE_VERSION "of no release"
#endif

enum { BAD_USAGE = SCENARIO_BAD_USAGE, COMMAND_BYTES = 512, PATH_BYTES = HOME_PATH_BYTES };

static char command_line[COMMAND_BYTES]; /* as the shell would have it again */

/* ---- the command line, again ---- */

static bool is_plain(const char *word)
{
    return word[0] != '\0' &&
           word[strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789%+,-./:=@_")] ==
               '\0';
}

static size_t append(size_t used, const char *text)
{
    if (used < sizeof command_line)
        used += (size_t)snprintf(command_line + used, sizeof command_line - used, "%s", text);
    return used;
}

/* What is between the two is left out. */
static void cut_out(char *word, const char *from, const char *until)
{
    char rest[COMMAND_BYTES];
    snprintf(rest, sizeof rest, "...%s", until);
    snprintf(word + (from - word), COMMAND_BYTES - (size_t)(from - word), "%s", rest);
}

/* What must not land in a report: passwords of URLs and of connection strings, headers that are credentials. */
static void hide_secrets(char word[static COMMAND_BYTES])
{
    static const char *const headers[] = {"Authorization:", "Proxy-Authorization:", "Cookie:", "X-Api-Key:"};
    char *scheme = strstr(word, "://"), *password = strcasestr(word, "password=");
    char *authority = scheme != NULL ? scheme + 3 : word;
    char *end = authority + strcspn(authority, "/?"), *colon = strchr(authority, ':');
    char *at = scheme != NULL ? memrchr(authority, '@', (size_t)(end - authority)) : NULL;
    if (password != NULL) {
        password += strlen("password=");
        cut_out(word, password, password + (*password == '\'' ? strlen(password) : strcspn(password, " &")));
    }
    if (at != NULL && colon != NULL && colon < at)
        cut_out(word, colon + 1, at);
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        if (strncasecmp(word, headers[i], strlen(headers[i])) == 0)
            cut_out(word, word + strlen(headers[i]), "");
    }
}

static size_t append_word(size_t used, const char *given)
{
    char word[COMMAND_BYTES];
    snprintf(word, sizeof word, "%s", given);
    hide_secrets(word);
    used = append(used, is_plain(word) ? "" : "'");
    used = append(used, word);
    return append(used, is_plain(word) ? "" : "'");
}

static void keep_command_line(int argc, char **argv)
{
    size_t used = append(0, "build/stampede");
    for (int i = 1; i < argc; i++) {
        used = append(used, " ");
        used = append_word(used, argv[i]);
    }
}

/* ---- scenarios ---- */

/* A plain name is one of ours, wherever we are. False: it said why. */
static bool find_file(const char *given, char path[static PATH_BYTES])
{
    char name[PATH_BYTES / 2];
    snprintf(path, PATH_BYTES, "%s", given);
    if (access(path, F_OK) == 0 || strchr(given, '/') != NULL)
        return true; /* scenario_read() says what is wrong with it */
    if (!home_is_found())
        return false;
    snprintf(name, sizeof name, "load/scenarios/%.128s.scenario", given);
    if (access(home_path(name, path), F_OK) == 0)
        return true;
    fprintf(stderr, "stampede: %s: neither a file nor one of the scenarios in %s\n", given,
            home_path("load/scenarios", path));
    return false;
}

static bool make_folder(const char *path)
{
    if (path == NULL || mkdir(path, 0777) == 0 || errno == EEXIST)
        return true;
    fprintf(stderr, "stampede: %s: the folder cannot be made: %s\n", path, strerror(errno));
    return false;
}

/* ---- where reports go ---- */

struct places {
    char paths[FORMATS][PATH_BYTES];
};

/* A result's name, as a file may be called. */
static void name_file(const char *name, char out[static PATH_BYTES / 2])
{
    snprintf(out, PATH_BYTES / 2, "%s", name);
    for (char *at = out; *at != '\0'; at++) {
        if (strchr("/\\ \t", *at) != NULL)
            *at = '_';
    }
}

static void place_in(const char *folder, const char *name, enum report_format format, struct places *places,
                     struct scenario_outputs *outputs)
{
    char file[PATH_BYTES / 2];
    name_file(name, file);
    snprintf(places->paths[format], PATH_BYTES, "%.*s/%s.%s", PATH_BYTES / 2 - 16, folder, file,
             formats[format].ending);
    outputs->paths[format] = places->paths[format];
}

/* Each in its own place, or in the folder of all. `are_folders`: what is named is one for each. */
static void place_outputs(const struct options *options, const char *name, bool are_folders,
                          struct places *places, struct scenario_outputs *outputs)
{
    for (size_t i = 0; i < FORMATS; i++) {
        const char *given = options->outputs[i];
        if (given != NULL && !are_folders)
            outputs->paths[i] = given;
        else if (given != NULL || options->out != NULL)
            place_in(given != NULL ? given : options->out, name, (enum report_format)i, places, outputs);
    }
}

static bool make_folders(const struct options *options, bool are_folders)
{
    bool good = make_folder(options->out);
    for (size_t i = 0; are_folders && good && i < FORMATS; i++)
        good = make_folder(options->outputs[i]);
    return good;
}

static void make_command(const char *file, const struct options *options)
{
    size_t used = append(0, "build/stampede scenario ");
    used = append_word(used, file);
    for (size_t i = 0; i < options->set_count; i++) {
        char set[PATH_BYTES];
        snprintf(set, sizeof set, "%s=%s", options->sets[i].name, options->sets[i].value);
        used = append(used, " --set ");
        used = append_word(used, set);
    }
}

static enum scenario_end run_file(const struct scenario *scenario, const struct options *options)
{
    struct places places;
    struct scenario_outputs outputs = {.command = command_line};
    make_command(scenario->path, options);
    place_outputs(options, scenario->name, true, &places, &outputs);
    return scenario_run(scenario, &outputs);
}

static const char *describe(enum scenario_end end)
{
    switch (end) {
    case SCENARIO_HELD:
        return "held";
    case SCENARIO_DID_NOT_HOLD:
        return "DID NOT HOLD";
    case SCENARIO_BAD_USAGE:
    case SCENARIO_NOT_RUN:
        return "COULD NOT RUN";
    case SCENARIO_ENDED_EARLY:
        return "ended early";
    }
    return "";
}

static int run_all(struct scenario *const *scenarios, size_t count, const struct options *options)
{
    enum scenario_end worst = SCENARIO_HELD, *ends = calloc(count, sizeof *ends);
    size_t done = 0;
    if (ends == NULL)
        return SCENARIO_NOT_RUN;
    for (; done < count && worst != SCENARIO_ENDED_EARLY; done++) {
        ends[done] = run_file(scenarios[done], options);
        worst = ends[done] > worst ? ends[done] : worst;
    }
    if (count > 1)
        printf("\n");
    for (size_t i = 0; count > 1 && i < done; i++)
        printf("%-28s %s\n", scenarios[i]->name, describe(ends[i]));
    free(ends);
    return (int)worst;
}

/* All files are read before anything is started. */
static int run_scenarios(const struct options *options)
{
    size_t count = 0;
    int status = BAD_USAGE;
    struct scenario **scenarios = calloc(options->file_count, sizeof *scenarios);
    for (size_t i = 0; scenarios != NULL && i < options->file_count; i++) {
        char path[PATH_BYTES];
        count += find_file(options->files[i], path) &&
                 scenario_read(path, options->sets, options->set_count, stderr, &scenarios[count]);
    }
    if (count == options->file_count)
        status = make_folders(options, true) ? run_all(scenarios, count, options) : SCENARIO_NOT_RUN;
    for (size_t i = 0; i < count; i++)
        scenario_free(&scenarios[i]);
    free(scenarios);
    return status;
}

static int demo(const struct options *options)
{
    char scale[16], requests[16], delay[16];
    char file[PATH_BYTES], json[PATH_BYTES], html[PATH_BYTES];
    struct scenario *scenario = NULL;
    if (!home_is_found())
        return BAD_USAGE;
    snprintf(scale, sizeof scale, "%u", (unsigned)options->scale);
    snprintf(requests, sizeof requests, "%u", (unsigned)options->requests);
    snprintf(delay, sizeof delay, "%u", (unsigned)options->delay_ms);
    const struct scenario_set sets[] = {{"PRODUCTS", scale}, {"REQUESTS", requests}, {"DELAY_MS", delay}};
    if (!scenario_read(home_path("load/scenarios/demo.scenario", file), sets, sizeof sets / sizeof *sets,
                       stderr, &scenario))
        return BAD_USAGE;
    const struct scenario_outputs outputs = {
        .paths = {[FORMAT_JSON] = options->outputs[FORMAT_JSON] != NULL ? options->outputs[FORMAT_JSON]
                                                                        : home_output("demo.json", json),
                  [FORMAT_HTML] = options->outputs[FORMAT_HTML] != NULL ? options->outputs[FORMAT_HTML]
                                                                        : home_output("demo.html", html)},
        .is_brief = !options->shows_table,
        .command = command_line};
    if (outputs.is_brief && !options->is_quiet)
        progress_style(PROGRESS_BRIEF);
    int status = (int)scenario_run(scenario, &outputs);
    if (outputs.is_brief && status != SCENARIO_NOT_RUN)
        printf("table stampede report %s\n", outputs.paths[FORMAT_JSON]);
    scenario_free(&scenario);
    return status;
}

/* ---- reports ---- */

/* "folder/cold-burst.json" is of "cold-burst". */
static void name_of_report(const char *path, char name[static PATH_BYTES / 2])
{
    const char *slash = strrchr(path, '/');
    snprintf(name, PATH_BYTES / 2, "%s", slash != NULL ? slash + 1 : path);
    char *ending = strrchr(name, '.');
    if (ending != NULL && ending != name)
        *ending = '\0';
}

static int show_report(const struct options *options)
{
    static struct report report; /* large; {0} is empty */
    char why[RESULT_WHY_BYTES], name[PATH_BYTES / 2];
    struct places places;
    struct scenario_outputs outputs = {.command = ""};
    bool is_shown = true;
    if (!report_read(&report, options->files[0], why)) {
        fprintf(stderr, "stampede: %s\n", why);
        return BAD_USAGE;
    }
    int status = report_held(&report) ? SCENARIO_HELD : SCENARIO_DID_NOT_HOLD;
    name_of_report(options->files[0], name);
    place_outputs(options, name, false, &places, &outputs);
    for (size_t i = 0; i < FORMATS; i++)
        is_shown = is_shown && outputs.paths[i] == NULL;
    if (is_shown)
        report_table(&report, stdout, isatty(STDOUT_FILENO) == 1);
    else if (!make_folders(options, false) || !scenario_write_report(&report, &outputs))
        status = SCENARIO_NOT_RUN;
    report_clear(&report);
    return status;
}

/* A result of now takes the name of the earlier one that it is compared with. */
static bool rename_result(const struct report *now, const struct report *earlier, const char *const *files,
                          const struct scenario_set *as)
{
    char names[RESULT_WHY_BYTES];
    struct result *result = report_find(now, as->name);
    bool is_there = report_find(earlier, as->value) != NULL;
    if (result != NULL && is_there) {
        snprintf(result->name, sizeof result->name, "%s", as->value);
        return true;
    }
    fprintf(stderr, "stampede: --as %s=%s: %s has no result called \"%s\", it has: %s\n", as->name, as->value,
            files[result != NULL ? 0 : 1], result != NULL ? as->value : as->name,
            report_names(result != NULL ? earlier : now, names));
    return false;
}

static bool match_names(const struct report *now, const struct report *earlier, const struct options *options)
{
    char names[RESULT_WHY_BYTES];
    const char *const files[] = {options->files[0], options->files[1]};
    for (size_t i = 0; i < options->set_count; i++) {
        if (!rename_result(now, earlier, files, &options->sets[i]))
            return false;
    }
    for (size_t i = 0; i < now->result_count; i++) {
        if (report_find(earlier, now->results[i]->name) != NULL)
            return true;
    }
    fprintf(stderr, "stampede: results are compared by name, and these have none in common\n");
    fprintf(stderr, "  %s has: %s\n", files[0], report_names(earlier, names));
    fprintf(stderr, "  %s has: %s\n", files[1], report_names(now, names));
    if (now->result_count > 0 && earlier->result_count > 0)
        fprintf(stderr, "  say which belong together: --as '%s=%s'\n", now->results[0]->name,
                earlier->results[0]->name);
    return false;
}

static int compare(const struct options *options)
{
    static struct report earlier, now;
    char why[RESULT_WHY_BYTES];
    int status = BAD_USAGE;
    if (!report_read(&earlier, options->files[0], why) || !report_read(&now, options->files[1], why))
        fprintf(stderr, "stampede: %s\n", why);
    else if (match_names(&now, &earlier, options))
        status = (int)report_compare(&now, &earlier, options->allows_different, stdout);
    report_clear(&earlier);
    report_clear(&now);
    return status;
}

/* ---- main ---- */

static int run(const struct options *options)
{
    struct places places;
    struct scenario_outputs outputs = {.baseline_path = options->baseline,
                                       .allows_different = options->allows_different,
                                       .command = command_line};
    place_outputs(options, options->scenario->name, false, &places, &outputs);
    return make_folders(options, false) ? (int)scenario_run(options->scenario, &outputs) : SCENARIO_NOT_RUN;
}

static int carry_out(const struct options *options)
{
    if (options->is_quiet)
        progress_style(PROGRESS_QUIET);
    switch (options->command) {
    case OPTIONS_RUN:
        interrupt_catch();
        return run(options);
    case OPTIONS_SCENARIO:
        interrupt_catch();
        return run_scenarios(options);
    case OPTIONS_DEMO:
        interrupt_catch();
        return demo(options);
    case OPTIONS_SERVE:
        proc_clean_on_signals();
        return home_is_found() ? serve(options->scale, options->port) : BAD_USAGE;
    case OPTIONS_PROXY:
        interrupt_catch();
        return spy_run(options->files[0], options->files[1], options->log);
    case OPTIONS_REPORT:
        return show_report(options);
    case OPTIONS_COMPARE:
        return compare(options);
    case OPTIONS_VERSION:
        printf("stampede %s\n", STAMPEDE_VERSION);
        break;
    case OPTIONS_HELP:
        break;
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct options options;
    proc_begin();
    keep_command_line(argc, argv);
    int status = options_read(argc, argv, &options) ? carry_out(&options) : BAD_USAGE;
    options_clear(&options);
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    fprintf(stderr, "stampede: the report is incomplete: stdout cannot be written: %s\n", strerror(errno));
    return status == SCENARIO_HELD ? SCENARIO_NOT_RUN : status;
}
