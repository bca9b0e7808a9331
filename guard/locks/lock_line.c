/* SPDX-License-Identifier: MIT */
/*
 * lock_line.c - those that wait for one name here, and the places they renew together. See lock_core_state.h.
 *
 * A stay is one action for the places of many: at most one is under way for a line, and takes those from the front of
 * `stayers` that were renewed longest ago; its answer puts them behind the others. So no event handles more than
 * LOCK_STAY_MAX of them.
 */
#include "lock_core_state.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum {
    STAY_TELLS = 16, /* so many are asked for one by one if a hint is for all */
    BATCH_FIRST = 4,
};

/* ---- the tables ---- */

struct lock_line *lock_line_find(const struct lock_core *core, const char *encoded, size_t bytes)
{
    struct lock_line *found = NULL;
    unsigned hash = lock_hash(core, encoded, bytes);
    HASH_FIND_BYHASHVALUE(by_name, core->lines_by_name, encoded, bytes, hash, found);
    return found;
}

static bool list_line(struct lock_core *core, struct lock_line *line)
{
    unsigned hash = lock_hash(core, line->encoded, line->name.bytes);
    HASH_ADD_KEYPTR_BYHASHVALUE(by_name, core->lines_by_name, line->encoded, line->name.bytes, hash, line);
    if (line->unlisted)
        return false;
    HASH_ADD_BYHASHVALUE(by_id, core->lines_by_id, id, sizeof line->id, (unsigned)line->id, line);
    if (line->unlisted)
        HASH_DELETE(by_name, core->lines_by_name, line);
    return !line->unlisted;
}

static struct lock_line *new_line(struct lock_core *core, const struct lock_name *name)
{
    struct lock_line *line = calloc(1, sizeof *line + name->bytes + 1);
    if (line == NULL)
        return NULL;
    memcpy(line->encoded, name->encoded, name->bytes);
    line->name = (struct lock_name){line->encoded, name->bytes};
    line->core = core;
    line->id = ++core->last_id;
    line->alarm.owner = LOCK_ALARM_LINE;
    line->urgent_us = line->hint_us = UINT64_MAX;
    if (!alarms_reserve(&core->alarms)) {
        free(line);
        return NULL;
    }
    if (!list_line(core, line)) {
        alarms_unreserve(&core->alarms);
        free(line);
        return NULL;
    }
    DL_APPEND2(core->lines, line, all_prev, all_next);
    return line;
}

void lock_line_free(struct lock_line *line)
{
    free(line->batch);
    free(line->tokens);
    free(line);
}

/* Its memory goes with the next event. */
static void end_line(struct lock_line *line)
{
    struct lock_core *core = line->core;
    if (line->claim_count > 0 || line->is_out)
        return;
    alarm_unset(&core->alarms, &line->alarm);
    alarms_unreserve(&core->alarms);
    HASH_DELETE(by_name, core->lines_by_name, line);
    HASH_DELETE(by_id, core->lines_by_id, line);
    DL_DELETE2(core->lines, line, all_prev, all_next);
    line->next = core->dead_lines;
    core->dead_lines = line;
}

static bool grow_batch(struct lock_line *line)
{
    size_t capacity = line->batch_capacity == 0 ? BATCH_FIRST : line->batch_capacity * 2;
    if (line->batch_capacity >= LOCK_STAY_MAX || line->claim_count < line->batch_capacity)
        return true;
    struct lock_claim **batch = realloc(line->batch, capacity * sizeof(struct lock_claim *));
    if (batch == NULL)
        return false;
    line->batch = batch;
    const char **tokens = realloc(line->tokens, capacity * sizeof(const char *));
    if (tokens == NULL)
        return false;
    line->tokens = tokens;
    line->batch_capacity = capacity;
    return true;
}

struct lock_line *lock_line_enter(struct lock_core *core, const struct lock_name *name)
{
    struct lock_line *line = lock_line_find(core, name->encoded, name->bytes);
    if (line == NULL)
        line = new_line(core, name);
    if (line == NULL)
        return NULL;
    if (core->config.stays && !grow_batch(line)) {
        end_line(line);
        return NULL;
    }
    line->claim_count++;
    return line;
}

void lock_line_leave(struct lock_line *line)
{
    line->claim_count--;
    end_line(line);
}

/* ---- those that stay ---- */

static uint64_t next_stay_us(const struct lock_line *line)
{
    uint64_t due_us = line->urgent > 0 ? line->urgent_us : UINT64_MAX;
    if (line->is_out || line->stayers == NULL)
        return UINT64_MAX;
    due_us = lock_earlier(due_us, line->stayers->stay_us);
    return lock_later(due_us, line->pause_us);
}

static void set_line_alarm(struct lock_line *line)
{
    uint64_t at_us = next_stay_us(line);
    if (line->stayers != NULL)
        at_us = lock_earlier(at_us, line->hint_us);
    lock_set_alarm(line->core, &line->alarm, line->core->is_up ? at_us : UINT64_MAX);
}

static void append_stayer(struct lock_claim *claim, uint64_t since_us)
{
    claim->stay_us = since_us + lock_us(claim->place_ms) / 3;
    DL_APPEND2(claim->places[0].line->stayers, claim, stay_prev, stay_next);
}

/* Only asking corrects what a server has wrong, such as a lease that a step of its clock has lengthened. */
static uint64_t asks_again_us(const struct lock_claim *claim)
{
    return claim->core->now_us + lock_us(claim->place_ms);
}

void lock_line_stay(struct lock_claim *claim)
{
    struct lock_line *line = claim->places[0].line;
    assert(claim->count == 1 && !claim->stays);
    claim->stays = true;
    line->stayer_count++;
    append_stayer(claim, claim->sent_us);
    line->hint_us = lock_earlier(line->hint_us, lock_earlier(claim->hint_us, asks_again_us(claim)));
    set_line_alarm(line);
}

void lock_line_stay_no_more(struct lock_claim *claim)
{
    struct lock_line *line = claim->places[0].line;
    claim->stays = false;
    line->stayer_count--;
    if (line->urgent > line->stayer_count)
        line->urgent = line->stayer_count;
    DL_DELETE2(line->stayers, claim, stay_prev, stay_next);
    if (claim->stay_at > 0)
        line->batch[claim->stay_at - 1] = NULL;
    claim->stay_at = 0;
    if (line->stayers == NULL)
        line->hint_us = UINT64_MAX;
    set_line_alarm(line);
}

static void send_stay(struct lock_line *line)
{
    struct lock_core *core = line->core;
    struct lock_claim *claim;
    size_t most = line->urgent > 0 && line->urgent < LOCK_STAY_MAX ? line->urgent : LOCK_STAY_MAX;
    line->batch_count = 0;
    DL_FOREACH2 (line->stayers, claim, stay_next) {
        if (line->batch_count == most)
            break;
        line->tokens[line->batch_count] = claim->token;
        line->batch[line->batch_count++] = claim;
        claim->stay_at = line->batch_count;
    }
    line->urgent -= line->urgent < line->batch_count ? line->urgent : line->batch_count;
    line->sent_us = core->now_us;
    line->is_out = line->is_unsent = true;
    core->stats.polls++;
    DL_APPEND(core->staying, line);
}

void lock_line_action(struct lock_line *line, struct lock_action *action)
{
    DL_DELETE(line->core->staying, line);
    line->is_unsent = false;
    *action = (struct lock_action){
        .kind = LOCK_STAY,
        .op = line->id << 2 | LOCK_STAY,
        .names = &line->name,
        .count = 1,
        .tokens = line->tokens,
        .token_count = line->batch_count,
        .place_ms = line->core->config.place_ms,
        .deadline_us = UINT64_MAX,
    };
}

static void send_if_due(struct lock_line *line)
{
    if (line->core->is_up && next_stay_us(line) <= line->core->now_us)
        send_stay(line);
    set_line_alarm(line);
}

void lock_line_hurry(struct lock_line *line, uint64_t span_us)
{
    if (line->stayer_count == 0)
        return;
    uint64_t at_us = line->core->now_us + span_us;
    line->urgent_us = line->urgent > 0 ? lock_earlier(line->urgent_us, at_us) : at_us;
    line->urgent = line->stayer_count;
    line->pause_us = 0;
    send_if_due(line);
}

/* ---- what came back ---- */

static void stay_answered(struct lock_line *line, const struct lock_reply *reply)
{
    line->attempts = 0;
    for (size_t i = 0; i < line->batch_count; i++) {
        struct lock_claim *claim = line->batch[i];
        if (claim == NULL)
            continue;
        DL_DELETE2(line->stayers, claim, stay_prev, stay_next);
        append_stayer(claim, line->sent_us);
    }
    for (size_t i = 0; i < reply->ask_now_count; i++) {
        struct lock_claim *claim =
            reply->ask_now[i] < line->batch_count ? line->batch[reply->ask_now[i]] : NULL;
        if (claim != NULL)
            lock_claim_ask(claim);
    }
}

void lock_line_replied(struct lock_line *line, const struct lock_reply *reply)
{
    if (!line->is_out)
        return;
    line->is_out = false;
    struct lock_core *core = line->core;
    if (reply->kind == LOCK_DONE) {
        stay_answered(line, reply);
    } else {
        line->urgent_us = core->now_us;
        line->urgent = line->stayer_count;
        line->pause_us = core->now_us + lock_us(lock_pause_ms(core, line->attempts++));
    }
    for (size_t i = 0; i < line->batch_count; i++)
        if (line->batch[i] != NULL)
            line->batch[i]->stay_at = 0;
    line->batch_count = 0;
    send_if_due(line);
    end_line(line);
}

/* ---- hints and time ---- */

void lock_line_told(struct lock_line *line)
{
    bool together = line->stayer_count > STAY_TELLS;
    struct lock_place *place, *next;
    DL_FOREACH_SAFE (line->waiters, place, next)
        if (!together || !place->claim->stays)
            lock_claim_told(place->claim);
    if (together)
        lock_line_hurry(line, 0);
}

void lock_line_hint(struct lock_line *line, uint64_t at_us)
{
    if (line->stayers != NULL)
        line->hint_us = lock_earlier(line->hint_us, at_us);
    set_line_alarm(line);
}

void lock_line_alarm(struct lock_line *line)
{
    struct lock_core *core = line->core;
    struct lock_claim *claim = line->stayers;
    /* What has run out at the provider is noticed, and told to others, whichever asks. */
    if (core->is_up && claim != NULL && line->hint_us <= core->now_us) {
        line->hint_us = asks_again_us(claim);
        core->stats.polls++;
        lock_claim_ask(claim);
        claim->asks_for_all = true;
    }
    send_if_due(line);
}
