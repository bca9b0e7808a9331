/* SPDX-License-Identifier: MIT */
/* redis/reign.c - see redis/reign.h. */
#include "reign.h"
#include <stdio.h>
#include <string.h>

void redis_reign_init(struct redis_reign *reign, void (*ended)(void *context), void *context)
{
    memset(reign, 0, sizeof *reign);
    pthread_mutex_init(&reign->mutex, NULL);
    reign->ended = ended;
    reign->context = context;
}

void redis_reign_clear(struct redis_reign *reign)
{
    pthread_mutex_destroy(&reign->mutex);
}

static void begin_anew(struct redis_reign *reign, const char *name)
{
    snprintf(reign->name, sizeof reign->name, "%s", name);
    atomic_fetch_add(&reign->generation, 1);
    if (reign->ended != NULL)
        reign->ended(reign->context);
}

bool redis_reign_join(struct redis_reign *reign, uint64_t seen, const char *name, uint64_t *generation)
{
    pthread_mutex_lock(&reign->mutex);
    bool known = name[0] != '\0' && reign->name[0] != '\0';
    bool present = known && strcmp(name, reign->name) == 0;
    bool joined = present || seen == redis_reign_now(reign);
    if (joined && known && !present)
        begin_anew(reign, name);
    else if (joined && !known && name[0] != '\0')
        snprintf(reign->name, sizeof reign->name, "%s", name);
    *generation = redis_reign_now(reign);
    pthread_mutex_unlock(&reign->mutex);
    return joined;
}

void redis_reign_end(struct redis_reign *reign, uint64_t generation)
{
    pthread_mutex_lock(&reign->mutex);
    if (generation == redis_reign_now(reign))
        begin_anew(reign, "");
    pthread_mutex_unlock(&reign->mutex);
}
