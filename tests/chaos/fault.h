/* SPDX-License-Identifier: MIT */
/*
 * fault.h - the disasters by name: what each befalls and how many further loads of a key it may excuse.
 *
 * Pure data; the nemesis makes faults, the history keeps them, the checker weighs them.
 */
#ifndef TESTS_CHAOS_FAULT_H
#define TESTS_CHAOS_FAULT_H

#include <stdbool.h>
#include <stdint.h>

enum { FAULT_PROCESSES_MAX = 8, FAULT_EVERYBODY = 255 };

enum fault_kind {
    FAULT_CATALOGD_KILL = 0, /* SIGKILL, and a new process */
    FAULT_CATALOGD_STOP,     /* SIGSTOP, SIGCONT */
    FAULT_REDIS_KILL,        /* SIGKILL, and an empty one */
    FAULT_REDIS_STOP,
    FAULT_REDIS_FLUSH, /* FLUSHALL: values and leases alike */
    FAULT_REDIS_AHEAD, /* its wall clock an hour ahead, and back */
    FAULT_REDIS_BEHIND,
    FAULT_REDIS_FULL, /* every connection cut, and none accepted beyond one */
    FAULT_POSTGRES_KILL,
    FAULT_POSTGRES_STOP,
    FAULT_POSTGRES_RESTART,   /* in order, as an operator does it */
    FAULT_POSTGRES_TERMINATE, /* pg_terminate_backend() for everybody */
    FAULT_POSTGRES_FULL,      /* no connection left */
    FAULT_LINK_DELAY,         /* between processes and a server, see proxy.h */
    FAULT_LINK_DROP,
    FAULT_LINK_RESET,
    FAULT_LINK_SILENT,
    FAULT_LINK_DRIBBLE,
    FAULT_LINK_CUT,
    FAULT_LINK_FREEZE_REQUESTS,
    FAULT_LINK_FREEZE_REPLIES,
    FAULT_LINK_LATE,
    FAULT_KINDS
};

enum fault_party { FAULT_OF_CATALOGD, FAULT_OF_REDIS, FAULT_OF_POSTGRES, FAULT_OF_LINK };

struct fault {
    enum fault_kind kind;
    enum fault_party side;     /* of a link: FAULT_OF_REDIS or FAULT_OF_POSTGRES; else the kind's party */
    uint8_t process;           /* catalogd's, or whose link; FAULT_EVERYBODY: all links of that side */
    uint64_t begin_us, end_us; /* from before the first blow until everything is as it was */
};

struct fault_trait {
    const char *name;
    enum fault_party party;
    uint32_t shortest_ms, longest_ms; /* how long it lasts when it is planned */
};

const struct fault_trait *fault_trait(enum fault_kind kind);

/* False: no such name. */
bool fault_find(const char *name, enum fault_kind *out);

/*
 * How many loads of one key beyond the first may run because of it, over a fleet of so many processes whose
 * loads are given up after load_limit_ms:
 *
 *     a holder that died or slept     1    a new leader beside the old query
 *     Redis emptied                   1    every lease is lost once
 *     Redis' clock stepped            2    leases end at once, on the way out and on the way back
 *     Redis gone for everybody        P    each process loads for itself
 *     Redis gone for one process      1
 *     PostgreSQL out of sight         1 for each attempt given up meanwhile: its query may still run;
 *                                     P if Redis cannot tell them of each other, which is a fault of its own
 */
uint32_t fault_further_loads(const struct fault *fault, uint32_t process_count, uint32_t load_limit_ms);

/* The fault keeps requests to this process from being answered in time, or at all. */
bool fault_kills(const struct fault *fault, uint8_t process);
bool fault_pauses(const struct fault *fault, uint8_t process);

#endif
