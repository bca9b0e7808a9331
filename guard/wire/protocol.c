/* SPDX-License-Identifier: MIT */
/* protocol.c - see protocol.h. */
#include "protocol.h"
#include "../base/clock.h"
#include "envelope.h"
#include "protocol_tags.h"
#include "scripts.h"
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    ALL_KEYS = 4, /* what most scripts are given: add_all_keys() */
    ARGS_MAX = 13,
    NUMBER_SIZE = 24,
    MESSAGE_SIZE = KEY_ENCODED_MAX + TOKEN_TAG_BYTES + 8,
};

static const char TOO_BIG[] = "too_big";

void protocol_init(struct protocol *protocol, const char *name_space, unsigned database,
                   uint32_t max_lease_ms, uint32_t max_value_ms)
{
    char host[64] = "";
    protocol->name_space = name_space;
    protocol->max_lease_ms = max_lease_ms;
    protocol->max_value_ms = max_value_ms;
    protocol->permits = protocol->permit_ms = protocol->push_bytes = 0;
    key_channel(name_space, database, protocol->channel);
    if (gethostname(host, sizeof host) != 0)
        snprintf(host, sizeof host, "?");
    host[sizeof host - 1] = '\0';
    snprintf(protocol->process, sizeof protocol->process, "%.31s:%ld", host, (long)getpid());
}

void protocol_token(const struct protocol *protocol, const uint8_t random[24], uint32_t lease_ms,
                    uint64_t since_s, char token[TOKEN_SIZE])
{
    char uuid[CLOCK_UUID_SIZE];
    uint64_t tag = 0;
    clock_uuid(random, uuid);
    memcpy(&tag, random + 16, sizeof tag);
    snprintf(token, TOKEN_SIZE, "%s %016" PRIx64 " %07" PRIu32 " %.48s %" PRIu64, uuid, tag, lease_ms,
             protocol->process, since_s);
}

/* ---- arguments ---- */

/* KEYS, then ARGV, with room for what has to be printed. */
struct arguments {
    const char *at[ARGS_MAX];
    size_t bytes[ARGS_MAX];
    size_t count;
    char names[ALL_KEYS][KEY_NAME_SIZE];
    char numbers[3][NUMBER_SIZE];
    char message[MESSAGE_SIZE];
    size_t name_count, number_count;
};

static void add_argument(struct arguments *args, const char *text, size_t bytes)
{
    assert(args->count < ARGS_MAX);
    args->at[args->count] = text;
    args->bytes[args->count++] = bytes;
}

static void add_text(struct arguments *args, const char *text)
{
    add_argument(args, text, strlen(text));
}

static void add_key(struct arguments *args, const struct protocol *protocol, const struct core_key *key,
                    enum key_role role)
{
    char *name = args->names[args->name_count++];
    add_argument(args, name, key_name(protocol->name_space, key->encoded, role, name));
}

static void add_all_keys(struct arguments *args, const struct protocol *protocol, const struct core_key *key)
{
    add_key(args, protocol, key, KEY_VALUE);
    add_key(args, protocol, key, KEY_LEASE);
    add_key(args, protocol, key, KEY_FAILURE);
    add_key(args, protocol, key, KEY_WAITING);
}

static void add_number(struct arguments *args, uint64_t number)
{
    char *text = args->numbers[args->number_count++];
    int bytes = snprintf(text, NUMBER_SIZE, "%" PRIu64, number);
    add_argument(args, text, (size_t)bytes);
}

static void add_message(struct arguments *args, const struct protocol *protocol, char operation,
                        const struct core_action *action)
{
    const char *tag = action->token != NULL ? action->token + TOKEN_TAG_AT : "-";
    int tag_bytes = action->token != NULL ? TOKEN_TAG_BYTES : 1;
    int bytes = snprintf(args->message, sizeof args->message, "%c %.*s %s", operation, tag_bytes, tag,
                         action->key.encoded);
    add_text(args, protocol->channel);
    add_argument(args, args->message, (size_t)bytes);
}

static bool run_script(struct redis *redis, enum script script, size_t key_count,
                       const struct arguments *args, redis_replied *replied, void *context)
{
    return redis_run(redis, script, key_count, args->count, args->at, args->bytes, replied, context);
}

static bool run_acquire(const struct protocol *protocol, struct redis *redis,
                        const struct core_action *action, redis_replied *replied, void *context)
{
    struct arguments args = {.count = 0};
    char mode[2] = {(char)action->lookup, '\0'};
    char waits[2] = {protocol->push_bytes > 0 ? (char)action->waits : '\0', '\0'};
    add_all_keys(&args, protocol, &action->key);
    add_text(&args, action->token);
    add_text(&args, action->prev);
    add_number(&args, action->lease_ms);
    add_number(&args, protocol->max_lease_ms);
    add_number(&args, protocol->max_value_ms);
    add_argument(&args, mode, 1);
    add_text(&args, action->lookup == LOOKUP_EARLY ? action->wanted : action->refused);
    add_text(&args, waits);
    return run_script(redis, SCRIPT_ACQUIRE, ALL_KEYS, &args, replied, context);
}

static bool run_renew(const struct protocol *protocol, struct redis *redis, const struct core_action *action,
                      redis_replied *replied, void *context)
{
    struct arguments args = {.count = 0};
    add_key(&args, protocol, &action->key, KEY_LEASE);
    add_text(&args, action->token);
    add_number(&args, action->lease_ms);
    return run_script(redis, SCRIPT_RENEW, 1, &args, replied, context);
}

static struct envelope envelope_of(const struct core_action *action)
{
    struct envelope envelope = {
        .px_ms = (uint64_t)action->fresh_ms + action->stale_ms,
        .stale_ms = action->stale_ms,
        .absent = action->absent,
        .load_us = action->load_us,
        .key = action->key.plain,
        .key_bytes = action->key.plain_bytes,
        .tags = "",
        .validator = "",
        .body = "",
    };
    memcpy(envelope.filler, action->token, ENVELOPE_UUID_BYTES);
    envelope.filler[ENVELOPE_UUID_BYTES] = '\0';
    if (action->value != NULL) {
        envelope.validator = action->value->public.validator;
        envelope.validator_bytes = action->value->validator_bytes;
        envelope.body = action->value->public.body;
        envelope.body_bytes = action->value->public.body_bytes;
        envelope.tags = action->value->tags;
        envelope.tags_bytes = action->value->tags_bytes;
        envelope.born = envelope.tags_bytes > 0 ? action->born : (struct tags_clock){0, 0};
    }
    return envelope;
}

/* Of a touch only the ends of the new envelope travel: Redis has what lies between them. */
static void add_ends(struct arguments *args, const struct core_action *action, const char *text, size_t bytes)
{
    add_argument(args, action->wanted, TOKEN_UUID_BYTES);
    add_argument(args, text, ENVELOPE_HEAD_BYTES);
    add_argument(args, text + bytes - ENVELOPE_CHECKSUM_BYTES, ENVELOPE_CHECKSUM_BYTES);
    add_number(args, bytes);
}

static bool run_store(const struct protocol *protocol, struct redis *redis, const struct core_action *action,
                      redis_replied *replied, void *context)
{
    bool touch = action->kind == CORE_TOUCH;
    struct envelope envelope = envelope_of(action);
    size_t bytes = envelope_size(&envelope);
    char *text = malloc(bytes);
    if (text == NULL)
        return false;
    envelope_write(&envelope, text);
    struct arguments args = {.count = 0};
    add_all_keys(&args, protocol, &action->key);
    add_text(&args, action->token);
    if (touch)
        add_ends(&args, action, text, bytes);
    else
        add_argument(&args, text, bytes);
    add_number(&args, envelope.px_ms);
    add_message(&args, protocol, 'f', action);
    add_number(&args, protocol->push_bytes);
    bool sent = run_script(redis, touch ? SCRIPT_TOUCH : SCRIPT_FILL, ALL_KEYS, &args, replied, context);
    free(text);
    return sent;
}

static const char *failure_code(const struct core_action *action)
{
    if (action->too_big)
        return TOO_BIG;
    return action->failure != GUARD_FAILURE_NONE ? guard_failure_name(action->failure) : "";
}

static bool run_release(const struct protocol *protocol, struct redis *redis,
                        const struct core_action *action, redis_replied *replied, void *context)
{
    struct arguments args = {.count = 0};
    add_key(&args, protocol, &action->key, KEY_LEASE);
    add_key(&args, protocol, &action->key, KEY_FAILURE);
    add_key(&args, protocol, &action->key, KEY_WAITING);
    add_text(&args, action->token);
    add_message(&args, protocol, 'r', action);
    add_text(&args, failure_code(action));
    add_number(&args, action->failure_ms);
    return run_script(redis, SCRIPT_RELEASE, 3, &args, replied, context);
}

static bool run_invalidate(const struct protocol *protocol, struct redis *redis,
                           const struct core_action *action, redis_replied *replied, void *context)
{
    struct arguments args = {.count = 0};
    if (action->of_tag)
        return protocol_send_tag_invalidation(protocol, redis, &action->key, replied, context);
    add_all_keys(&args, protocol, &action->key);
    add_message(&args, protocol, 'i', action);
    add_text(&args, "h");
    add_number(&args, 0);
    return run_script(redis, SCRIPT_INVALIDATE, ALL_KEYS, &args, replied, context);
}

/* Acquire and release begin alike. */
static void add_permit_head(struct arguments *args, const struct protocol *protocol,
                            const struct core_action *action)
{
    add_key(args, protocol, &action->key, KEY_PERMITS);
    add_key(args, protocol, &action->key, KEY_QUEUE);
    add_key(args, protocol, &action->key, KEY_ALIVE);
    add_text(args, action->token);
    add_text(args, action->waiter);
    add_number(args, protocol->permits);
}

static bool run_permit_acquire(const struct protocol *protocol, struct redis *redis,
                               const struct core_action *action, redis_replied *replied, void *context)
{
    struct arguments args = {.count = 0};
    add_permit_head(&args, protocol, action);
    add_number(&args, protocol->permit_ms);
    add_number(&args, PERMIT_WAIT_MS);
    add_text(&args, action->background ? "r" : "u");
    add_text(&args, action->more ? "1" : "0");
    add_text(&args, protocol->channel);
    return run_script(redis, SCRIPT_PERMIT_ACQUIRE, 3, &args, replied, context);
}

static bool run_permit_renew(const struct protocol *protocol, struct redis *redis,
                             const struct core_action *action, redis_replied *replied, void *context)
{
    struct arguments args = {.count = 0};
    add_key(&args, protocol, &action->key, KEY_PERMITS);
    add_text(&args, action->token);
    add_number(&args, protocol->permit_ms);
    return run_script(redis, SCRIPT_PERMIT_RENEW, 1, &args, replied, context);
}

static bool run_permit_release(const struct protocol *protocol, struct redis *redis,
                               const struct core_action *action, redis_replied *replied, void *context)
{
    struct arguments args = {.count = 0};
    add_permit_head(&args, protocol, action);
    add_text(&args, protocol->channel);
    return run_script(redis, SCRIPT_PERMIT_RELEASE, 3, &args, replied, context);
}

bool protocol_send(const struct protocol *protocol, struct redis *redis, const struct core_action *action,
                   redis_replied *replied, void *context)
{
    switch (action->kind) {
    case CORE_ACQUIRE:
        return run_acquire(protocol, redis, action, replied, context);
    case CORE_RENEW:
        return run_renew(protocol, redis, action, replied, context);
    case CORE_FILL:
    case CORE_TOUCH:
        return run_store(protocol, redis, action, replied, context);
    case CORE_RELEASE:
        return run_release(protocol, redis, action, replied, context);
    case CORE_INVALIDATE:
        return run_invalidate(protocol, redis, action, replied, context);
    case CORE_PERMIT_ACQUIRE:
        return run_permit_acquire(protocol, redis, action, replied, context);
    case CORE_PERMIT_RENEW:
        return run_permit_renew(protocol, redis, action, replied, context);
    case CORE_PERMIT_RELEASE:
        return run_permit_release(protocol, redis, action, replied, context);
    case CORE_LOAD:
    case CORE_CANCEL:
        break;
    }
    return false;
}

bool protocol_send_cache_id(const struct protocol *protocol, struct redis *redis, const char *proposed,
                            redis_replied *replied, void *context)
{
    struct arguments args = {.count = 0};
    add_argument(&args, args.names[0], key_cache_id(protocol->name_space, args.names[0]));
    add_argument(&args, proposed, GUARD_CACHE_ID_BYTES);
    add_number(&args, protocol->max_value_ms);
    return run_script(redis, SCRIPT_CACHE_ID, 1, &args, replied, context);
}

/* ---- replies ---- */

const char *protocol_read_cache_id(enum redis_outcome outcome, const struct redisReply *reply)
{
    const bool told = outcome == REDIS_REPLIED && reply->type == REDIS_REPLY_STRING;
    return told && reply->len == GUARD_CACHE_ID_BYTES ? reply->str : NULL;
}

static uint32_t span(int64_t ms)
{
    if (ms < 0)
        return 0;
    return ms > UINT32_MAX ? UINT32_MAX : (uint32_t)ms;
}

/* The n-th element if it is of this type, else NULL. */
static const struct redisReply *element(const struct redisReply *reply, size_t n, int type)
{
    if (n >= reply->elements || reply->element[n]->type != type)
        return NULL;
    return reply->element[n];
}

static int64_t number(const struct redisReply *reply, size_t n)
{
    const struct redisReply *at = element(reply, n, REDIS_REPLY_INTEGER);
    return at != NULL ? at->integer : 0;
}

static enum core_refresher refresher_of(int64_t number)
{
    if (number == 1)
        return REFRESH_OURS;
    return number == -1 ? REFRESH_COOLING : REFRESH_OTHERS;
}

static void read_entry(const struct redisReply *entry, int64_t pttl_ms, const char *key, size_t key_bytes,
                       struct core_reply *out, struct value **value)
{
    struct envelope envelope;
    enum envelope_fault fault = envelope_read(entry->str, entry->len, key, key_bytes, &envelope);
    out->head = entry->str;
    out->damaged = fault != ENVELOPE_OK;
    if (out->damaged)
        return;
    out->absent = envelope.absent;
    out->load_us = envelope.load_us;
    out->age_ms = span((int64_t)envelope.px_ms - pttl_ms);
    out->left_ms = span(pttl_ms - (int64_t)envelope.stale_ms);
    out->tags = envelope.tags;
    out->tags_bytes = envelope.tags_bytes;
    out->born = envelope.born;
    if (envelope.absent)
        return;
    *value = value_new_tagged(envelope.body, envelope.body_bytes, envelope.validator,
                              envelope.validator_bytes, envelope.tags, envelope.tags_bytes);
    out->value = *value;
    if (*value == NULL)
        out->kind = REPLY_UNKNOWN; /* no memory for it: ask again, and give back a lease that came with it */
}

static void read_failure(const struct redisReply *code, struct core_reply *out)
{
    out->kind = REPLY_FAILED;
    out->failure = GUARD_FAILURE_INTERNAL;
    out->too_big = strcmp(code->str, TOO_BIG) == 0;
    for (int failure = GUARD_FAILURE_UNAVAILABLE; failure <= GUARD_FAILURE_CYCLE; failure++)
        if (strcmp(code->str, guard_failure_name((enum guard_failure)failure)) == 0)
            out->failure = (enum guard_failure)failure;
}

static bool is_lease_tag(const char *text, size_t bytes)
{
    static const char DIGITS[] = "0123456789abcdef";
    size_t at = 0;
    while (at < bytes && text[at] != '\0' && strchr(DIGITS, text[at]) != NULL)
        at++;
    return bytes == TOKEN_TAG_BYTES && at == bytes;
}

static const char *lease_tag_in(const struct redisReply *reply, size_t at)
{
    const struct redisReply *tag = element(reply, at, REDIS_REPLY_STRING);
    return tag != NULL && is_lease_tag(tag->str, tag->len) ? tag->str : NULL;
}

static void read_found(char what, const char *key, size_t key_bytes, const struct redisReply *reply,
                       struct core_reply *out, struct value **value)
{
    const struct redisReply *entry = element(reply, 1, REDIS_REPLY_STRING);
    if (entry == NULL || entry->len < TOKEN_UUID_BYTES)
        return;
    out->kind = what == 'H' ? REPLY_FRESH : REPLY_STALE;
    out->refresher = refresher_of(number(reply, 3));
    out->pttl_ms = span(number(reply, 2));
    out->cool_ms = span(number(reply, 4));
    out->lease_tag = lease_tag_in(reply, 4);
    read_entry(entry, number(reply, 2), key, key_bytes, out, value);
}

static void read_acquire(const char *key, size_t key_bytes, const struct redisReply *reply,
                         struct core_reply *out, struct value **value)
{
    const struct redisReply *what = element(reply, 0, REDIS_REPLY_STRING);
    const struct redisReply *code = element(reply, 1, REDIS_REPLY_STRING);
    if (what == NULL || what->len != 1)
        return;
    switch (what->str[0]) {
    case 'H':
    case 'S':
        read_found(what->str[0], key, key_bytes, reply, out, value);
        break;
    case 'L':
        out->kind = REPLY_LEASE;
        break;
    case 'B':
        out->kind = REPLY_BUSY;
        out->pttl_ms = span(number(reply, 1));
        out->lease_tag = lease_tag_in(reply, 2);
        break;
    case 'E':
        out->pttl_ms = span(number(reply, 2));
        if (code != NULL)
            read_failure(code, out);
        break;
    case 'M':
        out->kind = REPLY_FREE;
        break;
    }
}

void protocol_read(enum core_action_kind kind, const char *key, size_t key_bytes, enum redis_outcome outcome,
                   const struct redisReply *reply, struct core_reply *out, struct value **value)
{
    *value = NULL;
    *out = (struct core_reply){.kind = REPLY_REFUSED};
    if (outcome == REDIS_UNSENT)
        out->kind = REPLY_UNSENT;
    else if (outcome == REDIS_UNKNOWN)
        out->kind = REPLY_UNKNOWN;
    else if (kind == CORE_ACQUIRE && reply->type == REDIS_REPLY_ARRAY)
        read_acquire(key, key_bytes, reply, out, value);
    else if (kind != CORE_ACQUIRE && reply->type == REDIS_REPLY_INTEGER)
        *out = (struct core_reply){.kind = REPLY_CODE, .code = reply->integer};
}

/* ---- messages ---- */

static enum message_kind message_kind(char operation)
{
    switch (operation) {
    case 'f':
        return MESSAGE_FILLED;
    case 'r':
        return MESSAGE_RELEASED;
    case 'i':
        return MESSAGE_INVALIDATED;
    case 'p':
        return MESSAGE_PERMIT;
    case 't':
        return MESSAGE_TAG;
    case 'c':
        return MESSAGE_CANARY;
    }
    return MESSAGE_NONE;
}

/* The key, and what travels behind it. No encoded key has a space. */
static void split_entry(struct message *message)
{
    const char *space = memchr(message->subject, ' ', message->subject_bytes);
    if (space == NULL)
        return;
    size_t key_bytes = (size_t)(space - message->subject);
    message->entry = space + 1;
    message->entry_bytes = message->subject_bytes - key_bytes - 1;
    message->subject_bytes = key_bytes;
}

struct message protocol_message(const char *payload, size_t payload_bytes)
{
    struct message none = {.kind = MESSAGE_NONE};
    if (payload_bytes < 3 || payload[1] != ' ')
        return none;
    struct message message = {
        .kind = message_kind(payload[0]), .subject = payload + 2, .subject_bytes = payload_bytes - 2};
    if (message.kind == MESSAGE_CANARY || message.kind == MESSAGE_NONE)
        return message;
    const char *space = memchr(message.subject, ' ', message.subject_bytes);
    if (space == NULL)
        return none;
    if (is_lease_tag(message.subject, (size_t)(space - message.subject)))
        message.lease_tag = message.subject;
    message.subject_bytes -= (size_t)(space + 1 - message.subject);
    message.subject = space + 1;
    if (message.kind == MESSAGE_FILLED)
        split_entry(&message);
    return message.subject_bytes > 0 ? message : none;
}

/* What may be answered without a look at Redis. */
static bool may_travel(const struct protocol *protocol, const struct envelope *envelope)
{
    return envelope->px_ms <= protocol->max_value_ms; /* above it, acquire clamps the TTL */
}

bool protocol_pushed(const struct protocol *protocol, const struct message *message,
                     const struct core_key *key, struct core_pushed *out, struct value **value)
{
    struct envelope envelope;
    *value = NULL;
    if (envelope_read(message->entry, message->entry_bytes, key->plain, key->plain_bytes, &envelope) !=
            ENVELOPE_OK ||
        !may_travel(protocol, &envelope))
        return false;
    if (!envelope.absent)
        *value = value_new_tagged(envelope.body, envelope.body_bytes, envelope.validator,
                                  envelope.validator_bytes, envelope.tags, envelope.tags_bytes);
    *out = (struct core_pushed){.lease_tag = message->lease_tag,
                                .tags = envelope.tags,
                                .tags_bytes = envelope.tags_bytes,
                                .born = envelope.born,
                                .value = *value,
                                .absent = envelope.absent,
                                .fresh_ms = span((int64_t)(envelope.px_ms - envelope.stale_ms))};
    return envelope.absent || *value != NULL;
}
