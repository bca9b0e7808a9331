/* SPDX-License-Identifier: MIT */
/* scenario_take.c - one directive of a scenario, from a file's line or an option; see scenario.h. */
#include "load/play/scenario_taking.h"

#include <stdio.h>
#include <string.h>

/* ---- words ---- */

bool taking_refuse(struct taking *taking, const char *reason, const char *word)
{
    snprintf(taking->why, SCENARIO_WHY_BYTES, "%s%s%.200s%s", reason, word != NULL ? " \"" : "",
             word != NULL ? word : "", word != NULL ? "\"" : "");
    return false;
}

bool taking_number(struct taking *taking, uint32_t least, uint32_t most, uint32_t *out)
{
    char range[64];
    const char *word = words_next(taking->words);
    if (word == NULL)
        return false;
    if (word_number(word, least, most, out))
        return true;
    snprintf(range, sizeof range, "a number from %u to %u is needed, not", (unsigned)least, (unsigned)most);
    return taking_refuse(taking, range, word);
}

bool taking_time(struct taking *taking, uint32_t *out_ms)
{
    const char *word = words_next(taking->words);
    if (word == NULL)
        return false;
    return word_duration_ms(word, out_ms) ||
           taking_refuse(taking, "a time like 250ms, 1.5s or 2m is needed, not", word);
}

bool taking_percent(struct taking *taking, uint32_t *out)
{
    const char *word = words_next(taking->words);
    double percent;
    if (word == NULL)
        return false;
    if (!word_percent(word, &percent))
        return taking_refuse(taking, "a percentage like 50% is needed, not", word);
    *out = (uint32_t)(percent + 0.5);
    return true;
}

bool taking_text(struct taking *taking, char *out, size_t out_bytes)
{
    const char *word = words_next(taking->words);
    if (word == NULL || word[0] == '\0')
        return false;
    return (size_t)snprintf(out, out_bytes, "%s", word) < out_bytes ||
           taking_refuse(taking, "too long:", word);
}

/* ---- the stack ---- */

static bool is_setting(const char *word)
{
    size_t name_bytes = strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_");
    return name_bytes > 0 && word[name_bytes] == '=';
}

/* The stack's own, which a scenario cannot choose. */
static bool is_ours(const char *word)
{
    static const char *const ours[] = {
        "LISTEN=", "OPS_LISTEN=", "REDIS_URL=", "DATABASE_URL=", "OPS_TOKEN_FILE="};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
        if (strncmp(word, ours[i], strlen(ours[i])) == 0)
            return true;
    }
    return false;
}

static bool take_stack(struct taking *taking)
{
    struct scenario *scenario = taking->scenario;
    if (!taking_number(taking, 1, SCENARIO_PROCESSES_MAX, &scenario->process_count))
        return false;
    for (const char *word = words_next(taking->words); word != NULL; word = words_next(taking->words)) {
        if (!is_setting(word))
            return taking_refuse(taking, "a setting is NAME=value, not", word);
        if (is_ours(word))
            return taking_refuse(taking, "the stack chooses this itself:", word);
        if (scenario->setting_count == SCENARIO_SETTINGS_MAX || strlen(word) >= SCENARIO_SETTING_BYTES)
            return taking_refuse(taking, "too many settings, or too long:", word);
        snprintf(scenario->settings[scenario->setting_count++], SCENARIO_SETTING_BYTES, "%s", word);
    }
    return true;
}

static bool take_products(struct taking *taking)
{
    return taking_number(taking, 100, 99999999, &taking->scenario->product_count);
}

static bool take_vary(struct taking *taking)
{
    struct scenario *scenario = taking->scenario;
    if (!taking_text(taking, scenario->vary, sizeof scenario->vary))
        return false;
    while (words_peek(taking->words) != NULL) {
        if (scenario->variant_count == SCENARIO_VARIANTS_MAX)
            return taking_refuse(taking, "at most 8 values", NULL);
        if (!taking_text(taking, scenario->variants[scenario->variant_count++], SCENARIO_NAME_BYTES))
            return false;
    }
    return scenario->variant_count > 0;
}

static bool take_proxy(struct taking *taking)
{
    bool any = false;
    for (;; any = true) {
        if (words_skip(taking->words, "redis"))
            taking->scenario->proxies_redis = true;
        else if (words_skip(taking->words, "postgres"))
            taking->scenario->proxies_postgres = true;
        else
            return any;
    }
}

static bool take_replica(struct taking *taking)
{
    taking->scenario->has_replica = true;
    return true;
}

/* ---- somebody's own service ---- */

static bool take_target(struct taking *taking)
{
    struct work *work = &taking->scenario->work;
    bool any = false;
    for (const char *word = words_next(taking->words); word != NULL; word = words_next(taking->words)) {
        if (work->target_count == WORK_TARGETS_MAX)
            return taking_refuse(taking, "too many targets", NULL);
        if (!work_target_parse(word, &work->targets[work->target_count], taking->why))
            return false;
        work->target_count++;
        any = true;
    }
    return any;
}

static bool take_database(struct taking *taking)
{
    return taking_text(taking, taking->scenario->database_url, sizeof taking->scenario->database_url);
}

static bool take_redis(struct taking *taking)
{
    return taking_text(taking, taking->scenario->redis_url, sizeof taking->scenario->redis_url);
}

static bool take_count(struct taking *taking)
{
    struct scenario *scenario = taking->scenario;
    scenario->has_count = true;
    if (words_skip(taking->words, "none"))
        return true;
    if (words_skip(taking->words, "statements")) {
        scenario->way = WITNESS_STATEMENTS;
        return true;
    }
    if (words_skip(taking->words, "log")) {
        scenario->way = WITNESS_LOG;
        return taking_text(taking, scenario->log_path, sizeof scenario->log_path);
    }
    scenario->way = WITNESS_SQL;
    return words_skip(taking->words, "sql") &&
           taking_text(taking, scenario->counter_sql, sizeof scenario->counter_sql);
}

static bool take_queries(struct taking *taking)
{
    return taking_text(taking, taking->scenario->statement, sizeof taking->scenario->statement);
}

static bool take_ttl(struct taking *taking)
{
    taking->scenario->has_ttl = true;
    return taking_time(taking, &taking->scenario->ttl_ms) &&
           (!words_skip(taking->words, "jitter") ||
            taking_percent(taking, &taking->scenario->jitter_percent));
}

/* ---- writes, events, expectations ---- */

/* "7" or "1-20" */
static bool next_keys(struct taking *taking, struct scenario_write *write)
{
    char first[16];
    const char *word = words_next(taking->words);
    const char *dash = word != NULL ? strchr(word, '-') : NULL;
    if (word == NULL)
        return false;
    snprintf(first, sizeof first, "%.*s", dash != NULL ? (int)(dash - word) : 15, word);
    if (word_number(first, 0, UINT32_MAX, &write->first_key) &&
        word_number(dash != NULL ? dash + 1 : first, write->first_key, UINT32_MAX, &write->last_key))
        return true;
    return taking_refuse(taking, "keys are one number, or like 1-20, not", word);
}

static bool take_write(struct taking *taking)
{
    struct scenario *scenario = taking->scenario;
    if (scenario->write_count == SCENARIO_WRITES_MAX)
        return taking_refuse(taking, "at most 4 of them", NULL);
    struct scenario_write *write = &scenario->writes[scenario->write_count];
    memset(write, 0, sizeof *write);
    if (!words_skip(taking->words, "every") || !taking_time(taking, &write->every_ms))
        return false;
    if (!words_skip(taking->words, "key") && !words_skip(taking->words, "keys"))
        return false;
    if (!next_keys(taking, write) || !words_skip(taking->words, "sql") ||
        !taking_text(taking, write->sql, sizeof write->sql))
        return false;
    if (words_skip(taking->words, "then") && !taking_text(taking, write->then, sizeof write->then))
        return false;
    if (write->every_ms == 0)
        return taking_refuse(taking, "every 0ms is too often", NULL);
    scenario->write_count++;
    return true;
}

static bool take_at(struct taking *taking)
{
    return scenario_take_event(taking->scenario, taking->words, false, taking->line, taking->why);
}

static bool take_on(struct taking *taking)
{
    return scenario_take_event(taking->scenario, taking->words, true, taking->line, taking->why);
}

static bool take_expect(struct taking *taking)
{
    struct scenario *scenario = taking->scenario;
    if (scenario->expect_count == SCENARIO_EXPECTS_MAX)
        return taking_refuse(taking, "too many expectations: at most 62", NULL);
    if (!expect_parse(taking->words, &scenario->expects[scenario->expect_count], taking->why))
        return false;
    scenario->expect_lines[scenario->expect_count++] = taking->line;
    return true;
}

static bool take_title(struct taking *taking)
{
    return taking_text(taking, taking->scenario->title, sizeof taking->scenario->title);
}

/* ---- all of them ---- */

static const struct directive {
    const char *name;
    take *take;
    bool repeats;
    const char *usage;
} directives[] = {
    {"title", take_title, false, "title TEXT"},
    {"stack", take_stack, false, "stack PROCESSES [NAME=value ...]"},
    {"products", take_products, false, "products COUNT"},
    {"vary", take_vary, false, "vary NAME VALUE ..."},
    {"proxy", take_proxy, false, "proxy redis|postgres ..."},
    {"replica", take_replica, false, "replica"},
    {"target", take_target, true, "target HOST:PORT ..."},
    {"database", take_database, false, "database URL"},
    {"redis", take_redis, false, "redis URL"},
    {"count", take_count, false, "count log PATH | statements | sql \"SELECT ...\" | none"},
    {"queries", take_queries, false, "queries TEXT"},
    {"ttl", take_ttl, false, "ttl TIME [jitter PERCENT%]"},
    {"warm", take_warm, true, "warm /PATH"},
    {"ask", take_ask, true, "ask /PATH|URL [weight N]"},
    {"burst", take_burst, false, "burst N [connections] [N rounds [every TIME] [pause TIME]]"},
    {"rate", take_rate, false, "rate N [per second] for TIME [poisson] [over N [connections]]"},
    {"leave", take_leave, false, "leave PERCENT% after TIME"},
    {"limit", take_limit, false, "limit TIME"},
    {"connections", take_connections, false, "connections close|keep"},
    {"method", take_method, false, "method NAME"},
    {"header", take_header, true, "header \"NAME: VALUE\""},
    {"version", take_version, false, "version TEXT"},
    {"generators", take_generators, false, "generators N"},
    {"sources", take_sources, false, "sources N"},
    {"seed", take_seed, false, "seed N"},
    {"write", take_write, true, "write every TIME keys N|N-N sql \"STATEMENT\" [then /PATH]"},
    {"at", take_at, true, "at TIME ACTION [for TIME] [as NAME]"},
    {"on", take_on, true, "on load [N] [after TIME] ACTION [for TIME] [as NAME]"},
    {"expect", take_expect, true, "expect FIGURE [of PART] OPERATOR VALUE [from TIME to TIME] [in VARIANT]"},
};

enum { DIRECTIVES = sizeof directives / sizeof *directives };
_Static_assert(DIRECTIVES <= 64, "struct scenario keeps a bit for each");

static bool refuse_name(struct taking *taking, const char *name)
{
    size_t used =
        (size_t)snprintf(taking->why, SCENARIO_WHY_BYTES, "unknown: \"%.40s\"; there are: let", name);
    for (size_t i = 0; i < DIRECTIVES && used < SCENARIO_WHY_BYTES; i++)
        used += (size_t)snprintf(taking->why + used, SCENARIO_WHY_BYTES - used, ", %s", directives[i].name);
    return false;
}

/* How it is written is added to whatever reason there is. */
static bool fail(struct taking *taking, const struct directive *directive)
{
    char reason[SCENARIO_WHY_BYTES];
    snprintf(reason, sizeof reason, "%s", taking->why);
    snprintf(taking->why, SCENARIO_WHY_BYTES, "%s%s%.700s%swrite: %s", directive->name,
             reason[0] != '\0' ? ": " : "", reason, reason[0] != '\0' ? "; " : ": ", directive->usage);
    return false;
}

static bool take_directive(struct taking *taking, size_t index)
{
    const struct directive *directive = &directives[index];
    uint64_t bit = (uint64_t)1 << index;
    if (!directive->repeats && (taking->scenario->told & bit) != 0)
        return taking_refuse(taking, "a second line with", directive->name);
    taking->scenario->told |= bit;
    if (!directive->take(taking))
        return fail(taking, directive);
    if (words_peek(taking->words) == NULL)
        return true;
    taking_refuse(taking, "this is too much:", words_peek(taking->words));
    return fail(taking, directive);
}

bool scenario_take(struct scenario *scenario, struct words *words, unsigned line,
                   char why[static SCENARIO_WHY_BYTES])
{
    struct taking taking = {.scenario = scenario, .words = words, .line = line, .why = why};
    why[0] = '\0';
    const char *name = words_next(words);
    if (name == NULL)
        return true;
    for (size_t i = 0; i < DIRECTIVES; i++) {
        if (strcmp(name, directives[i].name) == 0)
            return take_directive(&taking, i);
    }
    return refuse_name(&taking, name);
}
