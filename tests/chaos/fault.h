/* SPDX-License-Identifier: MIT */
/*
 * fault.h - the disasters by name: what each befalls and how many further loads of a key it may excuse.
 *
 * Pure data; the nemesis makes faults, the history keeps them, the checker weighs them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { FAULT_PROCESSES_MAX = 8, FAULT_EVERYBODY = 255 };

enum fault_kind {
    FAULT_CATALOGD_KILL = 0, /* SIGKILL, and a new process */
    FAULT_CATALOGD_STOP,     /* SIGSTOP, SIGCONT */
    FAULT_READER_STOP, /* the reader of its stderr, with the pipe full: nothing of the service may wait for it */
    FAULT_REDIS_KILL, /* SIGKILL, and an empty one */
    FAULT_REDIS_STOP,
    FAULT_REDIS_FLUSH, /* FLUSHALL: values and leases alike */
    FAULT_REDIS_AHEAD, /* its wall clock an hour ahead, and back */
    FAULT_REDIS_BEHIND,
    FAULT_REDIS_FULL, /* every connection cut, and none accepted beyond one */
    FAULT_REDIS_AWAY, /* SIGKILL, and an empty one, longer than anything is kept for it */
    FAULT_REDIS_FAR,  /* from one process alone, as long: its connections are cut, and new ones are */
    FAULT_POSTGRES_KILL,
    FAULT_POSTGRES_STOP,
    FAULT_POSTGRES_RESTART,   /* in order, as an operator does it */
    FAULT_POSTGRES_TERMINATE, /* pg_terminate_backend() for everybody */
    FAULT_POSTGRES_FULL,      /* no connection left */
    FAULT_POSTGRES_STANDBY,   /* its name leads to a standby that lags, and back */
    FAULT_LINK_DELAY,         /* between processes and a server, see proxy.h */
    FAULT_LINK_DROP,
    FAULT_LINK_RESET,
    FAULT_LINK_SILENT,
    FAULT_LINK_DRIBBLE,
    FAULT_LINK_CUT,
    FAULT_LINK_FREEZE_REQUESTS,
    FAULT_LINK_FREEZE_REPLIES,
    FAULT_LINK_LATE,
    FAULT_MASTER_KILL, /* SIGKILL; a replica takes over, and the old one comes back empty */
    FAULT_MASTER_KEPT, /* the same where an invalidation is confirmed once every replica has it */
    FAULT_MASTER_STOP, /* SIGSTOP until a replica has taken over, SIGCONT */
    FAULT_MASTER_CUT,  /* from its replicas, and from who replaces it; the clients keep it, see masters.h */
    FAULT_MASTER_CUT_UNGUARDED,  /* the same, and it needs no replica for a write */
    FAULT_MASTER_FAILOVER,       /* the planned one */
    FAULT_MASTER_GUARDED_BY_ALL, /* that of Sentinels where every replica must be there for a write */
    FAULT_MASTER_GUARDED,        /* and where one of two is enough */
    FAULT_MASTER_UNGUARDED,      /* and where none is needed */
    FAULT_REPLICA_BEHIND,        /* no replica has what the master did last when it is killed */
    FAULT_SENTINELS_KILL,        /* all of them, then the master, and all of them back */
    FAULT_SLOTS_MOVE,            /* some slots to another master, and back */
    FAULT_MASTER_FORGOTTEN,      /* it dies and is forgotten; a new node has its slots, at a lower epoch */
    FAULT_KINDS
};

enum fault_party { FAULT_OF_CATALOGD, FAULT_OF_REDIS, FAULT_OF_POSTGRES, FAULT_OF_LINK, FAULT_OF_MASTERS };

/* How Redis is deployed, and so which faults there can be. */
enum fault_topology { FAULT_ONE_REDIS = 1, FAULT_SENTINELS = 2, FAULT_CLUSTER = 4 };

struct fault {
    enum fault_kind kind;
    enum fault_party side; /* of a link: FAULT_OF_REDIS or FAULT_OF_POSTGRES; else the kind's party */
    uint8_t process;       /* catalogd's, or whose link; FAULT_EVERYBODY: all links of that side */
    uint64_t begin_us,
        end_us; /* from before the first blow until everything is as it was; of masters: until another
                                  one is there */
};

struct fault_trait {
    const char *name;
    enum fault_party party;
    uint32_t shortest_ms, longest_ms; /* how long it lasts when it is planned */
    unsigned topologies;
};

const struct fault_trait *fault_trait(enum fault_kind kind);

/* False: no such name. */
bool fault_find(const char *name, enum fault_kind *out);

/*
 * How many loads of one key beyond the first may run because of it, over a fleet of so many processes whose
 * loads are given up after load_limit_ms:
 *
 *     a holder that died or slept     1    a new leader beside the old query
 *     nobody reads its stderr         0
 *     Redis emptied                   1    every lease is lost once
 *     Redis' clock stepped            2    leases end at once, on the way out and on the way back
 *     Redis gone for everybody        P    each process loads for itself
 *     Redis gone for one process      1    however long
 *     PostgreSQL out of sight         1 for each attempt given up meanwhile: its query may still run;
 *                                     P if Redis cannot tell them of each other, which is a fault of its own
 */
uint32_t fault_further_loads(const struct fault *fault, uint32_t process_count, uint32_t load_limit_ms);

/*
 * What the fault may lose with the old master, and is promised to be repaired: of invalidations confirmed from
 * *from_us to *to_us, none is owed to answers that begin before *until_us. False: it may lose nothing.
 *
 *     killed, or behind          confirmed within 2 s before it, or at the old master until the new one is there;
 *                                repaid within 1 s after that by the process that had confirmed it
 *     cut off                    confirmed until it is fenced, which is min-replicas-max-lag and 2 s; repaid as
 *                                above, once whoever had confirmed it is back
 *     guarded                    confirmed by the old master with the other replica, which follows the new one a
 *                                moment later; repaid as above
 *     guarded by all             confirmed while it was on its way to the one that was told to take over; repaid as
 *                                above
 *     nobody guards the old one  it is believed until a Sentinel is heard: 1 s and the limit of a command
 *     cut off, and no guard      it is believed by who is cut off with it until 11 s after that has an end
 */
bool fault_may_lose(const struct fault *fault, uint64_t *from_us, uint64_t *to_us, uint64_t *until_us);

/* The fault keeps requests to this process from being answered in time, or at all. */
bool fault_kills(const struct fault *fault, uint8_t process);
bool fault_pauses(const struct fault *fault, uint8_t process);
