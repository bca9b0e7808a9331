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

static const char installed[] = "/share/stampede-guard";

static char program[PATH_MAX]; /* "" where the system does not tell */
static char home[HOME_PATH_BYTES - FILE_BYTES];
static bool is_found;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static bool has_marker(const char *folder, const char *below)
{
    char path[PATH_MAX + sizeof installed + sizeof marker + 1];
    snprintf(path, sizeof path, "%s%s/%s", folder, below, marker);
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
        if (slash == NULL || slash == folder || (size_t)(slash - folder) >= sizeof home - sizeof installed)
            continue;
        *slash = '\0';
        is_found = has_marker(folder, "") || has_marker(folder, installed);
        if (is_found)
            snprintf(home, sizeof home, "%.*s%s", (int)(sizeof home - sizeof installed), folder,
                     has_marker(folder, "") ? "" : installed);
    }
}

const char *home_path(const char *file, char path[static HOME_PATH_BYTES])
{
    pthread_once(&once, find);
    snprintf(path, HOME_PATH_BYTES, "%s%s%s", home, home[0] != '\0' ? "/" : "", file);
    return path;
}

const char *home_program(const char *name, char path[static HOME_PATH_BYTES])
{
    pthread_once(&once, find);
    const char *slash = strrchr(program, '/');
    const int folder_bytes = slash != NULL ? (int)(slash - program) : 0;
    snprintf(path, HOME_PATH_BYTES, "%.*s/%s", folder_bytes, program, name);
    if (access(path, X_OK) != 0)
        snprintf(path, HOME_PATH_BYTES, "%s%sbuild/%s", home, home[0] != '\0' ? "/" : "", name);
    return path;
}

const char *home_output(const char *file, char path[static HOME_PATH_BYTES])
{
    if (access(home_path("build", path), W_OK) == 0)
        snprintf(path + strlen(path), HOME_PATH_BYTES - strlen(path), "/%s", file);
    else
        snprintf(path, HOME_PATH_BYTES, "%s", file);
    return path;
}

bool home_is_found(void)
{
    pthread_once(&once, find);
    if (!is_found)
        fprintf(stderr,
                "stampede: %s is neither here, nor above %s, nor installed with it: go to the project's "
                "folder and try again\n",
                marker, program);
    return is_found;
}
