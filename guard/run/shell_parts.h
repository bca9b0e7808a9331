/* SPDX-License-Identifier: MIT */
/*
 * shell_parts.h - what the files of the guard's thread know of each other. Private to shell*.c.
 *
 *   shell.c          the turn; messages, the link
 *   shell_mailbox.c  what other threads hand over
 *   shell_perform.c  what the core wants done
 *   shell_send.c     scripts on their way
 *   shell_push.c     values that came with a message
 *   shell_cache.c    what the cache is called
 *   shell_answer.c   whom it has answered
 *   shell_life.c     start and end
 *
 * Threads  the guard's, but where it says otherwise.
 */
#ifndef GUARD_SHELL_PARTS_H
#define GUARD_SHELL_PARTS_H

#include "shell.h"

/* ---- shell.c ---- */

/* After every batch of events: do what the core wants, tell whom it answered. */
void shell_after_events(struct guard *guard);
void shell_on_turn_over(uv_check_t *check);
void shell_on_message(void *context, const struct message *message);
void shell_on_resync(void *context);
void shell_on_wake_state(void *context, const char *text);

/* ---- shell_mailbox.c ---- */

void shell_on_async(uv_async_t *async);
void shell_empty_mailbox(struct guard *guard);
/* Loads that workers have ended; any thread. */
void shell_finished(void *context, struct finished_load *finished);

/* ---- shell_perform.c ---- */

void shell_perform_all(struct guard *guard);
/* The same for what only the shadow's core wants. */
void shell_perform_shadow(struct guard *guard);

/* ---- shell_send.c ---- */

/* The script of an action with an op; the core will be told. False: it could not be sent. */
bool shell_send(struct guard *guard, const struct core_action *action);

/* ---- shell_push.c ---- */

/* Answers who waits with what the message has brought. False: it is a wake-up like any other. */
bool shell_take_push(struct guard *guard, const struct message *message);

/* ---- shell_cache.c ---- */

/* False: no randomness. */
bool shell_cache_open(struct guard *guard);
/* If it is time to. */
void shell_ask_cache(struct guard *guard);
void shell_forget_cache(struct guard *guard);

/* ---- shell_answer.c ---- */

void shell_tell_answered(struct guard *guard);
void shell_tell_invalidated(struct guard *guard);
/* To its loop, with the result that it has. */
void shell_return_get(struct get *get);
void shell_end_invalidation(struct guard *guard, struct invalidation *invalidation,
                            const struct guard_invalidated *result);

/* ---- shell_life.c ---- */

/* To the next phase of the end, if it is time. */
void shell_advance_end(struct guard *guard);

#endif
