/* SPDX-License-Identifier: MIT */
/* watched.c - see watched.h. */
#include "load/bench/watched.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COMMAND_BYTES = 2 * PROC_PATH_BYTES + 64, SETTINGS_MAX = 16 };

static const char watch_path[] = "load/bench/watch.sh";

static bool tell(const struct watched *watched, const char *what, char *text, size_t text_bytes)
{
    char command[COMMAND_BYTES];
    snprintf(command, sizeof command, "sh %s %s %s %d", watch_path, what, watched->folder,
             (int)watched->catalogd.pid);
    bool good = proc_output(command, text, text_bytes);
    if (!good)
        fprintf(stderr, "bench: %s: %s\n", command, text);
    return good;
}

bool watched_start(const struct bench *bench, struct watched *watched, const char *tool,
                   const char *const *settings)
{
    static char program[256], folder[PROC_PATH_BYTES + 16], tool_text[32];
    const char *all[SETTINGS_MAX + 1] = {program, folder, tool_text, "SERVER_LOOPS=1"};
    for (size_t i = 0, count = 4; settings[i] != NULL && count < SETTINGS_MAX; i++)
        all[count++] = settings[i];
    if (!proc_folder("watch", NULL, watched->folder))
        return false;
    snprintf(program, sizeof program, "WATCH_PROGRAM=%s", stack_catalogd_program());
    snprintf(folder, sizeof folder, "WATCH_FOLDER=%s", watched->folder);
    snprintf(tool_text, sizeof tool_text, "WATCH_TOOL=%s", tool);
    setenv("CATALOGD", watch_path, 1);
    bool good = bench_service_start(bench, &watched->catalogd, all);
    setenv("CATALOGD", strchr(program, '=') + 1, 1);
    return good;
}

void watched_stop(struct watched *watched)
{
    stack_catalogd_stop(&watched->catalogd);
    if (watched->folder[0] != '\0')
        proc_remove(watched->folder);
    watched->folder[0] = '\0';
}

bool watched_mark(const struct watched *watched)
{
    char ignored[64];
    return tell(watched, "--mark", ignored, sizeof ignored);
}

bool watched_count(const struct watched *watched, char *text, size_t text_bytes)
{
    return tell(watched, "--count", text, text_bytes);
}
