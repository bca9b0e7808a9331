/* SPDX-License-Identifier: MIT */
/* invalidate.c - core_invalidate(), which is in core.h; the rest of it in core_state.h. */
#include "core_state.h"
#include "flight.h"
#include <assert.h>
#include <utlist.h>

enum {
    INVALIDATE_FIRST_MS = 20,
    INVALIDATE_MOST_MS = 500,
    MOVINGS_MOST = 2, /* then without the script, which runs only where all of a key's names are */
};

unsigned invalidation_shard(const struct core *core, bool of_tag, const struct core_key *key)
{
    return of_tag ? core_shard_of(core, true, TAGS_KEY, sizeof TAGS_KEY - 1)
                  : core_shard_of(core, true, key->encoded, key->encoded_bytes);
}

static void send_invalidation(struct core *core, struct core_invalidation *invalidation)
{
    unsigned shard = invalidation_shard(core, invalidation->of_tag, &invalidation->key);
    invalidation->op = core_op(invalidation->id, shard, ++invalidation->attempts);
    invalidation->by_delete = !invalidation->of_tag && invalidation->movings >= MOVINGS_MOST;
    core_emit(core, &(struct core_action){.kind = CORE_INVALIDATE,
                                          .op = invalidation->op,
                                          .key = invalidation->key,
                                          .of_tag = invalidation->of_tag,
                                          .expires = invalidation->expires,
                                          .by_delete = invalidation->by_delete});
    alarm_set(&core->alarms, &invalidation->retry, invalidation->deadline_us);
}

void invalidation_answer(struct core *core, struct core_invalidation *invalidation, enum guard_status status)
{
    DL_DELETE(core->invalidations, invalidation);
    HASH_DELETE(by_id, core->invalidations_by_id, invalidation);
    alarm_unset(&core->alarms, &invalidation->retry);
    core_unreserve(core, ACTIONS_PER_OWNER);
    invalidation->result.status = status;
    core->stats.invalidated += status == GUARD_OK;
    core->stats.invalidate_unknown += status != GUARD_OK;
    watch_invalidated(core, invalidation);
    DL_APPEND(core->invalidated, invalidation);
}

static bool list_invalidation(struct core *core, struct core_invalidation *invalidation)
{
    if (!core_reserve(core, ACTIONS_PER_OWNER))
        return false;
    HASH_ADD_BYHASHVALUE(by_id, core->invalidations_by_id, id, sizeof invalidation->id,
                         (unsigned)invalidation->id, invalidation);
    if (invalidation->unlisted) {
        core_unreserve(core, ACTIONS_PER_OWNER);
        return false;
    }
    DL_APPEND(core->invalidations, invalidation);
    return true;
}

enum guard_status core_invalidate(struct core *core, uint64_t now_us, struct core_invalidation *invalidation)
{
    core_begin(core, now_us);
    if (core->closed)
        return GUARD_CLOSING;
    invalidation->id = ++core->last_id;
    invalidation->start_us = now_us;
    invalidation->unlisted = false;
    invalidation->retry = (struct alarm){.owner = ALARM_INVALIDATION};
    invalidation->attempts = 0;
    invalidation->movings = 0;
    invalidation->result = (struct guard_invalidated){.status = GUARD_OK};
    if (!list_invalidation(core, invalidation))
        return GUARD_NO_MEMORY;
    send_invalidation(core, invalidation);
    return GUARD_OK;
}

void invalidation_replied(struct core *core, uint64_t op, const struct core_reply *reply)
{
    const uint64_t id = op >> CORE_OP_BITS;
    struct core_invalidation *invalidation = NULL;
    HASH_FIND_BYHASHVALUE(by_id, core->invalidations_by_id, &id, sizeof id, (unsigned)id, invalidation);
    if (invalidation == NULL || invalidation->op != op)
        return;
    invalidation->op = 0;
    if (reply->kind == REPLY_CODE) {
        /* an earlier attempt whose reply was lost may have done it: what that one found is not known */
        invalidation->result.value_dropped = (reply->code & 1) != 0;
        invalidation->result.load_voided = (reply->code & 2) != 0;
        replay_note(core, invalidation, core_shard_of_op(core, op));
        invalidation_answer(core, invalidation, GUARD_OK);
        return;
    }
    /* A deletion that met moving keys, or may not be: the script has its turn again. */
    if (invalidation->by_delete && (reply->kind == REPLY_MOVING || reply->kind == REPLY_REFUSED))
        invalidation->movings = 0;
    else if (reply->kind == REPLY_MOVING && !invalidation->of_tag)
        invalidation->movings++;
    uint32_t pause_ms =
        chance_backoff(&core->chance, INVALIDATE_FIRST_MS, INVALIDATE_MOST_MS, invalidation->attempts - 1);
    uint64_t at_us = core->now_us + us(pause_ms);
    if (at_us >= invalidation->deadline_us)
        invalidation_answer(core, invalidation, GUARD_UNKNOWN);
    else
        alarm_set(&core->alarms, &invalidation->retry, at_us);
}

void invalidation_alarm(struct core *core, struct core_invalidation *invalidation)
{
    if (core->now_us >= invalidation->deadline_us)
        invalidation_answer(core, invalidation, GUARD_UNKNOWN);
    else
        send_invalidation(core, invalidation);
}
