/* SPDX-License-Identifier: MIT */
/*
 * lock_quorum.h - one action for several independent masters: which of them has answered what, and what follows.
 * Events in, decisions out; lock_redlock.c and the simulator drive it.
 *
 *   TAKE                     sent to all
 *    |  granted by a quorum                  |  out of reach
 *    v                                       v
 *   RAISING                                  given back where it was granted, also by those that say so later
 *    |  raised on a quorum   |  out of reach |
 *    v                       +-------------->|
 *   GRANTED                                  REFUSED, GONE, IMPOSSIBLE, UNSENT, UNANSWERED
 *
 * Raising. Each master counts the fencing numbers of its own grants. The number of a grant is the highest that its
 * quorum has named, and it is told only once a quorum has written it down: the next quorum has at least one master in
 * common, which counts on from there. The highest alone is not enough: the master that named it may be missing next
 * time.
 *
 * Giving back. The token asks again, so a tombstone is left only where a take may still run; that master votes no
 * more for this token. Once nothing but tombstones stands in its way the answer is GONE, and the claim goes on with
 * another one.
 *
 * RENEW, GIVE: what a quorum says. A verdict falls as soon as the answers that are missing cannot change it.
 */
#pragma once

#include "../lock_core.h"

enum { LOCK_NODES_MAX = 9 };

enum lock_vote {
    LOCK_VOTE_OPEN,
    LOCK_VOTE_YES,
    LOCK_VOTE_NO,
    LOCK_VOTE_LOST, /* no answer; it may have run */
    LOCK_VOTE_NONE, /* it was not asked, or it has not run and never will */
};

struct lock_round {
    enum lock_action_kind kind;
    size_t node_count, name_count;
    enum lock_vote votes[LOCK_NODES_MAX], raises[LOCK_NODES_MAX];
    bool raise_asked[LOCK_NODES_MAX], given_back[LOCK_NODES_MAX];
    bool is_raising, is_failed, is_over;
    uint64_t fence[GUARD_LOCK_NAMES_MAX];
    uint32_t hint_ms; /* the shortest of those that refused; 0: none */
    size_t gone;      /* tombstones */
    size_t impossible;
    const char *why; /* lent from the last that had one */
};

/* True: two of them, one and other, have the same identity, that of INFO, and would vote twice. "": not known. */
bool lock_round_has_twins(const char *const run_ids[], size_t node_count, size_t *one, size_t *other);

void lock_round_begin(struct lock_round *round, enum lock_action_kind kind, size_t node_count,
                      size_t name_count);
/* What a node has said, or that it was not asked (UNSENT): once for each, in any order, also when it is over. */
void lock_round_replied(struct lock_round *round, size_t node, const struct lock_reply *reply);
/* Likewise to its raise. */
void lock_round_raised(struct lock_round *round, size_t node, const struct lock_reply *reply);

enum lock_round_step {
    LOCK_ROUND_WAIT,      /* for an answer, if there is one to come */
    LOCK_ROUND_RAISE,     /* round->fence, on *node */
    LOCK_ROUND_GIVE_BACK, /* on *node */
    LOCK_ROUND_BURY,      /* likewise, in doubt */
    LOCK_ROUND_TELL,      /* lock_round_reply(), once */
};
/* To be called until it says WAIT, after the beginning and after each answer. */
enum lock_round_step lock_round_next(struct lock_round *round, size_t *node);
/* REFUSED: hint_ms is that of the nodes, 0 if none had one; the caller spreads it. */
void lock_round_reply(const struct lock_round *round, struct lock_reply *reply);
