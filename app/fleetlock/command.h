/* SPDX-License-Identifier: MIT */
/*
 * command.h - COMMAND in a process group of its own, and the keeper that is its parent.
 *
 *                orders                the descriptor that is inherited
 *     fleetlock --------> keeper --------> COMMAND --------------------> what it starts, wherever that goes
 *         ^                 |
 *         `-----------------'  ends when COMMAND is over and nobody has the descriptor; its status is COMMAND's
 *
 * COMMAND inherits a descriptor, as from flock(1): while any process has it, the keeper stays and the lock is held;
 * with `closes`, COMMAND alone counts. What closes it, as daemons do, keeps the lock no longer.
 *
 * When the lock is lost, or fleetlock dies without a word (SIGKILL: nobody renews any more), the keeper tells COMMAND
 * and all that it has started, and kills them after the grace, no later than the lock is safe. It is their subreaper,
 * so it finds those in other groups and sessions, too, and those whose parent is gone, whether they have the
 * descriptor or not. Until then it keeps fleetlock's descriptors open, so that a provider that frees a lock when its
 * connection closes does not do so under a COMMAND that still runs.
 *
 * A COMMAND that is started in front and with the terminal on both sides has the terminal; any other gets it when it
 * asks, for a password say, and fleetlock's own group has it. ^Z does not stop it, because a stopped holder would
 * keep the lock; one that asks behind another job waits for `fg`, and says so.
 *
 * Threads  all from the one that calls command_start(); its signal mask must block what it wants to hear of
 *          (SIGCHLD).
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- the keeper: keeper.c ---- */

/*
 * The parent of COMMAND, in a process of its own.
 *
 *     RUNS --- an order: a signal ---> passes it on
 *       |`---- COMMAND over, nobody has the descriptor ----------> exit
 *       `----- the lock is lost, or fleetlock is gone --> ENDS: told, killed at kill_ms, nobody left --> exit
 *
 * It is forked from a process with threads: nothing but system calls here.
 */

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

/* ---- COMMAND ---- */

struct command {
    struct keeper_shared *shared;
    pid_t keeper;
    int orders; /* to the keeper */
    bool is_over;
    int status; /* as a shell has it, once it is over */
};

/* COMMAND inherits what is open now, and nothing that is opened later, whatever library does it. Call it first. */
void command_keep_descriptors(void);
/* safe_ms: the lock is safe until then, of clock_boot_ms(). False: no process could be made; why is on stderr. */
bool command_start(struct command *command, const struct keeper_plan *plan, uint64_t safe_ms);
/* It has been renewed. */
void command_is_safe(struct command *command, uint64_t safe_ms);
/* To COMMAND and all that it has started. */
void command_signal(const struct command *command, int signal_number);
/* All of them are told, and killed in time. */
void command_lost(const struct command *command);
/* After SIGCHLD: sets is_over and status. */
void command_reap(struct command *command);
/* Once it is over. */
void command_finish(struct command *command);

/*
 * What fleetlock says on stderr while it waits or holds, "fleetlock: TEXT": nothing waits for a reader that stands
 * still, because COMMAND has to end in time, and locks to be renewed. With the next line that can be written goes how
 * many could not be. On any thread; also in a child, before it becomes COMMAND.
 */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
