/* SPDX-License-Identifier: MIT */
/*
 * redis/place.h - where one master is, and its reign, as all connections of a process share them.
 *
 * Threads  any.
 */
#ifndef GUARD_REDIS_PLACE_H
#define GUARD_REDIS_PLACE_H

#include "reign.h"
#include "url.h"

struct redis_place {
    struct redis_reign reign;
    pthread_mutex_t mutex;          /* below */
    struct redis_endpoint endpoint; /* with host "": not known yet */
};

/* `ended` as in redis_reign_init(). endpoint: copied; NULL: not known yet. */
void redis_place_init(struct redis_place *place, const struct redis_endpoint *endpoint,
                      void (*ended)(void *context), void *context);
void redis_place_clear(struct redis_place *place);

/* False: not known. */
bool redis_place_where(struct redis_place *place, struct redis_endpoint *out);
/* Connections that are made from here on lead there. */
void redis_place_move(struct redis_place *place, const struct redis_endpoint *endpoint);

#endif
