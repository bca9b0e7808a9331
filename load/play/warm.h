/* SPDX-License-Identifier: MIT */
/*
 * warm.h - asking for what shall be in the cache before a run begins, once each.
 *
 * Threads: one. Errors: false, and one line in `why`; an answer below 500 is one.
 */
#ifndef LOAD_PLAY_WARM_H
#define LOAD_PLAY_WARM_H

#include "load/herd/work.h"

/* The URLs of `warm`, of the targets of `work` in turn; {each:...} is asked for each of its keys. */
bool warm_up(const struct work *warm, const struct work *work, char why[static WORK_WHY_BYTES]);

#endif
