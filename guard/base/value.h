/* SPDX-License-Identifier: MIT */
/*
 * value.h - the private half of struct guard_value: one allocation, counted references, never changed.
 * Any thread.
 */
#pragma once

#include "../guard.h"
#include <stdatomic.h>

enum { VALUE_NULS = 4 };

struct value {
    struct guard_value public; /* first: a guard_value pointer is a value pointer */
    atomic_uint refs;
    size_t validator_bytes;
    const char *tags; /* as in tags.h; "": none */
    size_t tags_bytes;
    char bytes[]; /* body, validator, tags and meta, a NUL behind each */
};

/* What it is made of. Each may be NULL if it has none; an absent entry has no more than its tags. */
struct value_parts {
    const char *body, *validator, *tags, *meta;
    size_t body_bytes, validator_bytes, tags_bytes, meta_bytes;
};

/* Copies all; one reference is the caller's. NULL: no memory. */
struct value *value_from(const struct value_parts *parts);
/* Without meta. */
struct value *value_new(const char *body, size_t body_bytes, const char *validator, size_t validator_bytes,
                        const char *tags, size_t tags_bytes);
/* A guard_value is always the head of a value: this one. NULL: NULL. */
struct value *value_behind(const struct guard_value *public);
struct value *value_ref(struct value *value);
/* Leaves NULL; accepts NULL in *value. */
void value_unref(struct value **value);
