/* SPDX-License-Identifier: MIT */
/*
 * errands.h - statements and POSTs of a scenario, one after the other, by a thread of their own: a database that hangs
 * holds up the next statement, but neither the faults nor the clock of a run.
 *
 * Threads: all functions from one.
 */
#ifndef LOAD_PLAY_ERRANDS_H
#define LOAD_PLAY_ERRANDS_H

#include "load/play/servers.h"

enum { ERRANDS_MAX = 2 * SCENARIO_EVENTS_MAX };

struct errands;

/* NULL: no memory or thread. `servers` is lent until errands_end(). */
struct errands *errands_begin(const struct servers *servers);
/* SCENARIO_SQL or SCENARIO_POST; the action is lent until errands_end(). False: too many. */
bool errands_add(struct errands *errands, const struct scenario_action *action, size_t tag);
/* One that failed since, by its tag. *open counts those that are not over. */
bool errands_poll(struct errands *errands, size_t *tag, size_t *open, char why[static SCENARIO_WHY_BYTES]);
/* Ends after the one under way, at most 5 s later. Leaves NULL and accepts it. */
void errands_end(struct errands **errands);

#endif
