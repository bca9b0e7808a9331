/* SPDX-License-Identifier: MIT */
/* near_use.c - see near_use.h. */
#include "near_use.h"

static uint32_t near_age_ms(const struct near_entry *entry, uint64_t now_us)
{
    return (uint32_t)(((int64_t)now_us - entry->born_us + 999) / 1000);
}

bool near_answer(struct near *near, const char *key, size_t key_bytes, uint64_t now_us,
                 struct guard_result *out)
{
    struct near_entry entry;
    if (near == NULL || !near_get(near, key, key_bytes, now_us, &entry))
        return false;
    *out = (struct guard_result){
        .status = entry.value != NULL ? GUARD_OK : GUARD_ABSENT,
        .source = GUARD_FROM_NEAR,
        .value = entry.value != NULL ? &entry.value->public : NULL,
        .age_ms = near_age_ms(&entry, now_us),
        .left_ms = (uint32_t)((entry.fresh_until_us - now_us) / 1000),
        .stored = true,
    };
    return true;
}

struct near_lookup near_look_up(struct near *near, const char *key, size_t key_bytes, uint64_t now_us)
{
    struct near_lookup lookup = {near, key, key_bytes, NEAR_TOKEN_NONE, 0, now_us};
    if (near != NULL) {
        lookup.token = near_token(near, key, key_bytes);
        lookup.stamp = near_stamp(near);
    }
    return lookup;
}

void near_keep(const struct near_lookup *lookup, uint32_t near_ms, struct value *value,
               const struct guard_result *found)
{
    if (lookup->near == NULL || near_ms == 0)
        return;
    struct near_entry entry = {
        .value = found->status == GUARD_OK ? value : NULL,
        .born_us = (int64_t)lookup->sent_us - (int64_t)found->age_ms * 1000,
        .fresh_until_us = lookup->sent_us + (uint64_t)found->left_ms * 1000,
        .tags = value != NULL ? value->tags : NULL,
        .tags_bytes = value != NULL ? value->tags_bytes : 0,
        .stamp = lookup->stamp,
    };
    near_put(lookup->near, lookup->key, lookup->key_bytes, lookup->token,
             lookup->sent_us + (uint64_t)near_ms * 1000, &entry);
}

static void drop_out_of_date(struct near *near, bool of_tag, const char *key, size_t key_bytes)
{
    if (near != NULL)
        (of_tag ? near_drop_tag : near_drop)(near, key, key_bytes);
}

void near_invalidation_begins(struct near *near, bool of_tag, const char *key, size_t key_bytes)
{
    drop_out_of_date(near, of_tag, key, key_bytes);
}

void near_invalidation_ends(struct near *near, bool of_tag, const char *key, size_t key_bytes)
{
    drop_out_of_date(near, of_tag, key, key_bytes);
}

void near_heard(struct near *near, bool invalidated, const char *key, size_t key_bytes)
{
    if (invalidated)
        drop_out_of_date(near, false, key, key_bytes);
}

void near_heard_tag(struct near *near, const char *tag, size_t tag_bytes)
{
    drop_out_of_date(near, true, tag, tag_bytes);
}

void near_subscribed(struct near *near, bool up)
{
    if (near != NULL)
        near_listen(near, up);
}

void near_reign_ended(struct near *near)
{
    if (near != NULL)
        near_empty(near);
}
