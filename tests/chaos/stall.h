/* SPDX-License-Identifier: MIT */
/*
 * stall.h - notices that a processor of this machine stood still, and writes it into the history.
 *
 * A process that runs or waits there is stopped, with its lease, its query or, where it is this one, all links of the
 * fleet, for they lead through its proxy. When that lasts for as long as a command of Redis may take, the others see
 * somebody who does not answer, and nobody has planned it. Shorter ones make no command late and are no excuse. What
 * one excuses, check.h says.
 *
 * The processors of a virtual machine stand still one by one: a watch that may run anywhere sees nothing while
 * another one is away for seconds. So each has a watch of its own.
 */
#pragma once

#include "tests/chaos/history.h"

struct stall;

/* From here on; `history` is lent until stall_end(). False: no thread. */
bool stall_begin(struct history *history, struct stall **out);
/* Leaves NULL; accepts NULL in *slot. Looks once more. */
void stall_end(struct stall **slot);

/* What each watch does: the processor that went at *last_us goes at now_us. Was that too long, it stood still. */
void stall_look(struct history *history, uint64_t *last_us, uint64_t now_us);
