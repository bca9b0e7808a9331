/* SPDX-License-Identifier: MIT */
/*
 * defer.h - loads that are finished later, without a thread. Private to the room.
 *
 *                    its loader returned      finished
 *     on a thread ------------------> DEFERRED ----------------------------> over
 *                                        |                                    ^
 *                                        | limit, hold, abandoned             | finished, or hold_until_us:
 *                                        v                                    | CORE_FORGET
 *                                     given up by its flight, cancelled ------+
 *
 * Limit      A running loader cannot be stopped, so it is told and waited for. A deferred load is ended: at its
 *            limit its key fails, its lease is released, and a verdict that comes later says nothing.
 * Place      It keeps its place and its permit until it is finished, because until then its query may be running; at
 *            the latest until hold_until_us, because nobody may ever finish it.
 * Closing    None is waited for.
 */
#ifndef GUARD_CORE_DEFER_H
#define GUARD_CORE_DEFER_H

#include "core.h"

struct load;

void defer_begins(struct core *core, struct load *load);
/* Its flight has given it up. */
void defer_given_up(struct core *core, struct load *load);
/* Its hold limit is over. */
void defer_alarm(struct core *core, struct load *load);
/* Those that are deferred now are not waited for. */
void defer_drain(struct core *core);

#endif
