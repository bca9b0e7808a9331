/* SPDX-License-Identifier: MIT */
/* value.c - see value.h. */
#include "value.h"
#include <stdlib.h>
#include <string.h>

struct value *value_new(const char *body, size_t body_bytes, const char *validator, size_t validator_bytes)
{
    size_t bytes = 0;
    if (__builtin_add_overflow(body_bytes, validator_bytes, &bytes) ||
        __builtin_add_overflow(bytes, sizeof(struct value) + 2, &bytes))
        return NULL;
    struct value *value = malloc(bytes);
    if (value == NULL)
        return NULL;
    char *validator_at = value->bytes + body_bytes + 1;
    if (body_bytes > 0)
        memcpy(value->bytes, body, body_bytes);
    value->bytes[body_bytes] = '\0';
    if (validator_bytes > 0)
        memcpy(validator_at, validator, validator_bytes);
    validator_at[validator_bytes] = '\0';
    value->public = (struct guard_value){value->bytes, body_bytes, validator_at};
    value->validator_bytes = validator_bytes;
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

/* A guard_value is always the head of a value, so the const of the public pointer may go. */
static struct value *value_of(const struct guard_value *public)
{
    union {
        const struct guard_value *public;
        struct value *value;
    } pun = {.public = public};
    return pun.value;
}

const struct guard_value *guard_value_ref(const struct guard_value *value)
{
    return &value_ref(value_of(value))->public;
}

void guard_value_unref(const struct guard_value **value)
{
    if (*value == NULL)
        return;
    struct value *owned = value_of(*value);
    value_unref(&owned);
    *value = NULL;
}
