/* SPDX-License-Identifier: MIT */
/* hit.c - see hit.h. */
#include "hit.h"
#include "keep.h"

enum {
    LOAD_MOST_US = 2000000000, /* beyond it a load time says nothing any more */
    LOT_MOST = 45,             /* no lot is more than so many times the mean: 64 ln 2 */
};

bool hit_is_early(const struct guard_policy *policy, uint64_t load_us, uint32_t left_ms,
                  struct chance *chance)
{
    if (load_us > LOAD_MOST_US)
        load_us = LOAD_MOST_US;
    uint64_t mean_us = load_us * policy->early_percent / 100, left_us = (uint64_t)left_ms * 1000;
    if (mean_us == 0 || left_us > mean_us * LOT_MOST)
        return false; /* nearly always: no lot needed */
    return chance_exponential(chance, mean_us) >= left_us;
}

bool hit_serves(const struct guard_policy *policy, enum hit_age age)
{
    return age == HIT_FRESH || keep_serves_stale(policy, age == HIT_STALE_OWN);
}

enum hit_verdict hit_judge(const struct guard_policy *policy, enum hit_age age, uint64_t load_us,
                           uint32_t left_ms, struct chance *chance)
{
    if (age != HIT_FRESH)
        return hit_serves(policy, age) && policy->soft_ms == 0 ? HIT_REFRESH : HIT_NONE;
    return hit_is_early(policy, load_us, left_ms, chance) ? HIT_EARLY : HIT_ANSWER;
}
