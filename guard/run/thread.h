/* SPDX-License-Identifier: MIT */
/*
 * thread.h - the guard's thread: every event goes into the core, and what the core decides is done.
 *
 * An event is something from the mailbox, a reply, a message, the timer or the state of the connection. After each
 * thread_after_events() performs the core's actions, publishes the counters, returns what was answered and sets the
 * timer; life.c says which event calls what.
 *
 * Threads  the guard's.
 */
#pragma once

#include "state.h"

enum { STUCK_LOADER_MS = 5000 }; /* a loader has this long to notice its cancellation */

void thread_on_mail(void *guard);
void thread_on_timer(void *guard);
void thread_on_limit(void *guard);
void thread_on_turn_over(void *guard);
void thread_on_message(void *context, const char *payload, size_t payload_bytes);
void thread_on_resync(void *context);
void thread_on_wake_state(void *context, const char *text);
void thread_on_touched(void *context, uint64_t sent_us);
void thread_on_link(void *loop, unsigned shard, bool up);
void thread_on_reign(void *loop, unsigned shard);
void thread_on_gone(void *loop, unsigned shard);
/* While a breaker is open: the hits that loops have had since. */
void thread_on_heard(struct guard *guard);
void thread_on_state(struct guard *guard);

/* core_config.kind_of. */
unsigned thread_kind_of(void *context, const struct guard_policy *policy);
/* core_config.make_token; the context is the guard. */
void thread_make_token(void *context, uint32_t lease_ms, char token[TOKEN_SIZE]);
/* Closes every handle: the loop runs out when the last one is closed. */
void thread_close_everything(struct guard *guard);

/* ---- from its start to its end: life.c, on the threads of guard_open() and guard_close() ---- */

/* Starts the thread. NO_MEMORY; INVALID: what the URL asks for cannot be had. */
enum guard_status life_start(struct guard *guard, const struct redis_url *url, struct guard_error *error);
/* Drains, ends the thread and waits for it. False: a loader did not end and must keep the memory. */
bool life_stop(struct guard *guard, uint32_t drain_ms);
