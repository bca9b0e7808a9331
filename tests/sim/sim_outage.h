/* SPDX-License-Identifier: MIT */
/*
 * sim_outage.h - Redis away, for one process or for all, from a millisecond to minutes, and what is answered
 * meanwhile: in worlds of their own, seeds from SIM_OF_OUTAGES on (sim outages). The others have none, and stay as
 * they are.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* X(member of enum seen, its name): what a number of runs must have met to mean something */
#define OUTAGE_SEENS(X)                                                                                      \
    X(SEEN_KEPT, "answers with what is kept")                                                                \
    X(SEEN_KEPT_LOADED, "of them by a load of this process")                                                 \
    X(SEEN_KEPT_STALE, "of them in its stale time")                                                          \
    X(SEEN_KEPT_ABSENT, "of them absent")                                                                    \
    X(SEEN_KEPT_OLD, "of them without what another process has had confirmed")                               \
    X(SEEN_KEPT_NEAR, "of them for as long as it was near")                                                  \
    X(SEEN_KEPT_ALONE, "of them in a process that is cut off alone")                                         \
    X(SEEN_KEPT_REFRESHED, "loads of it in the background")                                                  \
    X(SEEN_RETURNS, "returns to a store that was not empty")                                                 \
    X(SEEN_UNSPARED, "loads in place of Redis")

/* X(member of enum mutant, its name): bugs sown into the model's side of it */
#define OUTAGE_MUTANTS(X) X(MUTANT_TOUCH_LATE, "touch-at-arrival")

struct sim;
struct event;
struct process;
struct request;
struct load_model;
struct command;
struct write;

enum { OUTAGE_KEYS = 3, OUTAGE_CANARIES = 8, OUTAGE_FINDS = 32 };

/* Of a process. */
struct outage_of_process {
    uint64_t cut_until_us;              /* nothing goes to Redis before, and nothing comes from there */
    uint64_t messages_until_us;         /* on their way: none overtakes another */
    uint64_t canaries;                  /* sent so far */
    uint64_t sent_us[OUTAGE_CANARIES];  /* each of the last ones; 0: it is back, or forgotten */
    uint64_t touch_us;                  /* when the last one that is back was sent, by the world's clock */
    uint64_t voided_us[OUTAGE_KEYS];    /* nothing answers that was looked up or begun before */
    uint64_t dropped_us[OUTAGE_KEYS];   /* it was dropped, also for its own fill's or another's sake */
    uint64_t refreshed_us[OUTAGE_KEYS]; /* a load in the background was asked for */
    uint32_t told_core[OUTAGE_KEYS];    /* the last command whose answer the core was told, 1 + its number */
    uint64_t told_us[OUTAGE_KEYS];      /* Redis last answered something about it */
    struct outage_find {                /* lookups that found something, the last ones */
        uint64_t load, sent_us;
    } found[OUTAGE_KEYS][OUTAGE_FINDS];
    uint32_t finds;
};

/* Of a request. */
struct outage_of_request {
    uint32_t commands_before; /* 1 + those that were sent before its core took it; 0: it did not */
};

/* Of a load. */
struct outage_of_load {
    uint64_t begun_us; /* as its core knows it */
    bool passes;       /* for one request alone */
};

bool outage_is_world(const struct sim *sim);
/* Of these, half have no wishes: what is found there is found in few events. */
bool outage_is_without_wishes(const struct sim *sim);
void outage_choose(struct sim *sim);
void outage_schedule(struct sim *sim);
/* A process begins. */
void outage_open(struct sim *sim, const struct process *process);
/* EVENT_OUTAGE: the next one begins. */
void outage_happens(struct sim *sim, const struct event *event);
/* That of all is over, at this master. */
void outage_ends(struct sim *sim, uint32_t shard);
/* All are over. */
void outage_heal(struct sim *sim);

/* ---- the way to Redis and back ---- */

bool outage_is_cut(const struct sim *sim, const struct process *process);
/* What a process that is cut off has sent: when it arrives after all; 0: never. */
uint64_t outage_resent_us(const struct sim *sim, const struct process *process);
/* When a reply or message that would arrive then does: not before the way is free. */
uint64_t outage_back_us(const struct process *process, uint64_t at_us);
/* A message is on its way to this process, behind those before it. */
uint64_t outage_in_order_us(const struct sim *sim, struct process *process, uint64_t at_us);
/* EVENT_CANARY: it is time for one; EVENT_CANARY_HEARD: Redis has it; EVENT_CANARY_BACK. */
void outage_canary(struct sim *sim, struct process *process);
void outage_canary_heard(struct sim *sim, const struct event *event);
void outage_canary_back(struct sim *sim, struct process *process, const struct event *event);

/* ---- what is kept ---- */

/* As the loop answers where it knows that Redis cannot be asked. True: the request is answered. */
bool outage_answers(struct sim *sim, struct process *process, struct request *request);
/* A lookup has found something of this load. */
void outage_found(struct sim *sim, struct process *process, const struct request *request, uint64_t load);
/* Everything goes, or what is kept of this key. */
void outage_voids_all(struct sim *sim, struct process *process);
void outage_voids(struct sim *sim, struct process *process, uint32_t key);
void outage_voids_written(struct sim *sim, struct process *process, const struct write *write);
/* A message of a fill of this process, which spares what it has filled with. */
bool outage_is_own(const struct sim *sim, const struct process *process, const struct event *message);
/* It may be missing from now on, until it is found or loaded again. */
void outage_drops(struct sim *sim, struct process *process, uint32_t key);
/* Redis has answered something about this key; to a command of the core. */
void outage_told(struct sim *sim, struct process *process, uint32_t key);
void outage_told_core(struct sim *sim, const struct command *command);
/* A load of this process begins. */
void outage_load_starts(struct sim *sim, struct load_model *load);

/* The oracle: a near hit; an answer, before it is judged as any other. */
void outage_check_near(struct sim *sim, const struct process *process, const struct request *request);
void outage_check_answer(struct sim *sim, struct request *request);
void outage_check_load(struct sim *sim, const struct load_model *load);
