/* SPDX-License-Identifier: MIT */
/*
 * interrupt.h - Ctrl-C in the middle: the first one is a wish, the second one an order.
 *
 * After interrupt_catch() the first SIGINT, SIGTERM or SIGHUP only sets a flag, so that what was measured until then
 * can still be told; the second one ends the program at once, as proc_clean_on_signals() has it: everything that was
 * started is gone before.
 *
 * Threads: any.
 */
#pragma once

#include <stdbool.h>

void interrupt_catch(void);
bool interrupt_seen(void);
