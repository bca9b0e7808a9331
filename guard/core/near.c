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

/* In the order in which a hit needs it. */
struct item {
    UT_hash_handle hh;
    struct value *value; /* one reference is ours; NULL: absent */
    int64_t born_us;
    uint64_t fresh_until_us, near_until_us;
    uint64_t load;
    uint64_t stamp; /* of the last drop of a tag before it was looked up */
    bool visited;   /* since the hand last came by */
    bool unlisted;
    uint8_t tag_count;
    uint16_t tag_slots[GUARD_TAGS_MAX];
    uint64_t as_of_us, kept_until_us, load_us;
    uint64_t asked_us; /* nobody is to refresh it before that */
    uint64_t lease;
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
    struct near_counters counters;  /* but hits and misses */
    struct near_gets {
        uint64_t hit, miss;
    } gets[GUARD_KINDS_MAX]; /* by kind */
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
        if (atomic_load(&near->dropped_at[item->tag_slots[i]]) > item->stamp)
            return true;
    return false;
}

uint64_t near_stamp(const struct near *near)
{
    return atomic_load(&near->last_drop);
}

/* The slot first: a lookup that reads the new stamp is sent after the drop. */
void near_drop_tag(struct near *near, const char *tag, size_t tag_bytes)
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
        atomic_init(&near->shards[i].generation, 1); /* no token is NEAR_TOKEN_NONE */
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
    if (!dropped && (now_us < item->near_until_us || now_us < item->kept_until_us))
        return item;
    shard->counters.dropped += dropped;
    *gone = near_detach(shard, item);
    return NULL;
}

/* It is hit. */
static void near_read(struct item *item, uint64_t now_us, struct near_entry *out)
{
    item->visited = true;
    *out = (struct near_entry){.value = item->value != NULL ? value_ref(item->value) : NULL,
                               .born_us = item->born_us < (int64_t)now_us ? item->born_us : (int64_t)now_us,
                               .fresh_until_us = item->fresh_until_us,
                               .load = item->load};
}

bool near_get(struct near *near, const char *key, size_t key_bytes, unsigned kind, uint64_t now_us,
              struct near_entry *out)
{
    struct place place = near_place(near, key, key_bytes);
    struct shard *shard = place.shard;
    struct item *gone = NULL;
    pthread_mutex_lock(&shard->mutex);
    struct item *item = near_find_sound(near, &place, key, key_bytes, now_us, &gone);
    bool hit = item != NULL && shard->subscribed && now_us < item->near_until_us;
    if (hit)
        near_read(item, now_us, out);
    if (hit)
        shard->gets[kind].hit++;
    else
        shard->gets[kind].miss++;
    pthread_mutex_unlock(&shard->mutex);
    near_free_item(gone);
    return hit;
}

static uint64_t near_token_of(const struct place *place)
{
    uint64_t generation = atomic_load(&place->shard->generation);
    return generation << 32 | atomic_load(place->epoch);
}

/* Whatever of the two has moved on already, a token made of an old one and a new one fits no entry. */
uint64_t near_token(struct near *near, const char *key, size_t key_bytes)
{
    struct place place = near_place(near, key, key_bytes);
    return near_token_of(&place);
}

static size_t malloc_bytes(size_t bytes)
{
    return (bytes + CHUNK_BYTES / 2 + CHUNK_BYTES - 1) / CHUNK_BYTES * CHUNK_BYTES;
}

static size_t near_bytes_of(const struct near_entry *entry, size_t key_bytes)
{
    size_t bytes = TABLE_BYTES + malloc_bytes(sizeof(struct item) + key_bytes + 1);
    const struct value *value = entry->value;
    if (value != NULL)
        bytes += malloc_bytes(sizeof *value + value->public.body_bytes + value->validator_bytes +
                              value->tags_bytes + value->public.meta_bytes + VALUE_NULS);
    return bytes;
}

static void near_set_times(struct item *item, uint64_t until_us, const struct near_entry *entry)
{
    item->born_us = entry->born_us;
    item->fresh_until_us = entry->fresh_until_us;
    item->near_until_us = until_us < entry->fresh_until_us ? until_us : entry->fresh_until_us;
    item->kept_until_us = entry->kept_until_us;
    item->as_of_us = entry->as_of_us;
    item->load = entry->load;
    item->load_us = entry->load_us;
    item->lease = entry->lease != 0 ? entry->lease : item->lease;
    item->stamp = entry->stamp;
    item->asked_us = 0;
}

static struct item *near_new_item(const char *key, size_t key_bytes, uint64_t until_us,
                                  const struct near_entry *entry)
{
    struct item *item = calloc(1, sizeof *item + key_bytes + 1);
    if (item == NULL)
        return NULL;
    item->value = entry->value != NULL ? value_ref(entry->value) : NULL;
    near_set_times(item, until_us, entry);
    item->bytes = near_bytes_of(entry, key_bytes);
    item->key_bytes = key_bytes;
    memcpy(item->key, key, key_bytes);
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
    return next != NULL && (lookup->sent_us < next->near_until_us ||
                            lookup->sent_us < next->as_of_us + (uint64_t)spare_ms * 1000);
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
                         uint64_t until_us, const struct near_entry *entry)
{
    if (entry->load == 0 || item->load != entry->load || item->as_of_us > entry->as_of_us ||
        lookup->token != near_token_of(place) || near_tag_dropped(lookup->near, item))
        return false;
    near_set_times(item, until_us, entry);
    item->visited = true;
    return true;
}

/* A look before something is made of it. True: there is nothing to put in. */
static bool near_settle(const struct near_lookup *lookup, const struct place *place, uint64_t until_us,
                        uint32_t spare_ms, const struct near_entry *entry)
{
    struct shard *shard = place->shard;
    pthread_mutex_lock(&shard->mutex);
    struct item *item = near_find(place, lookup->key, lookup->key_bytes);
    bool settled = item != NULL
                       ? near_move_on(lookup, place, item, until_us, entry)
                       : !near_lets_in(shard, lookup, spare_ms, near_bytes_of(entry, lookup->key_bytes));
    pthread_mutex_unlock(&shard->mutex);
    return settled;
}

/* spare_ms: as in near_life. */
static void near_put_for(const struct near_lookup *lookup, uint64_t until_us, uint32_t spare_ms,
                         const struct near_entry *entry)
{
    const struct near *near = lookup->near;
    const struct place place = near_place_of(lookup->near, lookup->hash);
    struct shard *shard = place.shard;
    struct item *item = NULL, *gone = NULL, *old = NULL;
    if (lookup->token == NEAR_TOKEN_NONE ||
        near_bytes_of(entry, lookup->key_bytes) > shard->max_bytes / LARGEST_SHARE ||
        near_settle(lookup, &place, until_us, spare_ms, entry) ||
        (item = near_new_item(lookup->key, lookup->key_bytes, until_us, entry)) == NULL)
        return;
    struct tag tags[GUARD_TAGS_MAX];
    const int count = tags_split(entry->tags, entry->tags_bytes, tags);
    for (int i = 0; i < count; i++)
        item->tag_slots[item->tag_count++] = near_tag_slot(near, tags[i].at, tags[i].bytes);
    pthread_mutex_lock(&shard->mutex);
    bool timely = lookup->token == near_token_of(&place) && !near_tag_dropped(near, item);
    shard->counters.late += !timely;
    old = timely ? near_find(&place, lookup->key, lookup->key_bytes) : NULL;
    if (old != NULL && old->born_us > item->born_us) { /* two lookups, answered in the other order */
        old = NULL;
        timely = false;
    }
    if (timely) {
        if (old != NULL)
            near_detach(shard, old);
        gone = near_make_room(shard, item->bytes);
        if (near_keep_item(&place, item))
            item = NULL;
    }
    pthread_mutex_unlock(&shard->mutex);
    near_free_item(item);
    near_free_item(old);
    near_free_list(gone);
}

void near_put(struct near *near, const char *key, size_t key_bytes, uint64_t token, uint64_t until_us,
              const struct near_entry *entry)
{
    uint64_t hash = near_hash(near->hash_key, key, key_bytes);
    near_put_for(&(struct near_lookup){near, key, key_bytes, hash, token, 0, 0, 0}, until_us, 0, entry);
}

/* But one of this lease's load; 0: none. */
static void near_drop_but(struct near *near, const char *key, size_t key_bytes, uint64_t lease)
{
    struct place place = near_place(near, key, key_bytes);
    struct shard *shard = place.shard;
    pthread_mutex_lock(&shard->mutex);
    struct item *item = near_find(&place, key, key_bytes);
    if (item != NULL && lease != 0 && item->lease == lease)
        item = NULL;
    if (item != NULL) {
        near_detach(shard, item);
        shard->counters.dropped++;
    }
    atomic_fetch_add(place.epoch, 1);
    pthread_mutex_unlock(&shard->mutex);
    near_free_item(item);
}

void near_drop(struct near *near, const char *key, size_t key_bytes)
{
    near_drop_but(near, key, key_bytes, 0);
}

void near_count(struct near *near, struct near_counters *out)
{
    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < NEAR_SHARDS; i++) {
        struct shard *shard = &near->shards[i];
        pthread_mutex_lock(&shard->mutex);
        const struct near_counters *counters = &shard->counters;
        for (unsigned kind = 0; kind < GUARD_KINDS_MAX; kind++) {
            out->hit += shard->gets[kind].hit;
            out->miss += shard->gets[kind].miss;
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

void near_count_of(struct near *near, unsigned kind, struct near_counters *out)
{
    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < NEAR_SHARDS; i++) {
        struct shard *shard = &near->shards[i];
        pthread_mutex_lock(&shard->mutex);
        out->hit += shard->gets[kind].hit;
        out->miss += shard->gets[kind].miss;
        pthread_mutex_unlock(&shard->mutex);
    }
}

/* ---- when it is used ---- */

static uint32_t near_age_ms(const struct near_entry *entry, uint64_t now_us)
{
    return (uint32_t)(((int64_t)now_us - entry->born_us + 999) / 1000);
}

bool near_answer(struct near *near, const char *key, size_t key_bytes, unsigned kind, uint64_t now_us,
                 struct guard_result *out)
{
    struct near_entry entry;
    if (near == NULL || !near_get(near, key, key_bytes, kind, now_us, &entry))
        return false;
    *out = (struct guard_result){
        .status = entry.value != NULL ? GUARD_OK : GUARD_ABSENT,
        .source = GUARD_FROM_NEAR,
        .value = entry.value != NULL ? &entry.value->public : NULL,
        .age_ms = near_age_ms(&entry, now_us),
        .left_ms = (uint32_t)((entry.fresh_until_us - now_us) / 1000),
        .stored = true,
        .load = entry.load,
    };
    return true;
}

/* Under the mutex. */
static enum near_kept near_judge_kept(const struct near *near, const struct item *item, unsigned lot,
                                      const struct guard_policy *policy, uint64_t now_us)
{
    const struct outage_entry entry = {item->as_of_us, item->near_until_us, item->load_us, lot};
    uint64_t touch_us = atomic_load_explicit(&near->touch_us, memory_order_relaxed);
    struct outage_times times = outage_times(&entry, touch_us, policy->outage_ms);
    if (now_us >= times.until_us || now_us >= item->kept_until_us)
        return NEAR_KEPT_NOT;
    /* In the last part of its time, or stale; and nobody has taken it on. */
    const bool due = now_us >= times.refresh_us || now_us >= item->fresh_until_us;
    return due && now_us >= item->asked_us ? NEAR_KEPT_REFRESH : NEAR_KEPT;
}

static struct guard_result near_kept_result(const struct near_entry *entry, uint64_t now_us)
{
    bool is_fresh = now_us < entry->fresh_until_us;
    return (struct guard_result){
        .status = entry->value != NULL ? GUARD_OK : GUARD_ABSENT,
        .source = GUARD_FROM_KEPT,
        .value = entry->value != NULL ? &entry->value->public : NULL,
        .age_ms = near_age_ms(entry, now_us),
        .left_ms = is_fresh ? (uint32_t)((entry->fresh_until_us - now_us) / 1000) : 0,
        .load = entry->load,
    };
}

enum near_kept near_kept(struct near *near, const char *key, size_t key_bytes,
                         const struct guard_policy *policy, uint64_t now_us, struct guard_result *out)
{
    struct near_entry entry;
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
        near_read(item, now_us, &entry);
    pthread_mutex_unlock(&place.shard->mutex);
    near_free_item(gone);
    if (kept != NEAR_KEPT_NOT)
        *out = near_kept_result(&entry, now_us);
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
    lookup->stamp = near_stamp(lookup->near);
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
    uint64_t fresh_until_us = lookup->sent_us + (uint64_t)found->left_ms * 1000;
    struct near_entry entry = {
        .value = found->status == GUARD_OK ? value : NULL,
        .born_us = (int64_t)lookup->sent_us - (int64_t)found->age_ms * 1000,
        .fresh_until_us = fresh_until_us,
        .kept_until_us = life->kept ? fresh_until_us + (uint64_t)life->stale_ms * 1000 : 0,
        .as_of_us = lookup->sent_us,
        .load = found->load,
        .load_us = life->load_us,
        .lease = lookup->lease,
        .tags = value != NULL ? value->tags : NULL,
        .tags_bytes = value != NULL ? value->tags_bytes : 0,
        .stamp = lookup->stamp,
    };
    if (life->near_ms > 0)
        near_put_for(lookup, lookup->sent_us + (uint64_t)life->near_ms * 1000, 0, &entry);
    else
        near_put_for(lookup, 0, life->spare_ms, &entry);
}

static void near_drop_invalidated(struct near *near, bool of_tag, const char *key, size_t key_bytes)
{
    if (near != NULL)
        (of_tag ? near_drop_tag : near_drop)(near, key, key_bytes);
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
