/* SPDX-License-Identifier: MIT */
/*
 * offers.h - how long the offers for a product may be kept, and for whom.
 *
 *     some client has an offer of its own    passed: each request loads for its own asker, and nothing is shared
 *     otherwise                              stored for all, until the next offer begins or ends and never stale; at most
 *                                            for the policy's time, as everything else
 *
 * Pure but for what it tells the load; on the load's thread.
 */
#ifndef APP_OFFERS_H
#define APP_OFFERS_H

#include "app/catalog/catalog_json.h"
#include "guard/guard.h"

struct offers_rules {
    uint32_t fresh_ms, absent_ms; /* the policy's */
    uint64_t elapsed_ms;          /* since the query began, at least */
    bool may_store;               /* what is not passed */
};

/* False: the rows are not those of sql/load_offers.sql; nothing was told. */
bool offers_keep(const struct rows *rows, const struct offers_rules *rules, struct guard_keep *out);

#endif
