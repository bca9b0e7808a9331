/* SPDX-License-Identifier: MIT */
/* timeline.c - see timeline.h. */
#include "load/play/timeline.h"

#include "load/base/clock.h"
#include "load/base/progress.h"

#include <string.h>

enum { LEADER_LIMIT_MS = 5000 };

static struct timeline_entry *add(struct timeline *timeline, const struct scenario_event *event)
{
    if (timeline->count == TIMELINE_ENTRIES_MAX)
        return NULL;
    struct timeline_entry *entry = &timeline->entries[timeline->count++];
    memset(entry, 0, sizeof *entry);
    entry->event = event;
    entry->action = event->action;
    return entry;
}

void timeline_begin(struct timeline *timeline, const struct scenario *scenario, struct servers *servers,
                    uint64_t begin_us)
{
    memset(timeline, 0, sizeof *timeline);
    timeline->scenario = scenario;
    timeline->act.servers = servers;
    timeline->begin_us = begin_us;
    for (size_t i = 0; i < scenario->event_count; i++) {
        struct timeline_entry *entry = add(timeline, &scenario->events[i]);
        entry->is_due_known = !entry->event->is_on_load;
        entry->due_us = begin_us + (uint64_t)entry->event->at_ms * 1000;
    }
}

/* ---- what is due ---- */

static void tell(const struct timeline *timeline, const struct timeline_entry *entry)
{
    char text[RESULT_TEXT_BYTES * 2];
    snprintf(text, sizeof text, "%6.2f s  %s%s%s%.120s", (double)(clock_us() - timeline->begin_us) / 1e6,
             entry->event->text, entry->is_opposite ? ", over" : "",
             entry->state == TIMELINE_FAILED ? ": " : "", entry->state == TIMELINE_FAILED ? entry->why : "");
    progress_note(text);
}

static bool is_fault(const struct timeline_entry *entry)
{
    return entry->action.party != SCENARIO_NOBODY && scenario_opposite(entry->action.verb) != SCENARIO_VERBS;
}

/* A leader that was killed is a process that is started again. */
static enum scenario_party party_of(const struct timeline_entry *entry)
{
    return entry->action.party == SCENARIO_LEADER ? SCENARIO_CATALOGD : entry->action.party;
}

static bool is_about_all(const struct timeline_entry *entry)
{
    return entry->action.party == SCENARIO_CATALOGD && entry->action.process == SCENARIO_ALL;
}

/* The opposite ends every fault of the same party that is still open; so does a restart. */
static void close_faults(struct timeline *timeline, const struct timeline_entry *opposite)
{
    for (size_t i = 0; i < timeline->count; i++) {
        struct timeline_entry *entry = &timeline->entries[i];
        bool is_same = party_of(entry) == party_of(opposite) &&
                       (entry->process == opposite->process || is_about_all(entry) || is_about_all(opposite));
        bool ends = scenario_opposite(entry->action.verb) == opposite->action.verb ||
                    opposite->action.verb == SCENARIO_RESTART;
        if (entry->state == TIMELINE_DONE && is_fault(entry) && entry->until_us == 0 && is_same && ends)
            entry->until_us = opposite->done_us;
    }
}

static void plan_opposite(struct timeline *timeline, const struct timeline_entry *entry)
{
    struct timeline_entry *opposite = add(timeline, entry->event);
    if (opposite == NULL)
        return;
    opposite->is_opposite = opposite->is_due_known = true;
    opposite->action.verb = scenario_opposite(entry->action.verb);
    opposite->action.fault = PROXY_NONE;
    if (entry->action.party == SCENARIO_LEADER) { /* another one may be the leader by then */
        opposite->action.party = SCENARIO_CATALOGD;
        opposite->action.process = (uint32_t)entry->process + 1;
    }
    uint64_t for_us = (uint64_t)entry->event->for_ms * 1000;
    opposite->not_before_us = entry->begun_us + for_us;
    opposite->due_us = (entry->action.party == SCENARIO_LEADER ? entry->begun_us : entry->due_us) + for_us;
}

static void finish(struct timeline *timeline, size_t index, enum act_outcome outcome)
{
    struct timeline_entry *entry = &timeline->entries[index];
    entry->state = outcome == ACT_DONE ? TIMELINE_DONE : TIMELINE_FAILED;
    entry->done_us = clock_us();
    if (entry->action.party == SCENARIO_LEADER)
        entry->process = timeline->act.leader;
    else if (entry->action.party == SCENARIO_CATALOGD && entry->action.process != SCENARIO_ALL)
        entry->process = entry->action.process - 1;
    tell(timeline, entry);
    if (outcome != ACT_DONE)
        return;
    entry->is_under_way =
        entry->action.party == SCENARIO_NOBODY && entry->action.verb != SCENARIO_NOTE; /* see act_poll() */
    close_faults(timeline, entry);
    if (!entry->is_opposite && entry->event->for_ms > 0)
        plan_opposite(timeline, entry);
}

static void try(struct timeline *timeline, size_t index)
{
    struct timeline_entry *entry = &timeline->entries[index];
    entry->begun_us = clock_us();
    if (entry->state == TIMELINE_WAITING)
        entry->tried_us = entry->begun_us;
    entry->state = TIMELINE_TRYING;
    enum act_outcome outcome = act_do(&timeline->act, &entry->action, index, entry->why);
    if (outcome == ACT_AGAIN && clock_us() < entry->tried_us + (uint64_t)LEADER_LIMIT_MS * 1000)
        return;
    if (outcome == ACT_AGAIN)
        snprintf(entry->why, sizeof entry->why, "no process held a lease for %d s", LEADER_LIMIT_MS / 1000);
    finish(timeline, index, outcome == ACT_DONE ? ACT_DONE : ACT_FAILED);
}

/* Returns how many are under way. */
static size_t look_after_commands(struct timeline *timeline)
{
    size_t index = 0, running;
    char why[SCENARIO_WHY_BYTES];
    while (act_poll(&timeline->act, &index, &running, why)) {
        struct timeline_entry *entry = &timeline->entries[index];
        entry->is_under_way = false;
        entry->done_us = clock_us();
        if (why[0] == '\0')
            continue;
        entry->state = TIMELINE_FAILED;
        memcpy(entry->why, why, sizeof entry->why);
        tell(timeline, entry);
    }
    return running;
}

static void find_instants(struct timeline *timeline, uint64_t loads)
{
    for (size_t i = 0; i < timeline->count; i++) {
        struct timeline_entry *entry = &timeline->entries[i];
        if (entry->state != TIMELINE_WAITING || entry->is_due_known || loads < entry->event->load)
            continue;
        entry->is_due_known = true;
        entry->due_us = clock_after_ms(entry->event->at_ms);
    }
}

/* The one planned first of those that wait; of two for the same instant the one that stands first. */
static bool find_next(const struct timeline *timeline, size_t *next)
{
    bool found = false;
    for (size_t i = 0; i < timeline->count; i++) {
        const struct timeline_entry *entry = &timeline->entries[i];
        if (entry->state != TIMELINE_WAITING || !entry->is_due_known ||
            (found && entry->due_us >= timeline->entries[*next].due_us))
            continue;
        *next = i;
        found = true;
    }
    return found;
}

void timeline_tick(struct timeline *timeline, uint64_t loads)
{
    size_t next = 0;
    find_instants(timeline, loads);
    for (size_t i = 0; i < timeline->count; i++) {
        if (timeline->entries[i].state == TIMELINE_TRYING)
            try(timeline, i);
    }
    while (find_next(timeline, &next)) {
        const struct timeline_entry *entry = &timeline->entries[next];
        uint64_t now_us = clock_us();
        if (entry->due_us > now_us || entry->not_before_us > now_us)
            break;
        try(timeline, next);
    }
    look_after_commands(timeline);
}

bool timeline_waits_for_load(const struct timeline *timeline)
{
    for (size_t i = 0; i < timeline->count; i++) {
        if (timeline->entries[i].state == TIMELINE_WAITING && !timeline->entries[i].is_due_known)
            return true;
    }
    return false;
}

bool timeline_is_quiet(struct timeline *timeline)
{
    return look_after_commands(timeline) == 0;
}

void timeline_end(struct timeline *timeline)
{
    act_end(&timeline->act);
}

/* ---- what the report says of it ---- */

/* A private Redis keeps nothing. What a POST or a command does, nobody knows here. */
static bool may_drop_values(const struct scenario_action *action)
{
    if (action->party == SCENARIO_REDIS)
        return action->verb == SCENARIO_FLUSH || action->verb == SCENARIO_KILL ||
               action->verb == SCENARIO_START || action->verb == SCENARIO_RESTART;
    return action->party == SCENARIO_NOBODY &&
           (action->verb == SCENARIO_POST || action->verb == SCENARIO_RUN);
}

size_t timeline_drops(const struct timeline *timeline, uint64_t drops_us[static TIMELINE_ENTRIES_MAX])
{
    size_t count = 0;
    for (size_t i = 0; i < timeline->count; i++) {
        const struct timeline_entry *entry = &timeline->entries[i];
        if (entry->state == TIMELINE_DONE && may_drop_values(&entry->action))
            drops_us[count++] = entry->begun_us;
    }
    return count;
}

void timeline_faults(const struct timeline *timeline, uint64_t *from_us, uint64_t *until_us)
{
    bool is_open = false;
    *from_us = *until_us = 0;
    for (size_t i = 0; i < timeline->count; i++) {
        const struct timeline_entry *entry = &timeline->entries[i];
        if (entry->state != TIMELINE_DONE || entry->action.verb == SCENARIO_NOTE)
            continue;
        if (*from_us == 0 || entry->begun_us < *from_us)
            *from_us = entry->begun_us;
        *until_us = entry->done_us > *until_us ? entry->done_us : *until_us;
        is_open = is_open || entry->is_under_way || (is_fault(entry) && entry->until_us == 0);
    }
    if (is_open)
        *until_us = 0;
}

static uint32_t since_begin_ms(const struct timeline *timeline, uint64_t at_us)
{
    return at_us > timeline->begin_us ? (uint32_t)((at_us - timeline->begin_us) / 1000) : 0;
}

static void mark(const struct timeline *timeline, const struct timeline_entry *entry, uint64_t run_end_us,
                 struct result *result)
{
    char text[RESULT_TEXT_BYTES + 32];
    bool is_note = entry->action.party == SCENARIO_NOBODY;
    uint64_t until_us = entry->done_us - entry->begun_us >= 1000 ? entry->done_us : 0;
    if (is_fault(entry))
        until_us = entry->until_us != 0 ? entry->until_us : run_end_us;
    if (entry->action.party == SCENARIO_LEADER)
        snprintf(text, sizeof text, "%s (catalogd %zu)", entry->event->text, entry->process + 1);
    else
        snprintf(text, sizeof text, "%.191s",
                 entry->action.verb == SCENARIO_NOTE ? entry->action.argument : entry->event->text);
    result_mark(result, is_note ? RESULT_NOTE : RESULT_FAULT, since_begin_ms(timeline, entry->begun_us),
                until_us > 0 ? since_begin_ms(timeline, until_us) : 0, text);
}

/* Without room it takes the place of the last one: what did not hold must be reported. */
static void check(const struct timeline_entry *entry, struct result *result)
{
    if (result->check_count == RESULT_CHECKS_MAX)
        result->check_count--;
    struct result_check *check = &result->checks[result->check_count++];
    snprintf(check->text, sizeof check->text, "%.*s happens", RESULT_TEXT_BYTES - 10, entry->event->text);
    if (entry->state == TIMELINE_FAILED)
        snprintf(check->measured, sizeof check->measured, "%.*s", RESULT_TEXT_BYTES - 1, entry->why);
    else
        snprintf(check->measured, sizeof check->measured, "%s",
                 entry->state == TIMELINE_TRYING ? "no process held a lease before the run was over"
                 : entry->is_due_known           ? "the run was over by then"
                                                 : "there was no such load");
    check->held = false;
}

void timeline_report(const struct timeline *timeline, uint64_t run_end_us, struct result *result)
{
    for (size_t i = 0; i < timeline->count; i++) {
        const struct timeline_entry *entry = &timeline->entries[i];
        bool is_over = entry->is_opposite &&
                       entry->state == TIMELINE_WAITING; /* its end came first, which harms nothing */
        if (entry->state == TIMELINE_DONE && !entry->is_opposite)
            mark(timeline, entry, run_end_us, result);
        else if (entry->state != TIMELINE_DONE && !is_over && !result->is_partial)
            check(entry, result);
    }
}
