/* SPDX-License-Identifier: MIT */
/*
 * calls.c - a script on its way to Redis and back, and what goes beside it because of tags. See calls.h.
 *
 *   ACQUIRE, tagged      clock  + script     the core hears of a lease only when the clock has been read: the query
 *                                            comes after both
 *   FILL, TOUCH, tags    keep   + script    in a Cluster the script after the reply: an entry that is found before
 *                                           its tags have epochs counts as out of date, and these go to another
 *                                           master
 *   RELEASE, shares tags likewise            what it shares is checked as if it were stored
 *   an entry with tags   script, then check  the core hears of no entry whose tags have not been looked at; if they
 *                                            were expired and it is stale since then, the core asks again
 *   INVALIDATE, shadow   its own + the fleet's  the core hears what became of the fleet's entries
 */
#include "calls.h"
#include "../base/load_id.h"
#include "../core/near.h"
#include "expire.h"
#include "tag_batch.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a fill, a touch or a release needs when its action is gone. */
struct later_store {
    struct core_action action;
    struct value *value; /* owned */
    char encoded[KEY_ENCODED_MAX + 1], token[TOKEN_SIZE], wanted[TOKEN_UUID_BYTES + 1];
};

/* One script and its companion; or what a message has brought, whose script was another process's. */
struct call {
    struct guard *guard;
    calls_replied *replied;
    calls_checked *checked; /* of a message: in its place */
    enum core_action_kind kind;
    uint64_t op;
    bool revalidates;                      /* an acquire that no value answers which was there */
    uint64_t lease;                        /* of a fill: the number of its tag */
    unsigned awaited;                      /* replies; while it is sent one more */
    bool sent;                             /* the script itself */
    struct tags_clock clock;               /* what the companion of an acquire has said */
    bool outdated;                         /* what that of a fill has */
    struct core_reply reply;               /* to the script, until all is there */
    struct value *value;                   /* owned; reply.value */
    struct tag_asker asker;                /* about the tags of what it brought */
    struct later_store *later;             /* owned; the script waits for its companion; NULL: it does not */
    char head[TOKEN_UUID_BYTES];           /* reply.head */
    char lease_tag[TOKEN_TAG_BYTES];       /* reply.lease_tag */
    char names_seen[2 * TOKEN_UUID_BYTES]; /* reply.names_seen */
    size_t tag_count;                      /* of what it brought */
    size_t key_bytes;
    char key[]; /* the application's: entries are checked against it; of a message encoded */
};

static void say_refusal(struct guard *guard, enum redis_outcome outcome, const struct redisReply *reply)
{
    if (outcome == REDIS_REPLIED && reply->type == REDIS_REPLY_ERROR)
        say(&guard->say, SAY_REDIS, SAY_BAD, "redis refused a script: %.200s", reply->str);
}

static bool stores(enum core_action_kind kind)
{
    return kind == CORE_FILL || kind == CORE_TOUCH;
}

/* What others will check against its tags: they must have epochs. */
static bool brings_tags(const struct core_action *action)
{
    bool brings = stores(action->kind) || action->kind == CORE_RELEASE;
    return brings && action->value != NULL && action->value->tags_bytes > 0;
}

/* Before the core answers anybody: it has stored, or may have, or has found what was loaded since. */
static void forget_near(struct call *call)
{
    char encoded[KEY_ENCODED_MAX + 1];
    bool found_newer = call->revalidates && call->reply.kind == REPLY_FRESH;
    bool stored = call->reply.kind == REPLY_CODE && call->reply.code > 0 && !call->outdated;
    if (stores(call->kind) || found_newer)
        near_stored(call->guard->near, stored ? call->lease : 0, encoded,
                    key_encode(call->key, call->key_bytes, encoded));
}

static void tell_reply(struct call *call)
{
    const struct core_reply *reply = &call->reply;
    if (call->checked != NULL) {
        bool good = reply->kind == REPLY_FRESH && !reply->outdated;
        call->checked(call->guard, call->key, call->key_bytes, good ? reply : NULL);
        return;
    }
    forget_near(call);
    call->reply.clock = call->clock;
    if (stores(call->kind))
        call->reply.outdated = call->outdated;
    call->replied(call->guard, call->op, reply);
}

static void free_call(struct call *call)
{
    if (call->later != NULL)
        value_unref(&call->later->value);
    free(call->later);
    value_unref(&call->value);
    free(call);
}

/* The last one tells, unless the guard is ending already. */
static void one_awaited_less(struct call *call)
{
    if (--call->awaited > 0)
        return;
    if (call->sent && call->guard->phase != PHASE_ENDING)
        tell_reply(call);
    free_call(call);
}

/* ---- replies ---- */

static void on_clock(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    struct call *call = context;
    say_refusal(call->guard, outcome, reply);
    call->clock = protocol_read_clock(outcome, reply);
    one_awaited_less(call);
}

static bool send_later_store(struct call *call);

static void on_keep(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    struct call *call = context;
    say_refusal(call->guard, outcome, reply);
    call->outdated = !protocol_read_keep(outcome, reply);
    if (call->later != NULL && !send_later_store(call)) {
        call->reply = (struct core_reply){.kind = REPLY_UNSENT};
        call->awaited--;
    }
    one_awaited_less(call);
}

/* Only what is known to be good is answered. The flight gives back a lease that came with it. */
static void doubt(struct call *call, bool blameless)
{
    call->reply = (struct core_reply){.kind = REPLY_UNKNOWN, .blameless = blameless};
}

/* Stale it is another find: the core looks again. */
static void on_call_expired(void *context, bool expired)
{
    struct call *call = context;
    if (expired)
        doubt(call, true);
    else
        call->reply.outdated = true;
    one_awaited_less(call);
}

/* Older than its tags: were they expired? What a message brought has no key of the application to ask about. */
static void judge_outdated_reply(struct call *call)
{
    struct guard *guard = call->guard;
    const struct expire_found found = {call->key, call->key_bytes, call->value, call->head, call->reply.born};
    call->awaited++;
    const bool has_stale_time = call->reply.kind == REPLY_STALE || call->reply.pttl_ms > call->reply.left_ms;
    const bool is_pushed = call->reply.head == NULL;
    if (call->value != NULL && !is_pushed && has_stale_time && guard->phase != PHASE_ENDING &&
        expire_begin(guard->own, &found, on_call_expired, call))
        return;
    call->awaited--;
    call->reply.outdated = true;
}

static void on_check(void *context)
{
    struct call *call = context;
    switch (tags_judge(&call->asker.epochs, call->tag_count, &call->reply.born)) {
    case TAGS_GOOD:
        break;
    case TAGS_OUTDATED:
        judge_outdated_reply(call);
        break;
    case TAGS_UNANSWERED:
        doubt(call, call->guard->protocol.in_cluster);
        break;
    }
    one_awaited_less(call);
}

/* False: they cannot be. */
static bool check_tags(struct call *call)
{
    struct core_reply *reply = &call->reply;
    call->tag_count = tags_count(reply->tags, reply->tags_bytes);
    call->asker.answered = on_check;
    call->asker.context = call;
    if (!tag_batch_join(call->guard->own, &call->asker, reply->tags, reply->tags_bytes))
        return false;
    call->awaited++;
    reply->tags = NULL;
    return true;
}

/* What is lent until the reply is gone is told later. */
static const char *keep_text(char *own, const char *text, size_t bytes)
{
    return text != NULL ? memcpy(own, text, bytes) : NULL;
}

static void on_script(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    struct call *call = context;
    say_refusal(call->guard, outcome, reply);
    protocol_read(call->kind, call->key, call->key_bytes, outcome, reply, &call->reply, &call->value);
    struct core_reply *told = &call->reply;
    bool found = told->kind == REPLY_FRESH || told->kind == REPLY_STALE;
    told->head = keep_text(call->head, told->head, TOKEN_UUID_BYTES);
    told->lease_tag = keep_text(call->lease_tag, told->lease_tag, TOKEN_TAG_BYTES);
    told->names_seen = keep_text(call->names_seen, told->names_seen, sizeof call->names_seen);
    if (found && told->tags_bytes > 0 && !check_tags(call))
        doubt(call, call->guard->protocol.in_cluster);
    one_awaited_less(call);
}

/* ---- sending ---- */

static void send_keep(struct call *call, const struct core_action *action)
{
    call->awaited++;
    if (protocol_send_keep(&call->guard->protocol, call->guard->own->redis, action->value->tags,
                           action->value->tags_bytes, &action->born, on_keep, call))
        return;
    call->awaited--;
    call->outdated = true; /* as far as is known */
}

static void on_own(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    struct call *call = context;
    say_refusal(call->guard, outcome, reply);
    one_awaited_less(call);
}

static void send_companion(struct call *call, const struct core_action *action)
{
    const struct protocol *protocol = &call->guard->protocol;
    struct redis *redis = call->guard->own->redis;
    /* The shadow's own entries go too; how that went, the core need not know. */
    if (action->kind == CORE_INVALIDATE && call->guard->shadow != NULL)
        call->awaited += protocol_send(protocol, redis, action, on_own, call);
    if (action->kind == CORE_ACQUIRE && action->policy->tagged && action->lookup != LOOKUP_PEEK)
        call->awaited += protocol_send_clock(protocol, redis, on_clock, call);
    else if (brings_tags(action))
        send_keep(call, action);
}

static struct call *new_call(struct guard *guard, const struct core_action *action, calls_replied *replied)
{
    struct call *call = calloc(1, sizeof *call + action->key.plain_bytes);
    if (call == NULL)
        return NULL;
    call->guard = guard;
    call->replied = replied;
    call->kind = action->kind;
    call->op = action->op;
    call->revalidates = action->kind == CORE_ACQUIRE &&
                        (action->lookup == LOOKUP_REVALIDATE || action->lookup == LOOKUP_REVALIDATE_PEEK);
    call->lease = stores(action->kind) ? load_id_of_tag(action->token + TOKEN_TAG_AT) : 0;
    call->key_bytes = action->key.plain_bytes;
    memcpy(call->key, action->key.plain, call->key_bytes);
    return call;
}

/* ---- a script that waits for its companion ---- */

static struct later_store *new_later_store(const struct call *call, const struct core_action *action)
{
    struct later_store *later = calloc(1, sizeof *later);
    if (later == NULL)
        return NULL;
    later->action = *action;
    later->value = value_ref((struct value *)(uintptr_t)action->value);
    later->action.value = later->value;
    snprintf(later->encoded, sizeof later->encoded, "%s", action->key.encoded);
    snprintf(later->token, sizeof later->token, "%s", action->token);
    snprintf(later->wanted, sizeof later->wanted, "%.36s", action->wanted != NULL ? action->wanted : "");
    later->action.key = (struct core_key){call->key, call->key_bytes, later->encoded, strlen(later->encoded)};
    later->action.token = later->token;
    later->action.wanted = action->wanted != NULL ? later->wanted : NULL;
    return later;
}

/* False: it has not left. */
static bool send_later_store(struct call *call)
{
    struct guard *guard = call->guard;
    return guard->phase != PHASE_ENDING &&
           protocol_send(&guard->protocol, guard->own->redis, &call->later->action, on_script, call);
}

bool calls_send(struct guard *guard, const struct core_action *action, calls_replied *replied)
{
    struct call *call = new_call(guard, action, replied);
    if (call == NULL)
        return false;
    call->awaited = 1;
    const struct protocol *protocol = action->kind == CORE_INVALIDATE ? &guard->answering : &guard->protocol;
    if (guard->protocol.in_cluster && brings_tags(action)) {
        call->later = new_later_store(call, action);
        if (call->later != NULL)
            send_keep(call, action);
        call->sent = call->awaited > 1 || (call->later != NULL && send_later_store(call));
    } else {
        send_companion(call, action);
        call->sent = protocol_send(protocol, guard->own->redis, action, on_script, call);
    }
    if (call->sent)
        return true;
    one_awaited_less(call);
    return false;
}

/* ---- what a message has brought ---- */

bool calls_check_push(struct guard *guard, const struct message *message, const struct core_reply *pushed,
                      calls_checked *checked)
{
    const struct core_action found = {
        .kind = CORE_ACQUIRE, .key = {.plain = message->subject, .plain_bytes = message->subject_bytes}};
    struct call *call = new_call(guard, &found, NULL);
    if (call == NULL)
        return false;
    call->checked = checked;
    call->sent = true;
    call->reply = *pushed;
    call->reply.lease_tag = keep_text(call->lease_tag, pushed->lease_tag, TOKEN_TAG_BYTES);
    call->value = pushed->value != NULL ? value_ref(pushed->value) : NULL;
    if (check_tags(call))
        return true;
    free_call(call);
    return false;
}
