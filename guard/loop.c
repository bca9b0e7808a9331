/* SPDX-License-Identifier: MIT */
/* loop.c - see loop.h. */
#include "loop.h"
#include "clock.h"
#include "digest.h"
#include "envelope.h"
#include "hit.h"
#include "many.h"
#include "protocol_tags.h"
#include "shell.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum {
    CALLBACKS_PER_TURN = 128, /* of each kind, so that the loop's other work is not held up */
    ASK_AGAIN_US = 20000,     /* for a refresh of the same key */
};

/* A sound entry, and what it answers. */
struct found {
    struct value *value; /* owned; of an absent one NULL, or no more than its tags */
    struct guard_result result;
    uint64_t load_us;
    char filler[TOKEN_UUID_BYTES + 1];
    struct tags_clock born;
};

/* What a lookup has to do with tags. */
struct check {
    size_t asked_bytes;
    char asked[TAG_MEMORY_TEXT_MAX]; /* the tags whose epochs were asked for with the entry */
    struct tags_epochs epochs;
    struct found found; /* waits for another answer about its tags; its value is NULL: none does */
    char refused[TOKEN_UUID_BYTES + 1]; /* filler of what was found out of date; "": nothing was */
};

/* One PTTL and GET on their way; who asks before they are written shares them. */
struct lookup {
    UT_hash_handle hh; /* only while joinable */
    struct guard_loop *loop;
    struct get *gets; /* for this answer */
    uint64_t batch;   /* of the connection when it was asked: once that moves on, it has been written */
    struct near_lookup near;
    struct check *check; /* owned; NULL: no tags */
    int64_t pttl_ms;
    unsigned replies;        /* still to come */
    bool joinable, unlisted; /* in the table; no memory for that */
    bool unanswered;         /* Redis said nothing within its limit */
    size_t encoded_bytes;
    char encoded[];
};

/* ---- counters: one writer ---- */

static void bump(_Atomic uint64_t *counter, uint64_t by)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + by,
                          memory_order_relaxed);
}

/* NULL: it is counted already. */
static _Atomic uint64_t *counter_of(struct loop_counters *counters, const struct guard_result *result)
{
    switch (result->status) {
    case GUARD_OK:
        return result->source == GUARD_FROM_STALE ? &counters->stale : &counters->hit;
    case GUARD_ABSENT:
        return &counters->absent_hit;
    case GUARD_CANCELLED:
        return &counters->cancelled;
    case GUARD_CLOSING:
        return &counters->closed;
    case GUARD_SHED: /* by the core, which had no room for it */
        return NULL;
    case GUARD_FAILED:
    case GUARD_TIMEOUT:
    case GUARD_UNKNOWN:
    case GUARD_INVALID:
    case GUARD_NO_MEMORY:
        break;
    }
    return &counters->failed;
}

void loop_count(struct guard_loop *loop, const struct get *get)
{
    struct loop_counters *counters = &loop->counters;
    uint64_t span_us = clock_now_us() - get->waiter.start_us;
    size_t bucket = core_histogram_bucket(span_us);
    _Atomic uint64_t *outcome = counter_of(counters, &get->waiter.result);
    if (outcome != NULL)
        bump(outcome, 1);
    bump(&counters->duration_count[bucket], 1);
    bump(&counters->duration_sum_us, span_us);
}

/* ---- which tags a key had ---- */

static void remember_tags(struct guard_loop *loop, const char *encoded, size_t encoded_bytes,
                          const char *tags, size_t bytes)
{
    if (loop->tag_memory == NULL)
        loop->tag_memory = tag_memory_new();
    tag_memory_put(loop->tag_memory, digest_siphash(loop->guard->hash_key, encoded, encoded_bytes), tags,
                   bytes);
}

static size_t recall_tags(const struct lookup *lookup, const char **tags)
{
    const struct guard_loop *loop = lookup->loop;
    if (loop->tag_memory == NULL)
        return 0;
    uint64_t hash = digest_siphash(loop->guard->hash_key, lookup->encoded, lookup->encoded_bytes);
    return tag_memory_get(loop->tag_memory, hash, tags);
}

/* ---- gets ---- */

static uint32_t deadline_of(const struct guard_request *request)
{
    return request->deadline_ms != 0 ? request->deadline_ms : request->kind->policy.deadline_ms;
}

enum guard_status loop_new_get(struct guard_loop *loop, const struct guard_request *request, struct get **out)
{
    char encoded[KEY_ENCODED_MAX + 1];
    if (request == NULL || request->kind == NULL || request->key == NULL ||
        request->kind->guard != loop->guard)
        return GUARD_INVALID;
    size_t plain_bytes = strnlen(request->key, KEY_BYTES_MAX + 1);
    if (!key_valid(request->key, plain_bytes))
        return GUARD_INVALID;
    size_t encoded_bytes = key_encode(request->key, plain_bytes, encoded);
    struct get *get = malloc(sizeof *get + plain_bytes + encoded_bytes + 2);
    if (get == NULL)
        return GUARD_NO_MEMORY;
    memset(get, 0, sizeof *get);
    memcpy(get->text, request->key, plain_bytes + 1);
    memcpy(get->text + plain_bytes + 1, encoded, encoded_bytes + 1);
    get->plain_bytes = (uint16_t)plain_bytes;
    get->encoded_bytes = (uint16_t)encoded_bytes;
    get->kind = request->kind;
    get->loop = loop;
    get->answered = request->answered;
    get->context = request->context;
    get->waiter.start_us = clock_now_us();
    get->deadline_us = get->waiter.start_us + (uint64_t)deadline_of(request) * 1000;
    *out = get;
    return GUARD_OK;
}

/* ---- calling back ---- */

static void forget_ticket(struct guard_loop *loop, struct get *get)
{
    bool shared = loop == loop->guard->own;
    bool lock = shared || get->cancel_posted;
    if (lock)
        pthread_mutex_lock(&loop->guard->mutex);
    shell_forget_cancel(loop->guard, get);
    tickets_remove(&loop->tickets, get->ticket);
    if (get->many != NULL)
        many_forget(get);
    if (lock)
        pthread_mutex_unlock(&loop->guard->mutex);
}

/* The next lookup of it finds them there. */
static void remember_loaded(struct guard_loop *loop, const struct get *get)
{
    const struct core_key key = get_key(get);
    const struct value *value = value_behind(get->waiter.result.value);
    if (get->stage == GET_CORE && value != NULL && value->tags_bytes > 0)
        remember_tags(loop, key.encoded, key.encoded_bytes, value->tags, value->tags_bytes);
}

static void call_back(struct guard_loop *loop, struct get *get)
{
    struct guard_result result = get->waiter.result;
    const struct guard_value *value = result.value;
    if (loop->detaching && result.status == GUARD_CANCELLED)
        result.status = GUARD_CLOSING;
    forget_ticket(loop, get);
    remember_loaded(loop, get);
    get->answered(get->context, &result);
    guard_value_unref(&value);
    free(get);
    loop->count--;
}

static void close_handles(struct guard_loop *loop);

/* Nobody waits here. */
static void rest(struct guard_loop *loop)
{
    if (loop->detaching)
        close_handles(loop);
    else if (loop == loop->guard->own)
        shell_rested(loop->guard);
}

static void call_back_some(struct guard_loop *loop, struct get **list)
{
    for (int i = 0; i < CALLBACKS_PER_TURN && *list != NULL; i++) {
        struct get *get = *list;
        DL_DELETE(*list, get);
        call_back(loop, get);
    }
}

static void go_on(struct guard_loop *loop)
{
    if (loop->hits != NULL || loop->ready != NULL)
        uv_async_send(&loop->async);
    else if (loop->count == 0)
        rest(loop);
}

/* Apart from the others: a hit must not wait behind thousands who are woken together. */
static void call_back_hits(struct guard_loop *loop)
{
    call_back_some(loop, &loop->hits);
    go_on(loop);
}

static void call_back_ready(struct guard_loop *loop)
{
    call_back_some(loop, &loop->hits);
    call_back_some(loop, &loop->ready);
    go_on(loop);
}

static void on_loop_async(uv_async_t *async)
{
    struct guard_loop *loop = async->data;
    pthread_mutex_lock(&loop->mutex);
    DL_CONCAT(loop->ready, loop->returned);
    loop->returned = NULL;
    pthread_mutex_unlock(&loop->mutex);
    call_back_ready(loop);
}

void loop_return(struct guard_loop *loop, struct get *list)
{
    pthread_mutex_lock(&loop->mutex);
    DL_CONCAT(loop->returned, list);
    uv_async_send(&loop->async); /* under the mutex: once it is released, the loop may be gone */
    pthread_mutex_unlock(&loop->mutex);
}

/* ---- the lookup ---- */

static void leave_table(struct lookup *lookup)
{
    if (!lookup->joinable)
        return;
    HASH_DELETE(hh, lookup->loop->lookups, lookup);
    lookup->joinable = false;
}

/* No hit: the guard's thread decides. */
static void pass_on(struct lookup *lookup)
{
    while (lookup->gets != NULL) {
        struct get *get = lookup->gets;
        DL_DELETE(lookup->gets, get);
        get->lookup = NULL;
        get->waiter.looked_up_in_vain = lookup->unanswered;
        if (lookup->check != NULL)
            memcpy(get->waiter.refused, lookup->check->refused, sizeof get->waiter.refused);
        if (get->many != NULL)
            many_missed(get);
        else
            shell_post_get(lookup->loop->guard, get);
    }
}

static void answer_hit(struct guard_loop *loop, struct get *get, const struct guard_result *result)
{
    DL_DELETE(get->lookup->gets, get);
    get->lookup = NULL;
    get->waiter.result = *result;
    if (result->value != NULL)
        guard_value_ref(result->value);
    loop_count(loop, get);
    DL_APPEND(loop->hits, get);
    if (get->many != NULL)
        many_answered_here(get);
}

/* One of many hits asks for them all. */
static void ask_for_refresh(struct guard_loop *loop, const struct get *get, const char *filler)
{
    struct core_key key = get_key(get);
    uint64_t now_us = clock_now_us();
    uint64_t hash = digest_siphash(loop->guard->hash_key, key.encoded, key.encoded_bytes);
    struct asked *asked = &loop->asked[hash % LOOP_ASKED];
    if (asked->key_hash == hash && now_us < asked->until_us)
        return;
    *asked = (struct asked){hash, now_us + ASK_AGAIN_US};
    shell_post_refresh(loop->guard, get, filler);
}

/* Each by its own policy. */
static void answer_gets(struct lookup *lookup, const struct found *found)
{
    struct guard_loop *loop = lookup->loop;
    const struct guard_result *result = &found->result;
    bool is_stale = result->source == GUARD_FROM_STALE;
    struct get *get = NULL, *next = NULL;
    DL_FOREACH_SAFE (lookup->gets, get, next) {
        enum hit_verdict verdict =
            hit_judge(&get->kind->policy, is_stale, found->load_us, result->left_ms, &loop->chance);
        if (verdict == HIT_NONE)
            continue;
        if (verdict != HIT_ANSWER)
            ask_for_refresh(loop, get, verdict == HIT_EARLY ? found->filler : NULL);
        answer_hit(loop, get, result);
    }
}

static struct guard_result result_of(const struct envelope *envelope, int64_t pttl_ms, bool is_stale)
{
    uint64_t ttl_ms = (uint64_t)pttl_ms;
    return (struct guard_result){
        .status = envelope->absent ? GUARD_ABSENT : GUARD_OK,
        .source = is_stale ? GUARD_FROM_STALE : GUARD_FROM_CACHE,
        .age_ms = (uint32_t)(envelope->px_ms - ttl_ms),
        .left_ms = is_stale ? 0 : (uint32_t)(ttl_ms - envelope->stale_ms),
        .stored = true,
    };
}

/* A hit if it is as new as the policy asks for. Whoever is left goes on to the guard's thread. */
static void answer_found(struct lookup *lookup, const struct found *found)
{
    if (lookup->gets == NULL)
        return; /* all have left */
    if (found->result.source == GUARD_FROM_CACHE)
        near_keep(&lookup->near, lookup->gets->kind->policy.near_ms, found->value, &found->result);
    answer_gets(lookup, found);
}

/* False: no entry of ours, too old to be judged here, or no memory. */
static bool judge_entry(const struct lookup *lookup, const struct redisReply *entry, struct found *found)
{
    struct envelope envelope;
    struct core_key key = get_key(lookup->gets);
    if (envelope_read(entry->str, entry->len, key.plain, key.plain_bytes, &envelope) != ENVELOPE_OK) {
        bump(&lookup->loop->counters.entry_rejected, 1);
        return false;
    }
    enum envelope_age age =
        envelope_judge(&envelope, lookup->pttl_ms, lookup->loop->guard->config.max_value_ms);
    if (age == ENVELOPE_DOUBTFUL)
        return false;
    *found = (struct found){.load_us = envelope.load_us, .born = envelope.born};
    found->result = result_of(&envelope, lookup->pttl_ms, age == ENVELOPE_STALE);
    memcpy(found->filler, envelope.filler, sizeof found->filler);
    if (envelope.absent && envelope.tags_bytes == 0)
        return true;
    found->value = value_new_tagged(envelope.body, envelope.body_bytes, envelope.validator,
                                    envelope.validator_bytes, envelope.tags, envelope.tags_bytes);
    if (!envelope.absent && found->value != NULL)
        found->result.value = &found->value->public;
    return found->value != NULL;
}

/* ---- its tags ---- */

static void judge_tags(struct lookup *lookup, struct found *found)
{
    size_t count = tags_count(found->value->tags, found->value->tags_bytes);
    switch (tags_judge(&lookup->check->epochs, count, &found->born)) {
    case TAGS_GOOD:
        answer_found(lookup, found);
        break;
    case TAGS_OUTDATED:
        bump(&lookup->loop->counters.entry_outdated, 1);
        memcpy(lookup->check->refused, found->filler, sizeof found->filler);
        break;
    case TAGS_UNANSWERED:
        lookup->unanswered = true;
        break;
    }
}

static void on_late_epochs(void *context, enum redis_outcome outcome, const struct redisReply *reply);

/* Nothing here watches deadlines: who has less left than a command may take waits in the core. */
static bool all_have_time(const struct lookup *lookup)
{
    uint64_t end_us = clock_now_us() + (uint64_t)lookup->loop->guard->config.redis_limit_ms * 1000;
    const struct get *get = lookup->gets;
    while (get != NULL && get->deadline_us >= end_us)
        get = get->next;
    return get == NULL;
}

/* The entry has other tags than those that were asked for with it: it waits for their epochs. */
static bool ask_for_epochs(struct lookup *lookup, struct found *found)
{
    const struct guard *guard = lookup->loop->guard;
    remember_tags(lookup->loop, lookup->encoded, lookup->encoded_bytes, found->value->tags,
                  found->value->tags_bytes);
    if (lookup->check == NULL)
        lookup->check = calloc(1, sizeof *lookup->check);
    if (lookup->check == NULL || !all_have_time(lookup) ||
        !protocol_send_check(&guard->protocol, lookup->loop->redis, found->value->tags,
                             found->value->tags_bytes, on_late_epochs, lookup))
        return false;
    lookup->replies++;
    lookup->check->found = *found;
    found->value = NULL;
    return true;
}

static bool epochs_are_here(const struct lookup *lookup, const struct value *value)
{
    const struct check *check = lookup->check;
    return check != NULL && check->asked_bytes == value->tags_bytes &&
           memcmp(check->asked, value->tags, value->tags_bytes) == 0;
}

static void answer_entry(struct lookup *lookup, const struct redisReply *entry)
{
    struct found found;
    if (!judge_entry(lookup, entry, &found))
        return;
    bool untagged = found.value == NULL || found.value->tags_bytes == 0;
    if (untagged && lookup->check != NULL)
        remember_tags(lookup->loop, lookup->encoded, lookup->encoded_bytes, "", 0);
    if (untagged)
        answer_found(lookup, &found);
    else if (epochs_are_here(lookup, found.value))
        judge_tags(lookup, &found);
    else
        ask_for_epochs(lookup, &found);
    value_unref(&found.value);
}

static void free_lookup(struct lookup *lookup)
{
    if (lookup->check != NULL)
        value_unref(&lookup->check->found.value);
    free(lookup->check);
    free(lookup);
}

static void one_reply_less(struct lookup *lookup)
{
    if (--lookup->replies > 0)
        return;
    pass_on(lookup);
    leave_table(lookup);
    free_lookup(lookup);
}

/* With the entry: what is said about its tags then is known when it comes. */
static void on_epochs(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    struct lookup *lookup = context;
    lookup->check->epochs = protocol_read_epochs(outcome, reply);
    one_reply_less(lookup);
}

static void on_late_epochs(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    struct lookup *lookup = context;
    struct guard_loop *loop = lookup->loop;
    lookup->check->epochs = protocol_read_epochs(outcome, reply);
    judge_tags(lookup, &lookup->check->found);
    one_reply_less(lookup);
    call_back_hits(loop);
}

static void on_pttl(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    struct lookup *lookup = context;
    if (outcome == REDIS_REPLIED && reply->type == REDIS_REPLY_INTEGER)
        lookup->pttl_ms = reply->integer;
    one_reply_less(lookup);
}

static void on_get(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    struct lookup *lookup = context;
    struct guard_loop *loop = lookup->loop;
    bool found = outcome == REDIS_REPLIED && reply->type == REDIS_REPLY_STRING && lookup->pttl_ms > 0;
    leave_table(lookup);
    lookup->unanswered = outcome == REDIS_UNKNOWN;
    if (found && lookup->gets != NULL)
        answer_entry(lookup, reply);
    one_reply_less(lookup);
    call_back_hits(loop);
}

/* The epochs of the tags that the entry had when it was last seen. */
static void send_remembered(struct lookup *lookup)
{
    struct guard_loop *loop = lookup->loop;
    const char *tags = NULL;
    size_t bytes = lookup->gets->kind->policy.tagged ? recall_tags(lookup, &tags) : 0;
    if (bytes > 0)
        lookup->check = calloc(1, sizeof *lookup->check);
    if (lookup->check == NULL)
        return;
    if (!protocol_send_check(&loop->guard->protocol, loop->redis, tags, bytes, on_epochs, lookup))
        return;
    memcpy(lookup->check->asked, tags, bytes);
    lookup->check->asked_bytes = bytes;
    lookup->replies++;
}

static void send_lookup(struct lookup *lookup)
{
    struct guard_loop *loop = lookup->loop;
    char name[KEY_NAME_SIZE];
    size_t name_bytes = key_name(loop->guard->config.name_space, lookup->encoded, KEY_VALUE, name);
    const char *pttl[] = {"PTTL", name}, *get[] = {"GET", name};
    size_t pttl_bytes[] = {4, name_bytes}, get_bytes[] = {3, name_bytes};
    lookup->batch = redis_batch(loop->redis);
    lookup->near = near_look_up(loop->guard->near, lookup->encoded, lookup->encoded_bytes, clock_now_us());
    lookup->replies = 1; /* ours, until all are sent */
    send_remembered(lookup);
    bool pttl_sent = redis_send(loop->redis, 2, pttl, pttl_bytes, on_pttl, lookup);
    lookup->replies += pttl_sent;
    if (pttl_sent && redis_send(loop->redis, 2, get, get_bytes, on_get, lookup))
        lookup->replies++;
    one_reply_less(lookup);
}

static struct lookup *joinable_lookup(struct guard_loop *loop, const struct core_key *key, unsigned hash)
{
    struct lookup *lookup = NULL;
    HASH_FIND_BYHASHVALUE(hh, loop->lookups, key->encoded, key->encoded_bytes, hash, lookup);
    if (lookup != NULL && lookup->batch != redis_batch(loop->redis)) {
        leave_table(lookup);
        lookup = NULL;
    }
    return lookup;
}

static struct lookup *new_lookup(struct guard_loop *loop, const struct core_key *key, unsigned hash)
{
    struct lookup *lookup = calloc(1, sizeof *lookup + key->encoded_bytes + 1);
    if (lookup == NULL)
        return NULL;
    lookup->loop = loop;
    lookup->pttl_ms = -2;
    lookup->encoded_bytes = key->encoded_bytes;
    memcpy(lookup->encoded, key->encoded, key->encoded_bytes);
    HASH_ADD_KEYPTR_BYHASHVALUE(hh, loop->lookups, lookup->encoded, lookup->encoded_bytes, hash, lookup);
    lookup->joinable = !lookup->unlisted;
    return lookup;
}

/* A lookup has the time limit of a Redis command; who is more impatient than that waits in the core, which
 * answers at the deadline. */
static bool has_time_for_lookup(const struct guard_loop *loop, const struct get *get)
{
    uint64_t limit_us = (uint64_t)loop->guard->config.redis_limit_ms * 1000;
    return get->deadline_us - get->waiter.start_us >= limit_us;
}

bool loop_look_up(struct guard_loop *loop, struct get *get)
{
    bool looks = loop->guard->config.mode != GUARD_MODE_SHADOW;
    if (!looks || !redis_is_up(loop->redis) || !has_time_for_lookup(loop, get))
        return false;
    struct core_key key = get_key(get);
    unsigned hash = (unsigned)digest_siphash(loop->guard->hash_key, key.encoded, key.encoded_bytes);
    struct lookup *lookup = joinable_lookup(loop, &key, hash);
    bool made = lookup == NULL;
    if (made)
        lookup = new_lookup(loop, &key, hash);
    if (lookup == NULL)
        return false;
    get->stage = GET_LOOKUP;
    get->lookup = lookup;
    DL_APPEND(lookup->gets, get);
    if (get->many != NULL)
        many_looking(get->many);
    if (made)
        send_lookup(lookup);
    return true;
}

void loop_accept(struct guard_loop *loop, struct get *get)
{
    loop->count++;
    if (!loop_look_up(loop, get))
        shell_post_get(loop->guard, get);
}

/* Before the core knows of it. */
static void cancel_here(struct guard_loop *loop, struct get *get)
{
    if (get->lookup != NULL)
        DL_DELETE(get->lookup->gets, get);
    get->lookup = NULL;
    if (get->many != NULL)
        many_cancelled_here(get);
    get->stage = GET_LOOKUP; /* over: it is not cancelled twice */
    get->waiter.result.status = loop->detaching ? GUARD_CLOSING : GUARD_CANCELLED;
    loop_count(loop, get);
    DL_APPEND(loop->ready, get);
    uv_async_send(&loop->async);
}

void loop_cancel(struct guard_loop *loop, struct get *get)
{
    if (get->lookup != NULL || get->stage == GET_HELD) {
        cancel_here(loop, get);
    } else if (get->stage == GET_CORE) {
        get->cancel_posted = true;
        shell_post_cancel(loop->guard, get);
    }
}

/* ---- life ---- */

static void redis_state(void *context, enum guard_redis_state state, const char *text)
{
    struct guard_loop *loop = context;
    loop->redis_state = state;
    shell_log(loop->guard, "%s", text);
    if (loop == loop->guard->own)
        shell_link(loop->guard, redis_is_up(loop->redis));
}

static struct redis *connect_redis(struct guard *guard, struct guard_loop *loop)
{
    uint64_t seed = 0;
    struct redis_config config;
    if (!clock_random(&seed, sizeof seed))
        return NULL;
    shell_redis_config(guard, &config);
    config.jitter_seed = seed;
    loop->chance.state = seed;
    config.hooks = (struct redis_hooks){.context = loop, .state = redis_state};
    return redis_open(loop->loop, &config);
}

enum guard_status loop_open(struct guard *guard, uv_loop_t *uv, struct guard_loop **out)
{
    struct guard_loop *loop = calloc(1, sizeof *loop);
    if (loop == NULL)
        return GUARD_NO_MEMORY;
    loop->guard = guard;
    loop->loop = uv;
    loop->tickets.mark = (uint8_t)atomic_fetch_add(&guard->loop_count, 1);
    if (uv_async_init(uv, &loop->async, on_loop_async) != 0) {
        free(loop);
        return GUARD_NO_MEMORY;
    }
    loop->async.data = loop;
    pthread_mutex_init(&loop->mutex, NULL);
    loop->redis = connect_redis(guard, loop);
    if (loop->redis == NULL) { /* the async handle must be closed by the loop: let it free the rest */
        loop_close(loop, NULL, NULL);
        return GUARD_NO_MEMORY;
    }
    *out = loop;
    return GUARD_OK;
}

static void add_counters(struct loop_counters *sum, const struct loop_counters *counters)
{
    bump(&sum->hit, atomic_load(&counters->hit));
    bump(&sum->stale, atomic_load(&counters->stale));
    bump(&sum->absent_hit, atomic_load(&counters->absent_hit));
    bump(&sum->cancelled, atomic_load(&counters->cancelled));
    bump(&sum->closed, atomic_load(&counters->closed));
    bump(&sum->failed, atomic_load(&counters->failed));
    bump(&sum->entry_rejected, atomic_load(&counters->entry_rejected));
    bump(&sum->entry_outdated, atomic_load(&counters->entry_outdated));
    bump(&sum->duration_sum_us, atomic_load(&counters->duration_sum_us));
    for (size_t i = 0; i < GUARD_HISTOGRAM_BUCKETS; i++)
        bump(&sum->duration_count[i], atomic_load(&counters->duration_count[i]));
}

/* A host's loop leaves the guard's list; what it has counted stays. */
static void leave_guard(struct guard_loop *loop)
{
    struct guard *guard = loop->guard;
    if (!loop->attached)
        return;
    pthread_mutex_lock(&guard->mutex);
    DL_DELETE(guard->loops, loop);
    add_counters(&guard->past_loops, &loop->counters);
    pthread_mutex_unlock(&guard->mutex);
}

static void part_closed(struct guard_loop *loop)
{
    if (--loop->closing > 0)
        return;
    pthread_mutex_destroy(&loop->mutex);
    leave_guard(loop);
    tickets_clear(&loop->tickets);
    tag_memory_free(&loop->tag_memory);
    if (loop->detached != NULL)
        loop->detached(loop->detached_context);
    free(loop);
}

static void async_closed(uv_handle_t *handle)
{
    part_closed(handle->data);
}

static void redis_closed(void *context)
{
    part_closed(context);
}

static void close_handles(struct guard_loop *loop)
{
    if (loop->handles_closed)
        return;
    loop->handles_closed = true;
    pthread_mutex_lock(&loop->mutex); /* waits for a loop_return() that is still leaving */
    pthread_mutex_unlock(&loop->mutex);
    loop->closing = 1 + (loop->redis != NULL);
    uv_close((uv_handle_t *)&loop->async, async_closed);
    if (loop->redis != NULL)
        redis_close(loop->redis, redis_closed, loop);
}

/* Those still looking up or in the core come back as cancelled. */
static void cancel_all(struct guard_loop *loop)
{
    pthread_mutex_lock(&loop->guard->mutex);
    for (uint32_t i = 0; i < loop->tickets.count; i++) {
        struct get *get = loop->tickets.slots[i].what;
        if (get != NULL)
            loop_cancel(loop, get);
    }
    pthread_mutex_unlock(&loop->guard->mutex);
}

void loop_close(struct guard_loop *loop, void (*detached)(void *context), void *context)
{
    loop->detaching = true;
    loop->detached = detached;
    loop->detached_context = context;
    if (loop->count == 0)
        close_handles(loop);
    else
        cancel_all(loop);
}
