/* SPDX-License-Identifier: MIT */
/* say.c - see say.h. */
#include "say.h"
#include "clock.h"
#include "process.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SAY_RAW_SIZE = 640, SAY_HEAD_SIZE = 64, SAY_TAIL_SIZE = 64 };

void guard_log_none(void *context, const char *text, bool good)
{
    (void)context;
    (void)text;
    (void)good;
}

void say_init(struct say *say, const char *name_space, guard_log *log, void *context)
{
    say->log = log;
    say->context = context;
    say->name_space = name_space;
    pthread_mutex_init(&say->mutex, NULL);
}

void say_clear(struct say *say)
{
    pthread_mutex_destroy(&say->mutex);
}

/* ---- the line ---- */

/* A backslash, too, so that none can pass for an escape. */
__attribute__((format(printf, 2, 0))) static void compose_line(char out[SAY_TEXT_SIZE], const char *format,
                                                               va_list args)
{
    char text[SAY_RAW_SIZE];
    size_t length = 0;
    vsnprintf(text, sizeof text, format, args);
    for (const unsigned char *byte = (const unsigned char *)text; *byte != '\0' && length + 5 < SAY_TEXT_SIZE;
         byte++) {
        if (*byte >= ' ' && *byte <= '~' && *byte != '\\')
            out[length++] = (char)*byte;
        else
            length += (size_t)snprintf(out + length, 5, "\\x%02x", *byte);
    }
    out[length] = '\0';
}

/* ---- stderr ---- */

/* Unless it was pending already: then it is somebody else's. */
static void take_back(int signal_number, const sigset_t *pending)
{
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, signal_number);
    while (sigismember(pending, signal_number) == 0 &&
           sigtimedwait(&one, NULL, &(struct timespec){0, 0}) < 0 && errno == EINTR)
        continue;
}

/* A pipe's reader may leave at any instant, and a file have its greatest size: that raises a signal, which is taken
 * back. */
static bool write_unsignalled(int fd, bool is_socket, const char *line, size_t bytes)
{
    ssize_t written = 0;
    sigset_t raised, pending, before;
    sigemptyset(&raised);
    sigaddset(&raised, SIGPIPE);
    sigaddset(&raised, SIGXFSZ);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &raised, &before);
    do
        written = is_socket ? send(fd, line, bytes, MSG_DONTWAIT) : write(fd, line, bytes);
    while (written < 0 && errno == EINTR);
    take_back(SIGPIPE, &pending);
    take_back(SIGXFSZ, &pending);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return written == (ssize_t)bytes;
}

/* Of a pipe or a terminal a description of our own: O_NONBLOCK on the one that is shared would be everybody's. -1: it
 * needs none, or cannot be had, and then poll() has to do. */
static int open_again(mode_t mode)
{
    bool waits = S_ISFIFO(mode) || S_ISCHR(mode);
    return waits ? open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC) : -1;
}

bool guard_write_stderr(const char *line, size_t bytes)
{
    int before = errno;
    struct stat status = {.st_mode = 0};
    fstat(STDERR_FILENO, &status);
    int again = open_again(status.st_mode);
    struct pollfd room = {.fd = again >= 0 ? again : STDERR_FILENO, .events = POLLOUT};
    bool written = poll(&room, 1, 0) == 1 && room.revents == POLLOUT &&
                   write_unsignalled(room.fd, S_ISSOCK(status.st_mode), line, bytes);
    if (again >= 0)
        close(again);
    errno = before;
    return written;
}

/* `lost` lines before it. */
static bool write_line(const char *name_space, const char *text, unsigned lost)
{
    char line[SAY_HEAD_SIZE + SAY_TEXT_SIZE + 2 * SAY_TAIL_SIZE], tail[SAY_TAIL_SIZE] = "";
    if (lost > 0)
        snprintf(tail, sizeof tail, " (%u lines before it could not be written)", lost);
    int bytes = snprintf(line, sizeof line, "stampede-guard %s: %s%s\n", name_space, text, tail);
    return guard_write_stderr(line, (size_t)bytes);
}

static void say_line(struct say *say, enum say_tone tone, const char *text)
{
    if (say->log != NULL) {
        blocking_callback_begins();
        say->log(say->context, text, tone == SAY_GOOD);
        blocking_callback_ends();
        return;
    }
    unsigned lost = atomic_exchange(&say->lost, 0);
    if (!write_line(say->name_space, text, lost))
        atomic_fetch_add(&say->lost, lost + 1);
}

/* ---- the gate, under the mutex ---- */

static bool may_pass_gate(struct say_gate *gate, const char *text, uint64_t now_us)
{
    if (now_us - gate->since_us >= (uint64_t)SAY_WINDOW_MS * 1000 && gate->withheld == 0) {
        gate->since_us = now_us;
        gate->passed = 0;
    } else if (strcmp(text, gate->last) == 0) {
        return false;
    }
    snprintf(gate->last, sizeof gate->last, "%s", text);
    bool passes = gate->passed < SAY_BURST;
    *(passes ? &gate->passed : &gate->withheld) += 1;
    return passes;
}

/* True: `last` is to be said for all that were withheld. */
static bool end_window(struct say_gate *gate, uint64_t now_us)
{
    if (gate->withheld == 0 || now_us - gate->since_us < (uint64_t)SAY_WINDOW_MS * 1000)
        return false;
    gate->since_us = now_us;
    gate->passed = 1;
    gate->withheld = 0;
    return true;
}

/* ---- saying ---- */

void say(struct say *say, enum say_subject subject, enum say_tone tone, const char *format, ...)
{
    char text[SAY_TEXT_SIZE];
    struct say_gate *gate = &say->gates[subject];
    va_list args;
    if (say->log == guard_log_none)
        return;
    va_start(args, format);
    compose_line(text, format, args);
    va_end(args);
    pthread_mutex_lock(&say->mutex);
    bool news = tone == SAY_BAD || gate->troubled || say->log != NULL; /* to stderr */
    gate->troubled = tone == SAY_BAD;
    bool passes = news && may_pass_gate(gate, text, clock_now_us());
    pthread_mutex_unlock(&say->mutex);
    if (passes)
        say_line(say, tone, text);
}

void say_rest(struct say *say, uint64_t now_us)
{
    char text[SAY_TEXT_SIZE + SAY_TAIL_SIZE];
    for (size_t i = 0; i < SAY_SUBJECTS; i++) {
        struct say_gate *gate = &say->gates[i];
        pthread_mutex_lock(&say->mutex);
        uint32_t withheld = gate->withheld;
        bool due = end_window(gate, now_us);
        enum say_tone tone = gate->troubled ? SAY_BAD : SAY_GOOD;
        if (due)
            snprintf(text, sizeof text, "%s (the last of %u lines withheld)", gate->last, (unsigned)withheld);
        pthread_mutex_unlock(&say->mutex);
        if (due)
            say_line(say, tone, text);
    }
}

void say_in_child(const struct say *say, const char *format, ...)
{
    char text[SAY_TEXT_SIZE];
    va_list args;
    if (say->log == guard_log_none)
        return;
    va_start(args, format);
    compose_line(text, format, args);
    va_end(args);
    write_line(say->name_space, text, 0);
}
