/* SPDX-License-Identifier: MIT */
/*
 * page_html.h - what the parts of the HTML share: page_html.c is the page, page_tables.c its tables, page_text.c what
 * is foreign in it.
 *
 * Every text of a report is foreign: it goes through html_text() or one of its kin, which clean and escape it. What is
 * printed otherwise is ours.
 */
#ifndef LOAD_REPORT_PAGE_HTML_H
#define LOAD_REPORT_PAGE_HTML_H

#include "load/report/page_parts.h"

struct page {
    FILE *out;
    const struct report *report;
    const struct page_plots *plots;
};

/* ---- page_text.c: at most text_bytes of a text are read ---- */
void html_text(const struct page *page, const char *text, size_t text_bytes);
/* With its line ends. */
void html_lines(const struct page *page, const char *text, size_t text_bytes);
/* An empty line ends a paragraph. */
void html_paragraphs(const struct page *page, const char *text, size_t text_bytes);
/* A result's name, and the line that it is in the plots. */
void html_name(const struct page *page, size_t index);
void html_swatch(const struct page *page, size_t index);

/* ---- page_tables.c ---- */
void html_checks(const struct page *page);
void html_sheet(const struct page *page);
void html_hot(const struct page *page);

#endif
