/* SPDX-License-Identifier: MIT */
/*
 * scenario_take.c - the words a line can begin with: one table says how each is written, within which limits, where
 * it goes and what it means. Reading, mistakes and --help follow from it. See scenario.h.
 *
 * The arguments are shown to people and read by:
 *
 *     every            is written as it is
 *     TIME             anything else is for the next of the row's slots
 *     [every TIME]     may be left out; it is there if its first word is, [N rounds] if any word is
 *
 * A row with a function of its own reads its whole line by that, and shows its arguments only.
 *
 * Pure. Errors: false, and why; "" if nothing better is known than how the line is written.
 */
#include "load/play/scenario.h"

#include "load/base/number.h"
#include "load/play/replay.h"

#include <stdio.h>
#include <string.h>

_Static_assert(SCENARIO_LETS_MAX == 16 && SCENARIO_SETTINGS_MAX == 40 && SCENARIO_SETTING_BYTES == 96 &&
                   WORK_TARGETS_MAX == 32 && SCENARIO_TEXT_BYTES == 1024 &&
                   sizeof((struct scenario *)0)->headers == 2048,
               "as in the texts");

struct taking {
    struct scenario *scenario;
    struct words *words;
    unsigned line;
    char *why; /* SCENARIO_WHY_BYTES */
};

struct slot {
    bool (*take)(struct taking *taking, const struct slot *slot);
    size_t at;            /* where it goes, in struct scenario */
    uint32_t least, most; /* of a number; the room for a text */
};

static void *place_of(const struct taking *taking, const struct slot *slot)
{
    return (char *)taking->scenario + slot->at;
}

/* ---- what a slot takes ---- */

static bool take_number(struct taking *taking, const struct slot *slot)
{
    return words_take_number(taking->words, slot->least, slot->most, place_of(taking, slot), taking->why);
}

static bool take_time(struct taking *taking, const struct slot *slot)
{
    return words_take_ms(taking->words, place_of(taking, slot), taking->why);
}

static bool take_percent(struct taking *taking, const struct slot *slot)
{
    return words_take_percent(taking->words, place_of(taking, slot), taking->why);
}

static bool take_text(struct taking *taking, const struct slot *slot)
{
    return words_take_text(taking->words, place_of(taking, slot), slot->most, taking->why);
}

/* It decides what is asked for, how, and when. */
static bool is_replay(const struct taking *taking)
{
    return taking->scenario->script != NULL &&
           !words_refuse(taking->why, "not below a replay, which it would change", NULL);
}

static bool take_connections(struct taking *taking, const struct slot *slot)
{
    if (is_replay(taking))
        return false;
    taking->scenario->work.shape = WORK_BURST;
    return take_number(taking, slot);
}

static bool take_per_second(struct taking *taking, const struct slot *slot)
{
    if (is_replay(taking))
        return false;
    taking->scenario->work.shape = WORK_RATE;
    return take_number(taking, slot);
}

static bool take_method(struct taking *taking, const struct slot *slot)
{
    const char *method = taking->scenario->method;
    return !is_replay(taking) && take_text(taking, slot) &&
           (strspn(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == strlen(method) ||
            words_refuse(taking->why, "a method is written in capital letters, not", method));
}

static bool take_seed(struct taking *taking, const struct slot *slot)
{
    uint32_t seed;
    if (!words_take_number(taking->words, slot->least, slot->most, &seed, taking->why))
        return false;
    taking->scenario->work.seed = seed;
    return true;
}

/* ---- what takes the whole line ---- */

static const char name_letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ_";

static bool take_let(struct taking *taking)
{
    struct scenario *scenario = taking->scenario;
    const char *name = words_next(taking->words);
    if (name == NULL || words_peek(taking->words) == NULL)
        return false;
    if (name[0] == '\0' || strlen(name) >= SCENARIO_NAME_BYTES || strspn(name, name_letters) != strlen(name))
        return words_refuse(taking->why, "a name is written in capital letters, not", name);
    if (scenario->let_count == SCENARIO_LETS_MAX || scenario_find_let(scenario, name, strlen(name)) != NULL)
        return words_refuse(taking->why, "a second one, or more than 16:", name);
    struct scenario_let *let = &scenario->lets[scenario->let_count];
    snprintf(let->name, sizeof let->name, "%s", name);
    snprintf(let->value, sizeof let->value, "%s", words_next(taking->words));
    scenario->let_count++;
    return true;
}

static bool is_setting(const char *word)
{
    size_t name_bytes = strspn(word, name_letters);
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
    if (!words_take_number(taking->words, 1, SCENARIO_PROCESSES_MAX, &scenario->process_count, taking->why))
        return false;
    for (const char *word = words_next(taking->words); word != NULL; word = words_next(taking->words)) {
        if (!is_setting(word))
            return words_refuse(taking->why, "a setting is NAME=value, not", word);
        if (is_ours(word))
            return words_refuse(taking->why, "the stack sets this itself:", word);
        if (scenario->setting_count == SCENARIO_SETTINGS_MAX || strlen(word) >= SCENARIO_SETTING_BYTES)
            return words_refuse(taking->why, "more than 40 settings, or longer than 95 bytes:", word);
        snprintf(scenario->settings[scenario->setting_count++], SCENARIO_SETTING_BYTES, "%s", word);
    }
    return true;
}

static bool take_vary(struct taking *taking)
{
    struct scenario *scenario = taking->scenario;
    if (!words_take_text(taking->words, scenario->vary, sizeof scenario->vary, taking->why))
        return false;
    while (words_peek(taking->words) != NULL) {
        if (scenario->variant_count == SCENARIO_VARIANTS_MAX)
            return words_refuse(taking->why, "at most 8 values", NULL);
        if (!words_take_text(taking->words, scenario->variants[scenario->variant_count++],
                             SCENARIO_NAME_BYTES, taking->why))
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

static bool take_target(struct taking *taking)
{
    struct work *work = &taking->scenario->work;
    bool any = false;
    for (const char *word = words_next(taking->words); word != NULL; word = words_next(taking->words)) {
        if (work->target_count == WORK_TARGETS_MAX)
            return words_refuse(taking->why, "at most 32 targets", NULL);
        if (!work_target_parse(word, &work->targets[work->target_count], taking->why))
            return false;
        work->target_count++;
        any = true;
    }
    return any;
}

static bool take_connections_kept(struct taking *taking)
{
    bool closes = words_skip(taking->words, "close");
    taking->scenario->work.keeps_alive = !closes;
    return closes || words_skip(taking->words, "keep");
}

static bool take_header(struct taking *taking)
{
    char line[SCENARIO_TEXT_BYTES], *headers = taking->scenario->headers;
    size_t used = strlen(headers), room = sizeof taking->scenario->headers - used;
    if (!words_take_text(taking->words, line, sizeof line, taking->why))
        return false;
    const char *colon = strchr(line, ':');
    if (colon == NULL || colon == line || strpbrk(line, "\r\n") != NULL)
        return words_refuse(taking->why, "a header is \"Name: value\", not", line);
    if ((size_t)snprintf(headers + used, room, "%s\r\n", line) < room)
        return true;
    headers[used] = '\0';
    return words_refuse(taking->why, "the headers are too long: at most 2047 bytes together", NULL);
}

static bool take_count(struct taking *taking)
{
    struct scenario *scenario = taking->scenario;
    if (words_skip(taking->words, "none"))
        return true;
    if (words_skip(taking->words, "statements")) {
        scenario->way = WITNESS_STATEMENTS;
        return true;
    }
    if (words_skip(taking->words, "log")) {
        scenario->way = WITNESS_LOG;
        return words_take_text(taking->words, scenario->log_path, sizeof scenario->log_path, taking->why);
    }
    scenario->way = WITNESS_SQL;
    return words_skip(taking->words, "sql") &&
           words_take_text(taking->words, scenario->counter_sql, sizeof scenario->counter_sql, taking->why);
}

static bool add_url(struct taking *taking, struct work *work)
{
    char url[SCENARIO_TEXT_BYTES];
    if (words_peek(taking->words) == NULL)
        return false;
    if (!words_rest(taking->words, url, sizeof url))
        return words_refuse(taking->why, "too long: at most 1023 bytes", NULL);
    return work_url_add(work, url, taking->why);
}

static bool take_warm(struct taking *taking)
{
    struct work *warm = &taking->scenario->warm;
    if (!add_url(taking, warm))
        return false;
    enum work_keys keys = warm->urls[warm->url_count - 1].keys;
    return keys == WORK_NO_KEY || keys == WORK_EACH ||
           words_refuse(taking->why, "a warm-up requests each key once: {each:1-2000}", NULL);
}

static bool take_ask(struct taking *taking)
{
    if (is_replay(taking))
        return false;
    return add_url(taking, &taking->scenario->work);
}

/* "7" or "1-20" */
static bool take_keys(struct taking *taking, struct scenario_write *write)
{
    uint64_t first, last;
    const char *word = words_next(taking->words), *at = word;
    if (word == NULL)
        return false;
    bool good = number_scan(&at, UINT32_MAX, &first);
    last = first;
    if (good && *at == '-') {
        at++;
        good = number_scan(&at, UINT32_MAX, &last);
    }
    if (!good || *at != '\0' || last < first)
        return words_refuse(taking->why, "keys are one number or a range like 1-20, not", word);
    write->first_key = (uint32_t)first;
    write->last_key = (uint32_t)last;
    return true;
}

static bool take_write(struct taking *taking)
{
    struct scenario *scenario = taking->scenario;
    struct words *words = taking->words;
    if (scenario->write_count == SCENARIO_WRITES_MAX)
        return words_refuse(taking->why, "at most 4 writes", NULL);
    struct scenario_write *write = &scenario->writes[scenario->write_count];
    memset(write, 0, sizeof *write);
    if (!words_skip(words, "every") || !words_take_ms(words, &write->every_ms, taking->why) ||
        (!words_skip(words, "key") && !words_skip(words, "keys")) || !take_keys(taking, write) ||
        !words_skip(words, "sql") || !words_take_text(words, write->sql, sizeof write->sql, taking->why) ||
        (words_skip(words, "then") && !words_take_text(words, write->then, sizeof write->then, taking->why)))
        return false;
    if (write->every_ms == 0)
        return words_refuse(taking->why, "every 0ms is too often", NULL);
    scenario->write_count++;
    return true;
}

/* "2" or "2x" */
static bool take_speed(struct words *words, double *speed, char *why)
{
    char number[16];
    const char *word = words_next(words);
    if (word == NULL)
        return false;
    snprintf(number, sizeof number, "%s", word);
    if (number[0] != '\0' && number[strlen(number) - 1] == 'x')
        number[strlen(number) - 1] = '\0';
    if (number_read_decimal(number, speed) && *speed >= 0.001 && *speed <= 1000)
        return true;
    return words_refuse(why, "a speed is a number from 0.001 to 1000, like 2 or 2x, not", word);
}

/* The file is read at once: what is wrong with it is known before anything starts. */
static bool take_replay(struct taking *taking)
{
    struct scenario *scenario = taking->scenario;
    struct words *words = taking->words;
    struct replay replay = {.path = words_next(words), .method = scenario->method, .speed = 1};
    if (replay.path == NULL ||
        (words_skip(words, "speed") && !take_speed(words, &replay.speed, taking->why)) ||
        (words_skip(words, "for") && !words_take_ms(words, &replay.span_ms, taking->why)) ||
        (words_skip(words, "over") &&
         !words_take_number(words, 1, WORK_CONNECTIONS_MAX, &scenario->work.connection_count, taking->why)))
        return false;
    words_skip(words, "connections");
    if (scenario->work.shape == WORK_RATE)
        return words_refuse(taking->why, "rate or replay, not both", NULL);
    if (scenario->work.url_count > 0)
        return words_refuse(taking->why, "it asks for what the log has: no ask, and no URL but targets",
                            NULL);
    if (words_peek(words) != NULL)
        return true; /* the caller refuses it */
    if (!replay_read(&replay, &scenario->script, scenario->replay_note, taking->why))
        return false;
    work_follow(&scenario->work, scenario->script);
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

/* Lines of one paragraph; what does not fit is refused, not cut. */
static bool take_about(struct taking *taking)
{
    char *about = taking->scenario->about;
    const char *text = words_next(taking->words);
    size_t used = strlen(about), room = sizeof taking->scenario->about - used;
    bool begins = used == 0 || about[used - 1] == '\n';
    if (text == NULL)
        text = begins ? "" : "\n\n";
    int bytes = snprintf(about + used, room, "%s%s", begins || text[0] == '\n' ? "" : " ", text);
    return (size_t)bytes < room ||
           words_refuse(taking->why, "the text about it is too long: at most 1023 bytes", NULL);
}

static bool take_expect(struct taking *taking)
{
    struct scenario *scenario = taking->scenario;
    if (scenario->expect_count == SCENARIO_EXPECTS_MAX)
        return words_refuse(taking->why, "too many expectations: at most 62", NULL);
    if (!expect_parse(taking->words, &scenario->expects[scenario->expect_count], taking->why))
        return false;
    scenario->expect_lines[scenario->expect_count++] = taking->line;
    return true;
}

/* ---- the table ---- */

enum { SLOTS_MAX = 4 };

#define AT(member) offsetof(struct scenario, member)
#define ROOM(member) sizeof(((struct scenario *)NULL)->member)
#define NUMBER(member, from, to) .take = take_number, .at = AT(member), .least = (from), .most = (to)
#define TIME(member) .take = take_time, .at = AT(member)
#define PERCENT(member) .take = take_percent, .at = AT(member)
#define TEXT(member) .take = take_text, .at = AT(member), .most = ROOM(member)

static const struct directive {
    struct words_help shown;
    struct slot slots[SLOTS_MAX];
    bool (*take)(struct taking *taking); /* takes the whole line instead */
    bool repeats;
    const char *flag; /* this word, if it is there ... */
    size_t flag_at;   /* ... sets this */
} directives[] = {
    {{"let", "NAME VALUE",
      "${NAME} stands for VALUE in the lines below; --set NAME=VALUE gives it another value"},
     .take = take_let,
     .repeats = true},
    {{"title", "TEXT", "the title of the report"}, .slots = {{TEXT(title)}}},
    {{"about", "TEXT",
      "what the report says below its headline: several such lines are one paragraph, one without a text "
      "begins "
      "another. Comments (#) are not in the report"},
     .take = take_about,
     .repeats = true},
    {{"stack", "PROCESSES [NAME=value ...]",
      "a private Redis and PostgreSQL, and this many catalogd processes with these settings; FRESH_MS "
      "and JITTER_PERCENT are its ttl"},
     .take = take_stack},
    {{"products", "COUNT", "rows in its database, with ids from 1 (default 5000)"},
     .slots = {{NUMBER(product_count, 100, 99999999)}}},
    {{"vary", "NAME VALUE ...",
      "runs the scenario once for each value of this setting, with one table for all"},
     .take = take_vary},
    {{"proxy", "redis|postgres ...", "puts a breakable TCP proxy between the processes and that server"},
     .take = take_proxy},
    {{"replica", NULL, "a second Redis that follows the first"},
     .flag = "replica",
     .flag_at = AT(has_replica)},
    {{"target", "HOST:PORT ...", "the address of the service; several are asked in turn; may be repeated"},
     .take = take_target,
     .repeats = true},
    {{"database", "URL", "postgresql://user@host:port/name, for count, queries, write and sql"},
     .slots = {{TEXT(database_url)}}},
    {{"redis", "URL", "redis://host:port/0 or unix:///path; its commands are counted"},
     .slots = {{TEXT(redis_url)}}},
    {{"count", "log PATH | statements | sql \"SELECT ...\" | none",
      "how loads are counted: in the server's statement log (log_statement=all), in pg_stat_statements, "
      "by a query for a number that only grows, or not at all (default). A stack counts in its own log"},
     .take = take_count,
     .flag = "count",
     .flag_at = AT(has_count)},
    {{"queries", "TEXT",
      "a statement that contains this text is a load. Best is a text that each URL causes exactly once. "
      "The key of a load is its parameters or, without any, its literals"},
     .slots = {{TEXT(statement)}}},
    {{"ttl", "TIME [jitter PERCENT%]", "how long a value lives: what loads per expiry is computed from"},
     .slots = {{TIME(ttl_ms)}, {PERCENT(jitter_percent)}},
     .flag = "ttl",
     .flag_at = AT(has_ttl)},
    {{"warm", "/PATH", "requested once before the run; with {each:1-2000} once for each key"},
     .take = take_warm,
     .repeats = true},
    {{"ask", "/PATH|URL [weight N]",
      "what to request: http://host:port/path, or a /path of the targets; may be repeated. \"/path "
      "weight 3\" is requested three times as often. One {...} in it becomes a number: {1-900}, "
      "{zipf:1-50000}, {each:1-2000}, {random}"},
     .take = take_ask,
     .repeats = true},
    {{"burst", "N [connections] [N rounds [every TIME] [pause TIME]]",
      "N connections, all released at the same instant (default 1000). Each further round begins "
      "\"every\" TIME after the start of the previous one, and at least a \"pause\" after its end"},
     .slots = {{.take = take_connections,
                .at = AT(work.connection_count),
                .least = 1,
                .most = WORK_CONNECTIONS_MAX},
               {NUMBER(work.round_count, 1, 100000)},
               {TIME(work.every_ms)},
               {TIME(work.pause_ms)}}},
    {{"rate", "N [per second] for TIME [poisson] [over N [connections]]",
      "N requests are due each second, whatever became of earlier ones; poisson: at random instants. A "
      "request takes a free connection, opens one, or waits if that many are open (default 1000)"},
     .slots = {{.take = take_per_second, .at = AT(work.per_second), .least = 1, .most = 10000000},
               {TIME(work.duration_ms)},
               {NUMBER(work.connection_count, 1, WORK_CONNECTIONS_MAX)}},
     .flag = "poisson",
     .flag_at = AT(work.is_poisson)},
    {{"replay", "FILE [speed N] [for TIME] [over N [connections]]",
      "or: the requests of an access log (combined or JSON lines), at their distances in time; speed 2: in "
      "half the time; for TIME: only so much of it. GET and HEAD, or those of the \"method\" above it"},
     .take = take_replay},
    {{"leave", "PERCENT% after TIME", "this share of the clients hangs up this long after sending"},
     .slots = {{PERCENT(work.leave_percent)}, {TIME(work.leave_ms)}}},
    {{"limit", "TIME", "for one request, from the instant it was due (default 30s)"},
     .slots = {{TIME(work.request_limit_ms)}}},
    {{"connections", "close|keep", "close: a new connection for each request (default: keep)"},
     .take = take_connections_kept},
    {{"method", "NAME", "default GET"},
     .slots = {{.take = take_method, .at = AT(method), .most = ROOM(method)}}},
    {{"header", "\"NAME: VALUE\"", "may be repeated"}, .take = take_header, .repeats = true},
    {{"version", "TEXT", "the number after this text in a body is the row's version"},
     .slots = {{TEXT(version_after)}}},
    {{"generators", "N", "client processes (default: one per core, at most 4)"},
     .slots = {{NUMBER(work.generator_count, 1, WORK_GENERATORS_MAX)}}},
    {{"sources", "N", "client addresses 127.0.0.1, 127.0.0.2, ... (default: as many as needed)"},
     .slots = {{NUMBER(work.source_count, 1, 250)}}},
    {{"seed", "N", "the same seed gives the same keys and instants (default 1)"},
     .slots = {{.take = take_seed, .most = UINT32_MAX}}},
    {{"write", "every TIME keys N|N-N sql \"STATEMENT\" [then /PATH]",
      "changes one row after another during the run. {key} stands for the key; the statement returns the "
      "new version; then the path is posted to until the answer is 2xx"},
     .take = take_write,
     .repeats = true},
    {{"at", "TIME ACTION [for TIME] [as NAME]",
      "an action this long after the start; for TIME: undone after so long; as NAME: what reports call it"},
     .take = take_at,
     .repeats = true},
    {{"on", "load [N] [after TIME] ACTION [for TIME] [as NAME]",
      "the same, as soon as a load (the N-th) begins"},
     .take = take_on,
     .repeats = true},
    {{"expect", "FIGURE [of PART] OPERATOR VALUE [from TIME to TIME] [in VARIANT]",
      "what must hold. \"failed = 0\" is expected too, unless a line is about failed (in that variant)"},
     .take = take_expect,
     .repeats = true},
};

enum { DIRECTIVES = sizeof directives / sizeof *directives };
_Static_assert(DIRECTIVES <= 64, "struct scenario keeps a bit for each");

const struct words_help *scenario_word(size_t index)
{
    return index < DIRECTIVES ? &directives[index].shown : NULL;
}

/* ---- reading by it ---- */

struct walk {
    struct taking *taking;
    const struct directive *directive;
    const char *at;          /* in its arguments */
    const struct slot *slot; /* the next */
};

static bool is_literal(const char *token, size_t bytes)
{
    return strspn(token, "abcdefghijklmnopqrstuvwxyz") >= bytes;
}

static size_t token_bytes(const char *at)
{
    return *at == '"' ? strcspn(at + 1, "\"") + 2 : strcspn(at, " []");
}

/* Is what stands in brackets there? */
static bool is_given(const struct walk *walk)
{
    const char *word = words_peek(walk->taking->words);
    size_t bytes = token_bytes(walk->at);
    if (word == NULL || !is_literal(walk->at, bytes))
        return word != NULL;
    return strlen(word) == bytes && strncmp(word, walk->at, bytes) == 0;
}

static void set_flag(const struct walk *walk, const char *word)
{
    const struct directive *directive = walk->directive;
    if (directive->flag != NULL && strcmp(word, directive->flag) == 0)
        *(bool *)((char *)walk->taking->scenario + directive->flag_at) = true;
}

static bool take_token(struct walk *walk, bool is_there)
{
    size_t bytes = token_bytes(walk->at);
    bool good = true;
    if (is_literal(walk->at, bytes)) {
        good = !is_there || is_given(walk);
        if (good && is_there)
            set_flag(walk, words_next(walk->taking->words));
    } else {
        good = !is_there || walk->slot->take(walk->taking, walk->slot);
        walk->slot++;
    }
    walk->at += bytes;
    return good;
}

/* To the end, or that of the brackets; what is not there is passed over. */
static bool take_arguments(struct walk *walk, bool is_there)
{
    for (;;) {
        walk->at += strspn(walk->at, " ");
        char byte = *walk->at;
        if (byte == '[' || byte == ']')
            walk->at++;
        if (byte == '\0' || byte == ']')
            return true;
        if (byte == '[' ? !take_arguments(walk, is_there && is_given(walk)) : !take_token(walk, is_there))
            return false;
    }
}

/* How it is written is added to whatever reason there is. */
static bool fail(struct taking *taking, const struct words_help *shown)
{
    char reason[SCENARIO_WHY_BYTES];
    snprintf(reason, sizeof reason, "%s", taking->why);
    snprintf(taking->why, SCENARIO_WHY_BYTES, "%s: %.700s%swrite: %s%s%s", shown->name, reason,
             reason[0] != '\0' ? "; " : "", shown->name, shown->arguments != NULL ? " " : "",
             shown->arguments != NULL ? shown->arguments : "");
    return false;
}

static bool take_directive(struct taking *taking, size_t index)
{
    const struct directive *directive = &directives[index];
    const char *arguments = directive->shown.arguments != NULL ? directive->shown.arguments : "";
    struct walk walk = {taking, directive, arguments, directive->slots};
    uint64_t bit = (uint64_t)1 << index;
    if (!directive->repeats && (taking->scenario->seen & bit) != 0)
        return words_refuse(taking->why, "a second line with", directive->shown.name);
    taking->scenario->seen |= bit;
    set_flag(&walk, directive->shown.name);
    if (directive->take != NULL ? !directive->take(taking) : !take_arguments(&walk, true))
        return fail(taking, &directive->shown);
    if (words_peek(taking->words) == NULL)
        return true;
    words_refuse(taking->why, "unexpected:", words_peek(taking->words));
    return fail(taking, &directive->shown);
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
        if (strcmp(name, directives[i].shown.name) == 0)
            return take_directive(&taking, i);
    }
    return words_refuse_unknown(why, "word", name, scenario_word);
}
