/* SPDX-License-Identifier: MIT */
/*
 * lock_sim.h - processes that lock, in one thread: several lock cores, a model Redis, a network between them, one
 * virtual clock, one seed. The cores are those of guard/locks itself; course.h is the seed's time and dice.
 *
 *   lock_world.c    one run: the parameters a seed stands for, its phases, the dispatch of events
 *   lock_process.c  a process: its core, clock, owners, requests and holds; killed, stalled, closed
 *   lock_net.c      connections: commands that are lost, late or unanswered; messages lost, late and repeated
 *   lock_server.c   what a provider makes of an action, on lock_model.h
 *   lock_masters.c  RedLock: several of these, each part of a command by itself
 *   lock_fault.c    the disasters, by kind and count
 *   lock_check.c    the oracle, of actions, answers and holds
 *   lock_tokens.c   the oracle, of tokens: what it knows of each claim at the server, queues and numbers
 *   lock_names.c    names of faults, statuses and what is counted
 *
 * A run goes through chaos (requests and faults), healing (no faults; everything under way ends), probes (every
 * process then gets every name) and the end (every core comes to rest and nothing is left at the server).
 *
 * Time     course.now_us is the world's. Every process has a clock of its own, offset against it and a little faster
 *          or slower; Redis's is stepped.
 * Threads  none.
 */
#pragma once

#include "course.h"
#include "guard/locks/lock_core.h"
#include "guard/locks/redlock/lock_quorum.h"
#include "lock_model.h"

enum {
    LOCK_SIM_PROCESSES = 4,
    LOCK_SIM_NAMES = 3,   /* that are locked */
    LOCK_SIM_LATCHES = 2, /* names behind them */
    LOCK_SIM_ALL_NAMES = LOCK_SIM_NAMES + LOCK_SIM_LATCHES,
    LOCK_SIM_OWNERS = 2, /* of a process */
    LOCK_SIM_MASTERS = 5,
    LOCK_SIM_REQUESTS = 512,
    LOCK_SIM_TOKENS = 4096,
    LOCK_SIM_COMMANDS = 32768,
    LOCK_SIM_CROWD = 150,          /* waiters on one name */
    LOCK_SIM_MAX_LEASE_MS = 12000, /* longer than a command can be late */
    LOCK_SIM_FENCE_MS = 3600000,
};

/* ---- faults ---- */

/* X(member of enum lock_fault, its name) */
#define LOCK_FAULTS_OF_ALL(X)                                                                                \
    X(LOCK_FAULT_COMMAND_LOST, "command lost")     /* never reaches Redis */                                 \
    X(LOCK_FAULT_COMMAND_LATE, "command ran late") /* runs after its client has given up */                  \
    X(LOCK_FAULT_REPLY_LOST, "reply lost")         /* ran, but its reply never arrives */                    \
    X(LOCK_FAULT_MESSAGE_LOST, "message lost")                                                               \
    X(LOCK_FAULT_MESSAGE_TWICE, "message twice")                                                             \
    X(LOCK_FAULT_MESSAGE_LATE, "message late")                                                               \
    X(LOCK_FAULT_MESSAGE_FIRST, "message before reply")  /* a message overtook the reply to a command */     \
    X(LOCK_FAULT_MESSAGE_STRAY, "message about nothing") /* that anybody waits for */                        \
    X(LOCK_FAULT_CANCEL, "request cancelled")                                                                \
    X(LOCK_FAULT_HOLD_LONG, "hold beyond its lease")                                                         \
    X(LOCK_FAULT_CONNECTION, "connection broken") /* breaks; the first of the disasters */                   \
    X(LOCK_FAULT_SUBSCRIPTION, "subscription dead")                                                          \
    X(LOCK_FAULT_KILL, "process killed")                                                                     \
    X(LOCK_FAULT_CLOSE, "locks closed") /* and opened again */                                               \
    X(LOCK_FAULT_STALL, "process stalled")                                                                   \
    X(LOCK_FAULT_OWNER_FREED, "owner freed")                                                                 \
    X(LOCK_FAULT_DROPPED, "hold dropped") /* the server ends a hold and says so */                           \
    X(LOCK_FAULT_HELD_GONE, "held evicted")                                                                  \
    X(LOCK_FAULT_QUEUE_GONE, "queue evicted")                                                                \
    X(LOCK_FAULT_ALIVE_GONE, "alive evicted")                                                                \
    X(LOCK_FAULT_FENCE_GONE, "fence evicted")                                                                \
    X(LOCK_FAULT_TOMBSTONES_GONE, "tombstones evicted")                                                      \
    X(LOCK_FAULT_EMPTY, "redis back empty")                                                                  \
    X(LOCK_FAULT_FAILOVER, "redis failover") /* a lagging replica takes over */                              \
    X(LOCK_FAULT_HANG, "redis hung")                                                                         \
    X(LOCK_FAULT_READONLY, "redis read-only")                                                                \
    X(LOCK_FAULT_CLOCK_FORWARD, "clock forward")                                                             \
    X(LOCK_FAULT_CLOCK_BACK, "clock back")

#define LOCK_MEMBER(name, text) name,
enum lock_fault { LOCK_FAULTS_OF_ALL(LOCK_MEMBER) LOCK_FAULTS };
enum {
    LOCK_FIRST_DISASTER = LOCK_FAULT_CONNECTION,
    LOCK_DISASTERS = LOCK_FAULTS - LOCK_FAULT_CONNECTION,
};

extern const char *const lock_fault_names[LOCK_FAULTS];
extern const char *const lock_status_names[GUARD_LOCK_NO_MEMORY + 1];

/* X(member of enum lock_seen, its name): what a number of runs must have met to mean something. */
#define LOCK_SEENS_OF_ALL(X)                                                                                 \
    X(LOCK_SEEN_GRANTED, "granted at once")                                                                  \
    X(LOCK_SEEN_WAITED, "granted after waiting")                                                             \
    X(LOCK_SEEN_SEVERAL, "of several names")                                                                 \
    X(LOCK_SEEN_REENTERED, "re-entered")                                                                     \
    X(LOCK_SEEN_TOGETHER, "beside others")                                                                   \
    X(LOCK_SEEN_LATCHED, "latches open")                                                                     \
    X(LOCK_SEEN_RENEWED, "renewals")                                                                         \
    X(LOCK_SEEN_LOST, "holds lost")                                                                          \
    X(LOCK_SEEN_LOST_EARLY, "of them before their end") /* their validity was ending */                      \
    X(LOCK_SEEN_GAVE_LOST, "given back, but gone")                                                           \
    X(LOCK_SEEN_GAVE_UNKNOWN, "given back in the dark")                                                      \
    X(LOCK_SEEN_LATE_GRANT, "grants that came too late") /* their validity was over */                       \
    X(LOCK_SEEN_GONE, "refused by a tombstone")          /* a take, by its own */                            \
    X(LOCK_SEEN_STAYED, "places kept together")          /* renewed by one command for all */                \
    X(LOCK_SEEN_PLACE_LOST, "places lost")                                                                   \
    X(LOCK_SEEN_OVERTAKEN, "overtaken by a mutex")                                                           \
    X(LOCK_SEEN_EXCUSED, "held twice, with a reason")                                                        \
    X(LOCK_SEEN_REFUSED, "requests refused")             /* INVALID, SHED, CLOSING */                        \
    X(LOCK_SEEN_GAVE_ASKING, "given back under renewal") /* while one was out */                             \
    X(LOCK_SEEN_HANDED, "hand-overs counted")            /* in commands */                                   \
    X(LOCK_SEEN_AGREED, "granted by a quorum")                                                               \
    X(LOCK_SEEN_DISAGREED, "refused for want of one")

enum lock_seen { LOCK_SEENS_OF_ALL(LOCK_MEMBER) LOCK_SEENS };

extern const char *const lock_seen_names[LOCK_SEENS];

#define LOCK_SIM_DENIED "NOPERM"

/* ---- events ---- */

enum lock_event_kind {
    LOCK_EVENT_TICK,      /* process */
    LOCK_EVENT_TURN,      /* process: the end of its turn */
    LOCK_EVENT_EXECUTE,   /* command reaches the server */
    LOCK_EVENT_REPLY,     /* command's reply reaches its process */
    LOCK_EVENT_LIMIT,     /* command's time is over */
    LOCK_EVENT_UNSENT,    /* command could not be sent */
    LOCK_EVENT_BROKEN,    /* process: connection `subject` */
    LOCK_EVENT_CONNECT,   /* process */
    LOCK_EVENT_SUBSCRIBE, /* process */
    LOCK_EVENT_MESSAGE,   /* process, name; 1 + the token, 0: all */
    LOCK_EVENT_REQUEST,   /* process */
    LOCK_EVENT_CANCEL,    /* request */
    LOCK_EVENT_GIVE,      /* request: its hold */
    LOCK_EVENT_FAULT,     /* the next disaster */
    LOCK_EVENT_RECOVER,   /* fault: its end */
    LOCK_EVENT_CLOSED,    /* process: its drain is over */
    LOCK_EVENT_START,     /* process */
    LOCK_EVENT_REPLICATE,
    LOCK_EVENT_MASTER, /* command, master, part: reaches the master */
    LOCK_EVENT_MASTER_REPLY,
    LOCK_EVENT_MASTER_LIMIT,
};

/* ---- what is under way ---- */

enum lock_token_state {
    LOCK_TOKEN_NEW,
    LOCK_TOKEN_ASKING,  /* a take is out */
    LOCK_TOKEN_WAITING, /* refused, or not answered */
    LOCK_TOKEN_HELD,    /* granted, and its process knows */
    LOCK_TOKEN_GIVEN,   /* a give was sent */
    LOCK_TOKEN_OVER,    /* and answered */
};

/* A claim as the oracle knows it. Instants are the world's; 0: never. */
struct lock_token {
    char text[LOCK_TOKEN_SIZE];
    uint32_t process, life;
    enum lock_token_state state;
    enum guard_lock_kind kind;
    uint32_t units, limit, lease_ms, place_ms;
    uint32_t name[GUARD_LOCK_NAMES_MAX];
    size_t count;
    bool overtakes, asked, doubt; /* doubt: a take was not answered */
    uint32_t renewals_out;
    uint64_t heard_us;      /* its process heard that it is granted */
    uint64_t over_us;       /* the answer to a take has ended it */
    uint64_t told_us;       /* its process was last told that it may ask */
    uint64_t gave_us;       /* a give was sent: last */
    uint64_t gave_first_us; /* and first; 0 also if it had to wait for the link */
    /* at the server */
    uint64_t first_us;             /* its first take ran */
    uint64_t order;                /* in the queue; 0: not there */
    uint64_t place_until_us;       /* unless it asks again */
    uint64_t granted_us, until_us; /* first; its lease ends */
    uint64_t given_us;             /* a give ran */
    uint64_t damaged_us;           /* a fault took its hold, or shortened it, and no renewal has told since */
    bool excused;                  /* a fault may have cost it its place */
    bool not_held;                 /* a renewal has said so, or its process was told */
    uint64_t valid_us;             /* its process's clock: what it may rightly believe */
    uint64_t fence[GUARD_LOCK_NAMES_MAX]; /* as its process was told */
};

/* What a command has become at several masters. */
struct lock_masters_round {
    struct lock_round round;
    bool answered[LOCK_SIM_MASTERS], raise_answered[LOCK_SIM_MASTERS];
    struct lock_reply reply[LOCK_SIM_MASTERS], raise_reply[LOCK_SIM_MASTERS];
};

struct lock_command {
    struct lock_action action; /* its pointers are of no use */
    uint32_t process, life, connection;
    uint32_t token;   /* but for STAY */
    uint32_t *tokens; /* STAY; owned */
    uint32_t name[GUARD_LOCK_NAMES_MAX];
    struct lock_reply reply;
    uint32_t *ask_now;                /* owned */
    struct lock_masters_round *round; /* owned; NULL: there is one Redis */
    bool executed, answered, dropped;
    bool too_young; /* Redis is: it was not asked */
    uint64_t sent_us, limit_us;
    uint64_t sent_local_us; /* its process's clock */
    uint32_t epoch;         /* of the Redis that ran it */
};

/* A request and what was granted. */
struct lock_client {
    struct lock_request request; /* first */
    struct lock_hold hold;
    struct lock_name name[GUARD_LOCK_NAMES_MAX];
    uint32_t index[GUARD_LOCK_NAMES_MAX]; /* of each name */
    uint32_t process, life;
    uint32_t owner;                 /* 1 + that of its process; 0: nobody's */
    uint64_t start_us, deadline_us; /* the world's */
    uint64_t granted_us;            /* its process's clock */
    uint64_t valid_until_us;        /* likewise, as it was after the last event */
    uint32_t token[GUARD_LOCK_NAMES_MAX];
    uint32_t hold_for_ms;
    unsigned answers;
    bool open, cancelled, probe, owner_gone;
    bool holds, lost, given; /* holds: granted, and given back not yet */
    bool is_back;            /* told that it was given back */
};

struct lock_process {
    struct lock_core *core;
    struct lock_sim *sim;
    uint32_t index, life; /* life: 0 while dead */
    uint64_t clock_offset_us, since_us, stalled_until_us;
    int64_t drift_ppm;
    struct lock_owner *owner[LOCK_SIM_OWNERS];
    uint32_t connection;
    bool link_up, mute; /* mute: replies no longer come */
    uint64_t connected_us;
    uint64_t sent_until_us, answered_until_us;
    uint64_t sent_to_us[LOCK_SIM_MASTERS]; /* likewise, of each master */
    bool subscribed;
    uint32_t subscription;
    uint32_t ticks;        /* scheduled so far: only the last one counts */
    uint64_t tick_us;      /* of that, on its own clock */
    uint64_t disturbed_us; /* the last fault that it felt */
    bool closing;
    bool turn_set;                  /* the end of its turn is an event to come */
    uint32_t denials, told_denials; /* takes that were denied; and what was answered for that */
    uint64_t denied_us;             /* the last of them */
};

/* ---- parameters of a run ---- */

struct lock_params {
    uint32_t processes, names;
    uint32_t masters; /* of RedLock; 0: one Redis */
    uint32_t limit_ms, place_ms, warn_ms, max_requests, once_ms;
    uint32_t lease_least_ms, lease_most_ms, hold_most_ms;
    uint32_t permits[LOCK_SIM_NAMES]; /* their number; 0: the name is locked for reading and writing */
    uint32_t parties[LOCK_SIM_LATCHES];
    uint32_t overtaking; /* one exclusive request in so many is a MUTEX; 0: none */
    bool all_at_once, stays;
    bool wait_after_restart;
    bool denies; /* what is read-only elsewhere refuses our login, which is for good: NOPERM */
    bool
        calm; /* nothing goes wrong but what a process feels as little as messages and other processes' deaths */
    bool quiet; /* calm, and messages arrive */
    bool crowd; /* quiet: LOCK_SIM_CROWD requests for one name */
    bool enabled[LOCK_FAULTS];
    uint32_t latency_us, tick_late_us;
    uint32_t turn_us; /* answers and the like are told so long after what led to them, at most */
    uint32_t bursts, disasters;
    uint32_t spite; /* cancels, gives and kills at the worst moments, one in so many; 0: none */
    uint64_t chaos_us;
};

enum lock_phase { LOCK_PHASE_CHAOS, LOCK_PHASE_HEAL, LOCK_PHASE_PROBE, LOCK_PHASE_END };

struct lock_server {
    struct lock_model model, replica;
    int64_t clock_offset_ms;
    bool down, hung, readonly;
    uint32_t epoch; /* one more with every end of a Redis */
    uint64_t up_since_us;
    uint64_t disturbed_us;           /* its last fault */
    uint64_t tombstones_us;          /* the last one that may have cost it tombstones */
    uint64_t orders;                 /* given so far */
    uint64_t fence[LOCK_SIM_NAMES];  /* the highest number given */
    uint64_t stored[LOCK_SIM_NAMES]; /* the number that stood there before the last command */
    uint32_t handed;                 /* a crowd's: commands since the last grant */
    uint64_t handed_us;
    uint64_t opened_us[LOCK_SIM_LATCHES];
};

struct lock_master {
    struct lock_model model;
    int64_t clock_offset_ms;
    uint64_t down_until_us, young_until_us;
    uint32_t epoch; /* one more each time it has lost its memory */
};

struct lock_sim {
    struct course course;
    struct lock_params params;
    struct lock_server server;
    struct lock_master master[LOCK_SIM_MASTERS];
    struct lock_process process[LOCK_SIM_PROCESSES];
    struct lock_client client[LOCK_SIM_REQUESTS];
    struct lock_token token[LOCK_SIM_TOKENS];
    struct lock_command command[LOCK_SIM_COMMANDS];
    uint32_t held[LOCK_SIM_REQUESTS]; /* requests with a hold that is out */
    uint32_t clients, tokens, commands, held_count, lives;
    uint32_t pending; /* the first command that may be unanswered */
    enum lock_phase phase;
    uint64_t hit[LOCK_FAULTS];
    uint64_t answers[GUARD_LOCK_NO_MEMORY + 1];
    uint64_t seen[LOCK_SEENS];
};

/* ---- lock_world.c ---- */

/* Runs one seed; true: nothing was found. */
bool lock_sim_run(struct lock_sim *sim, uint64_t seed, bool trace);
uint64_t lock_sim_between(struct lock_sim *sim, uint64_t low, uint64_t high);
bool lock_sim_one_in(struct lock_sim *sim, uint32_t chances);
/* Whether this fault happens now, with one chance in `chances`; counts it. */
bool lock_sim_fault(struct lock_sim *sim, enum lock_fault fault, uint32_t chances);
void lock_sim_at(struct lock_sim *sim, uint64_t at_us, struct event event);
void lock_sim_trace(struct lock_sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
void lock_sim_fail(struct lock_sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "k0", ..., then the latches. */
const char *lock_sim_name(uint32_t name);
/* The index of an encoded name; fails if there is none. */
uint32_t lock_sim_name_of(struct lock_sim *sim, const char *encoded, size_t bytes);

/* ---- lock_process.c ---- */

bool lock_process_runs(const struct lock_process *process);
uint64_t lock_process_now_us(const struct lock_process *process);
void lock_process_start(struct lock_sim *sim, struct lock_process *process);
void lock_process_start_later(struct lock_sim *sim, const struct lock_process *process, uint64_t span_us);
void lock_process_kill(struct lock_sim *sim, struct lock_process *process);
void lock_process_stall(struct lock_sim *sim, struct lock_process *process, uint64_t span_us);
void lock_process_close(struct lock_sim *sim, struct lock_process *process);
/* Its drain is over. */
void lock_process_closed(struct lock_sim *sim, struct lock_process *process);
void lock_process_free_owner(struct lock_sim *sim, struct lock_process *process, uint32_t owner);
/* What the core has to tell is told. */
void lock_process_turn(struct lock_sim *sim, struct lock_process *process);
void lock_process_tick(struct lock_sim *sim, struct lock_process *process);
/* After every call into its core: performs what it asks for, and looks at its holds. */
void lock_process_drain(struct lock_sim *sim, struct lock_process *process);
/* A request of a random kind for random names, of this owner; 0: of any, or nobody's. */
void lock_process_ask(struct lock_sim *sim, struct lock_process *process, uint32_t owner);
/* One for this name alone, for ever. */
void lock_process_probe(struct lock_sim *sim, struct lock_process *process, uint32_t name);
void lock_process_cancel(struct lock_sim *sim, uint32_t client);
void lock_process_give(struct lock_sim *sim, uint32_t client);

/* ---- lock_net.c ---- */

void lock_net_send(struct lock_sim *sim, struct lock_process *process, const struct lock_action *action);
void lock_net_execute(struct lock_sim *sim, uint32_t command);
void lock_net_reply(struct lock_sim *sim, uint32_t command);
void lock_net_unsent(struct lock_sim *sim, uint32_t command);
void lock_net_limit(struct lock_sim *sim, uint32_t command);
void lock_net_break(struct lock_sim *sim, struct lock_process *process);
void lock_net_connect(struct lock_sim *sim, struct lock_process *process);
void lock_net_unsubscribe(struct lock_sim *sim, struct lock_process *process);
void lock_net_subscribe(struct lock_sim *sim, struct lock_process *process);
/* To the process of the token, or, UINT32_MAX, to all: something of this name may be granted. */
void lock_net_publish(struct lock_sim *sim, uint32_t token, uint32_t name);
void lock_net_message(struct lock_sim *sim, struct lock_process *process, const struct event *event);
/* Of a dead process: what has not arrived may still run. */
void lock_net_forget(struct lock_sim *sim, const struct lock_process *process);
/* What Redis's end takes with it: all connections, and the commands in its sockets. */
void lock_net_redis_gone(struct lock_sim *sim);

/* ---- lock_server.c ---- */

void lock_server_start(struct lock_sim *sim);
/* Runs the command, fills its reply and publishes what it tells. */
void lock_server_run(struct lock_sim *sim, struct lock_command *command);
/* What Redis takes the time to be. */
uint64_t lock_server_clock_us(const struct lock_sim *sim);
/* When the server's lease of this token ends, in the world's time; 0: it has none in one of its names. */
uint64_t lock_server_until_us(const struct lock_sim *sim, const struct lock_token *token);
/* The number that is stored, 0: none. */
uint64_t lock_server_fence(const struct lock_sim *sim, uint32_t name);
void lock_server_step(struct lock_sim *sim, int64_t step_ms);
void lock_server_evict(struct lock_sim *sim, enum lock_fault fault, uint32_t name);
/* Ends the hold of this token; false: it has none. */
bool lock_server_drop(struct lock_sim *sim, uint32_t token);
void lock_server_empty(struct lock_sim *sim);
void lock_server_replicate(struct lock_sim *sim);
void lock_server_fail_over(struct lock_sim *sim);
/* NULL: nothing stands there but numbers, tombstones and latches; else what. */
const char *lock_server_rest(const struct lock_sim *sim);

/* ---- lock_masters.c ---- */

void lock_masters_start(struct lock_sim *sim);
void lock_masters_send(struct lock_sim *sim, uint32_t command);
void lock_masters_execute(struct lock_sim *sim, const struct event *event);
void lock_masters_reply(struct lock_sim *sim, const struct event *event);
void lock_masters_limit(struct lock_sim *sim, const struct event *event);
uint64_t lock_masters_until_us(const struct lock_sim *sim, const struct lock_token *token);
void lock_masters_befall(struct lock_sim *sim, enum lock_fault fault);

/* ---- lock_fault.c ---- */

void lock_fault_next(struct lock_sim *sim);
void lock_fault_recover(struct lock_sim *sim, enum lock_fault fault);
void lock_fault_heal(struct lock_sim *sim);

/* ---- lock_tokens.c ---- */

/* For lock_core_config. */
void lock_tokens_make(void *context, uint32_t units, uint32_t limit, uint32_t lease_ms,
                      char token[LOCK_TOKEN_SIZE]);
/* Its index; fails if nobody made it. */
uint32_t lock_tokens_find(struct lock_sim *sim, const char *text);
bool lock_token_is_of(const struct lock_token *token, uint32_t name);
/* The server has run the command. */
void lock_tokens_executed(struct lock_sim *sim, const struct lock_command *command);
/* A quorum has said what the command's reply says. */
void lock_tokens_agreed(struct lock_sim *sim, const struct lock_command *command);
/* A fault has changed what the server knows. */
void lock_tokens_damaged(struct lock_sim *sim);
/* And its queues. */
void lock_tokens_excuse(struct lock_sim *sim);
/* In calm worlds: it does not wait although nothing stands in its way. */
void lock_tokens_check_prompt(struct lock_sim *sim, const struct lock_token *token);

/* ---- lock_check.c ---- */

/* A process sends this; it is given its answer. */
void lock_check_sent(struct lock_sim *sim, const struct lock_command *command);
void lock_check_replied(struct lock_sim *sim, const struct lock_command *command,
                        const struct lock_reply *reply);
void lock_check_refused(struct lock_sim *sim, const struct lock_client *client,
                        enum guard_lock_status status);
void lock_check_answer(struct lock_sim *sim, struct lock_client *client);
void lock_check_lost(struct lock_sim *sim, const struct lock_client *client);
void lock_check_given(struct lock_sim *sim, const struct lock_client *client);
/* Its connection is up again. */
void lock_check_linked(struct lock_sim *sim, const struct lock_process *process);
/* After every event of a process. */
void lock_check_holds(struct lock_sim *sim, const struct lock_process *process);
/* Nothing is under way any more. */
void lock_check_rest(struct lock_sim *sim);
void lock_check_end(struct lock_sim *sim);
