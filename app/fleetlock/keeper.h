/* SPDX-License-Identifier: MIT */
/*
 * keeper.h - the parent of COMMAND, in a process of its own; see command.h.
 *
 *     RUNS --- an order: a signal ---> passes it on
 *       |`---- COMMAND over, nobody has the descriptor ----------> exit
 *       `----- the lock is lost, or fleetlock is gone --> ENDS: told, killed at kill_ms, nobody left --> exit
 *
 * It is forked from a process with threads: nothing but system calls here.
 */
#ifndef APP_FLEETLOCK_KEEPER_H
#define APP_FLEETLOCK_KEEPER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct keeper_plan {
    char **argv;
    int on_lost; /* the signal that tells of a loss; 0: SIGTERM */
    uint32_t grace_ms;
    bool closes; /* what COMMAND leaves behind does not keep the lock */
};

struct keeper_shared {
    _Atomic uint64_t safe_ms; /* the lock is safe until then, of clock_boot_ms() */
    _Atomic pid_t group;      /* COMMAND's; 0: not begun */
};

enum { KEEPER_LOST = 0 }; /* an order that is no signal */

/* In the child. orders: where fleetlock's are read, a byte each; is_kept: of each of the first `kept_count`
 * descriptors, whether COMMAND inherits it. */
_Noreturn void keeper_run(struct keeper_shared *shared, const struct keeper_plan *plan, int orders,
                          const bool *is_kept, int kept_count);

#endif
