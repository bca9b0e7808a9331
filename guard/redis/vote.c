/* SPDX-License-Identifier: MIT */
/* redis/vote.c - see redis/vote.h. */
#include "vote.h"
#include "../base/digits.h"
#include "reader.h"
#include <stdio.h>
#include <string.h>

/* ---- reading ---- */

/* NULL: nothing. */
static const struct redisReply *find_field(const struct redisReply *reply, const char *name)
{
    const struct redisReply *field = redis_reply_field(reply, name);
    return field != NULL && field->type == REDIS_REPLY_STRING ? field : NULL;
}

/* False: none, or it is above that. */
static bool read_vote_digits(const struct redisReply *text, uint64_t most, uint64_t *out)
{
    return text != NULL && text->type == REDIS_REPLY_STRING && text->len > 0 && text->len <= 19 &&
           digits_read(text->str, text->len, out) && *out <= most;
}

static uint64_t field_number(const struct redisReply *reply, const char *name, uint64_t most)
{
    uint64_t number = 0;
    return read_vote_digits(find_field(reply, name), most, &number) ? number : 0;
}

/* What goes into a log line and to getaddrinfo(). */
static bool is_host(const struct redisReply *text)
{
    if (text == NULL || text->type != REDIS_REPLY_STRING || text->len == 0 ||
        text->len >= sizeof((struct redis_endpoint *)0)->host)
        return false;
    for (size_t i = 0; i < text->len; i++)
        if (text->str[i] <= ' ' || text->str[i] > '~')
            return false;
    return true;
}

static bool read_name(const struct redisReply *host, const struct redisReply *port,
                      struct redis_endpoint *out)
{
    uint64_t number = 0;
    if (!is_host(host) || !read_vote_digits(port, UINT16_MAX, &number) || number == 0)
        return false;
    snprintf(out->host, sizeof out->host, "%s", host->str);
    out->port = (uint16_t)number;
    return true;
}

bool redis_ballot_read_master(struct redis_ballot *ballot, const struct redisReply *reply)
{
    const struct redisReply *flags = NULL;
    if (reply->type == REDIS_REPLY_ERROR)
        return strncmp(reply->str, "ERR No such master", strlen("ERR No such master")) == 0;
    flags = find_field(reply, "flags");
    if (flags == NULL || !read_vote_digits(find_field(reply, "config-epoch"), UINT64_MAX, &ballot->epoch))
        return false;
    ballot->down = strstr(flags->str, "s_down") != NULL || strstr(flags->str, "o_down") != NULL;
    ballot->others = (unsigned)field_number(reply, "num-other-sentinels", UINT16_MAX);
    ballot->down_after_ms = (uint32_t)field_number(reply, "down-after-milliseconds", UINT32_MAX);
    return true;
}

bool redis_ballot_read_address(struct redis_ballot *ballot, const struct redisReply *reply)
{
    if (reply->type == REDIS_REPLY_NIL)
        return true;
    return reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
           read_name(reply->element[0], reply->element[1], &ballot->master);
}

/* ---- the voters ---- */

bool redis_vote_seed(struct redis_vote *vote, const struct redis_endpoint *name)
{
    if (vote->count == REDIS_VOTERS_MAX)
        return false;
    vote->voters[vote->count++] = (struct redis_voter){.name = *name, .seed = true};
    return true;
}

void redis_vote_identify(struct redis_vote *vote, size_t voter, const char *id, size_t id_bytes)
{
    char *own = vote->voters[voter].id;
    own[0] = '\0';
    if (id_bytes != REDIS_VOTER_ID_BYTES)
        return;
    memcpy(own, id, REDIS_VOTER_ID_BYTES);
    own[REDIS_VOTER_ID_BYTES] = '\0';
}

static bool is_same(const struct redis_voter *one, const struct redis_voter *other)
{
    if (one->id[0] != '\0' && other->id[0] != '\0')
        return strcmp(one->id, other->id) == 0;
    return redis_endpoint_equal(&one->name, &other->name);
}

static bool counts_still(const struct redis_voter *voter, uint64_t now_ms)
{
    return voter->answered || (voter->cast_ms != 0 && now_ms < voter->cast_ms + REDIS_VOTE_KEPT_MS);
}

/* Where it can be put: its own place, if it has moved; a free one; that of one which was learned and is silent. */
static size_t find_room(const struct redis_vote *vote, const struct redis_voter *learned, uint64_t now_ms)
{
    size_t silent = REDIS_VOTERS_MAX;
    for (size_t i = 0; i < vote->count; i++) {
        const struct redis_voter *voter = &vote->voters[i];
        if (is_same(voter, learned))
            return voter->seed || counts_still(voter, now_ms) ||
                           redis_endpoint_equal(&voter->name, &learned->name)
                       ? REDIS_VOTERS_MAX
                       : i;
        if (!voter->seed && !counts_still(voter, now_ms))
            silent = i;
    }
    return vote->count < REDIS_VOTERS_MAX ? vote->count : silent;
}

size_t redis_vote_learn(struct redis_vote *vote, const struct redisReply *reply, uint64_t now_ms)
{
    const struct redisReply *id = find_field(reply, "runid");
    struct redis_voter learned = {.seed = false};
    if (!read_name(find_field(reply, "ip"), find_field(reply, "port"), &learned.name))
        return REDIS_VOTERS_MAX;
    if (id != NULL && id->len == REDIS_VOTER_ID_BYTES)
        snprintf(learned.id, sizeof learned.id, "%s", id->str);
    size_t room = find_room(vote, &learned, now_ms);
    if (room == REDIS_VOTERS_MAX)
        return room;
    if (room == vote->count)
        vote->count++;
    vote->voters[room] = learned;
    return room;
}

/* ---- a round ---- */

void redis_vote_begin(struct redis_vote *vote)
{
    for (size_t i = 0; i < vote->count; i++)
        vote->voters[i].answered = false;
}

void redis_vote_cast(struct redis_vote *vote, size_t voter, const struct redis_ballot *ballot,
                     uint64_t now_ms)
{
    vote->voters[voter].answered = true;
    vote->voters[voter].cast_ms = now_ms;
    vote->voters[voter].ballot = *ballot;
}

/* It is another one's second address. */
static bool is_double(const struct redis_vote *vote, size_t voter, bool of_seeds)
{
    for (size_t i = 0; i < voter; i++) {
        const struct redis_voter *earlier = &vote->voters[i];
        if ((of_seeds ? earlier->seed : earlier->answered) && is_same(earlier, &vote->voters[voter]))
            return true;
    }
    return false;
}

static bool agrees(const struct redis_ballot *ballot, const struct redis_vote_result *result)
{
    bool outdated = ballot->down && ballot->epoch < result->epoch;
    return redis_endpoint_equal(&ballot->master, &result->master) && !outdated;
}

static void count_voters(const struct redis_vote *vote, struct redis_vote_result *out)
{
    unsigned seeds = 0, counted = 0;
    for (size_t i = 0; i < vote->count; i++) {
        const struct redis_voter *voter = &vote->voters[i];
        seeds += voter->seed && !is_double(vote, i, true);
        out->answered += voter->answered && !is_double(vote, i, false);
        if (voter->answered && voter->ballot.master.host[0] != '\0' && voter->ballot.others + 1 > counted)
            counted = voter->ballot.others + 1;
    }
    out->known = seeds > counted ? seeds : counted;
}

/* The address with the highest epoch; of two with the same that which more agree to. */
static void elect(const struct redis_vote *vote, uint64_t now_ms, struct redis_vote_result *out)
{
    for (size_t i = 0; i < vote->count; i++) {
        const struct redis_ballot *ballot = &vote->voters[i].ballot;
        struct redis_vote_result other = *out;
        bool first = out->master.host[0] == '\0';
        if (!counts_still(&vote->voters[i], now_ms) || ballot->master.host[0] == '\0' ||
            (!first && ballot->epoch < out->epoch))
            continue;
        other.master = ballot->master;
        other.epoch = ballot->epoch;
        other.down_after_ms = ballot->down_after_ms;
        other.agreeing = 0;
        for (size_t k = 0; k < vote->count; k++)
            other.agreeing += vote->voters[k].answered && !is_double(vote, k, false) &&
                              agrees(&vote->voters[k].ballot, &other);
        if (first || ballot->epoch > out->epoch || other.agreeing > out->agreeing)
            *out = other;
    }
}

void redis_vote_count(const struct redis_vote *vote, uint64_t now_ms, struct redis_vote_result *out)
{
    *out = (struct redis_vote_result){.known = 0};
    count_voters(vote, out);
    elect(vote, now_ms, out);
    out->confirmed = out->agreeing * 2 > out->known;
}

void redis_vote_explain(const struct redis_vote_result *result, char out[REDIS_VOTE_TEXT_SIZE])
{
    if (result->answered == 0)
        snprintf(out, REDIS_VOTE_TEXT_SIZE, "no Sentinel answers");
    else if (result->master.host[0] == '\0')
        snprintf(out, REDIS_VOTE_TEXT_SIZE,
                 "the Sentinels know no master of the name in the URL; correct it, or let them monitor it");
    else
        snprintf(out, REDIS_VOTE_TEXT_SIZE, "%u of %u Sentinels agree on the master, %u must",
                 result->agreeing, result->known, result->known / 2 + 1);
}
