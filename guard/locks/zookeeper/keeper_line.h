/* SPDX-License-Identifier: MIT */
/*
 * keeper_line.h - the line for a name in ZooKeeper: its order, and how much of it is served.
 *
 *     _c_6f1c2a3e-...-1000000-1000000-0000000041     a writer, served
 *     _c_0b3d7c5a-...-1-1000000-0000000042           a reader, behind it
 *
 * A node is a request: "_c_", the UUID of its token, its units, its limit, and the number that ZooKeeper gave it.
 * Numbers are signed, count up by at least one, and begin again below zero after 2^31 - 1: they are compared modulo
 * 2^32.
 *
 * The rule: those in front of a request and itself have no more units than the smallest limit among them. So those
 * that are served are always the first of the line, whatever kinds meet on a name, and everybody sees the same from a
 * listing: what leaves never comes back.
 *
 * Pure, any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KEEPER_UUID_BYTES = 36, KEEPER_NODE_SIZE = 80 /* of a node's name, its NUL included */ };

struct keeper_node {
    char uuid[KEEPER_UUID_BYTES];
    uint32_t units, limit;
    uint32_t number;
};

/* False: it is none of ours. */
bool keeper_node_parse(const char *name, struct keeper_node *out);
/* The name without its number, which is what it is created with; or with it. */
void keeper_node_prefix(const struct keeper_node *node, char out[KEEPER_NODE_SIZE]);
void keeper_node_name(const struct keeper_node *node, char out[KEEPER_NODE_SIZE]);

/* Into the order of arrival. */
void keeper_line_sort(struct keeper_node *nodes, size_t count);
/* How many of the first are served. */
size_t keeper_line_served(const struct keeper_node *nodes, size_t count);
/* The place of the node with this number and UUID; `count` if there is none. */
size_t keeper_line_find(const struct keeper_node *nodes, size_t count, const struct keeper_node *node);
/* The place of the last node in front of this one that has to leave before it can be served, whatever else happens;
 * `at` if there is none: any of them may make room. */
size_t keeper_line_blocker(const struct keeper_node *nodes, size_t at);
