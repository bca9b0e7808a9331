/* SPDX-License-Identifier: MIT */
/*
 * scheme_redlock.c - (12) RedLock as node-redlock 5 does it, by its acquire() and using().
 *
 *     acquire()   SET ... PX on all masters at once, by a script that refuses a name that is taken; mine as soon as a
 *                 majority says so, however long that takes. Refused: 200 ms +- 100 later again, 10 times; then what
 *                 was set is deleted on all
 *     using()     mine until lease - 1 % - 2 ms after acquire() began; 500 ms before that a majority must lengthen
 *                 it. When that fails until the end, the routine is told
 *     release()   compare and delete on all
 *
 * A reply that comes after the majority is read and forgotten. There is no fencing number.
 */
#include "load/lab/scheme.h"

#include "app/common/redis_link.h"
#include "load/base/clock.h"
#include "load/lab/source.h"

#include <hiredis/hiredis.h>

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

enum {
    MASTERS_MAX = 9,
    RETRIES = 10,
    RETRY_MS = 200,
    RETRY_JITTER_MS = 100,
    EXTEND_BEFORE_MS = 500,
    POLL_MS = 50
};
enum { CONNECT_LIMIT_MS = 1000 };

struct master {
    uint16_t port;
    struct redisContext *redis; /* NULL: to be connected */
    uint32_t owed;              /* replies to commands nobody waits for any more */
};

struct lab_state {
    struct master masters[MASTERS_MAX];
    size_t count;
    struct lab_renewer extender; /* its mutex is also for the masters */
};

static const char acquire_script[] = "if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end "
                                     "redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) return 1";
static const char extend_script[] = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end "
                                    "redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) return 1";
static const char release_script[] =
    "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end redis.pcall('DEL', KEYS[1]) return 1";

/* ---- all masters at once ---- */

static void drop(struct master *master)
{
    redisFree(master->redis);
    master->redis = NULL;
    master->owed = 0;
}

static bool is_connected(struct master *master)
{
    if (master->redis == NULL)
        master->redis = redis_link_to_port(master->port, CONNECT_LIMIT_MS);
    if (master->redis != NULL && master->redis->err == 0)
        return true;
    drop(master);
    return false;
}

static bool ask(const struct lab_client *client, struct master *master, const char *script)
{
    int done = 0;
    if (!is_connected(master) ||
        redisAppendCommand(master->redis, "EVAL %s 1 %s %s %u", script, client->lock_name, client->token,
                           (unsigned)lab_lease_ms(client)) != REDIS_OK)
        return false;
    while (done == 0) {
        if (redisBufferWrite(master->redis, &done) != REDIS_OK) {
            drop(master);
            return false;
        }
    }
    return true;
}

enum vote { VOTE_NONE = 0, VOTE_FOR, VOTE_AGAINST };

/* What has arrived; the replies that are owed come first. */
static enum vote hear(struct master *master)
{
    void *reply = NULL;
    if (redisBufferRead(master->redis) != REDIS_OK) {
        drop(master);
        return VOTE_AGAINST;
    }
    while (redisGetReplyFromReader(master->redis, &reply) == REDIS_OK && reply != NULL) {
        const struct redisReply *said = reply;
        const bool is_for = said->type == REDIS_REPLY_INTEGER && said->integer == 1;
        freeReplyObject(reply);
        if (master->owed == 0)
            return is_for ? VOTE_FOR : VOTE_AGAINST;
        master->owed--;
    }
    return VOTE_NONE;
}

/* Waits a moment for votes that are still out. */
static void hear_all(struct lab_state *state, enum vote votes[MASTERS_MAX])
{
    struct pollfd polled[MASTERS_MAX];
    for (size_t i = 0; i < state->count; i++)
        polled[i] =
            (struct pollfd){.fd = votes[i] == VOTE_NONE ? state->masters[i].redis->fd : -1, .events = POLLIN};
    if (poll(polled, state->count, POLL_MS) <= 0)
        return;
    for (size_t i = 0; i < state->count; i++) {
        if (polled[i].revents != 0)
            votes[i] = hear(&state->masters[i]);
    }
}

static size_t count_votes(const struct lab_state *state, const enum vote votes[MASTERS_MAX], enum vote which)
{
    size_t count = 0;
    for (size_t i = 0; i < state->count; i++)
        count += votes[i] == which;
    return count;
}

/* True: a majority is for it. There is no limit to how long that may take but the request's own. */
static bool ask_all(const struct lab_client *client, const char *script)
{
    struct lab_state *state = client->state;
    const size_t quorum = state->count / 2 + 1;
    const uint64_t end_us = clock_after_ms(LAB_REQUEST_LIMIT_MS);
    enum vote votes[MASTERS_MAX] = {VOTE_NONE};
    for (size_t i = 0; i < state->count; i++)
        votes[i] = ask(client, &state->masters[i], script) ? VOTE_NONE : VOTE_AGAINST;
    while (count_votes(state, votes, VOTE_FOR) < quorum && count_votes(state, votes, VOTE_AGAINST) < quorum &&
           clock_us() < end_us)
        hear_all(state, votes);
    for (size_t i = 0; i < state->count; i++)
        state->masters[i].owed += votes[i] == VOTE_NONE;
    return count_votes(state, votes, VOTE_FOR) >= quorum;
}

static bool ask_all_locked(const struct lab_client *client, const char *script)
{
    pthread_mutex_lock(&client->state->extender.mutex);
    const bool is_for = ask_all(client, script);
    pthread_mutex_unlock(&client->state->extender.mutex);
    return is_for;
}

static void pause_before_retry(void)
{
    clock_pause_ms((uint32_t)(RETRY_MS - RETRY_JITTER_MS + rand() % (2 * RETRY_JITTER_MS)));
}

/* When it is to be lengthened: so long before it is no longer mine. */
static uint64_t due_us(const struct lab_client *client, uint64_t start_us)
{
    const uint64_t lease_ms = lab_lease_ms(client);
    return start_us + (lease_ms - (lease_ms / 100 + 2)) * 1000 - EXTEND_BEFORE_MS * 1000;
}

/* ---- using(): a thread that extends ---- */

/* Tries again until the lock is over, or given back. */
static void extend(struct lab_client *client)
{
    struct lab_renewer *extender = &client->state->extender;
    for (uint64_t start_us = clock_us(); extender->due_us != 0; start_us = clock_us()) {
        if (start_us >= extender->due_us + EXTEND_BEFORE_MS * 1000) {
            extender->due_us = 0;
            lab_lost(client);
        } else if (ask_all(client, extend_script)) {
            extender->due_us = due_us(client, start_us);
            return;
        } else {
            pthread_mutex_unlock(&extender->mutex);
            pause_before_retry();
            pthread_mutex_lock(&extender->mutex);
        }
    }
}

/* ---- acquire and release ---- */

/* acquire(): its start is that of the first try. */
static bool try_acquire(struct lab_client *client)
{
    const uint64_t start_us = clock_us();
    lab_token(client);
    for (uint32_t i = 0; i <= RETRIES; i++) {
        if (ask_all_locked(client, acquire_script)) {
            lab_renewer_set(&client->state->extender, due_us(client, start_us));
            return true;
        }
        if (i < RETRIES)
            pause_before_retry();
    }
    ask_all_locked(client, release_script);
    return false;
}

/* An application calls it again. */
static bool acquire(struct lab_client *client)
{
    for (const uint64_t end_us = clock_after_ms(LAB_REQUEST_LIMIT_MS); clock_us() < end_us;) {
        if (try_acquire(client))
            return true;
    }
    return false;
}

static bool is_lost(struct lab_client *client)
{
    pthread_mutex_lock(&client->state->extender.mutex);
    const bool is_lost = client->state->extender.due_us == 0;
    pthread_mutex_unlock(&client->state->extender.mutex);
    return is_lost;
}

static void release(struct lab_client *client)
{
    lab_renewer_set(&client->state->extender, 0);
    for (uint32_t i = 0; i <= RETRIES && !ask_all_locked(client, release_script); i++)
        pause_before_retry();
}

/* ---- the process ---- */

static void read_urls(const struct lab_client *client, struct lab_state *state)
{
    for (const char *at = client->lock_urls;
         (at = strstr(at, "127.0.0.1:")) != NULL && state->count < MASTERS_MAX;)
        state->masters[state->count++].port = (uint16_t)strtoul(at += strlen("127.0.0.1:"), NULL, 10);
}

static bool begin(struct lab_client *client)
{
    struct lab_state *state = calloc(1, sizeof *state);
    if (state == NULL)
        return false;
    client->state = state;
    srand(client->index);
    read_urls(client, state);
    return lab_renewer_open(&state->extender, client, extend);
}

static void end(struct lab_client *client)
{
    struct lab_state *state = client->state;
    lab_renewer_close(&state->extender);
    for (size_t i = 0; i < state->count; i++)
        drop(&state->masters[i]);
    free(state);
    client->state = NULL;
}

const struct scheme schemes_redlock[] = {
    {"12", "node-redlock", "RedLock on three masters", "mike-marcacci/node-redlock 5, src/index.ts",
     .groups = GROUP_LOCK | GROUP_REDLOCK, .place = PLACE_MASTERS, .open = begin, .close = end,
     .get = lab_get_locked, .acquire = acquire, .release = release, .is_lost = is_lost},
    {.name = NULL},
};
