/* SPDX-License-Identifier: MIT */
/*
 * descriptor.h - no descriptor of the guard's is 0, 1 or 2. A host may have closed those: what it or a library prints would
 * go into a connection to Redis, and libuv aborts when it closes one of them.
 *
 * Threads  any.
 */
#ifndef GUARD_DESCRIPTOR_H
#define GUARD_DESCRIPTOR_H

/* The descriptor, or another one of the same in its place; -1, and errno: it was -1, or there is no other. */
int descriptor_not_standard(int fd);

#endif
