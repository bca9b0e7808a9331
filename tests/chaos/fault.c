/* SPDX-License-Identifier: MIT */
/* fault.c - see fault.h. */
#include "tests/chaos/fault.h"

#include <string.h>

enum {
    EVERYWHERE = FAULT_ONE_REDIS | FAULT_SENTINELS | FAULT_CLUSTER,
    FLEETS = FAULT_SENTINELS | FAULT_CLUSTER
};
enum { LOST_BEFORE_MS = 2000, REPAID_MS = 1000, BELIEVED_MS = 1250, FENCED_MS = 5000, HEALED_MS = 11000 };

static const struct fault_trait traits[FAULT_KINDS] = {
    [FAULT_CATALOGD_KILL] = {"catalogd-kill", FAULT_OF_CATALOGD, 50, 600, EVERYWHERE},
    [FAULT_CATALOGD_STOP] = {"catalogd-stop", FAULT_OF_CATALOGD, 100, 2500, EVERYWHERE},
    [FAULT_READER_STOP] = {"reader-stop", FAULT_OF_CATALOGD, 5000, 6500, EVERYWHERE},
    [FAULT_REDIS_KILL] = {"redis-kill", FAULT_OF_REDIS, 50, 1500, FAULT_ONE_REDIS},
    [FAULT_REDIS_STOP] = {"redis-stop", FAULT_OF_REDIS, 50, 2000, FAULT_ONE_REDIS},
    [FAULT_REDIS_FLUSH] = {"redis-flush", FAULT_OF_REDIS, 1, 1, FAULT_ONE_REDIS},
    [FAULT_REDIS_AHEAD] = {"redis-clock-ahead", FAULT_OF_REDIS, 300, 2500, FAULT_ONE_REDIS},
    [FAULT_REDIS_BEHIND] = {"redis-clock-behind", FAULT_OF_REDIS, 300, 2500, FAULT_ONE_REDIS},
    [FAULT_REDIS_FULL] = {"redis-full", FAULT_OF_REDIS, 300, 1500, FAULT_ONE_REDIS},
    [FAULT_REDIS_AWAY] = {"redis-away", FAULT_OF_REDIS, 200, 20000, FAULT_ONE_REDIS},
    [FAULT_REDIS_FAR] = {"redis-far", FAULT_OF_LINK, 200, 20000, FAULT_ONE_REDIS},
    [FAULT_POSTGRES_KILL] = {"postgres-kill", FAULT_OF_POSTGRES, 50, 800, EVERYWHERE},
    [FAULT_POSTGRES_STOP] = {"postgres-stop", FAULT_OF_POSTGRES, 100, 2000, EVERYWHERE},
    [FAULT_POSTGRES_RESTART] = {"postgres-restart", FAULT_OF_POSTGRES, 1, 1, EVERYWHERE},
    [FAULT_POSTGRES_TERMINATE] = {"postgres-terminate", FAULT_OF_POSTGRES, 1, 1, EVERYWHERE},
    [FAULT_POSTGRES_FULL] = {"postgres-full", FAULT_OF_POSTGRES, 300, 1500, EVERYWHERE},
    [FAULT_POSTGRES_STANDBY] = {"postgres-standby", FAULT_OF_POSTGRES, 100, 1500, FAULT_ONE_REDIS},
    [FAULT_LINK_DELAY] = {"link-delay", FAULT_OF_LINK, 200, 2000, EVERYWHERE},
    [FAULT_LINK_DROP] = {"link-drop", FAULT_OF_LINK, 100, 1500, EVERYWHERE},
    [FAULT_LINK_RESET] = {"link-reset", FAULT_OF_LINK, 50, 1000, EVERYWHERE},
    [FAULT_LINK_SILENT] = {"link-silent", FAULT_OF_LINK, 200, 2500, EVERYWHERE},
    [FAULT_LINK_DRIBBLE] = {"link-dribble", FAULT_OF_LINK, 200, 1500, EVERYWHERE},
    [FAULT_LINK_CUT] = {"link-cut", FAULT_OF_LINK, 200, 1500, EVERYWHERE},
    [FAULT_LINK_FREEZE_REQUESTS] = {"link-freeze-requests", FAULT_OF_LINK, 100, 2000, EVERYWHERE},
    [FAULT_LINK_FREEZE_REPLIES] = {"link-freeze-replies", FAULT_OF_LINK, 100, 2000, EVERYWHERE},
    [FAULT_LINK_LATE] = {"link-late", FAULT_OF_LINK, 300, 1500, EVERYWHERE},
    [FAULT_MASTER_KILL] = {"master-kill", FAULT_OF_MASTERS, 500, 4000, FLEETS},
    [FAULT_MASTER_KEPT] = {"master-kept", FAULT_OF_MASTERS, 500, 4000, 0},
    [FAULT_MASTER_STOP] = {"master-stop", FAULT_OF_MASTERS, 500, 4000, FLEETS},
    [FAULT_MASTER_CUT] = {"master-cut", FAULT_OF_MASTERS, 500, 4000, 0},
    [FAULT_MASTER_CUT_UNGUARDED] = {"master-cut-unguarded", FAULT_OF_MASTERS, 500, 4000, 0},
    [FAULT_MASTER_FAILOVER] = {"master-failover", FAULT_OF_MASTERS, 500, 4000, FAULT_CLUSTER},
    [FAULT_MASTER_GUARDED_BY_ALL] = {"master-guarded-by-all", FAULT_OF_MASTERS, 500, 4000, FAULT_SENTINELS},
    [FAULT_MASTER_GUARDED] = {"master-guarded", FAULT_OF_MASTERS, 500, 4000, FAULT_SENTINELS},
    [FAULT_MASTER_UNGUARDED] = {"master-unguarded", FAULT_OF_MASTERS, 500, 4000, 0},
    [FAULT_REPLICA_BEHIND] = {"replica-behind", FAULT_OF_MASTERS, 500, 4000, FLEETS},
    [FAULT_SENTINELS_KILL] = {"sentinels-kill", FAULT_OF_MASTERS, 500, 4000, FAULT_SENTINELS},
    [FAULT_SLOTS_MOVE] = {"slots-move", FAULT_OF_MASTERS, 500, 4000, FAULT_CLUSTER},
    [FAULT_MASTER_FORGOTTEN] = {"master-forgotten", FAULT_OF_MASTERS, 500, 4000, FAULT_CLUSTER},
};

const struct fault_trait *fault_trait(enum fault_kind kind)
{
    return &traits[kind];
}

bool fault_find(const char *name, enum fault_kind *out)
{
    for (int kind = 0; kind < FAULT_KINDS; kind++) {
        if (strcmp(traits[kind].name, name) == 0) {
            *out = (enum fault_kind)kind;
            return true;
        }
    }
    return false;
}

static uint32_t attempts_given_up(const struct fault *fault, uint32_t load_limit_ms)
{
    return 1 + (uint32_t)((fault->end_us - fault->begin_us) / ((uint64_t)load_limit_ms * 1000));
}

static uint32_t redis_further_loads(const struct fault *fault, uint32_t process_count)
{
    if (fault->kind == FAULT_REDIS_FLUSH)
        return 1;
    if (fault->kind == FAULT_REDIS_AHEAD || fault->kind == FAULT_REDIS_BEHIND)
        return 2;
    return fault->process == FAULT_EVERYBODY ? process_count : 1;
}

uint32_t fault_further_loads(const struct fault *fault, uint32_t process_count, uint32_t load_limit_ms)
{
    if (fault->kind == FAULT_READER_STOP)
        return 0;
    if (fault->side == FAULT_OF_REDIS || fault->side == FAULT_OF_MASTERS)
        return redis_further_loads(fault, process_count);
    if (fault->side == FAULT_OF_POSTGRES)
        return attempts_given_up(fault, load_limit_ms);
    return 1;
}

/* How long after its end an invalidation may still be missing. 0: none ever is. */
static uint32_t repaired_ms(enum fault_kind kind)
{
    switch (kind) {
    case FAULT_MASTER_KILL:
    case FAULT_MASTER_CUT:
    case FAULT_MASTER_GUARDED:
    case FAULT_MASTER_GUARDED_BY_ALL:
    case FAULT_REPLICA_BEHIND:
    case FAULT_SENTINELS_KILL:
        return REPAID_MS;
    case FAULT_MASTER_UNGUARDED:
        return BELIEVED_MS;
    case FAULT_MASTER_CUT_UNGUARDED:
        return HEALED_MS;
    default:
        return 0;
    }
}

bool fault_may_lose(const struct fault *fault, uint64_t *from_us, uint64_t *to_us, uint64_t *until_us)
{
    const uint64_t before_us = (uint64_t)LOST_BEFORE_MS * 1000;
    if (repaired_ms(fault->kind) == 0)
        return false;
    *from_us = fault->begin_us > before_us ? fault->begin_us - before_us : 0;
    *until_us = fault->end_us + (uint64_t)repaired_ms(fault->kind) * 1000;
    *to_us = fault->end_us;
    if (fault->kind == FAULT_MASTER_CUT)
        *to_us = fault->begin_us + (uint64_t)FENCED_MS * 1000;
    else if (fault->kind == FAULT_MASTER_UNGUARDED || fault->kind == FAULT_MASTER_CUT_UNGUARDED)
        *to_us = *until_us;
    return true;
}

bool fault_kills(const struct fault *fault, uint8_t process)
{
    return fault->kind == FAULT_CATALOGD_KILL && fault->process == process;
}

bool fault_pauses(const struct fault *fault, uint8_t process)
{
    return fault->kind == FAULT_CATALOGD_STOP && fault->process == process;
}
