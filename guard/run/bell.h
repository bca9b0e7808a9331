/* SPDX-License-Identifier: MIT */
/*
 * bell.h - a descriptor that becomes readable when no load that has it is wanted any more. Made only if a loader asks for
 * one.
 *
 * Locking   the desk's mutex (load.h) guards all of them.
 */
#ifndef GUARD_BELL_H
#define GUARD_BELL_H

#include <stdint.h>

struct bell {
    int fd; /* an eventfd */
    uint32_t refs;
    uint32_t wanted; /* loads that have it and are wanted */
};

/* For so many loads that are wanted; the reference is the caller's. NULL: no memory or descriptor. */
struct bell *bell_new(uint32_t wanted);
/* Of a thread: for its next loads. */
void bell_again(struct bell *bell, uint32_t wanted);
/* One of them is not wanted any more, or over. */
void bell_unwanted(struct bell *bell);
/* Gives one reference back and leaves NULL. Accepts NULL in *bell. */
void bell_unref(struct bell **bell);

#endif
