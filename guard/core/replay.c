/* SPDX-License-Identifier: MIT */
/* replay.c - see replay.h. */
#include "replay.h"
#include "../base/digest.h"
#include "core_state.h"
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

/* An invalidation that was. */
struct confirmed {
    struct confirmed *prev, *next;           /* among all */
    struct confirmed **turn;                 /* replay.due or replay.sent; NULL: it is KEPT */
    struct confirmed *turn_prev, *turn_next; /* in that */
    UT_hash_handle by_name;
    bool unlisted;   /* no memory for the table */
    bool expires;    /* none of those that are not past dropped it */
    uint64_t id, op; /* op: the last attempt's */
    uint64_t confirmed_us;
    uint64_t at_us;    /* DUE: not before */
    unsigned shard;    /* that was asked, and has confirmed it */
    bool roamed;       /* unless it was led to another: it was of another when the reply came */
    uint32_t attempts; /* since the reign changed */
    uint32_t op_count; /* ever: the reply to an attempt from before the change may still come */
    size_t name_bytes;
    char name[]; /* 't' of a tag, else 'k'; then as it was encoded, and a NUL */
};

enum { NAME_SIZE = 1 + KEY_ENCODED_MAX + 1 };

/* ---- one confirmation ---- */

static bool is_of_tag(const struct confirmed *confirmed)
{
    return confirmed->name[0] == 't';
}

static struct core_key key_of_confirmed(const struct confirmed *confirmed)
{
    const char *encoded = confirmed->name + 1;
    size_t bytes = confirmed->name_bytes - 1;
    return (struct core_key){encoded, bytes, encoded, bytes};
}

static unsigned shard_of_confirmed(const struct core *core, const struct confirmed *confirmed)
{
    struct core_key key = key_of_confirmed(confirmed);
    return invalidation_shard(core, is_of_tag(confirmed), &key);
}

/* Its master has answered for long since: by then it was replicated, or will never be. */
static bool is_past(const struct core *core, const struct confirmed *confirmed)
{
    uint64_t answered_us = core->shards[confirmed->shard].answered_us;
    return answered_us > confirmed->confirmed_us + us(REPLAY_AGE_MS);
}

/* To the end of the list of those that are due, or sent; NULL: it is kept. */
static void turn_confirmed(struct core *core, struct confirmed *confirmed, struct confirmed **turn)
{
    struct replay *replay = &core->replay;
    if (confirmed->turn != NULL)
        DL_DELETE2(*confirmed->turn, confirmed, turn_prev, turn_next);
    replay->sent_count -= confirmed->turn == &replay->sent;
    confirmed->turn = turn;
    if (turn != NULL)
        DL_APPEND2(*turn, confirmed, turn_prev, turn_next);
    replay->sent_count += turn == &replay->sent;
}

static void forget_confirmed(struct core *core, struct confirmed *confirmed)
{
    struct replay *replay = &core->replay;
    turn_confirmed(core, confirmed, NULL);
    HASH_DELETE(by_name, replay->by_name, confirmed);
    DL_DELETE(replay->all, confirmed);
    replay->count--;
    free(confirmed);
}

static void drop_confirmed(struct core *core, struct confirmed *confirmed)
{
    core->stats.replay_dropped++;
    forget_confirmed(core, confirmed);
}

/* ---- the next one ---- */

static bool may_send_replay(const struct core *core)
{
    const struct replay *replay = &core->replay;
    return replay->due != NULL && replay->sent_count < (replay->failures > 0 ? 1 : REPLAY_UNDER_WAY);
}

static void set_replay_alarm(struct core *core)
{
    struct replay *replay = &core->replay;
    if (!may_send_replay(core)) {
        alarm_unset(&core->alarms, &replay->alarm);
        return;
    }
    uint64_t at_us = replay->due->at_us;
    alarm_set(&core->alarms, &replay->alarm, at_us > replay->pause_until_us ? at_us : replay->pause_until_us);
}

/* ---- remembered ---- */

static unsigned hash_of_name(const struct core *core, const char *name, size_t name_bytes)
{
    return (unsigned)digest_siphash(core->config.hash_key, name, name_bytes);
}

static struct confirmed *find_confirmed(const struct core *core, const char *name, size_t name_bytes)
{
    struct confirmed *found = NULL;
    unsigned hash = hash_of_name(core, name, name_bytes);
    HASH_FIND_BYHASHVALUE(by_name, core->replay.by_name, name, name_bytes, hash, found);
    return found;
}

/* NULL: no memory. */
static struct confirmed *new_confirmed(struct core *core, const char *name, size_t name_bytes)
{
    struct replay *replay = &core->replay;
    struct confirmed *confirmed = calloc(1, sizeof *confirmed + name_bytes + 1);
    if (confirmed == NULL)
        return NULL;
    memcpy(confirmed->name, name, name_bytes);
    confirmed->name_bytes = name_bytes;
    unsigned hash = hash_of_name(core, name, name_bytes);
    HASH_ADD_KEYPTR_BYHASHVALUE(by_name, replay->by_name, confirmed->name, name_bytes, hash, confirmed);
    if (confirmed->unlisted) {
        free(confirmed);
        return NULL;
    }
    confirmed->id = ++core->last_id;
    confirmed->expires = true;
    DL_APPEND(replay->all, confirmed);
    replay->count++;
    return confirmed;
}

static void note_confirmation(struct core *core, struct confirmed *confirmed, unsigned shard)
{
    struct replay *replay = &core->replay;
    turn_confirmed(core, confirmed, NULL);
    confirmed->confirmed_us = core->now_us;
    confirmed->shard = shard;
    confirmed->roamed = shard_of_confirmed(core, confirmed) != shard;
    DL_DELETE(replay->all, confirmed);
    DL_APPEND(replay->all, confirmed);
}

void replay_note(struct core *core, const struct core_invalidation *invalidation, unsigned shard)
{
    const struct core_key *key = &invalidation->key;
    const struct replay *replay = &core->replay;
    char name[NAME_SIZE];
    if (!replay->on || key->encoded_bytes > KEY_ENCODED_MAX)
        return;
    name[0] = invalidation->of_tag ? 't' : 'k';
    memcpy(name + 1, key->encoded, key->encoded_bytes);
    struct confirmed *confirmed = find_confirmed(core, name, 1 + key->encoded_bytes);
    if (confirmed == NULL) {
        while (replay->all != NULL && replay->all->turn == NULL && is_past(core, replay->all))
            forget_confirmed(core, replay->all);
        if (replay->count >= REPLAY_MOST)
            drop_confirmed(core, replay->all);
        confirmed = new_confirmed(core, name, 1 + key->encoded_bytes);
    }
    if (confirmed != NULL) {
        confirmed->expires = invalidation->expires && (confirmed->expires || is_past(core, confirmed));
        note_confirmation(core, confirmed, shard);
    } else {
        core->stats.replay_dropped++;
    }
    set_replay_alarm(core); /* what was due or under way may not be any more */
}

/* ---- sent again ---- */

static void send_replay(struct core *core, struct confirmed *confirmed)
{
    confirmed->attempts++;
    confirmed->op = core_op(confirmed->id, shard_of_confirmed(core, confirmed), ++confirmed->op_count);
    turn_confirmed(core, confirmed, &core->replay.sent);
    core_emit(core, &(struct core_action){.kind = CORE_INVALIDATE,
                                          .op = confirmed->op,
                                          .key = key_of_confirmed(confirmed),
                                          .of_tag = is_of_tag(confirmed),
                                          .expires = confirmed->expires});
}

void replay_alarm(struct core *core)
{
    const struct replay *replay = &core->replay;
    while (may_send_replay(core) && core->now_us >= replay->due->at_us &&
           core->now_us >= replay->pause_until_us)
        send_replay(core, replay->due);
    set_replay_alarm(core);
}

void replay_reign(struct core *core, unsigned shard)
{
    struct confirmed *at = NULL, *first = NULL;
    uint64_t count = 0;
    DL_FOREACH (core->replay.all, at) {
        /* Still at the master that has confirmed it, and that is not the one of this shard. */
        bool elsewhere = !at->roamed && at->shard != shard && shard_of_confirmed(core, at) == at->shard;
        if (at->turn != NULL || is_past(core, at) || elsewhere)
            continue;
        turn_confirmed(core, at, &core->replay.due);
        at->attempts = 0;
        first = first != NULL ? first : at;
        count++;
    }
    /* From the first one on, to the end of those that are due. */
    const uint64_t span_us = us(REPLAY_SPREAD_MS);
    uint64_t number = 0;
    for (at = first; at != NULL; at = at->turn_next)
        at->at_us = core->now_us + (span_us * number++ + chance_below(&core->chance, span_us)) / count;
    replay_linked(core);
}

void replay_linked(struct core *core)
{
    core->replay.failures = 0;
    core->replay.pause_until_us = 0;
    if (core->replay.on)
        set_replay_alarm(core);
}

/* ---- what came back ---- */

static void replay_failed(struct core *core, struct confirmed *confirmed)
{
    struct replay *replay = &core->replay;
    if (core->now_us >= replay->pause_until_us) {
        uint32_t pause_ms =
            chance_backoff(&core->chance, REPLAY_PAUSE_FIRST_MS, REPLAY_PAUSE_MOST_MS, replay->failures);
        replay->pause_until_us = core->now_us + us(pause_ms);
        replay->failures++;
    }
    confirmed->at_us = core->now_us;
    if (confirmed->attempts < REPLAY_ATTEMPTS)
        turn_confirmed(core, confirmed, &core->replay.due);
    else
        drop_confirmed(core, confirmed);
}

bool replay_replied(struct core *core, uint64_t op, const struct core_reply *reply)
{
    struct replay *replay = &core->replay;
    struct confirmed *confirmed = replay->sent;
    while (confirmed != NULL && confirmed->op != op)
        confirmed = confirmed->turn_next;
    if (confirmed == NULL)
        return false;
    if (reply->kind == REPLY_CODE) {
        core->stats.replayed++;
        replay->failures = 0;
        note_confirmation(core, confirmed, core_shard_of_op(core, op));
    } else {
        replay_failed(core, confirmed);
    }
    replay_alarm(core);
    return true;
}

/* ---- life ---- */

bool replay_open(struct core *core)
{
    struct replay *replay = &core->replay;
    bool complete = true;
    replay->on = core->config.replay && !core->config.without_redis;
    replay->alarm.owner = ALARM_REPLAY;
    for (int i = 0; i < REPLAY_UNDER_WAY && replay->on && complete; i += ACTIONS_PER_OWNER)
        complete = core_reserve(core, ACTIONS_PER_OWNER);
    return complete;
}

void replay_clear(struct core *core)
{
    while (core->replay.all != NULL)
        forget_confirmed(core, core->replay.all);
}

void replay_close(struct core *core)
{
    while (core->replay.due != NULL)
        turn_confirmed(core, core->replay.due, NULL);
    while (core->replay.sent != NULL)
        turn_confirmed(core, core->replay.sent, NULL);
    alarm_unset(&core->alarms, &core->replay.alarm);
}
