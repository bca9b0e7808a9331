/* SPDX-License-Identifier: MIT */
/* keeper_line.c - see keeper_line.h. */
#include "keeper_line.h"
#include "../lock_core.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ---- */

/* "7-" and what is behind it; NULL: no such number, or not of this range. */
static const char *parse_units(const char *text, uint32_t *out)
{
    char *end = NULL;
    if (*text < '1' || *text > '9')
        return NULL;
    unsigned long value = strtoul(text, &end, 10);
    *out = (uint32_t)value;
    return value <= LOCK_ALL && *end == '-' ? end + 1 : NULL;
}

static bool parse_number(const char *text, uint32_t *out)
{
    char *end = NULL;
    const char *digits = text[0] == '-' ? text + 1 : text;
    if (*digits < '0' || *digits > '9')
        return false;
    long long value = strtoll(text, &end, 10);
    *out = (uint32_t)value;
    return *end == '\0' && value >= INT32_MIN && value <= INT32_MAX;
}

bool keeper_node_parse(const char *name, struct keeper_node *out)
{
    if (strlen(name) >= KEEPER_NODE_SIZE || strncmp(name, "_c_", 3) != 0)
        return false;
    const char *uuid = name + 3;
    if (strcspn(uuid, "/") < KEEPER_UUID_BYTES || uuid[KEEPER_UUID_BYTES] != '-')
        return false;
    memcpy(out->uuid, uuid, KEEPER_UUID_BYTES);
    const char *rest = parse_units(uuid + KEEPER_UUID_BYTES + 1, &out->units);
    if (rest != NULL)
        rest = parse_units(rest, &out->limit);
    return rest != NULL && parse_number(rest, &out->number);
}

void keeper_node_prefix(const struct keeper_node *node, char out[KEEPER_NODE_SIZE])
{
    snprintf(out, KEEPER_NODE_SIZE, "_c_%.*s-%" PRIu32 "-%" PRIu32 "-", KEEPER_UUID_BYTES, node->uuid,
             node->units, node->limit);
}

/* As ZooKeeper does it. */
void keeper_node_name(const struct keeper_node *node, char out[KEEPER_NODE_SIZE])
{
    keeper_node_prefix(node, out);
    size_t length = strlen(out);
    snprintf(out + length, KEEPER_NODE_SIZE - length, "%010" PRId32, (int32_t)node->number);
}

/* ---- order ---- */

static int by_number(const void *left, const void *right)
{
    int32_t ahead =
        (int32_t)(((const struct keeper_node *)left)->number - ((const struct keeper_node *)right)->number);
    return (ahead > 0) - (ahead < 0);
}

void keeper_line_sort(struct keeper_node *nodes, size_t count)
{
    if (count > 1)
        qsort(nodes, count, sizeof *nodes, by_number);
}

size_t keeper_line_served(const struct keeper_node *nodes, size_t count)
{
    uint64_t units = 0;
    uint32_t limit = LOCK_ALL;
    size_t at = 0;
    for (; at < count; at++) {
        units += nodes[at].units;
        if (nodes[at].limit < limit)
            limit = nodes[at].limit;
        if (units > limit)
            break;
    }
    return at;
}

size_t keeper_line_find(const struct keeper_node *nodes, size_t count, const struct keeper_node *node)
{
    const struct keeper_node *found =
        count > 0 ? bsearch(node, nodes, count, sizeof *nodes, by_number) : NULL;
    if (found == NULL || memcmp(found->uuid, node->uuid, KEEPER_UUID_BYTES) != 0)
        return count;
    return (size_t)(found - nodes);
}

size_t keeper_line_blocker(const struct keeper_node *nodes, size_t at)
{
    const struct keeper_node *mine = &nodes[at];
    for (size_t i = at; i-- > 0;) {
        uint32_t limit = nodes[i].limit < mine->limit ? nodes[i].limit : mine->limit;
        if (nodes[i].units + mine->units > limit)
            return i;
    }
    return at;
}
