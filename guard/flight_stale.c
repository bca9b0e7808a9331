/* SPDX-License-Identifier: MIT */
/* flight_stale.c - the stale value beside its refresh. See flight.c. */
#include "flight_parts.h"

/* Who joins while a stale value is refreshed here need not wait for that. The lookup names no lease: a peek
 * takes none, and ours must stay. */
void flight_peek(struct core *core, uint64_t now_us, struct flight *flight)
{
    if (flight->peek_op != 0 || flight->peeked_in_vain || !breaker_allow(&core->breaker, now_us))
        return;
    struct core_action action = flight_action(flight, CORE_ACQUIRE);
    action.token = action.prev = "";
    action.lookup = LOOKUP_PEEK;
    action.op = flight->peek_op = flight_next_op(flight);
    flight->peek_stamp = core_stamp(core);
    core_emit(core, &action);
}

void flight_peek_replied(struct core *core, uint64_t now_us, struct flight *flight,
                         const struct core_reply *reply)
{
    bool is_fresh = reply->kind == REPLY_FRESH;
    flight->peek_op = 0;
    flight->peeked_in_vain = reply->damaged || !(is_fresh || reply->kind == REPLY_STALE);
    if (flight->peeked_in_vain)
        return; /* it is gone: from now on everybody waits for the load */
    flight_deliver(core, now_us, flight, flight->peek_stamp,
                   flight_cached_result(reply, is_fresh ? GUARD_FROM_CACHE : GUARD_FROM_STALE));
    if (flight->first != NULL)
        flight_peek(core, now_us, flight);
}

void flight_found_stale(struct core *core, uint64_t now_us, struct flight *flight,
                        const struct core_reply *reply)
{
    flight_deliver(core, now_us, flight, flight->lookup_stamp, flight_cached_result(reply, GUARD_FROM_STALE));
    if (reply->turn == TURN_OURS) {
        flight->refreshing = true;
        flight_granted(core, now_us, flight);
        if (flight->state == FLIGHT_QUEUED && flight->refreshing && flight->first != NULL)
            flight_peek(core, now_us, flight);
        return;
    }
    loads_give_place(core, flight);
    flight_settle(core, now_us, flight);
}
