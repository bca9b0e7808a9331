/* SPDX-License-Identifier: MIT */
/* options.c - see options.h. Each command's options are one table, which reading, mistakes and --help follow. */
#include "load/play/options.h"

#include "load/base/number.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(OPTIONS_SETS_MAX == 32 && WORDS_LINE_BYTES == 8192, "as in the texts");

enum { FLAGS_MAX = 48 };
enum { FIRST_VALUE = 256 }; /* of getopt's: a flag's index above it */

/* What a run's burst or rate is put together from. */
struct shape {
    const char *burst, *rounds, *every, *pause;
    const char *rate, *span, *connections;
    const char *replay, *speed;
    bool is_poisson;
};

struct reading {
    struct options options;
    struct shape shape;
    const char *name;
    size_t mistakes;
};

struct flag {
    struct words_help shown; /* no help: that of the scenario's word */
    void (*take)(struct reading *reading, const struct flag *flag, char *value);
    const char *directive;           /* the scenario's word */
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

static struct words the_words; /* large; there is one thread */

static void take_directive(struct reading *reading, const char *flag, const char *value)
{
    char why[SCENARIO_WHY_BYTES];
    if (!scenario_take(reading->options.scenario, &the_words, 0, why))
        complain(reading, flag, value, why);
}

/* One word of the directive, whatever is in it. */
static void take_word(struct reading *reading, const struct flag *flag, char *value)
{
    memset(&the_words, 0, sizeof the_words);
    if (words_add(&the_words, flag->directive) && words_add(&the_words, value))
        take_directive(reading, flag->shown.name, value);
    else
        complain(reading, flag->shown.name, value, "too long: at most 8000 bytes");
}

/* Cut into words as a scenario's line would be. */
static void take_line(struct reading *reading, const struct flag *flag, char *value)
{
    char line[WORDS_LINE_BYTES / 2];
    const char *rest = value != NULL ? value : "";
    bool fits = (size_t)snprintf(line, sizeof line, "%s %s", flag->directive, rest) < sizeof line;
    const char *wrong = words_split(&the_words, line);
    if (!fits || wrong != NULL)
        complain(reading, flag->shown.name, rest, wrong != NULL ? wrong : "too long: at most 4000 bytes");
    else
        take_directive(reading, flag->shown.name, rest);
}

/* "log:PATH", "statements", "sql:SELECT ...", "none" */
static void take_count(struct reading *reading, const struct flag *flag, char *value)
{
    char way[16];
    bool is_long = strncmp(value, "log:", 4) == 0 || strncmp(value, "sql:", 4) == 0;
    memset(&the_words, 0, sizeof the_words);
    snprintf(way, sizeof way, "%.*s", is_long ? 3 : 15, value);
    if (words_add(&the_words, "count") && words_add(&the_words, way) &&
        (!is_long || words_add(&the_words, value + 4)))
        take_directive(reading, flag->shown.name, value);
    else
        complain(reading, flag->shown.name, value, "too long: at most 8000 bytes");
}

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
#define WORD(word) take_word, .directive = (word)
#define LINE(words) take_line, .directive = (words)
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

static const struct flag run_flags[] = {
    {{"url", "URL", NULL}, LINE("ask")},
    {{"target", "HOST:PORT", NULL}, LINE("target")},
    {{"burst", "N", "N connections, all released at the same instant (default 1000)"}, TEXT(shape.burst)},
    {{"rounds", "N", "this many bursts (default 1)"}, TEXT(shape.rounds)},
    {{"every", "TIME", "... each this long after the start of the previous one"}, TEXT(shape.every)},
    {{"pause", "TIME", "... and this long after its end"}, TEXT(shape.pause)},
    {{"rate", "N", "or: N requests are due each second, whatever became of earlier ones"}, TEXT(shape.rate)},
    {{"for", "TIME", "... for this long (default 10s)"}, TEXT(shape.span)},
    {{"poisson", NULL, "... at random instants (default: evenly spaced)"}, SWITCH(shape.is_poisson)},
    {{"connections", "N", "... over at most this many connections (default 1000)"}, TEXT(shape.connections)},
    {{"replay", "FILE",
      "or: the requests of an access log (combined or JSON lines) at their distances in time; with --target. "
      "GET and HEAD, or those of --method"},
     TEXT(shape.replay)},
    {{"speed", "N", "... so many times as fast; --for TIME: only so much of it"}, TEXT(shape.speed)},
    {{"close", NULL, "a new connection for each request (default: keep)"}, LINE("connections close")},
    {{"warm", "URL", NULL}, LINE("warm")},
    {{"leave", "\"50% after 20ms\"", NULL}, LINE("leave")},
    {{"limit", "TIME", NULL}, WORD("limit")},
    {{"method", "NAME", NULL}, WORD("method")},
    {{"header", "\"NAME: VALUE\"", NULL}, WORD("header")},
    {{"version-after", "TEXT", NULL}, WORD("version")},
    {{"generators", "N", NULL}, WORD("generators")},
    {{"sources", "N", NULL}, WORD("sources")},
    {{"seed", "N", NULL}, WORD("seed")},
    {{"database", "URL", "postgresql://user@host:port/name, for --count, --queries, --write and sql"},
     WORD("database")},
    {{"count", "WAY",
      "how loads are counted: log:PATH (the server's statement log, log_statement=all), statements "
      "(pg_stat_statements), sql:\"SELECT ...\" (a number that only grows), none (default)"},
     .take = take_count},
    {{"queries", "TEXT", NULL}, WORD("queries")},
    {{"redis", "URL", NULL}, WORD("redis")},
    {{"ttl", "\"TIME [jitter P%]\"", NULL}, LINE("ttl")},
    {{"write", "LINE",
      "every 100ms keys 1-20 sql \"UPDATE ... WHERE id = {key} RETURNING version\" then URL"},
     LINE("write")},
    {{"at", "\"TIME ACTION\"",
      "an action this long after the start: run \"COMMAND\", sql \"STATEMENT\", post URL, note \"TEXT\"; "
      "may be repeated"},
     LINE("at")},
    {{"on", "\"load ACTION\"", "the same, as soon as a load begins"}, LINE("on")},
    {{"expect", "\"FIGURE OP VALUE\"",
      "what must hold, or the exit status is 1: \"loads per expiry <= 1\", \"p99 <= 300ms\", \"status "
      "200 >= 99% from 4s to 6s\"; may be repeated. \"failed = 0\" is expected too, unless one of them "
      "is about failed. What was not measured does not hold: if no load was seen, only \"loads = 0\" "
      "does, and p99 takes 100 answers"},
     LINE("expect")},
    {{"name", "TEXT", "of the result, by which reports are compared (default run)"}, TEXT(name)},
    {{"title", "TEXT", NULL}, WORD("title")},
    {{"json", "FILE", "the report, for comparing it and showing it again"}, OUTPUT(JSON)},
    {{"html", "FILE", "the report as one page with plots"}, OUTPUT(HTML)},
    OUTPUT_FLAGS,
    {{"baseline", "FILE", "an earlier run's JSON; if anything became worse the exit status is 1"},
     TEXT(options.baseline)},
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
};

static const struct flag report_flags[] = {
    {{"html", "FILE", "or -o, --output: one HTML page"}, OUTPUT(HTML)},
    {{"output", "FILE", "the same"}, OUTPUT(HTML)},
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

#define FLAGS(table) table, sizeof(table) / sizeof *(table)
_Static_assert(sizeof run_flags / sizeof *run_flags <= FLAGS_MAX, "read_flags() has room for so many");

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
                     " is neither an option nor a command: scenario, report, compare, demo, serve", NULL,
                     NULL},
    [OPTIONS_SCENARIO] = {"scenario", FLAGS(scenario_flags), 1, SIZE_MAX,
                          "write: stampede scenario FILE...; ours are in load/scenarios/",
                          "stampede scenario FILE... [OPTIONS]\n\nA FILE may be the plain name of one in "
                          "load/scenarios/.\n\n",
                          "  stampede scenario cold-burst leader-killed --out reports\n"
                          "  stampede scenario my.scenario --set TARGET=127.0.0.1:9000 --junit reports\n"},
    [OPTIONS_REPORT] = {"report", FLAGS(report_flags), 1, 1, "write: stampede report FILE.json [OPTIONS]",
                        "stampede report FILE.json [OPTIONS]\n\nShows the table, or writes what is asked "
                        "for. Exit status 1: "
                        "something in it did not hold.\n\n",
                        "  stampede report now.json\n"
                        "  stampede report now.json -o now.html --junit now.xml\n"},
    [OPTIONS_COMPARE] =
        {"compare", FLAGS(compare_flags), 2, 2, "write: stampede compare EARLIER.json NOW.json",
         "stampede compare EARLIER.json NOW.json [OPTIONS]\n\nResults of the same name are compared. Exit "
         "status 1: something became worse.\n\n",
         "  stampede compare monday.json now.json\n"
         "  stampede compare varnish.json ours.json --as fleet=run\n"},
    [OPTIONS_DEMO] = {"demo", FLAGS(demo_flags), 0, 0, "only options are expected here",
                      "stampede demo [OPTIONS]\n\n",
                      "  stampede demo\n"
                      "  stampede demo --requests 200 --delay 50 --table\n"},
    [OPTIONS_SERVE] =
        {"serve", FLAGS(serve_flags), 0, 0, "only options are expected here",
         "stampede serve [OPTIONS]\n\nThe playground: two catalogd over private Redis and PostgreSQL, and a "
         "page "
         "to send crowds and break things with.\nIts address is printed; it answers on this machine only. "
         "Servers named by REDIS_URL and DATABASE_URL are\nused as they are, and what would hurt them is "
         "off; "
         "every setting of catalogd may be in the environment.\n\n",
         "  stampede serve\n"
         "  FRESH_MS=5000 stampede serve --scale 1000\n"},
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

/* Words until the line is full, then an indented next one. */
static void print_wrapped(const char *text, FILE *out)
{
    const char *between = "";
    size_t column = HELP_INDENT;
    for (; *text != '\0'; text += strspn(text, " ")) {
        size_t bytes = strcspn(text, " ");
        if (column + bytes > HELP_COLUMNS) {
            fprintf(out, "\n%*s", HELP_INDENT, "");
            column = HELP_INDENT;
            between = "";
        }
        fprintf(out, "%s%.*s", between, (int)bytes, text);
        column += bytes + 1;
        text += bytes;
        between = " ";
    }
    fputc('\n', out);
}

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

static const char parts[] = "\nPART, for requests and latencies: status N, url N (as numbered in the file, "
                            "from 1).\n"
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
    print_wrapped(help, out);
}

static const char *help_of_directive(const char *directive)
{
    size_t bytes = strcspn(directive, " ");
    const struct words_help *word;
    for (size_t i = 0; (word = scenario_word(i)) != NULL; i++) {
        if (strlen(word->name) == bytes && strncmp(word->name, directive, bytes) == 0)
            return word->help;
    }
    return "";
}

static void print_flags(const struct command *command, FILE *out)
{
    for (size_t i = 0; i < command->flag_count; i++) {
        char text[120];
        const struct flag *flag = &command->flags[i];
        const char *help = flag->shown.help != NULL ? flag->shown.help : help_of_directive(flag->directive);
        if (flag->otherwise > 0) {
            snprintf(text, sizeof text, "%s (default %u)", help, (unsigned)flag->otherwise);
            help = text;
        }
        print_entry("--", &flag->shown, help, out);
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

/* ---- a run: its burst or rate, and the whole ---- */

static void add_words(const char *before, const char *value, const char *after)
{
    if (value == NULL)
        return;
    if (before != NULL)
        words_add(&the_words, before);
    words_add(&the_words, value);
    if (after != NULL)
        words_add(&the_words, after);
}

static void take_burst(struct reading *reading, bool has_rounds)
{
    const struct shape *shape = &reading->shape;
    add_words("burst", shape->burst, "connections");
    if (has_rounds)
        add_words(NULL, shape->rounds != NULL ? shape->rounds : "1", "rounds");
    add_words("every", shape->every, NULL);
    add_words("pause", shape->pause, NULL);
    take_directive(reading, "burst", shape->burst);
}

static void take_rate(struct reading *reading)
{
    const struct shape *shape = &reading->shape;
    add_words("rate", shape->rate, NULL);
    add_words("for", shape->span != NULL ? shape->span : "10s", NULL);
    if (shape->is_poisson)
        words_add(&the_words, "poisson");
    add_words("over", shape->connections, "connections");
    take_directive(reading, "rate", shape->rate);
}

static void take_replay(struct reading *reading)
{
    const struct shape *shape = &reading->shape;
    add_words("replay", shape->replay, NULL);
    add_words("speed", shape->speed, NULL);
    add_words("for", shape->span, NULL);
    add_words("over", shape->connections, "connections");
    take_directive(reading, "replay", shape->replay);
}

static void take_shape(struct reading *reading)
{
    const struct shape *shape = &reading->shape;
    bool is_of_burst = shape->rounds != NULL || shape->every != NULL || shape->pause != NULL;
    bool is_of_rate = shape->span != NULL || shape->connections != NULL || shape->is_poisson;
    memset(&the_words, 0, sizeof the_words);
    if ((shape->burst != NULL) + (shape->rate != NULL) + (shape->replay != NULL) > 1) {
        complain(reading, NULL, NULL, "either --burst or --rate or --replay");
    } else if (shape->replay != NULL) {
        take_replay(reading);
        if (is_of_burst || shape->is_poisson)
            complain(reading, "replay", NULL, "--rounds, --every, --pause and --poisson do not go with it");
    } else if (shape->speed != NULL) {
        complain(reading, "speed", NULL, "it goes with --replay");
    } else if (shape->rate != NULL) {
        take_rate(reading);
        if (is_of_burst)
            complain(reading, "rate", NULL, "--rounds, --every and --pause go with --burst");
    } else if (shape->burst != NULL) {
        take_burst(reading, is_of_burst);
        if (is_of_rate)
            complain(reading, "burst", NULL, "--for, --poisson and --connections go with --rate");
    } else if (is_of_burst || is_of_rate) {
        complain(reading, NULL, NULL, "how many requests? --burst N, or --rate N");
    }
}

static void complain_of_whole(void *context, unsigned line, const char *text)
{
    (void)line;
    complain(context, NULL, NULL, text);
}

static void finish_run(struct reading *reading)
{
    struct scenario *scenario = reading->options.scenario;
    take_shape(reading);
    scenario_complete(scenario);
    snprintf(scenario->name, sizeof scenario->name, "%s", reading->name != NULL ? reading->name : "run");
    if (scenario->title[0] == '\0' && reading->shape.replay != NULL) {
        const char *slash = strrchr(reading->shape.replay, '/');
        snprintf(scenario->title, sizeof scenario->title, "A replay of %.120s",
                 slash != NULL ? slash + 1 : reading->shape.replay);
    }
    if (scenario->title[0] == '\0')
        snprintf(scenario->title, sizeof scenario->title, "A stampede on %.120s",
                 scenario->work.url_count > 0 ? scenario->work.urls[0].path : "nothing");
    if (reading->mistakes == 0)
        scenario_check(scenario, complain_of_whole, reading);
    if (reading->mistakes > 0)
        fprintf(stderr, "stampede: see --help; `stampede scenario`, `demo`, `serve`, `report` and `compare` "
                        "are commands of their own\n");
}

/* ---- argv ---- */

enum { NAME_BYTES = 40 };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Of letters that have to be put in, taken out or replaced. */
static size_t distance(const char *a, const char *b)
{
    size_t row[NAME_BYTES + 1], b_bytes = strlen(b);
    for (size_t i = 0; i <= b_bytes; i++)
        row[i] = i;
    for (; *a != '\0'; a++) {
        size_t corner = row[0]++;
        for (size_t i = 1; i <= b_bytes; i++) {
            size_t replaced = corner + (*a != b[i - 1]);
            corner = row[i];
            row[i] = least(replaced, 1 + least(row[i], row[i - 1]));
        }
    }
    return row[b_bytes];
}

/* "" if none is near. */
static const char *nearest(const char *word, const struct option *options)
{
    const char *best = "";
    size_t best_distance = strlen(word) / 3 + 2;
    for (; options->name != NULL; options++) {
        size_t far = strlen(options->name) <= NAME_BYTES ? distance(word, options->name) : SIZE_MAX;
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
    else if (optopt >= FIRST_VALUE || optopt == 'h' || optopt == 'V')
        snprintf(why, sizeof why, "it takes no value");
    else
        snprintf(why, sizeof why, "there is no such option%s%s%s", near[0] != '\0' ? "; did you mean --" : "",
                 near, near[0] != '\0' ? "?" : "");
    reading->mistakes++;
    fprintf(stderr, "stampede: %s: %s\n", word, why);
}

static void read_flags(struct reading *reading, const struct command *command, int argc, char **argv)
{
    struct option longs[FLAGS_MAX + 3] = {{.name = NULL}};
    for (size_t i = 0; i < command->flag_count; i++) {
        const struct flag *flag = &command->flags[i];
        longs[i] = (struct option){.name = flag->shown.name,
                                   .has_arg = flag->shown.arguments != NULL ? required_argument : no_argument,
                                   .val = FIRST_VALUE + (int)i};
        if (flag->otherwise > 0)
            *(uint32_t *)place_of(reading, flag) = flag->otherwise;
    }
    longs[command->flag_count] = (struct option){.name = "help", .val = 'h'};
    longs[command->flag_count + 1] = (struct option){.name = "version", .val = 'V'};
    optind = 0; /* glibc: begin anew */
    opterr = 0;
    for (;;) {
        int value = getopt_long(argc, argv, ":hVo:", longs, NULL);
        if (value == -1)
            break;
        const struct flag *flag = value >= FIRST_VALUE ? &command->flags[value - FIRST_VALUE] : NULL;
        if (value == 'h')
            reading->options.command = OPTIONS_HELP;
        else if (value == 'V')
            reading->options.command = OPTIONS_VERSION;
        else if (value == 'o')
            reading->options.outputs[FORMAT_HTML] = optarg;
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
