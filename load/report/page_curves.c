/* SPDX-License-Identifier: MIT */
/* page_curves.c - all results in one plot: queries per second, and the distribution of latency; see page_parts.h. */
#include "load/report/page_parts.h"

#include <math.h>

enum { BINS_MOST = 80 };

/* ---- queries per second ---- */

static bool has_instants(const struct result *result)
{
    for (size_t i = 0; i < result->slice_count; i++) {
        if (result->slices[i].loads > 0)
            return true;
    }
    return false;
}

bool loads_are_drawn(const struct report *report)
{
    for (size_t i = 0; i < report->result_count; i++) {
        if (has_instants(report->results[i]))
            return true;
    }
    return false;
}

/* Until the last request was due or the last query began. */
static uint64_t span_ms(const struct report *report)
{
    uint64_t most = 1;
    for (size_t i = 0; i < report->result_count; i++) {
        const struct result *result = report->results[i];
        uint64_t count = result->slice_count;
        while (!timeline_is_burst(result) && count > 0 && result->slices[count - 1].due == 0 &&
               result->slices[count - 1].loads == 0)
            count--;
        most = count * result->slice_ms > most ? count * result->slice_ms : most;
    }
    return most;
}

static bool fits_slices(const struct report *report, uint64_t bin_ms)
{
    for (size_t i = 0; i < report->result_count; i++) {
        if (report->results[i]->slice_count > 0 && bin_ms % report->results[i]->slice_ms != 0)
            return false;
    }
    return span_ms(report) / bin_ms < BINS_MOST;
}

/* All results are counted in bins of one length, of whole slices: 1, 2, 5, 10, ... ms. */
static uint64_t choose_bin_ms(const struct report *report)
{
    static const uint64_t steps[] = {1, 2, 5};
    for (uint64_t decade = 1; decade < UINT32_MAX; decade *= 10) {
        for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
            if (fits_slices(report, decade * steps[i]))
                return decade * steps[i];
        }
    }
    return UINT32_MAX;
}

static void count_loads(const struct result *result, uint64_t bin_ms, uint64_t bins[static BINS_MOST + 1])
{
    for (size_t i = 0; i < result->slice_count; i++) {
        uint64_t bin = i * result->slice_ms / bin_ms;
        bins[bin < BINS_MOST ? bin : BINS_MOST] += result->slices[i].loads;
    }
}

/* One query in a bin is the least there can be; what is called 0 lies below it. */
static double least_rate(const struct report *report)
{
    return 1e3 / (double)choose_bin_ms(report) / 3;
}

static double most_rate(const struct report *report)
{
    uint64_t bin_ms = choose_bin_ms(report), most = 1;
    for (size_t i = 0; i < report->result_count; i++) {
        uint64_t bins[BINS_MOST + 1] = {0};
        count_loads(report->results[i], bin_ms, bins);
        for (size_t j = 0; j <= BINS_MOST; j++)
            most = bins[j] > most ? bins[j] : most;
    }
    return (double)most * 1e3 / (double)bin_ms * 1.6;
}

void loads_data(FILE *script, const struct report *report)
{
    uint64_t bin_ms = choose_bin_ms(report);
    double least = least_rate(report);
    for (size_t i = 0; i < report->result_count; i++) {
        uint64_t bins[BINS_MOST + 1] = {0};
        uint64_t used =
            ((uint64_t)report->results[i]->slice_count * report->results[i]->slice_ms + bin_ms - 1) / bin_ms;
        count_loads(report->results[i], bin_ms, bins);
        fprintf(script, "$loads%zu << EOD\n", i);
        for (uint64_t j = 0; j <= used && j <= BINS_MOST; j++) {
            double rate = j < used ? (double)bins[j] * 1e3 / (double)bin_ms : 0;
            fprintf(script, "%g %g\n%g %g\n", (double)(j * bin_ms), rate > least ? rate : least,
                    (double)((j + 1) * bin_ms), rate > least ? rate : least);
        }
        fputs("EOD\n", script);
    }
}

/* Thinner lines on top: two that run together can be told apart. */
static void plot_all(FILE *script, const struct report *report, const char *data)
{
    for (size_t i = 0; i < report->result_count; i++) {
        double width = 3 - 1.2 * (double)i / (double)report->result_count;
        fprintf(script,
                "%s $%s%zu using 1:2 with lines linewidth %.2f dashtype %s linecolor " PLOT_COLOUR " notitle",
                i == 0 ? "plot" : ", \\\n    ", data, i, width, plot_dashes[plot_dash(i)],
                plot_series(report, i));
    }
    fputc('\n', script);
}

static void set_margins(FILE *script, const struct plot_shape *shape)
{
    fprintf(script,
            "set lmargin at screen %.4f\nset rmargin at screen %.4f\nset tmargin at screen %.4f\nset bmargin "
            "at screen %.4f\n",
            shape->font * PLOT_LEFT_EMS / shape->width, 1 - shape->font * PLOT_RIGHT_EMS / shape->width,
            1 - shape->font * 0.5 / shape->height, shape->font * PLOT_WORDS_EMS / shape->height);
}

void loads_plot(FILE *script, const struct report *report, const struct plot_shape *shape)
{
    uint64_t until_ms = span_ms(report);
    plot_begin(script, "loads", 0, shape, shape->height);
    set_margins(script, shape);
    axis_time(script, until_ms < UINT32_MAX ? (uint32_t)until_ms : UINT32_MAX, shape);
    axis_rate(script, least_rate(report), most_rate(report));
    plot_all(script, report, "loads");
    plot_end(script);
}

/* ---- the distribution ---- */

static uint64_t most_answers(const struct report *report)
{
    uint64_t most = 0;
    for (size_t i = 0; i < report->result_count; i++) {
        if (report->results[i]->curve_count > 0 && report->results[i]->all.count > most)
            most = report->results[i]->all.count;
    }
    return most;
}

bool curve_is_drawn(const struct report *report)
{
    return most_answers(report) > 1;
}

/* The last point, the maximum, lies beyond all parts: a little further to the right than the one before it. */
void curve_data(FILE *script, const struct report *report)
{
    for (size_t i = 0; i < report->result_count; i++) {
        const struct result *result = report->results[i];
        fprintf(script, "$curve%zu << EOD\n", i);
        for (size_t j = 0; j < result->curve_count; j++) {
            const struct result_point *point = &result->curve[j];
            double above = 1 - point->percent / 100,
                   count = result->all.count > 1 ? (double)result->all.count : 2;
            fprintf(script, "%g %g\n", above > 0.5 / count ? -log10(above) : log10(count) + 0.25,
                    (double)point->us + 1);
        }
        fputs(result->curve_count > 0 ? "EOD\n" : "-1 1\nEOD\n", script);
    }
}

void curve_plot(FILE *script, const struct report *report, const struct plot_shape *shape)
{
    double from_us = 1e12, to_us = 1;
    for (size_t i = 0; i < report->result_count; i++) {
        const struct result_quantiles *all = &report->results[i]->all;
        if (all->count == 0)
            continue;
        from_us = fmin(from_us, (double)all->min_us);
        to_us = fmax(to_us, (double)all->max_us);
    }
    from_us = fmax(from_us, 1) / 1.6;
    plot_begin(script, "curve", 0, shape, shape->height);
    set_margins(script, shape);
    axis_parts(script, most_answers(report), shape);
    axis_latency(script, from_us, fmax(to_us, from_us * 4) * 1.6);
    plot_all(script, report, "curve");
    plot_end(script);
}
