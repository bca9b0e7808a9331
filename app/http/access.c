/* SPDX-License-Identifier: MIT */
/*
 * access.c - see access.h.
 *
 * The writer's thread owns the file. A write may end in the middle of a line: then `unfinished` is its lane, which
 * goes on before any other, so that two lines never mix.
 */
#include "app/http/access.h"

#include "app/base/clock.h"
#include "app/base/log.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WAKE_BYTES = ACCESS_LANE_BYTES / 4, FILE_MODE = 0640 };

_Static_assert(ACCESS_LINE_MAX <= PIPE_BUF, "a line fits into a pipe at once");

struct access_log {
    const char *file; /* lent; "": stdout */
    struct access_lane *lanes;
    size_t lane_count;
    int wake_fd; /* owned; -1: none */
    bool writing;
    pthread_t writer;
    atomic_bool awake, reopen, closing; /* asked of the writer */
    _Atomic uint64_t lost;              /* lines that were taken out and could not be written */

    /* the writer's */
    int fd; /* owned unless stdout; -1: none */
    bool is_regular, in_trouble;
    bool is_full;                   /* it had no room at the last try: the thread waits for that */
    bool is_left;                   /* lines were left at the last try */
    struct access_lane *unfinished; /* NULL: the file ends with a whole line */
    uint64_t told_dropped;
    char joint[ACCESS_LINE_MAX]; /* a line that goes over the end of its ring */
};

/* ---- the loop's side ---- */

/* One writer: a load and a store are enough. */
static void add(_Atomic uint64_t *counter)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

void access_put(struct access_lane *lane, const struct access_line *line)
{
    char text[ACCESS_LINE_MAX];

    const size_t bytes = access_line_print(line, &lane->date, text);
    const size_t head = atomic_load_explicit(&lane->head, memory_order_relaxed);
    const size_t used = head - atomic_load_explicit(&lane->tail, memory_order_acquire);
    const size_t at = head % ACCESS_LANE_BYTES, to_end = ACCESS_LANE_BYTES - at;
    if (bytes > ACCESS_LANE_BYTES - used) {
        add(&lane->dropped);
        return;
    }
    memcpy(lane->ring + at, text, bytes < to_end ? bytes : to_end);
    if (bytes > to_end)
        memcpy(lane->ring, text + to_end, bytes - to_end);
    add(&lane->lines);
    atomic_store_explicit(&lane->head, head + bytes, memory_order_release);
    if (used + bytes >= WAKE_BYTES && !atomic_exchange(&lane->log->awake, true))
        eventfd_write(lane->log->wake_fd, 1);
}

/* ---- the file ---- */

/* -1, and errno. */
static int open_file(const char *file)
{
    struct stat status;
    const bool is_fifo = stat(file, &status) == 0 && S_ISFIFO(status.st_mode);
    const int how = is_fifo ? O_RDWR : O_WRONLY | O_APPEND | O_CREAT;

    return open(file, how | O_NONBLOCK | O_CLOEXEC | O_NOCTTY, FILE_MODE);
}

static void use_file(struct access_log *log, int fd)
{
    struct stat status;

    if (log->fd >= 0)
        close(log->fd);
    log->fd = fd;
    log->is_regular = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

static bool refuse(const struct access_log *log, const char *why)
{
    log_event(LOG_LEVEL_ERROR, "access_log", "file=\"%s\" reason=\"%s\"", log->file, why);
    return false;
}

/* stdout is not made non-blocking, because others may share it: so it is asked before each write. */
static bool open_output(struct access_log *log)
{
    const int fd = log->file[0] != '\0' ? open_file(log->file) : fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);

    if (fd < 0)
        return refuse(log, strerror(errno));
    use_file(log, fd);
    return true;
}

static void tell_trouble(struct access_log *log, int error)
{
    log->is_full = error == EAGAIN;
    if (log->is_full || log->in_trouble)
        return;
    log->in_trouble = true;
    log_event(LOG_LEVEL_WARNING, "access_log",
              "file=\"%s\" reason=\"%s\" hint=\"lines are kept until there is no room, then dropped\"",
              log->file, strerror(error));
}

static void tell_recovery(struct access_log *log)
{
    if (log->in_trouble)
        log_event(LOG_LEVEL_INFO, "access_log", "file=\"%s\" state=written_again", log->file);
    log->in_trouble = false;
}

/* A pipe takes so many whole lines at once, or nothing. */
static size_t piece_of(const struct access_log *log, const char *bytes, size_t count)
{
    if (log->is_regular || count <= PIPE_BUF)
        return count;
    const char *last = memrchr(bytes, '\n', PIPE_BUF);
    return last != NULL ? (size_t)(last + 1 - bytes) : PIPE_BUF;
}

/* Or an error, which write() will tell. */
static bool has_room(struct access_log *log)
{
    struct pollfd file = {.fd = log->fd, .events = POLLOUT};

    log->is_full = !log->is_regular && poll(&file, 1, 0) != 1;
    return !log->is_full;
}

/* How many of them the file has taken. */
static size_t write_bytes(struct access_log *log, const char *bytes, size_t count)
{
    size_t written = 0;

    while (written < count && has_room(log)) {
        const ssize_t taken =
            write(log->fd, bytes + written, piece_of(log, bytes + written, count - written));

        if (taken < 0 && errno == EINTR)
            continue;
        if (taken <= 0) {
            tell_trouble(log, taken < 0 ? errno : ENOSPC);
            return written;
        }
        tell_recovery(log);
        written += (size_t)taken;
    }
    return written;
}

/* ---- lanes ---- */

static size_t waiting(const struct access_lane *lane)
{
    return atomic_load_explicit(&lane->head, memory_order_acquire) -
           atomic_load_explicit(&lane->tail, memory_order_relaxed);
}

/* The line whose beginning is at the end of the ring. */
static size_t join(struct access_log *log, const struct access_lane *lane, size_t at)
{
    const size_t to_end = ACCESS_LANE_BYTES - at;
    const char *end = memchr(lane->ring, '\n', sizeof(log->joint) - to_end);
    const size_t rest = (size_t)(end + 1 - lane->ring);

    memcpy(log->joint, lane->ring + at, to_end);
    memcpy(log->joint + to_end, lane->ring, rest);
    return to_end + rest;
}

/* Whole lines in one piece, but for the beginning of the first, which may be written already. */
static size_t next_lines(struct access_log *log, const struct access_lane *lane, const char **bytes)
{
    const size_t at = atomic_load_explicit(&lane->tail, memory_order_relaxed) % ACCESS_LANE_BYTES;
    const size_t left = waiting(lane), to_end = ACCESS_LANE_BYTES - at;
    const char *last = memrchr(lane->ring + at, '\n', left < to_end ? left : to_end);

    *bytes = last != NULL ? lane->ring + at : log->joint;
    if (left == 0)
        return 0;
    return last != NULL ? (size_t)(last + 1 - *bytes) : join(log, lane, at);
}

static void take_out(struct access_lane *lane, size_t count)
{
    atomic_store_explicit(&lane->tail, atomic_load_explicit(&lane->tail, memory_order_relaxed) + count,
                          memory_order_release);
}

/* False: the file takes no more at present. */
static bool drain_lane(struct access_log *log, struct access_lane *lane)
{
    const char *bytes;

    for (size_t count = next_lines(log, lane, &bytes); count > 0; count = next_lines(log, lane, &bytes)) {
        const size_t written = write_bytes(log, bytes, count);

        if (written > 0)
            log->unfinished = bytes[written - 1] == '\n' ? NULL : lane;
        take_out(lane, written);
        if (written < count)
            return false;
    }
    return true;
}

/* False: some is left. */
static bool drain(struct access_log *log)
{
    if (log->unfinished != NULL && !drain_lane(log, log->unfinished))
        return false;
    for (size_t i = 0; i < log->lane_count; i++) {
        if (!drain_lane(log, &log->lanes[i]))
            return false;
    }
    return true;
}

/* The rest of a line whose beginning is in a file that is not written to any more, or of all of them. */
static void lose(struct access_log *log, struct access_lane *lane, bool all)
{
    while (waiting(lane) > 0) {
        const size_t at = atomic_load_explicit(&lane->tail, memory_order_relaxed) % ACCESS_LANE_BYTES;
        const bool ends = lane->ring[at] == '\n';

        take_out(lane, 1);
        if (ends)
            atomic_fetch_add(&log->lost, 1);
        if (ends && !all)
            return;
    }
}

/* ---- the writer's thread ---- */

static void reopen(struct access_log *log)
{
    const int fd = log->file[0] != '\0' ? open_file(log->file) : -1;

    if (log->file[0] == '\0')
        return;
    if (fd < 0) {
        refuse(log, strerror(errno));
        return;
    }
    if (log->unfinished != NULL && !drain_lane(log, log->unfinished) && log->unfinished != NULL)
        lose(log, log->unfinished, false);
    log->unfinished = NULL;
    use_file(log, fd);
    log_event(LOG_LEVEL_INFO, "access_log", "file=\"%s\" state=opened_anew", log->file);
}

static uint64_t dropped_of(const struct access_log *log)
{
    uint64_t dropped = atomic_load(&log->lost);

    for (size_t i = 0; i < log->lane_count; i++)
        dropped += atomic_load_explicit(&log->lanes[i].dropped, memory_order_relaxed);
    return dropped;
}

static void tell_dropped(struct access_log *log)
{
    const uint64_t dropped = dropped_of(log);

    if (dropped != log->told_dropped)
        log_event(LOG_LEVEL_WARNING, "access_lines_dropped",
                  "file=\"%s\" lines=%" PRIu64 " reason=\"the file or pipe does not take them in time\""
                  " hint=\"use a faster disk or reader\"",
                  log->file, dropped - log->told_dropped);
    log->told_dropped = dropped;
}

/* What was left waits for room, or for the next tick: no lane that fills makes that come sooner. */
static void await_lines(struct access_log *log)
{
    struct pollfd fds[] = {{.fd = log->wake_fd, .events = POLLIN},
                           {.fd = log->is_full ? log->fd : -1, .events = POLLOUT}};
    eventfd_t count;

    poll(fds, sizeof(fds) / sizeof(fds[0]), ACCESS_TICK_MS);
    if (fds[0].revents != 0)
        eventfd_read(log->wake_fd, &count);
    if (!log->is_left)
        atomic_store(&log->awake, false);
}

static void *write_lines(void *context)
{
    struct access_log *log = context;

    while (!atomic_load(&log->closing)) {
        await_lines(log);
        if (atomic_exchange(&log->reopen, false))
            reopen(log);
        log->is_left = !drain(log);
        tell_dropped(log);
    }
    for (const uint64_t end_ms = clock_ms() + ACCESS_CLOSE_MS; !drain(log) && clock_ms() < end_ms;)
        poll(NULL, 0, ACCESS_TICK_MS / 10);
    for (size_t i = 0; i < log->lane_count; i++)
        lose(log, &log->lanes[i], true);
    tell_dropped(log);
    return NULL;
}

/* ---- opening and closing ---- */

static bool lanes_open(struct access_log *log, size_t lanes)
{
    log->lanes = aligned_alloc(_Alignof(struct access_lane), lanes * sizeof(*log->lanes));
    while (log->lanes != NULL && log->lane_count < lanes) {
        struct access_lane *lane = &log->lanes[log->lane_count++];

        *lane = (struct access_lane){.log = log};
        lane->ring = malloc(ACCESS_LANE_BYTES); /* pages come as they are used */
        if (lane->ring == NULL)
            return false;
    }
    return log->lanes != NULL;
}

bool access_open(const char *file, size_t lanes, struct access_log **out)
{
    struct access_log *log = calloc(1, sizeof(*log));

    assert(lanes > 0);
    if (log == NULL)
        return false;
    log->file = file;
    log->fd = -1;
    log->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    bool opened = open_output(log);
    if (opened && (log->wake_fd < 0 || !lanes_open(log, lanes)))
        opened = refuse(log, "no memory or no descriptor: raise MemoryMax or ulimit -n");
    log->writing = opened && thread_start(&log->writer, write_lines, log);
    if (opened && !log->writing)
        opened = refuse(log, "no thread: raise TasksMax or ulimit -u");
    if (opened)
        *out = log;
    else
        access_close(&log);
    return opened;
}

void access_close(struct access_log **log_slot)
{
    struct access_log *log = *log_slot;

    *log_slot = NULL;
    if (log == NULL)
        return;
    if (log->writing) {
        atomic_store(&log->closing, true);
        eventfd_write(log->wake_fd, 1);
        pthread_join(log->writer, NULL);
    }
    for (size_t i = 0; i < log->lane_count; i++)
        free(log->lanes[i].ring);
    if (log->fd >= 0)
        close(log->fd);
    if (log->wake_fd >= 0)
        close(log->wake_fd);
    free(log->lanes);
    free(log);
}

void access_reopen(struct access_log *log)
{
    if (log == NULL)
        return;
    atomic_store(&log->reopen, true);
    eventfd_write(log->wake_fd, 1);
}

struct access_lane *access_lane(struct access_log *log, size_t index)
{
    if (log == NULL)
        return NULL;
    assert(index < log->lane_count);
    return &log->lanes[index];
}

void access_stats(const struct access_log *log, struct access_stats *out)
{
    *out = (struct access_stats){0};
    if (log == NULL)
        return;
    out->dropped = dropped_of(log);
    for (size_t i = 0; i < log->lane_count; i++)
        out->lines += atomic_load_explicit(&log->lanes[i].lines, memory_order_relaxed);
}
