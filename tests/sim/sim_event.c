/* SPDX-License-Identifier: MIT */
/* sim_event.c - a binary heap of events, first in first out among those of one instant. */
#include "sim.h"
#include <stdlib.h>

static bool before(const struct event *one, const struct event *two)
{
    return one->at_us != two->at_us ? one->at_us < two->at_us : one->number < two->number;
}

void events_clear(struct events *events)
{
    free(events->heap);
    *events = (struct events){0};
}

static void grow(struct events *events)
{
    size_t capacity = events->capacity == 0 ? 256 : events->capacity * 2;
    struct event *heap = realloc(events->heap, capacity * sizeof *heap);
    if (heap == NULL)
        abort();
    events->heap = heap;
    events->capacity = capacity;
}

void events_push(struct events *events, struct event event)
{
    if (events->count + 1 >= events->capacity)
        grow(events);
    event.number = ++events->numbered;
    size_t place = ++events->count;
    for (; place > 1 && before(&event, &events->heap[place / 2]); place /= 2)
        events->heap[place] = events->heap[place / 2];
    events->heap[place] = event;
}

bool events_pop(struct events *events, struct event *out)
{
    if (events->count == 0)
        return false;
    *out = events->heap[1];
    struct event last = events->heap[events->count--];
    size_t place = 1;
    for (size_t child = 2; child <= events->count; child = place * 2) {
        if (child < events->count && before(&events->heap[child + 1], &events->heap[child]))
            child++;
        if (!before(&events->heap[child], &last))
            break;
        events->heap[place] = events->heap[child];
        place = child;
    }
    if (events->count > 0)
        events->heap[place] = last;
    return true;
}

uint64_t events_next_us(const struct events *events)
{
    return events->count > 0 ? events->heap[1].at_us : UINT64_MAX;
}
