/* SPDX-License-Identifier: MIT */
/*
 * result_recovery.h - how long a service is not itself after a fault, under the same load: metastable failures are those
 * that stay when their cause has gone.
 *
 *     before    the requests of a rate that were due before the first fault began
 *     fault     from the begin of the first to the end of the last; in between nothing is judged
 *     after     recovery is the time from its end to the first instant of which both hold: of the requests that were due
 *               in the second behind it, and of all that came behind it, p99 is what it was
 *
 * "What it was" is twice the p99 of all before, or 5 ms more, which a busy machine adds by itself, or the p99 of the slowest
 * second before, whichever is longest. A request that failed took longer than any answer.
 *
 * Pure.
 */
#ifndef LOAD_REPORT_RESULT_RECOVERY_H
#define LOAD_REPORT_RESULT_RECOVERY_H

#include "load/report/result.h"

/* False: no memory. */
bool recovery_make(const struct result_source *source, struct result *out);

#endif
