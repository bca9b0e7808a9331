/* SPDX-License-Identifier: MIT */
/* log_test.c - the log's gate and escaping, and that lines of many threads stay whole. */
#include "app/base/log.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

TEST(a_burst_passes_and_the_next_window_tells_how_many_did_not, P68)
{
    struct log_gate gate = {0};
    uint64_t suppressed;
    for (unsigned i = 0; i < LOG_BURST; i++) {
        assert_true(log_gate_pass(&gate, 1000 + i, &suppressed));
        assert_int_equal(suppressed, 0);
    }
    for (unsigned i = 0; i < 1000; i++) {
        assert_false(log_gate_pass(&gate, 1100, &suppressed));
    }
    assert_false(log_gate_pass(&gate, 1000 + LOG_WINDOW_MS - 1, &suppressed));
    assert_true(log_gate_pass(&gate, 1000 + LOG_WINDOW_MS, &suppressed));
    assert_int_equal(suppressed, 1001);
    assert_true(log_gate_pass(&gate, 1000 + LOG_WINDOW_MS, &suppressed));
    assert_int_equal(suppressed, 0);
}

TEST(a_first_line_at_instant_zero_passes)
{
    struct log_gate gate = {0};
    uint64_t suppressed;
    assert_true(log_gate_pass(&gate, 0, &suppressed));
    assert_int_equal(suppressed, 0);
}

TEST(control_characters_are_escaped_and_other_scripts_are_not)
{
    char out[64];
    assert_int_equal(log_escape("a\nb\x1b[2J\x7f", out, sizeof out), 17);
    assert_string_equal(out, "a\\x0ab\\x1b[2J\\x7f");
    log_escape("\xc2\x9b"
               "31m \xc3\xa9 \xe6\xb0\xb4",
               out, sizeof out);
    assert_string_equal(out, "\\xc2\\x9b31m \xc3\xa9 \xe6\xb0\xb4");
}

TEST(what_does_not_fit_is_cut_before_an_escape)
{
    char out[6];
    assert_int_equal(log_escape("abc\n", out, sizeof out), 3);
    assert_string_equal(out, "abc");
    assert_int_equal(log_escape("abcdefgh", out, sizeof out), 5);
    assert_int_equal(log_escape("", out, sizeof out), 0);
}

/* ---- the whole log, its stderr read back ---- */

/* stderr is another file while this is called; what was written to it goes into `text`. */
static void log_into(void (*speak)(void), char *text, size_t text_size)
{
    char path[] = "/tmp/log_test.XXXXXX";
    int file = mkstemp(path), kept = dup(STDERR_FILENO);
    assert_true(file >= 0 && kept >= 0);
    unlink(path);
    dup2(file, STDERR_FILENO);
    fcntl(STDERR_FILENO, F_SETFL, O_APPEND);
    speak();
    dup2(kept, STDERR_FILENO);
    close(kept);
    ssize_t bytes = pread(file, text, text_size - 1, 0);
    close(file);
    assert_true(bytes > 0);
    text[bytes] = '\0';
}

static void speak_to(const char *suffix)
{
    struct stat status;
    char stream[64];
    assert_int_equal(fstat(STDERR_FILENO, &status), 0);
    snprintf(stream, sizeof stream, "%ju:%ju%s", (uintmax_t)status.st_dev, (uintmax_t)status.st_ino, suffix);
    setenv("JOURNAL_STREAM", stream, 1);
    log_open();
    log_line(LOG_LEVEL_INFO, "first", "%s", "");
    log_line(LOG_LEVEL_WARNING, "second", "%s", "");
    log_line(LOG_LEVEL_ERROR, "third", "%s", "");
    unsetenv("JOURNAL_STREAM");
    log_open();
    log_line(LOG_LEVEL_ERROR, "fourth", "%s", "");
}

static void speak_to_the_journal(void)
{
    speak_to("");
}

static void speak_beside_the_journal(void)
{
    speak_to("0");
}

TEST(the_journal_is_told_priorities_and_no_other_file_is)
{
    char text[2048];
    log_into(speak_to_the_journal, text, sizeof text);
    assert_int_equal(strncmp(text, "<6>time=", 8), 0);
    assert_non_null(strstr(text, "event=first\n<4>time="));
    assert_non_null(strstr(text, "event=second\n<3>time="));
    assert_non_null(strstr(text, "event=third\ntime="));
    log_into(speak_beside_the_journal, text, sizeof text);
    assert_null(strchr(text, '<'));
}

/* A pipe that is full: its reader has stopped. A test that waits here for ever fails by its limit. */
TEST(what_nobody_reads_is_counted_and_said_when_the_reader_is_back)
{
    static char page[4096], text[65536 + 4096];
    const uint64_t before = log_dropped();
    int ends[2], kept = dup(STDERR_FILENO);
    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    while (write(ends[1], page, sizeof page) > 0)
        continue;
    fcntl(ends[1], F_SETFL, 0);
    dup2(ends[1], STDERR_FILENO);
    for (int i = 0; i < 3; i++)
        log_line(LOG_LEVEL_INFO, "unread", "%s", "");
    log_catch_up();
    const uint64_t dropped = log_dropped() - before;
    while (read(ends[0], text, sizeof text) > 0)
        continue;
    log_catch_up();
    log_catch_up();
    log_line(LOG_LEVEL_INFO, "read", "%s", "");
    dup2(kept, STDERR_FILENO);
    close(kept);
    const ssize_t bytes = read(ends[0], text, sizeof text - 1);
    close(ends[0]);
    close(ends[1]);
    assert_int_equal(dropped, 3);
    assert_true(bytes > 0);
    text[bytes] = '\0';
    const char *told = strstr(text, "level=warning event=log_dropped lines=3 ");
    assert_non_null(told);
    assert_null(strstr(told + strlen("level=warning event=log_dropped"), "event=log_dropped"));
    assert_non_null(strstr(told, "event=read\n"));
    assert_null(strstr(text, "event=unread"));
}

enum { THREADS = 4, LINES = 20 };

static void *log_from_a_thread(void *context)
{
    char event[16];
    static char names[THREADS][16];
    size_t index = *(const size_t *)context;
    snprintf(event, sizeof event, "thread_%zu", index);
    memcpy(names[index], event, sizeof event);
    for (unsigned i = 0; i < LINES; i++) {
        log_event(LOG_LEVEL_INFO, names[index], "line=%u text=\"%s\"", i, "one\ntwo");
    }
    return NULL;
}

static size_t count_of(const char *haystack, const char *needle)
{
    size_t count = 0;
    for (const char *at = haystack; (at = strstr(at, needle)) != NULL; at += strlen(needle)) {
        count++;
    }
    return count;
}

static void speak_in_threads(void)
{
    pthread_t threads[THREADS];
    size_t numbers[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        numbers[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, log_from_a_thread, &numbers[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    log_flush();
    for (unsigned i = 0; i < LINES; i++) {
        log_line(LOG_LEVEL_INFO, "speaker", "whole=%u", i);
    }
    log_flush();
}

TEST(lines_of_many_threads_stay_whole_and_are_limited_per_event_unless_their_speaker_limits_them)
{
    char text[65536];
    log_into(speak_in_threads, text, sizeof text);
    assert_int_equal(count_of(text, "\n"), THREADS * (LOG_BURST + 1) + LINES);
    assert_int_equal(count_of(text, " whole="), LINES);
    assert_int_equal(count_of(text, " text=\"one\\x0atwo\"\n"), THREADS * LOG_BURST);
    assert_int_equal(count_of(text, "suppressed=15\n"), THREADS);
    assert_int_equal(count_of(text, "time="), THREADS * (LOG_BURST + 1) + LINES);
}
