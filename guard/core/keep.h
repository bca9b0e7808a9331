/* SPDX-License-Identifier: MIT */
/*
 * keep.h - how long an entry lives, what it is good for when a lookup finds it, and while Redis is away. Pure; any
 * thread, with a chance of its own.
 *
 * It lives as its loader has said (guard_load_keep()), else as the policy says.
 * The loader's numbers travel with the entry. The fresh time travels as it was said, before jitter: a value that is
 * found unchanged begins it anew, and would live shorter each time if it began the jittered one. The stale time
 * decides for every reader. What the loader has not said is the policy's of each fill, and of each reader.
 */
#pragma once

#include "../base/chance.h"
#include "../guard.h"

/* ---- how long it lives ---- */

/* What its loader has said about the life of one entry. */
struct entry_life {
    bool own_fresh, own_stale; /* false: nothing, it is the policy's */
    uint32_t fresh_ms, stale_ms;
};

/* In numbers, before jitter. */
struct spans {
    uint32_t fresh_ms, stale_ms;
    bool cut; /* they were more than max_value_ms */
};

/* keep: what the loader has said, NULL: nothing. previous: the life of the value that it found unchanged, which goes
 * on unless it has said something; NULL: it has loaded another one. */
struct entry_life keep_life(const struct guard_keep *keep, const struct entry_life *previous);

struct spans keep_spans(const struct entry_life *life, const struct guard_policy *policy, bool absent,
                        uint32_t max_value_ms);

/* Of the mark of a pass; in fresh_ms. */
struct spans keep_pass_spans(const struct guard_keep *keep, const struct guard_policy *policy,
                             uint32_t max_value_ms);

/* A reader with this policy may have an entry that is stale; own: for a time of its own. */
static inline bool keep_serves_stale(const struct guard_policy *policy, bool own_stale)
{
    return own_stale || policy->stale_ms > 0;
}

/* ---- what it is good for ---- */

/* One without is no entry for a reader with this policy. Decided where it comes from: a lookup, the answer to an
 * acquire, a message. So what is near or kept has passed this. has_value: it is no absent entry and no mark of a
 * pass. */
static inline bool hit_lacks_meta(const struct guard_policy *policy, bool has_value, size_t meta_bytes)
{
    return policy->needs_meta && has_value && meta_bytes == 0;
}

enum hit_verdict {
    HIT_NONE,    /* the core decides */
    HIT_ANSWER,  /* answer it */
    HIT_REFRESH, /* answer it, and refresh it in the background: it is stale */
    HIT_EARLY,   /* likewise, before it is */
};

/* Draws the lot of XFetch: is the value to be refreshed although it is fresh for left_ms more? */
bool hit_is_early(const struct guard_policy *policy, uint64_t load_us, uint32_t left_ms,
                  struct chance *chance);

/* Of an entry that is fresh, or stale and for a time of its own or not. */
enum hit_age { HIT_FRESH, HIT_STALE, HIT_STALE_OWN };

/* May an entry of this age answer at all? */
bool hit_serves(const struct guard_policy *policy, enum hit_age age);
/* No mark of a pass: that is no hit. load_us: how long the entry's load took; left_ms: for how long it is fresh. */
enum hit_verdict hit_judge(const struct guard_policy *policy, enum hit_age age, uint64_t load_us,
                           uint32_t left_ms, struct chance *chance);

/*
 * ---- while Redis cannot be asked: for how long an answer that is there may serve, and for whom ----
 *
 *     as_of                                     as_of + outage_ms
 *       |------------------------------------------------|        known to be right as of then
 *             touch                                   touch + outage_ms
 *               |----------------------------------------|----|   what is near until here, no longer
 *                                                     ^  ^
 *                                            refreshed   over: by up to a twentieth sooner, by lot
 *
 * As of      when the lookup that found it was sent, or when the query that made it began. What was changed and
 *            confirmed before that it shows.
 * Touch      when the last canary was sent that has come back: of one connection, so every message that was published
 *            before it has been heard. A message can be missing, so what was near is not near for longer than it was.
 *            In a Cluster a canary speaks for one master's way alone: there is no touch.
 *
 * Both are instants, no states: a cut that nobody has noticed ends the same way. So it is right, too, that a loop
 * whose connection is not up yet answers with what others of its process have: it cannot ask, and that was right not
 * long ago.
 *
 * Pure; any thread.
 */

enum {
    OUTAGE_LOTS = 1024,  /* a lot is below it: the same of a key for as long as the process lives */
    OUTAGE_SHORTER = 20, /* the end comes sooner by up to this part of the span: not all keys end together */
    OUTAGE_REFRESH = 10, /* the last such part of the span is for the refresh, */
    OUTAGE_REFRESH_MOST = 3, /* or twice as long as the load took, up to this part */
};

/* What is known of an answer that is there. */
struct outage_entry {
    uint64_t as_of_us;
    uint64_t near_until_us; /* 0: it was never near */
    uint64_t load_us;       /* that its load took; 0: not known */
    unsigned lot;           /* below OUTAGE_LOTS */
};

struct outage_times {
    uint64_t refresh_us; /* from here on a load in the background is worth while */
    uint64_t until_us;   /* from here on it does not serve */
};

/* touch_us: 0: there is none. */
struct outage_times outage_times(const struct outage_entry *entry, uint64_t touch_us, uint32_t outage_ms);

/* Who asks. */
struct outage_asker {
    bool answered;    /* a lookup of it was answered: that is Redis's word, whatever comes after */
    bool nested;      /* for a loader: an outer load could fill what it makes of this for the fleet */
    bool refreshes;   /* guard_refresh() */
    bool revalidates; /* wants what is loaded from now on */
    bool passes;      /* has found the mark of a pass */
};
bool outage_serves(const struct guard_policy *policy, const struct outage_asker *asker);

/* What a load has brought may be kept: a value or an absent row that is not for one request alone, and is not only
 * shared. */
bool outage_keeps(const struct guard_policy *policy, enum guard_how how, bool passing);
