/* SPDX-License-Identifier: MIT */
/*
 * tags.h - groups of entries, and whether an entry is older than the last invalidation of one of its groups.
 *
 * The tags of an entry are known only once it is loaded, so no epoch of theirs can be read before its query. There is
 * one clock for all tags of a namespace instead, a number in Redis that every invalidation moves on:
 *
 *     load:        clock -> born ---> query ---> entry {born, tags} -- stored, its tags kept
 *     invalidate:  a later clock -> clock, epoch of the tag
 *     hit:         epochs of the entry's tags: each is there, and born at or after it? Else it counts as missing.
 *
 *     expire:      as invalidate, and the tag's expiries are noted beside its epoch (scripts/tag_expiry.part.lua)
 *     outdated:    were those of its tags that are younger expired, none invalidated? Then the entry is made stale,
 *                  born at the youngest epoch of its tags: a stale entry like any other from then on (run/expire.h)
 *
 * O(1): nothing is looked for and nothing deleted. Every step is a script, so that they have an order; an entry born
 * at or after an epoch was queried after that invalidation.
 *
 * What Redis loses it may evict at any time, is thrown away on the side of freshness. A tag without an epoch may just
 * have been invalidated: its entries are out of date, and it is given the present clock when the next of them is
 * stored. A clock that is lost begins again in another era, and nothing that was born in one era is good under an
 * epoch of another. Redis's own time takes part as the name of an era, and as what the clock goes to with each step,
 * so that no entry that was born by the clock of an old master outlives what a new one invalidates; at one master it
 * may step as it likes (wire/scripts/tag_common.part.lua).
 *
 * Pure, any thread.
 */
#pragma once

#include "../guard.h"

enum {
    TAGS_ENCODED_MAX = 3 * GUARD_TAG_BYTES_MAX, /* of one, key_encode() of it: never hashed */
    TAGS_TEXT_MAX = GUARD_TAGS_MAX * (TAGS_ENCODED_MAX + 1) - 1,
    TAGS_CLOCK_BYTES = 29, /* "<era, 16 digits>.<count, 12 digits>" */
};

/* What the clock showed, or a tag's epoch. */
struct tags_clock {
    uint64_t era, count; /* era 0: not known */
};

/* False, with *out not known, unless it is one as the scripts write it. */
bool tags_clock_read(const char *text, size_t bytes, struct tags_clock *out);
void tags_clock_write(const struct tags_clock *clock, char out[TAGS_CLOCK_BYTES + 1]);

/* What Redis says about the tags of an entry. */
struct tags_epochs {
    bool answered;
    size_t count;
    struct tags_clock of[GUARD_TAGS_MAX];
};

enum tags_verdict {
    TAGS_GOOD,
    TAGS_OUTDATED,
    TAGS_UNANSWERED,
};
/* On an entry with so many tags that was born then. An answer that does not fit makes it outdated: Redis is there,
 * and cannot say that it is good. */
enum tags_verdict tags_judge(const struct tags_epochs *epochs, size_t tag_count,
                             const struct tags_clock *born);

/* ---- the tags of one entry: encoded, one space between, "" for none ---- */

/* Appends one to text[0..*bytes), of TAGS_TEXT_MAX + 1; it stays NUL-terminated. One that is there already is not
 * added again. False: it is no tag, or too many. */
bool tags_add(char *text, size_t *bytes, const char *tag, size_t tag_bytes);

struct tag {
    const char *at; /* encoded; not NUL-terminated */
    size_t bytes;
};
/* How many there are in a text that is one. */
size_t tags_count(const char *text, size_t bytes);
/* Cuts one; returns how many. */
size_t tags_cut(const char *text, size_t bytes, struct tag out[GUARD_TAGS_MAX]);
/* Checks and cuts any text; -1: it is none. */
int tags_split(const char *text, size_t bytes, struct tag out[GUARD_TAGS_MAX]);
