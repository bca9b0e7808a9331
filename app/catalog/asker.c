/* SPDX-License-Identifier: MIT */
/* asker.c - see asker.h. */
#include "app/catalog/asker.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct asker {
    _Atomic unsigned references;
    char token[];
};

struct asker *asker_new(const char *authorization)
{
    static const char scheme[] = "Bearer ";

    if (authorization == NULL || strncasecmp(authorization, scheme, sizeof(scheme) - 1) != 0)
        return NULL;
    const char *token = authorization + sizeof(scheme) - 1;
    token += strspn(token, " ");
    const char *end = token;
    while (*end > ' ' && *end <= '~')
        end++;
    const size_t bytes = (size_t)(end - token);
    if (*end != '\0' || bytes == 0 || bytes > ASKER_TOKEN_MAX)
        return NULL;
    struct asker *asker = malloc(sizeof(*asker) + bytes + 1);
    if (asker == NULL)
        return NULL;
    atomic_init(&asker->references, 1);
    memcpy(asker->token, token, bytes + 1);
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
