/* SPDX-License-Identifier: MIT */
/* strict.c - see strict.h. */
#include "app/http/strict.h"

#include <string.h>

/* ---- what 0.9.75 leaves behind ---- */

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

#if MHD_VERSION >= 0x00097701
enum { IS_TOLERANT = false };

static const struct MHD_OptionItem OPTIONS[] = {{MHD_OPTION_CLIENT_DISCIPLINE_LVL, 1, NULL},
                                                {MHD_OPTION_END, 0, NULL}};
#else
enum { IS_TOLERANT = true };

static const struct MHD_OptionItem OPTIONS[] = {{MHD_OPTION_END, 0, NULL}};
#endif

const struct MHD_OptionItem *strict_options(void)
{
    return OPTIONS;
}

struct walk {
    struct head *head;
    struct left left; /* if it IS_TOLERANT */
};

static bool line_is_sound(const struct strict_line *line)
{
    const size_t method_bytes = strlen(line->method);

    if (!head_is_token(line->method, method_bytes) || line->uri_end == NULL)
        return false;
    return !IS_TOLERANT ||
           (line->uri == line->method + method_bytes + 1 && line->version == line->uri_end + 1);
}

static void begin_left(struct left *left, struct MHD_Connection *connection, const struct strict_line *line)
{
    const size_t head_bytes =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE)->header_size;
    const char *from = line->version + sizeof(MHD_HTTP_VERSION_1_1) - 1;

    left_begin(left, from, (size_t)(line->method + head_bytes - from));
}

static enum MHD_Result judge(void *context, enum MHD_ValueKind kind, const char *name, size_t name_bytes,
                             const char *value, size_t value_bytes)
{
    struct walk *walk = context;

    (void)kind;
    head_field(walk->head, name, name_bytes, value, value_bytes);
    if (IS_TOLERANT)
        left_field(&walk->left, name, name_bytes, value, value_bytes);
    return MHD_YES;
}

bool strict_head(struct MHD_Connection *connection, const struct strict_line *line, struct head *out)
{
    struct walk walk = {.head = out};

    *out = (struct head){.is_wrong = !line_is_sound(line)};
    if (out->is_wrong)
        return false;
    if (IS_TOLERANT)
        begin_left(&walk.left, connection, line);
    MHD_get_connection_values_n(connection, MHD_HEADER_KIND, judge, &walk);
    return !out->is_wrong && (!IS_TOLERANT || left_end(&walk.left));
}
