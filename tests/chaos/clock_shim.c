/* SPDX-License-Identifier: MIT */
/*
 * clock_shim.c - clocks that can be stepped: preloaded into redis-server and catalogd.
 *
 * The file named by CHAOS_CLOCK_FILE holds an int64_t or two, offsets in seconds; it is mapped once, so whoever
 * writes it steps the clocks of the running process at once. The first is of the wall clock alone: as with an
 * administrator's `date` or a leap of ntpd. The second is of those that only run, as if the process had stood still
 * for so long; what the kernel itself waits for, as in epoll_wait(), does not come sooner.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { WALL, RUNNING, OFFSETS };

static const _Atomic int64_t *offsets_s; /* mapped; NULL: no file, no offset */
static int (*real_clock_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void shim_init(void)
{
    const char *path = getenv("CHAOS_CLOCK_FILE");
    int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd == -1)
        return;
    void *map = mmap(NULL, OFFSETS * sizeof *offsets_s, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (map != MAP_FAILED)
        offsets_s = map; /* behind the end of a short file there are zeros */
}

/* Another library's constructor may ask for the time before ours has run. */
static int ask(clockid_t clock, struct timespec *out)
{
    if (real_clock_gettime == NULL)
        *(void **)&real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    return real_clock_gettime(clock, out);
}

static time_t offset(int which)
{
    return offsets_s != NULL ? (time_t)atomic_load_explicit(&offsets_s[which], memory_order_relaxed) : 0;
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *out)
{
    int result = ask(clock, out);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        out->tv_sec += offset(WALL);
    if (result == 0 &&
        (clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE || clock == CLOCK_BOOTTIME))
        out->tv_sec += offset(RUNNING);
    return result;
}

__attribute__((visibility("default"))) int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    if (ask(CLOCK_REALTIME, &now) != 0)
        return -1;
    *out = (struct timeval){.tv_sec = now.tv_sec + offset(WALL), .tv_usec = now.tv_nsec / 1000};
    return 0;
}

__attribute__((visibility("default"))) time_t time(time_t *out)
{
    struct timespec now = {.tv_sec = 0};
    ask(CLOCK_REALTIME, &now);
    time_t seconds = now.tv_sec + offset(WALL);
    if (out != NULL)
        *out = seconds;
    return seconds;
}
