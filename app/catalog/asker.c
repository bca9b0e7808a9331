/* SPDX-License-Identifier: MIT */
/* asker.c - see asker.h. */
#include "app/catalog/asker.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct asker {
    _Atomic unsigned references;
    struct trace trace;
    char token[];
};

/* NULL: no token. */
static const char *find_token(const char *authorization, size_t *bytes)
{
    static const char scheme[] = "Bearer ";

    *bytes = 0;
    if (authorization == NULL || strncasecmp(authorization, scheme, sizeof(scheme) - 1) != 0)
        return NULL;
    const char *token = authorization + sizeof(scheme) - 1;
    token += strspn(token, " ");
    const char *end = token;
    while (*end > ' ' && *end <= '~')
        end++;
    *bytes = (size_t)(end - token);
    return *end == '\0' && *bytes > 0 && *bytes <= ASKER_TOKEN_MAX ? token : NULL;
}

struct asker *asker_new(const char *authorization, const struct trace *trace)
{
    size_t bytes;
    const char *token = find_token(authorization, &bytes);

    if (token == NULL && trace->request[0] == '\0' && trace->parent[0] == '\0')
        return NULL;
    bytes = token != NULL ? bytes : 0;
    struct asker *asker = malloc(sizeof(*asker) + bytes + 1);
    if (asker == NULL)
        return NULL;
    atomic_init(&asker->references, 1);
    asker->trace = *trace;
    if (bytes > 0)
        memcpy(asker->token, token, bytes);
    asker->token[bytes] = '\0';
    return asker;
}

void asker_ref(void *asker)
{
    struct asker *kept = asker;

    if (kept != NULL)
        atomic_fetch_add_explicit(&kept->references, 1, memory_order_relaxed);
}

void asker_unref(void *asker)
{
    struct asker *left = asker;

    if (left != NULL && atomic_fetch_sub_explicit(&left->references, 1, memory_order_acq_rel) == 1)
        free(left);
}

const char *asker_token(const struct asker *asker)
{
    return asker != NULL ? asker->token : "";
}

const struct trace *asker_trace(const struct asker *asker)
{
    static const struct trace none;

    return asker != NULL ? &asker->trace : &none;
}
