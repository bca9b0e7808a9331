/* SPDX-License-Identifier: MIT */
/*
 * lease.h - what a flight does with a lease, from its grant to its release: queue, renew, load, fill. A bypass takes
 * the same way without one and fills nothing. Private to the room.
 *
 * Lease      Valid from the instant its acquire was sent. Renewed at a third of it, never once the fill or the
 *            release was sent, never beyond hold_until_us. A renewal without an answer does not lose it; a "no" does,
 *            and so does the end of its validity.
 * Fill       Repeated with the same token until it is answered or the lease is over: the script stores once. A value
 *            that its loader called unchanged is touched, not sent again. One that met moving keys has not run: it
 *            waits, with its lease renewed, unless a waiter does, too.
 * Tags       A value with tags is stored with the tags' clock as it was before its query. Where that clock could not
 *            be read, the value is answered and not stored.
 * Kept       As the loader has said (keep.h). What is for the requests of this process alone, shared or passed is not
 *            filled in: the lease is released, and a release that shares tells those that wait for that lease what
 *            was loaded.
 * Halved     A load whose query failed as one, by what was asked, is queued again under its lease, with half of that
 *            query. That is no failure of its key, until the key has failed alone, or all of the query has
 *            (halves.h).
 * Failure    Written into the release, so that the whole fleet tries no sooner than after failure_ms. Without a lease
 *            this process alone remembers it (COOLING). That this process has no thread or no memory is no failure:
 *            the lease goes back, and others may load.
 */
#pragma once

#include "core.h"

/* The script said: ours. */
void lease_granted(struct flight *flight);
/* A worker is free for it, or the thread of a load that waits for it. */
void lease_start_load(struct flight *flight);
void lease_load_ended(struct flight *flight, const struct core_loaded *loaded);
/* Its load is deferred from here on. */
void lease_deferred(struct flight *flight);

void lease_fill_replied(struct flight *flight, const struct core_reply *reply);
void lease_renew_replied(struct flight *flight, const struct core_reply *reply);
void lease_release_replied(struct flight *flight, const struct core_reply *reply);

/* QUEUED, LOADING: renewal is due, or a limit is over. FILLING, RELEASING: so, or the next attempt is due. */
void lease_alarm(struct flight *flight);
/* Was it our lease that an invalidation voided? A renewal tells. */
void lease_doubt(struct flight *flight);

/* Ends a flight whose waiters have been answered: its lease, if it has one, is released. */
void lease_drop(struct flight *flight);
/* Its load is one of a query that waits for what waits for it: it begins anew, apart. */
void lease_leave_query(struct flight *flight);
/* A queued refresh gives up its place and its lease. */
void lease_yield(struct flight *flight);
void lease_release(struct flight *flight, enum guard_failure failure, bool too_big);

/* ---- for pass.c ---- */

/* Stores what was loaded, or a mark, for so long. */
void lease_fill(struct flight *flight, uint32_t fresh_ms, uint32_t stale_ms);
/* Releases it, and says what was loaded, or that it was passed. */
void lease_share(struct flight *flight);
/* What was loaded has tags, and when it was born is not known. */
bool lease_lacks_tag_clock(const struct flight *flight);
struct guard_result lease_loaded_result(const struct flight *flight, bool stored);
