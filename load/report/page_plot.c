/* SPDX-License-Identifier: MIT */
/* page_plot.c - one run of gnuplot for all plots of a page; see page_parts.h. */
#include "load/base/proc.h"
#include "load/report/page_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    GNUPLOT_LIMIT_MS = 60000,
    FILE_BYTES_MAX = 8 << 20,
    PATH_BYTES = PROC_PATH_BYTES + 64,
    LABEL_BYTES = 200
};

const struct plot_shape plot_shapes[PAGE_SHAPES] = {
    {.name = "wide", .width = 960, .height = 340, .font = 14},
    {.name = "narrow", .width = 360, .height = 250, .font = 12},
};

const char *const plot_dashes[PAGE_DASHES] = {"solid", "(10,4)", "(5,3)", "(12,3,3,3)"};
const char *const plot_strokes[PAGE_DASHES] = {"none", "8 3", "4 2.5", "9 3 2 3"};

struct drawing {
    const struct report *report;
    char folder[PROC_PATH_BYTES];
    char *why; /* RESULT_WHY_BYTES */
};

/* ---- the look ---- */

unsigned plot_series(const struct report *report, size_t index)
{
    /* alone it is not in the colour of a stampede */
    return PLOT_SERIES + (unsigned)((report->result_count == 1 ? 1 : index) % PAGE_SERIES);
}

unsigned plot_dash(size_t index)
{
    return (unsigned)((index + index / PAGE_SERIES) % PAGE_DASHES);
}

void plot_begin(FILE *script, const char *name, size_t number, const struct plot_shape *shape,
                unsigned height)
{
    fprintf(script,
            "reset\n"
            "set terminal svg size %u,%u dynamic font \"sans-serif,%u\" noenhanced butt\n"
            "set output \"%s-%zu-%s.svg\"\n"
            "unset key\n"
            "set border 3 linecolor " PLOT_COLOUR "\n"
            "set grid ytics linecolor " PLOT_COLOUR " linewidth 1 dashtype solid\n",
            shape->width, height, shape->font, name, number, shape->name, PLOT_AXIS, PLOT_GRID);
}

void plot_end(FILE *script)
{
    fputs("unset output\n", script);
}

/* ---- running it ---- */

static void write_script(FILE *script, const struct report *report)
{
    fputs("set encoding utf8\n", script);
    for (size_t i = 0; i < report->result_count; i++) {
        if (report->results[i]->slice_count == 0)
            continue;
        timeline_data(script, report, i);
        for (size_t shape = 0; shape < PAGE_SHAPES; shape++)
            timeline_plot(script, report, i, &plot_shapes[shape]);
    }
    if (loads_are_drawn(report)) {
        loads_data(script, report);
        for (size_t shape = 0; shape < PAGE_SHAPES; shape++)
            loads_plot(script, report, &plot_shapes[shape]);
    }
    if (curve_is_drawn(report)) {
        curve_data(script, report);
        for (size_t shape = 0; shape < PAGE_SHAPES; shape++)
            curve_plot(script, report, &plot_shapes[shape]);
    }
}

/* The first line with words that is no warning: before it gnuplot repeats the command and points at a place in it. */
static void read_complaint(const char *path, char *complaint, size_t complaint_bytes)
{
    FILE *file = fopen(path, "re");
    char line[512];
    complaint[0] = '\0';
    while (file != NULL && complaint[0] == '\0' && fgets(line, sizeof line, file) != NULL) {
        if (strstr(line, " line ") != NULL && strstr(line, "warning") == NULL)
            snprintf(complaint, complaint_bytes, "%.*s", (int)strcspn(line, "\n"), line);
    }
    if (file != NULL)
        fclose(file);
}

static const char no_gnuplot[] =
    "the page's plots are drawn by gnuplot, which is not there: install the Debian "
    "package gnuplot-nox";

bool plots_are_possible(char why[static RESULT_WHY_BYTES])
{
    char file[PATH_BYTES];
    const char *folders = getenv("PATH");
    while (folders != NULL) {
        size_t bytes = strcspn(folders, ":");
        snprintf(file, sizeof file, "%.*s/gnuplot", (int)bytes, folders);
        if (bytes > 0 && access(file, X_OK) == 0)
            return true;
        folders = folders[bytes] == ':' ? folders + bytes + 1 : NULL;
    }
    snprintf(why, RESULT_WHY_BYTES, "%s", no_gnuplot);
    return false;
}

static bool run_gnuplot(const struct drawing *drawing)
{
    char output[PATH_BYTES], complaint[160];
    int status = -1;
    const char *const argv[] = {"sh", "-c", "cd \"$1\" && exec gnuplot -d script", "sh", drawing->folder,
                                NULL};
    const char *const settings[] = {"LC_ALL=C.UTF-8", NULL};
    snprintf(output, sizeof output, "%s/output", drawing->folder);
    const struct proc_options options = {.argv = argv, .settings = settings, .output_path = output};
    pid_t pid = proc_start(&options);
    bool ended = pid != -1 && proc_wait(pid, GNUPLOT_LIMIT_MS, &status);
    if (pid != -1 && !ended)
        proc_kill_tree(&pid);
    if (ended && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    read_complaint(output, complaint, sizeof complaint);
    if (ended && WIFEXITED(status) && WEXITSTATUS(status) == 127)
        snprintf(drawing->why, RESULT_WHY_BYTES, "%s", no_gnuplot);
    else
        snprintf(drawing->why, RESULT_WHY_BYTES, "gnuplot %s%s%.120s",
                 !ended ? "could not be run to its end within 60 s" : "failed",
                 complaint[0] != '\0' ? ": " : "", complaint);
    return false;
}

/* ---- reading ---- */

static char *read_whole(const char *path)
{
    struct stat stat_of;
    FILE *file = fopen(path, "re");
    char *text = NULL;
    if (file != NULL && fstat(fileno(file), &stat_of) == 0 && stat_of.st_size < FILE_BYTES_MAX)
        text = calloc((size_t)stat_of.st_size + 1, 1);
    if (text != NULL && fread(text, 1, (size_t)stat_of.st_size, file) != (size_t)stat_of.st_size) {
        free(text);
        text = NULL;
    }
    if (file != NULL)
        fclose(file);
    return text;
}

static bool adopt(const struct drawing *drawing, const char *name, size_t number, const char *label,
                  struct page_plot *out)
{
    for (size_t shape = 0; shape < PAGE_SHAPES; shape++) {
        char path[PATH_BYTES], prefix[48];
        snprintf(path, sizeof path, "%s/%s-%zu-%s.svg", drawing->folder, name, number,
                 plot_shapes[shape].name);
        snprintf(prefix, sizeof prefix, "%s-%zu-%s-", name, number, plot_shapes[shape].name);
        char *drawn = read_whole(path);
        out->svg[shape] = drawn != NULL ? svg_adopt(drawn, prefix, label) : NULL;
        free(drawn);
        if (out->svg[shape] == NULL) {
            snprintf(drawing->why, RESULT_WHY_BYTES, "gnuplot did not draw the plot %.40s-%zu", name, number);
            return false;
        }
    }
    return true;
}

static bool adopt_all(const struct drawing *drawing, struct page_plots *out)
{
    const struct report *report = drawing->report;
    char label[LABEL_BYTES];
    for (size_t i = 0; i < report->result_count; i++) {
        bool is_burst = timeline_is_burst(report->results[i]);
        snprintf(label, sizeof label, "%s over time, result %zu of %zu, with expiries and faults",
                 is_burst ? "Requests that wait" : "Latency", i + 1, report->result_count);
        if (report->results[i]->slice_count > 0 && !adopt(drawing, "timeline", i, label, &out->timelines[i]))
            return false;
    }
    if (loads_are_drawn(report) &&
        !adopt(drawing, "loads", 0, "Queries per second over time, all results", &out->loads))
        return false;
    return !curve_is_drawn(report) ||
           adopt(drawing, "curve", 0, "Distribution of latency on logarithmic scales, all results",
                 &out->curve);
}

bool plots_draw(const struct report *report, struct page_plots *out, char why[static RESULT_WHY_BYTES])
{
    struct drawing drawing = {.report = report, .why = why};
    char path[PATH_BYTES];
    memset(out, 0, sizeof *out);
    if (!proc_folder("page", NULL, drawing.folder)) {
        snprintf(why, RESULT_WHY_BYTES, "no folder for the plots of the page could be made");
        return false;
    }
    snprintf(path, sizeof path, "%s/script", drawing.folder);
    FILE *script = fopen(path, "we");
    if (script != NULL)
        write_script(script, report);
    bool good = script != NULL && fclose(script) == 0;
    if (!good)
        snprintf(why, RESULT_WHY_BYTES, "%.100s: cannot be written: %s", path, strerror(errno));
    good = good && run_gnuplot(&drawing) && adopt_all(&drawing, out);
    proc_remove(drawing.folder);
    if (!good)
        plots_clear(out);
    return good;
}

static void clear_plot(struct page_plot *plot)
{
    for (size_t shape = 0; shape < PAGE_SHAPES; shape++)
        free(plot->svg[shape]);
}

void plots_clear(struct page_plots *plots)
{
    for (size_t i = 0; i < REPORT_RESULTS_MAX; i++)
        clear_plot(&plots->timelines[i]);
    clear_plot(&plots->loads);
    clear_plot(&plots->curve);
    memset(plots, 0, sizeof *plots);
}
