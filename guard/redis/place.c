/* SPDX-License-Identifier: MIT */
/* redis/place.c - see redis/place.h. */
#include "place.h"
#include <string.h>

void redis_place_init(struct redis_place *place, const struct redis_endpoint *endpoint,
                      void (*ended)(void *context), void *context)
{
    memset(place, 0, sizeof *place);
    redis_reign_init(&place->reign, ended, context);
    pthread_mutex_init(&place->mutex, NULL);
    if (endpoint != NULL)
        place->endpoint = *endpoint;
}

void redis_place_clear(struct redis_place *place)
{
    redis_reign_clear(&place->reign);
    pthread_mutex_destroy(&place->mutex);
}

bool redis_place_where(struct redis_place *place, struct redis_endpoint *out)
{
    pthread_mutex_lock(&place->mutex);
    *out = place->endpoint;
    pthread_mutex_unlock(&place->mutex);
    return out->host[0] != '\0';
}

void redis_place_move(struct redis_place *place, const struct redis_endpoint *endpoint)
{
    pthread_mutex_lock(&place->mutex);
    place->endpoint = *endpoint;
    pthread_mutex_unlock(&place->mutex);
}
