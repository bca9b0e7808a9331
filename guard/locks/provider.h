/* SPDX-License-Identifier: MIT */
/*
 * provider.h - what locks want of a server that grants them, and what it tells them.
 *
 *     locks.c (lock_core)                                     lock_redis.c, and in folders of
 *                                                             their own redlock, postgres, zookeeper
 *     perform(action)  ------------------------------------->
 *     look(name)       ------------------------------------->
 *                      <------- replied(op), told(), dropped(), resync(), link(), looked()
 *
 * TAKE is answered soon: GRANTED, or REFUSED, which means that the token stands in line (if the action has a
 * place_ms) and is to be asked for again, unchanged, when told, when hint_ms is over, or by the poll. A provider
 * whose server queues by itself keeps a session for the token: the first TAKE begins to wait there and is answered
 * REFUSED, told() says that the server has granted it, and the TAKE that follows is GRANTED. GIVE of a token that
 * waits leaves the queue; GIVE of one that is not known is answered NOT_HELD.
 *
 * Threads    Everything on the thread of the host; a provider whose library has threads of its own crosses over by
 *            host_wake_send().
 * Once       An action that was accepted is answered by exactly one replied(), never from inside perform(); nothing
 *            is called any more once close() was, but `closed`.
 * Time       A reply's validity is counted by the core from the instant at which it made the action; a provider that
 *            sends it later only makes the lock shorter.
 */
#pragma once

#include "../base/host.h"
#include "../base/say.h"
#include "lock_core.h"

struct lock_provider_hooks {
    void *context;
    void (*replied)(void *context, uint64_t op, const struct lock_reply *reply);
    /* As lock_core_told(). */
    void (*told)(void *context, const char *uuid, const char *encoded, size_t encoded_bytes);
    void (*dropped)(void *context, const char *token, const char *why);
    void (*resync)(void *context);
    void (*link)(void *context, bool up, const char *why);
};

struct lock_provider_config {
    struct guard_host *host;                /* lent until the provider is closed, as are the others */
    const struct guard_locks_config *locks; /* checked; its texts are there as long as the locks are */
    struct say *say;
    struct lock_provider_hooks hooks;
};

/* `view` is lent; NULL: no answer, and why. */
typedef void lock_looked(void *context, const struct guard_lock_view *view, const char *why);

/* A provider begins its own struct with this one. */
struct lock_provider {
    /* facts */
    unsigned kinds;
    bool all_at_once, stays;
    /* False: no memory, or too much is under way: it is not accepted. */
    bool (*perform)(struct lock_provider *provider, const struct lock_action *action);
    /* One answer, as for an action. */
    bool (*look)(struct lock_provider *provider, const struct lock_name *name, lock_looked *looked,
                 void *context);
    /* Gives nothing back: the core has done that. Frees itself, then calls `closed`, soon. */
    void (*close)(struct lock_provider *provider, void (*closed)(void *context), void *context);
};

/* Each starts connecting. NULL, or one without `perform`, which is to be closed: the error says why (INVALID: a URL;
 * NO_MEMORY). The config itself may be gone then, what it points to is lent. */
typedef struct lock_provider *lock_provider_open(const struct lock_provider_config *config,
                                                 struct guard_error *error);
lock_provider_open lock_redis_open;
/* Each in a folder of its own that may be missing; GUARD_LOCKS_WITH_REDLOCK and so on say what is
 * built (guard.mk). */
lock_provider_open lock_redlock_open, lock_postgres_open, lock_zookeeper_open;

/* What opens it; NULL: INVALID, and the error says what is missing. */
lock_provider_open *lock_provider_find(enum guard_lock_provider provider, struct guard_error *error);
/* As texts have it: "REDIS". NULL: there is no such provider. */
const char *lock_provider_name(enum guard_lock_provider provider);

/*
 * Beside a shared library of the guard a provider that needs a client library is a plug-in, opened when it is asked
 * for: a shared object that shows this table and nothing else, and has a copy of its own of what it uses of base/.
 *
 *     /usr/lib/libstampede-guard.so.0.3
 *     /usr/lib/stampede-guard/0.3/postgres.so
 *
 * It is looked for there and nowhere else: a program with more rights than its caller must take no code from the
 * caller's folder or environment. The structs above have no version of their own, so one of another GUARD_VERSION is
 * refused.
 */
struct lock_plugin {
    const char *version; /* the first member in every version */
    lock_provider_open *open;
};
#define LOCK_PLUGIN_SYMBOL "guard_lock_plugin"
