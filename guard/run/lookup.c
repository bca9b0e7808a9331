/* SPDX-License-Identifier: MIT */
/*
 * lookup.c - lookups: what a loop reads from Redis, and which gets that answers. See lookup.h.
 *
 *     the epochs of the tags that the key had   PTTL  GETEX    one write to each master
 *                                                    |
 *                                                    +-- no sound entry, or in doubt ------------------> core
 *                                                    +-- no tags, or those that were asked: judged --> hit, or core
 *                                                    +-- other tags: asked behind it, then judged ---> hit, or core
 *                                                    +-- outdated: perhaps its tags were expired ---> stale, or core
 *
 * The mark of a pass is judged like any entry, and then no hit: its gets pass, and the core needs no acquire for
 * them. Each get's own policy says whether a hit answers it (keep.h). GETEX, so that only the master answers:
 * redis/fence.h. In a Cluster the tags have a master of their own, and the epochs may come after the entry, which
 * then waits.
 */
#include "lookup.h"
#include "../base/clock.h"
#include "../base/load_id.h"
#include "../core/keep.h"
#include "../core/near.h"
#include "../wire/envelope.h"
#include "callback.h"
#include "expire.h"
#include "mailbox.h"
#include "tag_batch.h"
#include "tag_memory.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum {
    REFRESH_AGAIN_US = 20000, /* for a refresh of the same key */
    EXPIRE_COMMANDS = 3,      /* one after the other: expire.h */
};

/* A sound entry, and what it answers. */
struct found {
    struct value *value; /* owned; of an absent one or a mark NULL, or no more than its tags */
    bool mark;           /* of a pass: it answers nothing */
    enum hit_age age;
    struct guard_result result;
    uint64_t load_us;
    char filler[TOKEN_UUID_BYTES + 1];
    struct tags_clock born;
    enum hit_age staleness; /* its age once it is stale; FRESH: it has no stale time */
    uint32_t stale_left_ms; /* behind result.left_ms */
};

/* What a lookup has to do with tags. */
struct check {
    struct tag_asker asker;
    bool asking;            /* they are on their way */
    bool of_found;          /* they are those of the entry itself */
    size_t requested_bytes; /* otherwise: the tags whose epochs were requested with the entry */
    char requested[TAG_MEMORY_TEXT_MAX];
    char refused[TOKEN_UUID_BYTES + 1]; /* filler of what was found out of date; "": nothing was */
};

/* One PTTL and GETEX, begun or on their way; gets that come before they are written share them. */
struct lookup {
    struct lookup *prev, *next;               /* in its list, while joinable */
    struct lookup *prev_unsent, *next_unsent; /* in the loop's, until it is sent */
    struct lookup *prev_flying, *next_flying; /* likewise, until it is answered, or late */
    struct loop *loop;
    struct get *gets; /* for this answer */
    uint64_t key_hash;
    uint64_t batch; /* of the loop when it was sent: once that moves on, a part of it has been written */
    struct near_lookup near;
    struct found found;  /* its value is NULL: nothing that has tags */
    struct check *check; /* owned; NULL: no tags */
    struct redis_lookup looked_up;
    int64_t pttl_ms;
    unsigned replies; /* still to come */
    bool joinable, sent, flying;
    bool again;      /* its GETEX was refused */
    bool unanswered; /* Redis said nothing within its limit */
    bool told;       /* it said what there is */
    size_t name_bytes, encoded_bytes;
    const char *name; /* of its entry in Redis; stands behind `encoded` */
    char encoded[];
};

/* ---- leaving it: passed on, or answered ---- */

static struct lookup **list_of(struct loop *loop, uint64_t key_hash)
{
    return &loop->lookups[key_hash % LOOP_LOOKUP_LISTS];
}

static void leave_list(struct lookup *lookup)
{
    if (!lookup->joinable)
        return;
    DL_DELETE(*list_of(lookup->loop, lookup->key_hash), lookup);
    lookup->joinable = false;
}

void lookup_leave(struct get *get)
{
    if (get->lookup == NULL)
        return;
    DL_DELETE(get->lookup->gets, get);
    get->lookup = NULL;
}

static bool peeks(const struct get *get)
{
    return (get->flags & GUARD_PEEK) != 0;
}

static bool is_answered(const struct lookup *lookup)
{
    return lookup->told && !lookup->unanswered;
}

static void answer_later(struct loop *loop, struct get *get)
{
    get->stage = GET_LOOKUP;
    callback_count(loop, get);
    DL_APPEND(loop->ready, get);
    host_wake_send(&loop->mail);
}

/* In place of Redis. True: what is kept answers it, and it has left its lookup. */
static bool answer_kept_get(struct loop *loop, struct get *get)
{
    const struct core_waiter *waiter = &get->waiter;
    const struct outage_asker asker = {.nested = waiter->parent_load != 0,
                                       .refreshes = waiter->refreshes,
                                       .revalidates = waiter->revalidates,
                                       .passes = waiter->passes};
    const struct core_key key = get_key(get);
    if (!outage_serves(get->policy, &asker))
        return false;
    enum near_kept kept = near_kept(loop->guard->near, key.encoded, key.encoded_bytes, get->policy,
                                    clock_now_us(), &get->waiter.result);
    if (kept == NEAR_KEPT_NOT)
        return false;
    if (kept == NEAR_KEPT_REFRESH && !peeks(get))
        mailbox_post_kept(loop->guard, &key, get->policy, &get->asker, get->many != NULL);
    lookup_leave(get);
    answer_later(loop, get);
    return true;
}

static bool answer_kept_part(struct lookup *lookup, struct get *get)
{
    bool answered = answer_kept_get(lookup->loop, get);
    if (answered)
        many_answered_here(get);
    return answered;
}

/* Not from inside the call that may have begun it. */
static void answer_peek(struct loop *loop, struct get *get, enum guard_status status)
{
    get->waiter.result = (struct guard_result){.status = status};
    answer_later(loop, get);
}

/* No hit: the guard's thread decides. */
static void pass_on(struct lookup *lookup)
{
    while (lookup->gets != NULL) {
        struct get *get = lookup->gets;
        if (!is_answered(lookup) && answer_kept_part(lookup, get))
            continue;
        lookup_leave(get);
        if (peeks(get)) {
            answer_peek(lookup->loop, get, is_answered(lookup) ? GUARD_MISS : GUARD_UNKNOWN);
            many_answered_here(get);
            continue;
        }
        get->waiter.lookup_unanswered = lookup->unanswered;
        get->waiter.lookup_answered = is_answered(lookup);
        if (lookup->check != NULL)
            memcpy(get->waiter.refused, lookup->check->refused, sizeof get->waiter.refused);
        if (get->many != NULL)
            many_missed(get);
        else
            mailbox_post_get(lookup->loop->guard, get);
    }
}

static void answer_hit(struct loop *loop, struct get *get, const struct guard_result *result)
{
    lookup_leave(get);
    get->waiter.result = *result;
    if (result->value != NULL)
        guard_value_ref(result->value);
    callback_count(loop, get);
    DL_APPEND(loop->hits, get);
    many_answered_here(get);
}

/* ---- its entry ---- */

/* One of many hits does so for all. */
static void want_refresh(struct loop *loop, const struct get *get, const char *filler)
{
    uint64_t now_us = clock_now_us(), key_hash = get->lookup->key_hash;
    struct recent_refresh *recent = &loop->recent_refreshes[key_hash % LOOP_RECENT_REFRESHES];
    if (recent->key_hash == key_hash && now_us < recent->until_us)
        return;
    *recent = (struct recent_refresh){key_hash, now_us + REFRESH_AGAIN_US};
    mailbox_post_refresh(loop->guard, get, filler);
}

/* Each by its own policy. */
static void answer_gets(struct lookup *lookup, const struct found *found)
{
    struct loop *loop = lookup->loop;
    struct get *get = NULL, *next = NULL;
    DL_FOREACH_SAFE (lookup->gets, get, next) {
        enum hit_verdict verdict = HIT_ANSWER;
        if (!peeks(get))
            verdict =
                hit_judge(get->policy, found->age, found->load_us, found->result.left_ms, &loop->chance);
        else if (!hit_serves(get->policy, found->age))
            verdict = HIT_NONE;
        if (verdict == HIT_NONE)
            continue;
        if (verdict != HIT_ANSWER)
            want_refresh(loop, get, verdict == HIT_EARLY ? found->filler : NULL);
        answer_hit(loop, get, &found->result);
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
        .load = load_id_of_uuid(envelope->filler),
    };
}

/* For others of this process: near if it is fresh, and for an outage. */
static void keep_found_near(const struct lookup *lookup, const struct found *found)
{
    const struct guard_policy *policy = lookup->gets->policy;
    bool is_fresh = found->result.source == GUARD_FROM_CACHE;
    bool may_be_stale = found->staleness != HIT_FRESH && hit_serves(policy, found->staleness);
    const struct near_life life = {
        .near_ms = is_fresh ? policy->near_ms : 0,
        .stale_ms = may_be_stale ? found->stale_left_ms : 0,
        .kept = policy->outage_ms > 0,
        .spare_ms = policy->outage_ms,
        .load_us = found->load_us,
    };
    if (is_fresh || life.stale_ms > 0)
        near_keep(&lookup->near, &life, found->value, &found->result);
}

/* A hit if it is as new as the policy wants it. Gets that it does not answer go on to the guard's thread. */
static void answer_found(struct lookup *lookup)
{
    const struct found *found = &lookup->found;
    if (lookup->gets == NULL)
        return; /* all have left */
    if (found->mark) {
        struct get *get = NULL;
        DL_FOREACH (lookup->gets, get)
            get->waiter.passes = true; /* each goes on to a load of its own, without an acquire */
        return;
    }
    keep_found_near(lookup, found);
    answer_gets(lookup, found);
}

/* False: no entry of ours, too old to be judged here, or no memory. */
static bool judge_entry(struct lookup *lookup, const struct redisReply *entry)
{
    struct found *found = &lookup->found;
    struct envelope envelope;
    struct core_key key = get_key(lookup->gets);
    const struct guard_policy *policy = lookup->gets->policy;
    if (envelope_read(entry->str, entry->len, key.plain, key.plain_bytes, &envelope) != ENVELOPE_OK ||
        hit_lacks_meta(policy, !envelope.absent && !envelope.mark, envelope.meta_bytes)) {
        counter_add(&counters_of(lookup->loop, lookup->gets)->requests[STATS_entry_rejected], 1);
        return false;
    }
    enum envelope_age age =
        envelope_judge(&envelope, lookup->pttl_ms, lookup->loop->guard->config.max_value_ms);
    if (age == ENVELOPE_DOUBTFUL)
        return false;
    bool has_body = !envelope.absent && !envelope.mark;
    *found = (struct found){.load_us = envelope.load_us, .born = envelope.born, .mark = envelope.mark};
    if (envelope.stale_ms > 0)
        found->staleness = envelope.life.own_stale ? HIT_STALE_OWN : HIT_STALE;
    if (age == ENVELOPE_STALE)
        found->age = found->staleness;
    found->stale_left_ms = (uint32_t)(age == ENVELOPE_STALE ? (uint64_t)lookup->pttl_ms : envelope.stale_ms);
    found->result = result_of(&envelope, lookup->pttl_ms, age == ENVELOPE_STALE);
    memcpy(found->filler, envelope.filler, sizeof found->filler);
    if (!has_body && envelope.tags_bytes == 0)
        return true;
    found->value = envelope_value(&envelope);
    if (has_body && found->value != NULL)
        found->result.value = &found->value->public;
    return found->value != NULL;
}

/* Nothing here watches deadlines: a get with less time left than so many commands may take waits in the core. */
static bool all_have_time(const struct lookup *lookup, unsigned commands)
{
    uint64_t limit_us = (uint64_t)lookup->loop->guard->config.redis_limit_ms * 1000;
    uint64_t end_us = clock_now_us() + commands * limit_us;
    const struct get *get = lookup->gets;
    while (get != NULL && (peeks(get) || get->deadline_us >= end_us))
        get = get->next;
    return get == NULL;
}

/* ---- its tags ---- */

static void note_outdated(struct lookup *lookup)
{
    counter_add(&counters_of(lookup->loop, lookup->gets)->requests[STATS_entry_outdated], 1);
    memcpy(lookup->check->refused, lookup->found.filler, sizeof lookup->found.filler);
}

static void on_expired(void *context, bool expired);

/* Older than its tags: were they expired? */
static void judge_outdated(struct lookup *lookup)
{
    const struct found *found = &lookup->found;
    struct core_key key = get_key(lookup->gets);
    const struct expire_found outdated = {key.plain, key.plain_bytes, found->value, found->filler,
                                          found->born};
    if (found->staleness != HIT_FRESH && !all_have_time(lookup, EXPIRE_COMMANDS))
        return; /* the core finds it, too */
    if (found->staleness != HIT_FRESH && expire_begin(lookup->loop, &outdated, on_expired, lookup))
        lookup->replies++;
    else
        note_outdated(lookup);
}

static void judge_tags(struct lookup *lookup)
{
    const struct found *found = &lookup->found;
    size_t count = tags_count(found->value->tags, found->value->tags_bytes);
    switch (tags_judge(&lookup->check->asker.epochs, count, &found->born)) {
    case TAGS_GOOD:
        answer_found(lookup);
        break;
    case TAGS_OUTDATED:
        judge_outdated(lookup);
        break;
    case TAGS_UNANSWERED:
        lookup->unanswered = true;
        break;
    }
}

static void on_epochs(void *context);

/* The entry's own epochs, or those that it is expected to need. */
static bool ask_for_epochs(struct lookup *lookup, const char *tags, size_t bytes)
{
    struct check *check = lookup->check;
    check->asker.answered = on_epochs;
    check->asker.context = lookup;
    check->asking = tag_batch_join(lookup->loop, &check->asker, tags, bytes);
    lookup->replies += check->asking;
    return check->asking;
}

/* The entry has other tags than those requested with it: it waits for their epochs. */
static void request_epochs(struct lookup *lookup)
{
    const struct value *value = lookup->found.value;
    tag_memory_remember(&lookup->loop->tag_memory, lookup->key_hash, value->tags, value->tags_bytes);
    if (lookup->check == NULL)
        lookup->check = calloc(1, sizeof *lookup->check);
    if (lookup->check == NULL || !all_have_time(lookup, 1))
        return;
    lookup->check->of_found = true;
    lookup->unanswered = !ask_for_epochs(lookup, value->tags, value->tags_bytes);
}

static bool epochs_are_here(const struct lookup *lookup, const struct value *value)
{
    const struct check *check = lookup->check;
    if (check == NULL)
        return false;
    return check->of_found || (check->requested_bytes == value->tags_bytes &&
                               memcmp(check->requested, value->tags, value->tags_bytes) == 0);
}

static void answer_tagged(struct lookup *lookup)
{
    if (lookup->check != NULL && lookup->check->asking)
        return; /* until they are answered */
    if (epochs_are_here(lookup, lookup->found.value))
        judge_tags(lookup);
    else
        request_epochs(lookup);
}

static bool is_tagged(const struct found *found)
{
    return found->value != NULL && found->value->tags_bytes > 0;
}

static void answer_entry(struct lookup *lookup, const struct redisReply *entry)
{
    if (!judge_entry(lookup, entry))
        return;
    bool tagged = is_tagged(&lookup->found);
    if (!tagged && lookup->check != NULL)
        tag_memory_put(lookup->loop->tag_memory, lookup->key_hash, "", 0);
    (tagged ? answer_tagged : answer_found)(lookup);
}

/* ---- replies ---- */

static void look_up(struct lookup *lookup)
{
    lookup->replies +=
        redis_look_up(lookup->loop->redis, &lookup->looked_up, lookup->name, lookup->name_bytes);
}

/* Only where something may be kept. */
static void fly(struct lookup *lookup, bool flies)
{
    struct loop *loop = lookup->loop;
    if (lookup->flying == flies)
        return;
    if (flies)
        DL_APPEND2(loop->flying, lookup, prev_flying, next_flying);
    else
        DL_DELETE2(loop->flying, lookup, prev_flying, next_flying);
    lookup->flying = flies;
}

static void set_late(struct loop *loop)
{
    uint64_t half_us = (uint64_t)loop->guard->config.redis_limit_ms * 1000 / 2;
    loop->late_set = loop->flying != NULL;
    if (loop->late_set)
        host_timer_set(loop->host, &loop->late, loop->flying->near.sent_us + half_us);
}

static void one_reply_less(struct lookup *lookup)
{
    if (--lookup->replies > 0)
        return;
    fly(lookup, false);
    pass_on(lookup);
    leave_list(lookup);
    value_unref(&lookup->found.value);
    free(lookup->check);
    free(lookup);
}

static void on_epochs(void *context)
{
    struct lookup *lookup = context;
    struct loop *loop = lookup->loop;
    lookup->check->asking = false;
    if (is_tagged(&lookup->found) && lookup->gets != NULL)
        answer_tagged(lookup);
    one_reply_less(lookup);
    callback_hits(loop);
}

/* Stale it answers as if it had been found so. */
static void on_expired(void *context, bool expired)
{
    struct lookup *lookup = context;
    struct loop *loop = lookup->loop;
    struct found *found = &lookup->found;
    found->age = found->staleness;
    found->result.source = GUARD_FROM_STALE;
    found->result.left_ms = found->stale_left_ms = 0;
    if (lookup->gets != NULL)
        (expired ? answer_found : note_outdated)(lookup);
    one_reply_less(lookup);
    callback_hits(loop);
}

void lookup_hears_no_master(struct guard *guard)
{
    if (guard->near != NULL && !atomic_exchange(&guard->masterless, true))
        near_drop_all(guard->near);
}

static void hear_error(struct lookup *lookup, const struct redisReply *reply)
{
    enum redis_error_class class = redis_error_classify(reply->str, reply->len);
    lookup->told = class == REDIS_ERROR_OTHER; /* WRONGTYPE, say: what stands there is no entry */
    if (class == REDIS_ERROR_FENCED || class == REDIS_ERROR_READONLY)
        lookup_hears_no_master(lookup->loop->guard);
    /* The connection reads in another way from now on: MISCONF, or a login that may GETEX no more. */
    const bool refused = class == REDIS_ERROR_REFUSED || class == REDIS_ERROR_DENIED;
    if (!lookup->again && lookup->gets != NULL && refused && all_have_time(lookup, 1)) {
        lookup->again = true;
        look_up(lookup);
    }
}

static void on_looked_up(void *context, enum redis_outcome outcome, int64_t pttl_ms,
                         const struct redisReply *reply)
{
    struct lookup *lookup = context;
    struct loop *loop = lookup->loop;
    bool found = outcome == REDIS_REPLIED && reply->type == REDIS_REPLY_STRING && pttl_ms > 0;
    leave_list(lookup);
    lookup->pttl_ms = pttl_ms;
    lookup->unanswered = outcome == REDIS_UNKNOWN;
    lookup->told = outcome == REDIS_REPLIED && reply->type != REDIS_REPLY_ERROR;
    if (lookup->told)
        lookup_hears_master(loop->guard);
    else if (outcome == REDIS_REPLIED)
        hear_error(lookup, reply);
    if (found && atomic_load_explicit(&loop->guard->doubts, memory_order_relaxed)) {
        /* The breakers are the core's, which hears of no hit: the guard's thread passes this on. */
        const unsigned shard = redis_shard(loop->redis, lookup->name, lookup->name_bytes);
        atomic_fetch_or_explicit(&loop->guard->heard[shard / 64], UINT64_C(1) << shard % 64,
                                 memory_order_relaxed);
    }
    if (found && lookup->gets != NULL)
        answer_entry(lookup, reply);
    one_reply_less(lookup);
    callback_hits(loop);
}

/* Nothing has been said yet, and it is late: those that what is kept may answer wait no longer. */
static void judge_late(struct lookup *lookup)
{
    struct get *get = NULL, *next = NULL;
    fly(lookup, false);
    if (lookup->told)
        return;
    DL_FOREACH_SAFE (lookup->gets, get, next)
        answer_kept_part(lookup, get);
}

/* A ring that was set for one that has been answered sets the next. */
void lookup_late(void *context)
{
    struct loop *loop = context;
    uint64_t half_us = (uint64_t)loop->guard->config.redis_limit_ms * 1000 / 2, now_us = clock_now_us();
    while (loop->flying != NULL && now_us >= loop->flying->near.sent_us + half_us)
        judge_late(loop->flying);
    set_late(loop);
}

/* ---- sending ---- */

/* The epochs of the tags that the entry had when it was last seen. */
static void ask_for_remembered(struct lookup *lookup)
{
    struct loop *loop = lookup->loop;
    const char *tags = NULL;
    size_t bytes = 0;
    if (lookup->gets->policy->tagged)
        bytes = tag_memory_get(loop->tag_memory, lookup->key_hash, &tags);
    if (bytes > 0)
        lookup->check = calloc(1, sizeof *lookup->check);
    if (lookup->check == NULL)
        return;
    memcpy(lookup->check->requested, tags, bytes);
    if (ask_for_epochs(lookup, lookup->check->requested, bytes))
        lookup->check->requested_bytes = bytes;
}

static void prepare_lookup(struct lookup *lookup)
{
    struct loop *loop = lookup->loop;
    struct near *near = loop->guard->near;
    assert(!loop->parts_closed);
    lookup->near = near_look_up_hashed(near, lookup->encoded, lookup->encoded_bytes, lookup->key_hash,
                                       near != NULL ? clock_now_us() : 0);
    lookup->replies = 1; /* ours, until it is sent */
    ask_for_remembered(lookup);
    DL_APPEND2(loop->unsent, lookup, prev_unsent, next_unsent);
    host_soon(loop->host, &loop->sender);
}

void lookup_send(void *context)
{
    struct loop *loop = context;
    struct lookup *lookup = loop->unsent, *next = NULL;
    loop->unsent = NULL;
    if (loop->tag_batches != NULL)
        tag_batch_send(loop);
    for (; lookup != NULL; lookup = next) {
        next = lookup->next_unsent;
        lookup->sent = true;
        lookup->batch = redis_batch(loop->redis);
        if (lookup->gets != NULL && redis_may_look_up(loop->redis, lookup->name, lookup->name_bytes))
            look_up(lookup);
        const bool may_be_kept =
            loop->guard->near != NULL && lookup->gets != NULL && lookup->gets->policy->outage_ms > 0;
        if (lookup->replies > 1 && may_be_kept)
            fly(lookup, true);
        one_reply_less(lookup);
    }
    if (!loop->late_set)
        set_late(loop);
}

static struct lookup *joinable_lookup(struct loop *loop, const struct core_key *key, uint64_t key_hash)
{
    const uint64_t batch = redis_batch(loop->redis);
    struct lookup *lookup, *next;
    DL_FOREACH_SAFE (*list_of(loop, key_hash), lookup, next) {
        if (lookup->sent && lookup->batch != batch)
            leave_list(lookup); /* it has been written: however slow Redis is, the list is short */
        else if (lookup->key_hash == key_hash && lookup->encoded_bytes == key->encoded_bytes &&
                 memcmp(lookup->encoded, key->encoded, key->encoded_bytes) == 0)
            return lookup;
    }
    return NULL;
}

static struct lookup *new_lookup(struct loop *loop, const struct core_key *key, uint64_t key_hash,
                                 const char *name, size_t name_bytes)
{
    struct lookup *lookup = calloc(1, sizeof *lookup + key->encoded_bytes + 1 + name_bytes);
    if (lookup == NULL)
        return NULL;
    lookup->loop = loop;
    lookup->key_hash = key_hash;
    lookup->looked_up.done = on_looked_up;
    lookup->looked_up.context = lookup;
    lookup->encoded_bytes = key->encoded_bytes;
    memcpy(lookup->encoded, key->encoded, key->encoded_bytes);
    lookup->name = memcpy(lookup->encoded + key->encoded_bytes + 1, name, name_bytes);
    lookup->name_bytes = name_bytes;
    DL_APPEND(*list_of(loop, key_hash), lookup);
    lookup->joinable = true;
    return lookup;
}

static bool begin_lookup(struct loop *loop, struct get *get)
{
    bool looks = loop->guard->config.mode != GUARD_MODE_SHADOW && !get->waiter.revalidates;
    struct core_key key = get_key(get);
    char name[KEY_NAME_SIZE];
    if (!looks)
        return false;
    size_t name_bytes = key_name(loop->guard->config.name_space, key.encoded, KEY_VALUE, name);
    if (!redis_may_look_up(loop->redis, name, name_bytes))
        return answer_kept_get(loop, get);
    /* It has the time limit of a Redis command; a get with an earlier deadline waits in the core, which answers
     * then. */
    uint64_t limit_us = (uint64_t)loop->guard->config.redis_limit_ms * 1000;
    if (!peeks(get) && get->deadline_us - get->waiter.start_us < limit_us)
        return false;
    uint64_t key_hash = get_hash(get);
    struct lookup *lookup = joinable_lookup(loop, &key, key_hash);
    bool made = lookup == NULL;
    if (made)
        lookup = new_lookup(loop, &key, key_hash, name, name_bytes);
    if (lookup == NULL)
        return false;
    get->stage = GET_LOOKUP;
    get->lookup = lookup;
    DL_APPEND(lookup->gets, get);
    if (get->many != NULL)
        get->many->looking++;
    if (made)
        prepare_lookup(lookup);
    return true;
}

bool lookup_begin(struct loop *loop, struct get *get)
{
    if (begin_lookup(loop, get))
        return true;
    if (!peeks(get))
        return false;
    bool is_shadow = loop->guard->config.mode == GUARD_MODE_SHADOW; /* nothing that is stored answers there */
    answer_peek(loop, get, is_shadow ? GUARD_MISS : GUARD_UNKNOWN);
    return true;
}
