/* SPDX-License-Identifier: MIT */
/* options.c - see options.h; options_flags.c has the tables and prints them. */
#include "load/play/options.h"

#include "load/play/options_flags.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_SCALE = 50000, DEFAULT_REQUESTS = 1000, DEFAULT_DELAY_MS = 200 };
enum { FIRST_VALUE = 256 }; /* of getopt's: a flag's index above it */

/* What a run's burst or rate is put together from. */
struct shape {
    const char *burst, *rounds, *every, *pause;
    const char *rate, *span, *connections;
    bool is_poisson;
};

struct reading {
    struct options *options;
    struct shape shape;
    const char *name;
    size_t mistakes;
};

static void complain(struct reading *reading, const char *flag, const char *value, const char *why)
{
    reading->mistakes++;
    fprintf(stderr, "stampede: %s%s%s%s%s%s\n", flag != NULL ? "--" : "", flag != NULL ? flag : "",
            flag != NULL && value != NULL ? " " : "", value != NULL ? value : "", flag != NULL ? ": " : "",
            why);
}

/* ---- directives out of flags ---- */

static struct words the_words; /* large; there is one thread */

static void take(struct reading *reading, const char *flag, const char *value, struct words *words)
{
    char why[SCENARIO_WHY_BYTES];
    if (!scenario_take(reading->options->scenario, words, 0, why))
        complain(reading, flag, value, why);
}

/* The value as one word, or cut into words as a scenario's line would be. */
static void take_flag(struct reading *reading, const struct flag *flag, const char *value)
{
    char line[WORDS_LINE_BYTES / 2];
    const char *wrong = NULL;
    bool fits = true;
    memset(&the_words, 0, sizeof the_words);
    if (flag->takes == FLAG_LINE) {
        fits = (size_t)snprintf(line, sizeof line, "%s %s", flag->directive, value) < sizeof line;
        wrong = words_split(&the_words, line);
    } else {
        fits = words_add(&the_words, flag->directive) && words_add(&the_words, value);
    }
    if (!fits || wrong != NULL)
        complain(reading, flag->name, value, wrong != NULL ? wrong : "too long");
    else
        take(reading, flag->name, value, &the_words);
}

/* "log:PATH", "statements", "sql:SELECT ...", "none" */
static void take_count(struct reading *reading, const char *value)
{
    const char *colon = strchr(value, ':');
    char way[16];
    bool is_long = colon != NULL && (strncmp(value, "log:", 4) == 0 || strncmp(value, "sql:", 4) == 0);
    memset(&the_words, 0, sizeof the_words);
    snprintf(way, sizeof way, "%.*s", is_long ? 3 : 15, value);
    if (words_add(&the_words, "count") && words_add(&the_words, way) &&
        (!is_long || words_add(&the_words, colon + 1)))
        take(reading, "count", value, &the_words);
    else
        complain(reading, "count", value, "too long");
}

static void add_words(struct words *words, const char *before, const char *value, const char *after)
{
    if (value == NULL)
        return;
    if (before != NULL)
        words_add(words, before);
    words_add(words, value);
    if (after != NULL)
        words_add(words, after);
}

static void take_burst(struct reading *reading)
{
    const struct shape *shape = &reading->shape;
    memset(&the_words, 0, sizeof the_words);
    words_add(&the_words, "burst");
    add_words(&the_words, NULL, shape->burst, "connections");
    if (shape->rounds != NULL || shape->every != NULL || shape->pause != NULL)
        add_words(&the_words, NULL, shape->rounds != NULL ? shape->rounds : "1", "rounds");
    add_words(&the_words, "every", shape->every, NULL);
    add_words(&the_words, "pause", shape->pause, NULL);
    take(reading, "burst", shape->burst, &the_words);
    if (shape->span != NULL || shape->is_poisson || shape->connections != NULL)
        complain(reading, "burst", NULL, "--for, --poisson and --connections go with --rate");
}

static void take_rate(struct reading *reading)
{
    const struct shape *shape = &reading->shape;
    memset(&the_words, 0, sizeof the_words);
    words_add(&the_words, "rate");
    add_words(&the_words, NULL, shape->rate, NULL);
    add_words(&the_words, "for", shape->span != NULL ? shape->span : "10s", NULL);
    if (shape->is_poisson)
        words_add(&the_words, "poisson");
    add_words(&the_words, "over", shape->connections, "connections");
    take(reading, "rate", shape->rate, &the_words);
    if (shape->rounds != NULL || shape->every != NULL || shape->pause != NULL)
        complain(reading, "rate", NULL, "--rounds, --every and --pause go with --burst");
}

static void take_shape(struct reading *reading)
{
    if (reading->shape.burst != NULL && reading->shape.rate != NULL)
        complain(reading, NULL, NULL, "either --burst or --rate");
    else if (reading->shape.rate != NULL)
        take_rate(reading);
    else if (reading->shape.burst != NULL)
        take_burst(reading);
    else if (reading->shape.span != NULL || reading->shape.connections != NULL || reading->shape.is_poisson ||
             reading->shape.rounds != NULL || reading->shape.every != NULL || reading->shape.pause != NULL)
        complain(reading, NULL, NULL, "how many requests? --burst N, or --rate N");
}

static void complain_of_whole(void *context, unsigned line, const char *text)
{
    (void)line;
    complain(context, NULL, NULL, text);
}

static void finish_run(struct reading *reading)
{
    struct scenario *scenario = reading->options->scenario;
    take_shape(reading);
    scenario_complete(scenario);
    snprintf(scenario->name, sizeof scenario->name, "%s", reading->name != NULL ? reading->name : "run");
    if (scenario->title[0] == '\0')
        snprintf(scenario->title, sizeof scenario->title, "A stampede on %.120s",
                 scenario->work.url_count > 0 ? scenario->work.urls[0].path : "nobody");
    if (reading->mistakes == 0)
        scenario_check(scenario, complain_of_whole, reading);
    if (reading->mistakes > 0)
        fprintf(stderr,
                "stampede: --help tells how; `stampede scenario`, `demo`, `serve`, `report` and `compare` "
                "are commands of their own\n");
}

/* ---- flags that are no directives ---- */

static void take_set(struct reading *reading, char *value)
{
    struct options *options = reading->options;
    char *equals = strchr(value, '=');
    if (equals == NULL || equals == value || options->set_count == OPTIONS_SETS_MAX) {
        complain(reading, "set", value, equals == NULL || equals == value ? "write NAME=VALUE" : "too many");
        return;
    }
    *equals = '\0';
    options->sets[options->set_count++] = (struct scenario_set){.name = value, .value = equals + 1};
}

static void take_number(struct reading *reading, const struct flag *flag, const char *value, uint32_t *out)
{
    char why[80];
    if (word_number(value, flag->least, flag->most, out))
        return;
    snprintf(why, sizeof why, "not a number from %u to %u", (unsigned)flag->least, (unsigned)flag->most);
    complain(reading, flag->name, value, why);
}

static void take_own(struct reading *reading, const struct flag *flag, char *value)
{
    struct options *options = reading->options;
    struct shape *shape = &reading->shape;
    const struct {
        const char *name, **out;
    } texts[] = {
        {"json", &options->json},   {"html", &options->html}, {"output", &options->html},
        {"name", &reading->name},   {"burst", &shape->burst}, {"baseline", &options->baseline},
        {"rounds", &shape->rounds}, {"every", &shape->every}, {"pause", &shape->pause},
        {"rate", &shape->rate},     {"for", &shape->span},    {"connections", &shape->connections},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (strcmp(flag->name, texts[i].name) == 0)
            *texts[i].out = value;
    }
    if (strcmp(flag->name, "count") == 0)
        take_count(reading, value);
    else if (strcmp(flag->name, "set") == 0)
        take_set(reading, value);
    else if (strcmp(flag->name, "poisson") == 0)
        shape->is_poisson = true;
    else if (strcmp(flag->name, "scale") == 0)
        take_number(reading, flag, value, &options->scale);
    else if (strcmp(flag->name, "requests") == 0)
        take_number(reading, flag, value, &options->requests);
    else if (strcmp(flag->name, "delay") == 0)
        take_number(reading, flag, value, &options->delay_ms);
}

/* ---- argv ---- */

static void take_option(struct reading *reading, const struct flag *flag, char *value)
{
    if (flag->takes == FLAG_SWITCH && flag->directive != NULL)
        take_flag(reading,
                  &(struct flag){.name = flag->name, .directive = flag->directive, .takes = FLAG_LINE}, "");
    else if (flag->directive != NULL)
        take_flag(reading, flag, value);
    else
        take_own(reading, flag, value);
}

static void read_flags(struct reading *reading, int argc, char **argv, const struct flag *flags, size_t count)
{
    struct option longs[FLAGS_MAX + 2] = {{.name = NULL}};
    for (size_t i = 0; i < count; i++)
        longs[i] = (struct option){.name = flags[i].name,
                                   .has_arg = flags[i].takes == FLAG_SWITCH ? no_argument : required_argument,
                                   .val = FIRST_VALUE + (int)i};
    longs[count] = (struct option){.name = "help", .val = 'h'};
    optind = 0; /* glibc: begin anew */
    for (;;) {
        int value = getopt_long(argc, argv, "ho:", longs, NULL);
        if (value == -1)
            break;
        if (value == 'h')
            reading->options->command = OPTIONS_HELP;
        else if (value == 'o')
            reading->options->html = optarg;
        else if (value >= FIRST_VALUE)
            take_option(reading, &flags[value - FIRST_VALUE], optarg);
        else
            reading->mistakes++; /* getopt_long() has said it */
    }
    reading->options->files = argv + optind;
    reading->options->file_count = (size_t)(argc - optind);
}

static void expect_files(struct reading *reading, size_t least, size_t most, const char *usage)
{
    if (reading->options->command == OPTIONS_HELP ||
        (reading->options->file_count >= least && reading->options->file_count <= most))
        return;
    complain(reading, NULL, NULL, usage);
}

static void check_files(struct reading *reading)
{
    switch (reading->options->command) {
    case OPTIONS_RUN:
        if (reading->options->file_count > 0)
            complain(reading, NULL, reading->options->files[0],
                     " is neither an option nor a command: scenario, report, compare, demo, serve");
        break;
    case OPTIONS_SCENARIO:
        expect_files(reading, 1, SIZE_MAX, "write: stampede scenario FILE...; ours are in load/scenarios/");
        break;
    case OPTIONS_REPORT:
        expect_files(reading, 1, 1, "write: stampede report FILE.json [-o PAGE.html]");
        break;
    case OPTIONS_COMPARE:
        expect_files(reading, 2, 2, "write: stampede compare EARLIER.json NOW.json");
        break;
    case OPTIONS_DEMO:
    case OPTIONS_SERVE:
        expect_files(reading, 0, 0, "nothing but options is expected here");
        break;
    case OPTIONS_HELP:
        break;
    }
}

static enum options_command find_command(int argc, char **argv)
{
    static const char *const names[] = {
        [OPTIONS_SCENARIO] = "scenario", [OPTIONS_REPORT] = "report", [OPTIONS_COMPARE] = "compare",
        [OPTIONS_DEMO] = "demo",         [OPTIONS_SERVE] = "serve",   [OPTIONS_HELP] = "help"};
    for (unsigned i = OPTIONS_SCENARIO; argc > 1 && i < sizeof names / sizeof *names; i++) {
        if (strcmp(argv[1], names[i]) == 0)
            return (enum options_command)i;
    }
    return OPTIONS_RUN;
}

bool options_read(int argc, char **argv, struct options *out)
{
    struct reading reading = {.options = out};
    *out =
        (struct options){.scale = DEFAULT_SCALE, .requests = DEFAULT_REQUESTS, .delay_ms = DEFAULT_DELAY_MS};
    out->command = find_command(argc, argv);
    enum options_command command = out->command;
    if (command == OPTIONS_RUN && argc < 2)
        command = out->command = OPTIONS_HELP;
    if (command == OPTIONS_RUN) {
        out->scenario = scenario_new();
        if (out->scenario == NULL) {
            fprintf(stderr, "stampede: no memory\n");
            return false;
        }
    }
    size_t count = 0;
    const struct flag *flags = flags_of(command, &count);
    bool has_command = command != OPTIONS_RUN && argc > 1;
    if (has_command)
        argv[1] = argv[0]; /* getopt's messages begin with it */
    read_flags(&reading, argc - has_command, argv + has_command, flags, count);
    if (out->command == OPTIONS_HELP) {
        flags_help(command, stdout);
        return true;
    }
    check_files(&reading);
    if (command == OPTIONS_RUN)
        finish_run(&reading);
    return reading.mistakes == 0;
}

void options_clear(struct options *options)
{
    scenario_free(&options->scenario);
}
