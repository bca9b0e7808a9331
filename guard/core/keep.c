/* SPDX-License-Identifier: MIT */
/* keep.c - see keep.h. */
#include "keep.h"

/* ---- how long it lives ---- */

struct entry_life keep_life(const struct guard_keep *keep, const struct entry_life *previous)
{
    struct entry_life life = {.own_fresh = false};
    if (keep == NULL)
        return previous != NULL ? *previous : life;
    life.own_fresh = keep->fresh_ms != GUARD_POLICY_MS;
    life.own_stale = keep->stale_ms != GUARD_POLICY_MS;
    life.fresh_ms = life.own_fresh ? keep->fresh_ms : 0;
    life.stale_ms = life.own_stale ? keep->stale_ms : 0;
    return life;
}

static struct spans cut_to(uint32_t max_value_ms, uint32_t fresh_ms, uint32_t stale_ms)
{
    struct spans spans = {.fresh_ms = fresh_ms, .stale_ms = stale_ms};
    if (spans.fresh_ms > max_value_ms)
        spans.fresh_ms = max_value_ms;
    if (spans.stale_ms > max_value_ms - spans.fresh_ms)
        spans.stale_ms = max_value_ms - spans.fresh_ms;
    spans.cut = spans.fresh_ms < fresh_ms || spans.stale_ms < stale_ms;
    return spans;
}

struct spans keep_spans(const struct entry_life *life, const struct guard_policy *policy, bool absent,
                        uint32_t max_value_ms)
{
    uint32_t fresh_ms = absent ? policy->absent_ms : policy->fresh_ms;
    uint32_t stale_ms = life->own_stale ? life->stale_ms : policy->stale_ms;
    return cut_to(max_value_ms, life->own_fresh ? life->fresh_ms : fresh_ms, absent ? 0 : stale_ms);
}

struct spans keep_pass_spans(const struct guard_keep *keep, const struct guard_policy *policy,
                             uint32_t max_value_ms)
{
    return cut_to(max_value_ms, keep->pass_ms != GUARD_POLICY_MS ? keep->pass_ms : policy->failure_ms, 0);
}

/* ---- what it is good for ---- */

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

/* ---- while Redis cannot be asked ---- */

static uint64_t later_us(uint64_t a_us, uint64_t b_us)
{
    return a_us > b_us ? a_us : b_us;
}

static uint64_t sooner_us(uint64_t a_us, uint64_t b_us)
{
    return a_us < b_us ? a_us : b_us;
}

struct outage_times outage_times(const struct outage_entry *entry, uint64_t touch_us, uint32_t outage_ms)
{
    uint64_t span_us = (uint64_t)outage_ms * 1000;
    uint64_t near_us = touch_us > 0 ? sooner_us(entry->near_until_us, touch_us + span_us) : 0;
    uint64_t full_us = later_us(entry->as_of_us + span_us, near_us);
    uint64_t load_us = sooner_us(2 * entry->load_us, span_us / OUTAGE_REFRESH_MOST);
    return (struct outage_times){
        .refresh_us = full_us - later_us(span_us / OUTAGE_REFRESH, load_us),
        .until_us = full_us - span_us / OUTAGE_SHORTER * entry->lot / OUTAGE_LOTS,
    };
}

bool outage_serves(const struct guard_policy *policy, const struct outage_asker *asker)
{
    bool is_for_redis =
        asker->answered || asker->nested || asker->refreshes || asker->revalidates || asker->passes;
    return policy->outage_ms > 0 && !is_for_redis;
}

bool outage_keeps(const struct guard_policy *policy, enum guard_how how, bool passing)
{
    return policy->outage_ms > 0 && !passing && (how == GUARD_STORE || how == GUARD_HERE);
}
