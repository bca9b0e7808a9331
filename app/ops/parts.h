/* SPDX-License-Identifier: MIT */
/* parts.h - the parts of the service that operators ask and change. */
#ifndef APP_PARTS_H
#define APP_PARTS_H

#include "app/catalog/cache_gate.h"
#include "app/catalog/catalog.h"
#include "app/http/server.h"
#include "app/view/stream.h"
#include "guard/guard.h"

#include <stdatomic.h>

struct policy;

/* All lent. */
struct ops_parts {
    struct guard *guard;
    struct catalog *catalog;
    struct cache_gate *gate;
    struct server *server;
    struct running *running; /* NULL: running loads are not kept */
    /* ops_open() fills in these */
    const char *name_space;
    enum guard_mode mode;
    uint64_t started_ms, started_at_ms; /* the second since 1970 */
    const atomic_bool *draining;
    struct policy *policy;
    struct stream *stream;
};

#endif
