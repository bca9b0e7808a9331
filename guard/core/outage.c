/* SPDX-License-Identifier: MIT */
/* outage.c - see outage.h. */
#include "outage.h"

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
