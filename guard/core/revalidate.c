/* SPDX-License-Identifier: MIT */
/* revalidate.c - see revalidate.h. */
#include "revalidate.h"
#include "flight.h"
#include "lease.h"
#include "nested.h"
#include <string.h>

enum core_lookup revalidate_choose_lookup(struct flight *flight)
{
    bool can_load = flight_take_place(flight) || nested_has_berth(flight);
    return can_load ? LOOKUP_REVALIDATE : LOOKUP_REVALIDATE_PEEK;
}

void revalidate_begin_anew(struct flight *flight)
{
    flight->revalidation.names[0] = '\0';
    flight->revalidation.stamp = 0;
}

/* Other names than those that are known: these are of older waiters, which are answered first. */
static void note_names(struct flight *flight, const struct core_reply *reply)
{
    struct revalidation *revalidation = &flight->revalidation;
    enum { BYTES = sizeof revalidation->names - 1 };
    if (reply->names_seen == NULL)
        return;
    if (revalidation->names[0] == '\0')
        memcpy(revalidation->names, reply->names_seen, BYTES);
    if (memcmp(revalidation->names, reply->names_seen, BYTES) == 0)
        revalidation->stamp = flight->lookup_stamp;
}

static void loaded_elsewhere(struct flight *flight, const struct core_reply *reply)
{
    loads_give_place(flight);
    flight_deliver(flight, flight->revalidation.stamp, flight_cached_result(reply, GUARD_FROM_FLEET));
    flight_settle(flight);
}

bool revalidate_replied(struct flight *flight, const struct core_reply *reply)
{
    bool ours = reply->kind == REPLY_STALE && reply->refresher == REFRESH_OURS;
    if (reply->kind == REPLY_BUSY) {
        note_names(flight, reply);
        return false;
    }
    if (ours) {
        stale_keep_previous(flight, reply);
        lease_granted(flight);
        return true;
    }
    if (reply->kind != REPLY_FRESH || reply->mark)
        return false;
    loaded_elsewhere(flight, reply);
    return true;
}
