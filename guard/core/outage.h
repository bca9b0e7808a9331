/* SPDX-License-Identifier: MIT */
/*
 * outage.h - while Redis cannot be asked: for how long an answer that is there may serve, and for whom.
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
#ifndef GUARD_OUTAGE_H
#define GUARD_OUTAGE_H

#include "../guard.h"

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

#endif
