/* SPDX-License-Identifier: MIT */
/*
 * script_test.c - the Lua scripts against a real redis-server: one test per property, then a long random
 * sequence against a model.
 *
 * Time      Nothing sleeps. TTLs are long and changed by hand (PEXPIRE, PERSIST, DEL) where a test needs a
 *           key to age; only the_lease_of_a_dead_process_expires lets Redis's clock do it.
 * Messages  One subscriber sees everything; told() compares all of it with what should have been published.
 */
#include "guard/base/key.h"
#include "guard/wire/envelope.h"
#include "guard/wire/scripts.h"
#include "load/stack/stack.h"
#include "tests/support/test.h"

#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum {
    SERVER_LIMIT_MS = 10000,
    LEASE_MS = 30000,
    MAX_LEASE_MS = 120000,
    PX_MS = 600000,
    STALE_MS = 100000,
    MAX_VALUE_MS = 3600000,
    FAILURE_MS = 20000,
    SLACK_MS = 15000, /* a test may be that slow without a TTL being taken for a wrong one */
    TEXT_SIZE = 512,
    TOKEN_SIZE = 96,
};

static const char channel[] = "csg1:wake:test:0";

/* ---- the server ---- */

static struct {
    struct stack_redis redis;
    redisContext *commands, *subscriber;
} server;

static redisContext *connected(void)
{
    const struct timeval limit = {.tv_sec = SERVER_LIMIT_MS / 1000};
    redisContext *context = redisConnectUnixWithTimeout(server.redis.socket_path, limit);
    assert_non_null(context);
    assert_int_equal(context->err, 0);
    assert_int_equal(redisSetTimeout(context, limit), REDIS_OK);
    return context;
}

static int start_server(void **state)
{
    (void)state;
    if (!stack_redis_start(&server.redis, NULL))
        return -1;
    server.commands = connected();
    server.subscriber = connected();
    redisReply *confirmed = redisCommand(server.subscriber, "SUBSCRIBE %s", channel);
    assert_non_null(confirmed);
    freeReplyObject(confirmed);
    return 0;
}

static int stop_server(void **state)
{
    (void)state;
    if (server.commands != NULL)
        redisFree(server.commands);
    if (server.subscriber != NULL)
        redisFree(server.subscriber);
    stack_redis_stop(&server.redis);
    return 0;
}

/* ---- commands ---- */

/* Never NULL; the caller's. */
static redisReply *command(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    redisReply *reply = redisvCommand(server.commands, format, arguments);
    va_end(arguments);
    if (reply == NULL)
        fail_msg("redis-server is gone: %s", server.commands->errstr);
    return reply;
}

static void discard(redisReply *reply)
{
    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s", reply->str);
    freeReplyObject(reply);
}

static long long number(redisReply *reply)
{
    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s", reply->str);
    assert_int_equal(reply->type, REDIS_REPLY_INTEGER);
    const long long value = reply->integer;
    freeReplyObject(reply);
    return value;
}

static long long pttl(const char *name)
{
    return number(command("PTTL %s", name));
}

static bool exists(const char *name)
{
    return number(command("EXISTS %s", name)) == 1;
}

static void assert_ttl(long long ttl_ms, long long expected_ms)
{
    assert_in_range(ttl_ms, expected_ms > SLACK_MS ? expected_ms - SLACK_MS : 1, expected_ms);
}

/* Everything published since the last call, in order, joined by spaces. */
static void listen_to_channel(char heard[TEXT_SIZE])
{
    heard[0] = '\0';
    discard(command("PUBLISH %s end", channel));
    for (bool is_end = false; !is_end;) {
        redisReply *reply = NULL;
        assert_int_equal(redisGetReply(server.subscriber, (void **)&reply), REDIS_OK);
        assert_int_equal(reply->elements, 3);
        assert_string_equal(reply->element[0]->str, "message");
        assert_string_equal(reply->element[1]->str, channel);
        const char *const text = reply->element[2]->str;
        const size_t used = strlen(heard);
        is_end = strcmp(text, "end") == 0;
        if (!is_end)
            snprintf(heard + used, TEXT_SIZE - used, "%s%s", used > 0 ? " " : "", text);
        freeReplyObject(reply);
    }
}

static void told(const char *expected)
{
    char heard[TEXT_SIZE];
    listen_to_channel(heard);
    assert_string_equal(heard, expected);
}

static int empty_server(void **state)
{
    (void)state;
    discard(command("CONFIG SET maxmemory 0 min-replicas-to-write 0"));
    discard(command("REPLICAOF NO ONE"));
    discard(command("FLUSHALL"));
    char left_over[TEXT_SIZE];
    listen_to_channel(left_over);
    return 0;
}

/* ---- names, tokens, envelopes ---- */

struct names {
    char value[KEY_NAME_SIZE], lease[KEY_NAME_SIZE], failure[KEY_NAME_SIZE], waiting[KEY_NAME_SIZE];
};

static struct names names_of(const char *key)
{
    struct names names;
    char encoded[KEY_ENCODED_MAX + 1];
    key_encode(key, strlen(key), encoded);
    key_name("test", encoded, KEY_VALUE, names.value);
    key_name("test", encoded, KEY_LEASE, names.lease);
    key_name("test", encoded, KEY_FAILURE, names.failure);
    key_name("test", encoded, KEY_WAITING, names.waiting);
    return names;
}

struct token {
    char text[TOKEN_SIZE];
};

static struct token token_with(uint64_t serial, unsigned lease_ms)
{
    struct token token;
    snprintf(token.text, sizeof(token.text),
             "%08" PRIx64 "-0000-4000-8000-000000000000 %016" PRIx64 " %07u host:1", serial,
             serial * 0x9e3779b97f4a7c15, lease_ms);
    return token;
}

static struct token token_of(uint64_t serial)
{
    return token_with(serial, LEASE_MS);
}

struct text {
    char bytes[TEXT_SIZE];
    size_t size;
};

static struct text envelope_with(const struct token *token, uint64_t px_ms, uint64_t stale_ms,
                                 const char *body)
{
    struct envelope envelope = {.px_ms = px_ms,
                                .stale_ms = stale_ms,
                                .key = "k",
                                .key_bytes = 1,
                                .validator = "",
                                .body = body,
                                .body_bytes = strlen(body)};
    memcpy(envelope.filler, token->text, ENVELOPE_UUID_BYTES);
    struct text text = {.size = envelope_size(&envelope)};
    assert_in_range(text.size, 1, sizeof(text.bytes));
    envelope_write(&envelope, text.bytes);
    return text;
}

static struct text envelope_of(const struct token *token)
{
    return envelope_with(token, PX_MS, STALE_MS, "body");
}

static struct text text_of(const char *bytes, size_t size)
{
    struct text text = {.size = size};
    memcpy(text.bytes, bytes, size);
    return text;
}

static void put(const char *name, const struct text *text, long long px_ms)
{
    discard(command("SET %s %b PX %lld", name, text->bytes, text->size, px_ms));
}

/* ---- the scripts ---- */

enum { ARGUMENTS_MAX = 10 };

struct arguments {
    const char *text[ARGUMENTS_MAX];
    size_t bytes[ARGUMENTS_MAX];
    size_t count;
};

static void push(struct arguments *arguments, const char *text, size_t bytes)
{
    assert_in_range(arguments->count, 0, ARGUMENTS_MAX - 1);
    arguments->text[arguments->count] = text;
    arguments->bytes[arguments->count++] = bytes;
}

static redisReply *run(enum script script, const char *const *keys, int key_count,
                       const struct arguments *arguments)
{
    const char *argv[3 + 4 + ARGUMENTS_MAX];
    size_t argv_bytes[COUNT(argv)];
    char count_text[4];
    int argc = 0;
    snprintf(count_text, sizeof(count_text), "%d", key_count);
    argv[argc++] = "EVAL";
    argv[argc++] = protocol_scripts[script].source;
    argv[argc++] = count_text;
    for (int i = 0; i < key_count; i++)
        argv[argc++] = keys[i];
    for (int i = 0; i < argc; i++)
        argv_bytes[i] = strlen(argv[i]);
    for (size_t i = 0; i < arguments->count; i++, argc++) {
        argv[argc] = arguments->text[i];
        argv_bytes[argc] = arguments->bytes[i];
    }
    redisReply *reply = redisCommandArgv(server.commands, argc, argv, argv_bytes);
    if (reply == NULL)
        fail_msg("redis-server is gone: %s", server.commands->errstr);
    return reply;
}

static redisReply *run_all_keys(enum script script, const struct names *names,
                                const struct arguments *arguments)
{
    const char *const keys[] = {names->value, names->lease, names->failure, names->waiting};
    return run(script, keys, 4, arguments);
}

static void push_text(struct arguments *arguments, const char *text)
{
    push(arguments, text, strlen(text));
}

/* What one acquire asks; 0 and NULL mean the usual. */
struct ask {
    const struct token *token, *prev;
    char mode;
    long long max_lease_ms, max_value_ms;
    const char *refused;
    const char *waits;
};

static redisReply *acquire_raw(const struct names *names, struct ask ask)
{
    char mode[2] = {ask.mode != 0 ? ask.mode : 'n'};
    char lease[24], max_lease[24], max_value[24];
    struct arguments arguments = {.count = 0};
    snprintf(lease, sizeof(lease), "%d", (int)strtol(ask.token->text + 54, NULL, 10));
    snprintf(max_lease, sizeof(max_lease), "%lld", ask.max_lease_ms != 0 ? ask.max_lease_ms : MAX_LEASE_MS);
    snprintf(max_value, sizeof(max_value), "%lld", ask.max_value_ms != 0 ? ask.max_value_ms : MAX_VALUE_MS);
    push_text(&arguments, ask.token->text);
    push_text(&arguments, ask.prev != NULL ? ask.prev->text : "");
    push_text(&arguments, lease);
    push_text(&arguments, max_lease);
    push_text(&arguments, max_value);
    push_text(&arguments, mode);
    if (ask.refused != NULL || ask.waits != NULL)
        push_text(&arguments, ask.refused != NULL ? ask.refused : "");
    if (ask.waits != NULL)
        push_text(&arguments, ask.waits);
    return run_all_keys(SCRIPT_ACQUIRE, names, &arguments);
}

/* An acquire's reply. `kind` is the letter and, for S, what follows it: "S1", "S0", "S-1". */
struct acquired {
    char kind[4];
    struct text value;  /* H, S */
    long long ttl_ms;   /* of the value, the lease or the failure the reply is about; of L the lease_ms */
    long long extra_ms; /* S-1: of the failure */
    char word[64];      /* B, S0: tag; E: code */
};

/* The shape of each reply: s status letter, b bulk string, i integer. */
static const struct {
    char letter;
    const char *shape;
} reply_shapes[] = {{'H', "sbi"}, {'S', "sbii"}, {'S', "sbiii"}, {'S', "sbiib"},
                    {'L', "si"},  {'B', "sib"},  {'E', "sbi"},   {'M', "s"}};

static void assert_shape(const redisReply *reply)
{
    char shape[8] = "";
    assert_int_equal(reply->type, REDIS_REPLY_ARRAY);
    assert_in_range(reply->elements, 1, 5);
    assert_int_equal(reply->element[0]->type, REDIS_REPLY_STRING);
    assert_int_equal(reply->element[0]->len, 1);
    shape[0] = 's';
    for (size_t i = 1; i < reply->elements; i++)
        shape[i] = reply->element[i]->type == REDIS_REPLY_STRING    ? 'b'
                   : reply->element[i]->type == REDIS_REPLY_INTEGER ? 'i'
                                                                    : '?';
    for (size_t i = 0; i < COUNT(reply_shapes); i++)
        if (reply_shapes[i].letter == reply->element[0]->str[0] && strcmp(reply_shapes[i].shape, shape) == 0)
            return;
    fail_msg("no such reply: %s of shape %s", reply->element[0]->str, shape);
}

static struct acquired acquired_from(const redisReply *reply)
{
    struct acquired acquired = {.kind = {reply->element[0]->str[0]}};
    for (size_t i = 1; i < reply->elements; i++) {
        const redisReply *element = reply->element[i];
        if (i == 3 && acquired.kind[0] == 'S') {
            snprintf(acquired.kind + 1, 3, "%lld", element->integer);
        } else if (element->type == REDIS_REPLY_INTEGER) {
            *(i == 4 ? &acquired.extra_ms : &acquired.ttl_ms) = element->integer;
        } else if (i == 1 && (acquired.kind[0] == 'H' || acquired.kind[0] == 'S')) {
            acquired.value = text_of(element->str, (size_t)element->len);
        } else {
            snprintf(acquired.word, sizeof(acquired.word), "%s", element->str);
        }
    }
    return acquired;
}

static struct acquired acquire(const struct names *names, struct ask ask)
{
    redisReply *reply = acquire_raw(names, ask);
    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s", reply->str);
    assert_shape(reply);
    const struct acquired acquired = acquired_from(reply);
    if (strcmp(acquired.kind, "S1") == 0)
        assert_int_equal(reply->elements, 4);
    else if (acquired.kind[0] == 'S')
        assert_int_equal(reply->elements, 5);
    freeReplyObject(reply);
    return acquired;
}

static void assert_acquire(const struct names *names, struct ask ask, const char *kind)
{
    assert_string_equal(acquire(names, ask).kind, kind);
}

static redisReply *renew_raw(const struct names *names, const char *token)
{
    char lease[24];
    const char *const keys[] = {names->lease};
    struct arguments arguments = {.count = 0};
    snprintf(lease, sizeof(lease), "%d", LEASE_MS);
    push_text(&arguments, token);
    push_text(&arguments, lease);
    return run(SCRIPT_RENEW, keys, 1, &arguments);
}

static redisReply *fill_with(const struct names *names, const char *token, const struct text *value,
                             const char *px_ms, const char *message, const char *push_bytes)
{
    struct arguments arguments = {.count = 0};
    push_text(&arguments, token);
    push(&arguments, value->bytes, value->size);
    push_text(&arguments, px_ms);
    push_text(&arguments, channel);
    push_text(&arguments, message);
    push_text(&arguments, push_bytes);
    return run_all_keys(SCRIPT_FILL, names, &arguments);
}

static redisReply *fill_raw(const struct names *names, const char *token, const struct text *value,
                            const char *px_ms, const char *message)
{
    return fill_with(names, token, value, px_ms, message, "0");
}

static redisReply *release_raw(const struct names *names, const char *token, const char *message,
                               const char *code, const char *failure_ms)
{
    const char *const keys[] = {names->lease, names->failure, names->waiting};
    struct arguments arguments = {.count = 0};
    push_text(&arguments, token);
    push_text(&arguments, channel);
    push_text(&arguments, message);
    push_text(&arguments, code);
    push_text(&arguments, failure_ms);
    return run(SCRIPT_RELEASE, keys, 3, &arguments);
}

static redisReply *invalidate_raw(const struct names *names, const char *message, char mode,
                                  const char *stale_ms)
{
    const char mode_text[2] = {mode};
    struct arguments arguments = {.count = 0};
    push_text(&arguments, channel);
    push_text(&arguments, message);
    push_text(&arguments, mode_text);
    push_text(&arguments, stale_ms);
    return run_all_keys(SCRIPT_INVALIDATE, names, &arguments);
}

static long long renew(const struct names *names, const struct token *token)
{
    return number(renew_raw(names, token->text));
}

static long long fill(const struct names *names, const struct token *token, const char *message)
{
    char px[24];
    const struct text value = envelope_of(token);
    snprintf(px, sizeof(px), "%d", PX_MS);
    return number(fill_raw(names, token->text, &value, px, message));
}

/* The value of `old` gets a new life under `token`, as protocol.c asks for it. */
static redisReply *touch_with(const struct names *names, const struct token *token, const struct token *old,
                              const char *message, const char *push_bytes)
{
    char px[24], bytes[24];
    const struct text value = envelope_of(token);
    struct arguments arguments = {.count = 0};
    snprintf(px, sizeof(px), "%d", PX_MS);
    snprintf(bytes, sizeof(bytes), "%zu", value.size);
    push_text(&arguments, token->text);
    push(&arguments, old->text, ENVELOPE_UUID_BYTES);
    push(&arguments, value.bytes, ENVELOPE_HEAD_BYTES);
    push(&arguments, value.bytes + value.size - ENVELOPE_CHECKSUM_BYTES, ENVELOPE_CHECKSUM_BYTES);
    push_text(&arguments, bytes);
    push_text(&arguments, px);
    push_text(&arguments, channel);
    push_text(&arguments, message);
    push_text(&arguments, push_bytes);
    return run_all_keys(SCRIPT_TOUCH, names, &arguments);
}

static redisReply *touch_raw(const struct names *names, const struct token *token, const struct token *old,
                             const char *message)
{
    return touch_with(names, token, old, message, "0");
}

static long long touch(const struct names *names, const struct token *token, const struct token *old,
                       const char *message)
{
    return number(touch_raw(names, token, old, message));
}

static long long release(const struct names *names, const struct token *token, const char *message,
                         const char *code)
{
    char failure[24];
    snprintf(failure, sizeof(failure), "%d", FAILURE_MS);
    return number(release_raw(names, token->text, message, code, failure));
}

static long long invalidate(const struct names *names, const char *message)
{
    return number(invalidate_raw(names, message, 'h', "0"));
}

/* A value of `token` that has `ttl_ms` left. */
static void put_value(const struct names *names, const struct token *token, long long ttl_ms)
{
    const struct text value = envelope_of(token);
    put(names->value, &value, ttl_ms);
}

static void put_failure(const struct names *names)
{
    const struct token token = token_of(0xfa11);
    discard(command("SET %s %s PX %d", names->lease, token.text, LEASE_MS));
    assert_int_equal(release(names, &token, "failed", "unavailable"), 1);
}

/* Contents and expiry instants of all four keys, for comparing. */
struct snapshot {
    char text[4 * TEXT_SIZE];
};

static void add_to_snapshot(struct snapshot *snapshot, const char *name)
{
    redisReply *dump = command("DUMP %s", name);
    size_t used = strlen(snapshot->text);
    for (size_t i = 0; i < (size_t)dump->len && used + 3 < sizeof(snapshot->text); i++, used += 2)
        snprintf(snapshot->text + used, 3, "%02x", (unsigned)(uint8_t)dump->str[i]);
    freeReplyObject(dump);
    snprintf(snapshot->text + used, sizeof(snapshot->text) - used, " %lld;",
             number(command("PEXPIRETIME %s", name)));
}

static struct snapshot snapshot_of(const struct names *names)
{
    struct snapshot snapshot = {.text = ""};
    add_to_snapshot(&snapshot, names->value);
    add_to_snapshot(&snapshot, names->lease);
    add_to_snapshot(&snapshot, names->failure);
    add_to_snapshot(&snapshot, names->waiting);
    return snapshot;
}

static void assert_unchanged(const struct names *names, const struct snapshot *before)
{
    const struct snapshot now = snapshot_of(names);
    assert_string_equal(now.text, before->text);
}

/* ---- the lease ---- */

TEST(every_script_loads)
{
    for (unsigned script = 0; script < SCRIPT_COUNT; script++) {
        assert_int_equal(protocol_scripts[script].source_bytes, strlen(protocol_scripts[script].source));
        assert_null(strstr(protocol_scripts[script].source, "--"));
        redisReply *digest = command("SCRIPT LOAD %s", protocol_scripts[script].source);
        assert_int_equal(digest->type, REDIS_REPLY_STRING);
        assert_int_equal(digest->len, 40);
        freeReplyObject(digest);
    }
}

TEST(a_missing_key_grants_the_lease_with_its_ttl)
{
    const struct names k = names_of("k");
    const struct token a = token_of(1);
    const struct acquired granted = acquire(&k, (struct ask){.token = &a});
    assert_string_equal(granted.kind, "L");
    assert_int_equal(granted.ttl_ms, LEASE_MS);
    assert_ttl(pttl(k.lease), LEASE_MS);
    redisReply *lease = command("GET %s", k.lease);
    assert_string_equal(lease->str, a.text);
    freeReplyObject(lease);
    told("");
}

TEST(the_second_asker_learns_who_is_busy_and_for_how_long)
{
    const struct names k = names_of("k");
    const struct token a = token_of(1), b = token_of(2);
    assert_acquire(&k, (struct ask){.token = &a}, "L");
    const struct acquired busy = acquire(&k, (struct ask){.token = &b});
    assert_string_equal(busy.kind, "B");
    assert_ttl(busy.ttl_ms, LEASE_MS);
    assert_int_equal(strlen(busy.word), 16);
    assert_memory_equal(busy.word, a.text + 37, 16);
}

TEST(a_repeated_token_is_not_granted_twice)
{
    const struct names k = names_of("k");
    const struct token a = token_of(1);
    assert_acquire(&k, (struct ask){.token = &a}, "L");
    assert_acquire(&k, (struct ask){.token = &a}, "B");
}

TEST(a_lost_grant_costs_one_retry_and_no_waiting)
{
    const struct names k = names_of("k");
    const struct token a = token_of(1), b = token_of(2);
    assert_acquire(&k, (struct ask){.token = &a}, "L");
    assert_acquire(&k, (struct ask){.token = &b, .prev = &a}, "L");
    assert_int_equal(fill(&k, &a, "late"), 0);
    assert_int_equal(fill(&k, &b, "filled"), 1);
    told("filled");
}

TEST(an_earlier_attempt_is_superseded_in_every_mode_and_state)
{
    const struct names k = names_of("k");
    const struct token a = token_of(1), b = token_of(2), filler = token_of(3);
    const long long value_ttls[] = {0, PX_MS, STALE_MS};
    for (const char *mode = "nxrp"; *mode != '\0'; mode++) {
        for (size_t i = 0; i < 2 * COUNT(value_ttls); i++) {
            discard(command("FLUSHALL"));
            if (i % 2 == 1)
                put_failure(&k);
            if (value_ttls[i / 2] > 0)
                put_value(&k, &filler, value_ttls[i / 2]);
            discard(command("SET %s %s PX %d", k.lease, a.text, LEASE_MS));
            acquire(&k, (struct ask){.token = &b, .prev = &a, .mode = *mode});
            assert_int_equal(renew(&k, &a), 0);
        }
    }
}

TEST(an_earlier_attempt_that_is_not_the_lease_removes_nothing)
{
    const struct names k = names_of("k");
    const struct token a = token_of(1), b = token_of(2), other = token_of(3);
    assert_acquire(&k, (struct ask){.token = &other}, "L");
    assert_acquire(&k, (struct ask){.token = &b, .prev = &a}, "B");
    assert_int_equal(renew(&k, &other), 1);
    discard(command("SET %s %s PX 1000", k.lease, "")); /* no prev is not a prev that is "" */
    assert_acquire(&k, (struct ask){.token = &b}, "B");
}

TEST(a_foreign_token_changes_nothing_and_tells_nobody)
{
    const struct names k = names_of("k");
    const struct token a = token_of(1), foreign = token_of(2), filler = token_of(3);
    const struct text value = envelope_of(&foreign);
    struct token longer = a, shorter = a;
    strcat(longer.text, " ");
    shorter.text[strlen(shorter.text) - 1] = '\0';
    char uuid[37] = "";
    memcpy(uuid, a.text, 36);
    const char *const wrong[] = {foreign.text, longer.text, shorter.text, uuid, ""};
    enum { EMPTY, FREE, HELD, SITUATIONS };
    for (int situation = EMPTY; situation < SITUATIONS; situation++) {
        if (situation != EMPTY) {
            put_failure(&k);
            put_value(&k, &filler, PX_MS);
            told("failed");
        }
        if (situation == HELD)
            discard(command("SET %s %s PX %d", k.lease, a.text, LEASE_MS));
        const struct snapshot before = snapshot_of(&k);
        for (size_t i = 0; i < COUNT(wrong); i++) {
            assert_int_equal(number(renew_raw(&k, wrong[i])), 0);
            assert_int_equal(number(fill_raw(&k, wrong[i], &value, "1000", "no")), 0);
            assert_int_equal(number(release_raw(&k, wrong[i], "no", "", "0")), 0);
            assert_int_equal(number(release_raw(&k, wrong[i], "no", "unavailable", "1000")), 0);
            assert_unchanged(&k, &before);
        }
        told("");
    }
}

TEST(a_renewal_lengthens_the_lease_and_never_creates_one)
{
    const struct names k = names_of("k");
    const struct token a = token_of(1);
    assert_acquire(&k, (struct ask){.token = &a}, "L");
    discard(command("PEXPIRE %s 5000", k.lease));
    assert_int_equal(renew(&k, &a), 1);
    assert_ttl(pttl(k.lease), LEASE_MS);
    assert_true(pttl(k.lease) > 5000);
    discard(command("DEL %s", k.lease));
    assert_int_equal(renew(&k, &a), 0);
    assert_false(exists(k.lease));
}

TEST(a_late_release_does_not_free_the_lease_of_the_next)
{
    const struct names k = names_of("k");
    const struct token a = token_of(1), b = token_of(2);
    assert_acquire(&k, (struct ask){.token = &a}, "L");
    discard(command("DEL %s", k.lease)); /* a was paused and its lease ran out */
    assert_acquire(&k, (struct ask){.token = &b}, "L");
    assert_int_equal(release(&k, &a, "late", ""), 0);
    assert_int_equal(fill(&k, &a, "late"), 0);
    assert_int_equal(renew(&k, &b), 1);
    assert_int_equal(release(&k, &b, "released", ""), 1);
    assert_int_equal(release(&k, &b, "again", ""), 0);
    told("released");
}

TEST(a_grant_executed_after_all_was_over_can_store_nothing)
{
    const struct names k = names_of("k");
    const struct token late = token_of(1), b = token_of(2), c = token_of(3);
    /* The reply to `late` never came; its command is still on its way. The next attempt loads and fills. */
    assert_acquire(&k, (struct ask){.token = &b, .prev = &late}, "L");
    assert_int_equal(fill(&k, &b, "filled"), 1);
    assert_int_equal(invalidate(&k, "gone"), 1);
    assert_acquire(&k, (struct ask){.token = &late}, "L"); /* now it arrives */
    assert_ttl(pttl(k.lease), LEASE_MS);
    assert_int_equal(fill(&k, &b, "stale"), 0);
    assert_false(exists(k.value));
    assert_acquire(&k, (struct ask){.token = &c}, "B");
    discard(command("DEL %s", k.lease)); /* the orphan runs out */
    assert_acquire(&k, (struct ask){.token = &c}, "L");
    told("filled gone");
}

TEST(the_lease_of_a_dead_process_expires)
{
    const struct names k = names_of("k");
    const struct token dead = token_with(1, 50), b = token_of(2);
    assert_acquire(&k, (struct ask){.token = &dead}, "L");
    struct acquired next;
    do {
        next = acquire(&k, (struct ask){.token = &b});
        if (next.kind[0] == 'B')
            assert_in_range(next.ttl_ms, 0, 50);
    } while (next.kind[0] == 'B');
    assert_string_equal(next.kind, "L");
    assert_int_equal(fill(&k, &dead, "late"), 0);
}

TEST(two_keys_never_share_a_lease)
{
    char long_a[301] = "", long_b[301] = "";
    memset(long_a, 'k', 300);
    memset(long_b, 'k', 300);
    long_b[299] = 'K';
    const char *const keys[] = {"a",  "b", "a b",  "a%20b", "a:v", "a}",
                                "{a", "A", long_a, long_b,  "a:l", "test:a"};
    for (size_t i = 0; i < COUNT(keys); i++) {
        const struct names k = names_of(keys[i]);
        const struct token token = token_of(i);
        assert_acquire(&k, (struct ask){.token = &token}, "L");
    }
    assert_int_equal(number(command("DBSIZE")), COUNT(keys));
}

/* ---- lookups ---- */

TEST(the_mode_decides_what_state_gives)
{
    static const char *const modes = "nxrp";
    static const struct {
        long long value_ttl_ms; /* 0: none */
        bool held, failed;
        const char *expected[4]; /* by mode */
    } rows[] = {
        {0, false, false, {"L", "L", "L", "M"}},
        {0, true, false, {"B", "B", "B", "B"}},
        {0, true, true, {"B", "B", "B", "B"}},
        {0, false, true, {"E", "E", "E", "E"}},
        {PX_MS, false, false, {"H", "H", "S1", "H"}},
        {PX_MS, true, false, {"H", "H", "H", "H"}},
        {PX_MS, true, true, {"H", "H", "H", "H"}},
        {PX_MS, false, true, {"H", "H", "H", "H"}},
        {STALE_MS, false, false, {"S1", "L", "S1", "S0"}},
        {STALE_MS, true, false, {"S0", "B", "S0", "S0"}},
        {STALE_MS, true, true, {"S0", "B", "S0", "S0"}},
        {STALE_MS, false, true, {"S-1", "E", "S-1", "S-1"}},
    };
    const struct names k = names_of("k");
    const struct token asker = token_of(1), holder = token_of(2), filler = token_of(3);
    const struct text value = envelope_of(&filler);
    for (size_t i = 0; i < COUNT(rows); i++) {
        for (size_t mode = 0; mode < 4; mode++) {
            discard(command("FLUSHALL"));
            if (rows[i].failed)
                put_failure(&k);
            if (rows[i].held)
                discard(command("SET %s %s PX %d", k.lease, holder.text, LEASE_MS));
            if (rows[i].value_ttl_ms > 0)
                put_value(&k, &filler, rows[i].value_ttl_ms);
            const struct acquired got = acquire(&k, (struct ask){.token = &asker, .mode = modes[mode]});
            assert_string_equal(got.kind, rows[i].expected[mode]);
            const bool mine = strcmp(got.kind, "L") == 0 || strcmp(got.kind, "S1") == 0;
            assert_int_equal(renew(&k, &asker), mine);
            assert_int_equal(renew(&k, &holder), rows[i].held);
            if (got.kind[0] == 'H' || got.kind[0] == 'S') {
                assert_int_equal(got.value.size, value.size);
                assert_memory_equal(got.value.bytes, value.bytes, value.size);
                assert_ttl(got.ttl_ms, rows[i].value_ttl_ms);
            }
            if (strcmp(got.kind, "S-1") == 0)
                assert_ttl(got.extra_ms, FAILURE_MS);
        }
    }
}

TEST(a_value_is_stale_from_stale_ms_downwards)
{
    const struct names k = names_of("k");
    const struct token a = token_of(1), filler = token_of(2);
    put_value(&k, &filler, STALE_MS + SLACK_MS);
    assert_acquire(&k, (struct ask){.token = &a, .mode = 'p'}, "H");
    put_value(&k, &filler, STALE_MS);
    assert_acquire(&k, (struct ask){.token = &a, .mode = 'p'}, "S0");
    /* An entry without stale time is fresh to its end. */
    const struct text value = envelope_with(&filler, PX_MS, 0, "");
    put(k.value, &value, SLACK_MS);
    assert_acquire(&k, (struct ask){.token = &a, .mode = 'p'}, "H");
}

TEST(a_reader_that_missed_gets_what_was_filled_meanwhile)
{
    const struct names k = names_of("k");
    const struct token leader = token_of(1), reader = token_of(2);
    const struct text value = envelope_of(&leader);
    assert_false(exists(k.value)); /* the reader's own lookup */
    assert_acquire(&k, (struct ask){.token = &leader}, "L");
    assert_int_equal(fill(&k, &leader, "filled"), 1);
    const struct acquired got = acquire(&k, (struct ask){.token = &reader});
    assert_string_equal(got.kind, "H");
    assert_int_equal(got.value.size, value.size);
    assert_memory_equal(got.value.bytes, value.bytes, value.size);
    assert_false(exists(k.lease));
    told("filled");
}

TEST(a_refused_value_counts_as_missing_until_it_is_replaced)
{
    const struct names k = names_of("k");
    const struct token a = token_of(1), b = token_of(2), c = token_of(3), filler = token_of(4);
    char refused[37] = "";
    memcpy(refused, filler.text, 36);
    put_value(&k, &filler, PX_MS);
    assert_acquire(&k, (struct ask){.token = &a, .refused = ""}, "H");
    assert_acquire(&k, (struct ask){.token = &a, .refused = refused, .mode = 'p'}, "M");
    assert_acquire(&k, (struct ask){.token = &a, .refused = refused}, "L");
    assert_acquire(&k, (struct ask){.token = &b, .refused = refused}, "B");
    assert_int_equal(fill(&k, &a, "filled"), 1);
    /* Who refused the same value a little later does not load it again. */
    assert_acquire(&k, (struct ask){.token = &c, .refused = refused}, "H");
}

/* ---- clamps ---- */

TEST(a_lease_that_lasts_too_long_is_cut_to_its_own_length)
{
    const struct names k = names_of("k");
    const struct token asker = token_of(1), filler = token_of(2);
    const struct {
        struct token lease;
        long long expected_ms;
    } rows[] = {
        {token_with(3, LEASE_MS), LEASE_MS},
        {token_with(4, 2 * LEASE_MS), 2 * LEASE_MS},
        {token_with(5, 0), MAX_LEASE_MS},
        {{"somebody else's"}, MAX_LEASE_MS},
        {{""}, MAX_LEASE_MS},
        {{"00000000-0000-4000-8000-000000000000 0123456789abcdef -030000"}, MAX_LEASE_MS},
        {{"00000000-0000-4000-8000-000000000000 0123456789abcdef 003000"}, MAX_LEASE_MS},
    };
    for (size_t i = 0; i < 2 * COUNT(rows); i++) {
        for (const char *mode = "nxrp"; *mode != '\0'; mode++) {
            discard(command("SET %s %s", k.lease, rows[i / 2].lease.text));
            if (i % 2 == 1)
                discard(command("PEXPIRE %s 3600000", k.lease)); /* the clock stepped back an hour */
            assert_ttl(acquire(&k, (struct ask){.token = &asker, .mode = *mode}).ttl_ms,
                       rows[i / 2].expected_ms);
            assert_ttl(pttl(k.lease), rows[i / 2].expected_ms);
            /* Also when the answer does not depend on the lease. */
            put_value(&k, &filler, PX_MS);
            discard(command("PERSIST %s", k.lease));
            assert_acquire(&k, (struct ask){.token = &asker, .mode = *mode}, "H");
            assert_ttl(pttl(k.lease), rows[i / 2].expected_ms);
            discard(command("DEL %s", k.value));
        }
    }
}

TEST(a_value_that_lasts_too_long_is_cut_to_what_its_filler_set)
{
    const struct names k = names_of("k");
    const struct token asker = token_of(1), filler = token_of(2);
    const struct text value = envelope_of(&filler);
    const struct {
        long long ttl_ms, max_value_ms, expected_ms; /* ttl_ms 0: none */
    } rows[] = {
        {0, MAX_VALUE_MS, PX_MS},      {0, PX_MS / 2, PX_MS / 2},     {PX_MS + 3600000, MAX_VALUE_MS, PX_MS},
        {PX_MS, PX_MS / 2, PX_MS / 2}, {PX_MS / 2, PX_MS, PX_MS / 2},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        for (const char *mode = "nxp"; *mode != '\0'; mode++) {
            put(k.value, &value, rows[i].ttl_ms > 0 ? rows[i].ttl_ms : 1000);
            if (rows[i].ttl_ms == 0)
                discard(command("PERSIST %s", k.value));
            const struct acquired got = acquire(
                &k, (struct ask){.token = &asker, .mode = *mode, .max_value_ms = rows[i].max_value_ms});
            assert_string_equal(got.kind, "H");
            assert_ttl(got.ttl_ms, rows[i].expected_ms);
            assert_ttl(pttl(k.value), rows[i].expected_ms);
        }
    }
}

TEST(a_failure_that_lasts_too_long_is_cut_to_its_own_length)
{
    const struct names k = names_of("k");
    const struct token asker = token_of(1);
    for (int ours = 0; ours <= 1; ours++) {
        for (int persists = 0; persists <= 1; persists++) {
            if (ours)
                put_failure(&k);
            else
                discard(command("SET %s %s", k.failure, "of somebody else"));
            if (persists)
                discard(command("PERSIST %s", k.failure));
            else
                discard(command("PEXPIRE %s 3600000", k.failure));
            const struct acquired got = acquire(&k, (struct ask){.token = &asker});
            assert_string_equal(got.kind, "E");
            assert_string_equal(got.word, ours ? "unavailable" : "of somebody else");
            assert_ttl(got.ttl_ms, ours ? FAILURE_MS : MAX_LEASE_MS);
            assert_ttl(pttl(k.failure), ours ? FAILURE_MS : MAX_LEASE_MS);
            discard(command("DEL %s", k.failure));
        }
    }
}

/* ---- odd data ---- */

TEST(what_is_not_an_envelope_counts_as_missing_and_is_overwritten)
{
    const struct names k = names_of("k");
    const struct token a = token_of(1), filler = token_of(2);
    struct text odd[80] = {{.size = 0}};
    size_t odd_count = 0;
    const struct text sound = envelope_of(&filler);
    for (size_t size = 0; size < 64; size++)
        odd[odd_count++] = text_of(sound.bytes, size);
    static const char *const fields[] = {"0000000000000", "000000060000 ", "+000000600000", "-000000600000",
                                         "0x00000600000", "0000000.60000", "00000000006e5", "             "};
    for (size_t i = 0; i < COUNT(fields); i++) {
        odd[odd_count] = sound;
        memcpy(odd[odd_count++].bytes + 37, fields[i], 13);
    }
    odd[odd_count] = sound;
    memset(odd[odd_count++].bytes + 51, '\0', 13);
    odd[odd_count] = sound;
    memset(odd[odd_count++].bytes, 0xff, 64);
    for (size_t i = 0; i < odd_count; i++) {
        put(k.value, &odd[i], PX_MS);
        assert_acquire(&k, (struct ask){.token = &a, .mode = 'p'}, "M");
        for (const char *mode = "nxr"; *mode != '\0'; mode++) {
            assert_acquire(&k, (struct ask){.token = &a, .mode = *mode}, "L");
            assert_int_equal(release(&k, &a, "released", ""), 1);
        }
        assert_acquire(&k, (struct ask){.token = &a}, "L");
        assert_int_equal(fill(&k, &a, "filled"), 1);
        assert_acquire(&k, (struct ask){.token = &a}, "H");
        told("released released released filled");
    }
}

/* Puts something of another type, or a string of chance, under a key; without a TTL. */
static void put_odd(const char *name, unsigned kind, unsigned *seed)
{
    static const char *const creators[] = {"RPUSH %s a b", "SADD %s a b", "ZADD %s 1 a 2 b", "HSET %s a b",
                                           "XADD %s * a b"};
    struct text text = {.size = (size_t)rand_r(seed) % 128};
    discard(command("DEL %s", name));
    if (kind < COUNT(creators)) {
        discard(command(creators[kind], name));
        return;
    }
    for (size_t i = 0; i < text.size; i++)
        text.bytes[i] = (char)(kind % 2 == 0 ? rand_r(seed) : '0' + rand_r(seed) % 10);
    discard(command("SET %s %b", name, text.bytes, text.size));
}

/* Every script in every mode, by number. */
enum { CALLS = 9 };

static redisReply *call(unsigned number_of_call, const struct names *k, const struct token *a)
{
    const struct text value = envelope_of(a);
    switch (number_of_call) {
    case 4:
        return renew_raw(k, a->text);
    case 5:
        return fill_with(k, a->text, &value, "600000", "message", "4096");
    case 6:
        return release_raw(k, a->text, "message", "unavailable", "1000");
    case 7:
        return invalidate_raw(k, "message", 'h', "0");
    case 8:
        return invalidate_raw(k, "message", 's', "1000");
    default:
        return acquire_raw(k,
                           (struct ask){.token = a, .prev = a, .mode = "nxrp"[number_of_call], .waits = "s"});
    }
}

TEST(no_script_raises_whatever_stands_under_our_keys)
{
    enum { KINDS = 9 };
    const struct names k = names_of("k");
    const struct token a = token_of(1);
    unsigned seed = 4711;
    for (unsigned odd = 0; odd < KINDS * KINDS * KINDS; odd++) {
        for (unsigned i = 0; i < CALLS; i++) {
            put_odd(k.value, odd % KINDS, &seed);
            put_odd(k.failure, odd / KINDS / KINDS, &seed);
            put_odd(k.waiting, odd / KINDS / KINDS, &seed);
            put_odd(k.lease, odd / KINDS % KINDS, &seed);
            if (odd / KINDS % KINDS == 0)
                discard(command("SET %s %s PX %d", k.lease, a.text, LEASE_MS)); /* ours among the odd */
            discard(call(i, &k, &a));
        }
    }
}

TEST(keys_of_another_type_count_as_missing_and_are_overwritten)
{
    const struct names k = names_of("k");
    const struct token a = token_of(1);
    unsigned seed = 1;
    for (unsigned kind = 0; kind < 5; kind++) {
        put_odd(k.value, kind, &seed);
        put_odd(k.lease, kind, &seed);
        put_odd(k.failure, kind, &seed);
        assert_acquire(&k, (struct ask){.token = &a}, "L");
        assert_ttl(pttl(k.lease), LEASE_MS);
        assert_int_equal(release(&k, &a, "failed", "unavailable"), 1);
        assert_ttl(pttl(k.failure), FAILURE_MS);
        discard(command("DEL %s", k.failure));
        assert_acquire(&k, (struct ask){.token = &a}, "L");
        assert_int_equal(fill(&k, &a, "filled"), 1);
        assert_ttl(pttl(k.value), PX_MS);
        assert_int_equal(invalidate(&k, "gone"), 1);
    }
}

/* ---- fills ---- */

TEST(a_fill_stores_releases_and_tells)
{
    const struct names k = names_of("k");
    const struct token a = token_of(1);
    assert_acquire(&k, (struct ask){.token = &a}, "L");
    discard(command("SET %s x PX 1000", k.failure));
    assert_int_equal(fill(&k, &a, "filled"), 1);
    assert_ttl(pttl(k.value), PX_MS);
    assert_false(exists(k.lease) || exists(k.failure));
    told("filled");
}

TEST(a_fill_whose_reply_was_lost_learns_that_it_succeeded)
{
    const struct names k = names_of("k");
    const struct token a = token_of(1), b = token_of(2);
    assert_acquire(&k, (struct ask){.token = &a}, "L");
    assert_int_equal(fill(&k, &a, "filled"), 1);
    const struct snapshot before = snapshot_of(&k);
    assert_int_equal(fill(&k, &a, "again"), 2);
    assert_unchanged(&k, &before);
    /* Also while the next one loads, but not after somebody else's fill or an invalidation. */
    assert_acquire(&k, (struct ask){.token = &b, .mode = 'r'}, "S1");
    assert_int_equal(fill(&k, &a, "again"), 2);
    assert_int_equal(fill(&k, &b, "filled"), 1);
    assert_int_equal(fill(&k, &a, "again"), 0);
    assert_int_equal(fill(&k, &b, "again"), 2);
    assert_int_equal(invalidate(&k, "gone"), 1);
    assert_int_equal(fill(&k, &b, "again"), 0);
    told("filled filled gone");
}

/* ---- touch ---- */

/* A stale value of `a`, and the lease for its refresh is b's. */
static void refresh_begins(const struct names *k, const struct token *a, const struct token *b)
{
    put_value(k, a, STALE_MS / 2);
    assert_acquire(k, (struct ask){.token = b}, "S1");
}

TEST(a_touched_value_is_what_a_fill_would_have_stored)
{
    const struct names k = names_of("k");
    const struct token a = token_of(1), b = token_of(2);
    refresh_begins(&k, &a, &b);
    assert_int_equal(touch(&k, &b, &a, "touched"), 1);
    assert_false(exists(k.lease));
    assert_ttl(pttl(k.value), PX_MS);
    const struct text expected = envelope_of(&b);
    redisReply *stored = command("GET %s", k.value);
    assert_int_equal(stored->len, expected.size);
    assert_memory_equal(stored->str, expected.bytes, expected.size);
    freeReplyObject(stored);
    told("touched");
}

TEST(a_touch_without_the_lease_changes_nothing_and_tells_nobody)
{
    const struct names k = names_of("k");
    const struct token a = token_of(1), b = token_of(2), c = token_of(3);
    refresh_begins(&k, &a, &b);
    const struct snapshot before = snapshot_of(&k);
    assert_int_equal(touch(&k, &c, &a, "touched"), 0);
    assert_unchanged(&k, &before);
    assert_int_equal(invalidate(&k, "gone"), 3);
    assert_int_equal(touch(&k, &b, &a, "touched"), 0);
    assert_false(exists(k.value));
    told("gone");
}

TEST(a_touch_whose_reply_was_lost_learns_that_it_succeeded)
{
    const struct names k = names_of("k");
    const struct token a = token_of(1), b = token_of(2);
    refresh_begins(&k, &a, &b);
    assert_int_equal(touch(&k, &b, &a, "touched"), 1);
    const struct snapshot before = snapshot_of(&k);
    assert_int_equal(touch(&k, &b, &a, "again"), 2);
    assert_unchanged(&k, &before);
    told("touched");
}

TEST(a_touch_of_a_value_that_is_no_longer_there_leaves_everything_to_a_fill)
{
    const struct names k = names_of("k");
    const struct token a = token_of(1), b = token_of(2), c = token_of(3);
    refresh_begins(&k, &a, &b);
    discard(command("DEL %s", k.value));
    assert_int_equal(touch(&k, &b, &a, "touched"), -2);
    assert_false(exists(k.value));
    put_value(&k, &c, STALE_MS / 2); /* of somebody else, by whatever way */
    const struct snapshot before = snapshot_of(&k);
    assert_int_equal(touch(&k, &b, &a, "touched"), -2);
    assert_unchanged(&k, &before);
    const struct text longer = envelope_with(&a, PX_MS, STALE_MS, "longer body");
    put(k.value, &longer, STALE_MS / 2);
    assert_int_equal(touch(&k, &b, &a, "touched"), -2);
    discard(command("DEL %s", k.value));
    discard(command("LPUSH %s x", k.value));
    assert_int_equal(touch(&k, &b, &a, "touched"), -2);
    discard(command("DEL %s", k.value));
    assert_int_equal(fill(&k, &b, "filled"), 1);
    told("filled");
}

TEST(without_memory_a_touch_gives_the_lease_back_and_leaves_the_value)
{
    const struct names k = names_of("k");
    const struct token a = token_of(1), b = token_of(2);
    refresh_begins(&k, &a, &b);
    discard(command("CONFIG SET maxmemory 1"));
    assert_int_equal(touch(&k, &b, &a, "touched"), -1);
    discard(command("CONFIG SET maxmemory 0"));
    assert_false(exists(k.lease));
    assert_ttl(pttl(k.value), STALE_MS / 2);
    told("touched");
}

/* ---- early ---- */

TEST(an_early_refresh_takes_the_lease_over_the_value_it_names_and_no_other)
{
    const struct names k = names_of("k");
    const struct token a = token_of(1), b = token_of(2), c = token_of(3), d = token_of(4);
    char of_a[ENVELOPE_UUID_BYTES + 1] = "";
    memcpy(of_a, a.text, ENVELOPE_UUID_BYTES);
    put_value(&k, &b, PX_MS); /* b has refreshed it since */
    assert_acquire(&k, (struct ask){.token = &c, .mode = 'r', .refused = of_a}, "H");
    assert_false(exists(k.lease));
    put_value(&k, &a, PX_MS);
    assert_acquire(&k, (struct ask){.token = &c, .mode = 'r', .refused = of_a}, "S1");
    assert_acquire(&k, (struct ask){.token = &d, .mode = 'r', .refused = of_a}, "H"); /* c does it */
    assert_int_equal(release(&k, &c, "failed", "unavailable"), 1);
    assert_acquire(&k, (struct ask){.token = &d, .mode = 'r', .refused = of_a}, "H"); /* it cools down */
    told("failed");
}

TEST(no_ttl_argument_makes_a_key_without_ttl)
{
    static const struct {
        const char *ms;
        bool works;
    } rows[] = {{"1", true},
                {"600000", true},
                {"9999999999999", true},
                {"0", false},
                {"-1", false},
                {"9223372036854775807", false},
                {"-9223372036854775808", false},
                {"99999999999999999999", false}};
    const struct names k = names_of("k");
    const struct token a = token_of(1);
    const struct text value = envelope_of(&a);
    for (size_t i = 0; i < COUNT(rows); i++) {
        discard(command("FLUSHALL"));
        assert_acquire(&k, (struct ask){.token = &a}, "L");
        assert_int_equal(number(fill_raw(&k, a.text, &value, rows[i].ms, "m")), rows[i].works ? 1 : -1);
        assert_int_not_equal(pttl(k.value), -1);
        assert_true(rows[i].works || !exists(k.value));
        assert_false(exists(k.lease));

        assert_int_equal(invalidate(&k, "m") & 2, 0);
        assert_acquire(&k, (struct ask){.token = &a}, "L");
        assert_int_equal(number(release_raw(&k, a.text, "m", "unavailable", rows[i].ms)), 1);
        assert_int_not_equal(pttl(k.failure), -1);
        assert_true(rows[i].works || !exists(k.failure));
        assert_false(exists(k.lease));

        put_value(&k, &a, PX_MS);
        assert_int_equal(number(invalidate_raw(&k, "m", 's', rows[i].ms)), 1);
        assert_true(pttl(k.value) == -2 || (pttl(k.value) >= 0 && pttl(k.value) <= STALE_MS));
    }
    told("m m m m m m m m m m m m m m m m m m m m m m m m m m m m m m m m");
}

TEST(without_memory_nothing_is_stored_but_everybody_is_released)
{
    const struct names k = names_of("k"), other = names_of("other"), third = names_of("third");
    const struct token a = token_of(1), b = token_of(2), c = token_of(3);
    assert_acquire(&k, (struct ask){.token = &a}, "L");
    assert_acquire(&other, (struct ask){.token = &b}, "L");
    put_value(&third, &c, PX_MS);
    discard(command("CONFIG SET maxmemory 1 maxmemory-policy noeviction"));

    redisReply *reply = acquire_raw(&(struct names){"n:v", "n:l", "n:e", "n:w"}, (struct ask){.token = &c});
    assert_int_equal(reply->type, REDIS_REPLY_ERROR);
    assert_memory_equal(reply->str, "OOM", 3);
    freeReplyObject(reply);
    assert_acquire(&k, (struct ask){.token = &c, .waits = "b"}, "B");
    assert_false(exists(k.waiting));
    assert_int_equal(renew(&k, &a), 1);
    assert_int_equal(fill(&k, &a, "refused"), -1);
    assert_false(exists(k.value) || exists(k.lease));
    assert_int_equal(release(&other, &b, "released", "unavailable"), 1);
    assert_false(exists(other.lease));
    assert_acquire(&third, (struct ask){.token = &c}, "H");
    assert_int_equal(number(invalidate_raw(&third, "stale", 's', "1000")), 1);
    assert_int_equal(invalidate(&third, "gone"), 1);
    assert_false(exists(third.value));
    told("refused released stale gone");
}

TEST(a_redis_that_refuses_to_write_changes_nothing_and_says_so)
{
    const struct names k = names_of("k");
    const struct token a = token_of(1), filler = token_of(2);
    const struct text value = envelope_of(&a);
    put_value(&k, &filler, STALE_MS);
    assert_acquire(&k, (struct ask){.token = &a}, "S1");
    discard(command("CONFIG SET min-replicas-to-write 1"));
    const struct snapshot before = snapshot_of(&k);
    redisReply *const replies[] = {renew_raw(&k, a.text), fill_raw(&k, a.text, &value, "600000", "no"),
                                   release_raw(&k, a.text, "no", "unavailable", "1000"),
                                   invalidate_raw(&k, "no", 'h', "0"), invalidate_raw(&k, "no", 's', "1000")};
    for (size_t i = 0; i < COUNT(replies); i++) {
        assert_int_equal(replies[i]->type, REDIS_REPLY_ERROR);
        assert_non_null(strstr(replies[i]->str, "NOREPLICAS"));
        freeReplyObject(replies[i]);
    }
    assert_unchanged(&k, &before);
    told("");
}

/* A server that may write nothing: its error, and the commands that make it one and end that. */
static const struct no_master {
    const char *error, *begins, *ends;
} no_masters[] = {
    {"READONLY", "REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"},
    {"NOREPLICAS", "CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0"},
};

static void assert_refused(redisReply *reply, const char *error)
{
    assert_int_equal(reply->type, REDIS_REPLY_ERROR);
    assert_non_null(strstr(reply->str, error));
    freeReplyObject(reply);
}

TEST(acquire_answers_nothing_where_it_may_not_write)
{
    const struct names k = names_of("k");
    const struct token asker = token_of(1), holder = token_of(2), filler = token_of(3);
    for (unsigned i = 0; i < 3 * 2 * 2 * COUNT(no_masters); i++) {
        const struct no_master *no_master = &no_masters[i / 12];
        const unsigned value = i % 3, held = i / 3 % 2, failed = i / 6 % 2;
        discard(command("FLUSHALL"));
        if (failed)
            put_failure(&k);
        if (held)
            discard(command("SET %s %s PX %d", k.lease, holder.text, LEASE_MS));
        if (value > 0)
            put_value(&k, &filler, value == 1 ? PX_MS : STALE_MS);
        discard(command(no_master->begins));
        const struct snapshot before = snapshot_of(&k);
        for (const char *mode = "nxrp"; *mode != '\0'; mode++)
            assert_refused(acquire_raw(&k, (struct ask){.token = &asker, .mode = *mode, .waits = "s"}),
                           no_master->error);
        assert_unchanged(&k, &before);
        discard(command(no_master->ends));
    }
}

/* Those of another type under a key that the fence looks at are none of its business. */
TEST(what_stands_under_the_other_keys_does_not_shut_the_fence)
{
    const struct names k = names_of("k");
    const struct token asker = token_of(1), filler = token_of(3);
    put_value(&k, &filler, PX_MS);
    discard(command("RPUSH %s x", k.lease));
    discard(command("RPUSH %s x", k.failure));
    assert_acquire(&k, (struct ask){.token = &asker}, "H");
    discard(command("DEL %s", k.lease));
    put_failure(&k);
    assert_acquire(&k, (struct ask){.token = &asker}, "H");
    discard(command("SET %s %s PX %d", k.lease, asker.text, LEASE_MS));
    assert_acquire(&k, (struct ask){.token = &filler}, "H");
}

TEST(only_the_master_says_that_a_value_is_stored_already)
{
    const struct names k = names_of("k");
    const struct token a = token_of(1);
    const struct text value = envelope_of(&a);
    for (size_t i = 0; i < COUNT(no_masters); i++) {
        discard(command("FLUSHALL"));
        assert_acquire(&k, (struct ask){.token = &a}, "L");
        assert_int_equal(fill(&k, &a, "filled"), 1);
        discard(command(no_masters[i].begins));
        assert_refused(fill_raw(&k, a.text, &value, "600000", "no"), no_masters[i].error);
        assert_refused(touch_raw(&k, &a, &a, "no"), no_masters[i].error);
        discard(command(no_masters[i].ends));
        assert_int_equal(fill(&k, &a, "again"), 2);
        assert_int_equal(touch(&k, &a, &a, "again"), 2);
        put_failure(&k);
        assert_int_equal(fill(&k, &a, "again"), 2);
    }
}

/* ---- failures ---- */

TEST(a_failed_load_is_remembered_for_everybody)
{
    const struct names k = names_of("k");
    const struct token a = token_of(1), b = token_of(2);
    assert_acquire(&k, (struct ask){.token = &a}, "L");
    assert_int_equal(release(&k, &a, "failed", "timeout after 10 s"), 1);
    const struct acquired got = acquire(&k, (struct ask){.token = &b});
    assert_string_equal(got.kind, "E");
    assert_string_equal(got.word, "timeout after 10 s");
    assert_ttl(got.ttl_ms, FAILURE_MS);
    assert_false(exists(k.lease));
    discard(command("DEL %s", k.failure)); /* its window is over */
    assert_acquire(&k, (struct ask){.token = &b}, "L");
    told("failed");
}

TEST(a_lease_given_back_without_a_failure_is_free_at_once)
{
    const struct names k = names_of("k");
    const struct token a = token_of(1), b = token_of(2);
    assert_acquire(&k, (struct ask){.token = &a}, "L");
    assert_int_equal(release(&k, &a, "released", ""), 1);
    assert_acquire(&k, (struct ask){.token = &b}, "L");
    told("released");
}

/* ---- invalidations ---- */

TEST(an_invalidation_voids_the_load_that_runs)
{
    const struct names k = names_of("k");
    const struct token a = token_of(1), b = token_of(2);
    assert_int_equal(invalidate(&k, "i1"), 0); /* before the acquire: nothing to do */
    assert_acquire(&k, (struct ask){.token = &a}, "L");
    assert_int_equal(invalidate(&k, "i2"), 2); /* nothing stored yet, but a load was running */
    assert_int_equal(renew(&k, &a), 0);
    assert_int_equal(fill(&k, &a, "no"), 0);
    assert_int_equal(release(&k, &a, "no", "unavailable"), 0);
    assert_false(exists(k.value) || exists(k.failure));
    assert_acquire(&k, (struct ask){.token = &b}, "L");
    assert_int_equal(fill(&k, &b, "filled"), 1);
    assert_int_equal(invalidate(&k, "i3"), 1); /* after the fill */
    assert_int_equal(fill(&k, &b, "no"), 0);   /* its reply was lost; it must not come back */
    assert_false(exists(k.value));
    assert_int_equal(invalidate(&k, "i4"), 0); /* again, harmless */
    told("i1 i2 filled i3 i4");
}

TEST(an_invalidation_removes_value_lease_and_failure)
{
    const struct names k = names_of("k");
    const struct token a = token_of(1), b = token_of(2);
    put_failure(&k);
    put_value(&k, &a, PX_MS);
    discard(command("SET %s %s PX %d", k.lease, b.text, LEASE_MS));
    assert_int_equal(invalidate(&k, "gone"), 3);
    assert_int_equal(number(command("DBSIZE")), 0);
    told("failed gone");
}

TEST(a_soft_invalidation_makes_the_value_stale_at_once)
{
    const struct names k = names_of("k");
    const struct token a = token_of(1), filler = token_of(2);
    static const struct {
        long long ttl_ms; /* 0: none */
        const char *stale_ms;
        long long expected_ms;
    } rows[] = {
        {PX_MS, "60000", 60000}, {PX_MS, "100000", STALE_MS}, {PX_MS, "86400000", STALE_MS},
        {20000, "60000", 20000}, {0, "60000", 60000},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        put_value(&k, &filler, rows[i].ttl_ms > 0 ? rows[i].ttl_ms : 1000);
        if (rows[i].ttl_ms == 0)
            discard(command("PERSIST %s", k.value));
        discard(command("SET %s %s PX %d", k.lease, a.text, LEASE_MS));
        assert_int_equal(number(invalidate_raw(&k, "stale", 's', rows[i].stale_ms)), 3);
        assert_int_equal(number(invalidate_raw(&k, "stale", 's', rows[i].stale_ms)), 1);
        assert_false(exists(k.lease));
        assert_ttl(pttl(k.value), rows[i].expected_ms);
        assert_acquire(&k, (struct ask){.token = &a, .mode = 'p'}, "S0");
        assert_acquire(&k, (struct ask){.token = &a, .mode = 'x'}, "L");
        assert_int_equal(release(&k, &a, "released", ""), 1);
        told("stale stale released");
    }
}

TEST(a_soft_invalidation_removes_what_has_no_stale_time)
{
    const struct names k = names_of("k");
    const struct token filler = token_of(1);
    const struct text entries[] = {envelope_with(&filler, PX_MS, 0, ""), text_of("not ours", 8),
                                   text_of("", 0)};
    for (size_t i = 0; i < COUNT(entries); i++) {
        put(k.value, &entries[i], PX_MS);
        assert_int_equal(number(invalidate_raw(&k, "gone", 's', "60000")), 1);
        assert_false(exists(k.value));
    }
    put_value(&k, &filler, PX_MS);
    assert_int_equal(number(invalidate_raw(&k, "gone", 's', "0")), 1);
    assert_false(exists(k.value));
    assert_int_equal(number(invalidate_raw(&k, "gone", 's', "60000")), 0);
    told("gone gone gone gone gone");
}

/* ---- the value travels with the message ---- */

static const char *tag_of(const struct token *token, char out[17])
{
    snprintf(out, 17, "%.16s", token->text + 37);
    return out;
}

static void assert_waiting(const struct names *names, const struct token *token)
{
    char tag[17];
    redisReply *reply = command("GET %s", names->waiting);
    if (token == NULL)
        assert_int_equal(reply->type, REDIS_REPLY_NIL);
    else
        assert_string_equal(reply->str, tag_of(token, tag));
    freeReplyObject(reply);
}

TEST(who_waits_leaves_the_tag_of_the_lease_he_waits_for)
{
    static const struct {
        bool stale;
        const char *waits;
        bool marks;
    } rows[] = {{false, "", false}, {false, "b", true}, {false, "s", true},
                {true, "", false},  {true, "b", false}, {true, "s", true}};
    const struct names k = names_of("k");
    const struct token holder = token_of(1), b = token_of(2), filler = token_of(3);
    char tag[17];
    for (size_t i = 0; i < COUNT(rows); i++) {
        discard(command("FLUSHALL"));
        if (rows[i].stale)
            put_value(&k, &filler, STALE_MS);
        assert_acquire(&k, (struct ask){.token = &holder, .waits = "s"}, rows[i].stale ? "S1" : "L");
        assert_waiting(&k, NULL);
        const struct acquired got = acquire(&k, (struct ask){.token = &b, .waits = rows[i].waits});
        assert_string_equal(got.kind, rows[i].stale ? "S0" : "B");
        assert_string_equal(got.word, tag_of(&holder, tag));
        assert_waiting(&k, rows[i].marks ? &holder : NULL);
        if (rows[i].marks)
            assert_ttl(pttl(k.waiting), LEASE_MS);
    }
}

TEST(nobody_can_wait_for_what_is_no_lease_of_ours)
{
    const struct names k = names_of("k");
    const struct token a = token_of(1);
    discard(
        command("SET %s %s PX %d", k.lease, "somebody else's lock, of another program altogether", LEASE_MS));
    const struct acquired got = acquire(&k, (struct ask){.token = &a, .waits = "b"});
    assert_string_equal(got.kind, "B");
    assert_string_equal(got.word, "");
    assert_false(exists(k.waiting));
}

TEST(the_mark_goes_with_its_lease)
{
    enum { FILLED, TOUCHED, RELEASED, INVALIDATED, SUPERSEDED, WAYS };
    const struct names k = names_of("k");
    const struct token a = token_of(1), b = token_of(2), c = token_of(3), filler = token_of(4);
    for (int way = FILLED; way < WAYS; way++) {
        discard(command("FLUSHALL"));
        put_value(&k, &filler, STALE_MS);
        assert_acquire(&k, (struct ask){.token = &a}, "S1");
        assert_acquire(&k, (struct ask){.token = &b, .waits = "s"}, "S0");
        assert_waiting(&k, &a);
        if (way == FILLED)
            assert_int_equal(fill(&k, &a, "m"), 1);
        else if (way == TOUCHED)
            assert_int_equal(touch(&k, &a, &filler, "m"), 1);
        else if (way == RELEASED)
            assert_int_equal(release(&k, &a, "m", ""), 1);
        else if (way == INVALIDATED)
            assert_int_equal(invalidate(&k, "m"), 3);
        else
            assert_acquire(&k, (struct ask){.token = &c, .prev = &a}, "S1");
        assert_waiting(&k, NULL);
    }
}

static void expect_message(const char *message, const struct text *value)
{
    char expected[2 * TEXT_SIZE];
    if (value != NULL)
        snprintf(expected, sizeof(expected), "%s %.*s", message, (int)value->size, value->bytes);
    told(value != NULL ? expected : message);
}

TEST(a_fill_sends_its_value_to_those_who_wait_for_its_lease)
{
    enum { NOBODY, FOR_IT, FOR_ANOTHER, NONSENSE };
    static const struct {
        int waits;
        int spare_bytes; /* push_bytes beyond the envelope's */
        bool travels;
    } rows[] = {{NOBODY, 100, false}, {FOR_IT, 100, true},       {FOR_IT, 0, true},
                {FOR_IT, -1, false},  {FOR_ANOTHER, 100, false}, {NONSENSE, 100, false}};
    const struct names k = names_of("k");
    const struct token a = token_of(1), b = token_of(2);
    const struct text value = envelope_of(&a);
    char tag[17], push_bytes[24];
    for (size_t i = 0; i < COUNT(rows); i++) {
        discard(command("FLUSHALL"));
        assert_acquire(&k, (struct ask){.token = &a}, "L");
        if (rows[i].waits == FOR_IT)
            assert_acquire(&k, (struct ask){.token = &b, .waits = "b"}, "B");
        else if (rows[i].waits == FOR_ANOTHER)
            discard(command("SET %s %s PX %d", k.waiting, tag_of(&b, tag), LEASE_MS));
        else if (rows[i].waits == NONSENSE)
            discard(command("RPUSH %s nonsense", k.waiting));
        snprintf(push_bytes, sizeof(push_bytes), "%d", (int)value.size + rows[i].spare_bytes);
        assert_int_equal(number(fill_with(&k, a.text, &value, "600000", "message", push_bytes)), 1);
        expect_message("message", rows[i].travels ? &value : NULL);
    }
}

TEST(with_push_bytes_0_no_value_travels)
{
    const struct names k = names_of("k");
    const struct token a = token_of(1), b = token_of(2);
    assert_acquire(&k, (struct ask){.token = &a}, "L");
    assert_acquire(&k, (struct ask){.token = &b, .waits = "b"}, "B");
    assert_int_equal(fill(&k, &a, "plain"), 1);
    told("plain");
}

TEST(a_fill_that_is_refused_or_repeated_sends_no_value)
{
    const struct names k = names_of("k"), full = names_of("full");
    const struct token a = token_of(1), b = token_of(2);
    const struct text value = envelope_of(&a);
    assert_acquire(&k, (struct ask){.token = &a}, "L");
    assert_acquire(&k, (struct ask){.token = &b, .waits = "b"}, "B");
    assert_int_equal(number(fill_with(&k, b.text, &value, "600000", "foreign", "4096")), 0);
    assert_waiting(&k, &a);
    assert_int_equal(number(fill_with(&k, a.text, &value, "600000", "first", "4096")), 1);
    expect_message("first", &value);
    assert_int_equal(number(fill_with(&k, a.text, &value, "600000", "again", "4096")), 2);
    told("");

    assert_acquire(&full, (struct ask){.token = &a}, "L");
    assert_acquire(&full, (struct ask){.token = &b, .waits = "b"}, "B");
    discard(command("CONFIG SET maxmemory 1 maxmemory-policy noeviction"));
    assert_int_equal(number(fill_with(&full, a.text, &value, "600000", "refused", "4096")), -1);
    told("refused");
}

TEST(a_touch_sends_what_it_has_stored)
{
    const struct names k = names_of("k");
    const struct token a = token_of(1), b = token_of(2), filler = token_of(3);
    const struct text touched = envelope_of(&a);
    char push_bytes[24];
    for (int spare_bytes = -1; spare_bytes <= 0; spare_bytes++) {
        put_value(&k, &filler, STALE_MS);
        assert_acquire(&k, (struct ask){.token = &a}, "S1");
        assert_acquire(&k, (struct ask){.token = &b, .waits = "s"}, "S0");
        snprintf(push_bytes, sizeof(push_bytes), "%d", (int)touched.size + spare_bytes);
        assert_int_equal(number(touch_with(&k, &a, &filler, "message", push_bytes)), 1);
        expect_message("message", spare_bytes == 0 ? &touched : NULL);
    }
}

/* ---- a long random sequence against a model ---- */

/*
 * The model knows neither time nor Redis: per key what stands there. Every reply and, after every step, the
 * contents and TTLs of all keys must be what it says. Expiry and accidents are steps of their own, so the
 * sequence is the same for the same seed.
 */
enum { STEPS = 20000, MODEL_KEYS = 3, MODEL_CLIENTS = 4, TOLD_EVERY = 32 };
enum model_value { NO_VALUE, FRESH, STALE };

struct model_key {
    struct names names;
    enum model_value value;
    struct token filler; /* of the value */
    struct token lease;  /* "" if free */
    char waiting[17];    /* tag of the lease that somebody waits for */
    bool failed;
};

struct model {
    unsigned seed;
    uint64_t serial;
    struct model_key keys[MODEL_KEYS];
    /* What each client believes: the token it thinks it holds, and the one whose reply it never saw. */
    struct token held[MODEL_CLIENTS][MODEL_KEYS], unanswered[MODEL_CLIENTS][MODEL_KEYS];
    struct token old; /* some token that once was used, for late duplicates and foreigners */
    char told[TEXT_SIZE];
};

/* One step's choices. */
struct step {
    struct model *model;
    struct model_key *key;
    struct token *held, *unanswered;
    char message[16];
};

static unsigned chance(struct model *model, unsigned bound)
{
    return (unsigned)rand_r(&model->seed) / 7 % bound;
}

static bool is_set(const struct token *token)
{
    return token->text[0] != '\0';
}

static bool is_same(const struct token *a, const struct token *b)
{
    return strcmp(a->text, b->text) == 0;
}

static const char *expected_kind(const struct model_key *key, char mode)
{
    const bool failed = key->failed, held = is_set(&key->lease);
    const bool usable = key->value == FRESH || (key->value == STALE && mode != 'x');
    if (key->value == FRESH && (mode != 'r' || held || failed))
        return "H";
    if (held)
        return usable ? "S0" : "B";
    if (failed)
        return usable ? "S-1" : "E";
    if (mode == 'p')
        return usable ? "S0" : "M";
    return usable ? "S1" : "L";
}

static void expect_told(struct step *step)
{
    const size_t used = strlen(step->model->told);
    snprintf(step->model->told + used, TEXT_SIZE - used, "%s%s", used > 0 ? " " : "", step->message);
}

static void step_acquire(struct step *step)
{
    struct model_key *key = step->key;
    const char mode = "nnnnxrp"[chance(step->model, 7)];
    const bool is_late_duplicate = chance(step->model, 16) == 0 && is_set(&step->model->old);
    const struct token token = is_late_duplicate ? step->model->old : token_of(++step->model->serial);
    const struct token *prev = is_set(step->unanswered) && !is_late_duplicate ? step->unanswered : NULL;
    if (prev != NULL && is_same(prev, &key->lease))
        key->lease.text[0] = key->waiting[0] = '\0';
    const char *const kind = expected_kind(key, mode);
    const bool granted = strcmp(kind, "L") == 0 || strcmp(kind, "S1") == 0;
    const char waits[2] = {"\0bs"[chance(step->model, 3)]};
    const bool reply_is_lost = !is_late_duplicate && chance(step->model, 8) == 0;

    assert_acquire(
        &key->names,
        (struct ask){.token = &token, .prev = prev, .mode = mode, .waits = waits[0] != '\0' ? waits : NULL},
        kind);
    if (is_set(&key->lease) && ((kind[0] == 'B' && waits[0] != '\0') || (kind[0] == 'S' && waits[0] == 's')))
        snprintf(key->waiting, sizeof(key->waiting), "%.16s", key->lease.text + 37);
    if (granted)
        key->lease = token;
    if (is_late_duplicate)
        return; /* nobody waits for its reply */
    step->unanswered->text[0] = '\0';
    if (reply_is_lost)
        *step->unanswered = token;
    else if (granted)
        *step->held = token;
    step->model->old = token;
}

/* The client's own token, or now and then one that is not. */
static struct token chosen_token(struct step *step)
{
    struct model *model = step->model;
    if (chance(model, 4) != 0 && is_set(step->held))
        return *step->held;
    return chance(model, 2) == 0 && is_set(&model->old) ? model->old : token_of(++model->serial);
}

static void step_renew(struct step *step)
{
    const struct token token = chosen_token(step);
    const bool holds = is_same(&token, &step->key->lease);
    assert_int_equal(renew(&step->key->names, &token), holds);
    if (!holds && is_same(&token, step->held))
        step->held->text[0] = '\0';
}

static void step_fill(struct step *step)
{
    struct model_key *key = step->key;
    const struct token token = chosen_token(step);
    const bool holds = is_same(&token, &key->lease);
    const bool is_mine = key->value != NO_VALUE && is_same(&token, &key->filler);
    assert_int_equal(fill(&key->names, &token, step->message), holds ? 1 : is_mine ? 2 : 0);
    if (holds) {
        key->value = FRESH;
        key->filler = token;
        key->lease.text[0] = key->waiting[0] = '\0';
        key->failed = false;
        expect_told(step);
    }
    if (is_same(&token, step->held) && chance(step->model, 3) != 0) /* otherwise the reply is lost */
        step->held->text[0] = '\0';
}

static void step_release(struct step *step)
{
    struct model_key *key = step->key;
    const struct token token = chosen_token(step);
    const bool holds = is_same(&token, &key->lease), failed = chance(step->model, 2) == 0;
    assert_int_equal(release(&key->names, &token, step->message, failed ? "unavailable" : ""), holds);
    if (holds) {
        key->lease.text[0] = key->waiting[0] = '\0';
        key->failed = key->failed || failed;
        expect_told(step);
    }
    if (is_same(&token, step->held))
        step->held->text[0] = '\0';
}

static void step_invalidate(struct step *step)
{
    struct model_key *key = step->key;
    const bool hard = chance(step->model, 2) == 0;
    const long long expected = (key->value != NO_VALUE ? 1 : 0) + (is_set(&key->lease) ? 2 : 0);
    assert_int_equal(number(invalidate_raw(&key->names, step->message, hard ? 'h' : 's', "50000")), expected);
    if (hard || key->value == NO_VALUE)
        key->value = NO_VALUE;
    else
        key->value = STALE;
    key->lease.text[0] = key->waiting[0] = '\0';
    key->failed = false;
    expect_told(step);
}

static void step_expire(struct step *step)
{
    struct model_key *key = step->key;
    switch (chance(step->model, 4)) {
    case 0:
        discard(command("DEL %s", key->names.lease));
        key->lease.text[0] = '\0';
        break;
    case 1:
        discard(command("DEL %s", key->names.failure));
        key->failed = false;
        break;
    case 2:
        discard(command("DEL %s", key->names.value));
        key->value = NO_VALUE;
        break;
    case 3:
        if (key->value == NO_VALUE)
            break;
        discard(command("PEXPIRE %s %d", key->names.value, STALE_MS));
        key->value = STALE;
        break;
    }
}

/* TTLs lost or lengthened by a clock that steps back; any acquire puts that right, also a peek. */
static void step_clock_back(struct step *step)
{
    struct model_key *key = step->key;
    const struct token token = token_of(++step->model->serial);
    const bool persist = chance(step->model, 2) == 0;
    const char *const names[] = {key->names.value, key->names.lease, key->names.failure};
    for (size_t i = 0; i < COUNT(names); i++)
        discard(persist ? command("PERSIST %s", names[i]) : command("PEXPIRE %s 86400000", names[i]));
    if (key->value == STALE)
        key->value = FRESH;
    assert_acquire(&key->names, (struct ask){.token = &token, .mode = 'p'}, expected_kind(key, 'p'));
}

/* Somebody writes under our value key. */
static void step_accident(struct step *step)
{
    const char *const name = step->key->names.value;
    discard(command("DEL %s", name));
    discard(command(chance(step->model, 2) == 0 ? "SET %s nonsense" : "RPUSH %s nonsense", name));
    const struct token token = token_of(++step->model->serial);
    step->key->value = NO_VALUE;
    assert_acquire(&step->key->names, (struct ask){.token = &token, .mode = 'p'},
                   expected_kind(step->key, 'p'));
    discard(command("DEL %s", name));
}

/* Weighted by how often each stands here. */
static void (*const model_steps[])(struct step *step) = {
    step_acquire, step_acquire, step_acquire, step_acquire,    step_acquire, step_renew,      step_renew,
    step_fill,    step_fill,    step_release, step_invalidate, step_expire,  step_clock_back, step_accident,
};

static void assert_content(redisReply *reply, const char *expected, size_t expected_bytes)
{
    if (expected == NULL) {
        assert_int_equal(reply->type, REDIS_REPLY_NIL);
    } else {
        assert_int_equal(reply->type, REDIS_REPLY_STRING);
        assert_true((size_t)reply->len >= expected_bytes);
        assert_memory_equal(reply->str, expected, expected_bytes);
    }
    freeReplyObject(reply);
}

static void assert_expires(redisReply *reply, bool exists_in_model, long long limit_ms)
{
    assert_int_equal(reply->type, REDIS_REPLY_INTEGER);
    if (exists_in_model)
        assert_in_range(reply->integer, 1, limit_ms);
    else
        assert_int_equal(reply->integer, -2);
    freeReplyObject(reply);
}

static redisReply *next_reply(void)
{
    redisReply *reply = NULL;
    assert_int_equal(redisGetReply(server.commands, (void **)&reply), REDIS_OK);
    return reply;
}

/* Of the clients that believe, at most one is right, and Redis and the model agree about which. */
static void assert_one_holder(const struct model *model, size_t k)
{
    size_t holders = 0;
    for (size_t c = 0; c < MODEL_CLIENTS; c++)
        if (is_set(&model->held[c][k]) && is_same(&model->held[c][k], &model->keys[k].lease))
            holders++;
    assert_in_range(holders, 0, 1);
}

static void assert_redis_is_as_modelled(const struct model *model)
{
    for (size_t k = 0; k < MODEL_KEYS; k++) {
        const struct names *names = &model->keys[k].names;
        const char *const all[] = {names->lease, names->value, names->failure, names->waiting};
        for (size_t i = 0; i < COUNT(all); i++) {
            redisAppendCommand(server.commands, "GET %s", all[i]);
            redisAppendCommand(server.commands, "PTTL %s", all[i]);
        }
    }
    for (size_t k = 0; k < MODEL_KEYS; k++) {
        const struct model_key *key = &model->keys[k];
        const bool is_held = is_set(&key->lease);
        assert_content(next_reply(), is_held ? key->lease.text : NULL, strlen(key->lease.text));
        assert_expires(next_reply(), is_held, LEASE_MS);
        assert_content(next_reply(), key->value != NO_VALUE ? key->filler.text : NULL, 36);
        assert_expires(next_reply(), key->value != NO_VALUE, key->value == STALE ? STALE_MS : PX_MS);
        assert_content(next_reply(), key->failed ? "0000020000 unavailable" : NULL, 22);
        assert_expires(next_reply(), key->failed, FAILURE_MS);
        assert_content(next_reply(), key->waiting[0] != '\0' ? key->waiting : NULL, 16);
        assert_expires(next_reply(), key->waiting[0] != '\0', LEASE_MS);
        assert_one_holder(model, k);
    }
}

/* Models do not age: what runs out while a slow machine works through the steps gets its TTL back. */
static void refresh_ttls(const struct model *model)
{
    for (size_t k = 0; k < MODEL_KEYS; k++) {
        const struct model_key *key = &model->keys[k];
        discard(command("PEXPIRE %s %d", key->names.lease, LEASE_MS));
        discard(command("PEXPIRE %s %d", key->names.failure, FAILURE_MS));
        discard(command("PEXPIRE %s %d", key->names.waiting, LEASE_MS));
        discard(command("PEXPIRE %s %d", key->names.value, key->value == STALE ? STALE_MS : PX_MS));
    }
}

TEST(a_long_random_sequence_agrees_with_the_model)
{
    struct model model = {.seed = 20240229, .serial = 1};
    for (size_t k = 0; k < MODEL_KEYS; k++) {
        char key[] = {'k', (char)('0' + k), '\0'};
        model.keys[k].names = names_of(key);
    }
    for (unsigned i = 0; i < STEPS; i++) {
        const size_t k = chance(&model, MODEL_KEYS), client = chance(&model, MODEL_CLIENTS);
        struct step step = {.model = &model,
                            .key = &model.keys[k],
                            .held = &model.held[client][k],
                            .unanswered = &model.unanswered[client][k]};
        snprintf(step.message, sizeof(step.message), "m%u", i);
        model_steps[chance(&model, COUNT(model_steps))](&step);
        assert_redis_is_as_modelled(&model);
        if (i % TOLD_EVERY == TOLD_EVERY - 1) {
            told(model.told);
            model.told[0] = '\0';
            refresh_ttls(&model);
        }
    }
}

TEST_GROUP(.up = start_server, .down = stop_server, .before = empty_server);
