/* SPDX-License-Identifier: MIT */
/* gate.c - see gate.h. */
#include "load/ground/gate.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { FORBIDDEN = 403, UNAUTHORIZED = 401, UNSUPPORTED = 415 };

static const char *const names[] = {"127.0.0.1", "localhost", "[::1]"};

static bool is_our_host(const char *host, uint16_t port)
{
    char ours[32];
    for (size_t i = 0; host != NULL && i < sizeof names / sizeof *names; i++) {
        snprintf(ours, sizeof ours, "%s:%u", names[i], (unsigned)port);
        if (strcasecmp(host, ours) == 0)
            return true;
    }
    return false;
}

static bool is_our_origin(const char *origin, uint16_t port)
{
    static const char scheme[] = "http://";
    return strncmp(origin, scheme, strlen(scheme)) == 0 && is_our_host(origin + strlen(scheme), port);
}

/* Takes as long for every text of the right length. */
static bool is_token(const char *authorization, const char *token)
{
    static const char scheme[] = "Bearer ";
    unsigned char wrong = 0;
    if (authorization == NULL || strncmp(authorization, scheme, strlen(scheme)) != 0)
        return false;
    const char *said = authorization + strlen(scheme);
    size_t count = strlen(token);
    if (strlen(said) != count)
        return false;
    for (size_t i = 0; i < count; i++)
        wrong |= (unsigned char)(said[i] ^ token[i]);
    return wrong == 0;
}

static bool is_json(const char *content_type)
{
    static const char json[] = "application/json";
    size_t count = strlen(json);
    return content_type != NULL && strncasecmp(content_type, json, count) == 0 &&
           (content_type[count] == '\0' || content_type[count] == ';' || content_type[count] == ' ');
}

unsigned gate_judge(enum gate_wish wish, const struct gate_request *request, uint16_t port, const char *token,
                    const char **why)
{
    const char *origin = request->origin;
    if (!is_our_host(request->host, port)) {
        *why = "This Host is not the playground's: open the address that was printed.";
        return FORBIDDEN;
    }
    if (wish == GATE_PAGE)
        return 0;
    if (origin != NULL ? !is_our_origin(origin, port) : wish == GATE_BUTTON) {
        *why = "Another page sent this: only the playground's own may press its buttons.";
        return FORBIDDEN;
    }
    if (!is_token(request->authorization, token)) {
        *why = "The token is missing or wrong: open the address that was printed, with all that stands "
               "behind its #.";
        return UNAUTHORIZED;
    }
    if (wish == GATE_BUTTON && !is_json(request->content_type)) {
        *why = "Content-Type must be application/json.";
        return UNSUPPORTED;
    }
    return 0;
}
