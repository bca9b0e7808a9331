/* SPDX-License-Identifier: MIT */
/*
 * loop.h - the guard's part on one loop: gets are accepted, cancelled and returned; the loop's life.
 *
 * The guard's own thread has one of these for guard_get(); every loop that a host attaches has another.
 *
 * Threads   everything on the thread of the loop, except loop_return() and loop_return_change().
 * Locking   the loop's mutex guards only the lists that these fill.
 */
#pragma once

#include "state.h"

/* hooks: of the guard's own loop, link, reign and gone; their context will be the loop. NULL: of a host's. NO_MEMORY:
 * the host stays the caller's. */
enum guard_status loop_open(struct guard *guard, struct guard_host *host, const struct redis_hooks *hooks,
                            struct loop **out);
/* When the last get has been called back and nothing is left on the host, frees the loop and calls `detached`. The
 * host of one that has a name is closed, too. */
void loop_close(struct loop *loop, void (*detached)(void *context), void *context);
/* Takes the guard's side of a connection's settings; hooks and seed are the caller's. */
void loop_redis_config(struct guard *guard, struct redis_config *config);

/* Accepts it: it will be called back once. */
void loop_accept(struct loop *loop, struct get *get);
/* With the guard's mutex held. A get that is answered already stays so. */
void loop_cancel(struct loop *loop, struct get *get);
/* All that the ticket names; for the guard's own loop on any thread. With the guard's mutex held. */
void loop_cancel_ticket(struct loop *loop, guard_ticket ticket);
/* The guard's thread has answered these (a list by prev, next). */
void loop_return(struct loop *loop, struct get *list);
/* Likewise this change, which names its loop. */
void loop_return_change(struct change *change);
/* Calls `done`, and frees it; on the thread where it is to be told. */
void loop_tell_change(struct change *change);
