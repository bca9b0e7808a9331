/* SPDX-License-Identifier: MIT */
/* witness_running.c - see witness_running.h. */
#include "load/witness/witness_running.h"

static size_t find_running(const struct witness_running *running, uint64_t process)
{
    size_t at = 0;
    while (at < running->count && running->process[at] != process)
        at++;
    return at;
}

void witness_running_begin(struct witness_running *running, uint64_t process)
{
    if (find_running(running, process) < running->count)
        return;
    if (running->count == WITNESS_RUNNING_MAX) {
        running->is_overfull = true;
        return;
    }
    running->process[running->count++] = process;
    if (running->count > running->most)
        running->most = (uint32_t)running->count;
}

void witness_running_line(struct witness_running *running, uint64_t process, bool is_end)
{
    size_t at = find_running(running, process);
    if (at == running->count)
        return;
    running->process[at] = running->process[--running->count];
    running->ended += is_end;
}

void witness_running_none(struct witness_running *running)
{
    running->count = 0;
}
