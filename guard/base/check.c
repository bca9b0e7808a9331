/* SPDX-License-Identifier: MIT */
/* check.c - see check.h. */
#include "check.h"
#include "hot.h"
#include "key.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum {
    LEASE_MAX_MS = 3600000, /* seven digits in a token */
    VALUE_MAX_MS = 2000000000,
    EARLY_MAX_PERCENT = 10000,
    NEAR_MAX_MS = 60000,
    OUTAGE_MAX_MS = 3600000,
    NEAR_LEAST_BYTES = 65536,
    PUSH_MOST_BYTES = 1048576,
    PERMITS_MOST = 100000,
    LOADS_MOST = 4096,
};

enum guard_status check_failed(struct guard_error *error, enum guard_status status, const char *format, ...)
{
    if (error == NULL)
        return status;
    va_list args;
    va_start(args, format);
    error->status = status;
    vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    return status;
}

enum guard_status check_ranges(const char *of, const struct check_range *ranges, size_t count,
                               struct guard_error *error)
{
    for (size_t i = 0; i < count; i++) {
        const struct check_range *range = &ranges[i];
        if (range->value < range->least || range->value > range->most)
            return check_failed(error, GUARD_INVALID,
                                "%s.%s is %" PRIu64 "; it must be %" PRIu64 "..%" PRIu64 "%s%s", of,
                                range->name, range->value, range->least, range->most,
                                range->why[0] != '\0' ? ": " : "", range->why);
    }
    return GUARD_OK;
}

enum guard_status check_config(const struct guard_config *config, struct guard_error *error)
{
    if (config->redis_url == NULL)
        return check_failed(error, GUARD_INVALID, "guard_config.redis_url is NULL; e.g. redis://host:6379/0");
    if (config->name_space == NULL || !key_namespace_valid(config->name_space))
        return check_failed(error, GUARD_INVALID, "guard_config.name_space must be 1..%d of [A-Za-z0-9._-]",
                            KEY_NAMESPACE_MAX);
    if (config->mode < GUARD_MODE_FLEET || config->mode > GUARD_MODE_SHADOW)
        return check_failed(error, GUARD_INVALID, "guard_config.mode %d is none of the four",
                            (int)config->mode);
    uint64_t least_permit_ms = config->load_permits > 0 ? (uint64_t)config->redis_limit_ms * 3 : 0;
    const struct check_range ranges[] = {
        {"redis_limit_ms", config->redis_limit_ms, 1, 60000, ""},
        {"connect_limit_ms", config->connect_limit_ms, 1, 60000, ""},
        {"max_loads", config->max_loads, 1, LOADS_MOST, ""},
        {"load_threads", config->load_threads, 0, config->max_loads, "at most max_loads; 0 means as many"},
        {"load_queue", config->load_queue, 0, 1000000, ""},
        {"max_waiters", config->max_waiters, 1, 10000000, ""},
        {"max_value_bytes", config->max_value_bytes, 1, CHECK_VALUE_MAX_BYTES, ""},
        {"max_lease_ms", config->max_lease_ms, 10, LEASE_MAX_MS, ""},
        {"max_value_ms", config->max_value_ms, 1, VALUE_MAX_MS, ""},
        {"near_bytes", config->near_bytes, config->near_bytes == 0 ? 0 : NEAR_LEAST_BYTES, UINT32_MAX,
         "or 0 for none"},
        {"push_bytes", config->push_bytes, 0, PUSH_MOST_BYTES,
         "every process of the namespace hears what travels with a message"},
        {"load_permits", config->load_permits, 0, PERMITS_MOST, "or 0 for no limit"},
        {"permit_ms", config->permit_ms, least_permit_ms, LEASE_MAX_MS,
         "at least three times redis_limit_ms, so that an unanswered renewal can be repeated"},
        {"hot_keys", config->hot_keys, 0, HOT_SLOTS_MAX, "or 0 for 64"},
    };
    return check_ranges("guard_config", ranges, sizeof ranges / sizeof *ranges, error);
}

/* NULL stands for a name that is made. */
static bool check_kind_name(const char *name)
{
    static const char GOOD[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
    size_t bytes = name != NULL ? strnlen(name, CHECK_KIND_NAME_MAX + 1) : 1;
    return bytes > 0 && bytes <= CHECK_KIND_NAME_MAX && (name == NULL || strspn(name, GOOD) == bytes);
}

enum guard_status check_policy(const struct guard_policy *policy, const struct guard_config *config,
                               struct guard_error *error)
{
    if (policy->loader == NULL)
        return check_failed(error, GUARD_INVALID, "guard_policy.loader is NULL; nothing could be loaded");
    if (!check_kind_name(policy->name))
        return check_failed(error, GUARD_INVALID, "guard_policy.name must be 1..%d of [a-z0-9_], or NULL",
                            CHECK_KIND_NAME_MAX);
    uint64_t least_lease_ms = (uint64_t)config->redis_limit_ms * 3;
    const struct check_range ranges[] = {
        {"fresh_ms", policy->fresh_ms, 1, config->max_value_ms, "at most the guard's max_value_ms"},
        {"fresh_ms + stale_ms", (uint64_t)policy->fresh_ms + policy->stale_ms, 1, config->max_value_ms,
         "at most the guard's max_value_ms"},
        {"absent_ms", policy->absent_ms, 1, config->max_value_ms, "at most the guard's max_value_ms"},
        {"failure_ms", policy->failure_ms, 1, config->max_lease_ms, "at most the guard's max_lease_ms"},
        {"jitter_percent", policy->jitter_percent, 0, 90, ""},
        {"lease_ms", policy->lease_ms, least_lease_ms > 10 ? least_lease_ms : 10, config->max_lease_ms,
         "at least three times redis_limit_ms, so that an unanswered renewal can be repeated"},
        {"max_hold_ms", policy->max_hold_ms, policy->lease_ms, LEASE_MAX_MS, "at least lease_ms"},
        {"load_limit_ms", policy->load_limit_ms, 1, policy->max_hold_ms, "at most max_hold_ms"},
        {"deadline_ms", policy->deadline_ms, 1, LEASE_MAX_MS, ""},
        {"soft_ms", policy->soft_ms, 0, policy->stale_ms > 0 ? policy->deadline_ms : 0,
         "at most deadline_ms, and 0 without stale_ms: there is nothing to answer with"},
        {"early_percent", policy->early_percent, 0, EARLY_MAX_PERCENT, "100 is the beta of the paper, 1"},
        {"batch_max", policy->batch_max, policy->batch_loader != NULL ? 1 : 0, GUARD_MANY_MAX, ""},
        {"near_ms", policy->near_ms, 0, config->near_bytes > 0 ? NEAR_MAX_MS : 0,
         config->near_bytes > 0 ? "its end is the bound of what other processes may see late"
                                : "guard_config.near_bytes is 0, so there is no near cache"},
        {"outage_ms", policy->outage_ms, 0, OUTAGE_MAX_MS, "or 0 for never"},
        {"loads_on", policy->loads_on, 0,
         policy->batch_loader != NULL ? GUARD_ON_THREAD : (uint64_t)GUARD_ON_CALLER,
         policy->batch_loader != NULL ? "a batch_loader runs on load threads, GUARD_ON_THREAD"
                                      : "an enum guard_loads_on"},
    };
    return check_ranges("guard_policy", ranges, sizeof ranges / sizeof *ranges, error);
}

/* Both begin with struct_size. `taken`, of `known` bytes, has the defaults; it gets what is given. */
static enum guard_status take_struct(const char *of, const void *given, void *taken, size_t least,
                                     size_t known, struct guard_error *error)
{
    size_t bytes = 0;
    if (given != NULL)
        memcpy(&bytes, given, sizeof bytes);
    if (bytes < least)
        return check_failed(error, GUARD_INVALID,
                            "guard_%s.struct_size is wrong; start from the defaults in guard.h", of);
    if (bytes > known)
        return check_failed(
            error, GUARD_INVALID,
            "guard_%s.struct_size is %zu, but this library knows %zu bytes of it; install the one "
            "that the host was built with, or a newer one",
            of, bytes, known);
    memcpy(taken, given, bytes);
    memcpy(taken, &known, sizeof known);
    return GUARD_OK;
}

enum guard_status check_given_config(const struct guard_config *given, struct guard_config *config,
                                     struct guard_error *error)
{
    *config = (struct guard_config)GUARD_CONFIG_DEFAULTS;
    enum guard_status status = take_struct(
        "config", given, config, offsetof(struct guard_config, redis_limit_ms), sizeof *config, error);
    return status == GUARD_OK ? check_config(config, error) : status;
}

enum guard_status check_given_policy(const struct guard_policy *given, struct guard_policy *policy,
                                     const struct guard_config *config, struct guard_error *error)
{
    *policy = (struct guard_policy)GUARD_POLICY_DEFAULTS;
    enum guard_status status =
        take_struct("policy", given, policy, offsetof(struct guard_policy, fresh_ms), sizeof *policy, error);
    return status == GUARD_OK ? check_policy(policy, config, error) : status;
}

size_t check_length(const char *text, size_t bytes)
{
    return bytes != 0 ? bytes : strlen(text);
}

/* What is wrong, one of these. */
struct check_texts {
    const char *missing, *empty, *nul, *too_long;
};

static const char *check_text(const char *text, size_t bytes, size_t most, const struct check_texts *wrong)
{
    if (text == NULL)
        return wrong->missing;
    if (bytes == 0 && text[0] == '\0')
        return wrong->empty;
    if (bytes > most)
        return wrong->too_long;
    if (bytes != 0)
        return memchr(text, '\0', bytes) != NULL ? wrong->nul : NULL;
    return strnlen(text, most + 1) > most ? wrong->too_long : NULL;
}

const char *check_key(const char *key, size_t bytes)
{
    static const struct check_texts wrong = {
        .missing = "the key is NULL",
        .empty = "the key is empty",
        .nul = "the key has a NUL byte within key_bytes: nothing behind it would reach the loader",
        .too_long = "the key is longer than 4096 bytes",
    };
    _Static_assert(KEY_BYTES_MAX == 4096, "as in the text");
    return check_text(key, bytes, KEY_BYTES_MAX, &wrong);
}

const char *check_tag(const char *tag, size_t bytes)
{
    static const struct check_texts wrong = {
        .missing = "the tag is NULL",
        .empty = "the tag is empty",
        .nul = "the tag has a NUL byte within tag_bytes",
        .too_long = "the tag is longer than 64 bytes",
    };
    _Static_assert(GUARD_TAG_BYTES_MAX == 64, "as in the text");
    return check_text(tag, bytes, GUARD_TAG_BYTES_MAX, &wrong);
}
