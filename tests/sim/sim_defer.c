/* SPDX-License-Identifier: MIT */
/*
 * sim_defer.c - loaders that defer: their load is finished later, after its limit, or never. And policies that abandon a
 * load which nobody waits for. What a loader does is drawn when its load starts.
 */
#include "sim.h"

/* ---- what a world has ---- */

void defer_choose(struct sim *sim)
{
    sim->params.policy.abandon = sim_wish(sim, WISH_ABANDON, 1);
}

/* ---- what a loader does ---- */

void defer_load_starts(struct sim *sim, struct load_model *load)
{
    enum { ONE_IN = 2, RARELY = 8 };
    struct defer_of_load *defer = &load->defer;
    uint64_t limit_us = (uint64_t)sim->params.policy.load_limit_ms * 1000;
    if (sim_wish(sim, WISH_DEFER_NEVER, RARELY)) {
        defer->defers = defer->never = true;
    } else if (sim_wish(sim, WISH_DEFER_LATE, RARELY)) {
        defer->defers = true;
        defer->finished_us = sim_wish_between(sim, WISH_DEFER_LATE, limit_us, 3 * limit_us);
    } else if (sim_wish(sim, WISH_DEFER, ONE_IN)) {
        defer->defers = true;
        defer->finished_us = sim_wish_between(sim, WISH_DEFER, 1, limit_us);
    }
}

bool defer_loader_returns(struct sim *sim, struct load_model *load)
{
    (void)sim, (void)load;
    return false;
}

void defer_happens(struct sim *sim, struct process *process, const struct event *event)
{
    (void)sim, (void)process, (void)event;
}

/* ---- what must be true of it ---- */

void defer_check_answer(struct sim *sim, const struct request *request)
{
    (void)sim, (void)request;
}

void defer_check_load(struct sim *sim, const struct load_model *load)
{
    (void)sim, (void)load;
}

void defer_check_rest(struct sim *sim)
{
    (void)sim;
}
