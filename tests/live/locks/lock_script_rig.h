/* SPDX-License-Identifier: MIT */
/*
 * lock_script_rig.h - the scripts of the locks on a private Redis, and the model of tests/sim/lock_model.c beside
 * them.
 *
 * Every step runs in both: lock_wire_send() over a connection of the guard's and lock_wire_read() here,
 * lock_model_run() there. Afterwards there must be the same reply, the same messages in the same order, and the same
 * keys with the same contents and TTLs; else world.difference says what is not.
 *
 * Time      The scripts read a list instead of TIME, which is the model's clock. Before a step every key of the real
 *           server gets what the model says is left, and FAR_MS more, which the scripts' PTTL leaves out: a key goes
 *           when the model's time is over and never by itself, however long a step takes.
 */
#pragma once

#include "guard/locks/lock_wire.h"
#include "load/base/clock.h"
#include "tests/live/guard/script_rig.h"
#include "tests/sim/lock_model.h"
#include "tests/support/redis_rig.h"

#include <inttypes.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum {
    LEASE_MS = 30000,
    PLACE_MS = 40000,
    MAX_LEASE_MS = 60000,
    FENCE_MS = 3600000,
    FAR_MS = 1000000000,
    NAMES = 3,
    ROLES = 6,
    PLACES = NAMES * ROLES,
    TOKENS_MAX = 150, /* in one stay */
    HISTORY = 16,
    TEXT_SIZE = 1024,
};

static const char plain_names[] = "abc";
static const enum key_lock_role roles[ROLES] = {KEY_LOCK_HELD,  KEY_LOCK_QUEUE, KEY_LOCK_ALIVE,
                                                KEY_LOCK_FENCE, KEY_LOCK_GONE,  KEY_LOCK_LATCH};

/* One that asks for locks. */
struct asker {
    enum { NEW, WAITS, HOLDS, OVER, DEAD } state;
    bool in_doubt; /* given back so: what it sent may come late */
    char token[LOCK_TOKEN_SIZE];
    struct lock_name names[NAMES];
    size_t count;
    enum guard_lock_kind kind;
    uint32_t units, limit, place_ms;
};

/* What a server may be in during a step. */
struct trouble {
    void (*begin)(void), (*end)(void);
    bool refuses; /* every write */
};

static struct lock_model model;
static struct lock_model_answer answer; /* of the last step */
static struct {
    struct lock_wire wire;
    struct redis_script scripts[LOCK_SCRIPT_COUNT]; /* on a clock of ours */
    char place[PLACES][KEY_NAME_SIZE];
    uint32_t tokens, sentinel, step;
    char difference[TEXT_SIZE]; /* "": none yet */
    char history[HISTORY][200];
    const struct trouble *trouble; /* of the next steps; NULL: none */
} world;

static void differ(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void differ(const char *format, ...)
{
    va_list arguments;
    if (world.difference[0] != '\0')
        return;
    va_start(arguments, format);
    vsnprintf(world.difference, sizeof world.difference, format, arguments);
    va_end(arguments);
}

/* ---- the real server ---- */

static const char SET_TIME[] = "redis.call('DEL', KEYS[1]) redis.call('RPUSH', KEYS[1], ARGV[1], ARGV[2]) "
                               "for i = 2, #KEYS do redis.call('PEXPIRE', KEYS[i], ARGV[i + 1]) end return 1";
static const char READ_ALL[] = "local all = {} for i, key in ipairs(KEYS) do "
                               "local is_text = redis.call('TYPE', key).ok == 'string' "
                               "all[i] = {redis.call('PTTL', key), is_text and redis.call('GET', key) or "
                               "redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')} end "
                               "all[#KEYS + 1] = redis.call('DBSIZE') return all";

static redisReply *evaluated(struct words *words)
{
    redisReply *reply = run(words);
    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s", reply->str);
    return reply;
}

static struct lock_model_name *model_name(size_t n)
{
    return lock_model_name(&model, &plain_names[n], 1);
}

static const struct lock_model_set *model_set(const struct lock_model_name *name, enum key_lock_role role)
{
    switch (role) {
    case KEY_LOCK_HELD:
        return &name->held;
    case KEY_LOCK_QUEUE:
        return &name->queue;
    case KEY_LOCK_ALIVE:
        return &name->alive;
    case KEY_LOCK_GONE:
        return &name->gone;
    case KEY_LOCK_LATCH:
        return &name->latch;
    case KEY_LOCK_FENCE:
        break;
    }
    return NULL;
}

/* What is left of the key; -1: it is not there. */
static int64_t model_ttl_ms(size_t place)
{
    const struct lock_model_name *name = model_name(place / ROLES);
    const enum key_lock_role role = roles[place % ROLES];
    const struct lock_model_set *set = model_set(name, role);
    const bool is_open = role == KEY_LOCK_LATCH && name->is_open;
    const bool is_there = set != NULL ? set->count > 0 || is_open : name->fence > 0;
    const int64_t expires_ms = set != NULL ? set->expires_ms : name->fence_expires_ms;
    return is_there ? expires_ms - (int64_t)(model.now_us / 1000) : -1;
}

/* The scripts' clock, and what is left of every key; one whose time is over goes. */
static void align_time(void)
{
    static char texts[PLACES + 2][24];
    struct words words = {.count = 0};
    char keys[8];
    snprintf(keys, sizeof keys, "%d", PLACES + 1);
    add(&words, "EVAL");
    add(&words, SET_TIME);
    add(&words, keys);
    add(&words, "clock");
    for (size_t i = 0; i < PLACES; i++)
        add(&words, world.place[i]);
    snprintf(texts[0], sizeof texts[0], "%" PRIu64, model.now_us / 1000000);
    snprintf(texts[1], sizeof texts[1], "%" PRIu64, model.now_us % 1000000);
    for (size_t i = 0; i < PLACES; i++) {
        const int64_t ttl_ms = model_ttl_ms(i);
        snprintf(texts[2 + i], sizeof texts[0], "%" PRId64, ttl_ms > 0 ? ttl_ms + FAR_MS : -1);
    }
    for (size_t i = 0; i < PLACES + 2; i++)
        add(&words, texts[i]);
    freeReplyObject(evaluated(&words));
}

/* ---- the same keys ---- */

static void compare_members(size_t place, const struct lock_model_set *set, const redisReply *all)
{
    const enum key_lock_role role = roles[place % ROLES];
    const bool is_open = role == KEY_LOCK_LATCH && model_name(place / ROLES)->is_open;
    if (all->elements != 2 * (set->count + is_open)) {
        differ("%s: %zu members, model %zu", world.place[place], all->elements / 2, set->count + is_open);
        return;
    }
    for (size_t i = 0; i < all->elements; i += 2) {
        const char *member = all->element[i]->str;
        if (is_open && strcmp(member, "open") == 0)
            continue;
        const struct lock_model_member *other = role == KEY_LOCK_QUEUE
                                                    ? &set->member[i / 2]
                                                    : lock_model_find((struct lock_model_set *)set, member);
        if (other == NULL || strcmp(other->token, member) != 0)
            differ("%s: %.8s stands at %zu, not so in the model", world.place[place], member, i / 2);
        else if (role != KEY_LOCK_QUEUE && atoll(all->element[i + 1]->str) != other->until_ms)
            differ("%s: %.8s until %s, model %" PRId64, world.place[place], member, all->element[i + 1]->str,
                   other->until_ms);
    }
}

static void compare_place(size_t place, const redisReply *seen, uint64_t took_ms)
{
    const struct lock_model_name *name = model_name(place / ROLES);
    const int64_t pttl_ms = seen->element[0]->integer, wanted_ms = model_ttl_ms(place);
    const int64_t real_ms = pttl_ms > FAR_MS / 2 ? pttl_ms - FAR_MS : pttl_ms;
    const redisReply *content = seen->element[1];
    if ((pttl_ms == -2) != (wanted_ms < 0)) {
        differ("%s: PTTL %" PRId64 ", not so in the model", world.place[place], pttl_ms);
        return;
    }
    if (pttl_ms == -2)
        return;
    if (real_ms > wanted_ms || real_ms < wanted_ms - (int64_t)took_ms - 1)
        differ("%s: PTTL %" PRId64 ", model %" PRId64, world.place[place], real_ms, wanted_ms);
    if (roles[place % ROLES] != KEY_LOCK_FENCE)
        compare_members(place, model_set(name, roles[place % ROLES]), content);
    else if (strtoull(content->str, NULL, 10) != name->fence)
        differ("%s: %s, model %" PRIu64, world.place[place], content->str, name->fence);
}

static void compare_keys(uint64_t began_ms)
{
    struct words words = {.count = 0};
    char keys[8];
    long long found = 1; /* the clock */
    snprintf(keys, sizeof keys, "%d", PLACES);
    add(&words, "EVAL");
    add(&words, READ_ALL);
    add(&words, keys);
    for (size_t i = 0; i < PLACES; i++)
        add(&words, world.place[i]);
    redisReply *all = evaluated(&words);
    const uint64_t took_ms = clock_us() / 1000 - began_ms;
    for (size_t i = 0; i < PLACES; i++) {
        compare_place(i, all->element[i], took_ms);
        found += all->element[i]->element[0]->integer != -2;
    }
    if (all->element[PLACES]->integer != found)
        differ("%lld keys, of ours %lld", all->element[PLACES]->integer, found);
    freeReplyObject(all);
}

/* ---- the same messages ---- */

static bool is_told(const struct lock_message *message, const struct lock_model_told *told)
{
    const bool all = told->uuid[0] == '\0';
    return message->encoded_bytes == strlen(told->name->encoded) &&
           memcmp(message->encoded, told->name->encoded, message->encoded_bytes) == 0 &&
           (message->uuid == NULL) == all && (all || memcmp(message->uuid, told->uuid, LOCK_UUID_BYTES) == 0);
}

static void compare_messages(void)
{
    char sentinel[24];
    size_t at = 0;
    snprintf(sentinel, sizeof sentinel, "end %" PRIu32, ++world.sentinel);
    must("PUBLISH %s %s", channel, sentinel);
    for (bool more = true; more;) {
        redisReply *reply = NULL;
        struct lock_message message;
        assert_int_equal(redisGetReply(subscriber, (void **)&reply), REDIS_OK);
        const redisReply *payload = reply->element[2];
        more = strcmp(payload->str, sentinel) != 0;
        if (more && (at >= answer.told_count || !lock_message_read(payload->str, payload->len, &message) ||
                     !is_told(&message, &answer.told[at])))
            differ("told \"%.50s\", not so in the model", payload->str);
        at += more;
        freeReplyObject(reply);
    }
    if (at != answer.told_count)
        differ("%zu messages, model %zu", at, answer.told_count);
}

/* ---- the same reply ---- */

struct exchange {
    struct lock_asked asked;
    bool answered;
    struct lock_reply reply;
    uint32_t ask_now[TOKENS_MAX];
    char why[160];
};

static void on_replied(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    struct exchange *exchange = context;
    lock_wire_read(&exchange->asked, outcome, reply, &exchange->reply, exchange->ask_now);
    snprintf(exchange->why, sizeof exchange->why, "%s",
             exchange->reply.why != NULL ? exchange->reply.why : "");
    exchange->answered = true;
}

static void compare_reply(const struct exchange *exchange)
{
    const struct lock_reply *real = &exchange->reply, *wanted = &answer.reply;
    /* The connection may have found out by itself that this server takes no writes. */
    if (wanted->kind == LOCK_UNANSWERED && real->kind == LOCK_UNSENT)
        return;
    if (real->kind != wanted->kind || real->hint_ms != wanted->hint_ms || real->before != wanted->before)
        differ("reply of kind %d, hint %u, before %u (%s), model %d %u %u", (int)real->kind, real->hint_ms,
               real->before, exchange->why, (int)wanted->kind, wanted->hint_ms, wanted->before);
    for (size_t i = 0; wanted->kind == LOCK_GRANTED && i < exchange->asked.count; i++)
        if (real->fence[i] != wanted->fence[i])
            differ("fence %" PRIu64 ", model %" PRIu64, real->fence[i], wanted->fence[i]);
    if (real->ask_now_count != wanted->ask_now_count ||
        memcmp(exchange->ask_now, answer.ask_now, real->ask_now_count * sizeof answer.ask_now[0]) != 0)
        differ("%zu should ask, model %zu", real->ask_now_count, wanted->ask_now_count);
}

/* ---- one step through both ---- */

/* What was seen, so that a test can tell whether it saw everything. */
static uint32_t reply_count[LOCK_STAY + 1][LOCK_UNANSWERED + 1];

static void note_step(const struct lock_action *action)
{
    snprintf(world.history[world.step % HISTORY], sizeof world.history[0],
             "%u at %" PRIu64 ": %s%s %.8s of %c+%zu, place %u%s%s%s -> %d, %u in front, %zu told",
             world.step, model.now_us / 1000,
             (const char *const[]){"take", "renew", "give", "stay"}[action->kind],
             action->lock == GUARD_LOCK_LATCH ? " latch" : "", action->token != NULL ? action->token : "",
             action->names[0].encoded[0], action->count - 1, action->place_ms,
             action->overtakes ? ", overtaking" : "", action->doubt ? ", in doubt" : "",
             world.trouble != NULL ? ", in trouble" : "", (int)answer.reply.kind, answer.reply.before,
             answer.told_count);
}

/* A server that takes no writes answers nothing but that a token was given back before. */
static bool is_refused(const struct lock_action *action)
{
    if (world.trouble == NULL || !world.trouble->refuses)
        return false;
    const bool asks = action->kind == LOCK_TAKE && action->lock != GUARD_LOCK_LATCH;
    struct lock_model_name *name = lock_model_name(&model, action->names[0].encoded, action->names[0].bytes);
    return !asks || lock_model_find(&name->gone, action->token) == NULL;
}

/* With floors it is a renewal of RedLock's. */
static void run_in_model(const struct lock_action *action, const uint64_t *floors)
{
    if (is_refused(action))
        answer = (struct lock_model_answer){.reply = {.kind = LOCK_UNANSWERED}};
    else if (floors != NULL)
        lock_model_raise(&model, action, floors, &answer);
    else
        lock_model_run(&model, action, &answer);
}

static void run_in_redis(const struct lock_action *action, const uint64_t *floors, struct exchange *exchange)
{
    const struct trouble *trouble = world.trouble;
    rig_wait_up();
    rig.state_count = 0;
    if (trouble != NULL)
        trouble->begin();
    if (floors != NULL)
        assert_true(lock_wire_send_raise(&world.wire, rig.redis, action, floors, on_replied, exchange));
    else
        assert_true(lock_wire_send(&world.wire, rig.redis, action, on_replied, exchange));
    rig_wait_until(exchange->answered);
    if (trouble != NULL && trouble->end != NULL)
        trouble->end();
}

static void run_in_both(const struct lock_action *action, const uint64_t *floors)
{
    const uint64_t began_ms = clock_us() / 1000;
    struct exchange exchange = {.asked = lock_asked_of(action)};
    align_time();
    run_in_model(action, floors);
    run_in_redis(action, floors, &exchange);
    compare_reply(&exchange);
    compare_keys(began_ms);
    compare_messages();
    reply_count[action->kind][exchange.reply.kind]++;
    note_step(action);
    world.step++;
}

static struct lock_action action_of(const struct asker *asker, enum lock_action_kind kind)
{
    return (struct lock_action){.kind = kind,
                                .lock = asker->kind,
                                .names = asker->names,
                                .count = asker->count,
                                .token = asker->token,
                                .units = asker->units,
                                .limit = asker->limit,
                                .place_ms = asker->place_ms,
                                .overtakes = asker->kind == GUARD_LOCK_MUTEX};
}

static enum lock_reply_kind take(struct asker *asker)
{
    const struct lock_action action = action_of(asker, LOCK_TAKE);
    run_in_both(&action, NULL);
    if (answer.reply.kind == LOCK_GRANTED)
        asker->state = HOLDS;
    else if (answer.reply.kind == LOCK_REFUSED)
        asker->state = asker->place_ms > 0 ? WAITS : NEW;
    return answer.reply.kind;
}

static enum lock_reply_kind renew(const struct asker *asker)
{
    const struct lock_action action = action_of(asker, LOCK_RENEW);
    run_in_both(&action, NULL);
    return answer.reply.kind;
}

static enum lock_reply_kind give(struct asker *asker, bool in_doubt)
{
    struct lock_action action = action_of(asker, LOCK_GIVE);
    action.doubt = in_doubt;
    run_in_both(&action, NULL);
    asker->state = OVER;
    asker->in_doubt = in_doubt;
    return answer.reply.kind;
}

/* On the first name of the first of them. */
static void stay(struct asker *const *askers, size_t count)
{
    const char *tokens[TOKENS_MAX];
    struct lock_action action = action_of(askers[0], LOCK_STAY);
    action.count = 1;
    action.place_ms = PLACE_MS;
    action.tokens = tokens;
    action.token_count = count;
    action.token = NULL;
    for (size_t i = 0; i < count; i++)
        tokens[i] = askers[i]->token;
    run_in_both(&action, NULL);
}

/* ---- askers ---- */

/* `names`: one letter each. */
static struct asker asker_for(enum guard_lock_kind kind, const char *names, uint32_t units, uint32_t limit,
                              uint32_t lease_ms)
{
    struct asker asker = {.state = NEW, .kind = kind, .place_ms = PLACE_MS, .units = units, .limit = limit};
    struct lock_token token = {.units = units, .limit = limit, .lease_ms = lease_ms, .since_s = 1};
    snprintf(token.uuid, sizeof token.uuid, "%08" PRIx32 "-0000-4000-8000-000000000000", ++world.tokens);
    snprintf(token.who, sizeof token.who, "host:7");
    lock_token_write(&token, asker.token);
    for (; *names != '\0'; names++)
        asker.names[asker.count++] = (struct lock_name){strchr(plain_names, *names), 1};
    return asker;
}

/* ---- trouble ---- */

static void forget_scripts(void)
{
    must("SCRIPT FLUSH");
}

static void fill_memory(void)
{
    must("CONFIG SET maxmemory 1");
}

static void free_memory(void)
{
    must("CONFIG SET maxmemory 0");
}

/* A replica of nobody: port 1 never answers, so it keeps what it has. */
static void make_replica(void)
{
    must("REPLICAOF 127.0.0.1 1");
}

static void make_master(void)
{
    must("REPLICAOF NO ONE");
}

static const struct trouble scripts_forgotten = {forget_scripts, NULL, false};
static const struct trouble no_memory = {fill_memory, free_memory, false};
static const struct trouble read_only = {make_replica, make_master, true};

/* ---- what happens around them ---- */

static void pass_ms(int64_t ms)
{
    model.now_us = (uint64_t)((int64_t)model.now_us + ms * 1000);
}

/* A key is evicted. */
static void lose(size_t n, enum key_lock_role role)
{
    struct lock_model_name *name = model_name(n);
    size_t at = 0;
    while (roles[at] != role)
        at++;
    must("DEL %s", world.place[n * ROLES + at]);
    if (role == KEY_LOCK_FENCE)
        name->fence = 0;
    else
        ((struct lock_model_set *)model_set(name, role))->count = 0;
    name->is_open = name->is_open && role != KEY_LOCK_LATCH;
}

/* Both empty. */
static void begin_steps(void)
{
    lock_model_init(&model, MAX_LEASE_MS, FENCE_MS);
    model.now_us = 1700000000000000;
    world.step = 0;
    world.trouble = NULL;
    world.difference[0] = '\0';
    memset(world.history, 0, sizeof world.history);
    must("FLUSHALL");
}

/* ---- set-up ---- */

/* `text` with the one word for the other, wherever it stands; frees it. */
static char *replaced(char *text, const char *old, const char *new)
{
    for (char *at = text; (at = strstr(at, old)) != NULL;) {
        const size_t head = (size_t)(at - text);
        char *longer = malloc(strlen(text) + strlen(new) + 1);
        assert_non_null(longer);
        sprintf(longer, "%.*s%s%s", (int)head, text, new, at + strlen(old));
        at = longer + head + strlen(new);
        free(text);
        text = longer;
    }
    return text;
}

/* The caller's, to free. */
static struct redis_script on_our_clock(const struct redis_script *script)
{
    static const char pttl[] = "local function pttl(key) return redis.call('PTTL', key) - 1000000000 end\n";
    char *text = malloc(sizeof pttl + script->source_bytes);
    assert_non_null(text);
    sprintf(text, "%s%s", pttl, script->source);
    text = replaced(text, "call('TIME')", "call('LRANGE', 'clock', 0, 1)");
    text = replaced(text, " call('PTTL', ", " pttl(");
    return (struct redis_script){text, strlen(text)};
}

/* As guard/README.md has it. */
#define ALLOWED                                                                                              \
    "+get +getex +set +del +exists +pttl +pexpire +time +zadd +zrem +zcard +zscore +zrank +zmscore +zcount " \
    "+zrange "                                                                                               \
    "+zrangebyscore +zremrangebyscore +eval +evalsha +script|load +publish +subscribe +select +auth "        \
    "+client|setname +role +info"

static bool lock_rig_up(void)
{
    char url[96];
    uv_loop_t loop;
    /* The first loop of a process opens descriptors for good. */
    if (uv_loop_init(&loop) != 0 || uv_loop_close(&loop) != 0)
        return false;
    lock_wire_init(&world.wire, "t", 0, MAX_LEASE_MS, FENCE_MS);
    for (size_t i = 0; i < PLACES; i++)
        key_lock("t", &plain_names[i / ROLES], 1, roles[i % ROLES], world.place[i]);
    channel = world.wire.channel;
    if (!server_up())
        return false;
    for (size_t i = 0; i < LOCK_SCRIPT_COUNT; i++)
        world.scripts[i] = on_our_clock(&lock_scripts[i]);
    must("ACL SETUSER locks on >secret ~csg1:* ~clock resetchannels &csg1:locks:* -@all +lrange " ALLOWED);
    snprintf(url, sizeof url, "redis://locks:secret@127.0.0.1:%u/0", (unsigned)server.port);
    rig_prepare(url);
    rig.config.scripts = world.scripts;
    rig.config.script_count = LOCK_SCRIPT_COUNT;
    rig_open();
    rig_wait_up();
    return true;
}

static bool lock_rig_down(void)
{
    for (size_t i = 0; i < LOCK_SCRIPT_COUNT; i++)
        free((char *)(uintptr_t)world.scripts[i].source);
    rig_finish();
    return server_down();
}
