/* SPDX-License-Identifier: MIT */
/*
 * sim_keep.c - loaders that say how their answer is kept: its own life, SHARE, PASS. What they say is drawn when the load
 * starts, and said when it ends.
 */
#include "sim.h"

/* ---- what a world has ---- */

void keep_choose(struct sim *sim)
{
    (void)sim;
}

/* ---- what a loader says ---- */

void keep_load_starts(struct sim *sim, struct load_model *load)
{
    enum { OWN_FRESH_MS = 3000, OWN_STALE_MS = 3000, PASS_MS = 1000, ONE_IN = 3 };
    struct guard_keep *keep = &load->keep.keep;
    *keep = (struct guard_keep){.fresh_ms = GUARD_POLICY_MS, .stale_ms = GUARD_POLICY_MS};
    keep->pass_ms = GUARD_POLICY_MS;
    if (sim_wish(sim, WISH_PASS, ONE_IN)) {
        keep->how = GUARD_PASS;
        keep->pass_ms = (uint32_t)sim_wish_between(sim, WISH_PASS, 1, PASS_MS);
    } else if (sim_wish(sim, WISH_SHARE, ONE_IN)) {
        keep->how = GUARD_SHARE;
    } else {
        if (sim_wish(sim, WISH_OWN_FRESH, ONE_IN))
            keep->fresh_ms = (uint32_t)sim_wish_between(sim, WISH_OWN_FRESH, 0, OWN_FRESH_MS);
        if (sim_wish(sim, WISH_OWN_STALE, ONE_IN))
            keep->stale_ms = (uint32_t)sim_wish_between(sim, WISH_OWN_STALE, 0, OWN_STALE_MS);
    }
    load->keep.says =
        keep->how != GUARD_STORE || keep->fresh_ms != GUARD_POLICY_MS || keep->stale_ms != GUARD_POLICY_MS;
}

void keep_load_ends(struct sim *sim, struct load_model *load, struct core_loaded *loaded)
{
    (void)sim, (void)load, (void)loaded;
}

/* ---- what must be true of it ---- */

void keep_check_answer(struct sim *sim, const struct request *request)
{
    (void)sim, (void)request;
}

void keep_check_load(struct sim *sim, const struct load_model *load)
{
    (void)sim, (void)load;
}

void keep_check_rest(struct sim *sim)
{
    (void)sim;
}
