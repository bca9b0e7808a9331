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

struct value *value_new(const char *body, size_t body_bytes, const char *validator, size_t validator_bytes,
                        const char *tags, size_t tags_bytes)
{
    size_t bytes = 0;
    if (__builtin_add_overflow(body_bytes, validator_bytes, &bytes) ||
        __builtin_add_overflow(bytes, tags_bytes, &bytes) ||
        __builtin_add_overflow(bytes, sizeof(struct value) + 3, &bytes))
        return NULL;
    struct value *value = malloc(bytes);
    if (value == NULL)
        return NULL;
    char *validator_at = put_text(value->bytes, body, body_bytes);
    char *tags_at = put_text(validator_at, validator, validator_bytes);
    put_text(tags_at, tags, tags_bytes);
    value->public = (struct guard_value){value->bytes, body_bytes, validator_at};
    value->validator_bytes = validator_bytes;
    value->tags = tags_at;
    value->tags_bytes = tags_bytes;
    atomic_init(&value->refs, 1);
    return value;
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
