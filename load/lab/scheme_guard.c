/* SPDX-License-Identifier: MIT */
/*
 * scheme_guard.c - (7) ours: the module in guard/ by its public header, as any backend uses it.
 *
 * The lock, the waiting, the fill and the release are the module's; the lab sees what the loader sees. Its
 * last step before the lock goes is therefore the end of the loader: fill and release are one script.
 */
#include "load/lab/scheme.h"

#include "guard/guard.h"
#include "load/base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONNECT_LIMIT_MS = 5000, INVALIDATE_LIMIT_MS = 1000, DRAIN_MS = 100 };

struct lab_state {
    struct guard *guard;
    struct guard_kind *rows;
};

static void load_row(struct guard_load *load, void *context)
{
    struct lab_client *client = context;
    char body[LAB_NAME_BYTES];
    lab_took(client);
    lab_step(client, STEP_HELD);
    int32_t version = lab_load(client);
    lab_step(client, STEP_LOADED);
    lab_body(client->key, version, body, sizeof body);
    lab_gave(client);
    lab_step(client, STEP_RELEASING);
    guard_load_done(load, body, strlen(body), NULL);
}

static bool open_guard(struct lab_client *client, struct lab_state *state)
{
    struct guard_config config = GUARD_CONFIG_DEFAULTS;
    struct guard_policy policy = GUARD_POLICY_DEFAULTS;
    struct guard_error error;
    char url[64];
    snprintf(url, sizeof url, "redis://127.0.0.1:%u/0", (unsigned)client->redis_port);
    config.redis_url = url;
    config.name_space = "lab";
    config.log = guard_log_none; /* its Redis is taken away on purpose */
    config.max_loads = 1;        /* a prefork worker has one connection to PostgreSQL */
    policy.loader = load_row;
    policy.context = client;
    policy.fresh_ms = LAB_VALUE_S * 1000;
    policy.lease_ms = client->lease_s * 1000;
    policy.load_limit_ms = LAB_REQUEST_LIMIT_MS;
    policy.max_hold_ms = LAB_REQUEST_LIMIT_MS;
    policy.deadline_ms = LAB_REQUEST_LIMIT_MS;
    if (guard_open(&config, &state->guard, &error) == GUARD_OK &&
        guard_kind_add(state->guard, &policy, &state->rows, &error) == GUARD_OK)
        return true;
    fprintf(stderr, "lab: guard: %s\n", error.text);
    return false;
}

/* A guard works without its Redis, too; a trial begins with both connections up. */
static bool wait_connected(struct guard *guard)
{
    struct guard_stats stats;
    for (uint64_t end_us = clock_after_ms(CONNECT_LIMIT_MS); clock_us() < end_us; clock_pause_ms(1)) {
        guard_stats(guard, &stats);
        if (stats.redis_state == GUARD_REDIS_UP && stats.wake_state == GUARD_REDIS_UP)
            return true;
    }
    fprintf(stderr, "lab: guard: not connected to Redis after %d ms\n", (int)CONNECT_LIMIT_MS);
    return false;
}

static bool begin(struct lab_client *client)
{
    client->state = calloc(1, sizeof *client->state);
    return client->state != NULL && open_guard(client, client->state) && wait_connected(client->state->guard);
}

static void end(struct lab_client *client)
{
    guard_close(&client->state->guard, DRAIN_MS);
    free(client->state);
    client->state = NULL;
}

static int32_t get(struct lab_client *client)
{
    struct guard_result result;
    int32_t version = LAB_FAILED;
    const struct guard_request request = {.kind = client->state->rows, .key = client->key};
    if (guard_get_wait(client->state->guard, &request, &result) == GUARD_OK)
        version = lab_body_version(result.value->body, result.value->body_bytes);
    guard_value_unref(&result.value);
    return version;
}

static bool invalidate(struct lab_client *client)
{
    struct guard_invalidated result;
    return guard_invalidate_wait(
               client->state->guard,
               &(const struct guard_change){.key = client->key, .deadline_ms = INVALIDATE_LIMIT_MS},
               &result) == GUARD_OK;
}

const struct scheme schemes_guard[] = {
    {"7", "guard", "ours: lease, renewal, wake-up, fenced fill", "guard/README.md", .groups = GROUP_CACHE,
     .value_prefix = "csg1:{lab:", .value_suffix = "}:v", .lock_prefix = "csg1:{lab:", .lock_suffix = "}:l",
     .is_ours = true, .open = begin, .close = end, .get = get, .invalidate = invalidate},
    {.name = NULL},
};
