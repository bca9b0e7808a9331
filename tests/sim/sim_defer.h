/* SPDX-License-Identifier: MIT */
/*
 * sim_defer.h - loads whose loader returns before they are finished, loads that are abandoned, and loads for which
 * there is no thread or no memory; see sim_wish.h.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* X(member of enum wish, its name) */
#define DEFER_WISHES(X)                                                                                      \
    X(WISH_DEFER, "defer")                                                                                   \
    X(WISH_DEFER_LATE, "defer, finished late")                                                               \
    X(WISH_DEFER_NEVER, "defer, never finished")                                                             \
    X(WISH_WITHIN, "defer, and ask for another key within")                                                  \
    X(WISH_LOOP_ENDS, "defer to a loop that ends")                                                           \
    X(WISH_SPEAKS_AGAIN, "defer, and speak when it is over, twice")                                          \
    X(WISH_NO_THREAD, "a load without a thread")                                                             \
    X(WISH_NO_MEMORY, "an answer without memory")                                                            \
    X(WISH_CORE_MEMORY, "a core without memory")                                                             \
    X(WISH_ABANDON, "a policy that abandons")

/* X(member of enum seen, its name): what a number of runs must have met to mean something */
#define DEFER_SEENS(X)                                                                                       \
    X(SEEN_DEFERRED, "deferred")                                                                             \
    X(SEEN_FORGOTTEN, "deferred and never finished")                                                         \
    X(SEEN_APART, "run without a load thread")                                                               \
    X(SEEN_ABANDONED, "abandoned")                                                                           \
    X(SEEN_SPARED, "begun after an abandoned one")                                                           \
    X(SEEN_TOO_DEEP, "gets that would have nested too deep")                                                 \
    X(SEEN_SPOKEN_LATE, "verdicts of loads that were over")                                                  \
    X(SEEN_SHORT, "answers for want of a thread or memory")

/* X(member of enum mutant, its name): bugs sown into the model's side of it */
#define DEFER_MUTANTS(X) X(MUTANT_ABANDONED_UNSAID, "abandoned-unsaid")

struct sim;
struct event;
struct process;
struct request;
struct load_model;
struct command;
struct core_action;
struct core_loaded;

struct defer_world {
    uint32_t deferred; /* so far */
};

/* What the loader of this load will do. */
struct defer_of_load {
    bool apart;           /* on a loop, or on the thread of its starter: it needs no load thread */
    bool defers, never;   /* never: its handle is lost */
    bool asks;            /* for another key, before it is finished */
    bool loop_ends;       /* that is how it is finished */
    bool speaks_again;    /* when the core has forgotten it */
    bool short_of_memory; /* for its answer */
    bool returned;        /* its thread is free, and it is not finished */
    bool forgotten;       /* the core waits for it no more */
    uint64_t finished_us; /* for how long it goes on without its loader */
    bool spared;          /* Redis knew that the load before was abandoned */
    bool awaited;         /* as the last renewal said: another process waits */
};

void defer_choose(struct sim *sim);
void defer_load_starts(struct sim *sim, struct load_model *load);
/* True: the load goes on without its loader. */
bool defer_loader_returns(struct sim *sim, struct load_model *load);
/* Its load ends: what is said of it. */
void defer_load_ends(const struct load_model *load, struct core_loaded *loaded);
/* A load may not begin, for there is no thread. */
bool defer_lacks_thread(struct sim *sim);
/* From here on an allocation of a core may fail, or none. */
void defer_memory(struct sim *sim, bool may_run_out);
/* EVENT_DEFERRED: its hold limit is over, and its process has had time to notice. */
void defer_happens(struct sim *sim, struct process *process, const struct event *event);
/* The core forgets this load. */
void defer_forgotten(struct sim *sim, struct process *process, uint64_t load);
/* A command of the core's: it may renew what is over, or give back what was abandoned. */
void defer_check_command(struct sim *sim, const struct process *process, const struct core_action *action);
/* What a renewal was told. */
void defer_renewed(struct sim *sim, const struct command *command, int64_t code);
/* A load may begin in this process; and a loader may. */
bool defer_has_place(const struct sim *sim, const struct process *process);
bool defer_has_thread(const struct sim *sim, const struct process *process);
void defer_check_answer(struct sim *sim, const struct request *request);
void defer_check_load(struct sim *sim, const struct load_model *load);
