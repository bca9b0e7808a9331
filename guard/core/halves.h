/* SPDX-License-Identifier: MIT */
/*
 * halves.h - a query that failed as one because of what was asked, and the halves in which it is asked again. Private
 * to the room.
 *
 *     query fails ---> two halves, each a query ---> those that fail: two halves each ---> a key that stands alone
 *                                |                                                              has failed
 *                                +--- HALVES_MOST of them have failed, none has succeeded, none runs: all have
 *
 * One key    that the source refuses costs two queries for each halving: 12 for one of 64. Its neighbours are
 *            answered.
 * Several    likewise. Only where so many queries have failed that at least eight keys are refused, one in each
 *            eighth, and all that has been asked is, does nobody look for a key that is not.
 * All        A source that refuses everything would be asked 2n - 1 times for n keys. Once HALVES_MOST have failed
 *            and none has succeeded, no half begins before those that run are back. If they have failed, too, what is
 *            left fails as the last one did.
 *
 * Lifetime   One for each query that failed, shared by its flights while they wait for their half or load in it;
 *            freed with the last of them.
 */
#pragma once

#include "core.h"

enum { HALVES_MOST = 15 }; /* the query, its halves, quarters and eighths */

struct flight;
struct load;

struct halves {
    uint32_t flights;
    uint32_t failed; /* queries, the first one included */
    bool succeeded;  /* a key has a result */
};

/* This load's query has failed as one: its flights belong together from here on. False: no memory. */
bool halves_begin(struct load *load);
/* It has ended otherwise, or waits for no half any more. */
void halves_leave(struct flight *flight);
/* So many have failed that only what still runs can tell. */
bool halves_doubtful(const struct halves *halves);
/* A load of them runs. */
bool halves_run(const struct core *core, const struct halves *halves);
/* One of them that is queued, the last first. NULL: none is. */
struct flight *halves_queued(const struct core *core, const struct halves *halves);
