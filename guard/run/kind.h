/* SPDX-License-Identifier: MIT */
/*
 * kind.h - the kinds of a guard and their policies, which may change while it runs.
 *
 *     guard_kind_set() -> a version in front of the others -> what begins from here on has it
 *
 * A version never changes, and stays until the guard is freed: a request, a flight or a load that began with one
 * keeps a pointer to it. Every policy that the core is given is one of these.
 *
 * Locking   the guard's mutex for changes. Reading takes none.
 */
#pragma once

#include "../base/check.h"
#include <stdatomic.h>

struct policy_version {
    struct guard_policy policy; /* first: a policy is a version */
    const struct guard_kind *kind;
    struct policy_version *older; /* owned */
};

struct guard_kind {
    struct guard *guard;
    unsigned index; /* below GUARD_KINDS_MAX, in the order in which they were added */
    char name[CHECK_KIND_NAME_MAX + 1];
    struct policy_version *_Atomic version; /* owned: the newest */
    _Atomic uint64_t shed;                  /* gets refused before they were accepted */
    _Atomic uint64_t kept;                  /* answered at once in place of Redis */
    /* under the guard's mutex: what the core counts of it, and what loops have that are gone */
    struct guard_stats published, past;
};

/* As it is now. */
static inline const struct guard_policy *kind_policy(const struct guard_kind *kind)
{
    return &atomic_load_explicit(&kind->version, memory_order_acquire)->policy;
}

/* Of a version's policy. */
static inline const struct guard_kind *policy_kind(const struct guard_policy *policy)
{
    return ((const struct policy_version *)(const void *)policy)->kind;
}

/* NULL: nothing to free. */
void kind_free(struct guard_kind *kind);
