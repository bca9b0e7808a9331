/* SPDX-License-Identifier: MIT */
/* lock_quorum.c - see lock_quorum.h. */
#include "lock_quorum.h"
#include <assert.h>
#include <string.h>

bool lock_round_has_twins(const char *const run_ids[], size_t node_count, size_t *one, size_t *other)
{
    for (size_t i = 0; i < node_count; i++)
        for (size_t earlier = 0; earlier < i; earlier++)
            if (run_ids[i][0] != '\0' && strcmp(run_ids[i], run_ids[earlier]) == 0) {
                *one = earlier;
                *other = i;
                return true;
            }
    return false;
}

void lock_round_begin(struct lock_round *round, enum lock_action_kind kind, size_t node_count,
                      size_t name_count)
{
    assert(node_count <= LOCK_NODES_MAX && name_count <= GUARD_LOCK_NAMES_MAX);
    *round = (struct lock_round){.kind = kind, .node_count = node_count, .name_count = name_count};
}

static size_t votes_of(const struct lock_round *round, const enum lock_vote votes[], enum lock_vote vote)
{
    size_t count = 0;
    for (size_t i = 0; i < round->node_count; i++)
        count += votes[i] == vote;
    return count;
}

static size_t quorum_of(const struct lock_round *round)
{
    return round->node_count / 2 + 1;
}

/* ---- answers ---- */

static enum lock_vote vote_of(const struct lock_reply *reply)
{
    switch (reply->kind) {
    case LOCK_GRANTED:
    case LOCK_DONE:
        return LOCK_VOTE_YES;
    case LOCK_REFUSED:
    case LOCK_NOT_HELD:
    case LOCK_GONE:
        return LOCK_VOTE_NO;
    case LOCK_UNSENT:
    case LOCK_IMPOSSIBLE:
        return LOCK_VOTE_NONE;
    case LOCK_UNANSWERED:
        break;
    }
    return LOCK_VOTE_LOST;
}

void lock_round_replied(struct lock_round *round, size_t node, const struct lock_reply *reply)
{
    assert(node < round->node_count && round->votes[node] == LOCK_VOTE_OPEN);
    round->votes[node] = vote_of(reply);
    round->gone += reply->kind == LOCK_GONE;
    round->impossible += reply->kind == LOCK_IMPOSSIBLE;
    if (reply->why != NULL && !round->is_over)
        round->why = reply->why;
    if (reply->kind == LOCK_REFUSED && reply->hint_ms > 0 &&
        (round->hint_ms == 0 || reply->hint_ms < round->hint_ms))
        round->hint_ms = reply->hint_ms;
    for (size_t i = 0; i < round->name_count && reply->kind == LOCK_GRANTED && !round->is_raising; i++)
        if (reply->fence[i] > round->fence[i])
            round->fence[i] = reply->fence[i];
}

void lock_round_raised(struct lock_round *round, size_t node, const struct lock_reply *reply)
{
    assert(node < round->node_count && round->raise_asked[node] && round->raises[node] == LOCK_VOTE_OPEN);
    round->raises[node] = vote_of(reply);
    if (reply->why != NULL && !round->is_over)
        round->why = reply->why;
}

/* ---- decisions ---- */

/* Every answer that can still come is as good as it can be, and it does not suffice. */
static bool out_of_reach(const struct lock_round *round)
{
    size_t possible =
        votes_of(round, round->votes, LOCK_VOTE_YES) + votes_of(round, round->votes, LOCK_VOTE_OPEN);
    for (size_t i = 0; i < round->node_count && round->is_raising; i++)
        possible -= round->votes[i] == LOCK_VOTE_YES && round->raises[i] != LOCK_VOTE_OPEN &&
                    round->raises[i] != LOCK_VOTE_YES;
    return possible < quorum_of(round);
}

static enum lock_round_step end_round(struct lock_round *round)
{
    round->is_over = true;
    return LOCK_ROUND_TELL;
}

/* One after the other; those that have not answered yet have their turn when they do. */
static enum lock_round_step give_back_next(struct lock_round *round, size_t *node)
{
    for (size_t i = 0; i < round->node_count; i++) {
        bool granted = round->votes[i] == LOCK_VOTE_YES, lost = round->votes[i] == LOCK_VOTE_LOST;
        if (round->given_back[i] || (!granted && !lost))
            continue;
        round->given_back[i] = true;
        *node = i;
        return granted ? LOCK_ROUND_GIVE_BACK : LOCK_ROUND_BURY;
    }
    return round->is_over ? LOCK_ROUND_WAIT : end_round(round);
}

static enum lock_round_step raise_next(struct lock_round *round, size_t *node)
{
    for (size_t i = 0; i < round->node_count; i++) {
        if (round->votes[i] != LOCK_VOTE_YES || round->raise_asked[i])
            continue;
        round->raise_asked[i] = true;
        *node = i;
        return LOCK_ROUND_RAISE;
    }
    if (votes_of(round, round->raises, LOCK_VOTE_YES) >= quorum_of(round))
        return end_round(round);
    return LOCK_ROUND_WAIT;
}

static enum lock_round_step next_of_take(struct lock_round *round, size_t *node)
{
    if (votes_of(round, round->votes, LOCK_VOTE_YES) >= quorum_of(round))
        round->is_raising = true;
    round->is_failed = round->is_failed || out_of_reach(round);
    if (round->is_failed)
        return give_back_next(round, node);
    return round->is_raising ? raise_next(round, node) : LOCK_ROUND_WAIT;
}

enum lock_round_step lock_round_next(struct lock_round *round, size_t *node)
{
    if (round->is_failed)
        return give_back_next(round, node);
    if (round->is_over)
        return LOCK_ROUND_WAIT;
    if (round->kind == LOCK_TAKE)
        return next_of_take(round, node);
    bool decided = votes_of(round, round->votes, LOCK_VOTE_YES) >= quorum_of(round) ||
                   votes_of(round, round->votes, LOCK_VOTE_NO) >= quorum_of(round) ||
                   votes_of(round, round->votes, LOCK_VOTE_OPEN) == 0;
    return decided ? end_round(round) : LOCK_ROUND_WAIT;
}

/* A minority that answers says nothing about which token has it. */
static enum lock_reply_kind failure_of(const struct lock_round *round)
{
    size_t answered =
        votes_of(round, round->votes, LOCK_VOTE_YES) + votes_of(round, round->votes, LOCK_VOTE_NO);
    if (round->gone > 0 && votes_of(round, round->votes, LOCK_VOTE_YES) + round->gone >= quorum_of(round))
        return LOCK_GONE;
    if (answered >= quorum_of(round) && !round->is_raising)
        return LOCK_REFUSED;
    if (round->node_count - round->impossible < quorum_of(round))
        return LOCK_IMPOSSIBLE; /* whatever becomes of the others */
    return votes_of(round, round->votes, LOCK_VOTE_NONE) == round->node_count ? LOCK_UNSENT : LOCK_UNANSWERED;
}

void lock_round_reply(const struct lock_round *round, struct lock_reply *reply)
{
    bool agreed = votes_of(round, round->votes, LOCK_VOTE_YES) >= quorum_of(round);
    *reply = (struct lock_reply){.why = round->why};
    if (round->kind == LOCK_TAKE) {
        reply->kind = round->is_failed ? failure_of(round) : LOCK_GRANTED;
        reply->hint_ms = round->hint_ms;
        memcpy(reply->fence, round->fence, sizeof reply->fence);
    } else if (agreed) {
        reply->kind = LOCK_DONE;
    } else if (votes_of(round, round->votes, LOCK_VOTE_NO) >= quorum_of(round)) {
        reply->kind = LOCK_NOT_HELD;
    } else {
        reply->kind = votes_of(round, round->votes, LOCK_VOTE_NONE) == round->node_count ? LOCK_UNSENT
                                                                                         : LOCK_UNANSWERED;
    }
}
