/* SPDX-License-Identifier: MIT */
/*
 * sim_change.c - operators that expire, clear, refresh and change a policy while requests run, and requests that
 * revalidate or peek. What operators do is an event for each; what a request wants is drawn when it begins.
 */
#include "sim.h"

/* ---- what a world has ---- */

void change_choose(struct sim *sim)
{
    (void)sim;
}

void change_schedule(struct sim *sim)
{
    static const enum wish of_operators[] = {WISH_EXPIRE, WISH_EXPIRE_TAG, WISH_CLEAR, WISH_REFRESH,
                                             WISH_POLICY};
    enum { MOST = 8 };
    for (size_t i = 0; i < sizeof of_operators / sizeof *of_operators; i++) {
        enum wish wish = of_operators[i];
        uint64_t times = sim->wishes.may[wish] ? sim_wish_between(sim, wish, 1, MOST) : 0;
        for (; times > 0; times--) {
            struct event event = {.kind = EVENT_CHANGE, .subject = wish};
            event.key = (uint32_t)sim_wish_between(sim, wish, 0, sim->params.keys - 1);
            sim_at(sim, sim_wish_between(sim, wish, 0, sim->params.chaos_us), event);
        }
    }
}

/* ---- operators ---- */

void change_happens(struct sim *sim, const struct event *event)
{
    if (!sim_wish(sim, (enum wish)event->subject, 1))
        return;
    switch ((enum wish)event->subject) {
    case WISH_EXPIRE:
    case WISH_EXPIRE_TAG:
    case WISH_CLEAR:
    case WISH_REFRESH:
    case WISH_POLICY:
    default:
        break;
    }
}

/* ---- requests ---- */

bool change_request_begins(struct sim *sim, struct process *process, struct request *request)
{
    enum { ONE_IN = 5 };
    (void)process;
    if (request->probe)
        return false;
    if (sim_wish(sim, WISH_REVALIDATE, ONE_IN))
        request->change.flags = GUARD_REVALIDATE;
    else if (sim_wish(sim, WISH_PEEK, ONE_IN))
        request->change.flags = GUARD_PEEK;
    return false;
}

/* ---- what must be true of it ---- */

void change_check_answer(struct sim *sim, const struct request *request)
{
    (void)sim, (void)request;
}

void change_check_load(struct sim *sim, const struct load_model *load)
{
    (void)sim, (void)load;
}

void change_check_rest(struct sim *sim)
{
    (void)sim;
}
