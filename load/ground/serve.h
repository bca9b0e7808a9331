/* SPDX-License-Identifier: MIT */
/*
 * serve.h - the playground, until Ctrl-C: two catalogd over private servers, a page to send crowds and break things
 * with, and lines for a shell.
 *
 * Every setting of catalogd but the addresses may be given in the environment. See state.h for what it consists of.
 *
 * Threads: from that of proc.h.
 */
#pragma once

#include <stdint.h>

/* `port` of the page; 0: a free one. Returns only when something could not be started or did not come back: exit
 * status 3. */
int serve(uint32_t product_count, uint32_t port);
