/* SPDX-License-Identifier: MIT */
/*
 * witness_clients.h - who used a Redis: the reply to CLIENT LIST, by address and name.
 *
 * Redis counts its commands for all clients together. (Each client's own number, tot-cmds, came with Redis 8, and not by
 * command.) So where there are several kinds of clients, nobody can say which commands are the service's; a reader can be
 * told that there are.
 *
 * Pure.
 */
#ifndef LOAD_WITNESS_WITNESS_CLIENTS_H
#define LOAD_WITNESS_WITNESS_CLIENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WITNESS_CLIENT_KINDS_MAX = 6, WITNESS_CLIENT_BYTES = 64 };

struct witness_clients {
    struct witness_client_kind {
        char host[WITNESS_CLIENT_BYTES], name[WITNESS_CLIENT_BYTES]; /* "": it has none */
        uint32_t count;
    } kinds[WITNESS_CLIENT_KINDS_MAX];
    size_t kind_count;
    uint32_t more; /* clients of further kinds */
};

/* Those that ran a command within the last active_s seconds, but for the one with the id. */
void witness_clients_read(struct witness_clients *clients, const char *list, uint64_t own_id,
                          uint64_t active_s);

/* "127.0.0.1 \"shop\" (4), 10.0.0.9 (1)"; returns `text`. */
const char *witness_clients_text(const struct witness_clients *clients, char *text, size_t text_bytes);

#endif
