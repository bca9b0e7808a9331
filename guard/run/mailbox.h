/* SPDX-License-Identifier: MIT */
/*
 * mailbox.h - what any thread hands to the guard's: gets, cancellations, invalidations, background refreshes, finished
 * loads. thread.c takes it out.
 *
 * A request is checked, becomes a get with a ticket, and waits here, or (on a host's loop) is looked up first.
 *
 * Threads  any, unless it says otherwise.
 */
#ifndef GUARD_MAILBOX_H
#define GUARD_MAILBOX_H

#include "state.h"
#include "workers.h"

/* ---- requests ---- */

/* What is wrong with asking for the key; NULL: nothing. */
const char *request_wrong(const struct guard *guard, const struct guard_kind *kind, const char *key);
/* Says what is wrong with a call; INVALID. */
enum guard_status request_refuse(struct guard *guard, const char *function, const char *wrong);

/* A new get for this loop, of a request that was checked, with its key copied; no list has it yet. NO_MEMORY. */
enum guard_status mailbox_new_get(struct guard_loop *loop, const struct guard_request *request,
                                  struct get **out);
/* On the thread of the loop; for the guard's own under the guard's mutex. OK, SHED, NO_MEMORY. */
enum guard_status mailbox_take_ticket(struct guard_loop *loop, struct get *get);

/* A load whose loader makes a request: nested, until the load's own deadline at most. */
struct parent_load {
    uint64_t load, deadline_us;
};

/* guard_get() of a request that was checked. parent NULL: it comes from no loader. */
enum guard_status mailbox_get(struct guard *guard, const struct guard_request *request,
                              const struct parent_load *parent, guard_ticket *ticket);

/* ---- posting ---- */

/* The guard's thread looks into the mailbox, and at itself. Not once the guard's thread has ended. */
void mailbox_wake(struct guard *guard);
void mailbox_post_get(struct guard *guard, struct get *get);
/* A list of them, which the guard's thread finds whole. The caller holds the guard's mutex. */
void mailbox_add_gets(struct guard *guard, struct get *list);
/* The policy's kind and the texts of a key are copied; for want of memory nothing happens. filler as in
 * core_refresh(). */
void mailbox_post_refresh(struct guard *guard, const struct get *get, const char *filler);
/* OK, CLOSING, SHED. */
enum guard_status mailbox_post_invalidation(struct guard *guard, struct invalidation *invalidation);
/* Loads that are over or deferred: the desk's load_done. */
void mailbox_post_finished(void *context, struct finished_load *finished);
/* The caller holds the guard's mutex. */
void mailbox_post_cancel(struct guard *guard, struct get *get);
void mailbox_forget_cancel(struct guard *guard, struct get *get);

#endif
