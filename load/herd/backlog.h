/* SPDX-License-Identifier: MIT */
/*
 * backlog.h - did the queue of a listening socket overflow? The kernel then drops what opens a connection; the client asks
 * again after 1 s, 3 s, 7 s, and it looks as if the service were slow, or hung.
 *
 *     backlog_look() ---> the run ---> backlog_judge()
 *
 * Of targets on this machine only: how long a queue is (its listen() says) comes from the kernel's socket diagnostics, as
 * ss has it, how often queues overflowed from /proc/net/netstat. That number is of all listening sockets, so nothing is
 * said of a queue that was long enough. What cannot be read is not judged.
 */
#ifndef LOAD_HERD_BACKLOG_H
#define LOAD_HERD_BACKLOG_H

#include "load/herd/record.h"
#include "load/herd/work.h"

enum { BACKLOG_TEXT_BYTES = 400 };

struct backlog {
    bool is_known;
    uint64_t overflows;                /* since the machine was started */
    uint32_t places[WORK_TARGETS_MAX]; /* 0: not known */
};

void backlog_look(const struct work *work, struct backlog *out);
/* "": no queue of a target is known to have overflowed since. */
void backlog_judge(const struct backlog *before, const struct work *work, const struct records *records,
                   char text[static BACKLOG_TEXT_BYTES]);

#endif
