/* SPDX-License-Identifier: MIT */
/*
 * mailbox.h - what any thread hands to the guard's: gets, cancellations, invalidations, background refreshes,
 * finished loads. thread.c takes it out.
 *
 * Threads  any, unless it says otherwise.
 */
#pragma once

#include "state.h"
#include "workers.h"

/* Says what is wrong with a call; INVALID. */
enum guard_status request_refuse(struct guard *guard, const char *function, const char *wrong);

/* The guard's thread looks into the mailbox, and at itself. Not once the guard's thread has ended. */
void mailbox_wake(struct guard *guard);
void mailbox_post_get(struct guard *guard, struct get *get);
/* A list of them, which the guard's thread finds whole. The caller holds the guard's mutex. */
void mailbox_add_gets(struct guard *guard, struct get *list);
/* The policy's kind and the texts of a key are copied; for want of memory nothing happens. filler as in
 * core_refresh(). */
void mailbox_post_refresh(struct guard *guard, const struct get *get, const char *filler);
/* Of what is kept, which has answered for this asker. */
void mailbox_post_kept(struct guard *guard, const struct core_key *key, const struct guard_policy *policy,
                       const struct asker *asker, bool of_many);
void refresh_free(struct refresh *refresh);
/* All of one change, which the guard's thread finds whole and sends in one turn. OK, CLOSING, SHED: none is taken. */
enum guard_status mailbox_post_invalidations(struct guard *guard, struct invalidation *list);
/* Loads that are over or deferred: the desk's load_done. */
void mailbox_post_finished(void *context, struct finished_load *finished);
/* A call about a load is wrong: the desk's load_refused. */
void mailbox_refuse(void *context, const char *function, const char *wrong);
/* The caller holds the guard's mutex. */
void mailbox_post_cancel(struct guard *guard, struct get *get);
void mailbox_forget_cancel(struct guard *guard, struct get *get);
