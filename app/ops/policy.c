/* SPDX-License-Identifier: MIT */
/* policy.c - see policy.h. */
#include "app/ops/policy.h"

#include "app/base/log.h"
#include "app/ops/ops_reply.h"

#include <stdio.h>
#include <stdlib.h>

enum { CHANGES_MAX = 32, ANNOUNCE_LIMIT_MS = 5000 };
_Static_assert(CHANGES_MAX == 32, "as a refusal says");

static const struct ops_refusal UNANNOUNCED = {
    MHD_HTTP_SERVICE_UNAVAILABLE, "Nothing was changed",
    "The database was not told within 5 s that this cache may hold entries for longer. Do it again.",
    MHD_HTTP_HEADER_RETRY_AFTER, "1"};

void policy_init(struct policy *policy, const struct settings *settings)
{
    pthread_mutex_init(&policy->lock, NULL);
    policy->settings = *settings;
}

void policy_clear(struct policy *policy)
{
    pthread_mutex_destroy(&policy->lock);
}

/* ---- what is wanted ---- */

struct wanted {
    struct settings_change changes[CHANGES_MAX];
    size_t count;
    bool is_too_long;
};

static enum MHD_Result take(void *context, enum MHD_ValueKind kind, const char *name, const char *value)
{
    struct wanted *wanted = context;

    (void)kind;
    wanted->is_too_long = wanted->count == CHANGES_MAX;
    if (!wanted->is_too_long)
        wanted->changes[wanted->count++] = (struct settings_change){name, value != NULL ? value : ""};
    return wanted->is_too_long ? MHD_NO : MHD_YES;
}

static bool refuse(struct MHD_Connection *connection, const char *why)
{
    const struct ops_refusal refusal = {MHD_HTTP_BAD_REQUEST, "Nothing was changed", why, NULL, NULL};

    return ops_refuse(connection, &refusal);
}

/* False, and *why says each reason in a line, the caller's: something is wrong. */
static bool check(const struct settings *now, const struct wanted *wanted, struct settings *changed,
                  char **why)
{
    size_t bytes = 0;
    FILE *messages = open_memstream(why, &bytes);

    if (messages == NULL)
        return false;
    const bool is_right = settings_change(now, wanted->changes, wanted->count, changed, messages);
    fclose(messages);
    if (*why != NULL && bytes > 0) /* no end of line after the last one */
        (*why)[bytes - 1] = '\0';
    return is_right;
}

/* ---- changing ---- */

static json_t *tell(const struct settings *settings)
{
    json_t *told = json_object();
    const char *name = NULL;
    uint32_t value = 0;
    const size_t count = settings_changeable(settings, 0, &name, &value);

    for (size_t i = 0; i < count; i++) {
        settings_changeable(settings, i, &name, &value);
        json_object_set_new(told, name, json_integer(value));
    }
    return told;
}

static void note(const struct wanted *wanted)
{
    for (size_t i = 0; i < wanted->count; i++)
        log_line(LOG_LEVEL_INFO, "policy", "%s=%s", wanted->changes[i].name, wanted->changes[i].value);
}

/* Under the lock. */
static bool change(const struct ops_parts *parts, struct MHD_Connection *connection,
                   const struct wanted *wanted)
{
    struct policy *policy = parts->policy;
    struct settings changed;
    struct guard_error error = {.text = ""};
    char *why = NULL;

    if (!check(&policy->settings, wanted, &changed, &why)) {
        const bool queued = why != NULL && refuse(connection, why);

        free(why);
        return queued;
    }
    free(why);
    if (!cache_gate_set_life(parts->gate, &changed, ANNOUNCE_LIMIT_MS))
        return ops_refuse(connection, &UNANNOUNCED);
    if (!catalog_set_policy(parts->catalog, &policy->settings, &changed, &error))
        return refuse(connection, error.text);
    server_set_fresh_ms(parts->server, changed.policy.fresh_ms);
    policy->settings = changed;
    if (wanted->count > 0)
        note(wanted);
    return ops_send(connection, MHD_HTTP_OK, tell(&changed));
}

bool policy_answer(const struct ops_parts *parts, struct MHD_Connection *connection)
{
    struct wanted wanted = {.count = 0};

    MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, take, &wanted);
    if (wanted.is_too_long)
        return refuse(connection, "Give at most 32 settings.");
    pthread_mutex_lock(&parts->policy->lock);
    const bool queued = change(parts, connection, &wanted);
    pthread_mutex_unlock(&parts->policy->lock);
    return queued;
}
