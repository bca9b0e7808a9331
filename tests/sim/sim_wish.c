/* SPDX-License-Identifier: MIT */
/* sim_wish.c - which wishes a world has, their dice, and what the groups are asked. */
#include "sim.h"

#define WISH_NAME(wish, text) [wish] = text,

const char *const wish_names[WISHES] = {WISHES_OF_ALL(WISH_NAME)};

static uint64_t below(struct sim *sim, enum wish wish, uint64_t bound)
{
    return chance_below(&sim->wishes.chance[wish], bound);
}

uint64_t sim_wish_between(struct sim *sim, enum wish wish, uint64_t low, uint64_t high)
{
    return low + below(sim, wish, high - low + 1);
}

bool sim_wish(struct sim *sim, enum wish wish, uint32_t chances)
{
    if (!sim->wishes.may[wish] || sim->phase != PHASE_CHAOS || below(sim, wish, chances) != 0)
        return false;
    sim->wishes.count[wish]++;
    sim_trace(sim, "    wish: %s", wish_names[wish]);
    return true;
}

/* ---- what a world has ---- */

/* Some have one wish only: what is found there is found in few events. */
static bool has(struct sim *sim, enum wish wish)
{
    enum { ALONE_IN = 4 };
    uint64_t number = sim->course.seed / ALONE_IN;
    if (wish_names[wish] == NULL)
        return false;
    return sim->course.seed % ALONE_IN == 0 ? number % WISHES == wish : below(sim, wish, 2) == 0;
}

void wishes_choose(struct sim *sim)
{
    enum { APART = 0x9e37 };
    sim->wishes = (struct wishes_model){.count = {0}};
    if (sim->course.seed < SIM_OF_WISHES || outage_is_without_wishes(sim))
        return;
    for (int wish = 0; wish < WISHES; wish++) {
        struct chance *chance = &sim->wishes.chance[wish];
        chance->state = sim->course.seed * (uint64_t)(APART + 2 * wish);
        sim->wishes.may[wish] = has(sim, (enum wish)wish);
    }
    keep_choose(sim);
    change_choose(sim);
    defer_choose(sim);
}

void wishes_schedule(struct sim *sim)
{
    change_schedule(sim);
}

/* ---- loads and requests ---- */

void wishes_load_starts(struct sim *sim, struct load_model *load)
{
    keep_load_starts(sim, load);
    defer_load_starts(sim, load);
}

bool wishes_loader_returns(struct sim *sim, struct load_model *load)
{
    return defer_loader_returns(sim, load);
}

void wishes_load_ends(struct sim *sim, struct load_model *load, struct core_loaded *loaded)
{
    defer_load_ends(load, loaded); /* first: what is not told is not kept */
    keep_load_ends(sim, load, loaded);
}

bool wishes_request_begins(struct sim *sim, struct process *process, struct request *request)
{
    return change_request_begins(sim, process, request);
}

/* ---- the oracles ---- */

void wishes_check_answer(struct sim *sim, const struct request *request)
{
    keep_check_answer(sim, request);
    change_check_answer(sim, request);
    defer_check_answer(sim, request);
}

void wishes_check_load(struct sim *sim, const struct load_model *load)
{
    keep_check_load(sim, load);
    change_check_load(sim, load);
    defer_check_load(sim, load);
}
