/* SPDX-License-Identifier: MIT */
/* offers.c - see offers.h. */
#include "app/catalog/offers.h"

static uint32_t least(uint32_t most_ms, int64_t left_ms)
{
    return left_ms < most_ms ? (uint32_t)left_ms : most_ms;
}

bool offers_keep(const struct rows *rows, const struct offers_rules *rules, struct guard_keep *out)
{
    struct catalog_offers_about about;

    if (!catalog_json_offers_about(rows, &about))
        return false;
    const int64_t left_ms = about.left_ms - (int64_t)rules->elapsed_ms;
    const uint32_t most_ms = about.is_absent ? rules->absent_ms : rules->fresh_ms;

    if (about.is_personal)
        *out = (struct guard_keep){.how = GUARD_PASS,
                                   .pass_ms = left_ms > 0 ? least(rules->fresh_ms, left_ms) : 1};
    else /* 0: stored nowhere */
        *out = (struct guard_keep){.how = GUARD_STORE,
                                   .fresh_ms = rules->may_store && left_ms > 0 ? least(most_ms, left_ms) : 0};
    return true;
}
