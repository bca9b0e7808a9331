/* SPDX-License-Identifier: MIT */
/*
 * core_state.h - the memory of a core, and what the files of this room get from core.c. Private to the room.
 *
 * Lifetime  A flight that ends leaves the tables at once and is freed at the beginning of the next event, because
 *           actions may point to it until then.
 */
#pragma once

#include "../base/chance.h"
#include "../base/load_id.h"
#include "../base/stats.h"
#include "breaker.h"
#include "core.h"
#include "defer.h"
#include "loads.h"
#include "permits.h"
#include "replay.h"

/* An op is the id of its flight, invalidation or permit, the shard that it is sent to, and a count, from above. So
 * the reply tells whose breaker it is about, even if the key is of another shard by then. */
enum { CORE_OP_COUNT_BITS = 12, CORE_OP_SHARD_BITS = 8, CORE_OP_BITS = 20 };

enum {
    ACTIONS_PER_OWNER = 4, /* the most that one event makes one flight, invalidation or permit send */
    ACTIONS_PER_LOAD = 1,  /* beside its flight: that it is forgotten */
};

/* What an alarm belongs to. */
enum alarm_owner {
    ALARM_WAITER,
    ALARM_FLIGHT,
    ALARM_INVALIDATION,
    ALARM_PERMIT,
    ALARM_PERMITS,
    ALARM_REPLAY,
    ALARM_LOAD
};

/* An action that the owner could not perform. */
struct unperformed {
    uint64_t op; /* 0: it was a load */
    uint64_t load;
};

/* What is known of its master. */
struct core_shard {
    struct breaker breaker;
    uint64_t answered_us; /* its last answer to a command */
};

struct core {
    struct core_config config;
    uint64_t now_us; /* of the event that is being handled */
    struct chance chance;
    struct core_shard *shards; /* owned */
    uint32_t shards_count;
    struct alarms alarms;
    uint64_t last_stamp, last_id;
    bool closed;
    bool draining; /* no deferred load is waited for */

    struct flight *by_key[2]; /* uthash tables; [true]: revalidations */
    struct flight *by_id;     /* likewise */
    struct flight *flights;   /* all but the dead */
    struct flight *dead;

    struct loads loads;
    struct permits permits;
    struct replay replay;
    struct abandon abandon;

    struct core_origin *spent;
    struct core_waiter *answered; /* not fetched yet; oldest first, likewise the invalidated */
    struct core_invalidation *invalidations_by_id; /* uthash table */
    struct core_invalidation *invalidations, *invalidated;

    struct core_action *actions; /* owned ring */
    uint32_t action_first, action_count, action_capacity, actions_reserved;
    struct unperformed *unperformed; /* owned, room for action_capacity; the last one is told first */
    uint32_t unperformed_count;

    struct guard_stats stats;  /* of no kind */
    struct guard_stats *kinds; /* owned: of each */
    uint64_t kinds_changed;    /* since core_take_changed(), bit by bit */
};

static inline uint64_t us(uint32_t ms)
{
    return (uint64_t)ms * 1000;
}

static inline uint64_t earlier_us(uint64_t a_us, uint64_t b_us)
{
    return a_us < b_us ? a_us : b_us;
}

/* To count in. */
static inline struct guard_stats *core_counts(struct core *core, unsigned kind)
{
    core->kinds_changed |= UINT64_C(1) << kind;
    return &core->kinds[kind];
}
_Static_assert((int)CORE_KINDS_MAX <= 64, "they are bits");

/* The fleet has a limit. Without one nothing of permits.c takes part in a load. */
static inline bool permits_exist(const struct core *core)
{
    return core->permits.all != NULL;
}

static inline uint64_t core_op(uint64_t id, unsigned shard, uint32_t count)
{
    return id << CORE_OP_BITS | (uint64_t)shard << CORE_OP_COUNT_BITS |
           (count & ((1u << CORE_OP_COUNT_BITS) - 1));
}

/* Every event begins with it: it is now_us, and the flights that ended in the event before are freed. */
void core_begin(struct core *core, uint64_t now_us);
/* What happens from here on comes after everything that has happened so far. */
uint64_t core_stamp(struct core *core);

unsigned core_shard_of(const struct core *core, bool invalidated, const char *encoded, size_t encoded_bytes);
/* Whether a command about this key may be sent, and to which shard. It may be the probe of its breaker, so it must be
 * sent then, and its op must name that shard. */
bool core_may_send(struct core *core, const struct core_key *key, unsigned *shard);

/* Of this core's own ops. */
unsigned core_shard_of_op(const struct core *core, uint64_t op);

/* A flight of this process has the lease of this key with this tag (NULL: not known). */
bool core_holds_lease(const struct core *core, const struct core_key *key, const char *lease_tag);

/* Room for one more alarm, and so many actions at once: ACTIONS_PER_OWNER, or ACTIONS_PER_LOAD. False: no memory. */
bool core_reserve(struct core *core, uint32_t actions);
void core_unreserve(struct core *core, uint32_t actions);
void core_emit(struct core *core, const struct core_action *action);

/* Takes the waiter out of its flight and hands it to the owner with this result. */
void core_answer(struct core_waiter *waiter, const struct guard_result *result);

/* FOR_ONE: passing, and not found by its key. */
enum flight_for { FLIGHT_FOR_ALL, FLIGHT_FOR_REVALIDATION, FLIGHT_FOR_ONE };
/* NULL: no memory. */
struct flight *core_new_flight(struct core *core, const struct core_key *key,
                               const struct guard_policy *policy, enum flight_for whom);
void core_remove_flight(struct flight *flight);
/* Its load, if it gets one without a waiter, goes back to this; what it had is given back. */
void core_set_origin(struct flight *flight, struct core_origin *origin);

/* ---- invalidate.c: repeated until Redis says that they have happened or their deadline is over ---- */

/* Of an invalidation of this key or tag. */
unsigned invalidation_shard(const struct core *core, bool of_tag, const struct core_key *key);
/* Nothing happens if the op is of no invalidation. */
void invalidation_replied(struct core *core, uint64_t op, const struct core_reply *reply);
/* The next attempt is due, or the deadline is over. */
void invalidation_alarm(struct core *core, struct core_invalidation *invalidation);
/* Hands it to the owner with this result. */
void invalidation_answer(struct core *core, struct core_invalidation *invalidation, enum guard_status status);
