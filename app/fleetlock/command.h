/* SPDX-License-Identifier: MIT */
/*
 * command.h - COMMAND in a process group of its own, and a keeper beside it.
 *
 *     fleetlock -----> COMMAND, the leader of the group
 *         |  pipe         | its children
 *         +--------> keeper, in the group
 *
 * The keeper waits on the pipe. If fleetlock dies without a word (SIGKILL), nobody renews the lock any more: the keeper
 * tells the group and kills it after the grace, and no later than the lock is safe. It also keeps fleetlock's descriptors
 * open until then, so that a provider that frees a lock when its connection closes does not do so under a COMMAND that
 * still runs. Being in the group, it keeps the group's number from being given to another.
 *
 * A group that had the terminal gets it, so that COMMAND may ask for a password; where its output goes elsewhere (a pager)
 * only when it asks. ^Z does not stop it, because a stopped holder would keep the lock.
 *
 * Threads  all from the one that calls command_start(); its signal mask must block what it wants to hear of (SIGCHLD).
 */
#ifndef APP_FLEETLOCK_COMMAND_H
#define APP_FLEETLOCK_COMMAND_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct command {
    pid_t pid;                 /* of COMMAND and its group; 0: none */
    pid_t keeper;              /* 0: none */
    int pipe;                  /* to the keeper; -1: none */
    _Atomic uint64_t *safe_ms; /* shared with the keeper: the lock is safe until then, of clock_boot_ms() */
    bool has_terminal;
    bool is_over;
    int status; /* as a shell has it, once it is over */
};

/* COMMAND inherits what is open now, and nothing that is opened later, whatever library does it. Call it first. */
void command_keep_descriptors(void);
/* on_lost: the signal the keeper sends; 0: SIGTERM. False: no process could be made; why is on stderr. */
bool command_start(struct command *command, char **argv, uint64_t safe_ms, int on_lost, uint32_t grace_ms);
/* To every process of the group. */
void command_signal(const struct command *command, int signal_number);
/* After SIGCHLD: sets is_over and status. */
void command_reap(struct command *command);
/* Once it is over: the keeper goes, the terminal comes back. */
void command_finish(struct command *command);

#endif
