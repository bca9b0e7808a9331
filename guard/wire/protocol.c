/* SPDX-License-Identifier: MIT */
/* protocol.c - see protocol.h. */
#include "protocol.h"
#include "../base/clock.h"
#include "../base/load_id.h"
#include "deletion.h"
#include "envelope.h"
#include "scripts.h"
#include "wake.h"
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ARGS_MAX = 20, NAMES_MAX = 2 * GUARD_TAGS_MAX, NUMBERS_MAX = 3, NUMBER_SIZE = 24 };

_Static_assert((int)ARGS_MAX <= (int)REDIS_SCRIPT_ARGS_MAX, "they may be run");

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

/* ---- arguments ---- */

/* KEYS, then ARGV, with room for what has to be printed. */
struct arguments {
    size_t count, name_count, number_count;
    const char *at[ARGS_MAX];
    size_t bytes[ARGS_MAX];
    char names[NAMES_MAX][KEY_NAME_SIZE];
    char numbers[NUMBERS_MAX][NUMBER_SIZE];
    char message[MESSAGE_SIZE];
};

/* The rest of it is written where it is needed. */
static void begin_arguments(struct arguments *args)
{
    args->count = args->name_count = args->number_count = 0;
}

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

static void add_number(struct arguments *args, uint64_t number)
{
    assert(args->number_count < NUMBERS_MAX);
    char *text = args->numbers[args->number_count++];
    int bytes = snprintf(text, NUMBER_SIZE, "%" PRIu64, number);
    add_argument(args, text, (size_t)bytes);
}

static char *new_name(struct arguments *args)
{
    assert(args->name_count < NAMES_MAX);
    return args->names[args->name_count++];
}

static void add_key(struct arguments *args, const struct protocol *protocol, const struct core_key *key,
                    enum key_role role)
{
    char *name = new_name(args);
    add_argument(args, name, key_name(protocol->name_space, key->encoded, role, name));
}

/* What most scripts are given. */
static void add_all_keys(struct arguments *args, const struct protocol *protocol, const struct core_key *key)
{
    add_key(args, protocol, key, KEY_VALUE);
    add_key(args, protocol, key, KEY_LEASE);
    add_key(args, protocol, key, KEY_FAILURE);
    add_key(args, protocol, key, KEY_WAITING);
}

/* What the scripts of the tags are given. */
static void add_clock_names(struct arguments *args, const struct protocol *protocol)
{
    char *clock = new_name(args), *reign = new_name(args);
    add_argument(args, clock, key_tag_clock(protocol->name_space, clock));
    add_argument(args, reign, key_tag_reign(protocol->name_space, reign));
}

typedef size_t tag_name(const char *name_space, const char *encoded, size_t encoded_bytes,
                        char out[KEY_NAME_SIZE]);

/* The name that each of these tags has of this sort. */
static void add_tag_names(struct arguments *args, const struct protocol *protocol, tag_name *name_of,
                          const char *text, size_t bytes)
{
    struct tag tags[GUARD_TAGS_MAX];
    int count = tags_split(text, bytes, tags);
    for (int i = 0; i < count; i++) {
        char *name = new_name(args);
        add_argument(args, name, name_of(protocol->name_space, tags[i].at, tags[i].bytes, name));
    }
}

static void add_message(struct arguments *args, const struct protocol *protocol, enum message_kind kind,
                        const struct core_action *action)
{
    const char *lease_tag = action->token != NULL ? action->token + TOKEN_TAG_AT : NULL;
    add_text(args, protocol->channel);
    add_argument(args, args->message, message_write(kind, lease_tag, action->key.encoded, args->message));
}

static bool run_script(struct redis *redis, enum script script, size_t key_count,
                       const struct arguments *args, redis_replied *replied, void *context)
{
    return redis_run(redis, script, key_count, args->count, args->at, args->bytes, replied, context);
}

/* What must not be lost once it is confirmed. */
static bool run_kept(struct redis *redis, enum script script, size_t key_count, const struct arguments *args,
                     redis_replied *replied, void *context)
{
    return redis_run_kept(redis, script, key_count, args->count, args->at, args->bytes, replied, context);
}

/* ---- scripts ---- */

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
        return action->uncounted;
    case LOOKUP_NORMAL:
    case LOOKUP_NO_STALE:
    case LOOKUP_PEEK:
        break;
    }
    return action->refused;
}

static bool run_acquire(const struct protocol *protocol, struct redis *redis,
                        const struct core_action *action, redis_replied *replied, void *context)
{
    struct arguments args;
    begin_arguments(&args);
    char mode[2] = {(char)action->lookup, '\0'};
    char waits[2] = {wait_letter(protocol, action->waits), '\0'};
    add_all_keys(&args, protocol, &action->key);
    add_text(&args, action->token);
    add_text(&args, action->prev);
    add_number(&args, action->lease_ms);
    add_number(&args, protocol->max_lease_ms);
    add_number(&args, protocol->max_value_ms);
    add_argument(&args, mode, 1);
    add_text(&args, named_in(action));
    add_text(&args, waits);
    return run_script(redis, SCRIPT_ACQUIRE, 4, &args, replied, context);
}

static bool run_renew(const struct protocol *protocol, struct redis *redis, const struct core_action *action,
                      redis_replied *replied, void *context)
{
    struct arguments args;
    begin_arguments(&args);
    add_key(&args, protocol, &action->key, KEY_LEASE);
    if (action->asks_wait)
        add_key(&args, protocol, &action->key, KEY_WAITING);
    add_text(&args, action->token);
    add_number(&args, action->lease_ms);
    return run_script(redis, SCRIPT_RENEW, action->asks_wait ? 2 : 1, &args, replied, context);
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
    };
    memcpy(envelope.filler, action->token, ENVELOPE_UUID_BYTES);
    envelope.filler[ENVELOPE_UUID_BYTES] = '\0';
    if (action->value != NULL && !action->mark) {
        envelope.validator = action->value->public.validator;
        envelope.validator_bytes = action->value->validator_bytes;
        envelope.body = action->value->public.body;
        envelope.body_bytes = action->value->public.body_bytes;
    }
    if (action->value != NULL) {
        envelope.tags = action->value->tags;
        envelope.tags_bytes = action->value->tags_bytes;
        envelope.born = envelope.tags_bytes > 0 ? action->born : (struct tags_clock){0, 0};
    }
    return envelope;
}

/* Of a touch only the ends of the new envelope travel: Redis has what lies between them. */
static void add_ends(struct arguments *args, const char *filler, const char *text, size_t bytes)
{
    add_argument(args, filler, TOKEN_UUID_BYTES);
    add_argument(args, text, ENVELOPE_HEAD_BYTES);
    add_argument(args, text + bytes - ENVELOPE_CHECKSUM_BYTES, ENVELOPE_CHECKSUM_BYTES);
    add_number(args, bytes);
}

/* The entry as it is stored, or as it travels; the caller's. NULL: no memory. */
static char *new_entry_text(const struct core_action *action, size_t *bytes, uint64_t *px_ms)
{
    struct envelope envelope = envelope_of(action);
    *bytes = envelope_size(&envelope);
    *px_ms = envelope.px_ms;
    char *text = malloc(*bytes);
    if (text != NULL)
        envelope_write(&envelope, text);
    return text;
}

static bool run_store(const struct protocol *protocol, struct redis *redis, const struct core_action *action,
                      redis_replied *replied, void *context)
{
    bool touch = action->kind == CORE_TOUCH;
    size_t bytes = 0;
    uint64_t px_ms = 0;
    char *text = new_entry_text(action, &bytes, &px_ms);
    if (text == NULL)
        return false;
    struct arguments args;
    begin_arguments(&args);
    add_all_keys(&args, protocol, &action->key);
    add_text(&args, action->token);
    if (touch)
        add_ends(&args, action->wanted, text, bytes);
    else
        add_argument(&args, text, bytes);
    add_number(&args, px_ms);
    add_message(&args, protocol, MESSAGE_FILLED, action);
    add_number(&args, protocol->push_bytes);
    bool sent = run_script(redis, touch ? SCRIPT_TOUCH : SCRIPT_FILL, 4, &args, replied, context);
    free(text);
    return sent;
}

/* What the failure lease says: why, and behind a space which load it was. */
enum { FAILURE_CODE_SIZE = 48 };
static const char *failure_code(const struct core_action *action, char code[FAILURE_CODE_SIZE])
{
    if (action->too_big)
        return TOO_BIG;
    if (action->failure == GUARD_FAILURE_NONE)
        return "";
    if (action->load == 0)
        return guard_failure_name(action->failure);
    snprintf(code, FAILURE_CODE_SIZE, "%s %016" PRIx64, guard_failure_name(action->failure), action->load);
    return code;
}

static bool run_release(const struct protocol *protocol, struct redis *redis,
                        const struct core_action *action, redis_replied *replied, void *context)
{
    char code[FAILURE_CODE_SIZE];
    size_t bytes = 0;
    uint64_t px_ms = 0;
    char *text = action->shares ? new_entry_text(action, &bytes, &px_ms) : NULL;
    if (action->shares && text == NULL)
        return false;
    struct arguments args;
    begin_arguments(&args);
    add_key(&args, protocol, &action->key, KEY_LEASE);
    add_key(&args, protocol, &action->key, KEY_FAILURE);
    add_key(&args, protocol, &action->key, KEY_WAITING);
    add_text(&args, action->token);
    add_message(&args, protocol, MESSAGE_RELEASED, action);
    add_text(&args, failure_code(action, code));
    add_number(&args, action->failure_ms);
    add_argument(&args, text != NULL ? text : "", bytes);
    if (action->abandoned_ms > 0)
        add_number(&args, action->abandoned_ms);
    bool sent = run_script(redis, SCRIPT_RELEASE, 3, &args, replied, context);
    free(text);
    return sent;
}

static bool run_tag_invalidate(const struct protocol *protocol, struct redis *redis,
                               const struct core_action *action, redis_replied *replied, void *context)
{
    struct arguments args;
    begin_arguments(&args);
    add_clock_names(&args, protocol);
    add_tag_names(&args, protocol, key_tag, action->key.encoded, action->key.encoded_bytes);
    add_tag_names(&args, protocol, key_tag_expiry, action->key.encoded, action->key.encoded_bytes);
    add_number(&args, protocol->max_value_ms);
    add_message(&args, protocol, MESSAGE_TAG, action);
    add_text(&args, action->expires ? "s" : "h");
    return run_kept(redis, SCRIPT_TAG_INVALIDATE, 4, &args, replied, context);
}

static bool run_invalidate(const struct protocol *protocol, struct redis *redis,
                           const struct core_action *action, redis_replied *replied, void *context)
{
    struct arguments args;
    begin_arguments(&args);
    if (action->of_tag)
        return run_tag_invalidate(protocol, redis, action, replied, context);
    if (action->by_delete && !protocol->waits)
        return deletion_send(redis, protocol->name_space, protocol->channel, &action->key, replied, context);
    add_all_keys(&args, protocol, &action->key);
    add_message(&args, protocol, MESSAGE_INVALIDATED, action);
    add_text(&args, action->expires ? "s" : "h");
    add_number(&args, protocol->max_value_ms);
    return run_kept(redis, SCRIPT_INVALIDATE, 4, &args, replied, context);
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
    struct arguments args;
    begin_arguments(&args);
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
    struct arguments args;
    begin_arguments(&args);
    add_key(&args, protocol, &action->key, KEY_PERMITS);
    add_text(&args, action->token);
    add_number(&args, protocol->permit_ms);
    return run_script(redis, SCRIPT_PERMIT_RENEW, 1, &args, replied, context);
}

static bool run_permit_release(const struct protocol *protocol, struct redis *redis,
                               const struct core_action *action, redis_replied *replied, void *context)
{
    struct arguments args;
    begin_arguments(&args);
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
    case CORE_FORGET:
        break;
    }
    return false;
}

bool protocol_send_cache_id(const struct protocol *protocol, struct redis *redis, const char *proposed,
                            redis_replied *replied, void *context)
{
    struct arguments args;
    begin_arguments(&args);
    char *name = new_name(&args);
    add_argument(&args, name, key_cache_id(protocol->name_space, name));
    add_argument(&args, proposed, GUARD_CACHE_ID_BYTES);
    add_number(&args, protocol->max_value_ms);
    return run_script(redis, SCRIPT_CACHE_ID, 1, &args, replied, context);
}

/* ---- tags, beside others ---- */

/* In a Cluster the tags' master may be away while that of an entry is not: what goes beside the entry's script does not
 * wait for it. The first key is one of the tags. */
static bool are_tags_away(const struct protocol *protocol, const struct redis *redis,
                          const struct arguments *args)
{
    return protocol->in_cluster && !redis_may_look_up(redis, args->at[0], args->bytes[0]);
}

bool protocol_send_clock(const struct protocol *protocol, struct redis *redis, redis_replied *replied,
                         void *context)
{
    struct arguments args;
    begin_arguments(&args);
    add_clock_names(&args, protocol);
    add_number(&args, protocol->max_value_ms);
    return !are_tags_away(protocol, redis, &args) &&
           run_script(redis, SCRIPT_TAG_CLOCK, 2, &args, replied, context);
}

bool protocol_send_keep(const struct protocol *protocol, struct redis *redis, const char *tags,
                        size_t tags_bytes, const struct tags_clock *born, redis_replied *replied,
                        void *context)
{
    char born_text[TAGS_CLOCK_BYTES + 1];
    struct arguments args;
    begin_arguments(&args);
    add_clock_names(&args, protocol);
    add_tag_names(&args, protocol, key_tag, tags, tags_bytes);
    size_t key_count = args.count;
    tags_clock_write(born, born_text);
    add_argument(&args, born_text, TAGS_CLOCK_BYTES);
    add_number(&args, protocol->max_value_ms);
    return !are_tags_away(protocol, redis, &args) &&
           run_script(redis, SCRIPT_TAG_KEEP, key_count, &args, replied, context);
}

/* ---- an entry whose tags were expired ---- */

bool protocol_send_expiries(const struct protocol *protocol, struct redis *redis, const char *tags,
                            size_t tags_bytes, const struct tags_clock *born, redis_replied *replied,
                            void *context)
{
    char born_text[TAGS_CLOCK_BYTES + 1];
    struct arguments args;
    begin_arguments(&args);
    add_tag_names(&args, protocol, key_tag, tags, tags_bytes);
    add_tag_names(&args, protocol, key_tag_expiry, tags, tags_bytes);
    size_t key_count = args.count;
    tags_clock_write(born, born_text);
    add_argument(&args, born_text, TAGS_CLOCK_BYTES);
    return !are_tags_away(protocol, redis, &args) &&
           run_script(redis, SCRIPT_TAG_STALE, key_count, &args, replied, context);
}

bool protocol_send_make_stale(const struct protocol *protocol, struct redis *redis, const char *encoded,
                              const struct envelope *envelope, uint64_t stale_ms, redis_replied *replied,
                              void *context)
{
    size_t bytes = envelope_size(envelope);
    char *text = malloc(bytes);
    if (text == NULL)
        return false;
    envelope_write(envelope, text);
    struct core_key key = {.encoded = encoded, .encoded_bytes = strlen(encoded)};
    struct arguments args;
    begin_arguments(&args);
    add_key(&args, protocol, &key, KEY_VALUE);
    add_ends(&args, envelope->filler, text, bytes);
    add_number(&args, stale_ms);
    bool sent = run_script(redis, SCRIPT_MAKE_STALE, 1, &args, replied, context);
    free(text);
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

static const char *uncounted_in(const struct redisReply *reply, size_t at)
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
        out->abandoned = number(reply, 2) == 1;
        break;
    case 'B':
        out->kind = REPLY_BUSY;
        out->pttl_ms = span(number(reply, 1));
        out->lease_tag = lease_tag_in(reply, 2);
        out->uncounted = uncounted_in(reply, 3);
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
