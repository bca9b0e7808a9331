/* SPDX-License-Identifier: MIT */
/*
 * expire.h - an entry that was found older than one of its tags becomes stale, if the tags were expired.
 *
 * To expire a tag touches none of its entries: it moves the tag's epoch on, as an invalidation does, and notes beside
 * it that it was an expiry (tag_invalidate.lua). Only an entry that is found outdated leads here:
 *
 *     tag_stale     were its tags expired, and not invalidated? How long ago, and which epoch may it be born at?
 *     PTTL  GETEX   the entry again: is it still that one, and what is left of its own stale time since the expiry?
 *     make_stale    what stands there is stale from now on, and no longer outdated
 *
 * From then on it is an entry like any that guard_expire() of its key has made stale, for every process. Where any of
 * this fails it stays outdated: missing, never fresh.
 *
 * Threads  that of the connection.
 */
#pragma once

#include "state.h"

/* What was found; lent until expire_begin() returns. */
struct expire_found {
    const char *key; /* the application's */
    size_t key_bytes;
    const struct value *value; /* with tags */
    const char *filler;        /* TOKEN_UUID_BYTES */
    struct tags_clock born;
};

/* `expired`: it is stale. Once, never from inside expire_begin(). */
typedef void expire_done(void *context, bool expired);

/* False: nothing could be sent, and `done` is not called. */
bool expire_begin(struct loop *loop, const struct expire_found *found, expire_done *done, void *context);
