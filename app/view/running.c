/* SPDX-License-Identifier: MIT */
/* running.c - see running.h. */
#include "app/view/running.h"

#include "app/base/clock.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct entry {
    struct running_load load; /* but for its for_ms */
    uint64_t since_ms;
};

struct running {
    pthread_mutex_t lock;
    size_t count;
    struct entry entries[RUNNING_MAX]; /* in the order in which they began */
};

struct running *running_open(void)
{
    struct running *running = calloc(1, sizeof(*running));

    if (running != NULL)
        pthread_mutex_init(&running->lock, NULL);
    return running;
}

void running_close(struct running **running)
{
    if (*running != NULL)
        pthread_mutex_destroy(&(*running)->lock);
    free(*running);
    *running = NULL;
}

static void take_out(struct running *running, size_t at)
{
    struct entry *entry = &running->entries[at];

    running->count--;
    memmove(entry, entry + 1, (running->count - at) * sizeof(*entry));
}

static void put_in(struct running *running, const struct guard_event *event)
{
    if (running->count == RUNNING_MAX)
        take_out(running, 0);
    struct entry *entry = &running->entries[running->count++];
    entry->since_ms = clock_ms();
    entry->load = (struct running_load){.load = event->load, .waiters = event->count};
    snprintf(entry->load.key, sizeof(entry->load.key), "%s", event->key);
}

void running_note(void *context, const struct guard_event *event)
{
    struct running *running = context;
    const bool starts = event->what == GUARD_EVENT_LOAD_STARTED;
    size_t at = 0;

    if (!starts && event->what != GUARD_EVENT_LOAD_ENDED)
        return;
    pthread_mutex_lock(&running->lock);
    while (at < running->count && running->entries[at].load.load != event->load)
        at++;
    if (at < running->count)
        take_out(running, at);
    if (starts)
        put_in(running, event);
    pthread_mutex_unlock(&running->lock);
}

size_t running_list(struct running *running, struct running_load *out, size_t max)
{
    pthread_mutex_lock(&running->lock);
    const uint64_t now_ms = clock_ms();
    const size_t count = running->count < max ? running->count : max;
    for (size_t i = 0; i < count; i++) {
        out[i] = running->entries[i].load;
        out[i].for_ms = now_ms - running->entries[i].since_ms;
    }
    pthread_mutex_unlock(&running->lock);
    return count;
}
