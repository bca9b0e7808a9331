/* SPDX-License-Identifier: MIT */
/* redis/sentinel.c - see redis/sentinel.h. */
#include "sentinel.h"
#include "../base/clock.h"
#include "connection.h"
#include "vote.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SENTINEL_CONNECT_LIMIT_MS = 1000,
    SENTINEL_BACKOFF_MS = 50,
    SENTINEL_MAX_BACKOFF_MS = 1000,
    SENTINEL_REPLY_MOST_BYTES = 256 << 10,
    SENTINEL_PENDING_BYTES = 64 << 10,
    SENTINEL_OTHERS_EVERY = 30, /* rounds: which others there are */
    LABEL_TOLD_BYTES = 100,
    WHY_TOLD_BYTES = REDIS_WHY_SIZE - LABEL_TOLD_BYTES - 4,
};

#define SWITCH_CHANNEL "+switch-master"

/* One Sentinel. */
struct sentinel {
    struct redis_watcher *watcher;
    size_t voter;                            /* its number in the vote */
    struct redis_place place;                /* where it is */
    struct redis_connection *asker, *hearer; /* owned */
    bool up;                                 /* the asker was, when it last told */
    enum guard_redis_state state;            /* likewise */
    char why[REDIS_WHY_SIZE];                /* it does not answer; "": it does */
    unsigned rounds;                         /* since it came up */
    /* of the round under way: */
    struct redis_ballot ballot;
    unsigned owed; /* answers */
    bool sound;    /* so far */
};

struct redis_watcher {
    struct guard_host *host;
    const struct redis_url *url; /* lent */
    struct redis_tls *tls;       /* lent; NULL: without */
    struct redis_place *place;   /* lent */
    struct host_wake wake;
    struct host_timer timer;
    struct redis_vote vote;
    struct sentinel sentinels[REDIS_VOTERS_MAX];
    size_t count;
    unsigned awaited;  /* of the round under way: Sentinels that owe an answer */
    bool round, again; /* one is under way; another one is to follow */
    uint64_t round_ms; /* the last one began */
    uint32_t poll_ms;  /* from one to the next */
    bool lapsed;       /* its connections have been told */
    struct host_soon closer;
    bool closing;
    unsigned parts_open;
    struct host_told told;
};

/* ---- the end of a round ---- */

/* What an operator has to know of those that do not answer; NULL: all do. */
static const struct sentinel *find_complaint(const struct redis_watcher *watcher)
{
    const struct sentinel *found = NULL;
    for (size_t i = 0; i < watcher->count; i++) {
        const struct sentinel *sentinel = &watcher->sentinels[i];
        if (sentinel->why[0] != '\0' &&
            (found == NULL || (sentinel->state == GUARD_REDIS_DENIED && found->state != GUARD_REDIS_DENIED)))
            found = sentinel;
    }
    return found;
}

static void explain_finding(const struct redis_watcher *watcher, const struct redis_vote_result *result,
                            struct redis_finding *finding)
{
    const struct sentinel *complaint = find_complaint(watcher);
    char text[REDIS_VOTE_TEXT_SIZE];
    redis_vote_explain(result, text);
    finding->state = GUARD_REDIS_DOWN;
    if (result->answered > 0 ? result->master.host[0] == '\0'
                             : complaint != NULL && complaint->state == GUARD_REDIS_DENIED)
        finding->state = GUARD_REDIS_DENIED;
    snprintf(finding->why, sizeof finding->why, "%s%s%.*s", text, complaint != NULL ? "; " : "",
             (int)(sizeof finding->why - sizeof "; " - strlen(text)),
             complaint != NULL ? complaint->why : "");
}

static void judge_round(struct redis_watcher *watcher, struct redis_finding *finding)
{
    struct redis_vote_result result;
    redis_vote_count(&watcher->vote, clock_now_ms(), &result);
    finding->master = result.master;
    finding->epoch = result.epoch;
    finding->confirmed = result.confirmed;
    finding->good_until_ms = UINT64_MAX;
    if (!result.confirmed)
        explain_finding(watcher, &result, finding);
    if (!result.confirmed || !watcher->url->strict || result.down_after_ms == 0)
        return;
    /* From now on it is asked for often enough that one round may fail. */
    finding->good_until_ms = watcher->round_ms + result.down_after_ms;
    watcher->poll_ms =
        result.down_after_ms / 3 < SENTINEL_POLL_MS ? result.down_after_ms / 3 : SENTINEL_POLL_MS;
}

static uint64_t next_round_ms(const struct redis_watcher *watcher)
{
    enum redis_wish wish = redis_place_wish(watcher->place);
    if (watcher->again || wish == REDIS_WISH_NOW)
        return watcher->round_ms;
    return watcher->round_ms + (wish == REDIS_WISH_SOON ? SENTINEL_DOUBT_MS : watcher->poll_ms);
}

/* Of the next round, or of the instant at which the master lapses, if that is sooner. */
static void set_round_timer(struct redis_watcher *watcher)
{
    uint64_t next_ms = next_round_ms(watcher);
    uint64_t lapses_ms = redis_place_good_until_ms(watcher->place);
    if (lapses_ms > clock_now_ms() && lapses_ms < next_ms)
        next_ms = lapses_ms;
    host_timer_set(watcher->host, &watcher->timer, next_ms * 1000);
}

/* Those that are idle do not notice by themselves. */
static void tell_lapse(struct redis_watcher *watcher)
{
    bool lapsed = clock_now_ms() >= redis_place_good_until_ms(watcher->place);
    if (lapsed && !watcher->lapsed)
        redis_place_wake(watcher->place);
    watcher->lapsed = lapsed;
}

static void end_vote_round(struct redis_watcher *watcher)
{
    struct redis_finding finding = {.confirmed = false};
    watcher->round = false;
    judge_round(watcher, &finding);
    redis_place_round_ends(watcher->place, &finding);
    tell_lapse(watcher);
    set_round_timer(watcher);
}

/* ---- one Sentinel's answers ---- */

/* One more of its answers has come, or will not. */
static void settle_sentinel(struct sentinel *sentinel, bool sound)
{
    struct redis_watcher *watcher = sentinel->watcher;
    sentinel->sound = sentinel->sound && sound;
    if (--sentinel->owed > 0)
        return;
    if (sentinel->sound) {
        sentinel->why[0] = '\0';
        redis_vote_cast(&watcher->vote, sentinel->voter, &sentinel->ballot, clock_now_ms());
    }
    if (--watcher->awaited == 0 && !watcher->closing)
        end_vote_round(watcher);
}

static void complain(struct sentinel *sentinel, const char *what, const struct redisReply *reply)
{
    char label[REDIS_LABEL_SIZE], why[REDIS_WHY_SIZE];
    redis_endpoint_label(&sentinel->watcher->vote.voters[sentinel->voter].name, label);
    snprintf(why, sizeof why, "%s: not an answer of a Sentinel", what);
    if (reply->type == REDIS_REPLY_ERROR)
        redis_explain(reply, what, false, why);
    snprintf(sentinel->why, sizeof sentinel->why, "%.*s: %.*s", LABEL_TOLD_BYTES, label, WHY_TOLD_BYTES, why);
}

static void on_master_told(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    struct sentinel *sentinel = context;
    bool sound = outcome == REDIS_REPLIED && redis_ballot_read_master(&sentinel->ballot, reply);
    if (outcome == REDIS_REPLIED && !sound)
        complain(sentinel, "SENTINEL MASTER refused: ", reply);
    settle_sentinel(sentinel, sound);
}

static void on_address_told(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    struct sentinel *sentinel = context;
    bool sound = outcome == REDIS_REPLIED && redis_ballot_read_address(&sentinel->ballot, reply);
    if (outcome == REDIS_REPLIED && !sound)
        complain(sentinel, "SENTINEL GET-MASTER-ADDR-BY-NAME refused: ", reply);
    settle_sentinel(sentinel, sound);
}

static void on_id_told(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    struct sentinel *sentinel = context;
    if (outcome == REDIS_REPLIED && reply->type == REDIS_REPLY_STRING)
        redis_vote_identify(&sentinel->watcher->vote, sentinel->voter, reply->str, reply->len);
    settle_sentinel(sentinel, true);
}

static void ask_beside(struct redis_watcher *watcher, size_t voter);

/* Those that are asked from the next round on. */
static void on_others_told(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    struct sentinel *sentinel = context;
    struct redis_watcher *watcher = sentinel->watcher;
    if (outcome == REDIS_REPLIED && reply->type == REDIS_REPLY_ARRAY && !watcher->closing)
        for (size_t i = 0; i < reply->elements; i++)
            ask_beside(watcher, redis_vote_learn(&watcher->vote, reply->element[i], clock_now_ms()));
    settle_sentinel(sentinel, true);
}

/* ---- a round ---- */

static void ask_sentinel(struct sentinel *sentinel, const char *question, redis_replied *replied, bool names)
{
    const char *argv[] = {"SENTINEL", question, sentinel->watcher->url->master_name};
    const size_t bytes[] = {strlen(argv[0]), strlen(argv[1]), strlen(argv[2])};
    if (connection_send(sentinel->asker, names ? 3 : 2, argv, bytes, replied, sentinel))
        sentinel->owed++;
    else
        sentinel->sound = false;
}

/* The epoch first: if the two answers are not of one instant, the address is the newer one. */
static void ask_all(struct sentinel *sentinel)
{
    sentinel->ballot = (struct redis_ballot){.epoch = 0};
    sentinel->sound = true;
    if (sentinel->rounds == 0)
        ask_sentinel(sentinel, "MYID", on_id_told, false);
    ask_sentinel(sentinel, "MASTER", on_master_told, true);
    ask_sentinel(sentinel, "GET-MASTER-ADDR-BY-NAME", on_address_told, true);
    if (sentinel->rounds % SENTINEL_OTHERS_EVERY == 1)
        ask_sentinel(sentinel, "SENTINELS", on_others_told, true);
    sentinel->rounds++;
    sentinel->watcher->awaited += sentinel->owed > 0;
}

static void begin_round(struct redis_watcher *watcher)
{
    watcher->round = true;
    watcher->again = false;
    watcher->round_ms = clock_now_ms();
    watcher->awaited = 0;
    redis_vote_begin(&watcher->vote);
    redis_place_round_begins(watcher->place);
    for (size_t i = 0; i < watcher->count; i++)
        if (watcher->sentinels[i].asker != NULL && connection_is_up(watcher->sentinels[i].asker))
            ask_all(&watcher->sentinels[i]);
    if (watcher->awaited == 0)
        end_vote_round(watcher);
}

/* What the one that is under way has asked may be too old. */
static void ask_at_once(struct redis_watcher *watcher)
{
    watcher->again = true;
    if (!watcher->round)
        set_round_timer(watcher);
}

static void on_watcher_timer(void *context)
{
    struct redis_watcher *watcher = context;
    tell_lapse(watcher);
    if (watcher->round)
        return;
    if (clock_now_ms() >= next_round_ms(watcher))
        begin_round(watcher);
    else
        set_round_timer(watcher);
}

/* A member of the place wishes something. */
static void on_watcher_wake(void *context)
{
    struct redis_watcher *watcher = context;
    if (!watcher->round && !watcher->closing)
        set_round_timer(watcher);
}

/* ---- its connections ---- */

static void on_asker_state(void *context, enum guard_redis_state state, const char *text)
{
    struct sentinel *sentinel = context;
    bool was_up = sentinel->up;
    sentinel->up = connection_is_up(sentinel->asker);
    sentinel->state = state;
    snprintf(sentinel->why, sizeof sentinel->why, "%s", state == GUARD_REDIS_UP ? "" : text);
    if (sentinel->up && !was_up) {
        sentinel->rounds = 0;
        ask_at_once(sentinel->watcher);
    } else if (!sentinel->up) {
        redis_place_doubt(sentinel->watcher->place); /* not at once: others may be coming up */
        if (sentinel->hearer != NULL && connection_is_up(sentinel->hearer))
            connection_reset(sentinel->hearer, "the other connection to this Sentinel was lost");
    }
}

/* "name 10.0.0.1 6379 10.0.0.2 6379", of any master that this Sentinel watches. */
static void on_switch(void *context, const char *payload, size_t payload_bytes)
{
    struct sentinel *sentinel = context;
    const char *name = sentinel->watcher->url->master_name;
    size_t bytes = strlen(name);
    if (payload_bytes > bytes && memcmp(payload, name, bytes) == 0 && payload[bytes] == ' ')
        ask_at_once(sentinel->watcher);
}

static struct redis_connection *connect_sentinel(struct sentinel *sentinel, const char *channel)
{
    struct redis_watcher *watcher = sentinel->watcher;
    struct redis_config config = {
        .place = &sentinel->place,
        .login = &watcher->url->sentinel_login,
        .expected = REDIS_SERVER_SENTINEL,
        .tls = watcher->tls,
        .limit_ms = SENTINEL_LIMIT_MS,
        .connect_limit_ms = SENTINEL_CONNECT_LIMIT_MS,
        .backoff_ms = SENTINEL_BACKOFF_MS,
        .max_backoff_ms = SENTINEL_MAX_BACKOFF_MS,
        .max_reply_bytes = SENTINEL_REPLY_MOST_BYTES,
        .max_pending_bytes = SENTINEL_PENDING_BYTES,
        .channel = channel,
        .client_name = "stampede-watcher",
        .hooks = {.context = sentinel,
                  .state = channel == NULL ? on_asker_state : NULL,
                  .message = on_switch},
    };
    if (!clock_random(&config.jitter_seed, sizeof config.jitter_seed))
        return NULL;
    return connection_open(watcher->host, &config);
}

/* As far as memory goes. */
static void add_sentinel(struct redis_watcher *watcher)
{
    struct sentinel *sentinel = &watcher->sentinels[watcher->count];
    *sentinel = (struct sentinel){.watcher = watcher, .voter = watcher->count};
    redis_place_init(&sentinel->place, &watcher->vote.voters[watcher->count].name, NULL, NULL);
    watcher->count++;
    sentinel->asker = connect_sentinel(sentinel, NULL);
    sentinel->hearer = connect_sentinel(sentinel, SWITCH_CHANNEL);
}

static void ask_beside(struct redis_watcher *watcher, size_t voter)
{
    static const char why[] = "this Sentinel has moved";
    struct sentinel *sentinel = &watcher->sentinels[voter];
    if (voter == REDIS_VOTERS_MAX)
        return;
    if (voter == watcher->count) {
        add_sentinel(watcher);
        return;
    }
    redis_place_move(&sentinel->place, &watcher->vote.voters[voter].name);
    if (sentinel->asker != NULL)
        connection_reset(sentinel->asker, why);
    if (sentinel->hearer != NULL)
        connection_reset(sentinel->hearer, why);
}

/* ---- from open to close ---- */

static void watcher_part_closed(void *context)
{
    struct redis_watcher *watcher = context;
    if (--watcher->parts_open > 0)
        return;
    for (size_t i = 0; i < watcher->count; i++)
        redis_place_clear(&watcher->sentinels[i].place);
    host_free_and_tell(watcher, watcher->told);
}

struct redis_watcher *redis_watcher_open(struct guard_host *host, const struct redis_url *url,
                                         struct redis_tls *tls, struct redis_place *place)
{
    struct redis_watcher *watcher = calloc(1, sizeof *watcher);
    if (watcher == NULL)
        return NULL;
    watcher->tls = tls;
    watcher->host = host;
    watcher->url = url;
    watcher->place = place;
    watcher->closer = (struct host_soon){.run = watcher_part_closed, .context = watcher};
    watcher->timer = (struct host_timer){.run = on_watcher_timer, .context = watcher};
    host_wake_init(host, &watcher->wake, on_watcher_wake, watcher);
    redis_place_watch(place, &watcher->wake);
    for (size_t i = 0; i < url->host_count && redis_vote_seed(&watcher->vote, &url->hosts[i]); i++)
        add_sentinel(watcher);
    watcher->poll_ms = SENTINEL_POLL_MS;
    watcher->round_ms = clock_now_ms();
    set_round_timer(watcher);
    return watcher;
}

static void close_part(struct redis_watcher *watcher, struct redis_connection *connection)
{
    if (connection == NULL)
        return;
    watcher->parts_open++;
    connection_close(connection, watcher_part_closed, watcher);
}

void redis_watcher_close(struct redis_watcher *watcher, void (*closed)(void *context), void *context)
{
    watcher->told = (struct host_told){closed, context};
    watcher->closing = true;
    watcher->parts_open = 1; /* the call that closes them */
    redis_place_watch(watcher->place, NULL);
    host_timer_stop(watcher->host, &watcher->timer);
    host_wake_clear(&watcher->wake);
    host_soon(watcher->host, &watcher->closer);
    for (size_t i = 0; i < watcher->count; i++) {
        close_part(watcher, watcher->sentinels[i].asker);
        close_part(watcher, watcher->sentinels[i].hearer);
    }
}
