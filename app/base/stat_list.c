/* SPDX-License-Identifier: MIT */
/* stat_list.c - see stat_list.h. */
#include "app/base/stat_list.h"

#include "guard/guard.h"

#include <stdio.h>
#include <string.h>

bool stat_list_next(const char **list, size_t *number, char name[STAT_NAME_BYTES])
{
    char word[2 * STAT_NAME_BYTES];
    const size_t bytes = strcspn(*list += strspn(*list, " "), " ");

    snprintf(word, sizeof(word), "%.*s", (int)bytes, *list);
    *list += bytes;
    const char *colon = strchr(word, ':'), *field = colon != NULL ? colon + 1 : word;
    snprintf(name, STAT_NAME_BYTES, "%.*s", (int)strcspn(word, ":"), word);
    *number = 0;
    while (guard_stat_info(*number) != NULL && strcmp(guard_stat_info(*number)->name, field) != 0)
        ++*number;
    return guard_stat_info(*number) != NULL;
}
