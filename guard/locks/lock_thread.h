/* SPDX-License-Identifier: MIT */
/*
 * lock_thread.h - the locks' own thread: every event goes into the core, and what the core decides is done.
 *
 * An event is something from the mail, from the provider, or the timer. After each the core's actions are performed; once
 * per turn of the loop what it has to tell the application is told.
 *
 * Threads   the locks', but for posting and freeing: any.
 */
#ifndef GUARD_LOCK_THREAD_H
#define GUARD_LOCK_THREAD_H

#include "lock_state.h"

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

#endif
