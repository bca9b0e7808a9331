/* SPDX-License-Identifier: MIT */
/*
 * nightly.c - a job that every host starts at the same time, and one of them does.
 *
 *     ./nightly redis://127.0.0.1:6379
 *
 * What the job writes to should be handed the fence, and refuse a number lower than one it has seen: a host that was
 * suspended in the middle may go on after its lock has moved on. A host that asks when the job is over does it once
 * more.
 */
#include "locks.h"
#include <stdio.h>

int main(int argc, char **argv)
{
    struct guard_locks_config config = GUARD_LOCKS_CONFIG_DEFAULTS;
    struct guard_lock_request request = GUARD_LOCK_REQUEST_DEFAULTS;
    struct guard_locks *locks = NULL;
    struct guard_lock_result result;
    struct guard_error error;
    const char *url = argv[1];
    if (argc > 1)
        config.urls = &url;
    if (guard_locks_open(&config, &locks, &error) != GUARD_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    request.names = (const char *const[]){"nightly"};
    request.wait_ms = 0;
    enum guard_lock_status status = guard_lock_wait(locks, &request, &result, &error);
    if (status == GUARD_LOCK_OK) {
        printf("this host does it, fence %llu\n", (unsigned long long)result.fence[0]);
        /* ...in steps, each only while guard_hold_left_ms(result.hold) is enough for it... */
        status = guard_unlock_wait(&result.hold);
    } else if (status == GUARD_LOCK_BUSY) {
        puts("another host does it");
    } else {
        fprintf(stderr, "%s\n", error.text);
    }
    guard_locks_close(&locks, 1000);
    return status == GUARD_LOCK_OK || status == GUARD_LOCK_BUSY ? 0 : 1;
}
