/* SPDX-License-Identifier: MIT */
/*
 * page_timeline.c - one result over time, with its expiries and faults; see page_parts.h.
 *
 *     latency of those due in a slice: p50 (thick), p99 (thin), shaded up to the maximum;     the upper panel
 *         or, where all are due at once, how many still wait
 *     bars of faults and notes, numbered like the list below the plot                         the lower panel
 */
#include "load/report/page_parts.h"

#include <math.h>

enum {
    EXPIRIES_DRAWN = 80,  /* more would be a grey wall */
    SLICES_IN_A_ROW = 40, /* fewer with requests are rounds: points */
    ROW_PIXELS = 20,
};

struct lane {
    uint32_t free_ms;
};

struct drawing {
    FILE *script;
    const struct report *report;
    const struct result *result;
    size_t index;
    const struct plot_shape *shape;
    unsigned height; /* of all */
    unsigned lanes;  /* rows of bars */
    uint32_t until_ms;
};

bool timeline_is_event(const struct result_mark *mark)
{
    return mark->kind != RESULT_EXPIRY;
}

static size_t busy_slices(const struct result *result)
{
    size_t count = 0;
    for (size_t i = 0; i < result->slice_count; i++)
        count += result->slices[i].due > 0;
    return count;
}

bool timeline_is_burst(const struct result *result)
{
    return busy_slices(result) < 3;
}

/* ---- ranges ---- */

/* Until the last request was due or, in a burst, answered; what is done to the service afterwards is shown, too. */
static uint32_t end_ms(const struct result *result)
{
    uint64_t slices = result->slice_count;
    while (!timeline_is_burst(result) && slices > 0 && result->slices[slices - 1].due == 0)
        slices--;
    uint64_t end = slices * result->slice_ms;
    for (size_t i = 0; i < result->mark_count; i++) {
        const struct result_mark *mark = &result->marks[i];
        if (timeline_is_event(mark) && mark->until_ms > end)
            end = mark->until_ms;
        if (timeline_is_event(mark) && mark->at_ms > end)
            end = mark->at_ms;
    }
    return end < UINT32_MAX ? (uint32_t)end : UINT32_MAX;
}

/* All have the same axis, so that one can look from one to the next. */
static uint32_t shared_end_ms(const struct drawing *drawing)
{
    uint32_t until_ms = end_ms(drawing->result);
    for (size_t i = 0; i < drawing->report->result_count; i++) {
        const struct result *other = drawing->report->results[i];
        if (timeline_is_burst(drawing->result) == timeline_is_burst(other) && end_ms(other) > until_ms)
            until_ms = end_ms(other);
    }
    return until_ms;
}

static void latency_range(const struct report *report, double *from_us, double *to_us)
{
    *from_us = 1e9;
    *to_us = 1;
    for (size_t i = 0; i < report->result_count; i++) {
        const struct result *result = report->results[i];
        for (size_t j = 0; j < result->slice_count && !timeline_is_burst(result); j++) {
            const struct result_slice *slice = &result->slices[j];
            if (slice->answered == 0)
                continue;
            *from_us = slice->p50_us < *from_us ? slice->p50_us : *from_us;
            *to_us = slice->max_us > *to_us ? slice->max_us : *to_us;
        }
    }
    *from_us = *from_us > *to_us ? 1 : fmax(*from_us, 1) / 1.6;
    *to_us = fmax(*to_us, *from_us * 4) * 1.6;
}

/* ---- data ---- */

static bool is_rounds(const struct result *result)
{
    return busy_slices(result) < SLICES_IN_A_ROW;
}

/* instant, p50, p99, max, waiting; a gap where nobody was answered, unless they are rounds. */
void timeline_data(FILE *script, const struct report *report, size_t index)
{
    const struct result *result = report->results[index];
    double half_ms = timeline_is_burst(result) ? 0 : result->slice_ms / 2.0;
    bool has_gaps = !is_rounds(result);
    fprintf(script, "$time%zu << EOD\n", index);
    for (size_t i = 0; i < result->slice_count; i++) {
        const struct result_slice *slice = &result->slices[i];
        double at_ms = (double)i * result->slice_ms + half_ms;
        char p99[16] = "NaN"; /* of too few answers */
        if (result_supports(slice->answered, 9900))
            snprintf(p99, sizeof p99, "%u", slice->p99_us + 1);
        if (slice->answered > 0)
            fprintf(script, "%g %u %s %u\n", at_ms, slice->p50_us + 1, p99, slice->max_us + 1);
        else if (has_gaps)
            fputc('\n', script);
    }
    fprintf(script, "EOD\n$wait%zu << EOD\n0 %u\n", index,
            result->slice_count > 0 ? result->slices[0].due : 0);
    for (size_t i = 0; i < result->slice_count; i++)
        fprintf(script, "%g %u\n", (double)(i + 1) * result->slice_ms, result->slices[i].waiting);
    fprintf(script, "EOD\n$failed%zu << EOD\n", index);
    for (size_t i = 0; i < result->slice_count; i++) {
        if (result->slices[i].failed > 0)
            fprintf(script, "%g\n", ((double)i + 0.5) * result->slice_ms);
    }
    fputs("-1\nEOD\n", script); /* never empty, and never seen */
}

/* ---- events ---- */

/* The number of lanes that bars need so that none lies on another; lane_of may be NULL. */
static unsigned assign_lanes(const struct drawing *drawing, unsigned lane_of[static PAGE_EVENTS_MAX])
{
    uint32_t free_ms[PAGE_EVENTS_MAX] = {0};
    unsigned lanes = 0;
    size_t event = 0;
    /* an instant takes the space of its number */
    uint32_t least_ms = drawing->until_ms / (drawing->shape->width > 600 ? 24 : 10) + 1;
    for (size_t i = 0; i < drawing->result->mark_count && event < PAGE_EVENTS_MAX; i++) {
        const struct result_mark *mark = &drawing->result->marks[i];
        unsigned lane = 0;
        if (!timeline_is_event(mark))
            continue;
        while (lane < lanes && free_ms[lane] > mark->at_ms)
            lane++;
        uint32_t until_ms = mark->until_ms > mark->at_ms ? mark->until_ms : mark->at_ms;
        free_ms[lane] = until_ms + least_ms;
        lanes = lane + 1 > lanes ? lane + 1 : lanes;
        lane_of[event++] = lane;
    }
    return lanes;
}

static void draw_bar(const struct drawing *drawing, const struct result_mark *mark, unsigned lane,
                     size_t number)
{
    FILE *script = drawing->script;
    double middle = drawing->lanes - lane - 0.5;
    bool is_span = mark->until_ms > mark->at_ms;
    double at = mark->at_ms, until = is_span ? mark->until_ms : at;
    if (is_span)
        fprintf(script,
                "set object rectangle from %g,%g to %g,%g fillcolor " PLOT_COLOUR
                " fillstyle solid 0.55 noborder\n",
                at, middle - 0.36, until, middle + 0.36, PLOT_FAULT);
    else
        fprintf(script, "set arrow from %g,%g to %g,%g nohead linewidth 3 linecolor " PLOT_COLOUR "\n", at,
                middle - 0.36, at, middle + 0.36, mark->kind == RESULT_NOTE ? PLOT_AXIS : PLOT_FAULT);
    fprintf(script,
            "set label \"%zu\" at %g,%g left offset character 0.5,0 textcolor " PLOT_COLOUR " front\n",
            number, at, middle, PLOT_INK);
}

static void plot_events(const struct drawing *drawing)
{
    unsigned lane_of[PAGE_EVENTS_MAX];
    size_t event = 0;
    assign_lanes(drawing, lane_of);
    for (size_t i = 0; i < drawing->result->mark_count && event < PAGE_EVENTS_MAX; i++) {
        if (!timeline_is_event(&drawing->result->marks[i]))
            continue;
        draw_bar(drawing, &drawing->result->marks[i], lane_of[event], event + 1);
        event++;
    }
    fprintf(drawing->script, "set yrange [0:%u]\nunset ytics\nunset grid\nset border 1\n", drawing->lanes);
    axis_time(drawing->script, drawing->until_ms, drawing->shape);
    fputs("plot -1 notitle\n", drawing->script);
}

/* ---- the upper panel ---- */

static void shade_events(const struct drawing *drawing)
{
    size_t expiries = 0;
    for (size_t i = 0; i < drawing->result->mark_count; i++)
        expiries += drawing->result->marks[i].kind == RESULT_EXPIRY;
    for (size_t i = 0; i < drawing->result->mark_count; i++) {
        const struct result_mark *mark = &drawing->result->marks[i];
        if (mark->kind == RESULT_EXPIRY && expiries <= EXPIRIES_DRAWN)
            fprintf(
                drawing->script,
                "set arrow from %u, graph 0 to %u, graph 1 nohead back dashtype (2,4) linecolor " PLOT_COLOUR
                "\n",
                mark->at_ms, mark->at_ms, PLOT_EXPIRY);
        else if (mark->kind == RESULT_FAULT && mark->until_ms > mark->at_ms)
            fprintf(drawing->script,
                    "set object rectangle from %u, graph 0 to %u, graph 1 behind fillcolor " PLOT_COLOUR
                    " fillstyle solid 0.14 noborder\n",
                    mark->at_ms, mark->until_ms, PLOT_FAULT);
        else if (timeline_is_event(mark))
            fprintf(
                drawing->script,
                "set arrow from %u, graph 0 to %u, graph 1 nohead back linewidth 1.5 linecolor " PLOT_COLOUR
                "\n",
                mark->at_ms, mark->at_ms, mark->kind == RESULT_NOTE ? PLOT_AXIS : PLOT_FAULT);
    }
}

static void plot_latency(const struct drawing *drawing)
{
    unsigned colour = plot_series(drawing->report, drawing->index);
    const char *style = is_rounds(drawing->result) ? "linespoints pointtype 7 pointsize 0.4" : "lines";
    double from_us, to_us;
    latency_range(drawing->report, &from_us, &to_us);
    axis_latency(drawing->script, from_us, to_us);
    fprintf(drawing->script,
            "plot $time%zu using 1:2:4 with filledcurves fillcolor " PLOT_COLOUR
            " fillstyle solid 0.22 noborder notitle, \\\n"
            "     $time%zu using 1:3 with %s linewidth 1 linecolor " PLOT_COLOUR " notitle, \\\n"
            "     $time%zu using 1:2 with %s linewidth 2.4 linecolor " PLOT_COLOUR " notitle, \\\n"
            "     $failed%zu using 1:(%g) with points pointtype 2 pointsize 0.5 linecolor " PLOT_COLOUR
            " notitle\n",
            drawing->index, colour, drawing->index, style, colour, drawing->index, style, colour,
            drawing->index, from_us * pow(to_us / from_us, 0.03), PLOT_FAILED);
}

static void plot_waiting(const struct drawing *drawing)
{
    unsigned colour = plot_series(drawing->report, drawing->index);
    uint64_t most = drawing->result->requests;
    fprintf(drawing->script, "unset logscale y\nset yrange [0:%g]\n", most > 0 ? (double)most * 1.06 : 1);
    fprintf(drawing->script,
            "set ytics nomirror out scale 0.4 textcolor " PLOT_COLOUR " autofreq\nset format y \"%%.0f\"\n",
            PLOT_INK);
    fprintf(drawing->script,
            "plot $wait%zu using 1:2 with filledcurves y=0 fillcolor " PLOT_COLOUR
            " fillstyle solid 0.22 noborder notitle, \\\n"
            "     $wait%zu using 1:2 with lines linewidth 2.4 linecolor " PLOT_COLOUR " notitle, \\\n"
            "     $failed%zu using 1:(%g) with points pointtype 2 pointsize 0.5 linecolor " PLOT_COLOUR
            " notitle\n",
            drawing->index, colour, drawing->index, colour, drawing->index, (double)most * 0.03, PLOT_FAILED);
}

static void set_panel(const struct drawing *drawing, unsigned top, unsigned bottom)
{
    double height = drawing->height;
    double left = drawing->shape->font * PLOT_LEFT_EMS / drawing->shape->width;
    fprintf(drawing->script,
            "set lmargin at screen %.4f\nset rmargin at screen %.4f\nset tmargin at screen %.4f\nset bmargin "
            "at screen %.4f\n",
            left, 1 - drawing->shape->font * PLOT_RIGHT_EMS / drawing->shape->width, 1 - top / height,
            1 - bottom / height);
}

void timeline_plot(FILE *script, const struct report *report, size_t index, const struct plot_shape *shape)
{
    struct drawing drawing = {
        .script = script, .report = report, .result = report->results[index], .index = index, .shape = shape};
    unsigned lane_of[PAGE_EVENTS_MAX], words = (unsigned)(shape->font * PLOT_WORDS_EMS);
    drawing.until_ms = shared_end_ms(&drawing);
    drawing.lanes = assign_lanes(&drawing, lane_of);
    drawing.height = shape->height + drawing.lanes * ROW_PIXELS + (drawing.lanes > 0 ? 10 : 0);
    plot_begin(script, "timeline", index, shape, drawing.height);
    fputs("set multiplot\n", script);
    set_panel(&drawing, shape->font / 2, shape->height - words);
    if (drawing.lanes > 0)
        axis_time_bare(script, drawing.until_ms, shape);
    else
        axis_time(script, drawing.until_ms, shape);
    shade_events(&drawing);
    if (timeline_is_burst(drawing.result))
        plot_waiting(&drawing);
    else
        plot_latency(&drawing);
    if (drawing.lanes > 0) {
        fputs("unset object\nunset arrow\nunset label\nunset logscale y\n", script);
        set_panel(&drawing, shape->height - words + 10, drawing.height - words);
        plot_events(&drawing);
    }
    fputs("unset multiplot\n", script);
    plot_end(script);
}
