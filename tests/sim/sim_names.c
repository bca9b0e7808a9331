/* SPDX-License-Identifier: MIT */
/* sim_names.c - names of faults, mutants and answers in traces and on the command line. */
#include "sim.h"

#define LIST_NAME(name, text) [name] = text,

const char *const mutant_names[MUTANTS] = {
    MUTANTS_OF_WISHES(LIST_NAME) OUTAGE_MUTANTS(LIST_NAME) /* and */
        [MUTANT_NONE] = "none",
    [MUTANT_FILL_UNFENCED] = "fill-unfenced",
    [MUTANT_RELEASE_ANY] = "release-any",
    [MUTANT_INVALIDATE_KEEPS] = "invalidate-keeps",
    [MUTANT_RENEW_CREATES] = "renew-creates",
    [MUTANT_LOOKUP_NOT_ATOMIC] = "lookup-not-atomic",
    [MUTANT_BUSY_IGNORED] = "busy-ignored",
    [MUTANT_NO_CLAMP] = "no-clamp",
    [MUTANT_SAME_TOKEN] = "same-token",
    [MUTANT_EARLY_QUERY] = "early-query",
    [MUTANT_FALSE_CONFIRM] = "false-confirm",
    [MUTANT_REPLY_SHIFTED] = "reply-shifted",
    [MUTANT_NO_FAILURE_LEASE] = "no-failure-lease",
    [MUTANT_TOUCH_UNFENCED] = "touch-unfenced",
    [MUTANT_EARLY_ANY] = "early-any",
    [MUTANT_EARLY_BUSY] = "early-busy",
    [MUTANT_STALE_STAYS] = "stale-stays",
    [MUTANT_STALE_FOR_EVER] = "stale-for-ever",
    [MUTANT_UNCHANGED_BLIND] = "unchanged-blind",
    [MUTANT_PERMIT_RELEASE_ANY] = "permit-release-any",
    [MUTANT_PERMIT_FOR_EVER] = "permit-for-ever",
    [MUTANT_PERMIT_NO_QUEUE] = "permit-no-queue",
    [MUTANT_PERMIT_NOT_PASSED] = "permit-not-passed",
    [MUTANT_REFRESH_FIRST] = "refresh-first",
    [MUTANT_TAGS_BLIND] = "tags-blind",
    [MUTANT_EPOCH_LOST_GOOD] = "epoch-lost-good",
    [MUTANT_CLOCK_LATE] = "clock-late",
    [MUTANT_CLOCK_RESTARTS] = "clock-restarts",
    [MUTANT_CLOCK_STANDS] = "clock-stands",
    [MUTANT_KEEP_BACKDATES] = "keep-backdates",
    [MUTANT_FULL_KEEPS_EPOCH] = "full-keeps-epoch",
    [MUTANT_PUSH_UNCHECKED] = "push-unchecked",
    [MUTANT_LOOKUP_UNFENCED] = "lookup-unfenced",
    [MUTANT_ACQUIRE_UNFENCED] = "acquire-unfenced",
    [MUTANT_CLOCK_COUNTS_ON] = "clock-counts-on",
    [MUTANT_CLOCK_LEAPS_AGAIN] = "clock-leaps-again",
    [MUTANT_EPOCHS_UNFENCED] = "epochs-unfenced",
    [MUTANT_REDIRECT_NEW_TOKEN] = "redirect-new-token",
    [MUTANT_DELETE_VALUE_FIRST] = "delete-value-first",
    [MUTANT_NO_HEARTBEAT] = "no-heartbeat",
    [MUTANT_NO_QUARANTINE] = "no-quarantine",
    [MUTANT_NO_CONFIRMING] = "no-confirming",
    [MUTANT_NO_GENERATION] = "no-generation",
    [MUTANT_HITS_BY_GET] = "hits-by-get",
};

const char *const seen_names[SEENS] = {
    SEENS_WITH_ONE(LIST_NAME) SEENS_WITH_SHARDS(LIST_NAME) /* and */
    SEENS_OF_WISHES(LIST_NAME) OUTAGE_SEENS(LIST_NAME)     /* none but these */
};

const char *const fault_names[FAULTS] = {
    [FAULT_COMMAND_LOST] = "command lost",     [FAULT_COMMAND_LATE] = "command ran late",
    [FAULT_REPLY_LOST] = "reply lost",         [FAULT_MESSAGE_LOST] = "message lost",
    [FAULT_MESSAGE_TWICE] = "message twice",   [FAULT_MESSAGE_FIRST] = "message before reply",
    [FAULT_CONNECTION] = "connection broken",  [FAULT_SUBSCRIPTION] = "subscription dead",
    [FAULT_CRASH] = "process killed",          [FAULT_SHUTDOWN] = "process shut down",
    [FAULT_STALL] = "process stalled",         [FAULT_LEASE_GONE] = "lease evicted",
    [FAULT_VALUE_GONE] = "value evicted",      [FAULT_VALUE_DAMAGED] = "value damaged",
    [FAULT_REDIS_EMPTY] = "redis back empty",  [FAULT_REDIS_FAILOVER] = "redis failover",
    [FAULT_REDIS_HANG] = "redis hung",         [FAULT_CLOCK_FORWARD] = "clock forward",
    [FAULT_CLOCK_BACK] = "clock back",         [FAULT_OOM] = "redis out of memory",
    [FAULT_READONLY] = "redis read-only",      [FAULT_LOAD_FAILS] = "load failed",
    [FAULT_LOAD_SLOW] = "load slow",           [FAULT_LOAD_HANGS] = "load hung",
    [FAULT_CANCEL_IGNORED] = "cancel ignored", [FAULT_REQUEST_LEAVES] = "request left",
    [FAULT_WRITER_DIES] = "writer died",       [FAULT_EPOCH_GONE] = "epoch evicted",
    [FAULT_CLOCK_GONE] = "tag clock evicted",  [FAULT_MESSAGE_LATE] = "message late",
    [FAULT_REDIS_DEMOTED] = "redis demoted",   [FAULT_SLOT_MOVES] = "slot moved",
    [FAULT_REDIS_WAKES] = "redis woken",       [FAULT_TWO_FENCED] = "two masters, one fenced",
    [FAULT_TWO_UNFENCED] = "two masters",      [FAULT_CUT_OFF] = "process cut off",
    [FAULT_REDIS_AWAY] = "redis away",
};

const char *const status_names[STATUSES] = {
    [GUARD_OK] = "ok",           [GUARD_ABSENT] = "absent",
    [GUARD_FAILED] = "failed",   [GUARD_SHED] = "shed",
    [GUARD_TIMEOUT] = "timeout", [GUARD_CANCELLED] = "cancelled",
    [GUARD_CLOSING] = "closing", [GUARD_UNKNOWN] = "unknown",
    [GUARD_INVALID] = "invalid", [GUARD_NO_MEMORY] = "no memory",
    [GUARD_MISS] = "miss",
};

const char *const source_names[GUARD_FROM_KEPT + 1] = {
    [GUARD_FROM_NOWHERE] = "nowhere", [GUARD_FROM_CACHE] = "cache",   [GUARD_FROM_STALE] = "stale",
    [GUARD_FROM_LOAD] = "load",       [GUARD_FROM_FLIGHT] = "flight", [GUARD_FROM_FLEET] = "fleet",
    [GUARD_FROM_NEAR] = "near",       [GUARD_FROM_KEPT] = "kept",
};
