/* SPDX-License-Identifier: MIT */
/*
 * story.h - one scenario with the real service: a crowd asks and writes while a master goes, and what it saw is
 * judged.
 *
 *     story_begin()      clients and writers; returns when all is in the cache
 *       story_befalls()  a strike at the masters, the switch, hits again, and the old one back
 *       ...
 *     story_end()        the crowd goes home; the history is judged; one line on stdout
 *
 * Values stay fresh for longer than the story lasts, so an answer that is older than it may be stays so.
 *
 * Threads: the scene's.
 * Errors: false, and the reason on stderr.
 */
#pragma once

#include "tests/chaos/check.h"
#include "tests/chaos/crowd.h"
#include "tests/chaos/masters.h"
#include "tests/chaos/stall.h"

enum { STORY_FRESH_MS = 600000, STORY_LIMIT_MS = 40000 };

struct story {
    struct scene *scene;
    const char *name;
    struct history history;
    struct crowd *crowd; /* owned */
    struct stall *stall; /* owned */
    uint64_t mark;
    struct masters masters; /* what befalls them */
    struct check_report report;
    uint32_t switch_most_ms;     /* from the strike until another master was there */
    uint32_t hits_again_most_ms; /* from then until every process answered a hit that it had not before */
    uint32_t confirmed, unconfirmed;
};

/* The name is lent until story_end(). */
bool story_begin(struct story *story, struct scene *scene, const char *name);

/* Its beginning: a master is struck, and the other one not there yet. Then the rest of it. Where the replicas lack
 * something, nobody writes until the next one: a later invalidation would hide that an earlier one is missing. */
bool story_strikes(struct story *story, enum fault_kind kind, unsigned slot);
bool story_recovers(struct story *story);

/* The fault from beginning to end, which is when every process answers hits again. */
bool story_befalls(struct story *story, enum fault_kind kind, unsigned slot);
/* So long nothing befalls. */
bool story_watch(struct story *story, uint32_t span_ms);

/* Every process answers from the cache what was stored since. */
bool story_wait_hits(struct story *story, uint32_t limit_ms, uint32_t *took_ms);

/* True: every promise kept; the history stays in build/ if not. */
bool story_end(struct story *story);

/* A whole one: the fault befalls so often, and each time so long is watched. False also if no write was confirmed. */
bool story_tell(struct scene *scene, const char *name, enum fault_kind kind, unsigned slot, unsigned count,
                uint32_t watch_ms);
