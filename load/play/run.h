/* SPDX-License-Identifier: MIT */
/*
 * run.h - one run: the keys are warm, the witness looks, the herd asks, things happen; then a result.
 *
 *     warm_up() -> witness_begin() -> herd_release() -> [ herd_watch(), timeline_tick(), progress ] -> herd_end()
 *                                                                     -> witness_end() -> result_make() -> checks
 *
 * Threads: one, that of proc.h.
 */
#pragma once

#include "load/play/scenario.h"
#include "load/play/servers.h"
#include "load/report/format.h"

enum run_end {
    RUN_OVER,        /* to its end */
    RUN_REFUSED,     /* what was asked for cannot be right, the reason in `why`; *out is NULL */
    RUN_INTERRUPTED, /* *out is what there was until then, is_partial, without checks; or NULL */
    RUN_FAILED       /* could not be run, the reason in `why`; *out is NULL, or what there was, is_partial */
};

/* `variant`: "" without. *out is from malloc(), the caller's: result_clear(), free(). */
enum run_end run_once(struct servers *servers, const char *variant, const char *name, struct result **out,
                      char why[static SCENARIO_WHY_BYTES]);

/* ---- all runs of a scenario: scenario_run.c ---- */

/*
 * A scenario from its servers to its report, in all its variants.
 *
 * Servers serve all variants; where something happens to them or to their data, each variant has new ones.
 */

/* The exit status of the program, too. */
enum scenario_end {
    SCENARIO_HELD = 0,
    SCENARIO_DID_NOT_HOLD = 1, /* or, compared with a baseline, became worse */
    SCENARIO_BAD_USAGE = 2,    /* the baseline has no result of this run's name, or one of other settings */
    SCENARIO_NOT_RUN = 3,      /* servers, target, generators; or the report could not be written */
    SCENARIO_ENDED_EARLY = 130 /* Ctrl-C; what there was until then is reported */
};

/* All lent until scenario_run() returns. Paths: NULL: not wanted. */
struct scenario_outputs {
    const char *paths[FORMATS];
    const char *baseline_path;
    bool allows_different; /* the baseline may be of other settings */
    bool is_brief;         /* a few lines, and where the page is; otherwise the whole table */
    const char *command;   /* how to have it again; "" */
};

/* Says on stdout what was written. False: not everything was, and each reason is on stderr. */
bool scenario_write_report(const struct report *report, const struct scenario_outputs *outputs);

/* Prints the report on stdout, everything else on stderr, as progress_style() has it. */
enum scenario_end scenario_run(const struct scenario *scenario, const struct scenario_outputs *outputs);
