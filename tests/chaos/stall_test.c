/* SPDX-License-Identifier: MIT */
/* stall_test.c - the watch over this process: it is stopped for real, and what was too short is no excuse. */
#include "tests/chaos/scene.h"
#include "tests/chaos/stall.h"

#include "load/base/clock.h"
#include "tests/support/test.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SHORT_MS = SCENE_REDIS_LIMIT_MS / 2, LONG_MS = SCENE_REDIS_LIMIT_MS * 2, TRIES = 10 };

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

static size_t noticed(struct history *history)
{
    pthread_mutex_lock(&history->mutex);
    size_t count = history->stalls.count;
    pthread_mutex_unlock(&history->mutex);
    return count;
}

TEST(only_what_can_make_a_command_late_is_a_stall)
{
    struct history history;
    struct stall *stall = NULL;
    history_init(&history);
    assert_true(stall_begin(&history, &stall));
    for (int i = 0; i < TRIES; i++)
        stop_ourselves(SHORT_MS);
    size_t before = noticed(&history); /* a slow machine's own */
    for (int tries = 0; noticed(&history) == before && tries < TRIES; tries++)
        stop_ourselves(LONG_MS);
    stall_end(&stall);
    assert_null(stall);
    assert_true(history.stalls.count > before);
    assert_int_equal(history.faults.count, 0);
    for (size_t i = 0; i < history.stalls.count; i++) {
        const struct history_stall *one = &history.stalls.items[i];
        assert_true(one->end_us - one->begin_us >= (uint64_t)SCENE_REDIS_LIMIT_MS * 1000);
    }
    stall_end(&stall);
    history_clear(&history);
}
