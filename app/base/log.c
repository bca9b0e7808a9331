/* SPDX-License-Identifier: MIT */
/*
 * log.c - see log.h. A line is put together on the caller's stack; the mutex guards only the gates.
 */
#include "app/base/log.h"

#include "app/base/clock.h"
#include "guard/guard.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { EVENT_COUNT = 64 }; /* different event names; later ones share the last gate */

struct event {
    const char *name; /* a literal */
    enum log_level level;
    struct log_gate gate;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct event events[EVENT_COUNT]; /* under lock */

static bool to_journal; /* set before there are threads */

static _Atomic uint64_t dropped, unsaid; /* lines: ever; that no log_dropped has told of yet */

/* As syslog numbers them. */
static const char *const priorities[] = {
    [LOG_LEVEL_INFO] = "<6>", [LOG_LEVEL_WARNING] = "<4>", [LOG_LEVEL_ERROR] = "<3>"};
static const char *const level_names[] = {
    [LOG_LEVEL_INFO] = "info", [LOG_LEVEL_WARNING] = "warning", [LOG_LEVEL_ERROR] = "error"};

/* ---- the gate ---- */

bool log_gate_pass(struct log_gate *gate, uint64_t now_ms, uint64_t *suppressed)
{
    *suppressed = 0;
    if (!gate->used || now_ms - gate->since_ms >= LOG_WINDOW_MS) {
        *suppressed = gate->suppressed;
        *gate = (struct log_gate){.used = true, .since_ms = now_ms};
    }
    if (gate->passed < LOG_BURST) {
        gate->passed++;
        return true;
    }
    gate->suppressed++;
    return false;
}

/* ---- the line ---- */

/* ASCII controls, and the C1 controls that UTF-8 writes as C2 80..9F: terminals obey both. */
static size_t control_bytes(const unsigned char *text)
{
    if (text[0] < 0x20 || text[0] == 0x7f)
        return 1;
    return text[0] == 0xc2 && text[1] >= 0x80 && text[1] <= 0x9f ? 2 : 0;
}

size_t log_escape(const char *text, char *out, size_t out_size)
{
    size_t length = 0;

    for (const unsigned char *byte = (const unsigned char *)text; *byte != '\0';) {
        size_t controls = control_bytes(byte);

        if (length + (controls > 0 ? 4 * controls : 1) >= out_size)
            break;
        for (size_t i = 0; i < controls; i++, byte++)
            length += (size_t)snprintf(out + length, 5, "\\x%02x", *byte);
        if (controls == 0)
            out[length++] = (char)*byte++;
    }
    out[length] = '\0';
    return length;
}

static size_t line_head(char *out, size_t out_size, enum log_level level, const char *event)
{
    const struct timespec now = clock_wall();
    struct tm parts;
    size_t length = 0;

    if (to_journal)
        length = (size_t)snprintf(out, out_size, "%s", priorities[level]);
    gmtime_r(&now.tv_sec, &parts);
    length += strftime(out + length, out_size - length, "time=%Y-%m-%dT%H:%M:%S", &parts);
    int added = snprintf(out + length, out_size - length, ".%03ldZ level=%s event=%.64s ",
                         now.tv_nsec / 1000000, level_names[level], event);
    return length + (size_t)added;
}

static bool write_now(enum log_level level, const char *event, const char *pairs)
{
    char line[LOG_LINE_BYTES];
    size_t length = line_head(line, sizeof(line), level, event);

    length += log_escape(pairs, line + length, sizeof(line) - length - 1);
    while (length > 0 && line[length - 1] == ' ')
        length--;
    line[length++] = '\n';
    return guard_write_stderr(line, length);
}

void log_catch_up(void)
{
    const uint64_t lines = atomic_exchange(&unsaid, 0);
    char pairs[160];

    if (lines == 0)
        return;
    snprintf(pairs, sizeof(pairs),
             "lines=%" PRIu64 " reason=\"the reader of stderr stood still, or its file could not grow\"",
             lines);
    if (!write_now(LOG_LEVEL_WARNING, "log_dropped", pairs))
        atomic_fetch_add(&unsaid, lines);
}

static void write_line(enum log_level level, const char *event, const char *pairs)
{
    log_catch_up();
    if (write_now(level, event, pairs))
        return;
    atomic_fetch_add(&dropped, 1);
    atomic_fetch_add(&unsaid, 1);
}

uint64_t log_dropped(void)
{
    return atomic_load(&dropped);
}

static void write_suppressed(enum log_level level, const char *event, uint64_t count)
{
    char pairs[64];

    snprintf(pairs, sizeof(pairs), "suppressed=%" PRIu64, count);
    write_line(level, event, pairs);
}

void log_open(void)
{
    const char *stream = getenv("JOURNAL_STREAM");
    char own[64];
    struct stat status;

    to_journal = false;
    if (stream == NULL || fstat(STDERR_FILENO, &status) != 0)
        return;
    snprintf(own, sizeof(own), "%ju:%ju", (uintmax_t)status.st_dev, (uintmax_t)status.st_ino);
    to_journal = strcmp(stream, own) == 0;
}

/* ---- events ---- */

/* Under lock. */
static struct event *find_event(const char *name)
{
    size_t i = 0;

    while (i < EVENT_COUNT - 1 && events[i].name != NULL && strcmp(events[i].name, name) != 0)
        i++;
    if (events[i].name == NULL)
        events[i].name = i < EVENT_COUNT - 1 ? name : "other";
    return &events[i];
}

static bool admit(enum log_level level, const char *name, uint64_t *suppressed)
{
    pthread_mutex_lock(&lock);
    struct event *event = find_event(name);
    event->level = level;
    bool admitted = log_gate_pass(&event->gate, clock_ms(), suppressed);
    pthread_mutex_unlock(&lock);
    return admitted;
}

__attribute__((format(printf, 3, 0))) static void write_pairs(enum log_level level, const char *event,
                                                              const char *format, va_list arguments)
{
    char pairs[LOG_LINE_BYTES];

    vsnprintf(pairs, sizeof(pairs), format, arguments);
    write_line(level, event, pairs);
}

void log_event(enum log_level level, const char *event, const char *format, ...)
{
    int saved_errno = errno;
    uint64_t suppressed;
    bool admitted = admit(level, event, &suppressed);

    if (suppressed > 0)
        write_suppressed(level, event, suppressed);
    if (admitted) {
        va_list arguments;

        va_start(arguments, format);
        write_pairs(level, event, format, arguments);
        va_end(arguments);
    }
    errno = saved_errno;
}

void log_line(enum log_level level, const char *event, const char *format, ...)
{
    int saved_errno = errno;
    va_list arguments;

    va_start(arguments, format);
    write_pairs(level, event, format, arguments);
    va_end(arguments);
    errno = saved_errno;
}

void log_flush(void)
{
    for (size_t i = 0; i < EVENT_COUNT; i++) {
        pthread_mutex_lock(&lock);
        struct event event = events[i];
        events[i].gate.suppressed = 0;
        pthread_mutex_unlock(&lock);
        if (event.gate.suppressed > 0)
            write_suppressed(event.level, event.name, event.gate.suppressed);
    }
    log_catch_up();
}
