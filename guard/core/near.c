/* SPDX-License-Identifier: MIT */
/* near.c - see near.h. */
#include "near.h"
#include "../base/table.h"
#include "../base/tags.h"
#include "keep.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

/* An item that a hit passes by comes from memory, too: shorter chains than uthash's ten. */
#undef HASH_BKT_CAPACITY_THRESH
#define HASH_BKT_CAPACITY_THRESH 7U

enum {
    SLOTS = 256,
    TAG_SLOTS = 1024,
    LARGEST_SHARE = 4,
    SWEPT_AT_ONCE = 32, /* under one hold of the mutex */
    SWEPT_MOST = 256,   /* a tenth of a millisecond */
    CACHE_LINE = 64,
    TABLE_BYTES = 32, /* of the table's buckets for each entry, at the most */
    CHUNK_BYTES = 16, /* malloc() gives whole ones, and takes half of one for itself */
    SELDOM = 16,      /* of what is to be put in seldom, one in so many */
};

/* What a lookup or a load has brought. */
struct finding {
    int64_t born_us;         /* when it was filled, no later; it may be older than the clock */
    uint64_t fresh_until_us; /* its end in Redis */
    uint64_t near_until_us;  /* no later than that */
    uint64_t load;           /* that made it */
    uint64_t stamp;          /* of the last drop of a tag before it was looked up */
    uint64_t as_of_us;       /* known to be right then */
    uint64_t kept_until_us;  /* in an outage it may serve until then, at the most; 0: it may not */
    uint64_t load_us;        /* that its load took */
    uint64_t lease;          /* as in near_lookup */
};

/* In the order in which a hit needs it. */
struct item {
    UT_hash_handle hh;
    struct value *value; /* one reference is ours; NULL: absent */
    bool visited;        /* since the hand last came by */
    bool unlisted;
    uint8_t tag_count;
    struct finding found;
    uint16_t tag_slots[GUARD_TAGS_MAX];
    uint64_t asked_us;        /* nobody is to refresh it before that */
    struct item *prev, *next; /* in the shard's queue, oldest first */
    size_t bytes;             /* charged */
    size_t key_bytes;
    char key[];
};

struct shard {
    _Alignas(CACHE_LINE) pthread_mutex_t mutex;
    struct item *table, *queue, *hand;
    struct item *pending_free; /* let go and not freed yet */
    size_t bytes, max_bytes;   /* bytes: of both lists */
    bool subscribed;
    uint32_t seldom;                /* counts what is to be put in seldom */
    _Atomic uint32_t generation;    /* moves on when the shard is emptied */
    _Atomic uint32_t epochs[SLOTS]; /* both written under the mutex */
    struct near_counters counters;  /* but bytes */
};

struct near {
    struct shard shards[NEAR_SHARDS];
    pthread_mutex_t tags_mutex; /* held by the writer of the next two */
    _Atomic uint64_t last_drop;
    _Atomic uint64_t dropped_at[TAG_SLOTS]; /* stamp of the slot's last one */
    _Atomic uint64_t touch_us;              /* 0: none */
    uint8_t hash_key[DIGEST_KEY_BYTES];
};

/* ---- where a key lives ---- */

struct place {
    struct shard *shard;
    unsigned bucket;
    unsigned lot;
    _Atomic uint32_t *epoch;
};

static struct place near_place_of(struct near *near, uint64_t hash)
{
    struct shard *shard = &near->shards[hash >> 60];
    _Static_assert(NEAR_SHARDS == 16, "four bits of the hash choose the shard");
    return (struct place){shard, (unsigned)hash, (unsigned)(hash >> 48) % OUTAGE_LOTS,
                          &shard->epochs[(hash >> 32) % SLOTS]};
}

static struct place near_place(struct near *near, const char *key, size_t key_bytes)
{
    return near_place_of(near, near_hash(near->hash_key, key, key_bytes));
}

static struct item *near_find(const struct place *place, const char *key, size_t key_bytes)
{
    struct item *item = NULL;
    HASH_FIND_BYHASHVALUE(hh, place->shard->table, key, key_bytes, place->bucket, item);
    return item;
}

/* ---- tags ---- */

static uint16_t near_tag_slot(const struct near *near, const char *tag, size_t tag_bytes)
{
    return (uint16_t)(digest_siphash(near->hash_key, tag, tag_bytes) % TAG_SLOTS);
}

static bool near_tag_dropped(const struct near *near, const struct item *item)
{
    for (uint8_t i = 0; i < item->tag_count; i++)
        if (atomic_load(&near->dropped_at[item->tag_slots[i]]) > item->found.stamp)
            return true;
    return false;
}

/* The slot first: a lookup that reads the new stamp is sent after the drop. */
static void near_drop_tag(struct near *near, const char *tag, size_t tag_bytes)
{
    pthread_mutex_lock(&near->tags_mutex);
    uint64_t stamp = atomic_load(&near->last_drop) + 1;
    atomic_store(&near->dropped_at[near_tag_slot(near, tag, tag_bytes)], stamp);
    atomic_store(&near->last_drop, stamp);
    pthread_mutex_unlock(&near->tags_mutex);
}

/* ---- leaving: under the mutex; the caller frees what it gets when the mutex is released ---- */

static struct item *near_detach(struct shard *shard, struct item *item)
{
    if (shard->hand == item)
        shard->hand = item->next;
    HASH_DELETE(hh, shard->table, item);
    DL_DELETE(shard->queue, item);
    shard->bytes -= item->bytes;
    shard->counters.entries--;
    return item;
}

static void near_free_item(struct item *item)
{
    if (item == NULL)
        return;
    value_unref(&item->value);
    free(item);
}

static void near_free_list(struct item *list)
{
    while (list != NULL) {
        struct item *item = list;
        list = item->next;
        near_free_item(item);
    }
}

/* SIEVE: the hand spares the visited; it ends, for each that it spares is not visited any more. */
static struct item *near_evict(struct shard *shard)
{
    struct item *hand = shard->hand != NULL ? shard->hand : shard->queue;
    while (hand->visited) {
        hand->visited = false;
        hand = hand->next != NULL ? hand->next : shard->queue;
    }
    shard->hand = hand;
    shard->counters.evicted++;
    return near_detach(shard, hand);
}

static struct item *near_take_pending(struct shard *shard)
{
    struct item *item = shard->pending_free;
    DL_DELETE(shard->pending_free, item);
    shard->bytes -= item->bytes;
    return item;
}

static struct item *near_make_room(struct shard *shard, size_t bytes)
{
    struct item *gone = NULL;
    while ((shard->pending_free != NULL || shard->queue != NULL) && shard->bytes + bytes > shard->max_bytes) {
        struct item *item = shard->pending_free != NULL ? near_take_pending(shard) : near_evict(shard);
        item->next = gone;
        gone = item;
    }
    return gone;
}

/* ---- life ---- */

struct near *near_new(size_t max_bytes, const uint8_t hash_key[16])
{
    struct near *near = aligned_alloc(CACHE_LINE, (sizeof *near + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
    if (near == NULL)
        return NULL;
    memset(near, 0, sizeof *near);
    memcpy(near->hash_key, hash_key, sizeof near->hash_key);
    pthread_mutex_init(&near->tags_mutex, NULL);
    for (size_t i = 0; i < NEAR_SHARDS; i++) {
        pthread_mutex_init(&near->shards[i].mutex, NULL);
        near->shards[i].max_bytes = max_bytes / NEAR_SHARDS;
    }
    return near;
}

static void near_let_go(struct shard *shard)
{
    shard->counters.cleared += shard->counters.entries;
    HASH_CLEAR(hh, shard->table);
    DL_CONCAT(shard->pending_free, shard->queue);
    shard->queue = shard->hand = NULL;
    shard->counters.entries = 0;
    atomic_fetch_add(&shard->generation, 1);
}

void near_free(struct near **near)
{
    struct near *old = *near;
    *near = NULL;
    if (old == NULL)
        return;
    for (size_t i = 0; i < NEAR_SHARDS; i++) {
        near_let_go(&old->shards[i]);
        near_free_list(old->shards[i].pending_free);
        pthread_mutex_destroy(&old->shards[i].mutex);
    }
    pthread_mutex_destroy(&old->tags_mutex);
    free(old);
}

void near_subscribed(struct near *near, bool up)
{
    for (size_t i = 0; near != NULL && i < NEAR_SHARDS; i++) {
        struct shard *shard = &near->shards[i];
        pthread_mutex_lock(&shard->mutex);
        if (up)
            near_let_go(shard);
        shard->subscribed = up;
        pthread_mutex_unlock(&shard->mutex);
    }
}

void near_touched(struct near *near, uint64_t sent_us)
{
    if (near != NULL && sent_us > atomic_load_explicit(&near->touch_us, memory_order_relaxed))
        atomic_store_explicit(&near->touch_us, sent_us, memory_order_relaxed);
}

void near_drop_all(struct near *near)
{
    for (size_t i = 0; near != NULL && i < NEAR_SHARDS; i++) {
        struct shard *shard = &near->shards[i];
        pthread_mutex_lock(&shard->mutex);
        near_let_go(shard);
        pthread_mutex_unlock(&shard->mutex);
    }
}

/* ---- the store ---- */

/* How many. */
static size_t near_sweep_some(struct shard *shard)
{
    struct item *gone = NULL;
    size_t count = 0;
    pthread_mutex_lock(&shard->mutex);
    for (; count < SWEPT_AT_ONCE && shard->pending_free != NULL; count++) {
        struct item *item = near_take_pending(shard);
        item->next = gone;
        gone = item;
    }
    pthread_mutex_unlock(&shard->mutex);
    near_free_list(gone);
    return count;
}

bool near_sweep(struct near *near)
{
    size_t swept = 0;
    for (size_t i = 0; i < NEAR_SHARDS && swept < SWEPT_MOST;) {
        size_t count = near_sweep_some(&near->shards[i]);
        swept += count;
        i += count < SWEPT_AT_ONCE;
    }
    return swept >= SWEPT_MOST;
}

/* What is there, and may be of use yet; under the mutex. *gone: what is not, the caller's. */
static struct item *near_find_sound(const struct near *near, const struct place *place, const char *key,
                                    size_t key_bytes, uint64_t now_us, struct item **gone)
{
    struct shard *shard = place->shard;
    struct item *item = near_find(place, key, key_bytes);
    if (item == NULL)
        return NULL;
    bool dropped = near_tag_dropped(near, item);
    if (!dropped && (now_us < item->found.near_until_us || now_us < item->found.kept_until_us))
        return item;
    shard->counters.dropped += dropped;
    *gone = near_detach(shard, item);
    return NULL;
}

/* It is hit: a reference to its value is the caller's. Its age is rounded up, and 0 if it was put in since now_us. */
static struct guard_result near_read(struct item *item, enum guard_source source, uint64_t now_us)
{
    const struct finding *found = &item->found;
    const int64_t age_us = (int64_t)now_us - found->born_us;
    item->visited = true;
    return (struct guard_result){
        .status = item->value != NULL ? GUARD_OK : GUARD_ABSENT,
        .source = source,
        .value = item->value != NULL ? &value_ref(item->value)->public : NULL,
        .age_ms = age_us > 0 ? (uint32_t)((age_us + 999) / 1000) : 0,
        .left_ms = now_us < found->fresh_until_us ? (uint32_t)((found->fresh_until_us - now_us) / 1000) : 0,
        .stored = source == GUARD_FROM_NEAR,
        .load = found->load,
    };
}

static uint64_t near_token_of(const struct place *place)
{
    uint64_t generation = atomic_load(&place->shard->generation);
    return generation << 32 | atomic_load(place->epoch);
}

static size_t malloc_bytes(size_t bytes)
{
    return (bytes + CHUNK_BYTES / 2 + CHUNK_BYTES - 1) / CHUNK_BYTES * CHUNK_BYTES;
}

static size_t near_bytes_of(const struct value *value, size_t key_bytes)
{
    size_t bytes = TABLE_BYTES + malloc_bytes(sizeof(struct item) + key_bytes + 1);
    if (value != NULL)
        bytes += malloc_bytes(sizeof *value + value->public.body_bytes + value->validator_bytes +
                              value->tags_bytes + value->public.meta_bytes + VALUE_NULS);
    return bytes;
}

/* NULL: no memory. */
static struct item *near_new_item(const struct near_lookup *lookup, const struct finding *found,
                                  struct value *value, size_t bytes)
{
    struct item *item = calloc(1, sizeof *item + lookup->key_bytes + 1);
    if (item == NULL)
        return NULL;
    item->value = value != NULL ? value_ref(value) : NULL;
    item->found = *found;
    item->bytes = bytes;
    item->key_bytes = lookup->key_bytes;
    memcpy(item->key, lookup->key, lookup->key_bytes);
    return item;
}

/* Under the mutex. False: no memory for the table. */
static bool near_keep_item(const struct place *place, struct item *item)
{
    struct shard *shard = place->shard;
    HASH_ADD_KEYPTR_BYHASHVALUE(hh, shard->table, item->key, item->key_bytes, place->bucket, item);
    if (item->unlisted)
        return false;
    DL_APPEND(shard->queue, item);
    shard->bytes += item->bytes;
    shard->counters.entries++;
    shard->counters.put++;
    return true;
}

/* As far as is to be seen without a look at the whole queue. Under the mutex. */
static bool near_next_is_of_use(const struct shard *shard, const struct near_lookup *lookup,
                                uint32_t spare_ms)
{
    const struct item *next = shard->hand != NULL ? shard->hand : shard->queue;
    return next != NULL && (lookup->sent_us < next->found.near_until_us ||
                            lookup->sent_us < next->found.as_of_us + (uint64_t)spare_ms * 1000);
}

/* May it come in, though others have to leave for it? Nothing is made of it yet. Under the mutex. */
static bool near_lets_in(struct shard *shard, const struct near_lookup *lookup, uint32_t spare_ms,
                         size_t bytes)
{
    const bool full = shard->pending_free == NULL && shard->bytes + bytes > shard->max_bytes;
    return spare_ms == 0 || !full || !near_next_is_of_use(shard, lookup, spare_ms) ||
           ++shard->seldom % SELDOM == 0;
}

/* What is there of the same load is known to be right by now. False: it is of another one. Under the mutex. */
static bool near_move_on(const struct near_lookup *lookup, const struct place *place, struct item *item,
                         const struct finding *found)
{
    const uint64_t lease = found->lease != 0 ? found->lease : item->found.lease;
    if (found->load == 0 || item->found.load != found->load || item->found.as_of_us > found->as_of_us ||
        lookup->token != near_token_of(place) || near_tag_dropped(lookup->near, item))
        return false;
    item->found = *found;
    item->found.lease = lease;
    item->asked_us = 0;
    item->visited = true;
    return true;
}

/* A look before something is made of it; spare_ms: as in near_life. True: there is nothing to put in. */
static bool near_settle(const struct near_lookup *lookup, const struct place *place, uint32_t spare_ms,
                        const struct finding *found, size_t bytes)
{
    struct shard *shard = place->shard;
    pthread_mutex_lock(&shard->mutex);
    struct item *item = near_find(place, lookup->key, lookup->key_bytes);
    bool settled = item != NULL ? near_move_on(lookup, place, item, found)
                                : !near_lets_in(shard, lookup, spare_ms, bytes);
    pthread_mutex_unlock(&shard->mutex);
    return settled;
}

/* Nothing happens if something was dropped since its lookup, or something younger has come in. */
static void near_put(const struct near_lookup *lookup, const struct place *place, struct item *item)
{
    struct shard *shard = place->shard;
    struct item *gone = NULL, *old = NULL;
    pthread_mutex_lock(&shard->mutex);
    bool timely = lookup->token == near_token_of(place) && !near_tag_dropped(lookup->near, item);
    shard->counters.late += !timely;
    old = timely ? near_find(place, lookup->key, lookup->key_bytes) : NULL;
    if (old != NULL && old->found.born_us > item->found.born_us) { /* answered in the other order */
        old = NULL;
        timely = false;
    }
    if (timely) {
        if (old != NULL)
            near_detach(shard, old);
        gone = near_make_room(shard, item->bytes);
        if (near_keep_item(place, item))
            item = NULL;
    }
    pthread_mutex_unlock(&shard->mutex);
    near_free_item(item);
    near_free_item(old);
    near_free_list(gone);
}

/* But one of this lease's load; 0: none. */
static void near_drop_but(struct near *near, const char *key, size_t key_bytes, uint64_t lease)
{
    struct place place = near_place(near, key, key_bytes);
    struct shard *shard = place.shard;
    pthread_mutex_lock(&shard->mutex);
    struct item *item = near_find(&place, key, key_bytes);
    if (item != NULL && lease != 0 && item->found.lease == lease)
        item = NULL;
    if (item != NULL) {
        near_detach(shard, item);
        shard->counters.dropped++;
    }
    atomic_fetch_add(place.epoch, 1);
    pthread_mutex_unlock(&shard->mutex);
    near_free_item(item);
}

void near_count(struct near *near, struct near_counters *out)
{
    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < NEAR_SHARDS; i++) {
        struct shard *shard = &near->shards[i];
        pthread_mutex_lock(&shard->mutex);
        const struct near_counters *counters = &shard->counters;
        for (unsigned kind = 0; kind < GUARD_KINDS_MAX; kind++) {
            out->hits[kind] += counters->hits[kind];
            out->misses[kind] += counters->misses[kind];
        }
        out->put += counters->put;
        out->late += counters->late;
        out->evicted += counters->evicted;
        out->dropped += counters->dropped;
        out->cleared += counters->cleared;
        out->entries += counters->entries;
        out->bytes += shard->bytes;
        pthread_mutex_unlock(&shard->mutex);
    }
}

/* ---- when it is used ---- */

bool near_answer(struct near *near, const char *key, size_t key_bytes, unsigned kind, uint64_t now_us,
                 struct guard_result *out)
{
    struct item *gone = NULL;
    if (near == NULL)
        return false;
    struct place place = near_place(near, key, key_bytes);
    struct shard *shard = place.shard;
    pthread_mutex_lock(&shard->mutex);
    struct item *item = near_find_sound(near, &place, key, key_bytes, now_us, &gone);
    bool hit = item != NULL && shard->subscribed && now_us < item->found.near_until_us;
    if (hit)
        *out = near_read(item, GUARD_FROM_NEAR, now_us);
    if (hit)
        shard->counters.hits[kind]++;
    else
        shard->counters.misses[kind]++;
    pthread_mutex_unlock(&shard->mutex);
    near_free_item(gone);
    return hit;
}

/* Under the mutex. */
static enum near_kept near_judge_kept(const struct near *near, const struct item *item, unsigned lot,
                                      const struct guard_policy *policy, uint64_t now_us)
{
    const struct finding *found = &item->found;
    const struct outage_entry entry = {found->as_of_us, found->near_until_us, found->load_us, lot};
    uint64_t touch_us = atomic_load_explicit(&near->touch_us, memory_order_relaxed);
    struct outage_times times = outage_times(&entry, touch_us, policy->outage_ms);
    if (now_us >= times.until_us || now_us >= found->kept_until_us)
        return NEAR_KEPT_NOT;
    /* In the last part of its time, or stale; and nobody has taken it on. */
    const bool due = now_us >= times.refresh_us || now_us >= found->fresh_until_us;
    return due && now_us >= item->asked_us ? NEAR_KEPT_REFRESH : NEAR_KEPT;
}

enum near_kept near_kept(struct near *near, const char *key, size_t key_bytes,
                         const struct guard_policy *policy, uint64_t now_us, struct guard_result *out)
{
    struct item *gone = NULL;
    enum near_kept kept = NEAR_KEPT_NOT;
    if (near == NULL || policy->outage_ms == 0)
        return NEAR_KEPT_NOT;
    struct place place = near_place(near, key, key_bytes);
    pthread_mutex_lock(&place.shard->mutex);
    struct item *item = near_find_sound(near, &place, key, key_bytes, now_us, &gone);
    if (item != NULL)
        kept = near_judge_kept(near, item, place.lot, policy, now_us);
    if (kept != NEAR_KEPT_NOT)
        *out = near_read(item, GUARD_FROM_KEPT, now_us);
    pthread_mutex_unlock(&place.shard->mutex);
    near_free_item(gone);
    return kept;
}

bool near_take_on_refresh(struct near *near, const char *key, size_t key_bytes, uint64_t now_us,
                          uint32_t failure_ms)
{
    struct place place = near_place(near, key, key_bytes);
    pthread_mutex_lock(&place.shard->mutex);
    struct item *item = near_find(&place, key, key_bytes);
    bool ours = item != NULL && now_us >= item->asked_us;
    if (ours)
        item->asked_us = now_us + (uint64_t)failure_ms * 1000;
    pthread_mutex_unlock(&place.shard->mutex);
    return ours;
}

void near_begin(struct near_lookup *lookup)
{
    struct place place = near_place_of(lookup->near, lookup->hash);
    lookup->token = near_token_of(&place);
    lookup->stamp = atomic_load(&lookup->near->last_drop);
}

struct near_lookup near_look_up(struct near *near, const char *key, size_t key_bytes, uint64_t now_us)
{
    uint64_t hash = near != NULL ? near_hash(near->hash_key, key, key_bytes) : 0;
    return near_look_up_hashed(near, key, key_bytes, hash, now_us);
}

void near_keep(const struct near_lookup *lookup, const struct near_life *life, struct value *value,
               const struct guard_result *found)
{
    if (lookup->near == NULL || (life->near_ms == 0 && !life->kept))
        return;
    const struct place place = near_place_of(lookup->near, lookup->hash);
    const uint64_t fresh_until_us = lookup->sent_us + (uint64_t)found->left_ms * 1000;
    const uint64_t near_until_us = life->near_ms > 0 ? lookup->sent_us + (uint64_t)life->near_ms * 1000 : 0;
    const struct finding finding = {
        .born_us = (int64_t)lookup->sent_us - (int64_t)found->age_ms * 1000,
        .fresh_until_us = fresh_until_us,
        .near_until_us = near_until_us < fresh_until_us ? near_until_us : fresh_until_us,
        .kept_until_us = life->kept ? fresh_until_us + (uint64_t)life->stale_ms * 1000 : 0,
        .as_of_us = lookup->sent_us,
        .load = found->load,
        .load_us = life->load_us,
        .lease = lookup->lease,
        .stamp = lookup->stamp,
    };
    struct value *kept = found->status == GUARD_OK ? value : NULL;
    const size_t bytes = near_bytes_of(kept, lookup->key_bytes);
    struct item *item;
    if (bytes > place.shard->max_bytes / LARGEST_SHARE ||
        near_settle(lookup, &place, life->near_ms > 0 ? 0 : life->spare_ms, &finding, bytes) ||
        (item = near_new_item(lookup, &finding, kept, bytes)) == NULL)
        return;
    struct tag tags[GUARD_TAGS_MAX];
    const int count = value != NULL ? tags_split(value->tags, value->tags_bytes, tags) : 0;
    for (int i = 0; i < count; i++)
        item->tag_slots[item->tag_count++] = near_tag_slot(lookup->near, tags[i].at, tags[i].bytes);
    near_put(lookup, &place, item);
}

static void near_drop_invalidated(struct near *near, bool of_tag, const char *key, size_t key_bytes)
{
    if (near == NULL)
        return;
    if (of_tag)
        near_drop_tag(near, key, key_bytes);
    else
        near_drop_but(near, key, key_bytes, 0);
}

void near_invalidation_begins(struct near *near, bool of_tag, const char *key, size_t key_bytes)
{
    near_drop_invalidated(near, of_tag, key, key_bytes);
}

void near_invalidation_ends(struct near *near, bool of_tag, const char *key, size_t key_bytes)
{
    near_drop_invalidated(near, of_tag, key, key_bytes);
}

void near_stored(struct near *near, uint64_t lease, const char *key, size_t key_bytes)
{
    if (near != NULL)
        near_drop_but(near, key, key_bytes, lease);
}

void near_heard(struct near *near, bool changed, uint64_t lease, const char *key, size_t key_bytes)
{
    if (changed)
        near_stored(near, lease, key, key_bytes);
}

void near_heard_tag(struct near *near, const char *tag, size_t tag_bytes)
{
    near_drop_invalidated(near, true, tag, tag_bytes);
}
