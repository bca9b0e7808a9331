/* SPDX-License-Identifier: MIT */
/* stall_test.c - the watches: this process is stopped for real, then one processor; what was too short is no excuse. */
#include "tests/chaos/scene.h"
#include "tests/chaos/stall.h"

#include "load/base/clock.h"
#include "tests/support/test.h"

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SHORT_MS = SCENE_REDIS_LIMIT_MS / 2, LONG_MS = SCENE_REDIS_LIMIT_MS * 2, TRIES = 10, LOOK_MS = 10 };

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

/* One that has ended since; how many there are says less, for those that overlap are one. */
static bool noticed_since(struct history *history, uint64_t since_us)
{
    pthread_mutex_lock(&history->mutex);
    size_t count = history->stalls.count;
    bool noticed = count > 0 && history->stalls.items[count - 1].end_us > since_us;
    pthread_mutex_unlock(&history->mutex);
    return noticed;
}

/* Nobody else gets the processor meanwhile. False: we may not. */
static bool take_processor(size_t processor, uint32_t ms)
{
    const struct sched_param first = {.sched_priority = 1};
    cpu_set_t set;
    int status = 0;
    pid_t child = fork();
    assert_int_not_equal(child, -1);
    if (child == 0) {
        CPU_ZERO(&set);
        CPU_SET(processor, &set);
        if (sched_setaffinity(0, sizeof set, &set) != 0 || sched_setscheduler(0, SCHED_FIFO, &first) != 0)
            _exit(1);
        for (uint64_t end_us = clock_after_ms(ms); clock_us() < end_us;)
            ;
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(a_single_processor_that_stands_still_is_noticed)
{
    struct history history;
    struct stall *stall = NULL;
    cpu_set_t processors;
    assert_int_equal(sched_getaffinity(0, sizeof processors, &processors), 0);
    history_init(&history);
    assert_true(stall_begin(&history, &stall));
    bool may = true;
    for (size_t i = 0; may && i < CPU_SETSIZE; i++) {
        uint64_t since_us = clock_us();
        for (int tries = 0; CPU_ISSET(i, &processors) && may && !noticed_since(&history, since_us); tries++) {
            assert_true(tries < TRIES);
            may = take_processor(i, LONG_MS);
            clock_pause_ms(2 * LOOK_MS);
        }
    }
    stall_end(&stall);
    history_clear(&history);
    if (!may)
        skip(); /* only root or who has CAP_SYS_NICE goes first */
}

TEST(only_what_can_make_a_command_late_is_a_stall)
{
    struct history history;
    struct stall *stall = NULL;
    history_init(&history);
    assert_true(stall_begin(&history, &stall));
    for (int i = 0; i < TRIES; i++)
        stop_ourselves(SHORT_MS);
    uint64_t since_us = clock_us(); /* before are a slow machine's own */
    for (int tries = 0; !noticed_since(&history, since_us) && tries < TRIES; tries++)
        stop_ourselves(LONG_MS);
    stall_end(&stall);
    assert_null(stall);
    assert_true(noticed_since(&history, since_us));
    assert_int_equal(history.faults.count, 0);
    for (size_t i = 0; i < history.stalls.count; i++) {
        const struct history_stall *one = &history.stalls.items[i];
        assert_true(one->end_us - one->begin_us >= (uint64_t)SCENE_REDIS_LIMIT_MS * 1000);
    }
    stall_end(&stall);
    history_clear(&history);
}
