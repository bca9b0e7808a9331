/* SPDX-License-Identifier: MIT */
/* near.c - see near.h. */
#include "near.h"
#include "../base/digest.h"
#include "../base/table.h"
#include "../base/tags.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum {
    SLOTS = 256,
    TAG_SLOTS = 1024,
    LARGEST_SHARE = 4,
    SWEPT_AT_ONCE = 32, /* under one hold of the mutex */
    SWEPT_MOST = 256,   /* a tenth of a millisecond */
    CACHE_LINE = 64,
    TABLE_BYTES = 32, /* of the table's buckets for each entry, at the most */
    CHUNK_BYTES = 16, /* malloc() gives whole ones, and takes half of one for itself */
};

struct item {
    UT_hash_handle hh;
    struct item *prev, *next; /* in the shard's queue, oldest first */
    struct value *value;      /* one reference is ours; NULL: absent */
    int64_t born_us;
    uint64_t fresh_until_us, until_us;
    size_t bytes; /* charged */
    bool visited; /* since the hand last came by */
    bool unlisted;
    uint8_t tag_count;
    uint16_t tag_slots[GUARD_TAGS_MAX];
    uint64_t stamp; /* of the last drop of a tag before it was looked up */
    size_t key_bytes;
    char key[];
};

struct shard {
    _Alignas(CACHE_LINE) pthread_mutex_t mutex;
    struct item *table, *queue, *hand;
    struct item *litter;     /* let go and not freed yet */
    size_t bytes, max_bytes; /* bytes: of the queue and the litter */
    uint32_t generation;     /* moves on when the shard is emptied */
    bool listening;
    uint32_t epochs[SLOTS];
    struct near_counters counters;
};

struct near {
    struct shard shards[NEAR_SHARDS];
    pthread_mutex_t tags_mutex; /* who writes the next two */
    _Atomic uint64_t last_drop;
    _Atomic uint64_t dropped_at[TAG_SLOTS]; /* stamp of the slot's last one */
    uint8_t hash_key[DIGEST_KEY_BYTES];
};

/* ---- where a key lives ---- */

struct place {
    struct shard *shard;
    unsigned bucket;
    uint32_t *epoch;
};

static struct place near_place(struct near *near, const char *key, size_t key_bytes)
{
    uint64_t hash = digest_siphash(near->hash_key, key, key_bytes);
    struct shard *shard = &near->shards[hash >> 60];
    _Static_assert(NEAR_SHARDS == 16, "four bits of the hash choose the shard");
    return (struct place){shard, (unsigned)hash, &shard->epochs[(hash >> 32) % SLOTS]};
}

static struct item *find(const struct place *place, const char *key, size_t key_bytes)
{
    struct item *item = NULL;
    HASH_FIND_BYHASHVALUE(hh, place->shard->table, key, key_bytes, place->bucket, item);
    return item;
}

/* ---- tags ---- */

static uint16_t tag_slot(const struct near *near, const char *tag, size_t tag_bytes)
{
    return (uint16_t)(digest_siphash(near->hash_key, tag, tag_bytes) % TAG_SLOTS);
}

static void note_tags(const struct near *near, struct item *item, const struct near_entry *entry)
{
    struct tag tags[GUARD_TAGS_MAX];
    int count = tags_split(entry->tags, entry->tags_bytes, tags);
    for (int i = 0; i < count; i++)
        item->tag_slots[item->tag_count++] = tag_slot(near, tags[i].at, tags[i].bytes);
    item->stamp = entry->stamp;
}

static bool tag_dropped(const struct near *near, const struct item *item)
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

/* The slot first: who reads the new stamp looks up after the drop. */
void near_drop_tag(struct near *near, const char *tag, size_t tag_bytes)
{
    pthread_mutex_lock(&near->tags_mutex);
    uint64_t stamp = atomic_load(&near->last_drop) + 1;
    atomic_store(&near->dropped_at[tag_slot(near, tag, tag_bytes)], stamp);
    atomic_store(&near->last_drop, stamp);
    pthread_mutex_unlock(&near->tags_mutex);
}

/* ---- leaving: under the mutex; the caller frees what it gets when the mutex is released ---- */

static struct item *detach(struct shard *shard, struct item *item)
{
    if (shard->hand == item)
        shard->hand = item->next;
    HASH_DELETE(hh, shard->table, item);
    DL_DELETE(shard->queue, item);
    shard->bytes -= item->bytes;
    shard->counters.entries--;
    return item;
}

static void free_item(struct item *item)
{
    if (item == NULL)
        return;
    value_unref(&item->value);
    free(item);
}

static void free_list(struct item *list)
{
    while (list != NULL) {
        struct item *item = list;
        list = item->next;
        free_item(item);
    }
}

/* SIEVE: the hand spares the visited; it ends, for each that it spares is not visited any more. */
static struct item *evict(struct shard *shard)
{
    struct item *hand = shard->hand != NULL ? shard->hand : shard->queue;
    while (hand->visited) {
        hand->visited = false;
        hand = hand->next != NULL ? hand->next : shard->queue;
    }
    shard->hand = hand;
    shard->counters.evicted++;
    return detach(shard, hand);
}

static struct item *pick_up(struct shard *shard)
{
    struct item *item = shard->litter;
    DL_DELETE(shard->litter, item);
    shard->bytes -= item->bytes;
    return item;
}

static struct item *make_room(struct shard *shard, size_t bytes)
{
    struct item *gone = NULL;
    while ((shard->litter != NULL || shard->queue != NULL) && shard->bytes + bytes > shard->max_bytes) {
        struct item *item = shard->litter != NULL ? pick_up(shard) : evict(shard);
        item->next = gone;
        gone = item;
    }
    return gone;
}

/* ---- the functions of the header ---- */

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
        near->shards[i].generation = 1; /* no token is NEAR_TOKEN_NONE */
    }
    return near;
}

static void let_go(struct shard *shard)
{
    shard->counters.cleared += shard->counters.entries;
    HASH_CLEAR(hh, shard->table);
    DL_CONCAT(shard->litter, shard->queue);
    shard->queue = shard->hand = NULL;
    shard->counters.entries = 0;
    shard->generation++;
}

void near_free(struct near **near)
{
    struct near *old = *near;
    *near = NULL;
    if (old == NULL)
        return;
    for (size_t i = 0; i < NEAR_SHARDS; i++) {
        let_go(&old->shards[i]);
        free_list(old->shards[i].litter);
        pthread_mutex_destroy(&old->shards[i].mutex);
    }
    pthread_mutex_destroy(&old->tags_mutex);
    free(old);
}

void near_listen(struct near *near, bool listening)
{
    for (size_t i = 0; i < NEAR_SHARDS; i++) {
        struct shard *shard = &near->shards[i];
        pthread_mutex_lock(&shard->mutex);
        if (!listening)
            let_go(shard);
        shard->listening = listening;
        pthread_mutex_unlock(&shard->mutex);
    }
}

void near_empty(struct near *near)
{
    for (size_t i = 0; i < NEAR_SHARDS; i++) {
        struct shard *shard = &near->shards[i];
        pthread_mutex_lock(&shard->mutex);
        let_go(shard);
        pthread_mutex_unlock(&shard->mutex);
    }
}

/* How many. */
static size_t sweep_some(struct shard *shard)
{
    struct item *gone = NULL;
    size_t count = 0;
    pthread_mutex_lock(&shard->mutex);
    for (; count < SWEPT_AT_ONCE && shard->litter != NULL; count++) {
        struct item *item = pick_up(shard);
        item->next = gone;
        gone = item;
    }
    pthread_mutex_unlock(&shard->mutex);
    free_list(gone);
    return count;
}

bool near_sweep(struct near *near)
{
    size_t swept = 0;
    for (size_t i = 0; i < NEAR_SHARDS && swept < SWEPT_MOST;) {
        size_t count = sweep_some(&near->shards[i]);
        swept += count;
        i += count < SWEPT_AT_ONCE;
    }
    return swept >= SWEPT_MOST;
}

bool near_get(struct near *near, const char *key, size_t key_bytes, uint64_t now_us, struct near_entry *out)
{
    struct place place = near_place(near, key, key_bytes);
    struct shard *shard = place.shard;
    struct item *gone = NULL;
    pthread_mutex_lock(&shard->mutex);
    struct item *item = find(&place, key, key_bytes);
    bool dropped = item != NULL && tag_dropped(near, item);
    if (item != NULL && (dropped || now_us >= item->until_us)) {
        shard->counters.dropped += dropped;
        gone = detach(shard, item);
        item = NULL;
    }
    if (item != NULL) {
        item->visited = true;
        *out =
            (struct near_entry){.value = item->value != NULL ? value_ref(item->value) : NULL,
                                .born_us = item->born_us < (int64_t)now_us ? item->born_us : (int64_t)now_us,
                                .fresh_until_us = item->fresh_until_us};
    }
    shard->counters.hit += item != NULL;
    shard->counters.miss += item == NULL;
    pthread_mutex_unlock(&shard->mutex);
    free_item(gone);
    return item != NULL;
}

static uint64_t token_of(const struct place *place)
{
    return (uint64_t)place->shard->generation << 32 | *place->epoch;
}

uint64_t near_token(struct near *near, const char *key, size_t key_bytes)
{
    struct place place = near_place(near, key, key_bytes);
    pthread_mutex_lock(&place.shard->mutex);
    uint64_t token = place.shard->listening ? token_of(&place) : NEAR_TOKEN_NONE;
    pthread_mutex_unlock(&place.shard->mutex);
    return token;
}

static size_t allocated(size_t bytes)
{
    return (bytes + CHUNK_BYTES / 2 + CHUNK_BYTES - 1) / CHUNK_BYTES * CHUNK_BYTES;
}

static size_t bytes_of(const struct near_entry *entry, size_t key_bytes)
{
    size_t bytes = TABLE_BYTES + allocated(sizeof(struct item) + key_bytes + 1);
    const struct value *value = entry->value;
    if (value != NULL)
        bytes += allocated(sizeof *value + value->public.body_bytes + value->validator_bytes +
                           value->tags_bytes + 3);
    return bytes;
}

static struct item *new_item(const char *key, size_t key_bytes, uint64_t until_us,
                             const struct near_entry *entry)
{
    struct item *item = calloc(1, sizeof *item + key_bytes + 1);
    if (item == NULL)
        return NULL;
    item->value = entry->value != NULL ? value_ref(entry->value) : NULL;
    item->born_us = entry->born_us;
    item->fresh_until_us = entry->fresh_until_us;
    item->until_us = until_us < entry->fresh_until_us ? until_us : entry->fresh_until_us;
    item->bytes = bytes_of(entry, key_bytes);
    item->key_bytes = key_bytes;
    memcpy(item->key, key, key_bytes);
    return item;
}

/* Under the mutex. False: no memory for the table. */
static bool keep_item(const struct place *place, struct item *item)
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

void near_put(struct near *near, const char *key, size_t key_bytes, uint64_t token, uint64_t until_us,
              const struct near_entry *entry)
{
    struct place place = near_place(near, key, key_bytes);
    struct shard *shard = place.shard;
    if (token == NEAR_TOKEN_NONE || bytes_of(entry, key_bytes) > shard->max_bytes / LARGEST_SHARE)
        return;
    struct item *item = new_item(key, key_bytes, until_us, entry), *gone = NULL, *old = NULL;
    if (item == NULL)
        return;
    note_tags(near, item, entry);
    pthread_mutex_lock(&shard->mutex);
    bool timely = shard->listening && token == token_of(&place) && !tag_dropped(near, item);
    shard->counters.late += !timely;
    old = timely ? find(&place, key, key_bytes) : NULL;
    if (old != NULL && old->born_us > item->born_us) { /* two lookups, answered in the other order */
        old = NULL;
        timely = false;
    }
    if (timely) {
        if (old != NULL)
            detach(shard, old);
        gone = make_room(shard, item->bytes);
        if (keep_item(&place, item))
            item = NULL;
    }
    pthread_mutex_unlock(&shard->mutex);
    free_item(item);
    free_item(old);
    free_list(gone);
}

void near_drop(struct near *near, const char *key, size_t key_bytes)
{
    struct place place = near_place(near, key, key_bytes);
    struct shard *shard = place.shard;
    pthread_mutex_lock(&shard->mutex);
    struct item *item = find(&place, key, key_bytes);
    if (item != NULL) {
        detach(shard, item);
        shard->counters.dropped++;
    }
    ++*place.epoch;
    pthread_mutex_unlock(&shard->mutex);
    free_item(item);
}

void near_count(struct near *near, struct near_counters *out)
{
    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < NEAR_SHARDS; i++) {
        struct shard *shard = &near->shards[i];
        pthread_mutex_lock(&shard->mutex);
        const struct near_counters *counters = &shard->counters;
        out->hit += counters->hit;
        out->miss += counters->miss;
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
