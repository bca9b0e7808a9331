/* SPDX-License-Identifier: MIT */
/*
 * shell_parts.h - what the files of the guard's thread know of each other. Private to shell*.c.
 *
 *   shell.c          the turn; messages, the link
 *   shell_mailbox.c  what other threads hand over
 *   shell_perform.c  what the core wants done
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
