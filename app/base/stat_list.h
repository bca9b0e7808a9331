/* SPDX-License-Identifier: MIT */
/*
 * stat_list.h - numbers of the guard (guard_stat_info()) in one text, as tables of names here have them:
 * "hit near:near_hit" is the number `hit`, and `near_hit` under the name "near".
 *
 * Pure, any thread.
 */
#ifndef APP_STAT_LIST_H
#define APP_STAT_LIST_H

#include <stdbool.h>
#include <stddef.h>

enum { STAT_NAME_BYTES = 48 };

/* The next of the list, which it moves on, and what it is called. False: there are no more, or the guard has no such
 * number. */
bool stat_list_next(const char **list, size_t *number, char name[STAT_NAME_BYTES]);

#endif
