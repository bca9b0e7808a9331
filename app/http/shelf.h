/* SPDX-License-Identifier: MIT */
/*
 * shelf.h - the responses of one loop that are prepared: what is answered again is not put into words again.
 *
 *     first time    NULL, and a note of it: keys that nobody asks for twice leave nothing here
 *     second time   prepared: a response that refers to the value. A near value was seen before
 *     from then on  found; Age and the ttl are replaced once a second, or it is prepared anew while it is being sent.
 *                   An answer with an X-Request-Id is never prepared
 *
 * What it gives is never older than the guard's own answer: the guard is asked first, and a prepared response counts
 * only if its value is the object that the guard has answered with, or was made by the same load and has the same
 * bytes. So a near hit and a hit in Redis find the same response, as far as they say the same; a value that has
 * changed finds nothing, and takes the place of the old one when it is seen again.
 *
 * Shared     one response may be under way to many: nothing in it changes until all of them have it.
 * Memory     at most bytes_max in each loop, values counted in full even where the near cache has them, too; then it
 *            evicts by SIEVE, like guard/core/near.h. A value with more than its share of that is never kept.
 *            Besides, 256 KiB of places. An old value may be held, unused, until its key is asked for again or it is
 *            evicted. What is being sent is its connection's: it outlives the shelf.
 *
 * Threads: that of the loop; any may read `bytes`.
 */
#pragma once

#include "app/http/route.h"
#include "guard/guard.h"

#include <microhttpd.h>
#include <stdatomic.h>
#include <stdbool.h>

enum {
    SHELF_VALUE_SHARE = 128, /* a value takes at most one part in so many */
    /* A longer body in another object counts as another one: to look at every byte takes longer than to
     * prepare it. */
    SHELF_COMPARED_MAX = 16 << 10,
};

/* All zeros: empty, and stays so. */
struct shelf {
    uint64_t seed;    /* of its hash: nobody chooses keys that meet in one place */
    size_t bytes_max; /* 0: nothing is prepared */
    struct shelf_place *places;
    struct prepared *queue, *hand; /* oldest first; the hand of SIEVE */
    _Atomic size_t bytes;
};

/* An answer that is wanted. */
struct shelf_wish {
    const struct guard_result *result; /* OK */
    const struct route *route;         /* what was asked for */
    uint32_t fresh_ms;
    bool held; /* by the client: 304 */
};

/* What shelf_find() and the answer will take from memory is on its way in the meantime; with ten thousand hot values
 * it is not in the processor's cache. seek: as soon as it is known what is asked for; expect: before the guard is
 * asked. */
void shelf_seek(const struct shelf *shelf, const struct route *route);
void shelf_expect(const struct shelf *shelf, const struct route *route);
/* NULL: none is prepared, answer in another way. Otherwise shelf_sent() once the connection has it or has ended, and
 * not before. */
struct prepared *shelf_find(struct shelf *shelf, const struct shelf_wish *wish);
struct MHD_Response *shelf_response(const struct prepared *item);
/* Leaves NULL; accepts NULL in *item. Also after shelf_clear(). */
void shelf_sent(struct prepared **item);
/* Leaves it empty. */
void shelf_clear(struct shelf *shelf);

/* A response without a head whose body is the value's, referred to. NULL: no memory. */
struct MHD_Response *shelf_hold(const struct guard_value *value);
