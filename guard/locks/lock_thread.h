/* SPDX-License-Identifier: MIT */
/*
 * lock_thread.h - the locks' own thread: every event goes into the core, and what the core decides is done.
 *
 * An event is something from the mail, from the provider, or the timer. After each the core's actions are performed; once
 * per turn of the loop what it has to tell the application is told.
 *
 * Threads   start and stop: those of guard_locks_open() and guard_locks_close(); posting: any, with the mutex held.
 */
#ifndef GUARD_LOCK_THREAD_H
#define GUARD_LOCK_THREAD_H

#include "lock_state.h"

/* NULL: this build has none. */
lock_provider_open *lock_provider_opener(enum guard_lock_provider provider);

/* INVALID, NO_MEMORY. */
enum guard_status lock_thread_start(struct guard_locks *locks, struct guard_error *error);
/* Closes and waits for the end. */
void lock_thread_stop(struct guard_locks *locks, uint32_t drain_ms);

/* Whether this is the thread that runs callbacks. */
bool lock_is_own_thread(struct guard_locks *locks);

/* With the mutex held, and not once `ended`. */
void lock_mail_post(struct guard_locks *locks, struct lock_mail *mail, enum lock_mail_kind kind);

/* Frees what it has, and the locks if it was the last of them that is out. Not under the mutex. */
void lock_hold_free(struct guard_hold *hold);
void lock_one_out_less(struct guard_locks *locks);

#endif
