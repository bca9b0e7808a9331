/* SPDX-License-Identifier: MIT */
/* events.c - see events.h. */
#include "events.h"
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

struct told_event {
    struct told_event *next;
    struct guard_event event;
    char key[]; /* event.key, if it has one */
};

void events_note(void *context, const struct guard_event *event, unsigned kind)
{
    struct guard *guard = context;
    size_t key_size = event->key != NULL ? strlen(event->key) + 1 : 0;
    struct told_event *told = malloc(sizeof *told + key_size);
    if (told == NULL)
        return;
    told->next = NULL;
    told->event = *event;
    told->event.kind = kind != CORE_NO_KIND ? guard->kinds[kind] : NULL;
    if (key_size > 0)
        told->event.key = memcpy(told->key, event->key, key_size);
    if (guard->events.first == NULL)
        guard->events.first = told;
    else
        guard->events.last->next = told;
    guard->events.last = told;
}

void events_note_shadow(void *context, const struct guard_event *event, unsigned kind)
{
    bool of_load = event->what == GUARD_EVENT_LOAD_STARTED || event->what == GUARD_EVENT_LOAD_ENDED;
    if (!of_load && event->what != GUARD_EVENT_SHED)
        events_note(context, event, kind);
}

void events_note_states(struct guard *guard)
{
    const struct guard_stats *stats = &guard->published;
    struct events *events = &guard->events;
    if (stats->redis_state != events->redis_state)
        events_note(guard,
                    &(struct guard_event){.what = GUARD_EVENT_REDIS, .redis_state = (int)stats->redis_state},
                    CORE_NO_KIND);
    if (stats->breaker_open != events->breaker_open)
        events_note(guard, &(struct guard_event){.what = GUARD_EVENT_BREAKER, .count = stats->breaker_open},
                    CORE_NO_KIND);
    events->redis_state = stats->redis_state;
    events->breaker_open = stats->breaker_open;
}

static struct told_event *next_told(struct events *events)
{
    struct told_event *told = events->first;
    if (told != NULL)
        events->first = told->next;
    return told;
}

void events_tell_all(struct guard *guard)
{
    for (struct told_event *told = next_told(&guard->events); told != NULL;
         told = next_told(&guard->events)) {
        guard->config.event(guard->config.event_context, &told->event);
        free(told);
    }
}

void events_clear(struct guard *guard)
{
    for (struct told_event *told = next_told(&guard->events); told != NULL; told = next_told(&guard->events))
        free(told);
}
