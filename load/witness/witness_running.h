/* SPDX-License-Identifier: MIT */
/*
 * witness_running.h - how many loads the database ran at once: out of the order of its log, every one, not by samples.
 *
 * With log_duration = on a server process writes a line when a statement begins and one when it has ended, before its
 * client hears of it. So the loads between their two lines are those that run, and the most of them is no sample.
 *
 * The end of a load is the next message of its process, of whatever kind: an error has no duration, and a warning out
 * of the middle of a load ends it too early. A process that is killed writes none: its load ends with the line that the
 * postmaster writes about it, or about all. A load that began before the log was followed is not counted.
 *
 * Pure.
 */
#ifndef LOAD_WITNESS_WITNESS_RUNNING_H
#define LOAD_WITNESS_WITNESS_RUNNING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WITNESS_RUNNING_MAX = 1024 };

struct witness_running {
    uint64_t process[WITNESS_RUNNING_MAX]; /* of each load that runs */
    size_t count;
    uint32_t most;
    uint64_t ended;   /* whose end was logged */
    bool is_overfull; /* more than there is room for: `most` is too low */
};

void witness_running_begin(struct witness_running *running, uint64_t process);
/* A line of this process that begins another message; is_end: "duration: ...". */
void witness_running_line(struct witness_running *running, uint64_t process, bool is_end);
/* No server process is left. */
void witness_running_none(struct witness_running *running);

#endif
