/* SPDX-License-Identifier: MIT */
/* proxy_ear.h - who hears what passes through the proxy; see proxy.h. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Hears what passes over the connections of a route, as it comes: `open` gives each a value of its own, which `close`
 * gets last. They are called by the proxy's thread.
 */
struct proxy_ear {
    void *(*open)(void *context);
    void (*hear)(void *connection, bool is_client, const char *bytes, size_t count, uint64_t now_us);
    void (*close)(void *connection, uint64_t now_us);
    void *context; /* lent until proxy_close() */
};
