/* SPDX-License-Identifier: MIT */
/*
 * run.h - one run: the keys are warm, the witness looks, the herd asks, things happen; then a result.
 *
 *     warm_up() -> witness_begin() -> herd_release() -> [ herd_watch(), timeline_tick(), progress ] -> herd_end()
 *                                                                     -> witness_end() -> result_make() -> checks
 *
 * Threads: one, that of proc.h.
 */
#ifndef LOAD_PLAY_RUN_H
#define LOAD_PLAY_RUN_H

#include "load/play/scenario.h"
#include "load/play/servers.h"

enum run_end {
    RUN_OVER,        /* to its end */
    RUN_INTERRUPTED, /* *out is what there was until then, is_partial, without checks; or NULL */
    RUN_FAILED       /* could not be run, the reason in `why`; *out is NULL, or what there was, is_partial */
};

/* `variant`: "" without. *out is from malloc(), the caller's: result_clear(), free(). */
enum run_end run_once(struct servers *servers, const char *variant, const char *name, struct result **out,
                      char why[static SCENARIO_WHY_BYTES]);

#endif
