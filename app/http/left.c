/* SPDX-License-Identifier: MIT */
/* left.c - see left.h. */
#include "app/http/left.h"

/* What CR LF have become. */
static bool line_ends(const char *at, const char *end)
{
    return end - at >= 2 && at[0] == '\0' && at[1] == '\0';
}

void left_begin(struct left *left, const char *from, size_t bytes)
{
    const char *end = from + bytes;
    const bool begun = line_ends(from, end) && end[-1] == '\0';

    *left = (struct left){.at = begun ? from + 2 : NULL, .end = end};
}

void left_field(struct left *left, const char *name, size_t name_bytes, const char *value, size_t value_bytes)
{
    const bool is_here = left->at != NULL && name == left->at && name < left->end;

    left->at = NULL;
    if (!is_here)
        return;
    const char *at = name + name_bytes + 1; /* what the colon has become is within, for a NUL ends the name */
    while (at < left->end && (*at == ' ' || *at == '\t'))
        at++;
    if (at == value && at < left->end && line_ends(value + value_bytes, left->end))
        left->at = value + value_bytes + 2;
}

bool left_end(const struct left *left)
{
    return left->at != NULL && left->end - left->at == 2 && line_ends(left->at, left->end);
}
