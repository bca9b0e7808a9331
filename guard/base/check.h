/* SPDX-License-Identifier: MIT */
/*
 * check.h - refuses settings and arguments that cannot work, naming what is wrong and what would be right. Pure.
 */
#pragma once

#include "../guard.h"

/* No process of any namespace fills a larger body, so every one can read what another has filled. */
enum { CHECK_VALUE_MAX_BYTES = 64 << 20 };
enum { CHECK_KIND_NAME_MAX = 32 };

/* Fills `error` (may be NULL) and returns `status`. */
enum guard_status check_failed(struct guard_error *error, enum guard_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A number with its limits. */
struct check_range {
    const char *name;
    uint64_t value, least, most;
    const char *why; /* the limits are what they are; "": it is plain */
};
/* The first that is out of its limits is refused as "OF.NAME". */
enum guard_status check_ranges(const char *of, const struct check_range *ranges, size_t count,
                               struct guard_error *error);

/* What a host gives, as this library knows it: see struct_size in guard.h. Checked if that is all right. */
enum guard_status check_given_config(const struct guard_config *given, struct guard_config *config,
                                     struct guard_error *error);
enum guard_status check_given_policy(const struct guard_policy *given, struct guard_policy *policy,
                                     const struct guard_config *config, struct guard_error *error);

enum guard_status check_config(const struct guard_config *config, struct guard_error *error);
enum guard_status check_policy(const struct guard_policy *policy, const struct guard_config *config,
                               struct guard_error *error);
/* What is wrong with it; NULL: nothing. `bytes` 0: it is NUL-terminated. */
const char *check_key(const char *key, size_t bytes);
const char *check_tag(const char *tag, size_t bytes);
/* Of one that is right. */
size_t check_length(const char *text, size_t bytes);
