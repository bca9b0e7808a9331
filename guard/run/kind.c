/* SPDX-License-Identifier: MIT */
/* kind.c - see kind.h. */
#include "kind.h"
#include "state.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void kind_free(struct guard_kind *kind)
{
    struct policy_version *version = kind != NULL ? atomic_load(&kind->version) : NULL;
    while (version != NULL) {
        struct policy_version *older = version->older;
        free(version);
        version = older;
    }
    free(kind);
}

/* In front of the others. False: no memory. */
static bool add_version(struct guard_kind *kind, const struct guard_policy *policy)
{
    struct policy_version *version = malloc(sizeof *version);
    if (version == NULL)
        return false;
    version->policy = *policy;
    version->policy.name = kind->name;
    version->kind = kind;
    version->older = atomic_load_explicit(&kind->version, memory_order_relaxed);
    atomic_store_explicit(&kind->version, version, memory_order_release);
    return true;
}

/* ---- adding one ---- */

/* Under the mutex. */
static enum guard_status list_kind(struct guard_kind *kind, struct guard_error *error)
{
    struct guard *guard = kind->guard;
    if (guard->kind_count == GUARD_KINDS_MAX)
        return check_failed(error, GUARD_INVALID,
                            "guard_kind_add: the guard has %d kinds already, which is all it can count",
                            GUARD_KINDS_MAX);
    kind->index = guard->kind_count;
    if (kind->name[0] == '\0')
        snprintf(kind->name, sizeof kind->name, "kind%u", kind->index);
    for (unsigned other = 0; other < guard->kind_count; other++)
        if (strcmp(guard->kinds[other]->name, kind->name) == 0)
            return check_failed(error, GUARD_INVALID,
                                "guard_kind_add: another kind of this guard is named %s already", kind->name);
    guard->kinds[guard->kind_count++] = kind;
    return GUARD_OK;
}

static struct guard_kind *new_kind(struct guard *guard, const struct guard_policy *policy)
{
    struct guard_kind *kind = calloc(1, sizeof *kind);
    if (kind == NULL)
        return NULL;
    kind->guard = guard;
    if (policy->name != NULL)
        snprintf(kind->name, sizeof kind->name, "%s", policy->name);
    if (add_version(kind, policy))
        return kind;
    free(kind);
    return NULL;
}

/* Also of a policy that is set later. */
static void say_unkept(struct guard *guard, const struct guard_policy *policy)
{
    bool has_one = guard->config.mode == GUARD_MODE_FLEET || guard->config.mode == GUARD_MODE_LOCAL;
    if (has_one && guard->near == NULL && policy->outage_ms > 0)
        say(&guard->say, SAY_CALLER, SAY_BAD,
            "guard_config.near_bytes is 0, so nothing is kept for an outage: while Redis is away answers are "
            "loaded again and again; set near_bytes, or outage_ms to 0");
}

enum guard_status guard_kind_add(struct guard *guard, const struct guard_policy *given,
                                 struct guard_kind **out, struct guard_error *error)
{
    if (is_forked(guard))
        return check_failed(error, GUARD_INVALID, "guard_kind_add: " FORKED_TEXT);
    struct guard_policy policy;
    enum guard_status status = check_given_policy(given, &policy, &guard->config, error);
    if (status != GUARD_OK)
        return status;
    struct guard_kind *kind = new_kind(guard, &policy);
    if (kind == NULL)
        return check_failed(error, GUARD_NO_MEMORY, "guard_kind_add: no memory");
    pthread_mutex_lock(&guard->mutex);
    status = list_kind(kind, error);
    pthread_mutex_unlock(&guard->mutex);
    if (status == GUARD_OK)
        *out = kind;
    else
        kind_free(kind);
    if (status == GUARD_OK)
        say_unkept(guard, &policy);
    return status;
}

/* ---- changing its policy ---- */

/* Which field is another one, though it must not be; NULL: none. */
static const char *changed_for_good(const struct guard_policy *old, const struct guard_policy *new)
{
    if (new->loader != old->loader)
        return "loader";
    if (new->batch_loader != old->batch_loader)
        return "batch_loader";
    if (new->context != old->context)
        return "context";
    if (new->tagged != old->tagged)
        return "tagged";
    if (new->needs_meta != old->needs_meta) /* what is near and kept was found under the old one */
        return "needs_meta";
    if (new->loads_on != old->loads_on)
        return "loads_on";
    return new->name != NULL &&strcmp(new->name, old->name) != 0 ? "name" : NULL;
}

_Static_assert(offsetof(struct guard_policy, batch_loader) - offsetof(struct guard_policy, fresh_ms) ==
                   12 * sizeof(uint32_t),
               "no padding: they can be compared as bytes");

/* In all that may change. */
static bool is_equal(const struct guard_policy *a, const struct guard_policy *b)
{
    size_t bytes = offsetof(struct guard_policy, batch_loader) - offsetof(struct guard_policy, fresh_ms);
    return memcmp(&a->fresh_ms, &b->fresh_ms, bytes) == 0 && a->batch_max == b->batch_max &&
           a->abandon == b->abandon && a->apart == b->apart && a->outage_ms == b->outage_ms;
}

/* Under the mutex. */
static enum guard_status change_policy(struct guard_kind *kind, const struct guard_policy *policy,
                                       struct guard_error *error)
{
    const struct guard_policy *old = kind_policy(kind);
    const char *field = changed_for_good(old, policy);
    if (field != NULL)
        return check_failed(error, GUARD_INVALID,
                            "guard_policy.%s of kind %s cannot change; begin with guard_kind_get()", field,
                            kind->name);
    if (is_equal(old, policy) || add_version(kind, policy))
        return GUARD_OK;
    return check_failed(error, GUARD_NO_MEMORY, "guard_kind_set: no memory");
}

enum guard_status guard_kind_set(struct guard_kind *kind, const struct guard_policy *given,
                                 struct guard_error *error)
{
    struct guard *guard = kind->guard;
    if (is_forked(guard))
        return check_failed(error, GUARD_INVALID, "guard_kind_set: " FORKED_TEXT);
    struct guard_policy policy;
    enum guard_status status = check_given_policy(given, &policy, &guard->config, error);
    if (status != GUARD_OK)
        return status;
    pthread_mutex_lock(&guard->mutex);
    status = change_policy(kind, &policy, error);
    pthread_mutex_unlock(&guard->mutex);
    if (status == GUARD_OK)
        say_unkept(guard, &policy);
    return status;
}

void guard_kind_read(const struct guard_kind *kind, struct guard_policy *out, size_t struct_size)
{
    struct guard_policy policy = *kind_policy(kind);
    policy.struct_size = struct_size;
    memcpy(out, &policy, struct_size < sizeof policy ? struct_size : sizeof policy);
}

const char *guard_kind_name(const struct guard_kind *kind)
{
    return kind->name;
}
