/* SPDX-License-Identifier: MIT */
/* keep.c - see keep.h. */
#include "keep.h"

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
