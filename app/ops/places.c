/* SPDX-License-Identifier: MIT */
/* places.c - see ops.h. */
#include "app/ops/ops.h"

#include "app/base/clock.h"

#include <pthread.h>
#include <sys/socket.h>
#include <time.h>

/* Between those that want to stay, and one of those that leaves: its descriptor is not closed before. */
static pthread_mutex_t staying = PTHREAD_MUTEX_INITIALIZER;

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
        place->fd = fd;
        yield_in(place, PLACES_HEAD_MS);
        return place;
    }
    return NULL;
}

void places_leave(struct place *place)
{
    pthread_mutex_lock(&staying);
    atomic_store(&place->stays, false);
    pthread_mutex_unlock(&staying);
    place->taken = false;
}

void places_heard(struct place *place)
{
    if (!place->answered)
        yield_in(place, PLACES_ANSWER_MS);
}

void places_answered(struct place *place)
{
    if (!place->answered && !atomic_load(&place->stays))
        yield_in(place, PLACES_READ_MS);
    place->answered = true;
}

bool places_stay(struct places *places, struct place *place, uint64_t until_ms)
{
    const uint64_t now_ms = clock_ms();
    struct place *late = NULL;
    size_t count = 0;

    pthread_mutex_lock(&staying);
    for (size_t i = 0; i < PLACES_SOCKETS; i++) {
        struct place *other = &places->list[i];

        if (!atomic_load(&other->stays))
            continue;
        count++;
        if (late == NULL && atomic_load(&other->yields_ms) < now_ms)
            late = other;
    }
    const bool may_stay = count < PLACES_STAYING || late != NULL;
    if (count == PLACES_STAYING && late != NULL) {
        atomic_store(&late->stays, false);
        shutdown(late->fd, SHUT_RDWR);
    }
    if (may_stay) {
        atomic_store(&place->yields_ms, until_ms);
        atomic_store(&place->stays, true);
    }
    pthread_mutex_unlock(&staying);
    return may_stay;
}
