/* SPDX-License-Identifier: MIT */
/* course_event.c - a heap of events, first in first out among those of one instant. */
#include "course.h"
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

/* The heap's root is at 0; four children lie together, which is less to read than two levels of two. */
static size_t parent_of(size_t place)
{
    return (place - 1) / 4;
}

static size_t first_child(const struct events *events, size_t place)
{
    size_t first = place * 4 + 1, best = first;
    for (size_t child = first + 1; child < first + 4 && child < events->count; child++)
        if (before(&events->heap[child], &events->heap[best]))
            best = child;
    return best;
}

void events_push(struct events *events, struct event event)
{
    if (events->count == events->capacity)
        grow(events);
    event.number = ++events->numbered;
    size_t place = events->count++;
    for (; place > 0 && before(&event, &events->heap[parent_of(place)]); place = parent_of(place))
        events->heap[place] = events->heap[parent_of(place)];
    events->heap[place] = event;
}

bool events_pop(struct events *events, struct event *out)
{
    if (events->count == 0)
        return false;
    *out = events->heap[0];
    struct event last = events->heap[--events->count];
    size_t place = 0;
    while (place * 4 + 1 < events->count) {
        size_t child = first_child(events, place);
        if (!before(&events->heap[child], &last))
            break;
        events->heap[place] = events->heap[child];
        place = child;
    }
    events->heap[place] = last;
    return true;
}

uint64_t events_next_us(const struct events *events)
{
    return events->count > 0 ? events->heap[0].at_us : UINT64_MAX;
}
