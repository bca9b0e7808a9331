/* SPDX-License-Identifier: MIT */
/*
 * drops.h - which actions of a scenario make values be loaded again.
 *
 *     redis flush, kill, start, restart   all values: a private Redis keeps nothing
 *     post, invalidate                    of the key in "key=", or in a URL that begins with one that was asked for;
 *                                         otherwise of all
 *     run "COMMAND"                       of all, if it has a word like flushall, del, purge or invalidate
 *
 * No I/O. Threads: any.
 */
#ifndef LOAD_PLAY_DROPS_H
#define LOAD_PLAY_DROPS_H

#include "load/play/scenario.h"

/* False: no value is dropped by it. *out has no instant. */
bool drops_values(const struct scenario_action *action, const struct work *work, struct result_drop *out);

#endif
