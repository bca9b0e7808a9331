/* SPDX-License-Identifier: MIT */
/*
 * sim_wish.h - what loaders, requests and operators may wish, beyond a load and its answer: in worlds of their own,
 * seeds from SIM_OF_WISHES on (sim wishes). The others have none, and stay as they are.
 *
 *   sim_wish.c     which wishes a world has, their dice, and who asks whom; no wish of its own
 *   sim_keep.c     how an answer is kept: its own life, SHARE, PASS
 *   sim_change.c   expire, clear, refresh, another policy; requests that revalidate or peek
 *   sim_defer.c    loads that are finished later, late or never; abandon
 *
 * The last three are groups: each draws its wishes, tells the core, and is the oracle of what comes of it. A group's
 * header names its wishes, what must have been seen of them, and the bugs to be sown into the model beside them; from
 * these lists come the enums of sim.h. What a group must remember of a load, a request or the world is a struct
 * there.
 *
 * A wish is drawn when its line says so: one that the core cannot grant yet is not, and is not missed. Each has dice
 * of its own: one more wish moves no other's.
 */
#pragma once

#include "sim_change.h"
#include "sim_defer.h"
#include "sim_keep.h"

#define WISHES_OF_ALL(X) KEEP_WISHES(X) CHANGE_WISHES(X) DEFER_WISHES(X)
#define SEENS_OF_WISHES(X) KEEP_SEENS(X) CHANGE_SEENS(X) DEFER_SEENS(X)
#define MUTANTS_OF_WISHES(X) KEEP_MUTANTS(X) CHANGE_MUTANTS(X) DEFER_MUTANTS(X)

#define WISH_MEMBER(name, text) name,
enum wish { WISHES_OF_ALL(WISH_MEMBER) WISHES };

/* Of one world. */
struct wishes_model {
    bool may[WISHES]; /* this world has it */
    struct chance chance[WISHES];
    uint64_t count[WISHES]; /* made so far */
    struct keep_world keep;
    struct change_world change;
    struct defer_world defer;
};

extern const char *const wish_names[WISHES];

/* ---- for the groups ---- */

/* Whether this wish is made now, with one chance in `chances`; counts and traces it. Only while there is chaos. */
bool sim_wish(struct sim *sim, enum wish wish, uint32_t chances);
uint64_t sim_wish_between(struct sim *sim, enum wish wish, uint64_t low, uint64_t high);

/* ---- for the world ---- */

/* What this seed stands for: after all other parameters have been chosen. */
void wishes_choose(struct sim *sim);
/* What operators will do. */
void wishes_schedule(struct sim *sim);
/* The loader begins: it decides what it will say. */
void wishes_load_starts(struct sim *sim, struct load_model *load);
/* The loader is done. True: but its load is not, and will end with an event of its own. */
bool wishes_loader_returns(struct sim *sim, struct load_model *load);
/* The load ends so; what else is said of it. */
void wishes_load_ends(struct sim *sim, struct load_model *load, struct core_loaded *loaded);
/* A request begins. True: it is answered, or asked in a way of its own. */
bool wishes_request_begins(struct sim *sim, struct process *process, struct request *request);
/* The oracles: of an answer that has been judged as any other, and of a load that may start. */
void wishes_check_answer(struct sim *sim, const struct request *request);
void wishes_check_load(struct sim *sim, const struct load_model *load);
