/* SPDX-License-Identifier: MIT */
/*
 * lock_state.h - what the threads of locks share, grouped by which may touch it.
 *
 *   any thread                          the locks' thread
 *
 *   locks.c ----> mail, in its order -> lock_thread.c -> lock_core -> actions ----> provider
 *     ^                                    |  ^                                        |
 *     +-- callbacks (answered, lost, done) +  +---- replied, told, dropped, link ------+
 *
 * One piece of memory is a request until it is answered and, if that was with OK, a hold until it was given back: a
 * struct guard_hold. The locks' thread alone frees it, unless that thread has ended.
 *
 * Locking   one mutex. No host code is called with it held.
 * Lifetime  guard_locks_close() ends the thread. The struct itself stays for as long as a hold or an owner is out,
 *           which may be closed later.
 */
#pragma once

#include "../base/chance.h"
#include "../base/host.h"
#include "../base/process.h"
#include "../base/say.h"
#include "../base/tickets.h"
#include "lock_core.h"
#include "provider.h"
#include <pthread.h>

enum lock_mail_kind {
    LOCK_MAIL_ASK,
    LOCK_MAIL_CANCEL,
    LOCK_MAIL_GIVE,
    LOCK_MAIL_OWNER_GONE,
    LOCK_MAIL_LOOK,
};

/* In one list, so that what a thread does one after the other is done in that order. */
struct lock_mail {
    struct lock_mail *prev, *next;
    enum lock_mail_kind kind;
    bool posted; /* it is in that list */
    void *of;    /* guard_hold, guard_owner, lock_looking */
};

struct guard_hold {
    struct lock_request request; /* first; the core's until it is answered */
    struct lock_hold core;       /* the core's until it was given back */
    /* constant */
    struct guard_locks *locks;
    struct guard_owner *owner; /* lent; NULL: nobody's */
    guard_lock_answered *answered;
    void *answered_context;
    guard_lock_lost *lost;
    void *lost_context;
    /* under the mutex */
    struct lock_mail mail, cancel; /* ASK, then GIVE; CANCEL */
    guard_ticket ticket;
    bool cancelled;
    bool given; /* guard_unlock() has it */
    uint64_t given_us;
    bool told_lost;
    int lost_fd; /* -1: nobody has asked for it */
    guard_unlocked *done;
    void *done_context;

    struct lock_name names[GUARD_LOCK_NAMES_MAX]; /* point into text */
    char text[];
};

struct guard_owner {
    struct guard_locks *locks;
    struct lock_owner *core; /* the locks' thread; NULL until its first request */
    struct lock_mail mail;
};

/* guard_lock_look(), on the stack of its thread. */
struct lock_looking {
    struct lock_mail mail;
    struct guard_locks *locks;
    struct lock_name name;
    struct guard_lock_view *view;
    struct blocking *blocking;
    enum guard_lock_status status;
    struct guard_error *error; /* may be NULL */
};

/* CLOSING: everything was given back, what is not confirmed may still be. ENDING: the provider closes. */
enum lock_phase { LOCK_RUNNING, LOCK_CLOSING, LOCK_ENDING };

struct guard_locks {
    /* constant once open */
    struct guard_locks_config config; /* its texts are owned copies */
    uint8_t hash_key[16];
    struct chance_secret secret; /* of its thread's tokens, once the kernel gives no chance any more */
    unsigned forks;              /* forked_count() where it was opened */
    char who[GUARD_LOCK_WHO_BYTES];
    unsigned kinds; /* the provider's */
    struct say say;

    /* any thread, under the mutex */
    pthread_mutex_t mutex;
    struct lock_mail *mail;
    struct tickets tickets; /* of requests that wait */
    uint64_t shed;
    size_t out; /* holds, requests and owners, and 1 until the close is over */
    struct guard_locks_stats published;
    bool closing, ended;
    uint32_t drain_ms;

    /* the locks' thread */
    pthread_t thread;
    struct guard_host *host; /* owned */
    struct host_wake wake;
    struct host_timer timer, limit, beat;
    struct host_soon turn_over;
    struct lock_core *core;
    struct lock_provider *provider;
    struct lock_mail *giving; /* holds whose giving back is not told yet */
    struct lock_mail *looks;  /* not answered yet */
    enum lock_phase phase;
    bool catches_up; /* reads what has come before it looks at what is due */
    bool is_up;
    bool confirmed; /* at the end: nothing was left at the provider */
};

/* This is a child of the process that opened the locks: nothing of it but constants may be touched. */
static inline bool locks_are_forked(const struct guard_locks *locks)
{
    return locks->forks != forked_count();
}
#define LOCKS_FORKED_TEXT                                                                                    \
    "these locks were opened before fork(), in another process; open some in this process"

/*
 * ---- lock_check.c: refuses settings and requests that cannot work, with what is wrong and what would be right ----
 *
 * Pure, but for the plug-in of a provider, which is looked for.
 */

/* Without the URLs, which their provider reads. */
enum guard_status lock_check_config(const struct guard_locks_config *config, struct guard_error *error);
/* kinds: the provider's, 1u << enum guard_lock_kind. Without owner, answered and context. */
enum guard_status lock_check_request(const struct guard_lock_request *request,
                                     const struct guard_locks_config *config, unsigned kinds,
                                     struct guard_error *error);

/*
 * ---- lock_thread.c: every event goes into the core, and what the core decides is done ----
 *
 * An event is something from the mail, from the provider, or the timer. After each the core's actions are performed;
 * once per turn of the loop what it has to tell the application is told. On the locks' thread, but for posting and
 * freeing: any.
 */

/* What its loop calls; the context is the locks. */
void lock_thread_on_mail(void *context);
void lock_thread_on_timer(void *context);
void lock_thread_on_limit(void *context);
void lock_thread_on_beat(void *context);
void lock_thread_on_turn_over(void *context);
void lock_thread_on_provider_closed(void *context);
struct lock_provider_hooks lock_thread_hooks(struct guard_locks *locks);
/* lock_core_config.make_token. */
void lock_thread_make_token(void *context, uint32_t units, uint32_t limit, uint32_t lease_ms,
                            char out[LOCK_TOKEN_SIZE]);
/* The loop runs out. */
void lock_thread_ends(struct guard_locks *locks);

/* With the mutex held, and not once `ended`. */
void lock_mail_post(struct guard_locks *locks, struct lock_mail *mail, enum lock_mail_kind kind);

/* Frees what it has, and the locks if it was the last of them that is out. Not under the mutex. */
void lock_hold_free(struct guard_hold *hold);
void lock_one_out_less(struct guard_locks *locks);
