/* SPDX-License-Identifier: MIT */
/*
 * complain.h - what fleetlock says on stderr while it waits or holds: nothing waits for a reader that stands still,
 * because COMMAND has to end in time, and locks to be renewed. With the next line that can be written goes how many
 * could not be.
 *
 * Threads: any; also in a child, before it becomes COMMAND.
 */
#ifndef APP_FLEETLOCK_COMPLAIN_H
#define APP_FLEETLOCK_COMPLAIN_H

/* "fleetlock: TEXT" */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
