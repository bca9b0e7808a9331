/* SPDX-License-Identifier: MIT */
/* format.c - see format.h. */
#include "load/report/format.h"

#include "load/report/page.h"
#include "load/report/result_file.h"

#include <errno.h>
#include <string.h>

const struct format formats[FORMATS] = {
    [FORMAT_JSON] = {"json", "json", "JSON"},
    [FORMAT_HTML] = {"html", "html", "page"},
    [FORMAT_JUNIT] = {"junit", "junit.xml", "JUnit"},
    [FORMAT_SUMMARY] = {"summary", "md", "summary"},
};

typedef bool (*printer)(const struct report *report, FILE *out);

static const printer printers[FORMATS] = {[FORMAT_JUNIT] = junit_print, [FORMAT_SUMMARY] = summary_print};

bool format_write(enum report_format format, const struct report *report, const char *path,
                  char why[static RESULT_WHY_BYTES])
{
    struct result_file file;
    if (format == FORMAT_JSON)
        return report_write(report, path, why);
    if (format == FORMAT_HTML)
        return page_write(report, path, why);
    if (!result_file_open(&file, path, why))
        return false;
    bool good = printers[format](report, file.out);
    if (!good)
        snprintf(why, RESULT_WHY_BYTES, "%.150s: no memory for it", path);
    return result_file_close(&file, good, why);
}

bool format_append_summary(const struct report *report, const char *path, char why[static RESULT_WHY_BYTES])
{
    FILE *out = fopen(path, "ae");
    bool good = out != NULL && summary_print(report, out) && fputc('\n', out) != EOF;
    good = (out == NULL || fclose(out) == 0) && good;
    if (!good)
        snprintf(why, RESULT_WHY_BYTES, "%.150s: the summary cannot be appended: %s", path, strerror(errno));
    return good;
}
