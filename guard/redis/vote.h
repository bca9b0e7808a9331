/* SPDX-License-Identifier: MIT */
/*
 * redis/vote.h - what the Sentinels' answers mean: which server is the master, and whether that is confirmed.
 *
 *     redis_vote_seed()     the Sentinels of the URL: always asked, always counted
 *     redis_vote_learn()    those that a Sentinel names beside itself: asked too, REDIS_VOTERS_MAX in all
 *     redis_vote_begin()    a round: all are asked
 *     redis_vote_cast()     one has answered
 *     redis_vote_count()    what that means
 *
 * Of two answers the one with the higher config epoch is right, for each failover has its own, and each Sentinel
 * takes a newer one over from any other. So one answer is enough to look elsewhere. A majority is needed to confirm:
 * each failover was agreed to by a majority of the Sentinels, and any two majorities share one that knows. The
 * Sentinel that leads a failover knows first; until the others have heard of it (REDIS_VOTE_KEPT_MS at most) what it
 * said counts against what is older, though it is silent this time.
 *
 * There are as many Sentinels as the URL names, or as the best informed of them counts, whichever is more. One that
 * is known by two addresses has one vote: SENTINEL MYID tells it apart.
 *
 * Pure; the owner's thread. The instants are the owner's.
 */
#pragma once

#include "url.h"

struct redisReply;

enum {
    REDIS_VOTERS_MAX = 9,
    REDIS_VOTE_KEPT_MS = 3000,
    REDIS_VOTER_ID_BYTES = 40,
    REDIS_VOTE_TEXT_SIZE = 160
};

/* One Sentinel's answers in one round. */
struct redis_ballot {
    struct redis_endpoint
        master; /* of SENTINEL GET-MASTER-ADDR-BY-NAME; no host: it knows none of that name */
    /* of SENTINEL MASTER: */
    uint64_t epoch;         /* config-epoch */
    bool down;              /* flagged s_down or o_down */
    unsigned others;        /* num-other-sentinels */
    uint32_t down_after_ms; /* 0: not told */
};

/* False: not what a Sentinel answers. MASTER's own address is not read: the leader of a failover goes on giving the
 * old one beside the new epoch. */
bool redis_ballot_read_master(struct redis_ballot *ballot, const struct redisReply *reply);
bool redis_ballot_read_address(struct redis_ballot *ballot, const struct redisReply *reply);

struct redis_voter {
    struct redis_endpoint name;
    char id[REDIS_VOTER_ID_BYTES + 1]; /* "": not known */
    bool seed;                         /* of the URL */
    bool answered;                     /* in this round */
    uint64_t cast_ms;                  /* its ballot; 0: none yet */
    struct redis_ballot ballot;
};

/* A zeroed one is empty. */
struct redis_vote {
    struct redis_voter voters[REDIS_VOTERS_MAX];
    size_t count;
};

/* False: there are REDIS_VOTERS_MAX. */
bool redis_vote_seed(struct redis_vote *vote, const struct redis_endpoint *name);
void redis_vote_identify(struct redis_vote *vote, size_t voter, const char *id, size_t id_bytes);

/* The number of the voter that is to be asked under a new address from here on, new or in place of one that was
 * learned and does not answer; REDIS_VOTERS_MAX: none, it is known or there is no room. `reply`: one element of
 * SENTINEL SENTINELS. */
size_t redis_vote_learn(struct redis_vote *vote, const struct redisReply *reply, uint64_t now_ms);

void redis_vote_begin(struct redis_vote *vote);
void redis_vote_cast(struct redis_vote *vote, size_t voter, const struct redis_ballot *ballot,
                     uint64_t now_ms);

struct redis_vote_result {
    struct redis_endpoint master; /* no host: none is named */
    uint64_t epoch;
    bool confirmed;
    unsigned known, answered, agreeing;
    uint32_t down_after_ms; /* as the newest answer has it */
};
void redis_vote_count(const struct redis_vote *vote, uint64_t now_ms, struct redis_vote_result *out);

/* Why it is not confirmed, in one line. */
void redis_vote_explain(const struct redis_vote_result *result, char out[REDIS_VOTE_TEXT_SIZE]);
