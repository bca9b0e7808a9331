/* SPDX-License-Identifier: MIT */
/* files.c - see files.h. */
#include "tests/support/files.h"

#include "tests/support/test.h"

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

void file_write(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    if (file == NULL || fputs(text, file) < 0 || fclose(file) != 0)
        fail_msg("%s: %s", path, strerror(errno));
}

void file_make(char *path, const char *text)
{
    const int fd = mkstemp(path);
    assert_int_not_equal(fd, -1);
    close(fd);
    file_write(path, text);
}

char *file_read(const char *path, size_t *bytes)
{
    struct stat stat_of;
    FILE *file = fopen(path, "re");
    if (file == NULL || fstat(fileno(file), &stat_of) != 0)
        fail_msg("%s: %s", path, strerror(errno));
    const size_t count = (size_t)stat_of.st_size;
    char *text = calloc(count + 1, 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, count, file), count);
    fclose(file);
    if (bytes != NULL)
        *bytes = count;
    return text;
}

bool file_look(const char *path, char *text, size_t text_bytes)
{
    FILE *file = fopen(path, "re");
    text[file != NULL ? fread(text, 1, text_bytes - 1, file) : 0] = '\0';
    return file != NULL && fclose(file) == 0;
}

size_t count_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    size_t count = 0;
    assert_non_null(folder);
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

int program_run(const struct proc_options *options, uint32_t limit_ms, char *text, size_t text_bytes)
{
    int status;
    pid_t pid = proc_start(options);
    assert_true(pid > 0);
    const bool ended = proc_wait(pid, limit_ms, &status);
    if (!ended)
        proc_kill_tree(&pid);
    assert_true(file_look(options->output_path, text, text_bytes));
    return ended && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

unsigned text_times(const char *text, const char *wanted)
{
    unsigned count = 0;
    for (const char *at = text; (at = strstr(at, wanted)) != NULL; at++)
        count++;
    return count;
}
