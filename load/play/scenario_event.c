/* SPDX-License-Identifier: MIT */
/*
 * scenario_event.c - an "at" or "on load" line: when, and what. What can happen is one table, which reading, mistakes
 * and --help follow. See scenario.h.
 */
#include "load/play/scenario.h"

#include "load/base/number.h"

#include <stdio.h>
#include <string.h>

_Static_assert(SCENARIO_TEXT_BYTES == 1024 && SCENARIO_EVENTS_MAX == 48, "as in the texts");

struct action_row {
    struct words_help shown; /* for a server its verbs stand in `arguments`, with | between them */
    bool (*read)(const struct action_row *row, struct words *words, struct scenario_action *out, char *why);
    enum scenario_party party;
    enum scenario_verb verb; /* of an action without a party */
};

static bool refuse_usage(const struct action_row *row, char *why)
{
    char usage[96];
    snprintf(usage, sizeof usage, "%s %s", row->shown.name, row->shown.arguments);
    return words_refuse(why, "write:", usage);
}

/* ---- servers ---- */

static const char *const verb_names[SCENARIO_FAULT] = {
    [SCENARIO_KILL] = "kill",   [SCENARIO_START] = "start",       [SCENARIO_RESTART] = "restart",
    [SCENARIO_STOP] = "stop",   [SCENARIO_PAUSE] = "pause",       [SCENARIO_RESUME] = "resume",
    [SCENARIO_FLUSH] = "flush", [SCENARIO_FAILOVER] = "failover",
};

/* "stop" of "kill|start|stop" */
static bool is_one_of(const char *choices, const char *word)
{
    size_t bytes = strlen(word);
    for (;; choices++) {
        size_t choice_bytes = strcspn(choices, "|");
        if (choice_bytes == bytes && strncmp(choices, word, bytes) == 0)
            return true;
        choices += choice_bytes;
        if (*choices == '\0')
            return false;
    }
}

static bool read_verb(const char *choices, struct words *words, struct scenario_action *out)
{
    const char *word = words_next(words);
    if (word == NULL || !is_one_of(choices, word))
        return false;
    for (unsigned i = 0; i < SCENARIO_FAULT; i++) {
        if (strcmp(word, verb_names[i]) == 0)
            out->verb = (enum scenario_verb)i;
    }
    return true;
}

static bool read_process(struct words *words, struct scenario_action *out)
{
    if (words_skip(words, "all")) {
        out->process = SCENARIO_ALL;
        return true;
    }
    const char *word = words_next(words);
    return word != NULL && number_read(word, 1, SCENARIO_PROCESSES_MAX, &out->process);
}

static bool read_server(const struct action_row *row, struct words *words, struct scenario_action *out,
                        char *why)
{
    const char *process = strchr(row->shown.arguments, ' ');
    const char *verbs = process != NULL ? process + 1 : row->shown.arguments;
    return ((process == NULL || read_process(words, out)) && read_verb(verbs, words, out)) ||
           refuse_usage(row, why);
}

/* ---- links ---- */

static const struct {
    const char *name;
    enum proxy_fault fault;
    bool has_amount;
} faults[] = {
    {"delay", PROXY_DELAY, true},
    {"drop", PROXY_DROP, false},
    {"reset", PROXY_RESET, false},
    {"silent", PROXY_SILENT, false},
    {"dribble", PROXY_DRIBBLE, true},
    {"cut", PROXY_CUT, false},
    {"freeze-requests", PROXY_FREEZE_REQUESTS, false},
    {"freeze-replies", PROXY_FREEZE_REPLIES, false},
    {"late", PROXY_LATE, true},
    {"heal", PROXY_NONE, false},
};

static bool read_fault(struct words *words, struct scenario_action *out)
{
    const char *word = words_next(words);
    for (size_t i = 0; word != NULL && i < sizeof faults / sizeof *faults; i++) {
        if (strcmp(word, faults[i].name) != 0)
            continue;
        out->fault = faults[i].fault;
        out->verb = out->fault == PROXY_NONE ? SCENARIO_HEAL : SCENARIO_FAULT;
        const char *amount = faults[i].has_amount ? words_next(words) : NULL;
        return !faults[i].has_amount || (amount != NULL && number_read_ms(amount, &out->amount_ms));
    }
    return false;
}

static bool read_link(const struct action_row *row, struct words *words, struct scenario_action *out,
                      char *why)
{
    (void)row;
    if (words_skip(words, "redis"))
        out->party = SCENARIO_LINK_REDIS;
    else if (words_skip(words, "postgres"))
        out->party = SCENARIO_LINK_POSTGRES;
    if (out->party != SCENARIO_NOBODY && read_fault(words, out))
        return true;
    return words_refuse(
        why,
        "write: link redis|postgres heal, delay TIME, drop, reset, silent, dribble TIME, cut, "
        "freeze-requests, freeze-replies or late TIME",
        NULL);
}

/* ---- actions without a party ---- */

static bool read_argument(const struct action_row *row, struct words *words, struct scenario_action *out,
                          char *why)
{
    const char *word = words_next(words);
    const char *before = strcmp(row->shown.name, "invalidate") == 0 ? "/invalidate?key=" : "";
    if (word == NULL || word[0] == '\0')
        return refuse_usage(row, why);
    int bytes = snprintf(out->argument, sizeof out->argument, "%s%s", before, word);
    return (size_t)bytes < sizeof out->argument || words_refuse(why, "longer than 1023 bytes:", word);
}

/* ---- what can happen ---- */

static const struct action_row action_rows[] = {
    {{"redis", "kill|start|restart|pause|resume|flush|failover",
      "it starts empty. failover: the first one is killed, its replica is promoted, and the proxy leads "
      "there"},
     read_server,
     .party = SCENARIO_REDIS},
    {{"postgres", "kill|start|restart|pause|resume", "kill: SIGKILL; pause: SIGSTOP"},
     read_server,
     .party = SCENARIO_POSTGRES},
    {{"catalogd", "N|all kill|start|restart|stop|pause|resume", "stop and restart: SIGTERM"},
     read_server,
     .party = SCENARIO_CATALOGD},
    {{"leader", "kill|pause|start|resume",
      "the process that holds a lease at that moment; waits for one. start and resume: the one it was"},
     read_server,
     .party = SCENARIO_LEADER},
    {{"link", "redis|postgres FAULT",
      "breaks the proxy: delay TIME, drop, reset, silent, dribble TIME, cut, freeze-requests, freeze-replies "
      "or late TIME; heal"},
     .read = read_link},
    {{"sql", "\"STATEMENT\"", "runs it on the database"}, read_argument, .verb = SCENARIO_SQL},
    {{"run", "\"COMMAND\"",
      "runs a shell command, which must exit with 0 within 30 s. Its environment has TARGET, REDIS_URL and "
      "DATABASE_URL"},
     read_argument,
     .verb = SCENARIO_RUN},
    {{"post", "/PATH", "POST to the stack's operations listener, to a URL, or to the first target"},
     read_argument,
     .verb = SCENARIO_POST},
    {{"invalidate", "KEY", "post /invalidate?key=KEY"}, read_argument, .verb = SCENARIO_POST},
    {{"note", "\"TEXT\"", "is shown on the page"}, read_argument, .verb = SCENARIO_NOTE},
};

enum { ACTION_ROWS = sizeof action_rows / sizeof *action_rows };

const struct words_help *scenario_action_word(size_t index)
{
    return index < ACTION_ROWS ? &action_rows[index].shown : NULL;
}

static bool read_action(struct words *words, struct scenario_action *out, char *why)
{
    const char *word = words_next(words);
    if (word == NULL)
        return words_refuse(why, "an action is missing, for instance: redis kill", NULL);
    for (size_t i = 0; i < ACTION_ROWS; i++) {
        if (strcmp(word, action_rows[i].shown.name) != 0)
            continue;
        out->party = action_rows[i].party;
        out->verb = action_rows[i].verb;
        return action_rows[i].read(&action_rows[i], words, out, why);
    }
    return words_refuse_unknown(why, "action", word, scenario_action_word);
}

/* ---- the line ---- */

static bool read_trigger(struct words *words, struct scenario_event *out, char *why)
{
    if (!out->is_on_load)
        return words_take_ms(words, &out->at_ms, why);
    if (!words_skip(words, "load"))
        return words_refuse(why, "write: on load [N] [after TIME] ...", NULL);
    out->load = 1;
    const char *word = words_peek(words);
    if (word != NULL && number_read(word, 1, 1000000, &out->load))
        words_next(words);
    return !words_skip(words, "after") || words_take_ms(words, &out->at_ms, why);
}

static bool read_for(struct words *words, struct scenario_event *out, char *why)
{
    if (!words_skip(words, "for"))
        return true;
    if (scenario_opposite(out->action.verb) == SCENARIO_VERBS)
        return words_refuse(
            why, "\"for\" needs an action with an opposite: kill, stop, pause, or a fault of a link", NULL);
    return words_take_ms(words, &out->for_ms, why) &&
           (out->for_ms > 0 || words_refuse(why, "\"for\" needs a time above 0", NULL));
}

/* What reports call it. */
static bool read_name(struct words *words, struct scenario_event *out, char *why)
{
    if (!words_skip(words, "as"))
        return true;
    const char *name = words_next(words);
    if (name == NULL || name[0] == '\0')
        return words_refuse(why, "a name is missing after \"as\"", NULL);
    snprintf(out->text, sizeof out->text, "%s", name);
    return true;
}

bool scenario_take_event(struct scenario *scenario, struct words *words, bool is_on_load, unsigned line,
                         char why[static SCENARIO_WHY_BYTES])
{
    if (scenario->event_count == SCENARIO_EVENTS_MAX)
        return words_refuse(why, "too many events: at most 48", NULL);
    struct scenario_event *event = &scenario->events[scenario->event_count];
    memset(event, 0, sizeof *event);
    event->is_on_load = is_on_load;
    event->line = line;
    if (!read_trigger(words, event, why))
        return false;
    struct words action = *words;
    words_rest(&action, event->text, sizeof event->text); /* cut where it is too long to be shown */
    if (!read_action(words, &event->action, why) || !read_for(words, event, why) ||
        !read_name(words, event, why))
        return false;
    if (words_peek(words) != NULL)
        return words_refuse(why, "unexpected:", words_peek(words));
    scenario->event_count++;
    return true;
}
