/* SPDX-License-Identifier: MIT */
/*
 * herd_limits.h - can this machine do the work? Asked before anything starts.
 *
 * Errors: false, and in `why` what is too small, and the command that changes it.
 */
#ifndef LOAD_HERD_HERD_LIMITS_H
#define LOAD_HERD_HERD_LIMITS_H

#include "load/herd/work.h"

/* Puts numbers in place of the zeros of generator_count and source_count. */
void herd_limits_choose(struct work *work);

/* Open files (the limit is raised as far as allowed), local ports, memory. */
bool herd_limits_check(const struct work *work, char why[static WORK_WHY_BYTES]);

/*
 * Does each target accept a connection, and if it says something, is it HTTP? Asks OPTIONS *, which loads nothing. One
 * that hangs up on that is asked a request of the run, if it is a GET or HEAD; then `note` says so, otherwise it is "".
 */
bool herd_probe(const struct work *work, char note[static WORK_WHY_BYTES], char why[static WORK_WHY_BYTES]);

#endif
