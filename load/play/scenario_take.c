/* SPDX-License-Identifier: MIT */
/*
 * scenario_take.c - the words a line can begin with, and the options of a run, which are the same: one table says how
 * each is written, within which limits, where it goes and what it means. Reading, mistakes and --help follow from it.
 * See scenario.h.
 *
 * An option's value is the line behind its word: --ttl "1s jitter 10%" is "ttl 1s jitter 10%". Where one word is
 * wanted the whole value is that word.
 *
 * Pure, but for the file of a replay. Errors: false, and why; "" if nothing better is known than how it is written.
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
    const struct directive *directive; /* its row of the table */
    struct words *words;
    unsigned line;
    char *why; /* SCENARIO_WHY_BYTES */
};

struct directive {
    struct words_help shown;  /* as a line; no name: only an option */
    struct words_help option; /* of a run; no name: only a line; no help: the line's */
    bool (*take)(struct taking *taking);
    size_t at;            /* where a single value goes, in struct scenario */
    uint32_t least, most; /* of a number; the room for a text */
    unsigned is;
    unsigned makes;     /* this shape of the work */
    unsigned goes_with; /* only with one of these shapes; 0: with any */
};

enum { BURST = 1, RATE = 2, REPLAY = 4 };
enum { REPEATED = 1, CUT = 2 }; /* CUT: the option's value is cut into words */

static void *place_of(const struct taking *taking)
{
    return (char *)taking->scenario + taking->directive->at;
}

/* ---- one value ---- */

static bool take_number(struct taking *taking)
{
    return words_take_number(taking->words, taking->directive->least, taking->directive->most,
                             place_of(taking), taking->why);
}

static bool take_time(struct taking *taking)
{
    return words_take_ms(taking->words, place_of(taking), taking->why);
}

static bool take_text(struct taking *taking)
{
    return words_take_text(taking->words, place_of(taking), taking->directive->most, taking->why);
}

static bool take_yes(struct taking *taking)
{
    *(bool *)place_of(taking) = true;
    return true;
}

static bool take_method(struct taking *taking)
{
    const char *method = taking->scenario->method;
    return take_text(taking) &&
           (strspn(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == strlen(method) ||
            words_refuse(taking->why, "a method is written in capital letters, not", method));
}

static bool take_seed(struct taking *taking)
{
    uint32_t seed;
    if (!words_take_number(taking->words, 0, taking->directive->most, &seed, taking->why))
        return false;
    taking->scenario->work.seed = seed;
    return true;
}

/* Of a rate or a replay. */
static bool take_span(struct taking *taking)
{
    return words_take_ms(taking->words, &taking->scenario->span_ms, taking->why) &&
           (taking->scenario->span_ms > 0 || words_refuse(taking->why, "0ms is too short", NULL));
}

/* "2" or "2x" */
static bool take_speed(struct taking *taking)
{
    char number[16];
    double *speed = &taking->scenario->replay_speed;
    const char *word = words_next(taking->words);
    if (word == NULL)
        return false;
    snprintf(number, sizeof number, "%s", word);
    if (number[0] != '\0' && number[strlen(number) - 1] == 'x')
        number[strlen(number) - 1] = '\0';
    if (number_read_decimal(number, speed) && *speed >= 0.001 && *speed <= 1000)
        return true;
    return words_refuse(taking->why, "a speed is a number from 0.001 to 1000, like 2 or 2x, not", word);
}

/* ---- a whole line ---- */

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

/* "log:PATH", "statements", "none" */
static bool take_count(struct taking *taking)
{
    struct scenario *scenario = taking->scenario;
    const char *way = words_next(taking->words);
    scenario->has_count = true;
    if (way == NULL)
        return false;
    if (strcmp(way, "none") == 0)
        return true;
    if (strcmp(way, "statements") == 0) {
        scenario->way = WITNESS_STATEMENTS;
        return true;
    }
    scenario->way = WITNESS_LOG;
    if (strncmp(way, "log:", 4) != 0 || way[4] == '\0')
        return false;
    return (size_t)snprintf(scenario->log_path, SCENARIO_TEXT_BYTES, "%s", way + 4) < SCENARIO_TEXT_BYTES ||
           words_refuse(taking->why, "too long: at most 1023 bytes", NULL);
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
    return add_url(taking, &taking->scenario->work);
}

/* "7", "1-20" or "@FILE" */
static bool take_keys(struct taking *taking, struct scenario_write *write)
{
    uint64_t first, last;
    const char *word = words_next(taking->words), *at = word;
    if (word == NULL)
        return false;
    if (word[0] == '@') {
        bool is_read =
            work_words_read(word + 1, strlen(word + 1), WORK_PATH_BYTES, &write->words, taking->why);
        write->last_key = is_read ? (uint32_t)(write->words->count - 1) : 0;
        return is_read;
    }
    bool good = number_scan(&at, UINT32_MAX, &first);
    last = first;
    if (good && *at == '-') {
        at++;
        good = number_scan(&at, UINT32_MAX, &last);
    }
    if (!good || *at != '\0' || last < first)
        return words_refuse(taking->why, "keys are one number, a range like 1-20 or @FILE, not", word);
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
    work_words_free(&write->words);
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

/* "redis COMMAND ..." or "METHOD URL" */
static bool take_cold(struct taking *taking)
{
    static const char *const methods[] = {"GET", "POST", "DELETE"};
    struct scenario *scenario = taking->scenario;
    struct words words = *taking->words;
    const char *how = words_next(&words), *what = words_next(&words);
    bool is_redis = how != NULL && strcmp(how, "redis") == 0, is_method = false;
    for (size_t i = 0; how != NULL && i < sizeof methods / sizeof *methods; i++)
        is_method = is_method || strcmp(how, methods[i]) == 0;
    if (what == NULL || (!is_redis && !is_method))
        return words_refuse(taking->why, "write: redis COMMAND ..., or GET, POST or DELETE with a URL", NULL);
    bool is_url = what[0] == '/' || strncmp(what, "http://", 7) == 0;
    if (is_method && (!is_url || words_next(&words) != NULL))
        return words_refuse(taking->why, "a URL is /path or http://host:port/path, not", what);
    if (scenario->cold_count == SCENARIO_COLDS_MAX ||
        !words_rest(taking->words, scenario->colds[scenario->cold_count], SCENARIO_TEXT_BYTES))
        return words_refuse(taking->why, "at most 8 of them, of 1023 bytes each", NULL);
    scenario->work.holds_rounds = true;
    scenario->cold_count++;
    return true;
}

static bool take_expiry(struct taking *taking)
{
    taking->scenario->work.holds_rounds = true;
    return take_text(taking);
}

static bool take_ttl(struct taking *taking)
{
    struct scenario *scenario = taking->scenario;
    scenario->has_ttl = true;
    return words_take_ms(taking->words, &scenario->ttl_ms, taking->why) &&
           (!words_skip(taking->words, "jitter") ||
            words_take_percent(taking->words, &scenario->jitter_percent, taking->why));
}

static bool take_leave(struct taking *taking)
{
    struct work *work = &taking->scenario->work;
    return words_take_percent(taking->words, &work->leave_percent, taking->why) &&
           words_skip(taking->words, "after") && words_take_ms(taking->words, &work->leave_ms, taking->why);
}

static bool take_burst(struct taking *taking)
{
    struct work *work = &taking->scenario->work;
    struct words *words = taking->words;
    work->shape = WORK_BURST;
    if (!words_take_number(words, taking->directive->least, taking->directive->most, &work->connection_count,
                           taking->why))
        return false;
    words_skip(words, "connections");
    return words_peek(words) == NULL ||
           (words_take_number(words, 1, 100000, &work->round_count, taking->why) &&
            words_skip(words, "rounds") &&
            (!words_skip(words, "every") || words_take_ms(words, &work->every_ms, taking->why)) &&
            (!words_skip(words, "pause") || words_take_ms(words, &work->pause_ms, taking->why)));
}

/* "[over N [connections]]" */
static bool take_over(struct taking *taking)
{
    struct words *words = taking->words;
    if (!words_skip(words, "over"))
        return true;
    bool good = words_take_number(words, 1, WORK_CONNECTIONS_MAX, &taking->scenario->work.connection_count,
                                  taking->why);
    words_skip(words, "connections");
    return good;
}

static bool take_rate(struct taking *taking)
{
    struct work *work = &taking->scenario->work;
    struct words *words = taking->words;
    work->shape = WORK_RATE;
    if (!words_take_number(words, taking->directive->least, taking->directive->most, &work->per_second,
                           taking->why) ||
        (words_skip(words, "per") && !words_skip(words, "second")) ||
        (words_skip(words, "for") && !take_span(taking)))
        return false;
    if (words_skip(words, "poisson"))
        work->is_poisson = true;
    return take_over(taking);
}

/* The log is read by scenario_settle(), when everything that has a say in it is known. */
static bool take_replay(struct taking *taking)
{
    taking->scenario->replay_line = taking->line;
    return take_text(taking) && (!words_skip(taking->words, "speed") || take_speed(taking)) &&
           (!words_skip(taking->words, "for") || take_span(taking)) && take_over(taking);
}

static bool take_event(struct taking *taking)
{
    return scenario_take_event(taking->scenario, taking->words, taking->directive->shown.name[0] == 'o',
                               taking->line, taking->why);
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

static bool take_close(struct taking *taking)
{
    taking->scenario->work.keeps_alive = false;
    return true;
}

/* ---- the table ---- */

#define AT(member) offsetof(struct scenario, member)
#define ROOM(member) sizeof(((struct scenario *)NULL)->member)
#define NUMBER(member, from, to) .take = take_number, .at = AT(member), .least = (from), .most = (to)
#define TIME(member) .take = take_time, .at = AT(member)
#define TEXT(member) .take = take_text, .at = AT(member), .most = ROOM(member)
#define LINE(name, arguments, help) .shown = {name, arguments, help}
#define OPTION(name, arguments, help) .option = {name, arguments, help}
#define BOTH(name, arguments, help) LINE(name, arguments, help), OPTION(name, arguments, NULL)

static const struct directive directives[] = {
    {LINE("let", "NAME VALUE",
          "${NAME} stands for VALUE in the lines below; --set NAME=VALUE gives it another value"),
     .take = take_let, .is = REPEATED},
    {BOTH("title", "TEXT", "the title of the report"), TEXT(title)},
    {LINE("about", "TEXT",
          "what the report says below its headline: several such lines are one paragraph, one without a text "
          "begins "
          "another. Comments (#) are not in the report"),
     .take = take_about, .is = REPEATED},
    {LINE("stack", "PROCESSES [NAME=value ...]",
          "a private Redis and PostgreSQL, and this many catalogd processes with these settings; FRESH_MS "
          "and JITTER_PERCENT are its ttl"),
     .take = take_stack},
    {LINE("products", "COUNT", "rows in its database, with ids from 1 (default 5000)"),
     NUMBER(product_count, 100, 99999999)},
    {LINE("vary", "NAME VALUE ...",
          "runs the scenario once for each value of this setting, with one table for all"),
     .take = take_vary},
    {LINE("proxy", "redis|postgres ...", "puts a breakable TCP proxy between the processes and that server"),
     .take = take_proxy},
    {LINE("replica", NULL, "a second Redis that follows the first"), .take = take_yes, .at = AT(has_replica)},
    {LINE("ask", "/PATH|URL [weight N]",
          "what to request: http://host:port/path, or a /path of the targets; may be repeated. \"/path "
          "weight 3\" is requested three times as often. One {...} in it becomes a number: {1-900}, "
          "{zipf:1-50000}, {each:1-2000}, {random}; or a line of a file, in place of a range: {@FILE}, "
          "{zipf:@FILE}"),
     OPTION("url", "URL", NULL), .take = take_ask, .is = REPEATED | CUT},
    {LINE("target", "HOST:PORT ...",
          "the address of the service; several are asked in turn; may be repeated"),
     OPTION("target", "HOST:PORT", NULL), .take = take_target, .is = REPEATED | CUT},
    {LINE("burst", "N [connections] [N rounds [every TIME] [pause TIME]]",
          "N connections, all released at the same instant (default 1000). Each further round begins "
          "\"every\" TIME after the start of the previous one, and at least a \"pause\" after its end"),
     OPTION("burst", "N", "N connections, all released at the same instant (default 1000)"),
     .take = take_burst, .least = 1, .most = WORK_CONNECTIONS_MAX, .makes = BURST},
    {OPTION("rounds", "N", "this many bursts (default 1)"), NUMBER(work.round_count, 1, 100000),
     .goes_with = BURST},
    {OPTION("every", "TIME", "... each this long after the start of the previous one"), TIME(work.every_ms),
     .goes_with = BURST},
    {OPTION("pause", "TIME", "... and this long after its end"), TIME(work.pause_ms), .goes_with = BURST},
    {LINE("before-round", "redis COMMAND ... | GET|POST|DELETE URL",
          "done before each round of a burst, in this order: \"redis del KEY\" makes it cold, \"GET /path\" "
          "warm; may be repeated"),
     OPTION("before-round", "LINE", NULL), .take = take_cold, .is = REPEATED | CUT, .goes_with = BURST},
    {BOTH("at-expiry", "KEY",
          "each round of a burst begins at the instant at which this key in Redis expires"),
     .take = take_expiry, .at = AT(expiry_key), .most = ROOM(expiry_key), .goes_with = BURST},
    {LINE("rate", "N [per second] [for TIME] [poisson] [over N [connections]]",
          "N requests are due each second, whatever became of earlier ones, for 10s; poisson: at random "
          "instants. A "
          "request takes a free connection, opens one, or waits if that many are open (default 1000)"),
     OPTION("rate", "N", "or: N requests are due each second, whatever became of earlier ones"),
     .take = take_rate, .least = 1, .most = 10000000, .makes = RATE},
    {OPTION("for", "TIME", "... for this long (default 10s)"), .take = take_span, .goes_with = RATE | REPLAY},
    {OPTION("poisson", NULL, "... at random instants (default: evenly spaced)"), .take = take_yes,
     .at = AT(work.is_poisson), .goes_with = RATE},
    {OPTION("connections", "N", "... over at most this many connections (default 1000)"),
     NUMBER(work.connection_count, 1, WORK_CONNECTIONS_MAX), .goes_with = RATE | REPLAY},
    {LINE("replay", "FILE [speed N] [for TIME] [over N [connections]]",
          "or: the requests of an access log (combined or JSON lines; - is the standard input), at their "
          "distances in time; speed 2: in "
          "half the time; for TIME: only so much of it. GET and HEAD, or those of the \"method\""),
     OPTION("replay", "FILE",
            "or: the requests of an access log (combined or JSON lines; - is the standard input) at their "
            "distances in time; with --target. GET and HEAD, or those of --method"),
     .take = take_replay, .at = AT(replay_path), .most = ROOM(replay_path), .makes = REPLAY},
    {OPTION("speed", "N", "... so many times as fast; --for TIME: only so much of it"), .take = take_speed,
     .goes_with = REPLAY},
    {BOTH("close", NULL, "a new connection for each request (default: keep)"), .take = take_close},
    {LINE("warm", "/PATH", "requested once before the run; with {each:1-2000} once for each key"),
     OPTION("warm", "URL", NULL), .take = take_warm, .is = REPEATED | CUT},
    {LINE("leave", "PERCENT% after TIME", "this share of the clients hangs up this long after sending"),
     OPTION("leave", "\"50% after 20ms\"", NULL), .take = take_leave, .is = CUT},
    {BOTH("limit", "TIME", "for one request, from the instant it was due (default 30s)"),
     TIME(work.request_limit_ms)},
    {BOTH("method", "NAME", "default GET"), .take = take_method, .at = AT(method), .most = ROOM(method)},
    {BOTH("header", "\"NAME: VALUE\"", "may be repeated"), .take = take_header, .is = REPEATED},
    {BOTH("insecure", NULL, "https:// of a server whose certificate is not trusted"), .take = take_yes,
     .at = AT(work.is_insecure)},
    {BOTH("cacert", "FILE",
          "https:// is trusted by these authorities, in PEM (default: those of the system)"),
     TEXT(ca_file)},
    {LINE("version", "TEXT", "the number after this text in a body is the row's version"),
     OPTION("version-after", "TEXT", NULL), TEXT(version_after)},
    {BOTH("generators", "N", "client processes (default: one per core, at most 4)"),
     NUMBER(work.generator_count, 1, WORK_GENERATORS_MAX)},
    {BOTH("sources", "N", "client addresses 127.0.0.1, 127.0.0.2, ... (default: as many as needed)"),
     NUMBER(work.source_count, 1, 250)},
    {BOTH("seed", "N", "the same seed gives the same keys and instants (default 1)"), .take = take_seed,
     .most = UINT32_MAX},
    {BOTH("database", "URL", "postgresql://user@host:port/name, for count, queries, write and sql"),
     TEXT(database_url)},
    {LINE("count", "log:PATH | statements | none",
          "how loads are counted: in the server's statement log (stderr, csvlog or jsonlog; "
          "log_statement=all or "
          "log_min_duration_statement=0) or an origin's access log, in pg_stat_statements, or not at all. "
          "Default: in the log that the database names. A stack counts in its own log"),
     OPTION("count", "WAY",
            "how loads are counted: log:PATH (the server's statement log: stderr, csvlog or jsonlog; "
            "log_statement=all or log_min_duration_statement=0; or an origin's access log), statements "
            "(pg_stat_statements), none; default: the log that the --database names"),
     .take = take_count},
    {BOTH("queries", "TEXT",
          "a statement that contains this text is a load (default SELECT). Best is a text that each URL "
          "causes "
          "exactly once. The key of a load is its parameters or, without any, its literals"),
     TEXT(statement)},
    {BOTH("redis", "URL", "redis://host:port/0 or unix:///path; its commands are counted"), TEXT(redis_url)},
    {LINE("ttl", "TIME [jitter PERCENT%]", "how long a value lives: what loads per expiry is computed from"),
     OPTION("ttl", "\"TIME [jitter P%]\"", NULL), .take = take_ttl, .is = CUT},
    {LINE("write", "every TIME keys N|N-N|@FILE sql \"STATEMENT\" [then /PATH]",
          "changes one row after another during the run. {key} stands for the key; the statement returns the "
          "new version; then the path is posted to until the answer is 2xx"),
     OPTION("write", "LINE",
            "every 100ms keys 1-20 sql \"UPDATE ... WHERE id = {key} RETURNING version\" then URL"),
     .take = take_write, .is = REPEATED | CUT},
    {LINE("at", "TIME ACTION [for TIME] [as NAME]",
          "an action this long after the start; for TIME: undone after so long; as NAME: what reports call "
          "it"),
     OPTION(
         "at", "\"TIME ACTION\"",
         "an action this long after the start: run \"COMMAND\", sql \"STATEMENT\", post URL, note \"TEXT\"; "
         "may be repeated"),
     .take = take_event, .is = REPEATED | CUT},
    {LINE("on", "load [N] [after TIME] ACTION [for TIME] [as NAME]",
          "the same, as soon as a load (the N-th) begins"),
     OPTION("on", "\"load ACTION\"", NULL), .take = take_event, .is = REPEATED | CUT},
    {LINE("expect", "FIGURE [of PART] OPERATOR VALUE [from TIME to TIME] [in VARIANT]",
          "what must hold. \"failed = 0\" is expected too, unless a line is about failed (in that variant)"),
     OPTION("expect", "\"FIGURE OP VALUE\"",
            "what must hold, or the exit status is 1: \"loads per expiry <= 1\", \"p99 <= 300ms\", \"status "
            "200 >= 99% from 4s to 6s\"; may be repeated. \"failed = 0\" is expected too, unless one of them "
            "is about failed. What was not measured does not hold: if no load was seen, only \"loads = 0\" "
            "does, and p99 takes 100 answers"),
     .take = take_expect, .is = REPEATED | CUT},
};

enum { DIRECTIVES = sizeof directives / sizeof *directives };
_Static_assert(DIRECTIVES <= 64, "struct scenario keeps a bit for each");

const struct words_help *scenario_word(size_t index)
{
    for (size_t i = 0; i < DIRECTIVES; i++) {
        if (directives[i].shown.name != NULL && index-- == 0)
            return &directives[i].shown;
    }
    return NULL;
}

bool scenario_option(size_t index, struct words_help *out)
{
    for (size_t i = 0; i < DIRECTIVES; i++) {
        if (directives[i].option.name == NULL || index-- > 0)
            continue;
        *out = directives[i].option;
        if (out->help == NULL)
            out->help = directives[i].shown.help;
        return true;
    }
    return false;
}

/* ---- reading by it ---- */

/* How it is written is added to whatever reason there is. */
static bool fail(struct taking *taking, const struct words_help *shown, const char *dashes)
{
    char reason[SCENARIO_WHY_BYTES];
    snprintf(reason, sizeof reason, "%s", taking->why);
    snprintf(taking->why, SCENARIO_WHY_BYTES, "%s: %.700s%swrite: %s%s%s%s", shown->name, reason,
             reason[0] != '\0' ? "; " : "", dashes, shown->name, shown->arguments != NULL ? " " : "",
             shown->arguments != NULL ? shown->arguments : "");
    return false;
}

static bool take_directive(struct taking *taking, const struct words_help *shown, const char *dashes)
{
    const struct directive *directive = taking->directive;
    struct scenario *scenario = taking->scenario;
    uint64_t bit = (uint64_t)1 << (directive - directives);
    if ((directive->is & REPEATED) == 0 && (scenario->seen & bit) != 0)
        return words_refuse(taking->why, "a second line with", shown->name);
    scenario->seen |= bit;
    if (!directive->take(taking))
        return fail(taking, shown, dashes);
    scenario->shapes |= directive->makes;
    if (words_peek(taking->words) == NULL)
        return true;
    words_refuse(taking->why, "unexpected:", words_peek(taking->words));
    return fail(taking, shown, dashes);
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
        taking.directive = &directives[i];
        if (directives[i].shown.name != NULL && strcmp(name, directives[i].shown.name) == 0)
            return take_directive(&taking, &directives[i].shown, "");
    }
    return words_refuse_unknown(why, "word", name, scenario_word);
}

bool scenario_take_option(struct scenario *scenario, const char *name, const char *value,
                          char why[static SCENARIO_WHY_BYTES])
{
    static struct words words; /* large; there is one thread */
    struct taking taking = {.scenario = scenario, .words = &words, .why = why};
    const struct directive *directive = directives;
    while (directive->option.name == NULL || strcmp(directive->option.name, name) != 0)
        directive++;
    taking.directive = directive;
    memset(&words, 0, sizeof words);
    why[0] = '\0';
    const char *wrong = NULL;
    if ((directive->is & CUT) != 0)
        wrong = words_split(&words, value);
    else if (value != NULL && !words_add(&words, value))
        wrong = "too long: at most 8000 bytes";
    return wrong != NULL ? words_refuse(why, wrong, NULL) : take_directive(&taking, &directive->option, "--");
}

/* ---- what only all of them together say ---- */

static void take_script(struct scenario *scenario, scenario_complain *complain, void *context)
{
    const struct replay replay = {.path = scenario->replay_path,
                                  .method = scenario->method,
                                  .speed = scenario->replay_speed,
                                  .span_ms = scenario->span_ms};
    char why[WORK_WHY_BYTES], text[WORK_WHY_BYTES + 16];
    if (scenario->work.url_count > 0) {
        complain(context, scenario->replay_line,
                 "replay: it asks for what the log has: no ask, and no URL but targets");
    } else if (!replay_read(&replay, &scenario->script, scenario->replay_note, why)) {
        snprintf(text, sizeof text, "replay: %s", why);
        complain(context, scenario->replay_line, text);
    } else {
        work_follow(&scenario->work, scenario->script);
    }
}

static const char *shape_options(unsigned shapes)
{
    if (shapes == (RATE | REPLAY))
        return "--rate or --replay";
    return shapes == BURST ? "--burst" : shapes == RATE ? "--rate" : "--replay";
}

void scenario_settle(struct scenario *scenario, scenario_complain *complain, void *context)
{
    char text[80];
    unsigned shapes = scenario->shapes;
    for (size_t i = 0; i < DIRECTIVES; i++) {
        const struct directive *directive = &directives[i];
        bool is_given = (scenario->seen & (uint64_t)1 << i) != 0;
        if (!is_given || directive->goes_with == 0 || (directive->goes_with & shapes) != 0)
            continue;
        snprintf(text, sizeof text, "--%s goes with %s", directive->option.name,
                 shape_options(directive->goes_with));
        complain(context, 0, text);
    }
    if (shapes == RATE)
        scenario->work.duration_ms = scenario->span_ms > 0 ? scenario->span_ms : 10000;
    if ((shapes & (shapes - 1)) != 0)
        complain(context, 0, "either burst or rate or replay, not two of them");
    else if (shapes == REPLAY)
        take_script(scenario, complain, context);
}
