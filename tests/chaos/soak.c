/* SPDX-License-Identifier: MIT */
/* soak.c - see soak.h. */
#include "tests/chaos/soak.h"

#include "load/base/clock.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum gauge { RESIDENT_KIB, DESCRIPTORS, THREADS, FLIGHTS, BACKENDS, GAUGES };

enum { EVERY_MS = 1000, LEAST_SAMPLES = 20, FIRST_CAPACITY = 4096, SERIES = GAUGES * SOAK_PROCESSES };

/* A gauge is flat if it rose by at most this much and this part of what it was. */
static const struct {
    const char *name;
    uint32_t allowed, allowed_percent;
} gauges[GAUGES] = {
    [RESIDENT_KIB] = {"resident memory, KiB", 3072, 10},
    [DESCRIPTORS] = {"descriptors", 12, 0},
    [THREADS] = {"threads", 2, 0},
    [FLIGHTS] = {"flights", 6, 0},
    [BACKENDS] = {"PostgreSQL backends", 8, 0},
};

/* One number for each gauge and process; those of the fleet stand with the first process. */
struct soak {
    uint32_t (*samples)[SERIES]; /* owned */
    size_t count, capacity;
    uint64_t next_us;
};

static uint32_t count_entries(const char *path)
{
    uint32_t count = 0;
    struct dirent *entry;
    DIR *folder = opendir(path);
    while (folder != NULL && (entry = readdir(folder)) != NULL)
        count += entry->d_name[0] != '.';
    if (folder != NULL)
        closedir(folder);
    return count;
}

/* The server's own workers among them, always as many. */
static uint32_t count_children(pid_t pid)
{
    char path[64];
    uint32_t count = 0;
    int child;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    FILE *file = fopen(path, "re");
    while (file != NULL && fscanf(file, "%d", &child) == 1)
        count++;
    if (file != NULL)
        fclose(file);
    return count;
}

static uint32_t flights_of(const struct scene *scene, size_t process, uint32_t before)
{
    if (scene->paused[process]) /* it cannot say */
        return before;
    double flights = stack_catalogd_metric(&scene->catalogd[process], "guard_flights");
    return flights >= 0 ? (uint32_t)flights : before;
}

static void read_gauges(struct scene *scene, const uint32_t *before, uint32_t *out)
{
    char path[64];
    for (size_t i = 0; i < SOAK_PROCESSES; i++) {
        pid_t pid = scene->catalogd[i].pid;
        snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
        out[RESIDENT_KIB * SOAK_PROCESSES + i] = (uint32_t)proc_status(pid, "VmRSS");
        out[DESCRIPTORS * SOAK_PROCESSES + i] = count_entries(path);
        out[THREADS * SOAK_PROCESSES + i] = (uint32_t)proc_status(pid, "Threads");
        out[FLIGHTS * SOAK_PROCESSES + i] = flights_of(scene, i, before[FLIGHTS * SOAK_PROCESSES + i]);
        out[BACKENDS * SOAK_PROCESSES + i] = i == 0 ? count_children(scene->postgres.pid) : 0;
    }
}

bool soak_open(struct soak **out)
{
    *out = calloc(1, sizeof **out);
    return *out != NULL;
}

void soak_sample(struct soak *soak, struct scene *scene)
{
    static const uint32_t nothing[SERIES];
    if (clock_us() < soak->next_us)
        return;
    soak->next_us = clock_after_ms(EVERY_MS);
    if (soak->count == soak->capacity) {
        soak->capacity = soak->capacity == 0 ? FIRST_CAPACITY : soak->capacity * 2;
        soak->samples = realloc(soak->samples, soak->capacity * sizeof *soak->samples);
        if (soak->samples == NULL)
            abort();
    }
    read_gauges(scene, soak->count > 0 ? soak->samples[soak->count - 1] : nothing,
                soak->samples[soak->count]);
    soak->count++;
}

static int by_number(const void *a, const void *b)
{
    const uint32_t *one = a, *other = b;
    return (*one > *other) - (*one < *other);
}

/* Of tenth 0 to 9 of the run. */
static uint32_t median(const struct soak *soak, size_t series, size_t tenth)
{
    size_t first = soak->count * tenth / 10, count = soak->count * (tenth + 1) / 10 - first;
    uint32_t *numbers = calloc(count, sizeof *numbers);
    if (numbers == NULL)
        abort();
    for (size_t i = 0; i < count; i++)
        numbers[i] = soak->samples[first + i][series];
    qsort(numbers, count, sizeof *numbers, by_number);
    uint32_t middle = numbers[count / 2];
    free(numbers);
    return middle;
}

static bool judge_series(const struct soak *soak, size_t series, FILE *out)
{
    size_t gauge = series / SOAK_PROCESSES, process = series % SOAK_PROCESSES;
    uint32_t early = median(soak, series, 1), late = median(soak, series, 9);
    bool flat = late <= early + gauges[gauge].allowed + early * gauges[gauge].allowed_percent / 100;
    if (gauge != BACKENDS)
        fprintf(out, "  %-22s catalogd %zu", gauges[gauge].name, process);
    else
        fprintf(out, "  %-32s", gauges[gauge].name);
    fprintf(out, " %9" PRIu32 " -> %9" PRIu32 "  %s\n", early, late, flat ? "flat" : "ROSE");
    return flat;
}

bool soak_judge(const struct soak *soak, FILE *out)
{
    bool flat = true;
    if (soak->count < LEAST_SAMPLES) {
        fprintf(out, "soak: %zu samples are too few to judge\n", soak->count);
        return false;
    }
    fprintf(out, "soak: %zu samples, medians of the second and the last tenth\n", soak->count);
    for (size_t series = 0; series < SERIES; series++) {
        if (series / SOAK_PROCESSES != BACKENDS || series % SOAK_PROCESSES == 0)
            flat = judge_series(soak, series, out) && flat;
    }
    return flat;
}

void soak_close(struct soak **slot)
{
    struct soak *soak = *slot;
    *slot = NULL;
    if (soak == NULL)
        return;
    free(soak->samples);
    free(soak);
}
