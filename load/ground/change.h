/* SPDX-License-Identifier: MIT */
/*
 * change.h - one client of the playground that changes the product, as a shop would: by PUT with If-Match, by a purchase with
 * Idempotency-Key; and the operator that expires or drops it. Each tells what came of it.
 *
 * Threads: any. They block for some seconds at most.
 */
#ifndef LOAD_GROUND_CHANGE_H
#define LOAD_GROUND_CHANGE_H

#include "load/ground/site.h"

/* The price goes up by a cent; then the other process is asked for it. */
void change_price(struct site *site);
void change_buy(struct site *site);
/* POST /expire and POST /invalidate. */
void change_expire(struct site *site);
void change_invalidate(struct site *site);

#endif
