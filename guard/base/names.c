/* SPDX-License-Identifier: MIT */
/* names.c - the names of what guard.h enumerates, as metrics, logs and Redis have them. */
#include "../guard.h"

const char *guard_status_name(enum guard_status status)
{
    static const char *const NAMES[] = {[GUARD_OK] = "ok",           [GUARD_ABSENT] = "absent",
                                        [GUARD_FAILED] = "failed",   [GUARD_SHED] = "shed",
                                        [GUARD_TIMEOUT] = "timeout", [GUARD_CANCELLED] = "cancelled",
                                        [GUARD_CLOSING] = "closing", [GUARD_UNKNOWN] = "unknown",
                                        [GUARD_INVALID] = "invalid", [GUARD_NO_MEMORY] = "no_memory",
                                        [GUARD_MISS] = "miss",       [GUARD_NOW] = "now"};
    return (size_t)status < sizeof NAMES / sizeof *NAMES ? NAMES[status] : "?";
}

const char *guard_source_name(enum guard_source source)
{
    static const char *const NAMES[] = {
        [GUARD_FROM_NOWHERE] = "nowhere", [GUARD_FROM_CACHE] = "cache",   [GUARD_FROM_STALE] = "stale",
        [GUARD_FROM_LOAD] = "load",       [GUARD_FROM_FLIGHT] = "flight", [GUARD_FROM_FLEET] = "fleet",
        [GUARD_FROM_NEAR] = "near"};
    return (size_t)source < sizeof NAMES / sizeof *NAMES ? NAMES[source] : "?";
}

const char *guard_failure_name(enum guard_failure failure)
{
    static const char *const NAMES[] = {
        [GUARD_FAILURE_NONE] = "none",         [GUARD_FAILURE_UNAVAILABLE] = "unavailable",
        [GUARD_FAILURE_TIMEOUT] = "timeout",   [GUARD_FAILURE_REJECTED] = "rejected",
        [GUARD_FAILURE_INTERNAL] = "internal", [GUARD_FAILURE_CYCLE] = "cycle"};
    return (size_t)failure < sizeof NAMES / sizeof *NAMES ? NAMES[failure] : "?";
}
