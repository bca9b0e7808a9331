/* SPDX-License-Identifier: MIT */
/* revalidate.c - see revalidate.h. */
#include "app/http/revalidate.h"

#include <string.h>
#include <strings.h>

bool revalidate_is_asked(const char *cache_control)
{
    static const char directive[] = "no-cache";
    const size_t bytes = sizeof(directive) - 1;

    for (const char *at = cache_control; *at != '\0';) {
        at += strspn(at, ", \t");
        const size_t length = strcspn(at, ", \t");

        if (length == bytes && strncasecmp(at, directive, bytes) == 0)
            return true;
        at += length;
    }
    return false;
}

static enum MHD_Result look(void *context, enum MHD_ValueKind kind, const char *name, const char *value)
{
    bool *is_asked = context;

    (void)kind;
    if (value != NULL && strcasecmp(name, MHD_HTTP_HEADER_CACHE_CONTROL) == 0)
        *is_asked = *is_asked || revalidate_is_asked(value);
    return MHD_YES;
}

bool revalidate_wanted(struct MHD_Connection *connection, const struct token *token)
{
    bool is_asked = false;

    if (!token->required)
        return false;
    const char *given = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Revalidate-Token");
    if (given == NULL || !token_matches(token, given))
        return false;
    MHD_get_connection_values(connection, MHD_HEADER_KIND, look, &is_asked);
    return is_asked;
}
