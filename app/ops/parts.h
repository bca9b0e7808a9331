/* SPDX-License-Identifier: MIT */
/* parts.h - the parts of the service that operators ask and change. */
#ifndef APP_PARTS_H
#define APP_PARTS_H

#include "app/catalog/cache_gate.h"
#include "app/catalog/catalog.h"
#include "app/catalog/warmer.h"
#include "app/http/server.h"
#include "guard/guard.h"

/* All lent. */
struct ops_parts {
    struct guard *guard;
    struct catalog *catalog;
    struct cache_gate *gate;
    const struct warmer *warmer; /* NULL: nothing is warmed */
    struct server *server;
    const char *name_space; /* ops_open() fills it in */
};

#endif
