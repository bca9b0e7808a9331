/* SPDX-License-Identifier: MIT */
/*
 * stall.h - notices that this process stood still, and writes it into the history.
 *
 * All links of the fleet lead through the proxy of this process. When the machine gives it no time for as long as a
 * command of Redis may take, the processes see servers that do not answer, and nobody has planned it. Shorter ones
 * make no command late and are no excuse. What one excuses, check.h says.
 */
#ifndef TESTS_CHAOS_STALL_H
#define TESTS_CHAOS_STALL_H

#include "tests/chaos/history.h"

struct stall;

/* From here on; `history` is lent until stall_end(). False: no thread. */
bool stall_begin(struct history *history, struct stall **out);
/* Leaves NULL; accepts NULL in *slot. */
void stall_end(struct stall **slot);

#endif
