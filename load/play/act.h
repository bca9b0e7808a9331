/* SPDX-License-Identifier: MIT */
/*
 * act.h - the actions of a scenario, done to real servers.
 *
 *     act_do()     DONE or FAILED; AGAIN: no process holds a lease yet, try again later
 *     act_poll()   statements, POSTs and commands end later: those that are over meanwhile
 *     act_end()    ends those that still run
 *
 * Threads: one, that of proc.h. Errors: one line in `why`.
 */
#pragma once

#include "load/play/servers.h"

enum { ACT_COMMANDS_MAX = 16 };

struct act_command {
    pid_t pid; /* 0: free */
    uint64_t end_by_us;
    size_t tag; /* the caller's */
    char output_path[PROC_PATH_BYTES + 16];
};

struct act {
    struct servers *servers; /* lent */
    struct errands *errands; /* owned; NULL before the first */
    bool has_leader;
    size_t leader; /* the process that "leader" was about last, by index */
    struct act_command commands[ACT_COMMANDS_MAX];
};

enum act_outcome { ACT_DONE, ACT_FAILED, ACT_AGAIN };

/* `tag` comes back from act_poll(). The action is lent until act_end(). */
enum act_outcome act_do(struct act *act, const struct scenario_action *action, size_t tag,
                        char why[static SCENARIO_WHY_BYTES]);

/* One that is over since, and why it failed, "" if it did not; false: there is none. *running counts those that are
 * still running. */
bool act_poll(struct act *act, size_t *tag, size_t *running, char why[static SCENARIO_WHY_BYTES]);
void act_end(struct act *act);
