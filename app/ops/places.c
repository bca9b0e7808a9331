/* SPDX-License-Identifier: MIT */
/* places.c - see ops.h. */
#include "app/ops/ops.h"

#include "app/base/clock.h"

#include <sys/socket.h>
#include <time.h>

enum { NAP_MS = 5, GOING_A_MS = 8 /* so many threads end in a millisecond on a busy machine */ };

static void nap(size_t span_ms)
{
    nanosleep(&(struct timespec){.tv_nsec = (long)span_ms * 1000000}, NULL);
}

static void yield_in(struct place *place, uint64_t span_ms)
{
    atomic_store(&place->yields_ms, clock_ms() + span_ms);
}

/* The place whose time comes first; NULL: there is still room. *going: closed ones that are still there. */
static struct place *first_to_go(struct places *places, size_t *going)
{
    struct place *first = NULL;
    size_t count = 0;

    *going = 0;
    for (size_t i = 0; i < PLACES_SOCKETS; i++) {
        struct place *place = &places->list[i];

        *going += place->taken && place->ended;
        if (!place->taken || place->ended || atomic_load(&place->stays))
            continue;
        count++;
        if (first == NULL || atomic_load(&place->yields_ms) < atomic_load(&first->yields_ms))
            first = place;
    }
    return count < PLACES_MAX ? NULL : first;
}

static void make_room(struct places *places)
{
    struct place *first;
    size_t going;

    while ((first = first_to_go(places, &going)) != NULL && !atomic_load(&places->closing)) {
        if (atomic_load(&first->yields_ms) > clock_ms()) {
            nap(NAP_MS);
            continue;
        }
        first->ended = true;
        shutdown(first->fd, SHUT_RDWR); /* its thread notices, and ends */
        nap(1 + going / GOING_A_MS);
    }
}

struct place *places_take(struct places *places, int fd)
{
    make_room(places);
    for (size_t i = 0; i < PLACES_SOCKETS; i++) {
        struct place *place = &places->list[i];

        if (place->taken)
            continue;
        place->taken = true;
        place->ended = place->answered = false;
        atomic_store(&place->stays, false);
        place->fd = fd;
        yield_in(place, PLACES_HEAD_MS);
        return place;
    }
    return NULL;
}

void places_leave(struct place *place)
{
    place->taken = false;
}

void places_heard(struct place *place)
{
    if (!place->answered)
        yield_in(place, PLACES_ANSWER_MS);
}

void places_answered(struct place *place)
{
    if (!place->answered)
        yield_in(place, PLACES_READ_MS);
    place->answered = true;
}

void places_stay(struct place *place)
{
    atomic_store(&place->stays, true);
}
