/* SPDX-License-Identifier: MIT */
/* lock_wire.c - see lock_wire.h. */
#include "lock_wire.h"
#include "../base/digits.h"
#include "guard_lock_scripts.h"
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOCK_SCRIPT_ENTRY(id, name) [id] = {name##_lua, sizeof(name##_lua) - 1}

const struct redis_script lock_scripts[LOCK_SCRIPT_COUNT] = {
    LOCK_SCRIPT_ENTRY(LOCK_SCRIPT_ACQUIRE, lock_acquire), LOCK_SCRIPT_ENTRY(LOCK_SCRIPT_RENEW, lock_renew),
    LOCK_SCRIPT_ENTRY(LOCK_SCRIPT_RELEASE, lock_release), LOCK_SCRIPT_ENTRY(LOCK_SCRIPT_STAY, lock_stay),
    LOCK_SCRIPT_ENTRY(LOCK_SCRIPT_LATCH, latch),          LOCK_SCRIPT_ENTRY(LOCK_SCRIPT_LOOK, lock_look),
};

#undef LOCK_SCRIPT_ENTRY

_Static_assert((int)LOCK_SCRIPT_COUNT <= (int)REDIS_SCRIPTS_MAX, "a connection takes them all");

/* ---- tokens ---- */

enum { UNITS_AT = LOCK_UUID_BYTES + 1, LIMIT_AT = UNITS_AT + 8, LEASE_AT = LIMIT_AT + 8, WHO_BYTES_MAX = 48 };

_Static_assert((int)LEASE_AT + 8 == (int)LOCK_TOKEN_HEAD_BYTES, "the fields fill the head");
_Static_assert((int)LOCK_TOKEN_HEAD_BYTES + 1 + (int)WHO_BYTES_MAX + 1 + 15 < (int)LOCK_TOKEN_SIZE,
               "it fits");
_Static_assert((int)WHO_BYTES_MAX < (int)GUARD_LOCK_WHO_BYTES, "what was written can be read");

size_t lock_token_write(const struct lock_token *token, char out[LOCK_TOKEN_SIZE])
{
    assert(token->units <= LOCK_ALL && token->limit <= LOCK_ALL && token->lease_ms <= 99999999);
    const int bytes =
        snprintf(out, LOCK_TOKEN_SIZE, "%.36s %07" PRIu32 " %07" PRIu32 " %08" PRIu32 " %.*s %" PRIu64,
                 token->uuid, token->units, token->limit, token->lease_ms, (int)WHO_BYTES_MAX, token->who,
                 token->since_s % 1000000000000000);
    assert(bytes > LOCK_TOKEN_HEAD_BYTES && bytes < LOCK_TOKEN_SIZE);
    /* A newline would end it in a list of tokens, a space its name of a process. */
    const char *since = strrchr(out, ' ');
    for (char *at = out + LOCK_TOKEN_HEAD_BYTES + 1; at < since; at++)
        if (*at <= ' ' || *at > '~')
            *at = '?';
    return (size_t)bytes;
}

static bool is_lock_uuid(const char *text)
{
    for (size_t i = 0; i < LOCK_UUID_BYTES; i++) {
        const bool is_dash = i == 8 || i == 13 || i == 18 || i == 23;
        const bool is_hex = (text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f');
        if (is_dash ? text[i] != '-' : !is_hex)
            return false;
    }
    return true;
}

/* " <host:pid> <since>" */
static void read_people(const char *text, size_t bytes, struct lock_token *out)
{
    const char *who = text + 1, *space = bytes > 1 ? memchr(who, ' ', bytes - 1) : NULL;
    if (space == NULL || text[0] != ' ' || (size_t)(space - who) >= sizeof out->who)
        return;
    const size_t since_bytes = bytes - (size_t)(space + 1 - text);
    uint64_t since_s = 0;
    if (since_bytes < 1 || since_bytes > 19 || !digits_read(space + 1, since_bytes, &since_s))
        return;
    out->since_s = since_s;
    memcpy(out->who, who, (size_t)(space - who));
    for (char *at = out->who; *at != '\0'; at++)
        if (*at < ' ' || *at > '~')
            *at = '?';
}

bool lock_token_read(const char *text, size_t bytes, struct lock_token *out)
{
    uint64_t units, limit, lease_ms;
    *out = (struct lock_token){.units = 0};
    if (bytes < LOCK_TOKEN_HEAD_BYTES || bytes >= LOCK_TOKEN_SIZE || !is_lock_uuid(text) ||
        text[UNITS_AT - 1] != ' ' || text[LIMIT_AT - 1] != ' ' || text[LEASE_AT - 1] != ' ' ||
        !digits_read(text + UNITS_AT, 7, &units) || !digits_read(text + LIMIT_AT, 7, &limit) ||
        !digits_read(text + LEASE_AT, 8, &lease_ms))
        return false;
    memcpy(out->uuid, text, LOCK_UUID_BYTES);
    out->units = (uint32_t)units;
    out->limit = (uint32_t)limit;
    out->lease_ms = (uint32_t)lease_ms;
    read_people(text + LOCK_TOKEN_HEAD_BYTES, bytes - LOCK_TOKEN_HEAD_BYTES, out);
    return true;
}

/* ---- messages ---- */

bool lock_message_read(const char *payload, size_t payload_bytes, struct lock_message *out)
{
    const bool all = payload_bytes >= 4 && memcmp(payload, "k * ", 4) == 0;
    const size_t head_bytes = all ? 4 : 2 + LOCK_UUID_BYTES + 1;
    if (payload_bytes <= head_bytes || memcmp(payload, "k ", 2) != 0 || payload[head_bytes - 1] != ' ')
        return false;
    if (!all && !is_lock_uuid(payload + 2))
        return false;
    *out = (struct lock_message){.uuid = all ? NULL : payload + 2,
                                 .encoded = payload + head_bytes,
                                 .encoded_bytes = payload_bytes - head_bytes};
    return key_is_encoded(out->encoded, out->encoded_bytes);
}

/* ---- arguments ---- */

enum {
    PASSED_KEYS_MAX = 1 + 4 * GUARD_LOCK_NAMES_MAX,
    PASSED_NUMBERS_BYTES = (1 + GUARD_LOCK_NAMES_MAX) * 24
};
/* The longest: gone, four keys, five arguments, and a name each. */
_Static_assert((int)PASSED_KEYS_MAX + 5 + (int)GUARD_LOCK_NAMES_MAX <= (int)REDIS_SCRIPT_ARGS_MAX,
               "it may be run");
_Static_assert((int)PASSED_KEYS_MAX *(int)KEY_NAME_SIZE + (int)PASSED_NUMBERS_BYTES <= (int)REDIS_ARGS_ROOM,
               "what is printed fits");

static void pass_key(struct redis_args *args, const struct lock_wire *wire, const struct lock_name *name,
                     enum key_lock_role role)
{
    char *text = redis_args_room(args, KEY_NAME_SIZE);
    redis_args_key(args, text, key_lock(wire->name_space, name->encoded, name->bytes, role, text));
}

/* What acquire and release begin with. */
static void pass_keys(struct redis_args *args, const struct lock_wire *wire, const struct lock_action *action)
{
    pass_key(args, wire, &action->names[0], KEY_LOCK_GONE);
    for (size_t i = 0; i < action->count; i++) {
        pass_key(args, wire, &action->names[i], KEY_LOCK_HELD);
        pass_key(args, wire, &action->names[i], KEY_LOCK_QUEUE);
        pass_key(args, wire, &action->names[i], KEY_LOCK_ALIVE);
    }
}

static void pass_role(struct redis_args *args, const struct lock_wire *wire, const struct lock_action *action,
                      enum key_lock_role role)
{
    for (size_t i = 0; i < action->count; i++)
        pass_key(args, wire, &action->names[i], role);
}

static void pass_names(struct redis_args *args, const struct lock_wire *wire,
                       const struct lock_action *action)
{
    redis_args_text(args, wire->channel);
    for (size_t i = 0; i < action->count; i++)
        redis_args_add(args, action->names[i].encoded, action->names[i].bytes);
}

/* ---- sending ---- */

void lock_wire_init(struct lock_wire *wire, const char *name_space, unsigned database, uint32_t max_lease_ms,
                    uint32_t fence_ms)
{
    wire->name_space = name_space;
    wire->max_lease_ms = max_lease_ms;
    wire->fence_ms = fence_ms;
    key_lock_channel(name_space, database, wire->channel);
}

static bool wire_acquire(const struct lock_wire *wire, struct redis *redis, const struct lock_action *action,
                         redis_replied *replied, void *context)
{
    struct redis_args args REDIS_ARGS_UNCLEARED;
    redis_args_init(&args);
    pass_keys(&args, wire, action);
    pass_role(&args, wire, action, KEY_LOCK_FENCE);
    redis_args_text(&args, action->token);
    redis_args_number(&args, action->place_ms);
    redis_args_text(&args, action->overtakes ? "o" : "f");
    redis_args_number(&args, wire->fence_ms);
    pass_names(&args, wire, action);
    return redis_run(redis, REDIS_RUN, LOCK_SCRIPT_ACQUIRE, &args, replied, context);
}

bool lock_wire_send_raise(const struct lock_wire *wire, struct redis *redis, const struct lock_action *action,
                          const uint64_t fence[], redis_replied *replied, void *context)
{
    struct redis_args args REDIS_ARGS_UNCLEARED;
    redis_args_init(&args);
    pass_role(&args, wire, action, KEY_LOCK_HELD);
    pass_role(&args, wire, action, KEY_LOCK_FENCE);
    redis_args_text(&args, action->token);
    redis_args_number(&args, wire->fence_ms);
    for (size_t i = 0; fence != NULL && i < action->count; i++)
        redis_args_number(&args, fence[i]);
    return redis_run(redis, REDIS_RUN, LOCK_SCRIPT_RENEW, &args, replied, context);
}

static bool wire_release(const struct lock_wire *wire, struct redis *redis, const struct lock_action *action,
                         redis_replied *replied, void *context)
{
    struct redis_args args REDIS_ARGS_UNCLEARED;
    redis_args_init(&args);
    pass_keys(&args, wire, action);
    redis_args_text(&args, action->token);
    redis_args_number(&args, action->doubt ? wire->max_lease_ms : 0);
    pass_names(&args, wire, action);
    return redis_run(redis, REDIS_RUN, LOCK_SCRIPT_RELEASE, &args, replied, context);
}

/* One that only waits for it to open (0 units) is no party. */
static bool wire_latch(const struct lock_wire *wire, struct redis *redis, const struct lock_action *action,
                       redis_replied *replied, void *context)
{
    const bool leaves = action->kind == LOCK_GIVE, is_party = leaves || action->units > 0;
    struct redis_args args REDIS_ARGS_UNCLEARED;
    redis_args_init(&args);
    pass_key(&args, wire, &action->names[0], KEY_LOCK_GONE);
    pass_key(&args, wire, &action->names[0], KEY_LOCK_LATCH);
    redis_args_text(&args, is_party ? action->token : "");
    redis_args_number(&args, action->limit);
    redis_args_text(&args, leaves ? "l" : "c");
    redis_args_number(&args, leaves && action->doubt ? wire->max_lease_ms : 0);
    redis_args_number(&args, wire->fence_ms > wire->max_lease_ms ? wire->fence_ms : wire->max_lease_ms);
    pass_names(&args, wire, action);
    return redis_run(redis, REDIS_RUN, LOCK_SCRIPT_LATCH, &args, replied, context);
}

/* The tokens, a newline behind each; the caller's. NULL: no memory. */
static char *joined_tokens(const struct lock_action *action, size_t *bytes)
{
    char *text = malloc(action->token_count * LOCK_TOKEN_SIZE + 1), *to = text;
    for (size_t i = 0; text != NULL && i < action->token_count; i++) {
        const size_t token_bytes = strlen(action->tokens[i]);
        assert(token_bytes < LOCK_TOKEN_SIZE);
        memcpy(to, action->tokens[i], token_bytes);
        to += token_bytes;
        *to++ = '\n';
    }
    *bytes = (size_t)(to - text);
    return text;
}

static bool wire_stay(const struct lock_wire *wire, struct redis *redis, const struct lock_action *action,
                      redis_replied *replied, void *context)
{
    size_t bytes = 0;
    char *tokens = joined_tokens(action, &bytes);
    if (tokens == NULL)
        return false;
    struct redis_args args REDIS_ARGS_UNCLEARED;
    redis_args_init(&args);
    pass_key(&args, wire, &action->names[0], KEY_LOCK_HELD);
    pass_key(&args, wire, &action->names[0], KEY_LOCK_QUEUE);
    pass_key(&args, wire, &action->names[0], KEY_LOCK_ALIVE);
    redis_args_number(&args, action->place_ms);
    pass_names(&args, wire, action);
    redis_args_add(&args, tokens, bytes);
    const bool sent = redis_run(redis, REDIS_RUN, LOCK_SCRIPT_STAY, &args, replied, context);
    free(tokens);
    return sent;
}

bool lock_wire_send(const struct lock_wire *wire, struct redis *redis, const struct lock_action *action,
                    redis_replied *replied, void *context)
{
    const bool is_latch = action->lock == GUARD_LOCK_LATCH;
    assert(action->count >= 1 && action->count <= GUARD_LOCK_NAMES_MAX);
    switch (action->kind) {
    case LOCK_TAKE:
        return is_latch ? wire_latch(wire, redis, action, replied, context)
                        : wire_acquire(wire, redis, action, replied, context);
    case LOCK_RENEW:
        return lock_wire_send_raise(wire, redis, action, NULL, replied, context);
    case LOCK_GIVE:
        return is_latch ? wire_latch(wire, redis, action, replied, context)
                        : wire_release(wire, redis, action, replied, context);
    case LOCK_STAY:
        return wire_stay(wire, redis, action, replied, context);
    }
    return false;
}

bool lock_wire_send_look(const struct lock_wire *wire, struct redis *redis, const struct lock_name *name,
                         redis_replied *replied, void *context)
{
    struct redis_args args REDIS_ARGS_UNCLEARED;
    redis_args_init(&args);
    pass_key(&args, wire, name, KEY_LOCK_HELD);
    pass_key(&args, wire, name, KEY_LOCK_QUEUE);
    pass_key(&args, wire, name, KEY_LOCK_ALIVE);
    pass_key(&args, wire, name, KEY_LOCK_FENCE);
    redis_args_number(&args, GUARD_LOCK_SEEN_MAX);
    return redis_run(redis, REDIS_RUN, LOCK_SCRIPT_LOOK, &args, replied, context);
}

/* ---- what came back ---- */

struct lock_asked lock_asked_of(const struct lock_action *action)
{
    return (struct lock_asked){.kind = action->kind,
                               .latch = action->lock == GUARD_LOCK_LATCH,
                               .count = action->kind == LOCK_STAY ? action->token_count : action->count};
}

static bool read_whole(const struct redisReply *reply, int64_t least, int64_t most, int64_t *out)
{
    if (reply->type != REDIS_REPLY_INTEGER || reply->integer < least || reply->integer > most)
        return false;
    *out = reply->integer;
    return true;
}

static bool read_granted(const struct redisReply *reply, size_t count, struct lock_reply *out)
{
    if (reply->elements != 1 + count)
        return false;
    for (size_t i = 0; i < count; i++) {
        int64_t fence = 0;
        if (!read_whole(reply->element[1 + i], 1, INT64_MAX, &fence))
            return false;
        out->fence[i] = (uint64_t)fence;
    }
    out->kind = LOCK_GRANTED;
    return true;
}

static bool read_refused(const struct redisReply *reply, struct lock_reply *out)
{
    int64_t hint_ms, before;
    if (reply->elements != 3 || !read_whole(reply->element[1], 1, UINT32_MAX, &hint_ms) ||
        !read_whole(reply->element[2], 0, UINT32_MAX, &before))
        return false;
    out->kind = LOCK_REFUSED;
    out->hint_ms = (uint32_t)hint_ms;
    out->before = (uint32_t)before;
    return true;
}

static bool read_take(const struct lock_asked *asked, const struct redisReply *reply, struct lock_reply *out)
{
    int64_t what;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 1 ||
        !read_whole(reply->element[0], -1, 1, &what))
        return false;
    if (what == 1)
        return read_granted(reply, asked->count, out);
    if (what == 0)
        return read_refused(reply, out);
    out->kind = LOCK_GONE;
    return reply->elements == 1;
}

static bool read_held(const struct redisReply *reply, struct lock_reply *out)
{
    int64_t held;
    if (!read_whole(reply, 0, 1, &held))
        return false;
    out->kind = held == 1 ? LOCK_DONE : LOCK_NOT_HELD;
    return true;
}

static bool read_latch(const struct lock_asked *asked, const struct redisReply *reply, struct lock_reply *out)
{
    int64_t missing;
    if (!read_whole(reply, asked->kind == LOCK_TAKE ? -1 : 0, LOCK_ALL, &missing))
        return false;
    if (asked->kind == LOCK_GIVE)
        out->kind = LOCK_DONE;
    else if (missing < 0)
        out->kind = LOCK_GONE;
    else
        out->kind = missing == 0 ? LOCK_GRANTED : LOCK_REFUSED;
    out->before = missing > 0 ? (uint32_t)missing : 0;
    return true;
}

static bool read_stay(const struct lock_asked *asked, const struct redisReply *reply, struct lock_reply *out,
                      uint32_t ask_now[])
{
    size_t asking = 0;
    if (reply->type != REDIS_REPLY_STRING || reply->len != asked->count)
        return false;
    for (size_t i = 0; i < asked->count; i++) {
        if (reply->str[i] != '0' && reply->str[i] != '1')
            return false;
        if (reply->str[i] == '1')
            ask_now[asking++] = (uint32_t)i;
    }
    out->kind = LOCK_DONE;
    out->ask_now = ask_now;
    out->ask_now_count = asking;
    return true;
}

static bool read_answer(const struct lock_asked *asked, const struct redisReply *reply,
                        struct lock_reply *out, uint32_t ask_now[])
{
    switch (asked->kind) {
    case LOCK_TAKE:
        return asked->latch ? read_latch(asked, reply, out) : read_take(asked, reply, out);
    case LOCK_RENEW:
        return read_held(reply, out);
    case LOCK_GIVE:
        return asked->latch ? read_latch(asked, reply, out) : read_held(reply, out);
    case LOCK_STAY:
        return read_stay(asked, reply, out, ask_now);
    }
    return false;
}

/* An error may have come from the middle of a script. */
static const char *why_unread(enum redis_outcome outcome, const struct redisReply *reply)
{
    if (outcome != REDIS_REPLIED)
        return NULL;
    return reply->type == REDIS_REPLY_ERROR ? reply->str
                                            : "Redis gave an answer that no script of locks gives";
}

void lock_wire_read(const struct lock_asked *asked, enum redis_outcome outcome,
                    const struct redisReply *reply, struct lock_reply *out, uint32_t ask_now[])
{
    *out = (struct lock_reply){.kind = outcome == REDIS_UNSENT ? LOCK_UNSENT : LOCK_UNANSWERED};
    if (outcome == REDIS_REPLIED && read_answer(asked, reply, out, ask_now))
        return;
    out->kind = outcome == REDIS_UNSENT ? LOCK_UNSENT : LOCK_UNANSWERED;
    /* An operator must act first. What a script has done until then ends with its lease, or its place. */
    if (outcome == REDIS_REPLIED && asked->kind == LOCK_TAKE && reply->type == REDIS_REPLY_ERROR &&
        redis_error_is_permanent(reply->str, reply->len))
        out->kind = LOCK_IMPOSSIBLE;
    out->why = why_unread(outcome, reply);
}

/* ---- looking ---- */

/* One more that holds, or waits. */
static bool read_seen(const struct redisReply *text, struct guard_lock_view *out, bool holds)
{
    struct lock_token token;
    if (text->type != REDIS_REPLY_STRING || !lock_token_read(text->str, text->len, &token))
        return false;
    if (out->seen_count == GUARD_LOCK_SEEN_MAX)
        return true;
    struct guard_lock_seen *seen = &out->seen[out->seen_count++];
    *seen = (struct guard_lock_seen){
        .since_s = token.since_s, .units = token.units, .limit = token.limit, .holds = holds};
    memcpy(seen->who, token.who, sizeof seen->who);
    return true;
}

static bool read_holders(const struct redisReply *reply, struct guard_lock_view *out)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements % 2 != 0 ||
        reply->elements > 2 * GUARD_LOCK_SEEN_MAX)
        return false;
    for (size_t i = 0; i < reply->elements; i += 2) {
        int64_t left_ms;
        if (!read_seen(reply->element[i], out, true) ||
            !read_whole(reply->element[i + 1], 1, UINT32_MAX, &left_ms))
            return false;
        out->seen[out->seen_count - 1].left_ms = (uint32_t)left_ms;
    }
    return true;
}

static bool read_waiters(const struct redisReply *reply, struct guard_lock_view *out)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements > GUARD_LOCK_SEEN_MAX)
        return false;
    for (size_t i = 0; i < reply->elements; i++)
        if (!read_seen(reply->element[i], out, false))
            return false;
    return true;
}

static bool read_view(const struct redisReply *reply, struct guard_lock_view *out)
{
    int64_t fence, holders, waiters;
    *out = (struct guard_lock_view){.fence = 0};
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 5 ||
        !read_whole(reply->element[0], 0, INT64_MAX, &fence) ||
        !read_whole(reply->element[1], 0, UINT32_MAX, &holders) ||
        !read_whole(reply->element[2], 0, UINT32_MAX, &waiters))
        return false;
    out->fence = (uint64_t)fence;
    out->holder_count = (uint32_t)holders;
    out->waiter_count = (uint32_t)waiters;
    return read_holders(reply->element[3], out) && read_waiters(reply->element[4], out);
}

bool lock_wire_read_look(enum redis_outcome outcome, const struct redisReply *reply,
                         struct guard_lock_view *out, const char **why)
{
    if (outcome == REDIS_REPLIED && read_view(reply, out))
        return true;
    *why = why_unread(outcome, reply);
    return false;
}
