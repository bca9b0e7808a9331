/* SPDX-License-Identifier: MIT */
/*
 * keeper_look.h - the line of one name as a view: what holds it, what waits.
 *
 * A listing, then the nodes themselves, for what made them: all at once, and as many as a view has room for.
 *
 * Threads    as keeper_session.h.
 */
#ifndef GUARD_KEEPER_LOOK_H
#define GUARD_KEEPER_LOOK_H

#include "../../locks.h"
#include "keeper_session.h"

struct keeper_look;

/* `view` is lent; NULL: no answer, and why. */
typedef void keeper_looked(void *context, const struct guard_lock_view *view, const char *why);

/* Calls `looked` once, not from inside the call; the end of the session is an answer, too. `path` is the parent of
 * the nodes. NULL: no memory, or the session is not UP. */
struct keeper_look *keeper_look_start(struct keeper_session *session, const char *path, keeper_looked *looked,
                                      void *context);
/* `looked` is not called any more. */
void keeper_look_abandon(struct keeper_look *look);

#endif
