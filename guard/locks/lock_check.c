/* SPDX-License-Identifier: MIT */
/* lock_check.c - see lock_state.h. */
#include "../base/check.h"
#include "../base/key.h"
#include "lock_state.h"
#include "provider.h"
#include <stdio.h>
#include <string.h>

enum {
    LIMIT_MOST_MS = 60000,
    LOCK_LEASE_MOST_MS = 86400000, /* eight digits in a token */
    FENCE_MOST_MS = 2000000000,
    REQUESTS_MOST = 1000000,
    LIMITS_PER_LEASE = 4, /* a renewal may go unanswered, and be repeated before the warning */
    SPAN_LEAST_MS = 100,  /* of a lease or a place: timers tell milliseconds, and threads wait to run */
};

static const char *const KIND_NAMES[] = {
    [GUARD_LOCK_FAIR] = "FAIR", [GUARD_LOCK_MUTEX] = "MUTEX",     [GUARD_LOCK_WRITE] = "WRITE",
    [GUARD_LOCK_READ] = "READ", [GUARD_LOCK_PERMITS] = "PERMITS", [GUARD_LOCK_LATCH] = "LATCH",
};
enum { KINDS = sizeof KIND_NAMES / sizeof *KIND_NAMES };

/* ---- settings ---- */

static enum guard_status check_url_count(const struct guard_locks_config *config, struct guard_error *error)
{
    const char *name = lock_provider_name(config->provider);
    if (config->urls == NULL && config->provider != GUARD_LOCKS_REDIS)
        return check_failed(error, GUARD_INVALID, "guard_locks_config.urls is NULL; %s has no default", name);
    if (config->provider != GUARD_LOCKS_REDLOCK && config->url_count != 1)
        return check_failed(error, GUARD_INVALID, "guard_locks_config.url_count is %zu; %s takes one",
                            config->url_count, name);
    if (config->provider == GUARD_LOCKS_REDLOCK &&
        (config->url_count < 3 || config->url_count > 9 || config->url_count % 2 == 0))
        return check_failed(error, GUARD_INVALID,
                            "guard_locks_config.url_count is %zu; REDLOCK takes 3, 5, 7 or 9 masters",
                            config->url_count);
    return GUARD_OK;
}

/* A master that is named twice would vote twice. No URL is repeated in a text: it may hold a password. */
static enum guard_status check_urls(const struct guard_locks_config *config, struct guard_error *error)
{
    for (size_t i = 0; i < config->url_count && config->urls != NULL; i++) {
        if (config->urls[i] == NULL)
            return check_failed(error, GUARD_INVALID, "guard_locks_config.urls[%zu] is NULL", i);
        for (size_t earlier = 0; earlier < i; earlier++)
            if (strcmp(config->urls[i], config->urls[earlier]) == 0)
                return check_failed(
                    error, GUARD_INVALID,
                    "guard_locks_config.urls[%zu] and [%zu] are the same; each master votes once", earlier,
                    i);
    }
    return GUARD_OK;
}

static uint64_t least_span_ms(const struct guard_locks_config *config)
{
    uint64_t limits_ms = (uint64_t)config->limit_ms * LIMITS_PER_LEASE;
    return limits_ms > SPAN_LEAST_MS ? limits_ms : SPAN_LEAST_MS;
}

static enum guard_status check_spans(const struct guard_locks_config *config, struct guard_error *error)
{
    uint64_t least_ms = least_span_ms(config);
    const struct check_range ranges[] = {
        {"limit_ms", config->limit_ms, 1, LIMIT_MOST_MS, ""},
        {"connect_limit_ms", config->connect_limit_ms, 1, LIMIT_MOST_MS, ""},
        {"max_lease_ms", config->max_lease_ms, least_ms, LOCK_LEASE_MOST_MS,
         "at least 100 and four times limit_ms, so that an unanswered renewal can be repeated"},
        {"place_ms", config->place_ms, least_ms, LOCK_LEASE_MOST_MS,
         "at least 100 and four times limit_ms, so that a waiter can keep its place"},
        {"fence_ms", config->fence_ms, config->max_lease_ms, FENCE_MOST_MS, "at least max_lease_ms"},
        {"warn_ms", config->warn_ms, 0, config->max_lease_ms / 2,
         "at most half of max_lease_ms: a lease is renewed at a third of it"},
        {"max_requests", config->max_requests, 1, REQUESTS_MOST, ""},
    };
    return check_ranges("guard_locks_config", ranges, sizeof ranges / sizeof *ranges, error);
}

enum guard_status lock_check_config(const struct guard_locks_config *config, struct guard_error *error)
{
    if (config == NULL || config->struct_size != sizeof *config)
        return check_failed(
            error, GUARD_INVALID,
            "guard_locks_config.struct_size is wrong; start from GUARD_LOCKS_CONFIG_DEFAULTS");
    if (lock_provider_find(config->provider, error) == NULL)
        return GUARD_INVALID;
    enum guard_status status = check_url_count(config, error);
    if (status == GUARD_OK)
        status = check_urls(config, error);
    if (status != GUARD_OK)
        return status;
    if (config->name_space == NULL || !key_namespace_valid(config->name_space))
        return check_failed(error, GUARD_INVALID,
                            "guard_locks_config.name_space must be 1..%d of [A-Za-z0-9._-]",
                            KEY_NAMESPACE_MAX);
    return check_spans(config, error);
}

/* ---- requests ---- */

static enum guard_status check_names(const struct guard_lock_request *request, struct guard_error *error)
{
    if (request->names == NULL)
        return check_failed(error, GUARD_INVALID, "guard_lock_request.names is NULL");
    for (size_t i = 0; i < request->count; i++) {
        const char *name = request->names[i];
        if (name == NULL || name[0] == '\0' ||
            strnlen(name, GUARD_LOCK_NAME_BYTES_MAX + 1) > GUARD_LOCK_NAME_BYTES_MAX)
            return check_failed(error, GUARD_INVALID,
                                "guard_lock_request.names[%zu] is %s; a name has 1..%d bytes", i,
                                name == NULL      ? "NULL"
                                : name[0] == '\0' ? "empty"
                                                  : "too long",
                                GUARD_LOCK_NAME_BYTES_MAX);
        for (size_t earlier = 0; earlier < i; earlier++)
            if (strcmp(name, request->names[earlier]) == 0)
                return check_failed(error, GUARD_INVALID,
                                    "guard_lock_request.names[%zu] and [%zu] are the same", earlier, i);
    }
    return GUARD_OK;
}

static enum guard_status check_kind(const struct guard_lock_request *request,
                                    const struct guard_locks_config *config, unsigned kinds,
                                    struct guard_error *error)
{
    char known[64] = "";
    size_t length = 0;
    if ((size_t)request->kind >= KINDS)
        return check_failed(error, GUARD_INVALID, "guard_lock_request.kind %d is none of the six",
                            (int)request->kind);
    if ((kinds & 1u << request->kind) != 0)
        return GUARD_OK;
    for (size_t kind = 0; kind < KINDS; kind++)
        if ((kinds & 1u << kind) != 0)
            length += (size_t)snprintf(known + length, sizeof known - length, " %s", KIND_NAMES[kind]);
    return check_failed(error, GUARD_INVALID, "guard_lock_request.kind: %s has no %s; it has%s",
                        lock_provider_name(config->provider), KIND_NAMES[request->kind], known);
}

enum guard_status lock_check_request(const struct guard_lock_request *request,
                                     const struct guard_locks_config *config, unsigned kinds,
                                     struct guard_error *error)
{
    if (request == NULL || request->struct_size != sizeof *request)
        return check_failed(
            error, GUARD_INVALID,
            "guard_lock_request.struct_size is wrong; start from GUARD_LOCK_REQUEST_DEFAULTS");
    enum guard_status status = check_kind(request, config, kinds, error);
    if (status != GUARD_OK)
        return status;
    bool latch = request->kind == GUARD_LOCK_LATCH, counts = latch || request->kind == GUARD_LOCK_PERMITS;
    uint64_t least_ms = least_span_ms(config);
    uint64_t warned_ms = (uint64_t)config->warn_ms * 2;
    const struct check_range ranges[] = {
        {"count", request->count, 1, latch ? 1 : GUARD_LOCK_NAMES_MAX,
         latch ? "a latch has one name" : "names"},
        {"limit", counts ? request->limit : 1, 1, GUARD_LOCK_UNITS_MAX, ""},
        {"units", counts ? request->units : 1, latch ? 0 : 1,
         latch    ? 1
         : counts ? request->limit
                  : 1,
         latch ? "1: be one of the parties, 0: only wait" : "at most the limit"},
        {"lease_ms", request->lease_ms, least_ms > warned_ms ? least_ms : warned_ms, config->max_lease_ms,
         "at least 100, four times limit_ms and twice warn_ms, at most max_lease_ms of guard_locks_config"},
    };
    status = check_ranges("guard_lock_request", ranges, sizeof ranges / sizeof *ranges, error);
    return status == GUARD_OK ? check_names(request, error) : status;
}
