/* SPDX-License-Identifier: MIT */
/*
 * proxy_fault.h - what can befall a connection through the proxy, and who hears what passes; see proxy.h.
 *
 *     NONE             bytes pass
 *     DELAY            each portion waits for amount_ms, in both directions
 *     DROP             bytes vanish; a connection that lost some is reset when the fault ends, for TCP does not
 *                      go on behind a gap
 *     RESET            every connection is reset, and so is each new one
 *     SILENT           half-open: connections are accepted and nothing ever comes or goes; those that exist hang
 *     DRIBBLE          one byte every amount_ms (0: as fast as one byte at a time goes)
 *     CUT              a connection is reset in the middle of a reply, one of its next few
 *     FREEZE_REQUESTS  nothing reaches the server; the other direction flows
 *     FREEZE_REPLIES   nothing comes back; requests arrive
 *     MUTE             what the server says vanishes, and the connection goes on; as behind a firewall that forgot it
 *     LATE             requests are taken and kept, also when their client has gone; amount_ms after that, or
 *                      when the fault ends, they reach the server: a command runs that nobody waits for
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum proxy_fault {
    PROXY_NONE = 0,
    PROXY_DELAY,
    PROXY_DROP,
    PROXY_RESET,
    PROXY_SILENT,
    PROXY_DRIBBLE,
    PROXY_CUT,
    PROXY_FREEZE_REQUESTS,
    PROXY_FREEZE_REPLIES,
    PROXY_MUTE,
    PROXY_LATE,
    PROXY_FAULTS
};

/* ---- who hears what passes ---- */

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
