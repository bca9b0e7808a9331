/* SPDX-License-Identifier: MIT */
/* sim_keep.h - wishes of loaders about how their answer is kept; see sim_wish.h. */
#ifndef SIM_KEEP_H
#define SIM_KEEP_H

#include "guard/base/chance.h"
#include "guard/core/core.h"

#include <stdbool.h>
#include <stdint.h>

/* X(member of enum wish, its name, whether it is drawn) */
#define KEEP_WISHES(X)                                                                                       \
    X(WISH_OWN_FRESH, "own fresh time", false)                                                               \
    X(WISH_OWN_STALE, "own stale time", false)                                                               \
    X(WISH_SHARE, "share", false)                                                                            \
    X(WISH_PASS, "pass", false)

/* X(member of enum seen, its name): what a number of runs must have met to mean something */
#define KEEP_SEENS(X)

/* X(member of enum mutant, its name): bugs sown into the model's side of it */
#define KEEP_MUTANTS(X)

struct sim;
struct request;
struct load_model;

struct keep_world {
    uint32_t marks; /* written so far */
};

/* What the loader of this load will say. */
struct keep_of_load {
    bool says;
    struct guard_keep keep;
};

void keep_choose(struct sim *sim);
void keep_load_starts(struct sim *sim, struct load_model *load);
void keep_load_ends(struct sim *sim, struct load_model *load, struct core_loaded *loaded);
void keep_check_answer(struct sim *sim, const struct request *request);
void keep_check_load(struct sim *sim, const struct load_model *load);
void keep_check_rest(struct sim *sim);

#endif
