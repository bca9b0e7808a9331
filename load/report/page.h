/* SPDX-License-Identifier: MIT */
/*
 * page.h - a report as one self-contained HTML page: no font, no picture and no script from anywhere else.
 *
 *     page.html, page.css, page_plots.js, page.js ---> embed.sh ---> page_template.h --+
 *     report ---> what report_write() writes: the element "report" -------------------+---> page_write()
 *            ---> the rows of its table, result_sheet.h, and its headline: "sheet" ---+
 *
 * The page draws itself: the headline as bars beside its words; bursts from their instants on; latency over time with
 * expiries and faults marked; queries in bins, of all results in one plot; the distribution of latency on a log scale;
 * what became of requests; the values at the pointer, and any span of them.
 * Readable on a phone (one column, nothing wider than the screen), in the dark and in print.
 *
 * Texts of a report are foreign: in the JSON no "<" is left, so that none can end its element, and the script makes
 * text of them, never markup.
 *
 * Errors: false, and the reason in `why`; an earlier page is left as it was then.
 */
#ifndef LOAD_REPORT_PAGE_H
#define LOAD_REPORT_PAGE_H

#include "load/report/result.h"

bool page_write(const struct report *report, const char *path, char why[static RESULT_WHY_BYTES]);

#endif
