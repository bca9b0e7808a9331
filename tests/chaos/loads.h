/* SPDX-License-Identifier: MIT */
/*
 * loads.h - product loads as PostgreSQL's own log has them: when each began and ended, and of which row.
 *
 * A statement is logged before it runs, its parameters with it, and its duration or its error after it ran and
 * before the client can know. Times are cut to the millisecond, begin and end alike, so two loads that did not
 * run at a time are never seen to.
 */
#pragma once

#include "tests/chaos/history.h"

/*
 * Adds what began behind `mark` (a position in the file); `epoch_us`: instant 0 of the history in the log's
 * time. What the log leaves open ended when the server began anew, or at `now_us`. False: no such file.
 */
bool loads_read(struct history *history, const char *log_path, uint64_t mark, uint64_t epoch_us,
                uint64_t now_us);
