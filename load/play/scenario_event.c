/* SPDX-License-Identifier: MIT */
/* scenario_event.c - an "at" or "on load" line: when, and what; see scenario.h. */
#include "load/play/scenario.h"

#include <stdio.h>
#include <string.h>

static bool refuse(char *why, const char *reason, const char *word)
{
    snprintf(why, SCENARIO_WHY_BYTES, "%s%s%.200s%s", reason, word != NULL ? " \"" : "",
             word != NULL ? word : "", word != NULL ? "\"" : "");
    return false;
}

/* ---- what a party can do ---- */

static const char *const verb_names[SCENARIO_VERBS] = {
    [SCENARIO_KILL] = "kill",   [SCENARIO_START] = "start",       [SCENARIO_RESTART] = "restart",
    [SCENARIO_STOP] = "stop",   [SCENARIO_PAUSE] = "pause",       [SCENARIO_RESUME] = "resume",
    [SCENARIO_FLUSH] = "flush", [SCENARIO_FAILOVER] = "failover",
};

#define VERB(verb) (1U << (verb))
enum {
    OF_SERVER = VERB(SCENARIO_KILL) | VERB(SCENARIO_START) | VERB(SCENARIO_RESTART) | VERB(SCENARIO_PAUSE) |
                VERB(SCENARIO_RESUME),
};

static const struct {
    const char *name;
    enum scenario_party party;
    unsigned verbs;
    const char *allowed;
} parties[] = {
    {"redis", SCENARIO_REDIS, OF_SERVER | VERB(SCENARIO_FLUSH) | VERB(SCENARIO_FAILOVER),
     "redis kill|start|restart|pause|resume|flush|failover"},
    {"postgres", SCENARIO_POSTGRES, OF_SERVER, "postgres kill|start|restart|pause|resume"},
    {"catalogd", SCENARIO_CATALOGD, OF_SERVER | VERB(SCENARIO_STOP),
     "catalogd N|all kill|start|restart|stop|pause|resume"},
    {"leader", SCENARIO_LEADER,
     VERB(SCENARIO_KILL) | VERB(SCENARIO_START) | VERB(SCENARIO_PAUSE) | VERB(SCENARIO_RESUME),
     "leader kill|pause|start|resume"},
};

static bool read_verb(struct words *words, unsigned verbs, struct scenario_action *out)
{
    const char *word = words_next(words);
    for (unsigned i = 0; word != NULL && i < SCENARIO_VERBS; i++) {
        if (verb_names[i] != NULL && strcmp(word, verb_names[i]) == 0 && (verbs & VERB(i)) != 0) {
            out->verb = (enum scenario_verb)i;
            return true;
        }
    }
    return false;
}

static bool read_process(struct words *words, struct scenario_action *out)
{
    const char *word = words_next(words);
    if (word != NULL && strcmp(word, "all") == 0) {
        out->process = SCENARIO_ALL;
        return true;
    }
    return word != NULL && word_number(word, 1, SCENARIO_PROCESSES_MAX, &out->process);
}

static bool read_server(struct words *words, size_t index, struct scenario_action *out, char *why)
{
    out->party = parties[index].party;
    if ((out->party != SCENARIO_CATALOGD || read_process(words, out)) &&
        read_verb(words, parties[index].verbs, out))
        return true;
    return refuse(why, "write:", parties[index].allowed);
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
        return !faults[i].has_amount || (amount != NULL && word_duration_ms(amount, &out->amount_ms));
    }
    return false;
}

static bool read_link(struct words *words, struct scenario_action *out, char *why)
{
    if (words_skip(words, "redis"))
        out->party = SCENARIO_LINK_REDIS;
    else if (words_skip(words, "postgres"))
        out->party = SCENARIO_LINK_POSTGRES;
    if (out->party != SCENARIO_NOBODY && read_fault(words, out))
        return true;
    return refuse(why,
                  "write: link redis|postgres heal, delay TIME, drop, reset, silent, dribble TIME, cut, "
                  "freeze-requests, freeze-replies or late TIME",
                  NULL);
}

/* ---- what needs no party ---- */

static bool read_argument(struct words *words, enum scenario_verb verb, struct scenario_action *out,
                          char *why, const char *usage)
{
    const char *word = words_next(words);
    out->verb = verb;
    if (word == NULL || word[0] == '\0')
        return refuse(why, "write:", usage);
    int bytes = snprintf(out->argument, sizeof out->argument, "%s%s",
                         strcmp(usage, "invalidate KEY") == 0 ? "/invalidate?key=" : "", word);
    return (size_t)bytes < sizeof out->argument || refuse(why, "too long:", word);
}

static bool read_action(struct words *words, struct scenario_action *out, char *why)
{
    const char *word = words_next(words);
    if (word == NULL)
        return refuse(why, "what shall happen is missing, for instance: redis kill", NULL);
    for (size_t i = 0; i < sizeof parties / sizeof *parties; i++) {
        if (strcmp(word, parties[i].name) == 0)
            return read_server(words, i, out, why);
    }
    if (strcmp(word, "link") == 0)
        return read_link(words, out, why);
    if (strcmp(word, "sql") == 0)
        return read_argument(words, SCENARIO_SQL, out, why, "sql \"STATEMENT\"");
    if (strcmp(word, "run") == 0)
        return read_argument(words, SCENARIO_RUN, out, why, "run \"COMMAND\"");
    if (strcmp(word, "post") == 0)
        return read_argument(words, SCENARIO_POST, out, why, "post /PATH");
    if (strcmp(word, "invalidate") == 0)
        return read_argument(words, SCENARIO_POST, out, why, "invalidate KEY");
    if (strcmp(word, "note") == 0)
        return read_argument(words, SCENARIO_NOTE, out, why, "note \"TEXT\"");
    return refuse(why,
                  "what can happen is about redis, postgres, catalogd, leader, link, or is sql, run, post, "
                  "invalidate, note; not",
                  word);
}

/* ---- the line ---- */

static bool read_time(struct words *words, uint32_t *out_ms, char *why)
{
    const char *word = words_next(words);
    return (word != NULL && word_duration_ms(word, out_ms)) ||
           refuse(why, "a time like 250ms, 1.5s or 2m is needed, not", word != NULL ? word : "");
}

static bool read_trigger(struct words *words, struct scenario_event *out, char *why)
{
    if (!out->is_on_load)
        return read_time(words, &out->at_ms, why);
    if (!words_skip(words, "load"))
        return refuse(why, "write: on load [N] [after TIME] ...", NULL);
    out->load = 1;
    const char *word = words_peek(words);
    if (word != NULL && word_number(word, 1, 1000000, &out->load))
        words_next(words);
    return !words_skip(words, "after") || read_time(words, &out->at_ms, why);
}

static bool read_for(struct words *words, struct scenario_event *out, char *why)
{
    if (!words_skip(words, "for"))
        return true;
    if (scenario_opposite(out->action.verb) == SCENARIO_VERBS)
        return refuse(why, "\"for\" is about what has an opposite: kill, stop, pause, or a fault of a link",
                      NULL);
    return read_time(words, &out->for_ms, why) &&
           (out->for_ms > 0 || refuse(why, "\"for\" needs a time above 0", NULL));
}

/* What reports call it. */
static bool read_name(struct words *words, struct scenario_event *out, char *why)
{
    if (!words_skip(words, "as"))
        return true;
    const char *name = words_next(words);
    if (name == NULL || name[0] == '\0')
        return refuse(why, "after \"as\" stands what it shall be called", NULL);
    snprintf(out->text, sizeof out->text, "%s", name);
    return true;
}

bool scenario_take_event(struct scenario *scenario, struct words *words, bool is_on_load, unsigned line,
                         char why[static SCENARIO_WHY_BYTES])
{
    if (scenario->event_count == SCENARIO_EVENTS_MAX)
        return refuse(why, "too much happens: at most 48 lines", NULL);
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
        return refuse(why, "this is too much:", words_peek(words));
    scenario->event_count++;
    return true;
}
