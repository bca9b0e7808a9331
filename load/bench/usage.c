/* SPDX-License-Identifier: MIT */
/* usage.c - see usage.h. */
#include "load/bench/usage.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct process {
    pid_t parent;
    uint64_t cpu_ticks;
};

/* The fields of /proc/PID/stat behind the name, which may hold anything. All zeros: it is gone. */
static struct process process_of(pid_t pid)
{
    char path[32], stat[1024];
    int parent = 0;
    uint64_t user_ticks = 0, system_ticks = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return (struct process){0};
    size_t count = fread(stat, 1, sizeof stat - 1, file);
    fclose(file);
    stat[count] = '\0';
    const char *behind_name = strrchr(stat, ')');
    if (behind_name == NULL ||
        sscanf(behind_name, ") %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %" SCNu64 " %" SCNu64, &parent,
               &user_ticks, &system_ticks) != 3)
        return (struct process){0};
    return (struct process){.parent = (pid_t)parent, .cpu_ticks = user_ticks + system_ticks};
}

uint64_t usage_cpu_us(pid_t pid)
{
    uint64_t ticks = process_of(pid).cpu_ticks;
    struct dirent *entry;
    DIR *proc = opendir("/proc");
    while (proc != NULL && (entry = readdir(proc)) != NULL) {
        pid_t other = (pid_t)strtol(entry->d_name, NULL, 10);
        struct process process = other > 0 ? process_of(other) : (struct process){0};
        if (process.parent == pid)
            ticks += process.cpu_ticks;
    }
    if (proc != NULL)
        closedir(proc);
    return ticks * 1000000 / (uint64_t)sysconf(_SC_CLK_TCK);
}
