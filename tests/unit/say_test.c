/* SPDX-License-Identifier: MIT */
/* say_test.c - what the guard says, how often, and where. */
#undef _FORTIFY_SOURCE /* with it poll() is an inline function, and there can be no other */

#include "guard/base/clock.h"
#include "guard/base/say.h"
#include "tests/support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HEARD_MAX = 32 };

static struct say teller;
static struct ear {
    unsigned count;
    char lines[HEARD_MAX][SAY_TEXT_SIZE + 64];
} ear;

static void hear(void *context, const char *text, bool good)
{
    (void)context, (void)good;
    assert_true(ear.count < HEARD_MAX);
    snprintf(ear.lines[ear.count++], sizeof ear.lines[0], "%s", text);
}

static void say_to(guard_log *log)
{
    say_clear(&teller);
    memset(&teller, 0, sizeof teller);
    say_init(&teller, "shop", log, NULL);
}

static bool say_to_the_ear(void)
{
    ear.count = 0;
    say_to(hear);
    return true;
}

TEST(of_each_subject_a_burst_passes_and_the_last_of_the_rest_later, P96)
{
    for (int i = 0; i < 1000; i++)
        say(&teller, SAY_LOADER, SAY_BAD, "line %d", i);
    assert_int_equal(ear.count, SAY_BURST);
    say(&teller, SAY_CALLER, SAY_BAD, "another matter");
    assert_int_equal(ear.count, SAY_BURST + 1);
    say_rest(&teller, clock_now_us()); /* the window is not over */
    assert_int_equal(ear.count, SAY_BURST + 1);
    say_rest(&teller, UINT64_MAX);
    assert_int_equal(ear.count, SAY_BURST + 2);
    assert_string_equal(ear.lines[SAY_BURST + 1], "line 999 (the last of 995 lines withheld)");
    say_rest(&teller, UINT64_MAX);
    assert_int_equal(ear.count, SAY_BURST + 2);
}

TEST(no_line_is_said_twice_in_a_row, P96)
{
    for (int i = 0; i < 100; i++)
        say(&teller, SAY_REDIS, SAY_GOOD, "up");
    say(&teller, SAY_REDIS, SAY_BAD, "down");
    say(&teller, SAY_REDIS, SAY_GOOD, "up");
    assert_int_equal(ear.count, 3);
    say_rest(&teller, UINT64_MAX);
    assert_int_equal(ear.count, 3);
}

static void hear_tone(void *context, const char *text, bool good)
{
    char line[SAY_TEXT_SIZE + 64];
    snprintf(line, sizeof line, "%s: %s", good ? "good" : "bad", text);
    hear(context, line, good);
}

TEST(a_host_with_levels_hears_which_news_are_good)
{
    say_to(hear_tone);
    say(&teller, SAY_REDIS, SAY_GOOD, "up");
    for (int i = 0; i < SAY_BURST; i++)
        say(&teller, SAY_REDIS, SAY_BAD, "down %d", i);
    assert_string_equal(ear.lines[0], "good: up");
    assert_string_equal(ear.lines[1], "bad: down 0");
    say_rest(&teller, UINT64_MAX);
    assert_string_equal(ear.lines[SAY_BURST], "bad: down 4 (the last of 1 lines withheld)");
    say(&teller, SAY_REDIS, SAY_GOOD, "up");
    for (int i = 0; i < SAY_BURST; i++)
        say(&teller, SAY_REDIS, i % 2 == 0 ? SAY_BAD : SAY_GOOD, "so %d", i);
    say(&teller, SAY_REDIS, SAY_GOOD, "up again");
    say_rest(&teller, UINT64_MAX);
    assert_non_null(strstr(ear.lines[ear.count - 1], "good: up again (the last of"));
}

TEST(a_key_can_forge_no_line, P96)
{
    say(&teller, SAY_LOADER, SAY_BAD, "%s", "a\nb\r\x1b[2J\xc3\xa9\\x0a~");
    assert_string_equal(ear.lines[0], "a\\x0ab\\x0d\\x1b[2J\\xc3\\xa9\\x5cx0a~");
    char longest[2000];
    memset(longest, '\n', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    say(&teller, SAY_LOADER, SAY_BAD, "%s", longest);
    assert_true(strlen(ear.lines[1]) < SAY_TEXT_SIZE);
    assert_int_equal(strlen(ear.lines[1]) % 4, 0); /* no half of an escape */
}

/* ---- stderr ---- */

/* From here to the end of the test stderr is this pipe; its reading end is returned. */
static int redirect_stderr(int *before)
{
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    *before = dup(STDERR_FILENO);
    assert_true(*before >= 0);
    assert_true(dup2(fds[1], STDERR_FILENO) >= 0);
    close(fds[1]);
    return fds[0];
}

static void restore_stderr(int before)
{
    assert_true(dup2(before, STDERR_FILENO) >= 0);
    close(before);
}

/* What has been written to it. */
static const char *read_all(int fd)
{
    static char text[65536 + 4096]; /* more than a pipe takes */
    size_t bytes = 0;
    ssize_t got = 0;
    fcntl(fd, F_SETFL, O_NONBLOCK);
    while ((got = read(fd, text + bytes, sizeof text - 1 - bytes)) > 0)
        bytes += (size_t)got;
    text[bytes] = '\0';
    return text;
}

/* ---- a reader that leaves between poll() and write() ---- */

static int leaves = -1; /* its descriptor */
static int filled = -1; /* another writer fills this pipe at that instant */

static void fill_pipe(int fd)
{
    static const char page[4096];
    int before = fcntl(fd, F_GETFL);
    fcntl(fd, F_SETFL, before | O_NONBLOCK);
    while (write(fd, page, sizeof page) > 0)
        continue;
    fcntl(fd, F_SETFL, before);
}

/* In place of libc's. */
__attribute__((visibility("default"))) int poll(struct pollfd *fds, nfds_t count, int limit_ms)
{
    const struct timespec limit = {limit_ms / 1000, limit_ms % 1000 * 1000000L};
    int ready = ppoll(fds, count, limit_ms < 0 ? NULL : &limit, NULL);
    if (leaves >= 0)
        close(leaves);
    leaves = -1;
    if (filled >= 0)
        fill_pipe(filled);
    filled = -1;
    return ready;
}

static bool sigpipe_is_pending(void)
{
    sigset_t pending;
    sigpending(&pending);
    return sigismember(&pending, SIGPIPE) == 1;
}

TEST(a_reader_that_leaves_at_the_last_instant_kills_nobody)
{
    int before;
    signal(SIGPIPE, SIG_DFL);
    say_to(NULL);
    leaves = redirect_stderr(&before);
    say(&teller, SAY_REDIS, SAY_BAD, "to somebody who leaves");
    restore_stderr(before);
    assert_int_equal(leaves, -1);
    assert_false(sigpipe_is_pending());
}

TEST(a_sigpipe_of_the_hosts_stays_pending)
{
    sigset_t pipe, unblocked;
    int before;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, &unblocked);
    raise(SIGPIPE);
    say_to(NULL);
    leaves = redirect_stderr(&before);
    say(&teller, SAY_REDIS, SAY_BAD, "to somebody who leaves");
    restore_stderr(before);
    assert_true(sigpipe_is_pending());
    assert_int_equal(sigtimedwait(&pipe, NULL, &(struct timespec){0, 0}), SIGPIPE);
    pthread_sigmask(SIG_SETMASK, &unblocked, NULL);
}

/* ---- where it goes ---- */

TEST(stderr_hears_who_speaks_and_good_news_only_after_bad, P96)
{
    int before, fd = redirect_stderr(&before);
    say_to(NULL);
    say(&teller, SAY_REDIS, SAY_GOOD, "up");
    say(&teller, SAY_REDIS, SAY_BAD, "down");
    say(&teller, SAY_WAKE, SAY_GOOD, "wake up");
    say(&teller, SAY_REDIS, SAY_GOOD, "up");
    restore_stderr(before);
    assert_string_equal(read_all(fd), "stampede-guard shop: down\nstampede-guard shop: up\n");
    close(fd);
}

TEST(what_was_lost_while_nobody_read_is_counted_and_said_with_the_next_line)
{
    int before, fd = redirect_stderr(&before);
    say_to(NULL);
    fill_pipe(STDERR_FILENO);
    say(&teller, SAY_REDIS, SAY_BAD, "first");
    say(&teller, SAY_WAKE, SAY_BAD, "second");
    read_all(fd);
    say(&teller, SAY_REDIS, SAY_BAD, "third");
    say(&teller, SAY_REDIS, SAY_BAD, "fourth");
    assert_string_equal(read_all(fd), "stampede-guard shop: third (2 lines before it could not be written)\n"
                                      "stampede-guard shop: fourth\n");
    restore_stderr(before);
    close(fd);
}

TEST(who_fills_the_pipe_at_the_last_instant_makes_nobody_wait)
{
    int before, fd = redirect_stderr(&before);
    filled = STDERR_FILENO;
    assert_false(guard_write_stderr("x\n", 2));
    assert_int_equal(filled, -1);
    assert_int_equal(fcntl(STDERR_FILENO, F_GETFL) & O_NONBLOCK, 0); /* others share it */
    read_all(fd);
    assert_true(guard_write_stderr("y\n", 2));
    assert_string_equal(read_all(fd), "y\n");
    restore_stderr(before);
    close(fd);
}

TEST(a_socket_that_nobody_reads_makes_nobody_wait)
{
    int ends[2], before = dup(STDERR_FILENO);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    dup2(ends[1], STDERR_FILENO);
    filled = STDERR_FILENO;
    assert_false(guard_write_stderr("x\n", 2));
    close(ends[0]);
    assert_false(guard_write_stderr("x\n", 2));
    assert_false(sigpipe_is_pending());
    restore_stderr(before);
    close(ends[1]);
}

/* As the limit of a file's size has it. */
TEST(a_file_that_may_not_grow_kills_nobody)
{
    struct rlimit limit, before_limit;
    FILE *file = tmpfile();
    int before = dup(STDERR_FILENO);
    sigset_t pending;
    signal(SIGXFSZ, SIG_DFL);
    getrlimit(RLIMIT_FSIZE, &before_limit);
    limit = (struct rlimit){.rlim_cur = 2, .rlim_max = before_limit.rlim_max};
    dup2(fileno(file), STDERR_FILENO);
    setrlimit(RLIMIT_FSIZE, &limit);
    assert_true(guard_write_stderr("x\n", 2));
    assert_false(guard_write_stderr("y\n", 2));
    setrlimit(RLIMIT_FSIZE, &before_limit);
    restore_stderr(before);
    sigpending(&pending);
    assert_int_equal(sigismember(&pending, SIGXFSZ), 0);
    fclose(file);
}

TEST(it_can_be_switched_off)
{
    int before, fd = redirect_stderr(&before);
    say_to(guard_log_none);
    say(&teller, SAY_REDIS, SAY_BAD, "down");
    say_in_child(&teller, "in a child");
    restore_stderr(before);
    assert_string_equal(read_all(fd), "");
    close(fd);
}

/* A test that waits here for ever fails by its limit. */
TEST(nobody_waits_or_dies_for_a_stderr_that_nobody_reads, P96)
{
    int before, fd = redirect_stderr(&before);
    signal(SIGPIPE, SIG_DFL);
    say_to(NULL);
    fill_pipe(STDERR_FILENO);
    errno = 7;
    say(&teller, SAY_REDIS, SAY_BAD, "to a full pipe");
    assert_int_equal(errno, 7);
    close(fd);
    say(&teller, SAY_REDIS, SAY_BAD, "to nobody");
    assert_int_equal(errno, 7);
    restore_stderr(before);
}

TEST_GROUP(.before = say_to_the_ear);
