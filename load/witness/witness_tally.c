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
