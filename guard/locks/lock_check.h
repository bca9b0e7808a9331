/* SPDX-License-Identifier: MIT */
/*
 * lock_check.h - refuses settings and requests of locks that cannot work, naming what is wrong and what would be
 * right. Pure, but for the plug-in of a provider, which is looked for.
 */
#ifndef GUARD_LOCK_CHECK_H
#define GUARD_LOCK_CHECK_H

#include "../locks.h"

/* Without the URLs, which their provider reads. */
enum guard_status lock_check_config(const struct guard_locks_config *config, struct guard_error *error);

/* kinds: the provider's, 1u << enum guard_lock_kind. Without owner, answered and context. */
enum guard_status lock_check_request(const struct guard_lock_request *request,
                                     const struct guard_locks_config *config, unsigned kinds,
                                     struct guard_error *error);

#endif
