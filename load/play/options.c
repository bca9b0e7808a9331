/* SPDX-License-Identifier: MIT */
/* options.c - see options.h. Each command's options are one table, which reading, mistakes and --help follow. */
#include "load/play/options.h"

#include "app/common/spelling.h"
#include "load/base/number.h"
#include "load/play/replay.h"
#include "load/report/table.h"

#include <assert.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(OPTIONS_SETS_MAX == 32, "as in the text");

enum { FLAGS_MAX = 64 };
enum { OF_SCENARIO = 255, FIRST_VALUE = 256 }; /* of getopt's: a flag's index is above it */

struct reading {
    struct options options;
    const char *name;
    size_t mistakes;
};

struct flag {
    struct words_help shown;
    void (*take)(struct reading *reading, const struct flag *flag, char *value);
    size_t at;                       /* where it goes, in struct reading */
    uint32_t least, most, otherwise; /* of a number */
};

/* A value in which there may be a password is not repeated. */
static void complain(struct reading *reading, const char *flag, const char *value, const char *why)
{
    if (value != NULL && (strchr(value, '@') != NULL || strcasestr(value, "password") != NULL))
        value = "...";
    reading->mistakes++;
    fprintf(stderr, "stampede: %s%s%s%s%s%s\n", flag != NULL ? "--" : "", flag != NULL ? flag : "",
            flag != NULL && value != NULL ? " " : "", value != NULL ? value : "", flag != NULL ? ": " : "",
            why);
}

static void *place_of(struct reading *reading, const struct flag *flag)
{
    return (char *)reading + flag->at;
}

/* ---- what a flag does with its value ---- */

static void take_text(struct reading *reading, const struct flag *flag, char *value)
{
    *(const char **)place_of(reading, flag) = value;
}

static void take_switch(struct reading *reading, const struct flag *flag, char *value)
{
    (void)value;
    *(bool *)place_of(reading, flag) = true;
}

static void take_number(struct reading *reading, const struct flag *flag, char *value)
{
    char why[80];
    if (number_read(value, flag->least, flag->most, place_of(reading, flag)))
        return;
    snprintf(why, sizeof why, "not a number from %u to %u", (unsigned)flag->least, (unsigned)flag->most);
    complain(reading, flag->shown.name, value, why);
}

static void take_set(struct reading *reading, const struct flag *flag, char *value)
{
    struct options *options = &reading->options;
    char *equals = strchr(value, '=');
    bool is_named = equals != NULL && equals != value;
    if (!is_named || options->set_count == OPTIONS_SETS_MAX) {
        complain(reading, flag->shown.name, value, is_named ? "at most 32 may be given" : "write NAME=VALUE");
        return;
    }
    *equals = '\0';
    options->sets[options->set_count++] = (struct scenario_set){.name = value, .value = equals + 1};
}

/* ---- the tables ---- */

#define AT(member) offsetof(struct reading, member)
#define SWITCH(member) take_switch, .at = AT(member)
#define TEXT(member) take_text, .at = AT(member)
#define OUTPUT(format) TEXT(options.outputs[FORMAT_##format])
#define NUMBER(member, from, to, default)                                                                    \
    take_number, .at = AT(options.member), .least = (from), .most = (to), .otherwise = (default)

/* Of every command that has one report. */
#define OUTPUT_FLAGS                                                                                         \
    {{"junit", "FILE", "JUnit XML: a test case for each expectation"}, OUTPUT(JUNIT)},                       \
        {{"summary", "FILE", "Markdown; it is appended to $GITHUB_STEP_SUMMARY in any case"},                \
         OUTPUT(SUMMARY)},                                                                                   \
    {                                                                                                        \
        {"out", "FOLDER", "all of these, as NAME.json, NAME.html and so on"}, TEXT(options.out)              \
    }

/* Of every command that runs something. */
#define QUIET_FLAG                                                                                           \
    {                                                                                                        \
        {"quiet", NULL, "nothing on stderr while it runs, but what fails"}, SWITCH(options.is_quiet)         \
    }

/* Of every command that compares. */
#define DIFFERENT_FLAG                                                                                       \
    {                                                                                                        \
        {"allow-different", NULL, "compares runs of other settings, too; without it the exit status is 2"},  \
            SWITCH(options.allows_different)                                                                 \
    }

/* Beside what scenario_option() has. */
static const struct flag run_flags[] = {
    {{"name", "TEXT", "of the result, by which reports are compared (default run)"}, TEXT(name)},
    {{"json", "FILE", "the report, for comparing it and showing it again"}, OUTPUT(JSON)},
    {{"html", "FILE", "the report as one page with plots"}, OUTPUT(HTML)},
    OUTPUT_FLAGS,
    {{"baseline", "FILE", "an earlier run's JSON; if anything became worse the exit status is 1"},
     TEXT(options.baseline)},
    DIFFERENT_FLAG,
    QUIET_FLAG,
};

static const struct flag scenario_flags[] = {
    {{"set", "NAME=VALUE", "another value for a let or for a setting of the stack, or only this variant"},
     .take = take_set},
    {{"json", "FOLDER", "a report NAME.json for each scenario"}, OUTPUT(JSON)},
    {{"html", "FOLDER", "a page NAME.html for each scenario"}, OUTPUT(HTML)},
    {{"junit", "FOLDER", "NAME.junit.xml, a test case for each expectation"}, OUTPUT(JUNIT)},
    {{"summary", "FOLDER", "NAME.md; it is appended to $GITHUB_STEP_SUMMARY in any case"}, OUTPUT(SUMMARY)},
    {{"out", "FOLDER", "all of these"}, TEXT(options.out)},
    QUIET_FLAG,
};

static const struct flag compare_flags[] = {
    {{"as", "NOW=EARLIER",
      "compares the result that NOW.json calls NOW with the one that EARLIER.json calls EARLIER; may be "
      "repeated"},
     .take = take_set},
    DIFFERENT_FLAG,
};

static const struct flag report_flags[] = {
    {{"html", "FILE", "one HTML page"}, OUTPUT(HTML)},
    {{"json", "FILE", "the report once more"}, OUTPUT(JSON)},
    OUTPUT_FLAGS,
};

static const struct flag demo_flags[] = {
    {{"scale", "N", "products in the database"}, NUMBER(scale, 100, 99999999, 5000)},
    {{"requests", "N", "sent at the same instant"}, NUMBER(requests, 2, 2000, 1000)},
    {{"delay", "MS", "how long each query takes"}, NUMBER(delay_ms, 0, 10000, 200)},
    {{"json", "FILE", "default build/demo.json"}, OUTPUT(JSON)},
    {{"html", "FILE", "default build/demo.html"}, OUTPUT(HTML)},
    {{"table", NULL, "all figures, not only ten lines"}, SWITCH(options.shows_table)},
    QUIET_FLAG,
};

static const struct flag serve_flags[] = {
    {{"scale", "N", "products in the private database"}, NUMBER(scale, 100, 99999999, 50000)},
    {{"port", "N", "of the page, on 127.0.0.1 (default: a free one)"}, NUMBER(port, 0, 65535, 0)},
};

static const struct flag proxy_flags[] = {
    {{"log", "FILE", "one line for each statement or request that has ended; is appended to"},
     TEXT(options.log)},
};

#define FLAGS(table) table, sizeof(table) / sizeof *(table)

static const struct command {
    const char *name;
    const struct flag *flags;
    size_t flag_count;
    size_t files_least, files_most;
    const char *files_wrong; /* what is said to fewer or more */
    const char *usage;       /* above its options */
    const char *examples;    /* below them */
} commands[] = {
    [OPTIONS_RUN] = {NULL, FLAGS(run_flags), 0, 0,
                     " is neither an option nor a command: scenario, report, compare, demo, serve, proxy",
                     NULL, NULL},
    [OPTIONS_SCENARIO] =
        {"scenario", FLAGS(scenario_flags), 1, SIZE_MAX,
         "write: stampede scenario FILE...; ours are in load/scenarios/",
         "stampede scenario FILE... [OPTIONS]\n\nA FILE may be the plain name of one in load/scenarios/.\n\n",
         "  stampede scenario cold-burst leader-killed --out reports\n"
         "  stampede scenario my.scenario --set TARGET=127.0.0.1:9000 --junit reports\n"},
    [OPTIONS_REPORT] = {"report", FLAGS(report_flags), 1, 1, "write: stampede report FILE.json [OPTIONS]",
                        "stampede report FILE.json [OPTIONS]\n\nShows the table, or writes what is asked "
                        "for. Exit status 1: something in it did not hold.\n\n",
                        "  stampede report now.json\n"
                        "  stampede report now.json --html now.html --junit now.xml\n"},
    [OPTIONS_COMPARE] =
        {"compare", FLAGS(compare_flags), 2, 2, "write: stampede compare EARLIER.json NOW.json",
         "stampede compare EARLIER.json NOW.json [OPTIONS]\n\nResults of the same name are compared. Exit "
         "status 1: something became worse; 2: they had other settings, or nothing\n"
         "could be judged.\n\n",
         "  stampede compare monday.json now.json\n"
         "  stampede compare varnish.json ours.json --as fleet=run\n"},
    [OPTIONS_DEMO] = {"demo", FLAGS(demo_flags), 0, 0, "only options are expected here",
                      "stampede demo [OPTIONS]\n\n",
                      "  stampede demo\n"
                      "  stampede demo --requests 200 --delay 50 --table\n"},
    [OPTIONS_SERVE] = {"serve", FLAGS(serve_flags), 0, 0, "only options are expected here",
                       "stampede serve [OPTIONS]\n\nThe playground: two catalogd over private Redis and "
                       "PostgreSQL, and a page "
                       "to send crowds and break things with.\nIts address is printed; it answers on this "
                       "machine only. Every "
                       "setting of catalogd but the addresses\nmay be in the environment.\n\n",
                       "  stampede serve\n"
                       "  FRESH_MS=5000 stampede serve --scale 1000\n"},
    [OPTIONS_PROXY] =
        {"proxy", FLAGS(proxy_flags), 2, 2,
         "write: stampede proxy postgres|mysql|http LISTEN=ORIGIN --log FILE",
         "stampede proxy postgres|mysql|http LISTEN=ORIGIN --log FILE\n\nA witness for any origin: stands "
         "between "
         "the service and its database or API, both HOST:PORT, and logs what\npasses, with its begin, end "
         "and key. "
         "Then --count log:FILE counts loads by statement or URL (--queries). It cannot\nread encrypted "
         "connections, and says so. Ctrl-C ends it.\n\n",
         "  stampede proxy mysql 127.0.0.1:3307=127.0.0.1:3306 --log statements.json\n"
         "  stampede --url http://127.0.0.1:8080/item/7 --burst 1000 --count log:statements.json --queries "
         "'FROM items'\n"},
    [OPTIONS_HELP] = {"help", NULL, 0, 0, SIZE_MAX, NULL, NULL, NULL},
    [OPTIONS_VERSION] = {"version", NULL, 0, 0, SIZE_MAX, NULL, NULL, NULL},
};

/* ---- help ---- */

static const char head[] =
    "stampede - does your service survive a stampede? Clients, the database's view, faults.\n"
    "\n"
    "  stampede --url URL [OPTIONS]              one run against your service\n"
    "  stampede scenario FILE... [OPTIONS]       what is started, what happens when, what must hold\n"
    "  stampede report FILE.json [OPTIONS]       shows a report again, or writes it as a page, JUnit, "
    "Markdown\n"
    "  stampede compare EARLIER.json NOW.json    what became better or worse\n"
    "  stampede demo                             a cold key: no guard, one per process, one for the fleet\n"
    "  stampede serve                            the playground: a page to send crowds and break things "
    "with\n"
    "  stampede proxy PROTOCOL LISTEN=ORIGIN     a witness for any origin: MySQL, HTTP, PostgreSQL without "
    "its log\n"
    "  stampede COMMAND --help, stampede --version\n"
    "\n"
    "Times: 250ms, 1.5s, 2m. Exit status: 0 everything held; 1 something did not; 2 wrong options or "
    "scenario file;\n"
    "3 could not run (servers, target); 130 stopped by Ctrl-C; the report covers the run until then.\n";

static const char examples[] =
    "\nExamples:\n"
    "  stampede --url http://127.0.0.1:8080/products/7 --burst 2000\n"
    "  stampede --target 127.0.0.1:8080 --target 127.0.0.1:8082 --url '/products/{zipf:1-50000}' \\\n"
    "      --rate 3000 --for 30s --json now.json --html now.html --baseline earlier.json\n"
    "  stampede --target 127.0.0.1:8080 --replay access.log --speed 2x --out reports\n"
    "  stampede --url http://127.0.0.1:8080/item/7 --burst 1000 --rounds 5 --every 2s --ttl 1s \\\n"
    "      --database postgresql://localhost/shop --queries 'FROM items' \\\n"
    "      --count log:/var/log/postgresql/postgresql-15-main.log \\\n"
    "      --redis redis://127.0.0.1:6379/0 --expect 'loads per expiry <= 1' --expect 'p99 <= 300ms'\n"
    "  stampede scenario load/scenarios/leader-killed.scenario --html build\n";

enum { HELP_COLUMNS = 108, HELP_INDENT = 28 };

static const char language[] = "\n"
                               "Each line of a FILE begins with one of the words below. # begins a comment, "
                               "a backslash at the end joins a line\n"
                               "with the next, and \"...\" keeps words together. "
                               "The title and the about lines are in the report, comments are not.\n"
                               "Times: 250ms, 1.5s, 2m.\n"
                               "\n";

static const char actions[] = "\nWhat can happen with \"at\" and \"on load\", one after the other:\n\n";

static const char figures[] = "\nWhat can be expected. A VALUE is a time for latencies, a number or a share "
                              "(99.5%) of the requests for requests,\n"
                              "and otherwise a number:\n\n";

static const char parts[] =
    "\nPART, for requests and latencies: status N, url N (as numbered in the file, from 1).\n"
    "OPERATOR: < <= = >= >. A window counts from the start; a request belongs to "
    "where it was due, a load to where\n"
    "it began. Expiries, Redis commands, stale answers and answered per second are "
    "of the whole run, without a window.\n"
    "What was not measured does not hold.\n";

/* "  --limit TIME", and what it means beside it; below it where there is no room. */
static void print_entry(const char *dashes, const struct words_help *shown, const char *help, FILE *out)
{
    char left[128];
    int bytes =
        snprintf(left, sizeof left, "  %s%s%s%s", dashes, shown->name, shown->arguments != NULL ? " " : "",
                 shown->arguments != NULL ? shown->arguments : "");
    if (bytes + 1 >= HELP_INDENT)
        fprintf(out, "%s\n%*s", left, HELP_INDENT, "");
    else
        fprintf(out, "%-*s", HELP_INDENT, left);
    table_words(out, help, HELP_COLUMNS, HELP_INDENT, HELP_INDENT);
}

static void print_flags(const struct command *command, FILE *out)
{
    struct words_help option;
    for (size_t i = 0; command == &commands[OPTIONS_RUN] && scenario_option(i, &option); i++)
        print_entry("--", &option, option.help, out);
    for (size_t i = 0; i < command->flag_count; i++) {
        char text[120];
        const struct flag *flag = &command->flags[i];
        snprintf(text, sizeof text, flag->otherwise > 0 ? "%s (default %u)" : "%s", flag->shown.help,
                 (unsigned)flag->otherwise);
        print_entry("--", &flag->shown, text, out);
    }
}

static void print_words(const char *above, const struct words_help *(*word)(size_t index), FILE *out)
{
    const struct words_help *shown;
    fputs(above, out);
    for (size_t i = 0; (shown = word(i)) != NULL; i++)
        print_entry("", shown, shown->help, out);
}

static void print_language(FILE *out)
{
    print_words(language, scenario_word, out);
    print_words(actions, scenario_action_word, out);
    print_words(figures, expect_word, out);
    fputs(parts, out);
}

static void print_help(enum options_command command, FILE *out)
{
    if (commands[command].usage != NULL) {
        fputs(commands[command].usage, out);
        print_flags(&commands[command], out);
        if (command == OPTIONS_SCENARIO)
            print_language(out);
        fprintf(out, "\nExamples:\n%s", commands[command].examples);
        return;
    }
    fputs(head, out);
    fputs("\nOptions of a run:\n", out);
    print_flags(&commands[OPTIONS_RUN], out);
    fputs(examples, out);
}

/* ---- a run as a whole ---- */

static void complain_of_whole(void *context, unsigned line, const char *text)
{
    (void)line;
    complain(context, NULL, NULL, text);
}

static void finish_run(struct reading *reading)
{
    struct scenario *scenario = reading->options.scenario;
    scenario_complete(scenario, complain_of_whole, reading);
    snprintf(scenario->name, sizeof scenario->name, "%s", reading->name != NULL ? reading->name : "run");
    if (scenario->title[0] == '\0' && scenario->replay_path[0] != '\0')
        snprintf(scenario->title, sizeof scenario->title, "A replay of %.120s",
                 replay_name(scenario->replay_path));
    if (scenario->title[0] == '\0')
        snprintf(scenario->title, sizeof scenario->title, "A stampede on %.120s",
                 scenario->work.url_count > 0 ? scenario->work.urls[0].path : "nothing");
    if (reading->mistakes == 0)
        scenario_check(scenario, complain_of_whole, reading);
    if (reading->mistakes > 0)
        fprintf(stderr, "stampede: see --help; `stampede scenario`, `demo`, `serve`, `proxy`, `report` and "
                        "`compare` are commands of their own\n");
}

/* ---- argv ---- */

enum { NAME_BYTES = 40 };

/* "" if none is near. */
static const char *nearest(const char *word, const struct option *options)
{
    const char *best = "";
    size_t best_distance = strlen(word) / 3 + 2;
    for (; options->name != NULL; options++) {
        size_t far = strlen(options->name) <= NAME_BYTES
                         ? spelling_distance(word, strlen(word), options->name)
                         : SIZE_MAX;
        if (far < best_distance) {
            best_distance = far;
            best = options->name;
        }
    }
    return best;
}

/* What getopt_long() could not take. */
static void complain_of_option(struct reading *reading, int value, const char *word,
                               const struct option *longs)
{
    char name[NAME_BYTES + 1], why[2 * NAME_BYTES + 64];
    const char *given = strncmp(word, "--", 2) == 0 ? word + 2 : word;
    const char *near;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(given, "="), given);
    near = nearest(name, longs);
    if (value == ':')
        snprintf(why, sizeof why, "a value is missing");
    else if (optopt >= OF_SCENARIO || optopt == 'h' || optopt == 'V')
        snprintf(why, sizeof why, "it takes no value");
    else
        snprintf(why, sizeof why, "there is no such option%s%s%s", near[0] != '\0' ? "; did you mean --" : "",
                 near, near[0] != '\0' ? "?" : "");
    reading->mistakes++;
    fprintf(stderr, "stampede: %s: %s\n", word, why);
}

static struct option long_option(const struct words_help *shown, int value)
{
    return (struct option){.name = shown->name,
                           .has_arg = shown->arguments != NULL ? required_argument : no_argument,
                           .val = value};
}

/* The command's own, then the scenario's, then those of all. */
static void list_flags(struct reading *reading, const struct command *command, struct option *longs)
{
    struct words_help option;
    size_t count = 0;
    for (; count < command->flag_count; count++) {
        const struct flag *flag = &command->flags[count];
        longs[count] = long_option(&flag->shown, FIRST_VALUE + (int)count);
        if (flag->otherwise > 0)
            *(uint32_t *)place_of(reading, flag) = flag->otherwise;
    }
    for (size_t i = 0; reading->options.scenario != NULL && scenario_option(i, &option); i++, count++)
        longs[count] = long_option(&option, OF_SCENARIO);
    longs[count++] = (struct option){.name = "help", .val = 'h'};
    longs[count] = (struct option){.name = "version", .val = 'V'};
    assert(count < FLAGS_MAX);
}

static void take_option(struct reading *reading, const char *name, const char *value)
{
    char why[SCENARIO_WHY_BYTES];
    if (!scenario_take_option(reading->options.scenario, name, value, why))
        complain(reading, name, value, why);
}

static void read_flags(struct reading *reading, const struct command *command, int argc, char **argv)
{
    struct option longs[FLAGS_MAX + 1] = {{.name = NULL}};
    list_flags(reading, command, longs);
    optind = 0; /* glibc: begin anew */
    opterr = 0;
    for (;;) {
        int index = 0, value = getopt_long(argc, argv, ":hV", longs, &index);
        const struct flag *flag = value >= FIRST_VALUE ? &command->flags[value - FIRST_VALUE] : NULL;
        if (value == -1)
            break;
        if (value == 'h')
            reading->options.command = OPTIONS_HELP;
        else if (value == 'V')
            reading->options.command = OPTIONS_VERSION;
        else if (value == OF_SCENARIO)
            take_option(reading, longs[index].name, optarg);
        else if (flag != NULL)
            flag->take(reading, flag, optarg);
        else
            complain_of_option(reading, value, argv[optind - 1], longs);
    }
    reading->options.files = argv + optind;
    reading->options.file_count = (size_t)(argc - optind);
}

static void check_files(struct reading *reading)
{
    const struct options *options = &reading->options;
    const struct command *command = &commands[options->command];
    if (options->file_count < command->files_least || options->file_count > command->files_most)
        complain(reading, NULL, options->command == OPTIONS_RUN ? options->files[0] : NULL,
                 command->files_wrong);
}

static enum options_command find_command(int argc, char **argv)
{
    if (argc < 2)
        return OPTIONS_HELP;
    for (unsigned i = OPTIONS_SCENARIO; i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(argv[1], commands[i].name) == 0)
            return (enum options_command)i;
    }
    return OPTIONS_RUN;
}

static bool read_command(struct reading *reading, int argc, char **argv)
{
    enum options_command command = find_command(argc, argv);
    bool has_command = command != OPTIONS_RUN && argc > 1;
    reading->options.command = command;
    if (command == OPTIONS_RUN && (reading->options.scenario = scenario_new()) == NULL) {
        fprintf(stderr, "stampede: no memory\n");
        return false;
    }
    if (has_command)
        argv[1] = argv[0]; /* getopt's messages begin with it */
    read_flags(reading, &commands[command], argc - has_command, argv + has_command);
    if (reading->options.command == OPTIONS_HELP) {
        print_help(command, stdout);
        return true;
    }
    if (reading->options.command == OPTIONS_VERSION)
        return true;
    check_files(reading);
    if (command == OPTIONS_RUN)
        finish_run(reading);
    return reading->mistakes == 0;
}

bool options_read(int argc, char **argv, struct options *out)
{
    struct reading reading = {.mistakes = 0};
    bool good = read_command(&reading, argc, argv);
    *out = reading.options;
    return good;
}

void options_clear(struct options *options)
{
    scenario_free(&options->scenario);
}
