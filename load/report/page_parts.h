/* SPDX-License-Identifier: MIT */
/*
 * page_parts.h - the parts of a page; nobody else includes this.
 *
 *     page_write() --> plots_draw()   page_plot.c: one script for one run of gnuplot, SVG files, read back
 *                        --> timeline_plan() and timeline_plot(), loads_plot(), curve_plot()  add to the script
 *                        --> svg_adopt()     page_svg.c: what gnuplot drew becomes part of a page
 *                  --> html_write()   page_html.c, with style_lines of page_style.c
 *
 * Nothing that comes from elsewhere (names, keys, words of a user) reaches gnuplot: its labels are numbers and units,
 * legends are HTML. Colours are names in the script, PLOT_COLOUR, that svg_adopt() turns into the page's CSS
 * variables, so that light and dark are the page's business.
 *
 * Every plot exists in two shapes, of which the page shows the one that fits the screen.
 */
#ifndef LOAD_REPORT_PAGE_PARTS_H
#define LOAD_REPORT_PAGE_PARTS_H

#include "load/report/result.h"

enum {
    PAGE_SHAPES = 2, /* wide, narrow */
    PAGE_SERIES = 8, /* colours of results; they repeat with other dashes */
    PAGE_DASHES = 4,
    PAGE_EVENTS_MAX = 40, /* faults and notes drawn of one result */
};

/* One plot in its shapes, as text that can be put into HTML. Owned; NULL: there is nothing to draw. */
struct page_plot {
    char *svg[PAGE_SHAPES];
};

struct page_plots {
    struct page_plot timelines[REPORT_RESULTS_MAX], loads, curve;
};

/* ---- page_plot.c ---- */
bool plots_are_possible(char why[static RESULT_WHY_BYTES]);
bool plots_draw(const struct report *report, struct page_plots *out, char why[static RESULT_WHY_BYTES]);
void plots_clear(struct page_plots *plots);

struct plot_shape {
    const char *name;
    unsigned width, height, font; /* pixels as the page shows them */
};

extern const struct plot_shape plot_shapes[PAGE_SHAPES];

/* A colour of the script: "#fa00" and two hexadecimal digits. */
enum plot_colour {
    PLOT_INK = 0,
    PLOT_AXIS,
    PLOT_GRID,
    PLOT_FAULT,
    PLOT_EXPIRY,
    PLOT_FAILED,
    PLOT_SERIES = 16
};

#define PLOT_COLOUR "rgb \"#fa00%02x\""

/* The colour and the dashes of a result, the same ones in every plot and legend. */
unsigned plot_series(const struct report *report, size_t index);
extern const char *const plot_dashes[PAGE_DASHES];  /* for gnuplot */
extern const char *const plot_strokes[PAGE_DASHES]; /* for a line of the page's own */
unsigned plot_dash(size_t index);

/* Room for the words around a plot, in heights of its font. */
#define PLOT_LEFT_EMS 5.0
#define PLOT_RIGHT_EMS 2.2
#define PLOT_WORDS_EMS 2.5

/* Begins a plot of so many pixels in height. */
void plot_begin(FILE *script, const char *name, size_t number, const struct plot_shape *shape,
                unsigned height);
void plot_end(FILE *script);

/* ---- page_axis.c: tics that people can read ---- */

/* Instants, 0 to until_ms. */
void axis_time(FILE *script, uint32_t until_ms, const struct plot_shape *shape);
/* The same without words below it. */
void axis_time_bare(FILE *script, uint32_t until_ms, const struct plot_shape *shape);
/* Latency, logarithmic, the data in microseconds. */
void axis_latency(FILE *script, double from_us, double to_us);
/* Counts, logarithmic from `zero`, below which there is nothing: it is called 0. */
void axis_rate(FILE *script, double zero, double to);
/* Parts of all answers, the data -log10(1 - part). */
void axis_parts(FILE *script, uint64_t answers, const struct plot_shape *shape);

/* ---- page_timeline.c, page_curves.c ---- */

/* Do its requests come all at once? Then it is drawn who waits, and not latency over time. */
bool timeline_is_burst(const struct result *result);
/* A number of an event is where it stands among the marks that are no expiries, from 1. */
bool timeline_is_event(const struct result_mark *mark);

void timeline_data(FILE *script, const struct report *report, size_t index);
void timeline_plot(FILE *script, const struct report *report, size_t index, const struct plot_shape *shape);

bool loads_are_drawn(const struct report *report);
void loads_data(FILE *script, const struct report *report);
void loads_plot(FILE *script, const struct report *report, const struct plot_shape *shape);

bool curve_is_drawn(const struct report *report);
void curve_data(FILE *script, const struct report *report);
void curve_plot(FILE *script, const struct report *report, const struct plot_shape *shape);

/* ---- page_svg.c ---- */

/* Yours; NULL: it is no whole SVG, or there is no memory. `prefix` makes its ids the page's only ones, `label` is what
 * it says to who cannot see it; both are ours and need no escaping. */
char *svg_adopt(const char *drawn, const char *prefix, const char *label);

/* ---- page_html.c and its parts in page_html.h, page_style.c ---- */
void html_write(FILE *out, const struct report *report, const struct page_plots *plots);
extern const char *const style_lines[]; /* end with NULL */

#endif
