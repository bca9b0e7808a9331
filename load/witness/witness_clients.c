/* SPDX-License-Identifier: MIT */
/* witness_clients.c - see witness_clients.h. */
#include "load/witness/witness_clients.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The value of "name=..." among words that end with a space; false: there is none. */
static bool value_of(const char *line, size_t line_bytes, const char *name, char *out, size_t out_bytes)
{
    size_t name_bytes = strlen(name);
    for (const char *at = line, *end = line + line_bytes; at < end;) {
        size_t bytes = strcspn(at, " \n");
        if (bytes > name_bytes && strncmp(at, name, name_bytes) == 0 && at[name_bytes] == '=') {
            snprintf(out, out_bytes, "%.*s", (int)(bytes - name_bytes - 1), at + name_bytes + 1);
            return true;
        }
        at += bytes + 1;
    }
    return false;
}

static uint64_t number_of(const char *line, size_t line_bytes, const char *name)
{
    char number[24];
    return value_of(line, line_bytes, name, number, sizeof number) ? strtoull(number, NULL, 10) : 0;
}

/* "127.0.0.1:5000", "[::1]:5000", "/run/redis.sock:0" without the port. */
static void host_of(const char *line, size_t line_bytes, char host[static WITNESS_CLIENT_BYTES])
{
    host[0] = '\0';
    value_of(line, line_bytes, "addr", host, WITNESS_CLIENT_BYTES);
    char *colon = strrchr(host, ':');
    if (colon != NULL)
        *colon = '\0';
}

static void add(struct witness_clients *clients, const char *host, const char *name)
{
    size_t at = 0;
    while (at < clients->kind_count &&
           (strcmp(clients->kinds[at].host, host) != 0 || strcmp(clients->kinds[at].name, name) != 0))
        at++;
    if (at == WITNESS_CLIENT_KINDS_MAX) {
        clients->more++;
        return;
    }
    struct witness_client_kind *kind = &clients->kinds[at];
    clients->kind_count += at == clients->kind_count;
    snprintf(kind->host, sizeof kind->host, "%s", host);
    snprintf(kind->name, sizeof kind->name, "%s", name);
    kind->count++;
}

void witness_clients_read(struct witness_clients *clients, const char *list, uint64_t own_id,
                          uint64_t active_s)
{
    memset(clients, 0, sizeof *clients);
    for (const char *line = list; *line != '\0';) {
        char host[WITNESS_CLIENT_BYTES], name[WITNESS_CLIENT_BYTES] = "";
        size_t bytes = strcspn(line, "\n");
        uint64_t id = number_of(line, bytes, "id");
        if (id != 0 && id != own_id && number_of(line, bytes, "idle") <= active_s) {
            host_of(line, bytes, host);
            value_of(line, bytes, "name", name, sizeof name);
            add(clients, host, name);
        }
        line += bytes + (line[bytes] == '\n');
    }
}

const char *witness_clients_text(const struct witness_clients *clients, char *text, size_t text_bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < clients->kind_count && used < text_bytes; i++) {
        const struct witness_client_kind *kind = &clients->kinds[i];
        bool has_name = kind->name[0] != '\0';
        used += (size_t)snprintf(text + used, text_bytes - used, "%s%s%s%s%s (%" PRIu32 ")",
                                 i > 0 ? ", " : "", kind->host, has_name ? " \"" : "", kind->name,
                                 has_name ? "\"" : "", kind->count);
    }
    if (clients->more > 0 && used < text_bytes)
        snprintf(text + used, text_bytes - used, " and %" PRIu32 " more", clients->more);
    return text;
}
