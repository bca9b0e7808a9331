/* SPDX-License-Identifier: MIT */
/*
 * sim.h - a fleet in one thread: several guard cores, a model Redis, a model database, a network between them,
 * one virtual clock, one seed. The cores are those of guard/ itself.
 *
 *   sim_world.c    one run: the parameters a seed stands for, its phases, the dispatch of events
 *   sim_process.c  a process: its core, requests, loads, invalidations; crash and stall
 *   sim_lookup.c   the lookup on a server loop, before the core is asked
 *   sim_near.c     the near cache of each process, guard/core/near.c itself, and what it may answer
 *   sim_net.c      connections: commands that are lost, late or unanswered; messages lost and repeated
 *   sim_redis.c    the model Redis: its scripts, on keys with TTLs, with a clock and a replica
 *   sim_permits.c  the three scripts of the load permits, and what must be true of them
 *   sim_tags.c     tags: their scripts in that Redis, and the commands about them that go beside others
 *   sim_fault.c    the disasters, by kind and count
 *   sim_outage.c   Redis away, for one process or for all; in worlds of their own
 *   sim_check.c    the oracle: what must be true at every event and at the end
 *   sim_wish.h     what loaders, requests and operators may wish beyond that, in worlds of their own
 *   sim_names.c    names of faults, mutants and answers; sim_simulator.c: the simulator as the program sees it
 *   course.h       time, dice and events of one seed, which the simulator of the locks (lock_sim.h) has, too
 *   sim_main.c     the program, of both; sim_test.c: a bounded number of seeds for the test suite; seeds.h: what
 *                  it and lock_sim_test.c ask
 *
 * Over several masters (sim shards) keys, tags and permits have one each, and processes connections to each; masters
 * fail separately, and keys move between them. Seeds from SIM_OF_SHARDS on are these worlds; those from SIM_OF_WISHES
 * on have wishes (sim wishes), those from SIM_OF_OUTAGES on outages (sim outages).
 *
 * A run goes through chaos (requests, writes and faults), healing (no faults; everything under way ends),
 * probes (every process must then see the newest row of every key) and the end (every core comes to rest).
 *
 * Time     now_us is the world's; every process and Redis have clocks of their own, offset against it.
 * Threads  none. Two runs of one seed are the same run, event for event.
 */
#pragma once

#include "course.h"
#include "guard/core/core.h"
#include "guard/core/near.h"
#include "sim_outage.h"
#include "sim_wish.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SIM_PROCESSES = 4,
    SIM_KEYS = 3,
    SIM_TAGS = 2,
    SIM_VERSIONS = 256,
    SIM_REQUESTS = 1024,
    SIM_CHAOS_WRITES = 512, /* no further write begins then; those that have may still be repeated */
    SIM_REPETITIONS = 4,    /* of an invalidation that was not confirmed */
    SIM_WRITES = (SIM_CHAOS_WRITES + SIM_KEYS) * (1 + SIM_REPETITIONS),
    SIM_LOADS = 4096,
    SIM_COMMANDS = 16384,
    SIM_PERMITS = 64,
    SIM_SHARDS = 2,
    SIM_WAITERS = 64,
    STATUSES = GUARD_MISS + 1,
};

/* ---- faults ---- */

enum fault {
    FAULT_COMMAND_LOST, /* never reaches Redis */
    FAULT_COMMAND_LATE, /* runs after its client has given up */
    FAULT_REPLY_LOST,   /* ran, but its reply never arrives */
    FAULT_MESSAGE_LOST,
    FAULT_MESSAGE_TWICE,
    FAULT_MESSAGE_FIRST, /* a message overtook the reply to the command that caused it */
    FAULT_CONNECTION,    /* one command connection breaks */
    FAULT_SUBSCRIPTION,  /* one subscription is dead for a while */
    FAULT_CRASH,
    FAULT_SHUTDOWN, /* drained, closed, started again */
    FAULT_STALL,
    FAULT_LEASE_GONE,
    FAULT_VALUE_GONE,
    FAULT_VALUE_DAMAGED,
    FAULT_REDIS_EMPTY,    /* killed; comes back empty */
    FAULT_REDIS_FAILOVER, /* a lagging replica takes over */
    FAULT_REDIS_HANG,     /* stopped; then goes on with what is in its sockets */
    FAULT_CLOCK_FORWARD,
    FAULT_CLOCK_BACK,
    FAULT_OOM,
    FAULT_READONLY,
    FAULT_LOAD_FAILS,
    FAULT_LOAD_SLOW,
    FAULT_LOAD_HANGS,
    FAULT_CANCEL_IGNORED, /* the loader does not hear of its cancellation */
    FAULT_REQUEST_LEAVES, /* core_cancel() */
    FAULT_WRITER_DIES,    /* between commit and invalidation */
    FAULT_MESSAGE_LATE,   /* and those behind it */
    FAULTS_DRAWN, /* choose_params() draws which of those above a run has, and says by itself when it has these: */
    FAULT_EPOCH_GONE =
        FAULTS_DRAWN,    /* what Redis knows of a tag is evicted; these two only where there are tags */
    FAULT_CLOCK_GONE,    /* the clock of the tags is */
    FAULT_REDIS_DEMOTED, /* another is the master; connections stay at a replica that hears nothing */
    FAULTS_OF_ONE,       /* those above happen with one master, these only with several */
    FAULT_SLOT_MOVES = FAULTS_OF_ONE, /* a key goes to another master; meanwhile few scripts run */
    FAULT_REDIS_WAKES, /* a master is stopped until another is one, and goes on as if it still were */
    FAULT_TWO_FENCED, /* two are masters at once, and one of them has lost its replicas: it answers no hits */
    FAULT_TWO_UNFENCED, /* or does not need any: it answers, and takes writes */
    FAULTS_OF_SHARDS,   /* those above without an outage; these are in the worlds of sim_outage.h alone */
    FAULT_CUT_OFF = FAULTS_OF_SHARDS, /* one process, and not the others */
    FAULT_REDIS_AWAY,                 /* from all */
    FAULTS,
};

extern const char *const fault_names[FAULTS];

#define LIST_MEMBER(name, text) name,

/* X(member of enum mutant, its name): bugs sown into the model's side, to show that the oracle finds them. */
#define MUTANTS_WITH_ONE(X)                                                                                  \
    X(MUTANT_FILL_UNFENCED, "fill-unfenced")         /* stores without the lease */                          \
    X(MUTANT_RELEASE_ANY, "release-any")             /* deletes any process's lease */                       \
    X(MUTANT_INVALIDATE_KEEPS, "invalidate-keeps")   /* leaves the running load its lease */                 \
    X(MUTANT_RENEW_CREATES, "renew-creates")         /* brings a voided lease back */                        \
    X(MUTANT_LOOKUP_NOT_ATOMIC, "lookup-not-atomic") /* grants a lease over a fresh value */                 \
    X(MUTANT_BUSY_IGNORED, "busy-ignored")           /* grants a lease that another process has */           \
    X(MUTANT_NO_CLAMP, "no-clamp")                   /* believes a TTL that a clock step has lengthened */   \
    X(MUTANT_SAME_TOKEN, "same-token")               /* a retry sends the token of the attempt before */     \
    X(MUTANT_EARLY_QUERY, "early-query")             /* the row is read before the lease is taken */         \
    X(MUTANT_FALSE_CONFIRM, "false-confirm")         /* an unanswered invalidation is taken for confirmed */ \
    X(MUTANT_REPLY_SHIFTED, "reply-shifted")         /* used on after a timeout: the last one's replies */   \
    X(MUTANT_NO_FAILURE_LEASE, "no-failure-lease")   /* a failed load leaves no trace */                     \
    X(MUTANT_TOUCH_UNFENCED, "touch-unfenced")       /* gives a value a new life without the lease */        \
    X(MUTANT_EARLY_ANY, "early-any") /* an early refresh takes the lease over a value that is already new */ \
    X(MUTANT_EARLY_BUSY, "early-busy")           /* or although another process refreshes it */              \
    X(MUTANT_STALE_STAYS, "stale-stays")         /* an invalidation leaves the value, as a stale one */      \
    X(MUTANT_STALE_FOR_EVER, "stale-for-ever")   /* a value is given the TTL of the namespace's limit */     \
    X(MUTANT_UNCHANGED_BLIND, "unchanged-blind") /* a loader says "unchanged" without having compared */     \
    X(MUTANT_PERMIT_RELEASE_ANY, "permit-release-any") /* gives back any process's permit */                 \
    X(MUTANT_PERMIT_FOR_EVER, "permit-for-ever")       /* the permit of a dead holder never runs out */      \
    X(MUTANT_PERMIT_NO_QUEUE, "permit-no-queue")       /* the first process that asks gets it */             \
    X(MUTANT_PERMIT_NOT_PASSED, "permit-not-passed")   /* told, and behind others: it does not tell them */  \
    X(MUTANT_REFRESH_FIRST, "refresh-first")           /* a refresh does not wait behind users */            \
    X(MUTANT_TAGS_BLIND, "tags-blind")                 /* an entry is good whatever its tags' epochs are */  \
    X(MUTANT_EPOCH_LOST_GOOD, "epoch-lost-good")       /* a tag without an epoch was never invalidated */    \
    X(MUTANT_CLOCK_LATE, "clock-late")                 /* the clock is read when the load is over */         \
    X(MUTANT_CLOCK_RESTARTS, "clock-restarts")     /* a clock that was lost begins where it began before */  \
    X(MUTANT_CLOCK_STANDS, "clock-stands")         /* an invalidation of a tag does not move it on */        \
    X(MUTANT_KEEP_BACKDATES, "keep-backdates")     /* a tag without an epoch gets that of what is stored */  \
    X(MUTANT_FULL_KEEPS_EPOCH, "full-keeps-epoch") /* no memory: invalidating a tag changes nothing */       \
    X(MUTANT_PUSH_UNCHECKED, "push-unchecked")     /* a message is good whatever its tags' epochs are */     \
    X(MUTANT_LOOKUP_UNFENCED, "lookup-unfenced")   /* a value is read with GET, which a replica answers */   \
    X(MUTANT_ACQUIRE_UNFENCED, "acquire-unfenced") /* one that writes nothing does not ask */

/* And those that are found over several masters. */
#define MUTANTS_WITH_SHARDS(X)                                                                               \
    X(MUTANT_CLOCK_COUNTS_ON, "clock-counts-on")       /* under another reign, from where its replica was */ \
    X(MUTANT_CLOCK_LEAPS_AGAIN, "clock-leaps-again")   /* by a fixed span: a second leap meets the first */  \
    X(MUTANT_EPOCHS_UNFENCED, "epochs-unfenced")       /* are read with MGET, which a replica answers */     \
    X(MUTANT_REDIRECT_NEW_TOKEN, "redirect-new-token") /* an acquire, and no prev */                         \
    X(MUTANT_DELETE_VALUE_FIRST, "delete-value-first") /* where no script runs, the lease goes last */       \
    X(MUTANT_NO_HEARTBEAT, "no-heartbeat")             /* idle, it does not notice that its master stops */  \
    X(MUTANT_NO_QUARANTINE, "no-quarantine") /* a master that has just woken is believed at once */          \
    X(MUTANT_NO_CONFIRMING, "no-confirming") /* or when it says it twice, whatever the Sentinels say */      \
    X(MUTANT_NO_GENERATION, "no-generation") /* another master was found, and the loops stay */              \
    X(MUTANT_HITS_BY_GET, "hits-by-get")     /* which a master without its replicas answers */

enum mutant {
    MUTANT_NONE,
    MUTANTS_WITH_ONE(LIST_MEMBER) MUTANTS_OF_ONE,
    MUTANT_LAST_OF_ONE = MUTANTS_OF_ONE - 1,
    MUTANTS_WITH_SHARDS(LIST_MEMBER) MUTANTS_OF_SHARDS, /* without a wish; those of sim_wish.h follow */
    MUTANT_LAST_OF_SHARDS = MUTANTS_OF_SHARDS - 1,
    MUTANTS_OF_WISHES(LIST_MEMBER) MUTANTS_WISHED, /* those above without an outage */
    MUTANT_LAST_WISHED = MUTANTS_WISHED - 1,
    OUTAGE_MUTANTS(LIST_MEMBER) MUTANTS,
};

extern const char *const mutant_names[MUTANTS];
extern const char *const status_names[STATUSES];
extern const char *const source_names[GUARD_FROM_KEPT + 1];

/* X(member of enum seen, its name): what a number of runs must have met to mean something. */
#define SEENS_WITH_ONE(X)                                                                                    \
    X(SEEN_STALE, "stale answers")                                                                           \
    X(SEEN_SOFT, "of them at the soft limit")                                                                \
    X(SEEN_EARLY, "early refreshes")                                                                         \
    X(SEEN_UNCHANGED, "loads unchanged")                                                                     \
    X(SEEN_TOUCHED, "values touched")                                                                        \
    X(SEEN_GONE, "touches in vain") /* the value was not there any more */                                   \
    X(SEEN_LOOKUPS, "lookups answered")                                                                      \
    X(SEEN_NESTED, "nested gets")                                                                            \
    X(SEEN_LENT, "threads lent")                                                                             \
    X(SEEN_CIRCLES, "circles refused") /* loaders that would have waited for themselves */                   \
    X(SEEN_BATCHED, "loads in another's batch")                                                              \
    X(SEEN_MERGED, "of them of a single get") /* of a request for one key */                                 \
    X(SEEN_AS_ONE, "loads that failed as one query")                                                         \
    X(SEEN_NEAR, "near hits")                                                                                \
    X(SEEN_NEAR_OLD, "of them not yet up to date") /* than what another process has had confirmed */         \
    X(SEEN_NEAR_LATE, "lookups too late for it")   /* to be kept */                                          \
    X(SEEN_EVICTED, "near entries evicted")        /* for want of room */                                    \
    X(SEEN_CLEARED, "near entries cleared")        /* or with the subscription */                            \
    X(SEEN_TAGGED, "tags invalidated")                                                                       \
    X(SEEN_OUTDATED, "entries out of date") /* older than an invalidation of a tag */                        \
    X(SEEN_PUSHED, "answers pushed")                                                                         \
    X(SEEN_UNPUSHED, "pushes in vain") /* their entry could answer no waiter */                              \
    X(SEEN_PERMITTED, "loads under a permit")                                                                \
    X(SEEN_REFUSED, "permits refused")                                                                       \
    X(SEEN_NAMED, "permits announced")                                                                       \
    X(SEEN_REENTERED, "lost permits counted again")                                                          \
    X(SEEN_PASSED_ON, "permits passed on")              /* to the next query of their process */             \
    X(SEEN_SHED, "gets shed that were asked for alone") /* no place in their share */                        \
    X(SEEN_SHED_TOGETHER, "gets shed that were asked for together")                                          \
    X(SEEN_FENCED, "refused by a former master") /* lookups and commands */

/* And these only over several masters. */
#define SEENS_WITH_SHARDS(X)                                                                                 \
    X(SEEN_LEAPS, "leaps of the tags' clock")                                                                \
    X(SEEN_TAGS_LOST, "lost with the tags' master") /* floors lowered by a failover of the tags */           \
    X(SEEN_REDIRECTED, "commands redirected")                                                                \
    X(SEEN_REPLAYED, "invalidations said again")         /* to another master */                             \
    X(SEEN_MOVING, "commands that met a moving slot")    /* and did not run for it */                        \
    X(SEEN_DELETED, "invalidations by deletion")         /* without the script */                            \
    X(SEEN_GREETED, "greeted by one that woke")          /* a master that had been stopped */                \
    X(SEEN_EXCUSED, "gets with two masters")             /* it has not heard of the other one yet */         \
    X(SEEN_SAID_TO_FORMER, "confirmed by the wrong one") /* invalidations, by the former one alone */

enum seen {
    SEENS_WITH_ONE(LIST_MEMBER) SEENS_OF_ONE,
    SEEN_LAST_OF_ONE = SEENS_OF_ONE - 1,
    SEENS_WITH_SHARDS(LIST_MEMBER)
        SEENS_OF_SHARDS, /* those above without a wish; those of sim_wish.h follow */
    SEEN_LAST_OF_SHARDS = SEENS_OF_SHARDS - 1,
    SEENS_OF_WISHES(LIST_MEMBER) SEENS_WISHED, /* those above without an outage */
    SEEN_LAST_WISHED = SEENS_WISHED - 1,
    OUTAGE_SEENS(LIST_MEMBER) SEENS,
};

extern const char *const seen_names[SEENS];

/* ---- events ---- */

enum event_kind {
    EVENT_TICK,       /* process */
    EVENT_EXECUTE,    /* command reaches Redis */
    EVENT_REPLY,      /* command's reply reaches its process */
    EVENT_LIMIT,      /* command's time is over */
    EVENT_UNSENT,     /* command could not be sent */
    EVENT_BROKEN,     /* process: command connection `subject` */
    EVENT_CONNECT,    /* process: command connection */
    EVENT_SUBSCRIBE,  /* process: subscription */
    EVENT_MESSAGE,    /* process, key, gone; 1 + the command whose entry it carries, 0: none */
    EVENT_PERMIT,     /* process: a permit is free for it */
    EVENT_LOAD_READ,  /* load takes its snapshot */
    EVENT_LOAD_END,   /* load */
    EVENT_REQUEST,    /* process, key */
    EVENT_LEAVE,      /* request */
    EVENT_WRITE,      /* key */
    EVENT_INVALIDATE, /* write */
    EVENT_FAULT,      /* the next disaster */
    EVENT_RECOVER,    /* fault: its end */
    EVENT_CLOSE,      /* process: its drain is over */
    EVENT_RESTART,    /* process after a crash or its close */
    EVENT_REPLICATE,
    EVENT_TURN,         /* process: all that was to be read has been read */
    EVENT_LOOKUP_PTTL,  /* request: its lookup reaches Redis */
    EVENT_LOOKUP_GET,   /* request: the second half of it, if something came in between */
    EVENT_LOOKUP_REPLY, /* request */
    EVENT_LOOKUP_LIMIT, /* request: the time of its lookup is over */
    EVENT_UNHEARD,      /* process notices that its subscription is lost */
    EVENT_COMPANION,    /* what goes beside a command reaches Redis */
    EVENT_CHECK,        /* the question after the tags of what a command found reaches Redis */
    EVENT_CHECKED,      /* its answer reaches the command's process */
    EVENT_PUSH_CHECK,   /* the same of an entry that came with a message */
    EVENT_PUSH_CHECKED,
    EVENT_CHANGE,   /* an operator's wish; key */
    EVENT_DEFERRED, /* process, load: see sim_defer.c */
    EVENT_OUTAGE,
    EVENT_CANARY,       /* process: it is time for one */
    EVENT_CANARY_HEARD, /* its number; Redis has it */
    EVENT_CANARY_BACK,  /* process, its number */
    EVENT_LOOKUP_LATE,  /* request: half of the time of its lookup is over */
    EVENT_KINDS,
};

/* ---- the model Redis ---- */

struct stored_value {
    bool there, damaged, absent;
    bool mark;   /* of a pass: version is that of the row that was passed */
    bool meta;   /* it has some */
    bool shared; /* stored nowhere: it goes with the message of a release */
    struct entry_life life;
    uint32_t key, version;
    char filler[TOKEN_UUID_BYTES + 1];
    uint64_t px_ms, stale_ms, load_us;
    uint64_t stored_us; /* the world's clock */
    int64_t expires_ms; /* on Redis's clock */
    bool tagged;
    struct tags_clock born;
};

/* The clock of the tags, or the epoch of one. */
struct stored_clock {
    bool there;
    struct tags_clock clock;
    int64_t expires_ms;
};

struct stored_tags {
    struct stored_clock clock, epoch[SIM_TAGS];
    uint64_t reign;          /* under which the clock was last asked */
    uint32_t told[SIM_KEYS]; /* known to nobody: the versions that invalidations of tags were about */
};

struct stored_lease {
    bool there;
    char token[TOKEN_SIZE];
    int64_t expires_ms;
};

struct stored_failure {
    bool there, too_big;
    enum guard_failure failure;
    uint64_t load; /* that failed */
    uint32_t own_ms;
    int64_t expires_ms;
};

/* A process waits for the lease with this tag. */
#define ABANDONED_MARK "abandoned"

struct stored_waiting {
    bool there;
    bool quiet; /* and wants nothing pushed */
    char tag[TOKEN_TAG_BYTES + 1];
    int64_t expires_ms;
};

struct slot {
    struct stored_value value;
    struct stored_lease lease;
    struct stored_failure failure;
    struct stored_waiting waiting;
};

struct permit_out {
    bool there;
    char token[TOKEN_SIZE];
    int64_t expires_ms;
    uint64_t since_us; /* the world's clock: granted or renewed */
};

struct permit_waiter {
    char name[TOKEN_UUID_BYTES + 1];
    uint64_t order; /* 0: none */
    int64_t alive_ms;
    bool told; /* since it last asked: that one is free, or it knows; or it has to find out by itself */
};

struct permits_model {
    struct permit_out out[SIM_PERMITS];
    struct permit_waiter waiter[SIM_WAITERS];
};

/* What a master before the present one is, for those who are connected to it. */
enum former {
    FORMER_REPLICA, /* says so */
    FORMER_FENCED,  /* a master without its replicas: it answers what needs no write */
    FORMER_MASTER,
    FORMER_STOPPED, /* does not answer, and will be a master when it does */
};

/* The master of a shard. */
struct server_model {
    bool down, hung;
    uint32_t epoch; /* one more with every end of a Redis */
    uint64_t reign; /* one more with every other master */
    enum former former;
    uint64_t wakes_us;              /* stopped: not before */
    uint64_t excused_until_us;      /* of two masters: everybody has been told */
    uint32_t split_floor[SIM_KEYS]; /* of the rows, when these two began */
};

struct redis_model {
    struct slot slot[SIM_KEYS], replica[SIM_KEYS];
    struct permits_model permits, permits_replica;
    struct stored_tags tags, tags_replica;
    uint64_t eras;                /* begun so far; no two are ever the same */
    struct slot former[SIM_KEYS]; /* what the master before this one had, and has */
    struct stored_tags tags_former;
    bool at_former; /* the command that runs does so there */
    int64_t clock_offset_ms;
    bool oom, readonly;
    struct server_model server[SIM_SHARDS];
    uint32_t home[SIM_KEYS]; /* the shard of each key */
    bool moving[SIM_KEYS];   /* from there to the other one */
    enum mutant mutant;
    uint32_t max_lease_ms, max_value_ms;
};

/* What a script answers. */
struct redis_answer {
    bool error;
    char what;                 /* acquire: H S L B E M; 0: code */
    struct stored_value value; /* H, S; or what travels with the message */
    struct stored_failure failure;
    int64_t ttl_ms, failure_ms; /* failure_ms: of a stale value that cools down */
    int refresher;
    char tag[TOKEN_TAG_BYTES + 1];             /* B, S: of the lease; "": none */
    char names_seen[2 * TOKEN_UUID_BYTES + 1]; /* B, to a revalidation; "": to another one */
    bool after_abandoned;                      /* so it is, whatever is said */
    bool abandoned;                            /* L: the load before was */
    int64_t code;
    bool published, gone, pushed;
};

/* Why a lease left Redis. */
enum lease_end {
    LEASE_EXPIRED,
    LEASE_RELEASED,
    LEASE_FILLED,
    LEASE_SUPERSEDED,
    LEASE_INVALIDATED,
    LEASE_EVICTED,
    LEASE_LOST, /* restart, failover */
};

struct command;
struct sim;

void redis_execute(struct sim *sim, const struct command *command, struct redis_answer *out);
/* Half of an invalidation by deletion: of the value, or of the lease. */
void redis_delete(struct sim *sim, struct command *command, bool value);
/* The same, or what goes beside it, at the former master: a replica, which the world no longer looks at. */
void redis_execute_at_former(struct sim *sim, struct command *command, bool companion);
/* Whether that one answers, and takes writes. */
bool redis_former_serves(const struct sim *sim, uint32_t shard);
/* Drops what has expired. */
void redis_expire(struct sim *sim, uint32_t key);
int64_t redis_now_ms(const struct sim *sim);
bool redis_has_expired(const struct sim *sim, int64_t expires_ms);
/* Where a key is, and the tags, and the permits. */
uint32_t shard_of_key(const struct sim *sim, uint32_t key);
uint32_t shard_of_tags(const struct sim *sim);
uint32_t shard_of_permits(const struct sim *sim);

/* ---- sim_permits.c ---- */

void permits_execute(struct sim *sim, const struct command *command, struct redis_answer *out);
struct load_model;
void check_permit_of_load(struct sim *sim, const struct load_model *load);
void check_permit_renewed(struct sim *sim, const struct command *renewal, bool lost);
void check_permits_rest(struct sim *sim);

/* ---- the database ---- */

struct row {
    uint32_t version;
    bool absent[SIM_VERSIONS], too_big[SIM_VERSIONS];
    uint32_t changes;                      /* of its entry in Redis */
    uint32_t floor;                        /* highest version whose invalidation was confirmed */
    uint32_t floor_by_key, floor_by_tag;   /* by which of the two */
    uint32_t gone;                         /* likewise, carried out in Redis: nothing older is there */
    char lease_back[TOKEN_UUID_BYTES + 1]; /* a failover has brought it back after its end; "": none */
    uint64_t confirmed_us[SIM_VERSIONS];   /* of those up to the floor */
    uint64_t stale_us;                     /* first answer with the stale value that is there; 0: none */
    uint32_t stale_changes;
    uint64_t load_us;   /* last start of a load */
    uint64_t failed_us; /* last failure of a load under a standing lease; 0: none since */
};

/* ---- processes ---- */

struct request {
    struct core_waiter waiter; /* first */
    uint32_t process, life, key, floor;
    uint64_t start_us, deadline_us; /* the world's clock */
    uint32_t changes;               /* of the row's entry in Redis when it began */
    bool found;                     /* an entry was there then, for some time to come */
    bool looking;                   /* its lookup is under way: the core does not know of it yet */
    bool open;
    unsigned answers;
    uint64_t over_us; /* answered */
    bool probe;
    uint32_t parent_load; /* nested: 1 + the load whose loader asks; 0: none */
    struct change_of_request change;
    struct keep_of_request keep;
    struct outage_of_request outage;
};

/* Of the request with the same number. */
struct lookup_model {
    struct near_lookup near;
    uint64_t sent_us;
    int64_t pttl_ms;
    struct stored_value entry;
    struct tags_epochs epochs;
    bool asked;     /* for the epochs, before the entry */
    bool at_former; /* sent over a connection to a former master */
    bool tags_at_former;
    bool refused; /* which said so */
    uint32_t shard, redirections;
    uint32_t epoch, tags_epoch; /* of the Redis that answered; of that which has the tags */
};

struct write {
    struct core_invalidation invalidation; /* first */
    uint32_t process, life, key, attempts;
    bool open, probe;
    bool of_tag; /* invalidates that instead: all keys that have it */
    uint32_t tag;
    uint32_t versions[SIM_KEYS]; /* of all, when it was sent */
};

struct load_model {
    uint64_t id, batch; /* the core's */
    uint32_t process, life, key, version;
    uint32_t commands_before;
    bool has_previous;
    uint32_t previous; /* the version that it would replace */
    bool read, ended, cancelled, leased, voided, fails, ignores_cancel;
    uint32_t depth;     /* loads that it is nested in */
    uint32_t outer;     /* 1 + the one in whose place it runs; 0: in its own */
    uint32_t lender;    /* 1 + the load whose thread runs it; 0: a worker of its own */
    uint32_t nests;     /* 1 + the key that its loader asks for before it ends; 0: none */
    bool blocked, lent; /* its loader waits for another load; its thread runs another one meanwhile */
    bool as_one;        /* it fails, and so does every load of its query, because of what was asked */
    uint64_t start_us, end_us, ended_us, deadline_us;
    char token[TOKEN_SIZE];
    char permit[TOKEN_SIZE];  /* "": it runs without */
    uint64_t permit_until_us; /* as far as its process can know; 0: lost */
    bool permit_lost;
    struct keep_of_load keep;
    struct defer_of_load defer;
    struct outage_of_load outage;
};

struct command {
    struct core_action action; /* its strings point to the copies below */
    uint32_t process, life, shard, connection, key;
    struct value *value; /* owned: what a fill stores */
    char token[TOKEN_SIZE], prev[TOKEN_SIZE], refused[TOKEN_UUID_BYTES + 1], wanted[TOKEN_UUID_BYTES + 1];
    char names_seen[2 * TOKEN_UUID_BYTES + 1];
    char waiter[TOKEN_UUID_BYTES + 1];
    struct redis_answer answer;
    bool executed, answered, dropped, granted;
    uint32_t redirections;
    bool apart;       /* what goes beside it goes to another master */
    bool half, moved; /* by_delete: one of two is gone; it was told that its keys are moving */
    bool at_former;   /* sent over a connection to a former master */
    uint32_t version; /* of the row when it was sent */
    uint32_t sent_versions[SIM_KEYS]; /* INVALIDATE of a tag: of all rows */
    uint64_t sent_us, limit_us;
    uint32_t epoch; /* of the Redis that ran it */
    /* tags */
    uint32_t
        versions[SIM_KEYS];   /* INVALIDATE of a tag: of all rows when sent; then what Redis has at least */
    uint32_t tags_connection; /* by which its companion goes, and what asks for epochs */
    bool tags_at_former, tags_dropped;
    bool replied;            /* its reply is here; that to its companion, from another master, is not */
    uint64_t tags_us;        /* when that is; 0: never */
    struct tags_clock clock; /* ACQUIRE: what its companion has read */
    bool kept;               /* FILL, TOUCH: what its companion has found */
    bool checking;           /* its reply waits for the epochs of what it found */
    uint32_t check_epoch;    /* of the Redis that was asked */
    struct tags_epochs epochs;
};

/* A process's connections to the master of a shard. */
struct link_model {
    uint64_t reign; /* of the master that it was last connected to */
    uint32_t connection;
    bool up, mute;                  /* mute: replies no longer come */
    bool at_former, loop_at_former; /* it leads to a former master; that of the lookups does */
    bool greets;                    /* is being greeted by one that was stopped */
    uint32_t shifted;               /* MUTANT_REPLY_SHIFTED: 1 + the command whose reply is read next */
    uint64_t sent_until_us, answered_until_us; /* pipelined: nothing overtakes */
};

/* What this process has been told about an invalidation of a key or, behind them, a tag. */
struct said_model {
    bool confirmed;             /* and its caller was told so */
    uint32_t shard, replied_by; /* whose master did; that of the last reply */
    bool at_former;             /* that reply was a former master's */
    bool owed;                  /* another reign has begun since: it has to be said again */
};

struct process {
    struct core *core;
    struct sim *sim;
    uint32_t index, life; /* life: 0 while dead */
    uint64_t clock_offset_us, tick_us, stalled_until_us;
    uint64_t since_us; /* the world's clock: its start */
    struct link_model link[SIM_SHARDS];
    uint32_t map[SIM_KEYS]; /* where it believes the keys to be */
    struct said_model said[SIM_KEYS + SIM_TAGS];
    /* the subscription */
    bool subscribed;
    uint32_t subscription;  /* how often it was */
    uint64_t heard_from_us; /* messages are late: none is read before */
    char last_token[TOKEN_SIZE];
    char waiter[TOKEN_UUID_BYTES + 1]; /* its name in the queue for permits */
    uint32_t ticks;                    /* scheduled so far: only the last one counts */
    bool closing;
    bool turn_set;                       /* the end of its turn is an event to come */
    uint32_t accepted, refused, running; /* gets of this life; queries */
    uint32_t looking;                    /* lookups under way */
    /* the near cache */
    struct near *near;             /* NULL: there is none */
    bool hears;                    /* as far as it knows */
    bool sweep_due;                /* near_sweep() has something to do */
    uint32_t near_floor[SIM_KEYS]; /* no near hit may be older */
    uint64_t voided_us[SIM_KEYS];  /* nor of a lookup that was sent before */
    struct outage_of_process outage;
};

/* ---- parameters of a run ---- */

struct params {
    uint32_t processes, keys, shards;
    enum guard_mode mode;
    struct guard_policy policy;
    bool
        mixed; /* some processes know no meta, and have this policy; the others need it, and have this one: */
    struct guard_policy newer_policy;
    uint32_t workers, queue, max_waiters, redis_limit_ms;
    uint32_t load_threads;       /* 0: as many as workers */
    uint32_t permits, permit_ms; /* 0: none */
    bool calm;                   /* nothing goes wrong but messages and, in some, loads */
    uint32_t tick_late_us;
    bool enabled[FAULTS];
    uint32_t lookup_percent;   /* of the gets: looked up on a server loop before the core is asked */
    uint32_t together_percent; /* of the gets: asked with others, to be loaded in a batch */
    uint32_t near_ms;          /* 0: no near caches */
    uint32_t near_bytes;
    bool tagged;      /* loaders name tags, and some writes invalidate one */
    bool conditional; /* loaders compare with the value that is refreshed */
    bool pushes;      /* values travel with the messages */
    uint32_t nested;  /* one loader in so many asks for another key; 0: none */
    uint32_t latency_us, load_ms;
    uint32_t bursts, writes, disasters;
    uint32_t spite; /* writes and gets at the worst moments, one in so many; 0: none */
    uint64_t chaos_us;
    bool replays;
    uint32_t failover_ms; /* how long Redis is away then; 0: short */
    bool sentinels;       /* say where the master is; otherwise one that wakes finds out by itself, soon */
    uint32_t outages, canary_ms;
    uint32_t
        kept_ms; /* what is known to be right answers for so long where Redis does not; 0: nothing is kept */
};

enum phase { PHASE_CHAOS, PHASE_HEAL, PHASE_PROBE, PHASE_END };

struct sim {
    struct course course;
    struct params params;
    struct redis_model redis;
    struct row row[SIM_KEYS];
    struct process process[SIM_PROCESSES];
    struct request request[SIM_REQUESTS];
    struct lookup_model lookup[SIM_REQUESTS];
    struct write write[SIM_WRITES];
    struct load_model load[SIM_LOADS];
    struct command command[SIM_COMMANDS];
    uint32_t requests, writes, loads, commands;
    uint32_t lives, tokens;
    enum phase phase;
    enum mutant mutant;
    const struct stored_value *pushed; /* what the message that is being told carries; NULL: nothing */
    struct wishes_model wishes;
    uint64_t hit[FAULTS];
    uint64_t answers[STATUSES];
    uint64_t seen[SEENS];
};

/* ---- sim_world.c ---- */

/* Seeds from here on are worlds with several masters. */
#define SIM_OF_SHARDS (UINT64_C(1) << 40)
/* Those from here on have wishes. */
#define SIM_OF_WISHES (UINT64_C(1) << 41)
/* Those from here on have outages. */
#define SIM_OF_OUTAGES (UINT64_C(1) << 42)

/* Runs one seed; true: nothing was found. */
bool sim_run(struct sim *sim, uint64_t seed, enum mutant mutant, bool trace);
uint64_t sim_between(struct sim *sim, uint64_t low, uint64_t high);
bool sim_one_in(struct sim *sim, uint32_t chances);
uint32_t some_shard(struct sim *sim);
/* Nothing goes wrong and nothing is healing: what is promised must hold to the letter. */
static inline bool sim_is_calm(const struct sim *sim)
{
    return sim->params.calm && sim->phase == PHASE_CHAOS;
}
/* Whether this fault happens now, with one chance in `chances`; counts it. */
bool sim_fault(struct sim *sim, enum fault fault, uint32_t chances);
void sim_at(struct sim *sim, uint64_t at_us, struct event event);
void sim_trace(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sim_fail(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A moment at which a write, or a get, of this key is most likely to do harm. */
void sim_moment(struct sim *sim, uint32_t key, enum event_kind kind);

/* ---- sim_process.c ---- */

bool process_runs(const struct process *process);
uint64_t process_now_us(const struct process *process);
void process_start(struct sim *sim, struct process *process);
void process_crash(struct sim *sim, struct process *process);
void process_stall(struct sim *sim, struct process *process, uint64_t span_us);
void process_shut_down(struct sim *sim, struct process *process);
void process_close(struct sim *sim, struct process *process);
/* After its end. */
void process_restart(struct sim *sim, struct process *process);
void process_free(struct sim *sim, struct process *process);
/* After every call into its core: performs what it asks for. */
void process_drain(struct sim *sim, struct process *process);
void process_get(struct sim *sim, struct process *process, uint32_t key, uint64_t deadline_ms);
/* For a load, which is blocked until it is answered. */
void process_get_nested(struct sim *sim, struct process *process, uint32_t key, uint32_t parent_load);
/* A request that no lookup has answered. */
void process_enter(struct sim *sim, struct process *process, uint32_t request);
/* Its result is set. */
void process_answered(struct sim *sim, struct request *request);
void process_leave(struct sim *sim, uint32_t request);
void process_invalidate(struct sim *sim, uint32_t write);
void process_load_read(struct sim *sim, uint32_t load);
/* Its loader has returned. */
void process_give_place_back(struct sim *sim, struct process *process, const struct load_model *load);
void process_thread_is_free(struct sim *sim, const struct load_model *load);
/* NULL: it was never started. */
struct load_model *process_load_of(struct sim *sim, const struct process *process, uint64_t id);
void process_load_end(struct sim *sim, uint32_t load);
void process_write(struct sim *sim, uint32_t key, bool probe);
struct core_key process_key(uint32_t key);
/* What a row of this version looks like: "k<key> v<version>", and padding if it is too big. */
enum { BODY_SIZE = 96, BODY_MOST = 64 };
struct value *body_value(uint32_t key, uint32_t version, bool too_big, const char *validator,
                         const char *tags, bool meta);
/* What a reply or a message brings of an entry, NULL of an absent one. */
struct value *body_of_entry(const struct sim *sim, const struct stored_value *entry, const char *validator);
bool body_read(const char *body, uint32_t *key, uint32_t *version);

/* ---- sim_lookup.c ---- */

/* Its process knows that it cannot be sent. */
bool lookup_is_cut_off(const struct sim *sim, const struct process *process, const struct request *request);
/* False: no connection, or no time for it. */
bool lookup_send(struct sim *sim, struct process *process, uint32_t request);
void lookup_pttl(struct sim *sim, uint32_t request);
void lookup_get(struct sim *sim, uint32_t request);
void lookup_reply(struct sim *sim, struct process *process, uint32_t request);
void lookup_limit(struct sim *sim, struct process *process, uint32_t request);
void lookup_late(struct sim *sim, struct process *process, uint32_t request);
/* Answers one that is under way: its client has left, or the process ends. */
void lookup_end(struct sim *sim, struct request *request, enum guard_status status);
void lookup_end_all(struct sim *sim, struct process *process);

/* ---- sim_near.c ---- */

void sim_near_open(struct sim *sim, struct process *process);
void sim_near_close(struct sim *sim, struct process *process);
/* True: the request is answered. */
bool sim_near_get(struct sim *sim, struct process *process, struct request *request);
/* A lookup has found an entry, which makes this result. */
void sim_near_found(struct sim *sim, struct process *process, const struct request *request,
                    struct value *value, const struct guard_result *result);
/* An invalidation that the process makes: accepted; over; carried out in Redis. */
void sim_near_begins(struct sim *sim, struct process *process, const struct write *write);
void sim_near_ends(struct sim *sim, struct process *process, const struct write *write);
void sim_near_executed(struct sim *sim, struct command *command);
void sim_near_message(struct sim *sim, struct process *process, const struct event *message);
/* To a command of its own. */
void sim_near_replied(struct sim *sim, struct process *process, const struct command *command);
void sim_near_tag_message(struct sim *sim, struct process *process, const struct command *invalidation);
/* The subscription: it is lost and will be back after so long; its process knows; it is back. */
void sim_near_lost(struct sim *sim, const struct process *process, uint64_t back_us);
void sim_near_unheard(struct sim *sim, struct process *process);
void sim_near_heard(struct sim *sim, struct process *process);
/* A failover brings back what was invalidated. */
void sim_near_reign(struct sim *sim, struct process *process);
void sim_near_failover(struct sim *sim, uint32_t key, uint32_t oldest);

/* ---- sim_net.c ---- */

/* Of one way, command, reply or message. */
uint64_t net_latency(struct sim *sim);
void net_send(struct sim *sim, struct process *process, const struct core_action *action);
void net_execute(struct sim *sim, uint32_t command);
void net_reply(struct sim *sim, uint32_t command);
void net_unsent(struct sim *sim, uint32_t command);
void net_limit(struct sim *sim, uint32_t command);
void net_companion(struct sim *sim, uint32_t command);
void net_check(struct sim *sim, uint32_t command);
void net_checked(struct sim *sim, uint32_t command);
void net_push_check(struct sim *sim, const struct event *event);
void net_push_checked(struct sim *sim, struct process *process, const struct event *event);
void net_break(struct sim *sim, struct process *process, uint32_t shard);
/* Greeted: by a master that was stopped while it connected. */
void net_connect(struct sim *sim, struct process *process, uint32_t shard, bool greeted);
void net_unsubscribe(struct sim *sim, struct process *process);
void net_subscribe(struct sim *sim, struct process *process);
/* What a command has done, and perhaps stored. */
void net_publish(struct sim *sim, uint32_t command);
/* A message arrives. */
void net_message(struct sim *sim, struct process *process, const struct event *event);
/* To the process with this name. */
void net_tell_permit(struct sim *sim, const char *waiter);
/* Of a dead process: nothing of it will be answered; what has not arrived may still run. */
void net_forget(struct sim *sim, const struct process *process);
/* The commands in the sockets of a Redis that ends. */
void net_drop_commands(struct sim *sim, uint32_t shard);
/* What a Redis's end takes with it: all connections, and those commands. */
void net_redis_gone(struct sim *sim, uint32_t shard);

/* ---- sim_tags.c ---- */

/* The tags of a key as guard/base/tags.h writes them; "": none in this run. */
const char *tags_of_key(const struct sim *sim, uint32_t key);
bool tags_has(uint32_t key, uint32_t tag);
/* Whether an invalidation is one of this key, by its name or a tag. */
bool tags_touched(const struct write *write, uint32_t key);
struct core_key tags_name(uint32_t tag);
/* Whether something goes beside this command. */
bool tags_companion(const struct sim *sim, const struct command *command);
void tags_run_companion(struct sim *sim, struct command *command);
/* What Redis says about the tags of this key; what that means for the entry there. */
struct tags_epochs tags_ask(const struct sim *sim, uint32_t key);
/* The same of a former master, which refuses: not answered. */
struct tags_epochs tags_ask_at(struct sim *sim, uint32_t key, bool at_former);
enum tags_verdict tags_verdict_of(const struct sim *sim, const struct stored_value *value,
                                  const struct tags_epochs *epochs);
bool tags_good_now(const struct sim *sim, uint32_t key);
/* The script. False: Redis refuses. */
bool tags_invalidate(struct sim *sim, const struct command *command);
/* What is read when a fill is sent. */
struct tags_clock tags_born(const struct sim *sim, const struct core_action *action);

/* ---- sim_fault.c ---- */

void fault_next(struct sim *sim);
void fault_recover(struct sim *sim, enum fault fault, uint32_t shard);
/* This master is killed, and will come back empty. */
void fault_empty(struct sim *sim, uint32_t shard);
/* The replica of this shard gets all that its master has. */
void fault_replicate(struct sim *sim, uint32_t shard);
void fault_heal(struct sim *sim);

/* ---- sim_check.c ---- */

void check_lease_gone(struct sim *sim, uint32_t key, const char *token, enum lease_end end, const char *by);
void check_answer(struct sim *sim, const struct request *request);
/* The core has taken it, or refused it because too many wait. */
void check_entered(struct sim *sim, const struct request *request, bool refused);
/* A renewal is sent. */
void check_hold(struct sim *sim, const struct command *renewal);
void check_lost(struct sim *sim, const struct command *renewal);
void check_buried(struct sim *sim, const struct process *process);
void check_request(struct sim *sim, struct request *request);
/* What a request that begins may expect. */
uint32_t check_floor(struct sim *sim, const struct process *process, uint32_t key);
void check_load_starts(struct sim *sim, struct load_model *load);
void check_load_failed(struct sim *sim, const struct load_model *load);
/* The version that the load under this token has read. */
uint32_t check_version_loaded(const struct sim *sim, const char *token);
/* A fill or a touch has been carried out; fenced: under the lease that stood. */
void check_stored(struct sim *sim, const struct command *command, bool fenced);
/* This and newer from now on. */
void raise_floor(struct sim *sim, struct row *row, uint32_t version, bool by_tag);
/* A reply to an invalidation arrives. */
void check_confirmed(struct sim *sim, const struct command *command);
/* Two masters of this shard begin. */
void check_split(struct sim *sim, uint32_t shard);
/* Another reign of this shard begins. */
void check_reign(struct sim *sim, uint32_t shard);
void check_failover(struct sim *sim, uint32_t key);
/* Clock and epochs have failed over. */
void check_tags_failover(struct sim *sim);
void check_queues(struct sim *sim, const struct process *process);
void check_stats(struct sim *sim, const struct process *process);
/* Nothing is under way any more. */
void check_rest(struct sim *sim);
void check_end(struct sim *sim);
