/* SPDX-License-Identifier: MIT */
/* home.c - see home.h. */
#include "load/base/home.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LEVELS_MAX = 4, FILE_BYTES = 128 };

static const char marker[] = "load/scenarios/demo.scenario"; /* only the project has it */

static char program[PATH_MAX]; /* "" where the system does not tell */
static char home[HOME_PATH_BYTES - FILE_BYTES];
static bool is_found;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static bool has_marker(const char *folder)
{
    char path[PATH_MAX + sizeof marker + 1];
    snprintf(path, sizeof path, "%s/%s", folder, marker);
    return access(path, F_OK) == 0;
}

static void find(void)
{
    char folder[PATH_MAX];
    ssize_t bytes = readlink("/proc/self/exe", program, sizeof program - 1);
    program[bytes > 0 ? bytes : 0] = '\0';
    strcpy(folder, program);
    is_found = access(marker, F_OK) == 0;
    for (int level = 0; !is_found && level < LEVELS_MAX; level++) {
        char *slash = strrchr(folder, '/');
        if (slash == NULL || slash == folder || (size_t)(slash - folder) >= sizeof home)
            continue;
        *slash = '\0';
        is_found = has_marker(folder);
        if (is_found)
            snprintf(home, sizeof home, "%.*s", (int)sizeof home - 1, folder);
    }
}

const char *home_path(const char *file, char path[static HOME_PATH_BYTES])
{
    pthread_once(&once, find);
    snprintf(path, HOME_PATH_BYTES, "%s%s%s", home, home[0] != '\0' ? "/" : "", file);
    return path;
}

bool home_is_found(void)
{
    pthread_once(&once, find);
    if (!is_found)
        fprintf(stderr,
                "stampede: %s is neither here nor above %s: go to the project's folder and try again\n",
                marker, program);
    return is_found;
}
