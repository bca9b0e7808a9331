/* SPDX-License-Identifier: MIT */
/* format.c - see format.h. */
#include "load/report/format.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* ---- a file ---- */

bool result_file_open(struct result_file *file, const char *path, char why[static RESULT_WHY_BYTES])
{
    struct stat stat_of;
    bool special = stat(path, &stat_of) == 0 && !S_ISREG(stat_of.st_mode);
    *file = (struct result_file){.path = path};
    int bytes = snprintf(file->temporary, sizeof file->temporary, "%s.%d.new", path, (int)getpid());
    if (bytes < 0 || (size_t)bytes >= sizeof file->temporary) {
        snprintf(why, RESULT_WHY_BYTES, "%.100s...: the path is too long", path);
        return false;
    }
    if (special)
        file->temporary[0] = '\0';
    file->out = fopen(special ? path : file->temporary, "we");
    if (file->out == NULL)
        snprintf(why, RESULT_WHY_BYTES, "%.150s: cannot be written: %s", path, strerror(errno));
    return file->out != NULL;
}

bool result_file_close(struct result_file *file, bool keep, char why[static RESULT_WHY_BYTES])
{
    bool good = fflush(file->out) == 0 && !ferror(file->out);
    int error = good ? 0 : errno;
    if (fclose(file->out) != 0 && good) {
        good = false;
        error = errno;
    }
    file->out = NULL;
    if (good && keep && file->temporary[0] != '\0' && rename(file->temporary, file->path) != 0) {
        good = false;
        error = errno;
    }
    if ((!good || !keep) && file->temporary[0] != '\0')
        unlink(file->temporary);
    if (!good && keep)
        snprintf(why, RESULT_WHY_BYTES, "%.150s: cannot be written: %s", file->path, strerror(error));
    return good && keep;
}
