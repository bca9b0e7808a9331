/* SPDX-License-Identifier: MIT */
/* page.c - see page.h. */
#include "load/report/page.h"

#include "load/report/page_parts.h"
#include "load/report/result_file.h"

bool page_is_possible(char why[static RESULT_WHY_BYTES])
{
    return plots_are_possible(why);
}

bool page_write(const struct report *report, const char *path, char why[static RESULT_WHY_BYTES])
{
    struct page_plots plots;
    struct result_file file;
    if (!plots_draw(report, &plots, why))
        return false;
    bool good = result_file_open(&file, path, why);
    if (good) {
        html_write(file.out, report, &plots);
        good = result_file_close(&file, true, why);
    }
    plots_clear(&plots);
    return good;
}
