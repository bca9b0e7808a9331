/* SPDX-License-Identifier: MIT */
/*
 * model_test.c - the simulator's model of Redis against a real redis-server: random steps through both, and
 * after every step the same reply, the same keys with the same contents and TTLs, and the same message.
 *
 * The model is tests/sim/sim_redis.c itself, compiled in; the hooks at the top of this file stand for the
 * world it usually lives in. The real side is what a guard uses: protocol_send() and protocol_read() over its
 * own connection.
 *
 * Time      Virtual. Before a step every key of the real server gets the TTL that the model says is left,
 *           which lets hours pass, or the server's clock step, in no time. All spans are odd multiples of
 *           HALF_MS, all jumps even ones, so that the real milliseconds a step takes decide nothing; a TTL
 *           read after the step may be shorter than the model's by as long as the step took, and by no more.
 * Seeds     One per sequence. A disagreement names seed and step and tells what led to it; MODEL_SEED=n runs
 *           that sequence alone.
 */
#include "tests/sim/sim_redis.c"

#include "guard/wire/envelope.h"
#include "guard/wire/protocol.h"
#include "guard/wire/wake.h"
#include "load/base/clock.h"
#include "tests/live/guard/script_rig.h"
#include "tests/support/redis_rig.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum {
    SEEDS = 150,
    STEPS = 400,
    MUTANT_SEEDS = 40,
    SEEN = 3, /* so often at least must each kind of reply and of trouble have come up */
    HALF_MS = 50000,
    JUMP_MS = 2 * HALF_MS,
    MAX_LEASE_MS = 15 * HALF_MS,
    MAX_VALUE_MS = 25 * HALF_MS,
    TOKENS = 6, /* remembered per key */
    ROLES = 4,
    PUSH_BYTES = 4096, /* more than any entry has */
    PLACES = SIM_KEYS * ROLES,
    TEXT_SIZE = 1024,
    STEP_SLACK_MS = 3,
};

static const char roles[ROLES] = {KEY_VALUE, KEY_LEASE, KEY_FAILURE, KEY_WAITING};
static const char *const plain_keys[SIM_KEYS] = {"k0", "k1", "k2"};

/* One sequence: both sides, and what was done so far. */
static struct sim sim;
static struct {
    struct protocol protocol;
    char place[PLACES][KEY_NAME_SIZE];
    char tokens[SIM_KEYS][TOKENS][TOKEN_SIZE];
    uint32_t version, sentinel;
    char difference[TEXT_SIZE]; /* "": none yet */
    char history[12][160];
    uint32_t step;
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

/* ---- the world around the model ---- */

void check_lease_gone(struct sim *of, uint32_t key, const char *token, enum lease_end end, const char *by)
{
    (void)of, (void)key, (void)token, (void)end, (void)by;
}

uint32_t check_version_loaded(const struct sim *of, const char *token)
{
    (void)of, (void)token;
    return 0;
}

bool body_read(const char *body, uint32_t *key, uint32_t *version)
{
    return sscanf(body, "k%" SCNu32 " v%" SCNu32, key, version) == 2;
}

/* What loaders have said is judged where there are loads. */
void keep_check_stored(struct sim *of, const struct command *command)
{
    (void)of, (void)command;
}

void keep_check_touched(struct sim *of, const struct command *command, const struct stored_value *old)
{
    (void)of, (void)command, (void)old;
}

void keep_check_shared(struct sim *of, const struct command *command)
{
    (void)of, (void)command;
}

/* Nobody waits for a permit here. */
void net_tell_permit(struct sim *of, const char *waiter)
{
    (void)of, (void)waiter;
}

void sim_fail(struct sim *of, const char *format, ...)
{
    (void)of;
    differ("the model itself: %s", format);
}

/* ---- the real server ---- */

static const char SET_TTLS[] =
    "for i = 1, #KEYS do "
    "if ARGV[i] ~= '' then redis.call('PEXPIRE', KEYS[i], ARGV[i]) end end return 1";
static const char READ_ALL[] = "local all = {} for i = 1, #KEYS do "
                               "all[2 * i - 1] = redis.call('GET', KEYS[i]) or '' "
                               "all[2 * i] = redis.call('PTTL', KEYS[i]) end "
                               "all[2 * #KEYS + 1] = redis.call('DBSIZE') return all";

/* A script over all places; `ttls` may be NULL. */
static redisReply *run_over_all(const char *script, char ttls[PLACES][24])
{
    const char *argv[3 + 2 * PLACES] = {"EVAL", script, "12"};
    int argc = 3;
    _Static_assert(PLACES == 12, "the number above");
    for (int i = 0; i < PLACES; i++)
        argv[argc++] = world.place[i];
    for (int i = 0; ttls != NULL && i < PLACES; i++)
        argv[argc++] = ttls[i];
    redisReply *reply = redisCommandArgv(server.context, argc, argv, NULL);
    if (reply == NULL || reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s", reply == NULL ? server.context->errstr : reply->str);
    return reply;
}

static uint32_t push_count;  /* sound entries that travelled */
static uint32_t share_count; /* of them, those that are stored nowhere */

/* What travelled, or should have, with the message of a store. */
static void compare_push(const struct command *command, const struct message *message)
{
    const struct stored_value *entry = &command->answer.value;
    struct core_reply pushed;
    struct value *value = NULL;
    uint32_t key = 0, version = 0;
    if ((message->entry != NULL) != command->answer.pushed) {
        differ("the message carries %zu bytes, model %d", message->entry_bytes, command->answer.pushed);
        return;
    }
    if (message->entry == NULL)
        return;
    bool sound = message_read_entry(message, &command->action.key, MAX_VALUE_MS, &pushed, &value);
    push_count += sound;
    share_count += sound && command->action.shares;
    if (sound != (!entry->damaged && entry->key == command->key && entry->px_ms <= MAX_VALUE_MS))
        differ("pushed entry sound %d, model %d", sound, !sound);
    else if (sound && (pushed.mark != entry->mark || pushed.shared != command->action.shares))
        differ("pushed mark %d shared %d, model %d", pushed.mark, pushed.shared, entry->mark);
    else if (sound && (pushed.absent != entry->absent || pushed.left_ms != entry->px_ms - entry->stale_ms ||
                       memcmp(pushed.lease_tag, command->token + TOKEN_TAG_AT, TOKEN_TAG_BYTES) != 0))
        differ("pushed absent %d fresh %u, model %d", pushed.absent, pushed.left_ms, entry->absent);
    else if (value != NULL && (!body_read(value->public.body, &key, &version) || version != entry->version))
        differ("pushed v%u, model v%u", version, entry->version);
    value_unref(&value);
}

/* How many messages of a command came since the last time, and of anything else. */
static void read_messages(const struct command *command, char operation, uint32_t *wanted, uint32_t *others)
{
    char sentinel[24];
    snprintf(sentinel, sizeof sentinel, "end %" PRIu32, ++world.sentinel);
    must("PUBLISH %s %s", channel, sentinel);
    for (bool more = true; more;) {
        redisReply *reply = NULL;
        assert_int_equal(redisGetReply(subscriber, (void **)&reply), REDIS_OK);
        const char *text = reply->element[2]->str;
        struct message message = message_read(text, reply->element[2]->len);
        more = strcmp(text, sentinel) != 0;
        bool is_it = message.kind != MESSAGE_NONE && text[0] == operation && message.subject_bytes == 2 &&
                     memcmp(message.subject, plain_keys[command->key], 2) == 0;
        if (is_it)
            compare_push(command, &message);
        *wanted += is_it;
        *others += more && !is_it;
        freeReplyObject(reply);
    }
}

/* ---- time ---- */

static bool model_has(const struct slot *slot, char role, int64_t *expires_ms)
{
    const struct {
        char role;
        bool there;
        int64_t expires_ms;
    } keys[] = {{KEY_VALUE, slot->value.there, slot->value.expires_ms},
                {KEY_LEASE, slot->lease.there, slot->lease.expires_ms},
                {KEY_FAILURE, slot->failure.there, slot->failure.expires_ms},
                {KEY_WAITING, slot->waiting.there, slot->waiting.expires_ms}};
    size_t at = 0;
    while (keys[at].role != role)
        at++;
    *expires_ms = keys[at].expires_ms;
    return keys[at].there;
}

static bool is_any_in_its_last_ms(void)
{
    int64_t expires_ms = 0;
    for (uint32_t i = 0; i < PLACES; i++) {
        if (model_has(&sim.redis.slot[i / ROLES], roles[i % ROLES], &expires_ms) &&
            ttl_ms(&sim, expires_ms) == 0)
            return true;
    }
    return false;
}

/* The real keys get what is left of the model's time; a key whose time is over goes, on both sides. A last
 * millisecond cannot be given to a real key: it passes. */
static void align_time(void)
{
    char ttls[PLACES][24];
    while (is_any_in_its_last_ms())
        sim.course.now_us += 1000;
    for (uint32_t i = 0; i < PLACES; i++) {
        int64_t expires_ms = 0;
        ttls[i][0] = '\0';
        if (model_has(&sim.redis.slot[i / ROLES], roles[i % ROLES], &expires_ms))
            snprintf(ttls[i], sizeof ttls[i], "%" PRId64, ttl_ms(&sim, expires_ms));
    }
    freeReplyObject(run_over_all(SET_TTLS, ttls));
    for (uint32_t key = 0; key < SIM_KEYS; key++)
        redis_expire(&sim, key);
}

static bool is_about(int64_t real_ms, int64_t model_ms, uint64_t took_ms)
{
    return real_ms <= model_ms + STEP_SLACK_MS && real_ms >= model_ms - (int64_t)took_ms - SLACK_MS;
}

/* ---- the same keys ---- */

static bool is_same_life(const struct entry_life *one, const struct entry_life *other)
{
    return one->own_fresh == other->own_fresh && one->own_stale == other->own_stale &&
           one->fresh_ms == other->fresh_ms && one->stale_ms == other->stale_ms;
}

static void compare_value(uint32_t key, const struct stored_value *value, const redisReply *text)
{
    struct envelope envelope;
    uint32_t of = 0, version = 0;
    const char *name = plain_keys[value->key];
    enum envelope_fault fault = envelope_read(text->str, text->len, name, strlen(name), &envelope);
    if (value->damaged ? fault != ENVELOPE_DAMAGED : fault != ENVELOPE_OK)
        differ("k%u: envelope fault %d", key, (int)fault);
    if (value->damaged || fault != ENVELOPE_OK)
        return;
    if ((envelope.meta_bytes > 0) != value->meta)
        differ("k%u: %zu bytes of meta, model %d", key, envelope.meta_bytes, value->meta);
    if (envelope.mark != value->mark || !is_same_life(&envelope.life, &value->life))
        differ("k%u: mark %d, own fresh %u, own stale %d, model %d %u %d", key, envelope.mark,
               envelope.life.fresh_ms, envelope.life.own_stale, value->mark, value->life.fresh_ms,
               value->life.own_stale);
    if (strcmp(envelope.filler, value->filler) != 0 || envelope.px_ms != value->px_ms ||
        envelope.stale_ms != value->stale_ms || envelope.absent != value->absent)
        differ("k%u: value of %.8s px %" PRIu64 " stale %" PRIu64 ", model %.8s %" PRIu64 " %" PRIu64, key,
               envelope.filler, envelope.px_ms, envelope.stale_ms, value->filler, value->px_ms,
               value->stale_ms);
    if (!value->absent && !value->mark &&
        (!body_read(envelope.body, &of, &version) || of != value->key || version != value->version))
        differ("k%u: value is v%u of k%u, model v%u of k%u", key, version, of, value->version, value->key);
}

static void compare_failure(uint32_t key, const struct stored_failure *failure, const redisReply *text)
{
    char wanted[64];
    int bytes = snprintf(wanted, sizeof wanted, "%010" PRIu32 " %s", failure->own_ms,
                         failure->too_big ? "too_big" : guard_failure_name(failure->failure));
    if (!failure->too_big && failure->load != 0)
        snprintf(wanted + bytes, sizeof wanted - (size_t)bytes, " %016" PRIx64, failure->load);
    if (strcmp(text->str, wanted) != 0)
        differ("k%u: failure '%s', model '%s'", key, text->str, wanted);
}

static void compare_text(uint32_t key, const char *what, const char *text, const char *wanted)
{
    if (strcmp(text, wanted) != 0)
        differ("k%u: %s %s, model %s", key, what, text, wanted);
}

static void compare_waiting(uint32_t key, const struct stored_waiting *waiting, const redisReply *text)
{
    char wanted[TOKEN_TAG_BYTES + 2];
    snprintf(wanted, sizeof wanted, "%s%s", waiting->tag, waiting->quiet ? "-" : "");
    compare_text(key, "waiting for", text->str, wanted);
}

static void compare_place(uint32_t place, const redisReply *text, int64_t real_ms, uint64_t took_ms)
{
    uint32_t key = place / ROLES;
    const struct slot *slot = &sim.redis.slot[key];
    char role = roles[place % ROLES];
    int64_t expires_ms = 0;
    if (!model_has(slot, role, &expires_ms)) {
        if (real_ms != -2)
            differ("k%u %c: is there, not in the model: %.60s", key, role, text->str);
        return;
    }
    if (!is_about(real_ms, ttl_ms(&sim, expires_ms), took_ms)) {
        differ("k%u %c: PTTL %" PRId64 ", model %" PRId64, key, role, real_ms, ttl_ms(&sim, expires_ms));
        return;
    }
    if (role == KEY_VALUE)
        compare_value(key, &slot->value, text);
    else if (role == KEY_FAILURE)
        compare_failure(key, &slot->failure, text);
    else if (role == KEY_WAITING)
        compare_waiting(key, &slot->waiting, text);
    else
        compare_text(key, "lease", text->str, slot->lease.token);
}

static void compare_keys(uint64_t began_ms)
{
    redisReply *all = run_over_all(READ_ALL, NULL);
    uint64_t took_ms = clock_us() / 1000 - began_ms;
    long long found = 0;
    assert_int_equal(all->elements, 2 * PLACES + 1);
    if (took_ms >= HALF_MS / 2)
        fail_msg("one step took %" PRIu64 " ms: too slow to tell TTLs apart", took_ms);
    for (uint32_t place = 0; place < PLACES; place++) {
        compare_place(place, all->element[2 * place], all->element[2 * place + 1]->integer, took_ms);
        found += all->element[2 * place + 1]->integer != -2;
    }
    if (all->element[2 * PLACES]->integer != found)
        differ("%lld keys, of ours %lld", all->element[2 * PLACES]->integer, found);
    freeReplyObject(all);
}

/* ---- the same reply ---- */

struct exchange {
    const struct command *command;
    bool answered;
    struct core_reply reply;
    struct value *value; /* owned */
    char head[TOKEN_UUID_BYTES + 1], tag[TOKEN_TAG_BYTES + 1], names_seen[2 * TOKEN_UUID_BYTES + 1];
};

static void on_replied(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    struct exchange *exchange = context;
    const struct core_key *key = &exchange->command->action.key;
    protocol_read(exchange->command->action.kind, key->plain, key->plain_bytes, outcome, reply,
                  &exchange->reply, &exchange->value);
    if (exchange->reply.head != NULL)
        memcpy(exchange->head, exchange->reply.head, TOKEN_UUID_BYTES);
    if (exchange->reply.lease_tag != NULL)
        memcpy(exchange->tag, exchange->reply.lease_tag, TOKEN_TAG_BYTES);
    if (exchange->reply.names_seen != NULL)
        memcpy(exchange->names_seen, exchange->reply.names_seen, sizeof exchange->names_seen - 1);
    exchange->answered = true;
}

static enum core_reply_kind kind_of(const struct command *command, const struct redis_answer *answer)
{
    static const struct {
        char what;
        enum core_reply_kind kind;
    } kinds[] = {{'H', REPLY_FRESH}, {'S', REPLY_STALE},  {'L', REPLY_LEASE},
                 {'B', REPLY_BUSY},  {'E', REPLY_FAILED}, {'M', REPLY_FREE}};
    if (answer->error)
        return REPLY_REFUSED;
    for (size_t i = 0; i < COUNT(kinds); i++)
        if (kinds[i].what == answer->what)
            return kinds[i].kind;
    return command->action.kind == CORE_ACQUIRE ? REPLY_REFUSED : REPLY_CODE;
}

static void compare_found(const struct exchange *exchange, const struct redis_answer *answer,
                          uint64_t took_ms)
{
    const struct core_reply *reply = &exchange->reply;
    const struct stored_value *value = &answer->value;
    bool damaged = value->damaged || value->key != exchange->command->key;
    uint32_t key = 0, version = 0;
    if (strcmp(exchange->head, value->filler) != 0 || reply->damaged != damaged)
        differ("found %.8s damaged %d, model %.8s %d", exchange->head, reply->damaged, value->filler,
               damaged);
    if (reply->refresher != (enum core_refresher)answer->refresher)
        differ("refresher %d, model %d", (int)reply->refresher, answer->refresher);
    if (damaged || reply->damaged)
        return;
    int64_t left_ms = answer->ttl_ms - (int64_t)value->stale_ms;
    if (!is_about(-(int64_t)reply->age_ms, answer->ttl_ms - (int64_t)value->px_ms, took_ms) ||
        !is_about(reply->left_ms, left_ms < 0 ? 0 : left_ms, took_ms))
        differ("age %u left %u, model ttl %" PRId64, reply->age_ms, reply->left_ms, answer->ttl_ms);
    if (reply->absent != value->absent || reply->mark != value->mark ||
        (reply->value == NULL) != (value->absent || value->mark))
        differ("absent %d mark %d, model %d %d", reply->absent, reply->mark, value->absent, value->mark);
    if (!is_same_life(&reply->life, &value->life))
        differ("own fresh %u stale %u, model %u %u", reply->life.fresh_ms, reply->life.stale_ms,
               value->life.fresh_ms, value->life.stale_ms);
    if (reply->value != NULL && (!body_read(reply->value->public.body, &key, &version) || key != value->key ||
                                 version != value->version))
        differ("answered v%u of k%u, model v%u of k%u", version, key, value->version, value->key);
}

static uint32_t abandoned_count; /* leases that came with the mark of a load that was */

static void compare_reply(const struct exchange *exchange, const struct redis_answer *answer,
                          uint64_t took_ms)
{
    const struct core_reply *reply = &exchange->reply;
    enum core_reply_kind kind = kind_of(exchange->command, answer);
    if (reply->kind != kind) {
        differ("reply of kind %d, model %d", (int)reply->kind, (int)kind);
        return;
    }
    if ((kind == REPLY_BUSY || kind == REPLY_STALE) && strcmp(exchange->tag, answer->tag) != 0)
        differ("tag %s, model %s", exchange->tag, answer->tag);
    if (kind == REPLY_LEASE && reply->abandoned != answer->abandoned)
        differ("abandoned %d, model %d", reply->abandoned, answer->abandoned);
    abandoned_count += kind == REPLY_LEASE && reply->abandoned;
    if (kind == REPLY_BUSY && strcmp(exchange->names_seen, answer->names_seen) != 0)
        differ("names_seen %s, model %s", exchange->names_seen, answer->names_seen);
    if (kind == REPLY_FRESH || kind == REPLY_STALE)
        compare_found(exchange, answer, took_ms);
    if (kind == REPLY_STALE && !is_about(reply->cool_ms, answer->failure_ms, took_ms))
        differ("cool %u, model %" PRId64, reply->cool_ms, answer->failure_ms);
    if (kind == REPLY_CODE && reply->code != answer->code)
        differ("code %" PRId64 ", model %" PRId64, reply->code, answer->code);
    if ((kind == REPLY_BUSY || kind == REPLY_FAILED) && !is_about(reply->pttl_ms, answer->ttl_ms, took_ms))
        differ("pttl %u, model %" PRId64, reply->pttl_ms, answer->ttl_ms);
    if (kind == REPLY_FAILED && (reply->too_big != answer->failure.too_big ||
                                 (!reply->too_big && reply->failure != answer->failure.failure)))
        differ("failure %d too big %d, model %d %d", (int)reply->failure, reply->too_big,
               (int)answer->failure.failure, answer->failure.too_big);
    if (kind == REPLY_FAILED && !reply->too_big && reply->load != answer->failure.load)
        differ("failed load %016" PRIx64 ", model %016" PRIx64, reply->load, answer->failure.load);
}

/* ---- trouble around a step ---- */

static void forget_scripts(void)
{
    must("SCRIPT FLUSH");
}

static void fill_memory(void)
{
    must("CONFIG SET maxmemory 1");
    sim.redis.oom = true;
}

static void free_memory(void)
{
    must("CONFIG SET maxmemory 0");
    sim.redis.oom = false;
}

/* A replica of nobody: port 1 never answers, so it keeps what it has. */
static void make_replica(void)
{
    must("REPLICAOF 127.0.0.1 1");
    sim.redis.readonly = true;
}

static void make_master(void)
{
    must("REPLICAOF NO ONE");
    sim.redis.readonly = false;
}

static void lose_replicas(void)
{
    must("CONFIG SET min-replicas-to-write 1");
    sim.redis.readonly = true;
}

static void need_no_replicas(void)
{
    must("CONFIG SET min-replicas-to-write 0");
    sim.redis.readonly = false;
}

static void deny_scripts(void)
{
    must("ACL SETUSER guard -eval -evalsha");
}

static void deny_keys(void)
{
    must("ACL SETUSER guard resetkeys ~other:*");
}

static void deny_channels(void)
{
    must("ACL SETUSER guard resetchannels");
}

static void allow_all(void)
{
    must("ACL SETUSER guard reset on >secret allkeys allchannels +@all");
}

/* Each happens in one step of 1 / one_in. `nothing_runs`: the server refuses the script as a whole. */
static const struct trouble {
    const char *name;
    uint32_t one_in;
    void (*begin)(void), (*end)(void);
    bool nothing_runs, nothing_told;
} troubles[] = {
    {"scripts forgotten", 10, forget_scripts, NULL, false, false},
    {"no memory", 8, fill_memory, free_memory, false, false},
    {"read only", 24, make_replica, make_master, false, false},
    {"no replicas", 48, lose_replicas, need_no_replicas, false, false},
    {"scripts denied", 24, deny_scripts, allow_all, true, true},
    {"keys denied", 24, deny_keys, allow_all, true, true},
    {"channel denied", 16, deny_channels, allow_all, false, true},
};
static uint32_t trouble_count[COUNT(troubles)];

static const struct trouble *choose_trouble(void)
{
    for (size_t i = 0; i < COUNT(troubles); i++)
        if (chance_below(&sim.course.chance, troubles[i].one_in) == 0) {
            trouble_count[i]++;
            return &troubles[i];
        }
    return NULL;
}

/* ---- one script through both ---- */

/* f, r, i of a message; 0: never told. */
static char operation_of(enum core_action_kind kind)
{
    bool stores = kind == CORE_FILL || kind == CORE_TOUCH;
    return stores ? 'f' : kind == CORE_RELEASE ? 'r' : kind == CORE_INVALIDATE ? 'i' : '\0';
}

/* What was seen, so that a test can tell whether it saw everything: codes from -2, turns from -1. */
static uint32_t reply_count[CORE_INVALIDATE + 1][REPLY_UNKNOWN + 1], code_count[CORE_INVALIDATE + 1][6],
    turn_count[3];

static uint32_t untold_count; /* fills and touches that had stored already, and no master to say so */

static bool has_stored(const struct command *command)
{
    const struct run run = {.slot = &sim.redis.slot[command->key]};
    const struct stored_value *value = &run.slot->value;
    bool stores = command->action.kind == CORE_FILL || command->action.kind == CORE_TOUCH;
    return stores && !holds(&run, command) && value->there &&
           memcmp(value->filler, command->token, TOKEN_UUID_BYTES) == 0;
}

static void count(const struct exchange *exchange, const struct trouble *trouble)
{
    const struct core_reply *reply = &exchange->reply;
    enum core_action_kind kind = exchange->command->action.kind;
    reply_count[kind][reply->kind]++;
    if (reply->kind == REPLY_STALE)
        turn_count[(int)reply->refresher + 1]++;
    if (reply->kind == REPLY_CODE && reply->code >= -2 && reply->code <= 3)
        code_count[kind][reply->code + 2]++;
    bool ran = trouble != NULL && !trouble->nothing_runs;
    untold_count += ran && reply->kind == REPLY_REFUSED && has_stored(exchange->command);
}

static void send_and_wait(struct exchange *exchange)
{
    rig.state_count = 0;
    assert_true(protocol_send(&world.protocol, rig.redis, &exchange->command->action, on_replied, exchange));
    rig_wait_until(exchange->answered);
}

static void run_both(struct command *command)
{
    uint64_t began_ms = clock_us() / 1000;
    struct exchange exchange = {.command = command};
    uint32_t told = 0, others = 0;
    align_time();
    const struct trouble *trouble = choose_trouble();
    if (trouble != NULL)
        trouble->begin();
    command->answer = (struct redis_answer){.error = true};
    if (trouble == NULL || !trouble->nothing_runs)
        redis_execute(&sim, command, &command->answer);
    send_and_wait(&exchange);
    if (trouble != NULL && trouble->end != NULL)
        trouble->end();
    compare_reply(&exchange, &command->answer, clock_us() / 1000 - began_ms);
    compare_keys(began_ms);
    bool published = command->answer.published && !command->answer.error;
    read_messages(command, operation_of(command->action.kind), &told, &others);
    if (others != 0 || told != (published && (trouble == NULL || !trouble->nothing_told)))
        differ("%u messages and %u others, model %d", told, others, published);
    count(&exchange, trouble);
    value_unref(&exchange.value);
    snprintf(world.history[world.step % COUNT(world.history)], sizeof world.history[0],
             "%u: action %d k%u token %.8s prev %.8s refused %.8s mode %c, reply %d code %d%s%s", world.step,
             (int)command->action.kind, command->key, command->token, command->prev, command->refused,
             command->action.lookup != 0 ? (char)command->action.lookup : '-', (int)exchange.reply.kind,
             (int)exchange.reply.code, trouble != NULL ? ", " : "", trouble != NULL ? trouble->name : "");
    rig_wait_up();
}

/* ---- steps ---- */

static uint32_t below(uint32_t bound)
{
    return (uint32_t)chance_below(&sim.course.chance, bound);
}

/* An odd multiple of HALF_MS. */
static uint32_t odd_ms(uint32_t most)
{
    return HALF_MS * (2 * below(most) + 1);
}

static struct command command_for(enum core_action_kind kind)
{
    struct command command = {.key = below(2) * below(SIM_KEYS)}; /* some keys are hotter */
    command.action = (struct core_action){.kind = kind, .op = 1};
    command.action.key = (struct core_key){plain_keys[command.key], 2, plain_keys[command.key], 2};
    return command;
}

static const char *any_token(uint32_t key)
{
    return world.tokens[key][below(TOKENS)];
}

/* The lease that stands, if one does, more often than not; or what differs from it in the last byte alone. */
static void choose_token(struct command *command)
{
    const struct stored_lease *lease = &sim.redis.slot[command->key].lease;
    strcpy(command->token, lease->there && below(3) != 0 ? lease->token : any_token(command->key));
    if (below(32) == 0)
        command->token[strlen(command->token) - 1] ^= 1;
    command->action.token = command->token;
}

static void new_token(struct command *command)
{
    uint8_t random[24];
    for (size_t i = 0; i < sizeof random; i++)
        random[i] = (uint8_t)chance_next(&sim.course.chance);
    protocol_token(&world.protocol, random, command->action.lease_ms, world.step, command->token);
    strcpy(world.tokens[command->key][below(TOKENS)], command->token);
}

/* The value or the lease that stands, or another one of this key. */
static void choose_names_seen(struct command *command)
{
    const struct slot *slot = &sim.redis.slot[command->key];
    const char *filler = slot->value.there && below(3) != 0 ? slot->value.filler : any_token(command->key);
    memcpy(command->names_seen, below(3) != 0 ? filler : any_token(command->key), TOKEN_UUID_BYTES);
    memcpy(command->names_seen + TOKEN_UUID_BYTES, below(3) != 0 ? any_token(command->key) : filler,
           TOKEN_UUID_BYTES);
}

static void step_acquire(void)
{
    static const enum core_lookup lookups[] = {LOOKUP_NORMAL,     LOOKUP_NORMAL,         LOOKUP_NO_STALE,
                                               LOOKUP_PEEK,       LOOKUP_EARLY,          LOOKUP_NORMAL,
                                               LOOKUP_REVALIDATE, LOOKUP_REVALIDATE_PEEK};
    static const enum core_wait waits[] = {WAIT_NOT, WAIT_BUSY, WAIT_REFRESH, WAIT_REFRESH};
    struct command command = command_for(CORE_ACQUIRE);
    const struct slot *slot = &sim.redis.slot[command.key];
    command.action.lookup = lookups[below(COUNT(lookups))];
    command.action.waits = waits[below(COUNT(waits))];
    command.action.lease_ms = odd_ms(8);
    if (below(16) == 0) {
        choose_token(&command); /* a command that arrives twice */
        command.action.lease_ms = lease_ms_of(command.token);
    } else {
        new_token(&command);
    }
    if (below(3) == 0)
        strcpy(command.prev, slot->lease.there && below(2) == 0 ? slot->lease.token : any_token(command.key));
    if (below(4) == 0)
        memcpy(command.refused,
               slot->value.there && below(2) == 0 ? slot->value.filler : any_token(command.key),
               TOKEN_UUID_BYTES);
    if (command.action.lookup == LOOKUP_EARLY && below(4) != 0)
        memcpy(command.wanted,
               slot->value.there && below(3) != 0 ? slot->value.filler : any_token(command.key),
               TOKEN_UUID_BYTES);
    if (revalidates(&command) && below(3) != 0)
        choose_names_seen(&command);
    command.action.names_seen = command.names_seen;
    command.action.token = command.token;
    command.action.prev = command.prev;
    command.action.refused = command.refused;
    command.action.wanted = command.wanted;
    run_both(&command);
}

static void step_renew(void)
{
    struct command command = command_for(CORE_RENEW);
    choose_token(&command);
    command.action.lease_ms = lease_ms_of(command.token);
    command.action.asks_wait = below(2) == 0;
    run_both(&command);
}

/* Every other version has meta. */
static struct value *row_of(const struct command *command, uint32_t version)
{
    char body[64];
    int bytes = snprintf(body, sizeof body, "k%u v%u", command->key, version);
    struct value *value = value_from(&(struct value_parts){
        .body = body, .body_bytes = (size_t)bytes, .meta = "status=200", .meta_bytes = version % 2 * 10});
    assert_non_null(value);
    return value;
}

/* As the loader may have said. An absent row has no stale time, and a mark no life of its own. */
static void choose_life(struct command *command)
{
    struct entry_life *life = &command->action.life;
    if (command->action.mark)
        return;
    life->own_fresh = below(3) == 0;
    life->fresh_ms = life->own_fresh ? command->action.fresh_ms + below(1000) : 0;
    life->own_stale = command->action.value != NULL && below(3) == 0;
}

static void step_fill(void)
{
    struct command command = command_for(CORE_FILL);
    struct value *value = NULL;
    choose_token(&command);
    command.action.fresh_ms = odd_ms(3);
    if (below(4) != 0) {
        command.action.value = value = row_of(&command, ++world.version);
        command.action.stale_ms = JUMP_MS * below(10);
    }
    command.action.mark = value == NULL && below(3) == 0;
    command.action.absent = value == NULL && !command.action.mark;
    choose_life(&command);
    run_both(&command);
    value_unref(&value);
}

/* Of the value that stands there, more often than not. */
static void step_touch(void)
{
    struct command command = command_for(CORE_TOUCH);
    const struct stored_value *stored = &sim.redis.slot[command.key].value;
    uint32_t version = stored->there && !stored->absent ? stored->version : ++world.version;
    if (stored->there && (stored->absent || stored->mark || stored->key != command.key))
        return;
    choose_token(&command);
    struct value *value = row_of(&command, version);
    memcpy(command.wanted, stored->there && below(4) != 0 ? stored->filler : any_token(command.key),
           TOKEN_UUID_BYTES);
    command.action.wanted = command.wanted;
    command.action.value = value;
    command.action.fresh_ms = odd_ms(3);
    command.action.stale_ms = JUMP_MS * below(10);
    choose_life(&command);
    run_both(&command);
    value_unref(&value);
}

static void step_release(void)
{
    static const enum guard_failure failures[] = {GUARD_FAILURE_NONE, GUARD_FAILURE_UNAVAILABLE,
                                                  GUARD_FAILURE_TIMEOUT, GUARD_FAILURE_REJECTED,
                                                  GUARD_FAILURE_INTERNAL};
    struct command command = command_for(CORE_RELEASE);
    choose_token(&command);
    command.action.failure = failures[below(COUNT(failures))];
    command.action.too_big = command.action.failure == GUARD_FAILURE_NONE && below(2) == 0;
    if (command.action.failure != GUARD_FAILURE_NONE || command.action.too_big)
        command.action.failure_ms = odd_ms(6);
    if (command.action.failure != GUARD_FAILURE_NONE && below(4) != 0)
        command.action.load = chance_next(&sim.course.chance);
    run_both(&command);
}

/* Nobody waits any more. */
static void step_abandon(void)
{
    struct command command = command_for(CORE_RELEASE);
    choose_token(&command);
    command.action.abandoned_ms = odd_ms(6);
    run_both(&command);
}

/* What is loaded answers, and is not stored. */
static void step_share(void)
{
    struct command command = command_for(CORE_RELEASE);
    struct value *value = below(4) != 0 ? row_of(&command, ++world.version) : NULL;
    choose_token(&command);
    command.action.shares = true;
    command.action.absent = value == NULL;
    command.action.value = value;
    command.action.fresh_ms = odd_ms(3);
    run_both(&command);
    value_unref(&value);
}

static void step_invalidate(void)
{
    struct command command = command_for(CORE_INVALIDATE);
    command.action.expires = below(2) == 0;
    run_both(&command);
}

/* From here on guards neither want anything pushed nor push, or do so again. */
static void step_pushes(void)
{
    sim.params.pushes = below(3) != 0;
    world.protocol.push_bytes = sim.params.pushes ? PUSH_BYTES : 0;
}

static void step_time(void)
{
    sim.course.now_us += (uint64_t)JUMP_MS * 1000 * (1 + below(2));
}

static void step_clock(void)
{
    sim.redis.clock_offset_ms += (int64_t)JUMP_MS * ((int64_t)below(9) - 4);
}

/* An eviction, or a DEL by hand. */
static void step_lose(void)
{
    uint32_t place = below(PLACES);
    struct slot *slot = &sim.redis.slot[place / ROLES];
    must("DEL %s", world.place[place]);
    if (roles[place % ROLES] == KEY_VALUE)
        slot->value.there = false;
    else if (roles[place % ROLES] == KEY_LEASE)
        slot->lease.there = false;
    else if (roles[place % ROLES] == KEY_FAILURE)
        slot->failure.there = false;
    else
        slot->waiting.there = false;
}

/* The last byte of the body, if it has one, becomes another: what a touch cannot heal. */
static void step_damage(void)
{
    uint32_t key = below(SIM_KEYS);
    struct stored_value *value = &sim.redis.slot[key].value;
    align_time();
    if (!value->there)
        return;
    value->damaged = true;
    must("EVAL %s 1 %s", "return redis.call('SETRANGE', KEYS[1], redis.call('STRLEN', KEYS[1]) - 18, '!')",
         world.place[key * ROLES]);
}

/* What stands under one key is put under another. */
static void step_mix_up(void)
{
    uint32_t from = below(SIM_KEYS), to = below(SIM_KEYS);
    align_time();
    if (from == to || !sim.redis.slot[from].value.there)
        return;
    sim.redis.slot[to].value = sim.redis.slot[from].value;
    must("COPY %s %s REPLACE", world.place[from * ROLES], world.place[to * ROLES]);
}

static void step_empty(void)
{
    must("FLUSHALL");
    memset(sim.redis.slot, 0, sizeof sim.redis.slot);
}

static const struct {
    uint32_t weight;
    void (*step)(void);
} steps[] = {
    {30, step_acquire},   {12, step_fill}, {6, step_renew}, {8, step_release}, {16, step_touch},
    {6, step_invalidate}, {12, step_time}, {6, step_clock}, {3, step_lose},    {2, step_damage},
    {2, step_mix_up},     {1, step_empty}, {5, step_share}, {8, step_abandon}, {1, step_pushes},
};

static void one_step(void)
{
    uint32_t sum = 0;
    for (size_t i = 0; i < COUNT(steps); i++)
        sum += steps[i].weight;
    uint32_t at = below(sum);
    for (size_t i = 0; i < COUNT(steps); i++) {
        if (at < steps[i].weight) {
            steps[i].step();
            return;
        }
        at -= steps[i].weight;
    }
}

/* ---- sequences ---- */

static void begin(uint64_t seed, enum mutant mutant)
{
    memset(&sim, 0, sizeof sim);
    sim.course.seed = sim.course.chance.state = seed;
    sim.mutant = mutant;
    sim.course.now_us = 1000000000000;
    sim.params.pushes = true;
    world.protocol.push_bytes = PUSH_BYTES;
    sim.redis.max_lease_ms = MAX_LEASE_MS;
    sim.redis.max_value_ms = MAX_VALUE_MS;
    memset(world.tokens, 0, sizeof world.tokens);
    memset(world.history, 0, sizeof world.history);
    world.difference[0] = '\0';
    world.step = 0;
    must("FLUSHALL");
    for (uint32_t key = 0; key < SIM_KEYS; key++)
        for (uint32_t i = 0; i < TOKENS; i++) {
            struct command command = {.key = key, .action = {.lease_ms = odd_ms(8)}};
            new_token(&command);
            strcpy(world.tokens[key][i], command.token);
        }
}

/* Until the two disagree. */
static bool sequence_agrees(uint64_t seed, enum mutant mutant)
{
    begin(seed, mutant);
    while (world.difference[0] == '\0' && world.step < STEPS) {
        one_step();
        world.step++;
    }
    return world.difference[0] == '\0';
}

static void tell_history(void)
{
    for (size_t i = 0; i < COUNT(world.history); i++)
        fprintf(stderr, "  %s\n", world.history[(world.step + i) % COUNT(world.history)]);
}

static void every_sequence_agrees(uint64_t first, uint64_t last)
{
    for (uint64_t seed = first; seed <= last; seed++)
        if (!sequence_agrees(seed, MUTANT_NONE)) {
            tell_history();
            fail_msg("MODEL_SEED=%" PRIu64 ", step %u: %s", seed, world.step - 1, world.difference);
        }
}

/* ---- tests ---- */

static void assert_everything_was_seen(void)
{
    static const int codes[][2] = {{CORE_RENEW, 0},      {CORE_RENEW, 1},      {CORE_RENEW, RENEWED_AWAITED},
                                   {CORE_FILL, -1},      {CORE_FILL, 0},       {CORE_FILL, 1},
                                   {CORE_FILL, 2},       {CORE_TOUCH, -2},     {CORE_TOUCH, -1},
                                   {CORE_TOUCH, 0},      {CORE_TOUCH, 1},      {CORE_TOUCH, 2},
                                   {CORE_RELEASE, 0},    {CORE_RELEASE, 1},    {CORE_INVALIDATE, 0},
                                   {CORE_INVALIDATE, 1}, {CORE_INVALIDATE, 2}, {CORE_INVALIDATE, 3}};
    for (int kind = REPLY_FRESH; kind <= REPLY_FREE; kind++)
        assert_in_range(reply_count[CORE_ACQUIRE][kind], SEEN, UINT32_MAX);
    for (int kind = CORE_ACQUIRE; kind <= CORE_INVALIDATE; kind++)
        assert_in_range(reply_count[kind][REPLY_REFUSED], SEEN, UINT32_MAX);
    for (size_t i = 0; i < COUNT(codes); i++)
        assert_in_range(code_count[codes[i][0]][codes[i][1] + 2], SEEN, UINT32_MAX);
    for (size_t i = 0; i < COUNT(turn_count); i++)
        assert_in_range(turn_count[i], SEEN, UINT32_MAX);
    assert_in_range(push_count, SEEN, UINT32_MAX);
    assert_in_range(share_count, SEEN, UINT32_MAX);
    assert_in_range(abandoned_count, SEEN, UINT32_MAX);
    assert_in_range(untold_count, SEEN, UINT32_MAX);
    for (size_t i = 0; i < COUNT(troubles); i++)
        assert_in_range(trouble_count[i], SEEN, UINT32_MAX);
}

TEST(the_model_answers_and_stores_what_redis_does, P1, P2, P4, P6, P31, P37, P43, P84)
{
    const char *seed = getenv("MODEL_SEED");
    if (seed != NULL) {
        every_sequence_agrees(strtoull(seed, NULL, 10), strtoull(seed, NULL, 10));
        return;
    }
    every_sequence_agrees(1, SEEDS);
    assert_everything_was_seen();
}

/* A comparison that finds nothing proves nothing. */
TEST(a_model_with_a_bug_is_told_apart_from_redis)
{
    static const enum mutant mutants[] = {
        MUTANT_FILL_UNFENCED,     MUTANT_RELEASE_ANY,     MUTANT_INVALIDATE_KEEPS, MUTANT_RENEW_CREATES,
        MUTANT_LOOKUP_NOT_ATOMIC, MUTANT_BUSY_IGNORED,    MUTANT_NO_CLAMP,         MUTANT_NO_FAILURE_LEASE,
        MUTANT_TOUCH_UNFENCED,    MUTANT_EARLY_ANY,       MUTANT_EARLY_BUSY,       MUTANT_STALE_STAYS,
        MUTANT_STALE_FOR_EVER,    MUTANT_ABANDONED_UNSAID};
    for (size_t i = 0; i < COUNT(mutants); i++) {
        uint64_t seed = 1;
        while (seed <= MUTANT_SEEDS && sequence_agrees(seed, mutants[i]))
            seed++;
        if (seed > MUTANT_SEEDS)
            fail_msg("mutant %d survived %d seeds", (int)mutants[i], (int)MUTANT_SEEDS);
    }
}

/* ---- set-up ---- */

static bool servers_up(void)
{
    char url[96];
    uv_loop_t loop;
    /* The first loop of a process opens descriptors for good. */
    if (uv_loop_init(&loop) != 0 || uv_loop_close(&loop) != 0)
        return false;
    protocol_init(&world.protocol, "model", 0, MAX_LEASE_MS, MAX_VALUE_MS);
    world.protocol.push_bytes = PUSH_BYTES;
    for (uint32_t i = 0; i < PLACES; i++)
        key_name("model", plain_keys[i / ROLES], (enum key_role)roles[i % ROLES], world.place[i]);
    channel = world.protocol.channel;
    if (!server_up())
        return false;
    allow_all();
    snprintf(url, sizeof url, "redis://guard:secret@127.0.0.1:%u/0", (unsigned)server.port);
    rig_start(url);
    rig_wait_up();
    return true;
}

static bool servers_down(void)
{
    rig_finish();
    return server_down();
}

TEST_GROUP(.up = servers_up, .down = servers_down);
