/* SPDX-License-Identifier: MIT */
/* left_head.c - get_next_header_line(), process_header_line() and process_broken_line() of its connection.c. */
#include "tests/support/left_head.h"

#include "app/http/strict.h"

#include <stdlib.h>
#include <string.h>

struct line {
    char *name, *value;
};

/* NULL: there is no whole line any more. */
static char *next_line(char *text, size_t bytes, size_t *at)
{
    char *line = text + *at, *feed = *at < bytes ? memchr(line, '\n', bytes - *at) : NULL;
    if (feed == NULL)
        return NULL;
    if (feed > line && feed[-1] == '\r')
        feed[-1] = '\0';
    *feed = '\0';
    *at = (size_t)(feed + 1 - text);
    return line;
}

static bool split(char *line, struct line *out)
{
    char *colon = strchr(line, ':');
    if (colon == NULL)
        return false;
    *colon = '\0';
    *out = (struct line){.name = line, .value = colon + 1 + strspn(colon + 1, " \t")};
    return true;
}

/* Moved to make it longer, which leaves zeros; where to is all one. */
static void fold(struct line *line)
{
    static char elsewhere[] = "moved";
    if (line->name != elsewhere)
        memset(line->name, 0, strlen(line->name) + 1);
    line->name = elsewhere;
}

static bool leave(char *text, size_t bytes, size_t *end, struct line *lines, size_t *count)
{
    char *line = next_line(text, bytes, end); /* the end of the request line */
    bool right = line != NULL && line[0] == '\0';
    while (right && (line = next_line(text, bytes, end)) != NULL && line[0] != '\0') {
        if (*count > 0 && (line[0] == ' ' || line[0] == '\t'))
            fold(&lines[*count - 1]);
        else
            right = split(line, &lines[(*count)++]);
    }
    return right && line != NULL;
}

bool left_head(char *text, size_t bytes, size_t *end, struct head *out, bool *sound)
{
    struct line *lines = calloc(bytes + 1, sizeof *lines);
    size_t count = 0;
    *end = 0;
    bool whole = lines != NULL && leave(text, bytes, end, lines, &count);
    if (whole) {
        struct left left;
        *out = (struct head){.is_wrong = false};
        left_begin(&left, text, *end);
        for (size_t i = 0; i < count; i++) {
            size_t name_bytes = strlen(lines[i].name), value_bytes = strlen(lines[i].value);
            head_field(out, lines[i].name, name_bytes, lines[i].value, value_bytes);
            left_field(&left, lines[i].name, name_bytes, lines[i].value, value_bytes);
        }
        *sound = !out->is_wrong && left_end(&left);
    }
    free(lines);
    return whole;
}
