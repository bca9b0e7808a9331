/* SPDX-License-Identifier: MIT */
/*
 * scripts.c - the table of embedded scripts; guard_scripts.h is made by scripts/embed.sh.
 */
#include "scripts.h"
#include "guard_scripts.h"

#define SCRIPT_ENTRY(id, name) [id] = {name##_lua, sizeof(name##_lua) - 1}

const struct redis_script protocol_scripts[SCRIPT_COUNT] = {
    SCRIPT_ENTRY(SCRIPT_ACQUIRE, acquire),
    SCRIPT_ENTRY(SCRIPT_RENEW, renew),
    SCRIPT_ENTRY(SCRIPT_FILL, fill),
    SCRIPT_ENTRY(SCRIPT_TOUCH, touch),
    SCRIPT_ENTRY(SCRIPT_RELEASE, release),
    SCRIPT_ENTRY(SCRIPT_INVALIDATE, invalidate),
    SCRIPT_ENTRY(SCRIPT_PERMIT_ACQUIRE, permit_acquire),
    SCRIPT_ENTRY(SCRIPT_PERMIT_RENEW, permit_renew),
    SCRIPT_ENTRY(SCRIPT_PERMIT_RELEASE, permit_release),
    SCRIPT_ENTRY(SCRIPT_TAG_CLOCK, tag_clock),
    SCRIPT_ENTRY(SCRIPT_TAG_KEEP, tag_keep),
    SCRIPT_ENTRY(SCRIPT_TAG_INVALIDATE, tag_invalidate),
    SCRIPT_ENTRY(SCRIPT_TAG_STALE, tag_stale),
    SCRIPT_ENTRY(SCRIPT_MAKE_STALE, make_stale),
    SCRIPT_ENTRY(SCRIPT_CACHE_ID, cache_id),
};

#undef SCRIPT_ENTRY
