/* SPDX-License-Identifier: MIT */
/*
 * wire/scripts.h - the Lua scripts of scripts/, embedded by the build (scripts/embed.sh). Their heads say what
 * KEYS, ARGV and the replies are.
 *
 * A lease token is one string, compared whole: "<uuid, 36> <tag, 16 hex digits> <lease_ms, 7 digits>", then
 * optionally a space and text for people (host, process, since when).
 */
#ifndef GUARD_SCRIPT_H
#define GUARD_SCRIPT_H

#include "../redis/redis.h"

enum script {
    SCRIPT_ACQUIRE,
    SCRIPT_RENEW,
    SCRIPT_FILL,
    SCRIPT_TOUCH,
    SCRIPT_RELEASE,
    SCRIPT_INVALIDATE,
    SCRIPT_PERMIT_ACQUIRE,
    SCRIPT_PERMIT_RENEW,
    SCRIPT_PERMIT_RELEASE,
    SCRIPT_TAG_CLOCK,
    SCRIPT_TAG_KEEP,
    SCRIPT_TAG_INVALIDATE,
    SCRIPT_TAG_STALE,
    SCRIPT_MAKE_STALE,
    SCRIPT_CACHE_ID,
    SCRIPT_COUNT
};

/* NUL-terminated sources with their comments taken out: what a connection is given, and its scripts' numbers. */
extern const struct redis_script protocol_scripts[SCRIPT_COUNT];

#endif
