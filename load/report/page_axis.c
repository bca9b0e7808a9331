/* SPDX-License-Identifier: MIT */
/* page_axis.c - axes: tics that people can read; see page_parts.h. */
#include "load/report/page_parts.h"

#include <math.h>

enum { STEPS = 3, TIMES_WIDE = 10, TIMES_NARROW = 4 };

static const double steps[STEPS] = {1, 2, 5};

static void set_tics(FILE *script, char axis)
{
    fprintf(script, "set %ctics nomirror out scale 0.4 textcolor " PLOT_COLOUR " (", axis, PLOT_INK);
}

static void print_latency(FILE *script, double us)
{
    if (us < 1000)
        fprintf(script, "\"%g \xc2\xb5s\" %g", us, us);
    else if (us < 1e6)
        fprintf(script, "\"%g ms\" %g", us / 1e3, us);
    else
        fprintf(script, "\"%g s\" %g", us / 1e6, us);
}

/* Decades, or 1-2-5 where there are few of them. */
void axis_latency(FILE *script, double from_us, double to_us)
{
    size_t step_count = log10(to_us / from_us) > 2.2 ? 1 : STEPS, count = 0;
    fprintf(script, "set logscale y 10\nset yrange [%g:%g]\n", from_us, to_us);
    set_tics(script, 'y');
    for (double decade = pow(10, floor(log10(from_us))); decade <= to_us; decade *= 10) {
        for (size_t i = 0; i < step_count; i++) {
            if (decade * steps[i] < from_us * 0.999 || decade * steps[i] > to_us * 1.001)
                continue;
            fputs(count++ > 0 ? ", " : "", script);
            print_latency(script, decade * steps[i]);
        }
    }
    fputs(")\n", script);
}

void axis_rate(FILE *script, double zero, double to)
{
    fprintf(script, "set logscale y 10\nset yrange [%g:%g]\n", zero, to);
    set_tics(script, 'y');
    fprintf(script, "\"0\" %g", zero);
    size_t step_count = log10(to / zero) > 2.6 ? 1 : STEPS;
    for (double decade = pow(10, floor(log10(zero))); decade <= to; decade *= 10) {
        for (size_t i = 0; i < step_count; i++) {
            double at = decade * steps[i];
            if (at > zero * 1.4 && at <= to)
                fprintf(script, ", \"%.*f\" %g", at < 1 ? (int)-floor(log10(at)) : 0, at, at);
        }
    }
    fputs(")\n", script);
}

static double time_step(double until_ms, double most)
{
    double decade = pow(10, floor(log10(until_ms / most)));
    for (;; decade *= 10) {
        for (size_t i = 0; i < STEPS; i++) {
            if (decade * steps[i] * most >= until_ms)
                return decade * steps[i];
        }
    }
}

static void set_time(FILE *script, uint32_t until_ms, const struct plot_shape *shape, bool is_bare)
{
    double until = until_ms > 0 ? until_ms : 1;
    double step = time_step(until, shape->width > 600 ? TIMES_WIDE : TIMES_NARROW);
    bool in_ms = until < 2000;
    fprintf(script, "set xrange [0:%g]\n", until);
    set_tics(script, 'x');
    for (double at = 0; at <= until * 1.001; at += step) {
        if (is_bare)
            fprintf(script, "%s\"\" %g", at > 0 ? ", " : "", at);
        else
            fprintf(script, "%s\"%g %s\" %g", at > 0 ? ", " : "", in_ms ? at : at / 1e3, in_ms ? "ms" : "s",
                    at);
    }
    fputs(")\n", script);
}

void axis_time(FILE *script, uint32_t until_ms, const struct plot_shape *shape)
{
    set_time(script, until_ms, shape, false);
}

void axis_time_bare(FILE *script, uint32_t until_ms, const struct plot_shape *shape)
{
    set_time(script, until_ms, shape, true);
}

void axis_parts(FILE *script, uint64_t answers, const struct plot_shape *shape)
{
    /* gnuplot makes one % of two */
    static const struct {
        const char *wide, *narrow;
        double part;
    } parts[] = {{"0 %%", "", 0},           {"50 %%", "50 %%", 0.5},    {"90 %%", "90", 0.9},
                 {"99 %%", "99", 0.99},     {"99.9 %%", "99.9", 0.999}, {"99.99 %%", "99.99", 0.9999},
                 {"99.999 %%", "", 0.99999}};
    double until = log10((double)answers) + 0.3;
    fprintf(script, "set xrange [0:%g]\n", until);
    set_tics(script, 'x');
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        double at = -log10(1 - parts[i].part);
        if (at <= until)
            fprintf(script, "%s\"%s\" %g", i > 0 ? ", " : "",
                    shape->width > 600 ? parts[i].wide : parts[i].narrow, at);
    }
    fputs(")\n", script);
}
