/* SPDX-License-Identifier: MIT */
/*
 * lock_events.c - the functions of lock_core.h, in which events come and actions go.
 *
 * Every event begins with lock_begin(): it notes its instant, and frees the claims and lines that ended in the event
 * before. Only the tick rings alarms: what a process that stood still has yet to read may confirm what is due. Until
 * then a hold may be over without being told; so what shares, grants or gives back a hold looks at its validity
 * first. An op is the id of its claim or line above two bits that say which action it is.
 */
#include "../base/digest.h"
#include "lock_core_state.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#define LOCK_OWNER_OF(type, member, pointer) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

unsigned lock_hash(const struct lock_core *core, const char *text, size_t bytes)
{
    return (unsigned)digest_siphash(core->config.hash_key, text, bytes);
}

void lock_set_alarm(struct lock_core *core, struct alarm *alarm, uint64_t at_us)
{
    if (at_us != UINT64_MAX)
        alarm_set(&core->alarms, alarm, at_us);
    else
        alarm_unset(&core->alarms, alarm);
}

static void free_ended(struct lock_core *core)
{
    while (core->dead_claims != NULL) {
        struct lock_claim *claim = core->dead_claims;
        core->dead_claims = claim->acting_next;
        free(claim);
    }
    while (core->dead_lines != NULL) {
        struct lock_line *line = core->dead_lines;
        core->dead_lines = line->next;
        lock_line_free(line);
    }
}

static void ring(struct alarm *alarm)
{
    switch ((enum lock_alarm_owner)alarm->owner) {
    case LOCK_ALARM_REQUEST:
        lock_request_deadline(LOCK_OWNER_OF(struct lock_request, deadline, alarm));
        break;
    case LOCK_ALARM_CLAIM:
        lock_claim_alarm(LOCK_OWNER_OF(struct lock_claim, alarm, alarm));
        break;
    case LOCK_ALARM_LINE:
        lock_line_alarm(LOCK_OWNER_OF(struct lock_line, alarm, alarm));
        break;
    }
}

static void ring_all(struct lock_core *core)
{
    struct alarm *first = alarms_first(&core->alarms);
    while (first != NULL && first->at_us <= core->now_us) {
        alarm_unset(&core->alarms, first);
        ring(first);
        first = alarms_first(&core->alarms);
    }
}

void lock_begin(struct lock_core *core, uint64_t now_us)
{
    core->now_us = now_us;
    free_ended(core);
}

/* ---- life ---- */

struct lock_core *lock_core_new(const struct lock_core_config *config)
{
    struct lock_core *core = calloc(1, sizeof *core);
    if (core == NULL)
        return NULL;
    core->config = *config;
    core->chance.state = config->seed;
    snprintf(core->link_why, sizeof core->link_why, "the provider has not answered yet");
    return core;
}

static void forget_claims(struct lock_core *core)
{
    struct lock_claim *claim, *next;
    struct lock_line *line, *next_line;
    HASH_CLEAR(by_id, core->claims_by_id);
    HASH_CLEAR(by_uuid, core->claims_by_uuid);
    HASH_CLEAR(by_id, core->lines_by_id);
    HASH_CLEAR(by_name, core->lines_by_name);
    DL_FOREACH_SAFE (core->claims, claim, next) {
        alarm_unset(&core->alarms, &claim->alarm);
        free(claim);
    }
    DL_FOREACH_SAFE2 (core->lines, line, next_line, all_next) {
        alarm_unset(&core->alarms, &line->alarm);
        lock_line_free(line);
    }
}

void lock_core_free(struct lock_core **core_pointer)
{
    struct lock_core *core = *core_pointer;
    if (core == NULL)
        return;
    assert(core->stats.waiting == 0 && core->nobody.holds == NULL);
    free_ended(core);
    forget_claims(core);
    while (core->owners != NULL) {
        struct lock_owner *owner = core->owners;
        assert(owner->holds == NULL && owner->shares == NULL);
        DL_DELETE(core->owners, owner);
        free(owner);
    }
    alarms_clear(&core->alarms);
    free(core);
    *core_pointer = NULL;
}

/* ---- actions ---- */

static enum lock_action_kind first_kind(unsigned kinds)
{
    enum lock_action_kind kind = LOCK_TAKE;
    while ((kinds & 1u << kind) == 0)
        kind++;
    return kind;
}

bool lock_core_next_action(struct lock_core *core, struct lock_action *action)
{
    if (core->acting != NULL)
        lock_claim_action(core->acting, first_kind(core->acting->unsent), action);
    else if (core->staying != NULL)
        lock_line_action(core->staying, action);
    else
        return false;
    return true;
}

void lock_core_replied(struct lock_core *core, uint64_t now_us, uint64_t op, const struct lock_reply *reply)
{
    enum lock_action_kind kind = (enum lock_action_kind)(op & 3);
    uint64_t id = op >> 2;
    struct lock_claim *claim = NULL;
    struct lock_line *line = NULL;
    lock_begin(core, now_us);
    if (kind == LOCK_STAY)
        HASH_FIND_BYHASHVALUE(by_id, core->lines_by_id, &id, sizeof id, (unsigned)id, line);
    else
        HASH_FIND_BYHASHVALUE(by_id, core->claims_by_id, &id, sizeof id, (unsigned)id, claim);
    if (claim != NULL)
        lock_claim_replied(claim, kind, reply);
    if (line != NULL)
        lock_line_replied(line, reply);
}

/* ---- hints ---- */

static struct lock_claim *find_claim(const struct lock_core *core, const char *uuid)
{
    struct lock_claim *found = NULL;
    unsigned hash = lock_hash(core, uuid, LOCK_UUID_BYTES);
    HASH_FIND_BYHASHVALUE(by_uuid, core->claims_by_uuid, uuid, LOCK_UUID_BYTES, hash, found);
    return found;
}

void lock_core_told(struct lock_core *core, uint64_t now_us, const char *uuid, const char *encoded,
                    size_t encoded_bytes)
{
    lock_begin(core, now_us);
    struct lock_claim *claim = uuid != NULL ? find_claim(core, uuid) : NULL;
    struct lock_line *line = uuid == NULL ? lock_line_find(core, encoded, encoded_bytes) : NULL;
    core->stats.hints += claim != NULL || line != NULL;
    if (claim != NULL)
        lock_claim_told(claim);
    if (line != NULL)
        lock_line_told(line);
}

const char *lock_why_kept(struct lock_core *core, const char *why)
{
    if (why == NULL)
        return NULL;
    for (size_t i = 0; i < LOCK_WHYS; i++)
        if (strncmp(core->whys[i], why, LOCK_WHY_SIZE - 1) == 0)
            return core->whys[i];
    char *kept = core->whys[core->why_count++ % LOCK_WHYS];
    snprintf(kept, LOCK_WHY_SIZE, "%s", why);
    return kept;
}

void lock_core_dropped(struct lock_core *core, uint64_t now_us, const char *token, const char *why)
{
    lock_begin(core, now_us);
    struct lock_claim *claim = find_claim(core, token);
    if (claim == NULL)
        return;
    lock_claim_dropped(claim, lock_why_kept(core, why));
}

void lock_core_resync(struct lock_core *core, uint64_t now_us)
{
    struct lock_claim *claim;
    struct lock_line *line;
    lock_begin(core, now_us);
    DL_FOREACH (core->claims, claim)
        lock_claim_resync(claim);
    DL_FOREACH2 (core->lines, line, all_next)
        lock_line_hurry(line, chance_below(&core->chance, lock_us(LOCK_RESYNC_MS)));
}

/* ---- the link ---- */

static void link_up(struct lock_core *core)
{
    struct lock_claim *claim, *next;
    struct lock_line *line;
    core->is_up = true;
    DL_FOREACH_SAFE (core->claims, claim, next)
        lock_claim_linked(claim);
    DL_FOREACH2 (core->lines, line, all_next)
        lock_line_hurry(line, 0);
}

void lock_core_link(struct lock_core *core, uint64_t now_us, bool up, const char *why)
{
    lock_begin(core, now_us);
    if (why != NULL)
        snprintf(core->link_why, sizeof core->link_why, "%s", why);
    if (up)
        link_up(core);
    else
        core->is_up = false;
}

/* ---- time ---- */

uint64_t lock_core_next_us(const struct lock_core *core)
{
    const struct alarm *first = alarms_first(&core->alarms);
    return first != NULL ? first->at_us : UINT64_MAX;
}

void lock_core_tick(struct lock_core *core, uint64_t now_us)
{
    lock_begin(core, now_us);
    ring_all(core);
}

/* ---- the end ---- */

void lock_core_close(struct lock_core *core, uint64_t now_us)
{
    static const char WHY[] = "the locks are closing";
    struct lock_owner *owner;
    lock_begin(core, now_us);
    core->is_closed = true;
    DL_FOREACH (core->owners, owner)
        lock_owner_end(core, owner, GUARD_LOCK_CLOSING, WHY);
    lock_owner_end(core, &core->nobody, GUARD_LOCK_CLOSING, WHY);
}

bool lock_core_idle(const struct lock_core *core)
{
    return core->claims == NULL && core->lines == NULL;
}

void lock_core_stats(const struct lock_core *core, struct guard_locks_stats *stats)
{
    *stats = core->stats;
    stats->is_up = core->is_up;
}
