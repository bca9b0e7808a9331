/* SPDX-License-Identifier: MIT */
/* witness_tally.c - see witness_redis.h. */
#include "load/witness/witness_redis.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct witness_command *find(const struct witness_tally *tally, const char *name)
{
    for (size_t i = 0; i < tally->count; i++) {
        if (strcmp(tally->at[i].name, name) == 0)
            return &tally->at[i];
    }
    return NULL;
}

uint64_t witness_tally_get(const struct witness_tally *tally, const char *name)
{
    const struct witness_command *command = find(tally, name);
    return command != NULL ? command->calls : 0;
}

/* The last place is for all that have none of their own. */
static struct witness_command *place(struct witness_tally *tally, const char *name)
{
    const struct witness_command *found = find(tally, name);
    if (found != NULL)
        return &tally->at[found - tally->at];
    bool is_last = tally->count >= WITNESS_TALLY_MAX - 1;
    if (tally->count < WITNESS_TALLY_MAX)
        tally->count++;
    struct witness_command *command = &tally->at[tally->count - 1];
    if (!is_last || command->name[0] == '\0')
        snprintf(command->name, sizeof command->name, "%.*s", (int)sizeof command->name - 1,
                 is_last ? "other" : name);
    return command;
}

void witness_tally_add(struct witness_tally *tally, const char *name, uint64_t calls)
{
    place(tally, name)->calls += calls;
}

void witness_tally_subtract(struct witness_tally *tally, const char *name, uint64_t calls)
{
    struct witness_command *command = place(tally, name);
    command->calls -= calls < command->calls ? calls : command->calls;
}

void witness_tally_read(struct witness_tally *tally, const char *info)
{
    char name[sizeof tally->at[0].name];
    uint64_t calls;
    _Static_assert(sizeof name == 24, "the width below");
    memset(tally, 0, sizeof *tally);
    for (const char *line = info; line != NULL && *line != '\0'; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (sscanf(line, "cmdstat_%23[^:\r\n]%*[^:\r\n]:calls=%" SCNu64, name, &calls) == 2 ||
            sscanf(line, "cmdstat_%23[^:\r\n]:calls=%" SCNu64, name, &calls) == 2)
            witness_tally_add(tally, name, calls);
    }
}

bool witness_tally_advance(struct witness_tally *sum, const struct witness_tally *before,
                           const struct witness_tally *now)
{
    bool any_backwards = false;
    for (size_t i = 0; i < before->count; i++)
        any_backwards = any_backwards || witness_tally_get(now, before->at[i].name) < before->at[i].calls;
    for (size_t i = 0; i < now->count; i++) {
        uint64_t was = any_backwards ? 0 : witness_tally_get(before, now->at[i].name);
        if (now->at[i].calls > was)
            witness_tally_add(sum, now->at[i].name, now->at[i].calls - was);
    }
    return any_backwards;
}

static int by_calls(const void *a, const void *b)
{
    const struct witness_command *left = a, *right = b;
    if (left->calls != right->calls)
        return left->calls < right->calls ? 1 : -1;
    return strcmp(left->name, right->name);
}

void witness_tally_show(const struct witness_tally *tally, struct witness_view *view)
{
    struct witness_tally sorted = *tally;
    qsort(sorted.at, sorted.count, sizeof *sorted.at, by_calls);
    view->command_count = 0;
    view->command_sum = 0;
    for (size_t i = 0; i < sorted.count && sorted.at[i].calls > 0; i++) {
        view->command_sum += sorted.at[i].calls;
        if (view->command_count < WITNESS_COMMANDS_MAX)
            view->commands[view->command_count++] = sorted.at[i];
    }
}

/* ---- clients ---- */

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
