/* SPDX-License-Identifier: MIT */
/*
 * result_rounds.h - the bursts of a result, each from its instant on: how many had been answered, had failed, and had
 * been loaded after so many microseconds. A rate has none.
 */
#ifndef LOAD_REPORT_RESULT_ROUNDS_H
#define LOAD_REPORT_RESULT_ROUNDS_H

#include "load/report/result.h"

/* False: no memory; result_clear() has the rest. */
bool rounds_make(const struct result_source *source, struct result *out);

#endif
