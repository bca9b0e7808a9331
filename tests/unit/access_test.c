/* SPDX-License-Identifier: MIT */
/*
 * access_test.c - the access log's lanes and its writer: every line arrives whole, or is counted as dropped, and
 * nobody waits for it.
 */
#include "app/http/access.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LANES = 3, LINES = 20000, PATH_BYTES = 128, FILES_MAX = 64 };

static char folder[] = "/tmp/access_test.XXXXXX";
static char file[PATH_BYTES];
static struct access_log *access_log_of_test;

static bool up(void)
{
    signal(SIGXFSZ, SIG_IGN);
    return mkdtemp(folder) != NULL && snprintf(file, sizeof file, "%s/log", folder) > 0;
}

static bool down(void)
{
    return rmdir(folder) == 0;
}

static bool after(void)
{
    access_close(&access_log_of_test);
    unlink(file);
    return true;
}

static void start(size_t lanes)
{
    assert_true(access_open(file, lanes, &access_log_of_test));
}

/* One whose length varies, and whose number is its request id. */
static void put(size_t lane, unsigned number)
{
    char request[16], agent[200];
    snprintf(request, sizeof request, "%u", number);
    snprintf(agent, sizeof agent, "%.*s", (int)(number * 37 % 150),
             "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
             "xxxxxxxxxxx"
             "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
    const struct access_line line = {.began = {1000, 0},
                                     .method = "GET",
                                     .target = "/products/7",
                                     .protocol = "HTTP/1.1",
                                     .status = 200,
                                     .request = request,
                                     .user_agent = agent};
    access_put(access_lane(access_log_of_test, lane), &line);
}

static struct access_stats stats(void)
{
    struct access_stats now;
    access_stats(access_log_of_test, &now);
    return now;
}

/* ---- reading ---- */

struct seen {
    uint64_t lines;
    unsigned count[LANES * LINES]; /* of each number */
};

static void see_line(struct seen *seen, const char *line)
{
    static const char HEAD[] = "- - - [01/Jan/1970:00:16:40 +0000] \"GET /products/7 HTTP/1.1\" ";
    const char *tail = strstr(line, "\" 0.000000 - - - ");
    unsigned number = 0;
    char end[8];
    if (strncmp(line, HEAD, sizeof HEAD - 1) != 0 || tail == NULL ||
        sscanf(tail + 17, "%u - %7s", &number, end) != 2 || strcmp(end, "done") != 0)
        fail_msg("no whole line: %s", line);
    assert_true(number < LANES * LINES);
    seen->count[number]++;
    seen->lines++;
}

static void see_file(struct seen *seen, const char *path)
{
    char line[ACCESS_LINE_MAX + 2];
    FILE *in = fopen(path, "re");
    assert_non_null(in);
    while (fgets(line, sizeof line, in) != NULL)
        see_line(seen, line);
    fclose(in);
}

static struct seen *seen_nothing(void)
{
    static struct seen seen;
    memset(&seen, 0, sizeof seen);
    return &seen;
}

/* ---- several loops ---- */

struct loop {
    pthread_t thread;
    size_t index;
};

/* Faster than any server loop, but never so fast that a line has to be dropped. */
static void *put_many(void *context)
{
    const struct loop *loop = context;
    const struct access_lane *lane = access_lane(access_log_of_test, loop->index);
    for (unsigned i = 0; i < LINES; i++) {
        while (atomic_load(&lane->head) - atomic_load(&lane->tail) > ACCESS_LANE_BYTES / 2)
            sched_yield();
        put(loop->index, (unsigned)loop->index * LINES + i);
    }
    return NULL;
}

static void loops_start(struct loop loops[LANES])
{
    start(LANES);
    for (size_t i = 0; i < LANES; i++) {
        loops[i].index = i;
        assert_int_equal(pthread_create(&loops[i].thread, NULL, put_many, &loops[i]), 0);
    }
}

static void loops_join(struct loop loops[LANES])
{
    for (size_t i = 0; i < LANES; i++)
        pthread_join(loops[i].thread, NULL);
}

static void assert_all_once(const struct seen *seen)
{
    for (unsigned i = 0; i < LANES * LINES; i++)
        if (seen->count[i] != 1)
            fail_msg("line %u is there %u times", i, seen->count[i]);
}

TEST(lines_of_all_loops_arrive_whole_and_once, P170)
{
    struct loop loops[LANES];
    struct seen *seen = seen_nothing();
    loops_start(loops);
    loops_join(loops);
    assert_int_equal(stats().lines, LANES * LINES);
    assert_int_equal(stats().dropped, 0);
    access_close(&access_log_of_test);
    see_file(seen, file);
    assert_all_once(seen);
}

TEST(a_file_renamed_under_load_loses_and_splits_no_line)
{
    struct loop loops[LANES];
    struct seen *seen = seen_nothing();
    char old[PATH_BYTES + 16];
    unsigned files = 0;
    loops_start(loops);
    for (; files < FILES_MAX && stats().lines < LANES * LINES; files++) {
        struct stat status;
        snprintf(old, sizeof old, "%s.%u", file, files);
        assert_int_equal(rename(file, old), 0);
        access_reopen(access_log_of_test);
        WAIT_UNTIL(stat(file, &status) == 0);
    }
    loops_join(loops);
    access_close(&access_log_of_test);
    assert_true(files > 1);
    see_file(seen, file);
    while (files-- > 0) {
        snprintf(old, sizeof old, "%s.%u", file, files);
        see_file(seen, old);
        unlink(old);
    }
    assert_all_once(seen);
}

TEST(what_is_put_is_in_the_file_before_long)
{
    struct stat status;
    start(1);
    put(0, 1);
    WAIT_UNTIL(stat(file, &status) == 0 && status.st_size > 0);
}

/* ---- a file that takes nothing ---- */

static void put_until_dropped(unsigned *number)
{
    while (stats().dropped < 100 && *number < LANES * LINES)
        put(0, (*number)++);
    assert_true(stats().dropped >= 100);
}

static void read_pipe(int fd, struct seen *seen, uint64_t lines)
{
    FILE *in = fdopen(fd, "re");
    char line[ACCESS_LINE_MAX + 2];
    assert_non_null(in);
    while (seen->lines < lines && fgets(line, sizeof line, in) != NULL)
        see_line(seen, line);
    fclose(in);
}

TEST(a_pipe_that_nobody_reads_costs_lines_and_no_time)
{
    struct seen *seen = seen_nothing();
    unsigned number = 0;
    assert_int_equal(mkfifo(file, 0600), 0);
    start(1);
    put_until_dropped(&number);
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    read_pipe(fd, seen, stats().lines);
    assert_int_equal(seen->lines + stats().dropped, number);
    for (unsigned i = 0; i < number; i++)
        assert_true(seen->count[i] <= 1);
}

TEST(the_reader_of_a_pipe_may_leave_and_come_back, P170)
{
    struct seen *seen = seen_nothing();
    assert_int_equal(mkfifo(file, 0600), 0);
    start(1);
    put(0, 1);
    read_pipe(open(file, O_RDONLY | O_CLOEXEC), seen, 1);
    put(0, 2);
    put(0, 3);
    read_pipe(open(file, O_RDONLY | O_CLOEXEC), seen, 3);
    assert_int_equal(stats().dropped, 0);
}

TEST(a_full_disk_costs_lines_and_no_time)
{
    unsigned number = 0;
    assert_true(access_open("/dev/full", 1, &access_log_of_test));
    put_until_dropped(&number);
    assert_int_equal(stats().lines + stats().dropped, number);
}

static void limit_files(rlim_t bytes)
{
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* The disk is full in the middle of a line. */
static void fill_disk(unsigned lines)
{
    struct stat status;
    limit_files(500);
    start(1);
    for (unsigned i = 0; i < lines; i++)
        put(0, i);
    WAIT_UNTIL(stat(file, &status) == 0 && status.st_size == 500);
}

TEST(a_line_that_a_full_disk_cut_goes_on_when_there_is_room)
{
    struct seen *seen = seen_nothing();
    fill_disk(50);
    limit_files(RLIM_INFINITY);
    access_close(&access_log_of_test);
    see_file(seen, file);
    assert_int_equal(seen->lines, 50);
}

TEST(a_line_that_cannot_be_finished_is_dropped_and_the_new_file_begins_with_a_whole_one, P170)
{
    struct seen *seen = seen_nothing();
    char old[PATH_BYTES + 16];
    fill_disk(50);
    snprintf(old, sizeof old, "%s.old", file);
    assert_int_equal(rename(file, old), 0);
    access_reopen(access_log_of_test);
    WAIT_UNTIL(stats().dropped == 1);
    limit_files(RLIM_INFINITY);
    access_close(&access_log_of_test);
    unlink(old);
    see_file(seen, file);
    assert_in_range(seen->lines, 45, 48);
    assert_int_equal(seen->count[49], 1);
}

TEST(a_file_that_cannot_be_opened_anew_leaves_the_old_one, P170)
{
    struct seen *seen = seen_nothing();
    struct stat status;
    char old[PATH_BYTES + 16];
    start(1);
    snprintf(old, sizeof old, "%s.old", file);
    assert_int_equal(rename(file, old), 0);
    assert_int_equal(mkdir(file, 0700), 0); /* nothing can be written to it */
    access_reopen(access_log_of_test);
    put(0, 1);
    WAIT_UNTIL(stat(old, &status) == 0 && status.st_size > 0);
    put(0, 2);
    access_close(&access_log_of_test);
    see_file(seen, old);
    assert_int_equal(seen->lines, 2);
    unlink(old);
    rmdir(file);
}

TEST_GROUP(.up = up, .down = down, .after = after);

TEST(without_a_log_there_is_nothing)
{
    struct access_log *none = NULL;
    struct access_stats zeros;
    access_reopen(none);
    access_close(&none);
    assert_null(access_lane(none, 3));
    access_stats(none, &zeros);
    assert_int_equal(zeros.lines + zeros.dropped, 0);
}

TEST(a_file_that_cannot_be_opened_is_refused)
{
    struct access_log *none = NULL;
    assert_false(access_open("/nowhere/log", 2, &none));
    assert_null(none);
}
