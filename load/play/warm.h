/* SPDX-License-Identifier: MIT */
/*
 * warm.h - requests, once each, for what is to be in the cache before a run begins.
 *
 * Threads: one. Errors: false, and one line in `why`; an answer below 500 is one.
 */
#ifndef LOAD_PLAY_WARM_H
#define LOAD_PLAY_WARM_H

#include "load/herd/work.h"

/* The URLs of `warm`, of the targets of `work` in turn; {each:...} is asked for each of its keys. */
bool warm_up(const struct work *warm, const struct work *work, char why[static WORK_WHY_BYTES]);

#endif
