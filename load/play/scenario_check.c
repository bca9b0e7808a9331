/* SPDX-License-Identifier: MIT */
/* scenario_check.c - lines that are right by themselves may still contradict each other; see scenario.h. */
#include "load/play/scenario.h"

#include <stdarg.h>
#include <string.h>

struct checking {
    const struct scenario *scenario;
    scenario_complain *complain;
    void *context;
};

static void wrong(struct checking *checking, unsigned line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void wrong(struct checking *checking, unsigned line, const char *format, ...)
{
    char text[SCENARIO_WHY_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    checking->complain(checking->context, line, text);
}

/* A remedy in the language of who reads it: that of a file's lines, or that of options. */
static const char *remedy(const struct checking *checking, const char *line, const char *option)
{
    return checking->scenario->path[0] != '\0' ? line : option;
}

/* The same of a word that is a line and an option. */
static const char *dashes(const struct checking *checking)
{
    return remedy(checking, "", "--");
}

static bool has_stack(const struct scenario *scenario)
{
    return scenario->process_count > 0;
}

static bool counts_by_log(const struct scenario *scenario)
{
    return has_stack(scenario) || scenario->way == WITNESS_LOG;
}

/* ---- servers ---- */

static void check_servers(struct checking *checking)
{
    const struct scenario *scenario = checking->scenario;
    if (!has_stack(scenario) && scenario->work.target_count == 0)
        wrong(checking, 0, "there is nothing to ask: add %s",
              remedy(checking, "a target (host:port) or a stack",
                     "--target HOST:PORT, or name it in --url: http://HOST:PORT/PATH"));
    if (has_stack(scenario) && scenario->work.target_count > 0)
        wrong(checking, 0, "a stack or targets, not both");
    if (has_stack(scenario) && (scenario->database_url[0] != '\0' || scenario->redis_url[0] != '\0' ||
                                scenario->has_count || scenario->statement[0] != '\0'))
        wrong(checking, 0, "a stack brings its own database, redis, count and queries");
    if (!has_stack(scenario) && (scenario->vary[0] != '\0' || scenario->proxies_redis ||
                                 scenario->proxies_postgres || scenario->has_replica))
        wrong(checking, 0, "vary, proxy and replica need a stack");
    if (scenario->has_replica && !scenario->proxies_redis)
        wrong(checking, 0, "a replica needs \"proxy redis\": without it clients could not be led there");
    for (size_t i = 0; i < scenario->variant_count; i++) {
        for (size_t k = 0; k < i; k++) {
            if (strcmp(scenario->variants[i], scenario->variants[k]) == 0)
                wrong(checking, 0, "vary has %s twice", scenario->variants[i]);
        }
    }
}

/* What is named and then not used is a mistake: its figures would be waited for in vain. */
static void check_counting(struct checking *checking)
{
    const struct scenario *scenario = checking->scenario;
    bool has_database = scenario->database_url[0] != '\0';
    if (scenario->way == WITNESS_STATEMENTS && !has_database)
        wrong(checking, 0, "counting loads in the database needs its address: %sdatabase URL",
              dashes(checking));
    if (!has_stack(scenario) && scenario->way == WITNESS_NONE && scenario->statement[0] != '\0' &&
        !has_database)
        wrong(checking, 0, "queries: they are not counted: say where, by %sdatabase URL or %scount log:PATH",
              dashes(checking), dashes(checking));
}

/* ---- requests and writes ---- */

static void check_work(struct checking *checking)
{
    static struct work work; /* large; there is one thread */
    char why[WORK_WHY_BYTES] = "";
    const struct scenario *scenario = checking->scenario;
    if (scenario->work.url_count == 0) {
        wrong(checking, 0, "nothing is asked for: add %s", remedy(checking, "an ask (/path)", "--url URL"));
        return;
    }
    work = scenario->work;
    if (has_stack(scenario) && work.target_count == 0) /* it has none before it is started */
        work.target_count = work_target_parse("127.0.0.1:1", &work.targets[0], why);
    if (work.target_count > 0 && !work_check(&work, why))
        wrong(checking, 0, "%s", why);
}

/* A key is its number in the file, for requests and writes alike. */
static bool has_same_words(const struct scenario *scenario, const struct scenario_write *write)
{
    bool found = write->words == NULL;
    for (size_t i = 0; !found && i < scenario->work.url_count; i++) {
        const struct work_words *words = scenario->work.urls[i].words;
        found = words != NULL && strcmp(words->path, write->words->path) == 0;
    }
    return found;
}

/* It would be sent in the clear to a port that speaks TLS. */
static bool asks_tls(const struct scenario *scenario, const char *url)
{
    bool is_of_target = url[0] == '/' && !has_stack(scenario) && scenario->work.target_count > 0;
    return strncasecmp(url, "https://", 8) == 0 || (is_of_target && scenario->work.targets[0].is_tls);
}

static const char no_tls[] = "only requests of the run speak TLS: name an http:// address";

static void check_cold(struct checking *checking)
{
    const struct scenario *scenario = checking->scenario;
    bool wants_redis = scenario->expiry_key[0] != '\0', wants_target = false;
    for (size_t i = 0; i < scenario->cold_count; i++) {
        const char *cold = scenario->colds[i], *url = strchr(cold, ' ') + 1;
        bool is_redis = strncmp(cold, "redis ", 6) == 0;
        wants_redis = wants_redis || is_redis;
        wants_target = wants_target || (!is_redis && url[0] == '/');
        if (!is_redis && asks_tls(scenario, url))
            wrong(checking, 0, "before-round: %.100s: %s", cold, no_tls);
    }
    if (wants_redis && !has_stack(scenario) && scenario->redis_url[0] == '\0')
        wrong(checking, 0, "before-round, at-expiry: which Redis? Add %sredis URL", dashes(checking));
    if (scenario->work.holds_rounds && scenario->work.shape != WORK_BURST)
        wrong(checking, 0, "before-round, at-expiry: they go with burst");
    if (wants_target && !has_stack(scenario) && scenario->work.target_count == 0)
        wrong(checking, 0, "before-round: whose path? Write http://host:port/path");
}

static void check_writes(struct checking *checking)
{
    const struct scenario *scenario = checking->scenario;
    for (size_t i = 0; i < scenario->write_count; i++) {
        const struct scenario_write *write = &scenario->writes[i];
        if (!has_stack(scenario) && scenario->database_url[0] == '\0')
            wrong(checking, 0, "write: a database is needed: %sdatabase URL", dashes(checking));
        if (write->first_key != write->last_key && strstr(write->sql, "{key}") == NULL)
            wrong(checking, 0, "write: the statement does not say where its key goes: {key}");
        if (asks_tls(scenario, write->then))
            wrong(checking, 0, "write: %.100s: %s", write->then, no_tls);
        if (!has_same_words(scenario, write))
            wrong(checking, 0, "write: no URL has its keys from %.100s: {@FILE}", write->words->path);
    }
}

/* ---- what happens ---- */

static void check_event(struct checking *checking, const struct scenario_event *event)
{
    const struct scenario *scenario = checking->scenario;
    const struct scenario_action *action = &event->action;
    if (action->party != SCENARIO_NOBODY && !has_stack(scenario))
        wrong(checking, event->line,
              "\"%s\": only a stack's servers can be broken; use run \"...\" for yours", event->text);
    else if (action->process > scenario->process_count)
        wrong(checking, event->line, "\"%s\": no such process (of %u)", event->text,
              (unsigned)scenario->process_count);
    if (action->verb == SCENARIO_FAILOVER && !scenario->has_replica)
        wrong(checking, event->line, "redis failover: a line \"replica\" is missing");
    if ((action->party == SCENARIO_LINK_REDIS && !scenario->proxies_redis) ||
        (action->party == SCENARIO_LINK_POSTGRES && !scenario->proxies_postgres))
        wrong(checking, event->line, "\"%s\": a line \"proxy %s\" is missing", event->text,
              action->party == SCENARIO_LINK_REDIS ? "redis" : "postgres");
    if (action->verb == SCENARIO_SQL && !has_stack(scenario) && scenario->database_url[0] == '\0')
        wrong(checking, event->line, "sql: a database is needed: %sdatabase URL", dashes(checking));
    if (action->verb == SCENARIO_POST && asks_tls(scenario, action->argument))
        wrong(checking, event->line, "\"%s\": %s", event->text, no_tls);
    if (event->is_on_load && !counts_by_log(scenario))
        wrong(checking, event->line,
              "on load: only the statement log knows when a load begins: count log:PATH");
    if (!event->is_on_load && scenario->work.shape == WORK_RATE && event->at_ms > scenario->work.duration_ms)
        wrong(checking, event->line, "\"%s\" at %u ms: the run is over by then", event->text,
              (unsigned)event->at_ms);
}

/* ---- what must hold ---- */

static bool has_variant(const struct scenario *scenario, const char *name)
{
    for (size_t i = 0; i < scenario->variant_count; i++) {
        if (strcmp(scenario->variants[i], name) == 0)
            return true;
    }
    return false;
}

static bool does_something(const struct scenario *scenario)
{
    for (size_t i = 0; i < scenario->event_count; i++) {
        if (scenario->events[i].action.verb != SCENARIO_NOTE)
            return true;
    }
    return false;
}

static void check_expect(struct checking *checking, const struct expect *expect, unsigned line)
{
    const struct scenario *scenario = checking->scenario;
    unsigned needs = expect_needs(expect);
    if (expect->part == EXPECT_PART_URL && expect->part_number >= scenario->work.url_count)
        wrong(checking, line, "\"%s\": no such %s (of %zu)", expect->text,
              remedy(checking, "ask line", "--url"), scenario->work.url_count);
    if (expect->variant[0] != '\0' && !has_variant(scenario, expect->variant) && scenario->variant_count != 1)
        wrong(checking, line, "\"in %s\": not a value of the vary line", expect->variant);
    if ((needs & EXPECT_NEEDS_LOADS) != 0 && !has_stack(scenario) && scenario->way == WITNESS_NONE)
        wrong(checking, line,
              "\"%s\": loads are not counted: say where, by %scount log:PATH or %sdatabase URL", expect->text,
              dashes(checking), dashes(checking));
    else if ((needs & EXPECT_NEEDS_KEYS) != 0 && !counts_by_log(scenario))
        wrong(checking, line,
              "\"%s\": only the statement log knows keys and instants: %scount log:PATH, or expect loads",
              expect->text, dashes(checking));
    if ((needs & EXPECT_NEEDS_REDIS) != 0 && !has_stack(scenario) && scenario->redis_url[0] == '\0')
        wrong(checking, line, "\"%s\": redis is needed: add %sredis URL", expect->text, dashes(checking));
    if (expect->figure == EXPECT_STALE && (scenario->write_count == 0 || scenario->version_after[0] == '\0'))
        wrong(checking, line, "\"%s\": a write and %s are needed", expect->text,
              remedy(checking, "a version", "--version-after"));
    if (expect->figure == EXPECT_RECOVERY && (scenario->work.shape != WORK_RATE || !does_something(scenario)))
        wrong(checking, line, "\"%s\": a rate and something that is done to the service are needed",
              expect->text);
    if (expect->has_window && scenario->work.shape == WORK_RATE && expect->to_ms > scenario->work.duration_ms)
        wrong(checking, line, "\"%s\": the run is over by then", expect->text);
}

void scenario_check(const struct scenario *scenario, scenario_complain *complain, void *context)
{
    struct checking checking = {.scenario = scenario, .complain = complain, .context = context};
    check_servers(&checking);
    check_counting(&checking);
    check_work(&checking);
    check_cold(&checking);
    check_writes(&checking);
    for (size_t i = 0; i < scenario->event_count; i++)
        check_event(&checking, &scenario->events[i]);
    for (size_t i = 0; i < scenario->expect_count; i++)
        check_expect(&checking, &scenario->expects[i], scenario->expect_lines[i]);
}
