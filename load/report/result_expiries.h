/* SPDX-License-Identifier: MIT */
/*
 * result_expiries.h - the database's and Redis's side of a result: loads, the expiries that asked for them, and their
 * marks. result.h says what an expiry is.
 */
#ifndef LOAD_REPORT_RESULT_EXPIRIES_H
#define LOAD_REPORT_RESULT_EXPIRIES_H

#include "load/report/result.h"

/* *out is zeroed before. False: no memory; result_clear() has the rest. */
bool expiries_make(const struct result_source *source, struct result *out);

#endif
