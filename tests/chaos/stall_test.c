/* SPDX-License-Identifier: MIT */
/* stall_test.c - what is a stall, and the watches: one for each processor, and this process stopped for real. */
#include "tests/chaos/scene.h"
#include "tests/chaos/stall.h"

#include "load/base/clock.h"
#include "tests/support/test.h"

#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIMIT_US = SCENE_REDIS_LIMIT_MS * 1000, LONG_MS = SCENE_REDIS_LIMIT_MS * 2, BEGIN_US = 1000000 };

/* ---- what is one ---- */

TEST(only_what_can_make_a_command_late_is_a_stall)
{
    struct history history;
    uint64_t last_us = BEGIN_US;
    history_init(&history);
    stall_look(&history, &last_us, BEGIN_US + LIMIT_US - 1);
    stall_look(&history, &last_us, BEGIN_US + 2 * LIMIT_US - 2);
    assert_int_equal(history.stalls.count, 0);
    stall_look(&history, &last_us, BEGIN_US + 3 * LIMIT_US - 2);
    assert_int_equal(history.stalls.count, 1);
    assert_int_equal(history.stalls.items[0].begin_us, BEGIN_US + 2 * LIMIT_US - 2);
    assert_int_equal(history.stalls.items[0].end_us, BEGIN_US + 3 * LIMIT_US - 2);
    assert_int_equal(history.faults.count, 0);
    history_clear(&history);
}

TEST(a_processor_that_stands_still_is_noticed_while_another_goes_on)
{
    struct history history;
    uint64_t one_us = BEGIN_US, other_us = BEGIN_US;
    history_init(&history);
    for (uint64_t now_us = BEGIN_US; now_us <= BEGIN_US + 2 * LIMIT_US; now_us += LIMIT_US / 10)
        stall_look(&history, &other_us, now_us);
    assert_int_equal(history.stalls.count, 0);
    stall_look(&history, &one_us, BEGIN_US + 2 * LIMIT_US);
    assert_int_equal(history.stalls.count, 1);
    assert_int_equal(history.stalls.items[0].begin_us, BEGIN_US);
    assert_int_equal(history.stalls.items[0].end_us, BEGIN_US + 2 * LIMIT_US);
    history_clear(&history);
}

/* ---- the watches ---- */

/* A thread of this process may run there and nowhere else. */
static bool has_watch(size_t processor)
{
    bool found = false;
    DIR *threads = opendir("/proc/self/task");
    assert_non_null(threads);
    for (struct dirent *entry; !found && (entry = readdir(threads)) != NULL;) {
        cpu_set_t set;
        pid_t thread = atoi(entry->d_name); /* "." and "..": 0, which is the thread that asks */
        found = thread != 0 && sched_getaffinity(thread, sizeof set, &set) == 0 && CPU_COUNT(&set) == 1 &&
                CPU_ISSET(processor, &set);
    }
    closedir(threads);
    return found;
}

TEST(each_processor_has_a_watch_of_its_own)
{
    struct history history;
    struct stall *stall = NULL;
    cpu_set_t processors;
    assert_int_equal(sched_getaffinity(0, sizeof processors, &processors), 0);
    history_init(&history);
    assert_true(stall_begin(&history, &stall));
    for (size_t i = 0; i < CPU_SETSIZE; i++) {
        if (CPU_ISSET(i, &processors))
            WAIT_UNTIL(has_watch(i));
    }
    stall_end(&stall);
    history_clear(&history);
}

static void stop_ourselves(uint32_t ms)
{
    pid_t us = getpid(), child = fork();
    assert_int_not_equal(child, -1);
    if (child == 0) {
        kill(us, SIGSTOP);
        clock_pause_ms(ms);
        kill(us, SIGCONT);
        _exit(0);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
}

TEST(a_process_that_is_stopped_has_stalled)
{
    struct history history;
    struct stall *stall = NULL;
    history_init(&history);
    assert_true(stall_begin(&history, &stall));
    uint64_t since_us = clock_us(); /* before are a slow machine's own */
    stop_ourselves(LONG_MS);
    stall_end(&stall);
    assert_null(stall);
    assert_true(history.stalls.count > 0);
    assert_true(history.stalls.items[history.stalls.count - 1].end_us > since_us);
    stall_end(&stall);
    history_clear(&history);
}
