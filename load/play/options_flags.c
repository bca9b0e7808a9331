/* SPDX-License-Identifier: MIT */
/* options_flags.c - see options_flags.h. */
#include "load/play/options_flags.h"

#include <stdio.h>

/* ---- one run against a service ---- */

static const struct flag run_flags[] = {
    {"url", "URL", "ask", FLAG_LINE,
     "what is asked: http://host:port/path, or /path of the targets; may be repeated, \"/path weight 3\" is "
     "asked "
     "three times as often. One {...} in it becomes a number: {1-900}, {zipf:1-50000}, {each:1-2000}, "
     "{random}",
     0, 0},
    {"target", "HOST:PORT", "target", FLAG_LINE, "who is asked, in turn; may be repeated", 0, 0},
    {"burst", "N", NULL, FLAG_WORD, "N connections, released at one instant (default 1000)", 0, 0},
    {"rounds", "N", NULL, FLAG_WORD, "so many bursts (default 1)", 0, 0},
    {"every", "TIME", NULL, FLAG_WORD, "... each so long after the beginning of the one before", 0, 0},
    {"pause", "TIME", NULL, FLAG_WORD, "... and so long after its end", 0, 0},
    {"rate", "N", NULL, FLAG_WORD, "or: N requests a second are due, whatever became of those before", 0, 0},
    {"for", "TIME", NULL, FLAG_WORD, "... for so long (default 10s)", 0, 0},
    {"poisson", NULL, NULL, FLAG_SWITCH, "... at random instants (default: evenly spread)", 0, 0},
    {"connections", "N", NULL, FLAG_WORD, "... over at most so many connections (default 1000)", 0, 0},
    {"close", NULL, "connections close", FLAG_SWITCH, "a new connection for each request (default: kept)", 0,
     0},
    {"warm", "URL", "warm", FLAG_LINE, "asked once before the run, {each:1-2000} once for each key", 0, 0},
    {"leave", "\"50% after 20ms\"", "leave", FLAG_LINE, "so many clients hang up so long after their request",
     0, 0},
    {"limit", "TIME", "limit", FLAG_WORD, "of one request, from the instant it was due (default 30s)", 0, 0},
    {"method", "NAME", "method", FLAG_WORD, "default GET", 0, 0},
    {"header", "\"NAME: VALUE\"", "header", FLAG_WORD, "may be repeated", 0, 0},
    {"version-after", "TEXT", "version", FLAG_WORD,
     "the number behind this text in a body is the row's version", 0, 0},
    {"generators", "N", "generators", FLAG_WORD, "client processes (default: one for each core, at most 4)",
     0, 0},
    {"sources", "N", "sources", FLAG_WORD, "client addresses 127.0.0.1, 127.0.0.2, ... (default: as needed)",
     0, 0},
    {"seed", "N", "seed", FLAG_WORD, "the same keys and instants again (default 0)", 0, 0},
    {"database", "URL", "database", FLAG_WORD,
     "postgresql://user@host:port/name, for --count, --queries, --write and sql", 0, 0},
    {"count", "WAY", NULL, FLAG_WORD,
     "how loads are counted: log:PATH (the server's statement log, log_statement=all), statements "
     "(pg_stat_statements), sql:\"SELECT ...\" (a number that only grows), none (default)",
     0, 0},
    {"queries", "TEXT", "queries", FLAG_WORD,
     "a load is a statement that contains this text: best one that each URL makes once. Its key is its "
     "parameters, "
     "or the literals in it",
     0, 0},
    {"redis", "URL", "redis", FLAG_WORD, "redis://host:port/0 or unix:///path; its commands are counted", 0,
     0},
    {"ttl", "\"TIME [jitter P%]\"", "ttl", FLAG_LINE,
     "how long a value lives: what loads per expiry is made from", 0, 0},
    {"write", "LINE", "write", FLAG_LINE,
     "every 100ms keys 1-20 sql \"UPDATE ... WHERE id = {key} RETURNING version\" then URL", 0, 0},
    {"at", "\"TIME ACTION\"", "at", FLAG_LINE,
     "at 2s something happens: run \"COMMAND\", sql \"STATEMENT\", post URL, note \"TEXT\"; may be repeated",
     0, 0},
    {"on", "\"load ACTION\"", "on", FLAG_LINE, "the same, as soon as a load begins", 0, 0},
    {"expect", "\"FIGURE OP VALUE\"", "expect", FLAG_LINE,
     "what must hold, or the exit status is 1: \"loads per expiry <= 1\", \"p99 <= 300ms\", "
     "\"status 200 >= 99% from 4s to 6s\"; may be repeated. \"failed = 0\" is expected, too, unless one of "
     "them is about failed. What was not measured does not hold: no load at all is right only for \"loads = "
     "0\", and "
     "p99 takes 100 answers",
     0, 0},
    {"name", "TEXT", NULL, FLAG_WORD, "of the result, by which two reports are compared (default run)", 0, 0},
    {"title", "TEXT", "title", FLAG_WORD, "of the report", 0, 0},
    {"json", "FILE", NULL, FLAG_WORD, "the report, to be compared and shown again", 0, 0},
    {"html", "FILE", NULL, FLAG_WORD, "the report as one page with plots", 0, 0},
    {"baseline", "FILE", NULL, FLAG_WORD, "an earlier run's JSON: what became worse makes the exit status 1",
     0, 0},
};

static const struct flag scenario_flags[] = {
    {"set", "NAME=VALUE", NULL, FLAG_WORD,
     "another value of a let, a setting of the stack, or only this variant", 0, 0},
    {"json", "FOLDER", NULL, FLAG_WORD, "a report NAME.json for each of them", 0, 0},
    {"html", "FOLDER", NULL, FLAG_WORD, "a page NAME.html for each of them", 0, 0},
};

static const struct flag report_flags[] = {
    {"output", "FILE", NULL, FLAG_WORD, "or -o: one HTML page", 0, 0},
};

static const struct flag demo_flags[] = {
    {"scale", "N", NULL, FLAG_WORD, "products in the database (default 50000)", 100, 99999999},
    {"requests", "N", NULL, FLAG_WORD, "at one instant (default 1000)", 2, 2000},
    {"delay", "MS", NULL, FLAG_WORD, "that a query takes (default 200)", 0, 10000},
    {"json", "FILE", NULL, FLAG_WORD, "default build/demo.json", 0, 0},
    {"html", "FILE", NULL, FLAG_WORD, "default build/demo.html", 0, 0},
};

static const struct flag serve_flags[] = {
    {"scale", "N", NULL, FLAG_WORD, "products in the private database (default 50000)", 100, 99999999},
};

enum { COUNT_OF_RUN = sizeof run_flags / sizeof *run_flags };
_Static_assert(sizeof run_flags / sizeof *run_flags <= FLAGS_MAX, "options.c keeps that many");

static const struct {
    const struct flag *flags;
    size_t count;
} tables[] = {
    [OPTIONS_RUN] = {run_flags, COUNT_OF_RUN},
    [OPTIONS_SCENARIO] = {scenario_flags, sizeof scenario_flags / sizeof *scenario_flags},
    [OPTIONS_REPORT] = {report_flags, sizeof report_flags / sizeof *report_flags},
    [OPTIONS_COMPARE] = {NULL, 0},
    [OPTIONS_DEMO] = {demo_flags, sizeof demo_flags / sizeof *demo_flags},
    [OPTIONS_SERVE] = {serve_flags, sizeof serve_flags / sizeof *serve_flags},
    [OPTIONS_HELP] = {NULL, 0},
};

const struct flag *flags_of(enum options_command command, size_t *count)
{
    *count = tables[command].count;
    return tables[command].flags;
}

/* ---- help ---- */

static const char head[] =
    "stampede - does your service survive a stampede? Clients, the database's view, faults.\n"
    "\n"
    "  stampede --url URL [OPTIONS]              one run against your service\n"
    "  stampede scenario FILE... [OPTIONS]       what is started, what happens when, what must hold\n"
    "  stampede report FILE.json [-o PAGE]       shows a report again, or makes a page of it\n"
    "  stampede compare EARLIER.json NOW.json    what became better or worse\n"
    "  stampede demo                             a cold key without a guard, with one per process, with one "
    "in all\n"
    "  stampede serve                            catalogd over private servers, to play with\n"
    "  stampede COMMAND --help\n"
    "\n"
    "Times: 250ms, 1.5s, 2m. Exit status: 0 everything held; 1 something did not; 2 wrong options or "
    "scenario file;\n"
    "3 could not run (servers, target); 130 ended early by Ctrl-C, the report is made of what there is.\n";

static const char examples[] =
    "\nExamples:\n"
    "  stampede --url http://127.0.0.1:8080/products/7 --burst 2000\n"
    "  stampede --target 127.0.0.1:8080 --target 127.0.0.1:8082 --url '/products/{zipf:1-50000}' \\\n"
    "      --rate 3000 --for 30s --json now.json --html now.html --baseline earlier.json\n"
    "  stampede --url http://127.0.0.1:8080/item/7 --burst 1000 --rounds 5 --every 2s --ttl 1s \\\n"
    "      --database postgresql://localhost/shop --queries 'FROM items' \\\n"
    "      --count log:/var/log/postgresql/postgresql-15-main.log \\\n"
    "      --redis redis://127.0.0.1:6379/0 --expect 'loads per expiry <= 1' --expect 'p99 <= 300ms'\n"
    "  stampede scenario load/scenarios/leader-killed.scenario --html build\n";

enum { HELP_COLUMNS = 108, HELP_INDENT = 28 };

/* Words until the line is full, then an indented next one. */
static void print_wrapped(const char *text, FILE *out)
{
    size_t column = HELP_INDENT;
    while (*text != '\0') {
        size_t bytes = 0;
        while (text[bytes] != '\0' && text[bytes] != ' ')
            bytes++;
        if (column + bytes > HELP_COLUMNS) {
            fprintf(out, "\n%*s", HELP_INDENT, "");
            column = HELP_INDENT;
        }
        fprintf(out, "%.*s ", (int)bytes, text);
        column += bytes + 1;
        text += bytes + (text[bytes] == ' ');
    }
    fputc('\n', out);
}

static void print_flags(enum options_command command, FILE *out)
{
    char left[64];
    for (size_t i = 0; i < tables[command].count; i++) {
        const struct flag *flag = &tables[command].flags[i];
        int bytes = snprintf(left, sizeof left, "  --%s%s%s", flag->name, flag->value != NULL ? " " : "",
                             flag->value != NULL ? flag->value : "");
        if (bytes + 1 >= HELP_INDENT)
            fprintf(out, "%s\n%*s", left, HELP_INDENT, "");
        else
            fprintf(out, "%-*s", HELP_INDENT, left);
        print_wrapped(flag->help, out);
    }
}

void flags_help(enum options_command command, FILE *out)
{
    static const char *const usages[] = {
        [OPTIONS_SCENARIO] = "stampede scenario FILE... [OPTIONS]\n\nA FILE may be the plain name of one in "
                             "load/scenarios/; load/play/scenario.h tells what can be written into one.\n\n",
        [OPTIONS_REPORT] = "stampede report FILE.json [-o PAGE.html]\n\n",
        [OPTIONS_COMPARE] =
            "stampede compare EARLIER.json NOW.json\n\nExit status 1: something became worse.\n",
        [OPTIONS_DEMO] = "stampede demo [OPTIONS]\n\n",
        [OPTIONS_SERVE] =
            "stampede serve [OPTIONS]\n\nServers named by REDIS_URL and DATABASE_URL are used as they "
            "are; every setting of catalogd may be in the environment.\n\n",
    };
    if (command != OPTIONS_RUN && command != OPTIONS_HELP) {
        fputs(usages[command], out);
        print_flags(command, out);
        return;
    }
    fputs(head, out);
    fputs("\nOptions of a run:\n", out);
    print_flags(OPTIONS_RUN, out);
    fputs(examples, out);
}
