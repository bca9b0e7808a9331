/* SPDX-License-Identifier: MIT */
/*
 * value.h - the private half of struct guard_value: one allocation, counted references, never changed.
 * Any thread.
 */
#ifndef GUARD_VALUE_H
#define GUARD_VALUE_H

#include "../guard.h"
#include <stdatomic.h>

struct value {
    struct guard_value public; /* first: a guard_value pointer is a value pointer */
    atomic_uint refs;
    size_t validator_bytes;
    const char *tags; /* as in tags.h; "": none */
    size_t tags_bytes;
    char bytes[]; /* body, NUL, validator, NUL, tags, NUL */
};

/* Copies all three; one reference is the caller's. tags: NULL if it has none; an absent entry has nothing else.
 * Returns NULL without memory. */
struct value *value_new(const char *body, size_t body_bytes, const char *validator, size_t validator_bytes,
                        const char *tags, size_t tags_bytes);
/* A guard_value is always the head of a value: this one. NULL: NULL. */
struct value *value_behind(const struct guard_value *public);
struct value *value_ref(struct value *value);
/* Leaves NULL; accepts NULL in *value. */
void value_unref(struct value **value);

#endif
