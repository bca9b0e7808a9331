/* SPDX-License-Identifier: MIT */
/* witness_redis.c - see witness_redis.h. */
#include "load/witness/witness_redis.h"

#include "app/common/redis_link.h"
#include "load/base/clock.h"
#include "load/base/ticker.h"
#include "load/witness/witness_postgres.h"

#include <hiredis/hiredis.h>

#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    OPEN_LIMIT_MS = 3000,
    READ_EVERY_MS = 250,
    READ_LIMIT_MS = 450, /* for each answer */
    LOOKS = 8,           /* at keys, after each reading */
    LOOK_LIMIT_MS = 100,
    STARTED_SLACK_MS = 1000 /* Redis tells its age in whole seconds */
};

struct witness_redis {
    struct redis_url url; /* its host is an address */
    bool is_shared;
    redisContext *context; /* owned; NULL: no connection */
    bool is_late;          /* the last answer was not there in time */
    char why[WITNESS_WHY_BYTES];

    struct ticker ticker; /* all is its thread's while it runs */
    struct witness_tally before, now, sum;
    char run_id[48]; /* of the server that `before` is from; "": none yet */
    uint64_t read_us;
    uint64_t infos, auths;       /* of ours that are in the sum, too */
    uint64_t ran;                /* INFOs of ours that ran, or will, ... */
    uint64_t ran_at_connect;     /* ... before this connection */
    uint64_t ran_at_reading;     /* ... before the INFO commandstats of this reading */
    uint64_t ran_before_reading; /* ... before that of the reading before */
    uint32_t restart_count, move_count, reset_count;
    bool is_missing; /* the last reading failed */

    struct witness_kept kept[WITNESS_KEPT_MAX];
    size_t kept_count;
    bool cannot_look;       /* it may not run what that takes */
    uint64_t looks, looked; /* pairs of RANDOMKEY and PTTL: since the last reading; in the sum, too */
    uint64_t selects;
};

/* ---- the connection ---- */

static bool fail(struct witness_redis *redis, const char *why)
{
    char port[sizeof " port 65535"] = "";
    if (!redis->url.is_unix)
        snprintf(port, sizeof port, " port %u", (unsigned)redis->url.port);
    snprintf(redis->why, sizeof redis->why, "Redis at %.80s%s: %.150s", redis->url.host, port, why);
    return false;
}

static bool hang_up(struct witness_redis *redis, const char *why)
{
    fail(redis, why);
    redisFree(redis->context);
    redis->context = NULL;
    return false;
}

/* NULL: it hung up, and so does the witness; or it is late: an INFO runs all the same once it goes on, though nobody
 * hears the answer. If it is killed instead, the view misses commands anyway. */
__attribute__((format(printf, 2, 3))) static redisReply *ask(struct witness_redis *redis, const char *format,
                                                             ...)
{
    va_list words;
    va_start(words, format);
    redisReply *reply = redisvCommand(redis->context, format, words);
    redis->is_late = reply == NULL && errno == EAGAIN;
    va_end(words);
    if (reply == NULL)
        hang_up(redis, redis->is_late ? "no answer in time" : redis->context->errstr);
    return reply;
}

static bool log_in(struct witness_redis *redis)
{
    const struct redis_url *url = &redis->url;
    if (url->password[0] == '\0')
        return true;
    redis->auths++; /* it will run, be it late */
    redisReply *reply = url->user[0] != '\0' ? ask(redis, "AUTH %s %s", url->user, url->password)
                                             : ask(redis, "AUTH %s", url->password);
    if (reply == NULL)
        return false;
    bool good = reply->type != REDIS_REPLY_ERROR;
    if (!good)
        hang_up(redis, reply->str);
    freeReplyObject(reply);
    return good;
}

/* For who looks at keys. */
static bool choose(struct witness_redis *redis)
{
    if (!redis->is_shared || redis->url.database == 0)
        return true;
    redisReply *reply = ask(redis, "SELECT %u", (unsigned)redis->url.database);
    redis->cannot_look = redis->cannot_look || (reply != NULL && reply->type == REDIS_REPLY_ERROR);
    redis->selects += reply != NULL && reply->type != REDIS_REPLY_ERROR;
    freeReplyObject(reply);
    return reply != NULL;
}

static bool connect_within(struct witness_redis *redis, struct timeval limit)
{
    const struct redis_url *url = &redis->url;
    redis->context = url->is_unix ? redisConnectUnixWithTimeout(url->host, limit)
                                  : redisConnectWithTimeout(url->host, url->port, limit);
    if (redis->context == NULL || redis->context->err != 0)
        return hang_up(redis, redis->context != NULL ? redis->context->errstr : "no memory");
    redis->ran_at_connect = redis->ran;
    redisSetTimeout(redis->context, limit);
    return log_in(redis) && choose(redis);
}

/* The text of an INFO section; yours to free. */
static char *take_info(struct witness_redis *redis, const char *section)
{
    redisReply *reply = ask(redis, "INFO %s", section);
    redis->ran += reply != NULL || redis->is_late;
    char *text = reply != NULL && reply->type == REDIS_REPLY_STRING ? strdup(reply->str) : NULL;
    if (text == NULL && reply != NULL)
        fail(redis, reply->type == REDIS_REPLY_ERROR ? reply->str : "INFO gave no text");
    freeReplyObject(reply);
    return text;
}

/* ---- a reading ---- */

struct server {
    char run_id[48];
    uint64_t age_us;
};

static bool describe(const char *info, struct server *server)
{
    const char *run_id = strstr(info, "run_id:"), *age = strstr(info, "uptime_in_seconds:");
    return run_id != NULL && age != NULL && sscanf(run_id, "run_id:%47[0-9a-f]", server->run_id) == 1 &&
           sscanf(age, "uptime_in_seconds:%" SCNu64, &server->age_us) == 1;
}

/* Into `now`. */
static bool try_to_read(struct witness_redis *redis, struct timeval limit, struct server *server)
{
    *server = (struct server){.age_us = 0};
    if (redis->context == NULL && !connect_within(redis, limit))
        return false;
    redisSetTimeout(redis->context, limit);
    char *about = take_info(redis, "server");
    redis->ran_at_reading = redis->ran;
    char *stats = about != NULL ? take_info(redis, "commandstats") : NULL;
    bool good = stats != NULL && describe(about, server);
    if (stats != NULL && !good)
        fail(redis, "INFO server has no run_id");
    if (good)
        witness_tally_read(&redis->now, stats);
    server->age_us *= 1000000;
    free(about);
    free(stats);
    return good;
}

/* A connection that broke while nobody looked is no reason: whoever is there now may be asked. */
static bool read_counters(struct witness_redis *redis, struct timeval limit, struct server *server)
{
    bool was_connected = redis->context != NULL;
    return try_to_read(redis, limit, server) ||
           (was_connected && redis->context == NULL && !redis->is_late && try_to_read(redis, limit, server));
}

/* Ours are in the counters, too; INFO commandstats itself only in the reading that follows. */
static void add_to_sum(struct witness_redis *redis, const struct server *server, uint64_t now_us)
{
    static const struct witness_tally nothing;
    bool is_same = strcmp(redis->run_id, server->run_id) == 0;
    bool is_younger = server->age_us < now_us - redis->read_us + (uint64_t)STARTED_SLACK_MS * 1000;
    if (is_same) {
        redis->infos += redis->ran_at_reading - redis->ran_before_reading;
        redis->looked += redis->looks;
        redis->reset_count += witness_tally_advance(&redis->sum, &redis->before, &redis->now);
    } else if (is_younger) {
        redis->infos += redis->ran_at_reading - redis->ran_at_connect;
        redis->restart_count++;
        witness_tally_advance(&redis->sum, &nothing, &redis->now);
    } else {
        redis->move_count++;
    }
}

static bool take_reading(struct witness_redis *redis, uint32_t limit_ms)
{
    struct server server;
    uint64_t begin_us = clock_us();
    bool is_first = redis->run_id[0] == '\0';
    const struct timeval limit = {.tv_sec = limit_ms / 1000, .tv_usec = limit_ms % 1000 * 1000};
    redis->is_missing = !read_counters(redis, limit, &server);
    if (redis->is_missing)
        return false;
    if (!is_first)
        add_to_sum(redis, &server, begin_us);
    memcpy(redis->run_id, server.run_id, sizeof redis->run_id);
    redis->before = redis->now;
    redis->ran_before_reading = redis->ran_at_reading;
    redis->looks = 0;
    redis->read_us = begin_us;
    return true;
}

/* ---- for how long keys are kept ---- */

static void note_kept(struct witness_redis *redis, const char *key, long long left_ms)
{
    size_t at = 0;
    while (at < redis->kept_count && strncmp(redis->kept[at].key, key, WITNESS_KEY_BYTES - 1) != 0)
        at++;
    if (left_ms <= 0 || left_ms > UINT32_MAX || at == WITNESS_KEPT_MAX)
        return;
    struct witness_kept *kept = &redis->kept[at];
    redis->kept_count += at == redis->kept_count;
    snprintf(kept->key, sizeof kept->key, "%s", key);
    kept->most_ms = (uint32_t)left_ms > kept->most_ms ? (uint32_t)left_ms : kept->most_ms;
}

/* Any key of those that are there; each time another one, or the same one a little later. */
static bool look_at_one(struct witness_redis *redis)
{
    redisReply *key = ask(redis, "RANDOMKEY"), *left = NULL;
    redis->cannot_look = redis->cannot_look || (key != NULL && key->type == REDIS_REPLY_ERROR);
    const char *name = key != NULL && key->type == REDIS_REPLY_STRING ? key->str : "";
    if (key != NULL && !redis->cannot_look)
        left = ask(redis, "PTTL %s", name);
    if (left != NULL && left->type == REDIS_REPLY_INTEGER) {
        redis->looks++;
        note_kept(redis, name, left->integer);
    }
    bool good = left != NULL;
    freeReplyObject(key);
    freeReplyObject(left);
    return good;
}

static void look_at_keys(struct witness_redis *redis)
{
    uint64_t end_us = clock_us() + (uint64_t)LOOK_LIMIT_MS * 1000;
    if (!redis->is_shared || redis->cannot_look)
        return;
    for (int i = 0; i < LOOKS && clock_us() < end_us && look_at_one(redis);)
        i++;
}

static void tick(void *context, bool is_last)
{
    if (take_reading(context, READ_LIMIT_MS) && !is_last)
        look_at_keys(context);
}

/* hiredis writes with write(): who hangs up on us sends a signal, which must not end the program. */
static bool take_reading_here(struct witness_redis *redis)
{
    const struct timespec at_once = {.tv_sec = 0};
    sigset_t pipe, before;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, &before);
    bool good = take_reading(redis, OPEN_LIMIT_MS);
    if (!sigismember(&before, SIGPIPE))
        sigtimedwait(&pipe, NULL, &at_once);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return good;
}

/* ---- open, begin, end ---- */

/* So that no later reading has to wait for a name server. A name is not repeated: with one character out of place a
 * password stands there. */
static bool look_up(struct witness_redis *redis)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    struct redis_url *url = &redis->url;
    if (url->is_unix)
        return true;
    int error = getaddrinfo(url->host, NULL, &hints, &found);
    if (error == 0)
        error = getnameinfo(found->ai_addr, found->ai_addrlen, url->host, sizeof url->host, NULL, 0,
                            NI_NUMERICHOST);
    if (found != NULL)
        freeaddrinfo(found);
    if (error != 0)
        snprintf(redis->why, sizeof redis->why, "Redis: its host is not found: %.200s", gai_strerror(error));
    return error == 0;
}

bool witness_redis_open(const char *url, bool is_shared, struct witness_redis **out,
                        char why[static WITNESS_WHY_BYTES])
{
    struct witness_redis *redis = calloc(1, sizeof *redis);
    if (redis == NULL) {
        snprintf(why, WITNESS_WHY_BYTES, "no memory");
        return false;
    }
    redis->is_shared = is_shared;
    if (redis_url_parse(url, &redis->url, redis->why) && look_up(redis) && take_reading_here(redis)) {
        *out = redis;
        return true;
    }
    snprintf(why, WITNESS_WHY_BYTES, "%s", redis->why);
    witness_redis_close(&redis);
    return false;
}

bool witness_redis_begin(struct witness_redis *redis, char why[static WITNESS_WHY_BYTES])
{
    redis->run_id[0] = '\0';
    redis->restart_count = redis->move_count = redis->reset_count = 0;
    bool good = take_reading_here(redis);
    redis->infos = redis->auths = redis->looks = redis->looked = redis->selects = 0;
    redis->kept_count = 0;
    memset(redis->kept, 0, sizeof redis->kept);
    memset(&redis->sum, 0, sizeof redis->sum);
    if (good && !ticker_start(&redis->ticker, READ_EVERY_MS, tick, redis))
        good = fail(redis, strerror(errno));
    if (!good)
        snprintf(why, WITNESS_WHY_BYTES, "%s", redis->why);
    return good;
}

void witness_redis_end(struct witness_redis *redis)
{
    ticker_end(&redis->ticker);
}

void witness_redis_finish(struct witness_redis *redis, struct witness_view *view)
{
    ticker_join(&redis->ticker);
    witness_tally_subtract(&redis->sum, "info", redis->infos);
    witness_tally_subtract(&redis->sum, "auth", redis->auths);
    witness_tally_subtract(&redis->sum, "randomkey", redis->looked);
    witness_tally_subtract(&redis->sum, "pttl", redis->looked);
    witness_tally_subtract(&redis->sum, "select", redis->selects);
    memcpy(view->kept, redis->kept, sizeof view->kept);
    view->kept_count = redis->kept_count;
    witness_tally_show(&redis->sum, view);
    view->has_redis = true;
    view->misses_commands =
        redis->is_missing || redis->restart_count + redis->move_count + redis->reset_count > 0;
    if (redis->is_missing)
        witness_note(view, "Redis did not answer at the end: its commands are those until %.1f s before",
                     (double)(clock_us() - redis->read_us) / 1e6);
    if (redis->restart_count > 0)
        witness_note(view, "Redis was started anew: up to %.2f s of its commands are missing",
                     READ_EVERY_MS / 1e3);
    if (redis->move_count > 0)
        witness_note(view, "the address of Redis moved to another server: some of its commands are missing");
    if (redis->reset_count > 0)
        witness_note(view, "somebody reset Redis's counters: some commands are missing");
    if (redis->is_shared)
        witness_note(view, "Redis commands are those of all its clients");
}

void witness_redis_close(struct witness_redis **slot)
{
    struct witness_redis *redis = *slot;
    *slot = NULL;
    if (redis == NULL)
        return;
    ticker_join(&redis->ticker);
    redisFree(redis->context);
    explicit_bzero(&redis->url, sizeof redis->url);
    free(redis);
}
