/* SPDX-License-Identifier: MIT */
/* sim_names.c - names of faults, mutants and answers in traces and on the command line. */
#include "sim.h"

#define LIST_NAME(name, text) [name] = text,

const char *const mutant_names[MUTANTS] = {
    [MUTANT_NONE] = "none",
    MUTANTS_WITH_ONE(LIST_NAME) MUTANTS_WITH_SHARDS(LIST_NAME) /* and */
    MUTANTS_OF_WISHES(LIST_NAME) OUTAGE_MUTANTS(LIST_NAME)     /* none but these */
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
