/* SPDX-License-Identifier: MIT */
/* protocol.c - see protocol.h. guard_scripts.h is made by scripts/embed.sh. */
#include "protocol.h"
#include "../base/clock.h"
#include "../base/load_id.h"
#include "envelope.h"
#include "guard_scripts.h"
#include "sweep.h"
#include "wake.h"
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FAILURE_TEXT_SIZE = 48 };

#define SCRIPT_ENTRY(id, name) [id] = {name##_lua, sizeof(name##_lua) - 1}

const struct redis_script protocol_scripts[SCRIPT_COUNT] = {
    SCRIPT_ENTRY(SCRIPT_ACQUIRE, acquire),
    SCRIPT_ENTRY(SCRIPT_RENEW, renew),
    SCRIPT_ENTRY(SCRIPT_FILL, fill),
    SCRIPT_ENTRY(SCRIPT_TOUCH, touch),
    SCRIPT_ENTRY(SCRIPT_RELEASE, release),
    SCRIPT_ENTRY(SCRIPT_INVALIDATE, invalidate),
    SCRIPT_ENTRY(SCRIPT_PERMIT_ACQUIRE, permit_acquire),
    SCRIPT_ENTRY(SCRIPT_PERMIT_RENEW, permit_renew),
    SCRIPT_ENTRY(SCRIPT_PERMIT_RELEASE, permit_release),
    SCRIPT_ENTRY(SCRIPT_TAG_CLOCK, tag_clock),
    SCRIPT_ENTRY(SCRIPT_TAG_KEEP, tag_keep),
    SCRIPT_ENTRY(SCRIPT_TAG_INVALIDATE, tag_invalidate),
    SCRIPT_ENTRY(SCRIPT_TAG_STALE, tag_stale),
    SCRIPT_ENTRY(SCRIPT_MAKE_STALE, make_stale),
    SCRIPT_ENTRY(SCRIPT_CACHE_ID, cache_id),
};

#undef SCRIPT_ENTRY

static const char TOO_BIG[] = "too_big";

void protocol_init(struct protocol *protocol, const char *name_space, unsigned database,
                   uint32_t max_lease_ms, uint32_t max_value_ms)
{
    char host[64] = "";
    protocol->name_space = name_space;
    protocol->max_lease_ms = max_lease_ms;
    protocol->max_value_ms = max_value_ms;
    protocol->permits = protocol->permit_ms = protocol->push_bytes = 0;
    protocol->in_cluster = protocol->waits = false;
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

/* ---- a call and its arguments ---- */

struct script_call {
    const struct protocol *protocol;
    const struct core_action *action; /* NULL: what goes beside one */
    struct redis_args args;
    char *entry; /* owned; NULL: none */
};

/* The rest of it is written where it is needed. */
static void begin_call(struct script_call *call, const struct protocol *protocol,
                       const struct core_action *action)
{
    call->protocol = protocol;
    call->action = action;
    call->entry = NULL;
    redis_args_init(&call->args);
}

static void add_letter(struct script_call *call, char letter)
{
    char *text = redis_args_room(&call->args, 1);
    *text = letter;
    redis_args_add(&call->args, text, letter != '\0');
}

/* Of a cache key: each role is the last letter of its name. */
static void add_keys(struct script_call *call, const char *encoded, const char *roles)
{
    for (size_t i = 0; roles[i] != '\0'; i++) {
        char *name = redis_args_room(&call->args, KEY_NAME_SIZE);
        redis_args_key(&call->args, name,
                       key_name(call->protocol->name_space, encoded, (enum key_role)roles[i], name));
    }
}

/* What the scripts of the tags are given. */
static void add_clock(struct script_call *call)
{
    char *clock = redis_args_room(&call->args, KEY_NAME_SIZE);
    char *reign = redis_args_room(&call->args, KEY_NAME_SIZE);
    redis_args_key(&call->args, clock, key_tag_clock(call->protocol->name_space, clock));
    redis_args_key(&call->args, reign, key_tag_reign(call->protocol->name_space, reign));
}

typedef size_t tag_name(const char *name_space, const char *encoded, size_t encoded_bytes,
                        char out[KEY_NAME_SIZE]);

/* The name that each of these tags has of this sort. */
static void add_tags(struct script_call *call, tag_name *name_of, const char *text, size_t bytes)
{
    struct tag tags[GUARD_TAGS_MAX];
    int count = tags_split(text, bytes, tags);
    for (int i = 0; i < count; i++) {
        char *name = redis_args_room(&call->args, KEY_NAME_SIZE);
        redis_args_key(&call->args, name,
                       name_of(call->protocol->name_space, tags[i].at, tags[i].bytes, name));
    }
}

static void add_born(struct script_call *call, const struct tags_clock *born)
{
    char *text = redis_args_room(&call->args, TAGS_CLOCK_BYTES + 1);
    tags_clock_write(born, text);
    redis_args_add(&call->args, text, TAGS_CLOCK_BYTES);
}

static void add_message(struct script_call *call, enum message_kind kind)
{
    const char *token = call->action->token, *lease_tag = token != NULL ? token + TOKEN_TAG_AT : NULL;
    char *message = redis_args_room(&call->args, MESSAGE_SIZE);
    redis_args_text(&call->args, call->protocol->channel);
    redis_args_add(&call->args, message, message_write(kind, lease_tag, call->action->key.encoded, message));
}

static struct envelope envelope_of(const struct core_action *action)
{
    struct envelope envelope = {
        .px_ms = (uint64_t)action->fresh_ms + action->stale_ms,
        .stale_ms = action->stale_ms,
        .absent = action->absent,
        .mark = action->mark,
        .life = action->life,
        .load_us = action->load_us,
        .key = action->key.plain,
        .key_bytes = action->key.plain_bytes,
        .tags = "",
        .validator = "",
        .body = "",
        .meta = "",
    };
    memcpy(envelope.filler, action->token, ENVELOPE_UUID_BYTES);
    envelope.filler[ENVELOPE_UUID_BYTES] = '\0';
    if (action->value != NULL && !action->mark) {
        envelope.validator = action->value->public.validator;
        envelope.validator_bytes = action->value->validator_bytes;
        envelope.body = action->value->public.body;
        envelope.body_bytes = action->value->public.body_bytes;
        envelope.meta = action->value->public.meta;
        envelope.meta_bytes = action->value->public.meta_bytes;
    }
    if (action->value != NULL) {
        envelope.tags = action->value->tags;
        envelope.tags_bytes = action->value->tags_bytes;
        envelope.born = envelope.tags_bytes > 0 ? action->born : (struct tags_clock){0, 0};
    }
    return envelope;
}

/* The entry as it is stored, or as it travels: its bytes; 0: no memory. */
static size_t write_entry(struct script_call *call, const struct envelope *envelope)
{
    size_t bytes = envelope_size(envelope);
    call->entry = malloc(bytes);
    if (call->entry == NULL)
        return 0;
    envelope_write(envelope, call->entry);
    return bytes;
}

/* Of an entry that only gets a new envelope its ends travel: Redis has what lies between them. */
static void add_ends(struct script_call *call, const char *filler, size_t bytes)
{
    redis_args_add(&call->args, filler, TOKEN_UUID_BYTES);
    redis_args_add(&call->args, call->entry, ENVELOPE_HEAD_BYTES);
    redis_args_add(&call->args, call->entry + bytes - ENVELOPE_CHECKSUM_BYTES, ENVELOPE_CHECKSUM_BYTES);
    redis_args_number(&call->args, bytes);
}

/* ---- what each script is given ---- */

/* A capital if it wants nothing pushed. */
static char wait_letter(const struct protocol *protocol, enum core_wait waits)
{
    static const char QUIET_BUSY = 'B', QUIET_REFRESH = 'S';
    if (protocol->push_bytes > 0 || waits == WAIT_NOT)
        return (char)waits;
    return waits == WAIT_BUSY ? QUIET_BUSY : QUIET_REFRESH;
}

/* The entries that an acquire makes a difference for. */
static const char *named_in(const struct core_action *action)
{
    switch (action->lookup) {
    case LOOKUP_EARLY:
        return action->wanted;
    case LOOKUP_REVALIDATE:
    case LOOKUP_REVALIDATE_PEEK:
        return action->names_seen;
    case LOOKUP_NORMAL:
    case LOOKUP_NO_STALE:
    case LOOKUP_PEEK:
        break;
    }
    return action->refused;
}

static void give_acquire(struct script_call *call)
{
    const struct core_action *action = call->action;
    add_keys(call, action->key.encoded, "vlew");
    redis_args_text(&call->args, action->token);
    redis_args_text(&call->args, action->prev);
    redis_args_number(&call->args, action->lease_ms);
    redis_args_number(&call->args, call->protocol->max_lease_ms);
    redis_args_number(&call->args, call->protocol->max_value_ms);
    add_letter(call, (char)action->lookup);
    redis_args_text(&call->args, named_in(action));
    add_letter(call, wait_letter(call->protocol, action->waits));
}

/* Fill and touch; false: no memory. */
static bool give_store(struct script_call *call)
{
    const struct core_action *action = call->action;
    struct envelope envelope = envelope_of(action);
    size_t bytes = write_entry(call, &envelope);
    add_keys(call, action->key.encoded, "vlew");
    redis_args_text(&call->args, action->token);
    if (bytes > 0 && action->kind == CORE_TOUCH)
        add_ends(call, action->wanted, bytes);
    else
        redis_args_add(&call->args, call->entry, bytes);
    redis_args_number(&call->args, envelope.px_ms);
    add_message(call, MESSAGE_FILLED);
    redis_args_number(&call->args, call->protocol->push_bytes);
    return bytes > 0;
}

/* What the failure lease says: why, and behind a space which load it was. */
static const char *failure_text(struct script_call *call)
{
    const struct core_action *action = call->action;
    if (action->too_big)
        return TOO_BIG;
    if (action->failure == GUARD_FAILURE_NONE)
        return "";
    if (action->load == 0)
        return guard_failure_name(action->failure);
    char *text = redis_args_room(&call->args, FAILURE_TEXT_SIZE);
    snprintf(text, FAILURE_TEXT_SIZE, "%s %016" PRIx64, guard_failure_name(action->failure), action->load);
    return text;
}

/* False: no memory. */
static bool give_release(struct script_call *call)
{
    const struct core_action *action = call->action;
    size_t bytes = 0;
    if (action->shares) {
        struct envelope envelope = envelope_of(action);
        bytes = write_entry(call, &envelope);
    }
    add_keys(call, action->key.encoded, "lew");
    redis_args_text(&call->args, action->token);
    add_message(call, MESSAGE_RELEASED);
    redis_args_text(&call->args, failure_text(call));
    redis_args_number(&call->args, action->failure_ms);
    redis_args_add(&call->args, call->entry != NULL ? call->entry : "", bytes);
    if (action->abandoned_ms > 0)
        redis_args_number(&call->args, action->abandoned_ms);
    return !action->shares || bytes > 0;
}

static void give_invalidate(struct script_call *call)
{
    const struct core_action *action = call->action;
    add_keys(call, action->key.encoded, "vlew");
    add_message(call, MESSAGE_INVALIDATED);
    redis_args_text(&call->args, action->expires ? "s" : "h");
    redis_args_number(&call->args, call->protocol->max_value_ms);
}

static void give_tag_invalidate(struct script_call *call)
{
    const struct core_action *action = call->action;
    add_clock(call);
    add_tags(call, key_tag, action->key.encoded, action->key.encoded_bytes);
    add_tags(call, key_tag_expiry, action->key.encoded, action->key.encoded_bytes);
    redis_args_number(&call->args, call->protocol->max_value_ms);
    add_message(call, MESSAGE_TAG);
    redis_args_text(&call->args, action->expires ? "s" : "h");
}

/* Acquire and release, which begin alike. */
static void give_permit(struct script_call *call)
{
    const struct core_action *action = call->action;
    add_keys(call, action->key.encoded, "pqa");
    redis_args_text(&call->args, action->token);
    redis_args_text(&call->args, action->waiter);
    redis_args_number(&call->args, call->protocol->permits);
    if (action->kind == CORE_PERMIT_ACQUIRE) {
        redis_args_number(&call->args, call->protocol->permit_ms);
        redis_args_number(&call->args, PERMIT_WAIT_MS);
        redis_args_text(&call->args, action->background ? "r" : "u");
        redis_args_text(&call->args, action->more ? "1" : "0");
    }
    redis_args_text(&call->args, call->protocol->channel);
}

/* ---- sending ---- */

static bool run_call(struct redis *redis, enum script script, const struct script_call *call,
                     redis_replied *replied, void *context)
{
    return redis_run(redis, REDIS_RUN, script, &call->args, replied, context);
}

/* Which script it is, with all that it is given. SCRIPT_COUNT: none, or no memory. */
static enum script give(struct script_call *call)
{
    const struct core_action *action = call->action;
    switch (action->kind) {
    case CORE_ACQUIRE:
        give_acquire(call);
        return SCRIPT_ACQUIRE;
    case CORE_RENEW:
        add_keys(call, action->key.encoded, action->asks_wait ? "lw" : "l");
        redis_args_text(&call->args, action->token);
        redis_args_number(&call->args, action->lease_ms);
        return SCRIPT_RENEW;
    case CORE_FILL:
        return give_store(call) ? SCRIPT_FILL : SCRIPT_COUNT;
    case CORE_TOUCH:
        return give_store(call) ? SCRIPT_TOUCH : SCRIPT_COUNT;
    case CORE_RELEASE:
        return give_release(call) ? SCRIPT_RELEASE : SCRIPT_COUNT;
    case CORE_INVALIDATE:
        (call->action->of_tag ? give_tag_invalidate : give_invalidate)(call);
        return call->action->of_tag ? SCRIPT_TAG_INVALIDATE : SCRIPT_INVALIDATE;
    case CORE_PERMIT_ACQUIRE:
        give_permit(call);
        return SCRIPT_PERMIT_ACQUIRE;
    case CORE_PERMIT_RENEW:
        add_keys(call, action->key.encoded, "p");
        redis_args_text(&call->args, action->token);
        redis_args_number(&call->args, call->protocol->permit_ms);
        return SCRIPT_PERMIT_RENEW;
    case CORE_PERMIT_RELEASE:
        give_permit(call);
        return SCRIPT_PERMIT_RELEASE;
    case CORE_LOAD:
    case CORE_CANCEL:
    case CORE_FORGET:
        break;
    }
    return SCRIPT_COUNT;
}

bool protocol_send(const struct protocol *protocol, struct redis *redis, const struct core_action *action,
                   redis_replied *replied, void *context)
{
    struct script_call call REDIS_ARGS_UNCLEARED;
    if (action->kind == CORE_INVALIDATE && !action->of_tag && action->by_delete && !protocol->waits)
        return deletion_send(redis, protocol->name_space, protocol->channel, &action->key, replied, context);
    begin_call(&call, protocol, action);
    enum script script = give(&call);
    /* an invalidation must not be lost once it is confirmed */
    enum redis_call_kind kind = action->kind == CORE_INVALIDATE ? REDIS_REPLICATED : REDIS_RUN;
    bool sent = script != SCRIPT_COUNT && redis_run(redis, kind, script, &call.args, replied, context);
    free(call.entry);
    return sent;
}

bool protocol_send_cache_id(const struct protocol *protocol, struct redis *redis, const char *proposed,
                            redis_replied *replied, void *context)
{
    struct script_call call REDIS_ARGS_UNCLEARED;
    begin_call(&call, protocol, NULL);
    char *name = redis_args_room(&call.args, KEY_NAME_SIZE);
    redis_args_key(&call.args, name, key_cache_id(protocol->name_space, name));
    redis_args_add(&call.args, proposed, GUARD_CACHE_ID_BYTES);
    redis_args_number(&call.args, protocol->max_value_ms);
    return run_call(redis, SCRIPT_CACHE_ID, &call, replied, context);
}

/* ---- tags, beside others ---- */

/* In a Cluster the tags' master may be away while that of an entry is not: what goes beside the entry's script does
 * not wait for it. The first key is one of the tags. */
static bool run_beside(struct redis *redis, enum script script, const struct script_call *call,
                       redis_replied *replied, void *context)
{
    bool away =
        call->protocol->in_cluster && !redis_may_look_up(redis, call->args.at[0], call->args.bytes[0]);
    return !away && run_call(redis, script, call, replied, context);
}

bool protocol_send_clock(const struct protocol *protocol, struct redis *redis, redis_replied *replied,
                         void *context)
{
    struct script_call call REDIS_ARGS_UNCLEARED;
    begin_call(&call, protocol, NULL);
    add_clock(&call);
    redis_args_number(&call.args, protocol->max_value_ms);
    return run_beside(redis, SCRIPT_TAG_CLOCK, &call, replied, context);
}

bool protocol_send_keep(const struct protocol *protocol, struct redis *redis, const char *tags,
                        size_t tags_bytes, const struct tags_clock *born, redis_replied *replied,
                        void *context)
{
    struct script_call call REDIS_ARGS_UNCLEARED;
    begin_call(&call, protocol, NULL);
    add_clock(&call);
    add_tags(&call, key_tag, tags, tags_bytes);
    add_born(&call, born);
    redis_args_number(&call.args, protocol->max_value_ms);
    return run_beside(redis, SCRIPT_TAG_KEEP, &call, replied, context);
}

bool protocol_send_expiries(const struct protocol *protocol, struct redis *redis, const char *tags,
                            size_t tags_bytes, const struct tags_clock *born, redis_replied *replied,
                            void *context)
{
    struct script_call call REDIS_ARGS_UNCLEARED;
    begin_call(&call, protocol, NULL);
    add_tags(&call, key_tag, tags, tags_bytes);
    add_tags(&call, key_tag_expiry, tags, tags_bytes);
    add_born(&call, born);
    return run_beside(redis, SCRIPT_TAG_STALE, &call, replied, context);
}

bool protocol_send_make_stale(const struct protocol *protocol, struct redis *redis, const char *encoded,
                              const struct envelope *envelope, uint64_t stale_ms, redis_replied *replied,
                              void *context)
{
    struct script_call call REDIS_ARGS_UNCLEARED;
    begin_call(&call, protocol, NULL);
    size_t bytes = write_entry(&call, envelope);
    if (bytes == 0)
        return false;
    add_keys(&call, encoded, "v");
    add_ends(&call, envelope->filler, bytes);
    redis_args_number(&call.args, stale_ms);
    bool sent = run_call(redis, SCRIPT_MAKE_STALE, &call, replied, context);
    free(call.entry);
    return sent;
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
    out->mark = envelope.mark;
    out->life = envelope.life;
    out->load_us = envelope.load_us;
    out->age_ms = span((int64_t)envelope.px_ms - pttl_ms);
    out->left_ms = span(pttl_ms - (int64_t)envelope.stale_ms);
    out->tags = envelope.tags;
    out->tags_bytes = envelope.tags_bytes;
    out->born = envelope.born;
    if (envelope.absent || envelope.mark)
        return;
    *value = envelope_value(&envelope);
    out->value = *value;
    if (*value == NULL)
        out->kind = REPLY_UNKNOWN; /* no memory for it: ask again, and give back a lease that came with it */
}

static void read_failure(const struct redisReply *code, struct core_reply *out)
{
    out->kind = REPLY_FAILED;
    out->failure = GUARD_FAILURE_INTERNAL;
    out->too_big = strcmp(code->str, TOO_BIG) == 0;
    size_t bytes = strcspn(code->str, " ");
    for (int failure = GUARD_FAILURE_UNAVAILABLE; failure <= GUARD_FAILURE_CYCLE; failure++) {
        const char *name = guard_failure_name((enum guard_failure)failure);
        if (strlen(name) == bytes && memcmp(code->str, name, bytes) == 0)
            out->failure = (enum guard_failure)failure;
    }
    if (code->str[bytes] == ' ')
        out->load = load_id_read(code->str + bytes + 1);
}

static const char *lease_tag_in(const struct redisReply *reply, size_t at)
{
    const struct redisReply *tag = element(reply, at, REDIS_REPLY_STRING);
    return tag != NULL && message_is_lease_tag(tag->str, tag->len) ? tag->str : NULL;
}

static const char *names_seen_in(const struct redisReply *reply, size_t at)
{
    const struct redisReply *names = element(reply, at, REDIS_REPLY_STRING);
    return names != NULL && names->len == (size_t)2 * TOKEN_UUID_BYTES ? names->str : NULL;
}

static void read_found(char what, const char *key, size_t key_bytes, const struct redisReply *reply,
                       struct core_reply *out, struct value **value)
{
    const struct redisReply *entry = element(reply, 1, REDIS_REPLY_STRING);
    if (entry == NULL || entry->len < TOKEN_UUID_BYTES)
        return;
    out->kind = what == 'H' ? REPLY_FRESH : REPLY_STALE;
    const int64_t refresher = number(reply, 3);
    out->refresher = refresher == 1 ? REFRESH_OURS : refresher == -1 ? REFRESH_COOLING : REFRESH_OTHERS;
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
        out->abandoned = number(reply, 2) == 1;
        break;
    case 'B':
        out->kind = REPLY_BUSY;
        out->pttl_ms = span(number(reply, 1));
        out->lease_tag = lease_tag_in(reply, 2);
        out->names_seen = names_seen_in(reply, 3);
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
    else if (outcome == REDIS_MOVING)
        out->kind = REPLY_MOVING;
    else if (outcome == REDIS_UNKNOWN)
        out->kind = REPLY_UNKNOWN;
    else if (kind == CORE_ACQUIRE && reply->type == REDIS_REPLY_ARRAY)
        read_acquire(key, key_bytes, reply, out, value);
    else if (kind != CORE_ACQUIRE && reply->type == REDIS_REPLY_INTEGER)
        *out = (struct core_reply){.kind = REPLY_CODE, .code = reply->integer};
}

struct tags_clock protocol_read_clock(enum redis_outcome outcome, const struct redisReply *reply)
{
    struct tags_clock clock = {0, 0};
    if (outcome == REDIS_REPLIED && reply->type == REDIS_REPLY_STRING)
        tags_clock_read(reply->str, reply->len, &clock);
    return clock;
}

bool protocol_read_expiries(enum redis_outcome outcome, const struct redisReply *reply,
                            struct tags_clock *born, uint64_t *age_ms)
{
    if (outcome != REDIS_REPLIED || reply->type != REDIS_REPLY_ARRAY)
        return false;
    const struct redisReply *epoch = element(reply, 0, REDIS_REPLY_STRING);
    const struct redisReply *age = element(reply, 1, REDIS_REPLY_INTEGER);
    *age_ms = age != NULL && age->integer >= 0 ? (uint64_t)age->integer : UINT64_MAX;
    return *age_ms != UINT64_MAX && epoch != NULL && tags_clock_read(epoch->str, epoch->len, born);
}

bool protocol_read_keep(enum redis_outcome outcome, const struct redisReply *reply)
{
    return outcome == REDIS_REPLIED && reply->type == REDIS_REPLY_INTEGER && reply->integer == 1;
}
