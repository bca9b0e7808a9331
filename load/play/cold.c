/* SPDX-License-Identifier: MIT */
/* cold.c - see cold.h. */
#include "load/play/cold.h"

#include "app/common/redis_link.h"
#include "load/base/clock.h"
#include "load/base/text.h"
#include "load/herd/herd_shared.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEP_LIMIT_MS = 3000, EARLY_MS = 100, SHOWN = 100 };

bool cold_note_drop(struct cold *cold, uint64_t at_us)
{
    uint64_t *drops = list_grow(cold->drops_us, cold->drop_count, &cold->drop_room, sizeof *drops);
    if (drops == NULL)
        return false;
    cold->drops_us = drops;
    drops[cold->drop_count++] = at_us;
    return true;
}

/* ---- Redis ---- */

static bool connect_redis(struct cold *cold, char *why)
{
    struct redis_url url;
    char wrong[REDIS_URL_WHY_BYTES];
    const struct scenario *scenario = cold->servers->scenario;
    const char *text =
        scenario->redis_url[0] != '\0' ? scenario->redis_url : servers_redis(cold->servers)->url;
    if (cold->redis != NULL && cold->redis->err == 0)
        return true;
    redisFree(cold->redis);
    cold->redis = NULL;
    if (!redis_url_parse(text, &url, wrong))
        return work_wrong(why, "redis: %s", wrong);
    cold->redis = redis_link_open(&url, STEP_LIMIT_MS);
    return cold->redis != NULL ||
           work_wrong(why, "before a round: Redis does not answer, or refuses the login");
}

/* NULL: no answer, or an error. */
static redisReply *command(struct cold *cold, struct words *words, char *why)
{
    const char *list[WORDS_MAX];
    int count = 0;
    if (!connect_redis(cold, why))
        return NULL;
    for (const char *word = words_next(words); word != NULL; word = words_next(words))
        list[count++] = word;
    redisReply *reply = redisCommandArgv(cold->redis, count, list, NULL);
    if (reply != NULL && reply->type != REDIS_REPLY_ERROR)
        return reply;
    work_wrong(why, "before a round: redis %.60s: %.100s", list[0],
               reply != NULL ? reply->str : cold->redis->errstr);
    freeReplyObject(reply);
    return NULL;
}

/* ---- before a round ---- */

static bool prepare_one(struct cold *cold, const char *line, char *why)
{
    static struct words words; /* large; there is one thread */
    words_split(&words, line);
    const char *how = words_next(&words);
    if (strcmp(how, "redis") == 0) {
        redisReply *reply = command(cold, &words, why);
        freeReplyObject(reply);
        return reply != NULL;
    }
    return servers_ask(cold->servers, how, words_next(&words), STEP_LIMIT_MS, why);
}

/* A GET loads; all else may drop, and a load after it is needed. */
static bool prepare(struct cold *cold, char *why)
{
    const struct scenario *scenario = cold->servers->scenario;
    for (size_t i = 0; i < scenario->cold_count; i++) {
        if (strncmp(scenario->colds[i], "GET ", 4) != 0 && !cold_note_drop(cold, clock_us()))
            return work_wrong(why, "no memory");
        if (!prepare_one(cold, scenario->colds[i], why))
            return false;
    }
    return true;
}

/* ---- the end of a PTTL ---- */

/* Of now; false: it has none. */
static bool ask_pttl(struct cold *cold, uint64_t *left_ms, char *why)
{
    static struct words words;
    const char *key = cold->servers->scenario->expiry_key;
    words = (struct words){.count = 0};
    words_add(&words, "PTTL");
    words_add(&words, key);
    redisReply *reply = command(cold, &words, why);
    if (reply == NULL)
        return false;
    long long left = reply->type == REDIS_REPLY_INTEGER ? reply->integer : -2;
    freeReplyObject(reply);
    *left_ms = left > 0 ? (uint64_t)left : 0;
    if (left == -2)
        return work_wrong(why, "at-expiry: Redis has no key %.*s: load it first: --before-round 'GET URL'",
                          SHOWN, key);
    if (left == -1)
        return work_wrong(why, "at-expiry: the key %.*s never expires: its PTTL is -1", SHOWN, key);
    return *left_ms <= COLD_WAIT_LIMIT_MS ||
           work_wrong(why,
                      "at-expiry: the key %.*s expires in %" PRIu64 " s, more than a minute: shorten its TTL",
                      SHOWN, key, *left_ms / 1000);
}

static enum cold_state look_at_key(struct cold *cold, uint64_t *instant_us, char *why)
{
    uint64_t left_ms, asked_us = clock_us();
    if (asked_us < cold->look_us)
        return COLD_WAITING;
    if (!ask_pttl(cold, &left_ms, why))
        return COLD_FAILED;
    cold->end_us =
        cold->end_us != 0 ? cold->end_us : asked_us + (COLD_WAIT_LIMIT_MS + EARLY_MS) * UINT64_C(1000);
    if (asked_us + left_ms * 1000 > cold->end_us) {
        work_wrong(why, "at-expiry: the key %.*s is renewed before it expires", SHOWN,
                   cold->servers->scenario->expiry_key);
        return COLD_FAILED;
    }
    if (left_ms > EARLY_MS) { /* it may be renewed until then */
        cold->look_us = asked_us + (left_ms - EARLY_MS / 2) * 1000;
        return COLD_WAITING;
    }
    *instant_us = clock_us() + (left_ms + 1) * 1000; /* gone for certain: it was cut to a millisecond */
    return cold_note_drop(cold, *instant_us) ? COLD_READY : COLD_FAILED;
}

/* ---- the whole ---- */

enum cold_state cold_look(struct cold *cold, uint64_t soonest_us, uint64_t *instant_us,
                          char why[static SCENARIO_WHY_BYTES])
{
    enum cold_state state = COLD_READY;
    uint64_t now_us = clock_us();
    if (!cold->is_done && now_us + HERD_AHEAD_US < soonest_us)
        return COLD_WAITING;
    if (!cold->is_done && !prepare(cold, why))
        return COLD_FAILED;
    cold->is_done = true;
    *instant_us = 0;
    if (cold->servers->scenario->expiry_key[0] != '\0')
        state = look_at_key(cold, instant_us, why);
    if (state != COLD_READY)
        return state;
    soonest_us = soonest_us > clock_us() + HERD_AHEAD_US ? soonest_us : clock_us() + HERD_AHEAD_US;
    *instant_us = *instant_us > soonest_us ? *instant_us : soonest_us;
    cold->is_done = false;
    cold->look_us = cold->end_us = 0;
    return COLD_READY;
}

void cold_clear(struct cold *cold)
{
    redisFree(cold->redis);
    free(cold->drops_us);
}
