/* SPDX-License-Identifier: MIT */
/* running.c - see running.h. */
#include "app/view/running.h"

#include "app/base/clock.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define uthash_nonfatal_oom(newcomer) ((newcomer)->unlisted = true)
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

struct entry {
    struct running_load load; /* but for its for_ms */
    uint64_t since_ms;
    bool unlisted; /* the table could not grow */
    UT_hash_handle hh;
};

struct running {
    pthread_mutex_t lock;
    struct entry *by_load; /* uthash table, in the order in which they began; owns them */
};

struct running *running_open(void)
{
    struct running *running = calloc(1, sizeof(*running));

    if (running != NULL)
        pthread_mutex_init(&running->lock, NULL);
    return running;
}

static void drop(struct running *running, struct entry *entry)
{
    if (entry == NULL)
        return;
    HASH_DEL(running->by_load, entry);
    free(entry);
}

void running_close(struct running **running_slot)
{
    struct running *running = *running_slot;
    struct entry *entry, *next;

    *running_slot = NULL;
    if (running == NULL)
        return;
    for (entry = running->by_load; entry != NULL; entry = next) {
        next = entry->hh.next;
        drop(running, entry);
    }
    pthread_mutex_destroy(&running->lock);
    free(running);
}

static struct entry *find(struct running *running, uint64_t load)
{
    struct entry *entry = NULL;

    HASH_FIND(hh, running->by_load, &load, sizeof(load), entry);
    return entry;
}

static struct entry *entry_new(const struct guard_event *event)
{
    struct entry *entry = calloc(1, sizeof(*entry));

    if (entry == NULL)
        return NULL;
    entry->since_ms = clock_ms();
    entry->load = (struct running_load){.load = event->load, .waiters = event->count};
    snprintf(entry->load.key, sizeof(entry->load.key), "%s", event->key);
    return entry;
}

static void add(struct running *running, struct entry *entry)
{
    if (HASH_COUNT(running->by_load) >= RUNNING_MAX)
        drop(running, running->by_load);
    HASH_ADD(hh, running->by_load, load.load, sizeof(entry->load.load), entry);
    if (entry->unlisted)
        free(entry);
}

void running_note(void *context, const struct guard_event *event)
{
    struct running *running = context;
    const bool starts = event->what == GUARD_EVENT_LOAD_STARTED;

    if (!starts && event->what != GUARD_EVENT_LOAD_ENDED)
        return;
    struct entry *entry = starts ? entry_new(event) : NULL;
    pthread_mutex_lock(&running->lock);
    drop(running, find(running, event->load));
    if (entry != NULL)
        add(running, entry);
    pthread_mutex_unlock(&running->lock);
}

size_t running_list(struct running *running, struct running_load *out, size_t max)
{
    size_t count = 0;

    pthread_mutex_lock(&running->lock);
    const uint64_t now_ms = clock_ms();
    for (const struct entry *entry = running->by_load; entry != NULL && count < max; entry = entry->hh.next) {
        out[count] = entry->load;
        out[count++].for_ms = now_ms - entry->since_ms;
    }
    pthread_mutex_unlock(&running->lock);
    return count;
}
