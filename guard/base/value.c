/* SPDX-License-Identifier: MIT */
/* value.c - see value.h. */
#include "value.h"
#include <stdlib.h>
#include <string.h>

/* With its NUL; returns the byte after it. */
static char *put_text(char *at, const char *text, size_t bytes)
{
    if (bytes > 0)
        memcpy(at, text, bytes);
    at[bytes] = '\0';
    return at + bytes + 1;
}

struct value *value_from(const struct value_parts *parts)
{
    size_t bytes = 0;
    if (__builtin_add_overflow(parts->body_bytes, parts->validator_bytes, &bytes) ||
        __builtin_add_overflow(bytes, parts->tags_bytes, &bytes) ||
        __builtin_add_overflow(bytes, parts->meta_bytes, &bytes) ||
        __builtin_add_overflow(bytes, sizeof(struct value) + VALUE_NULS, &bytes))
        return NULL;
    struct value *value = malloc(bytes);
    if (value == NULL)
        return NULL;
    char *validator = put_text(value->bytes, parts->body, parts->body_bytes);
    char *tags = put_text(validator, parts->validator, parts->validator_bytes);
    char *meta = put_text(tags, parts->tags, parts->tags_bytes);
    put_text(meta, parts->meta, parts->meta_bytes);
    value->public = (struct guard_value){.body = value->bytes,
                                         .body_bytes = parts->body_bytes,
                                         .validator = validator,
                                         .meta = meta,
                                         .meta_bytes = parts->meta_bytes};
    value->validator_bytes = parts->validator_bytes;
    value->tags = tags;
    value->tags_bytes = parts->tags_bytes;
    atomic_init(&value->refs, 1);
    return value;
}

struct value *value_new(const char *body, size_t body_bytes, const char *validator, size_t validator_bytes,
                        const char *tags, size_t tags_bytes)
{
    return value_from(&(struct value_parts){.body = body,
                                            .body_bytes = body_bytes,
                                            .validator = validator,
                                            .validator_bytes = validator_bytes,
                                            .tags = tags,
                                            .tags_bytes = tags_bytes});
}

struct value *value_ref(struct value *value)
{
    atomic_fetch_add_explicit(&value->refs, 1, memory_order_relaxed);
    return value;
}

void value_unref(struct value **value)
{
    if (*value != NULL && atomic_fetch_sub_explicit(&(*value)->refs, 1, memory_order_acq_rel) == 1)
        free(*value);
    *value = NULL;
}

/* The const of the public pointer may go: what it points to was made here. */
struct value *value_behind(const struct guard_value *public)
{
    union {
        const struct guard_value *public;
        struct value *value;
    } pun = {.public = public};
    return pun.value;
}

const struct guard_value *guard_value_ref(const struct guard_value *value)
{
    return &value_ref(value_behind(value))->public;
}

void guard_value_unref(const struct guard_value **value)
{
    if (*value == NULL)
        return;
    struct value *owned = value_behind(*value);
    value_unref(&owned);
    *value = NULL;
}
