/* SPDX-License-Identifier: MIT */
/* result_stale.c - answers older than a version whose write was over before the request was sent. */
#include "load/report/result_parts.h"

#include <stdlib.h>
#include <string.h>

static int compare_writes(const void *a, const void *b)
{
    const struct result_write *left = a, *right = b;
    if (left->key != right->key)
        return left->key > right->key ? 1 : -1;
    return (left->over_us > right->over_us) - (left->over_us < right->over_us);
}

/* Each write then has the newest version that its key had reached when it was over. */
static void carry_versions(struct result_write *writes, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        if (writes[i].key == writes[i - 1].key && writes[i].version < writes[i - 1].version)
            writes[i].version = writes[i - 1].version;
    }
}

/* How many writes stand before those of the key that were over at the instant or later. */
static size_t count_before(const struct result_write *writes, size_t count, uint32_t key, uint64_t instant_us)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct result_write *write = &writes[middle];
        if (write->key < key || (write->key == key && write->over_us < instant_us))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The newest version that the answer must have; 0: nobody knows. */
static uint32_t version_due(const struct record *record, const struct result_write *writes, size_t count)
{
    if (record->outcome != RECORD_ANSWERED || record->version == 0)
        return 0;
    size_t before = count_before(writes, count, record->key, record->due_us + record->sent_us);
    return before > 0 && writes[before - 1].key == record->key ? writes[before - 1].version : 0;
}

bool stale_make(const struct result_source *source, struct result *out)
{
    out->write_count = source->write_count;
    if (source->write_count == 0)
        return true;
    struct result_write *writes = calloc(source->write_count, sizeof *writes);
    if (writes == NULL)
        return false;
    memcpy(writes, source->writes, source->write_count * sizeof *writes);
    qsort(writes, source->write_count, sizeof *writes, compare_writes);
    carry_versions(writes, source->write_count);
    for (size_t i = 0; i < source->records->count; i++) {
        const struct record *record = &source->records->at[i];
        uint32_t due = version_due(record, writes, source->write_count);
        out->has_writes = out->has_writes || due > 0;
        out->stale_answers += due > record->version;
    }
    free(writes);
    return true;
}
