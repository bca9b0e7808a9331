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
    X(WISH_OWN_FRESH, "own fresh time", true)                                                                \
    X(WISH_OWN_STALE, "own stale time", true)                                                                \
    X(WISH_SHARE, "share", true)                                                                             \
    X(WISH_PASS, "pass", true)

/* X(member of enum seen, its name): what a number of runs must have met to mean something */
#define KEEP_SEENS(X)                                                                                        \
    X(SEEN_OWN_STALE, "stale answers of an entry's own time")                                                \
    X(SEEN_SHARED, "answers shared in the fleet")                                                            \
    X(SEEN_PASSED, "answers passed")                                                                         \
    X(SEEN_MARKS, "marks met by lookups")                                                                    \
    X(SEEN_PARTED, "loads beside others")

/* X(member of enum mutant, its name): bugs sown into the model's side of it */
#define KEEP_MUTANTS(X)

struct sim;
struct command;
struct stored_value;
struct request;
struct load_model;

enum { KEEP_KEYS = 3, KEEP_VERSIONS = 256 };

/* What loaders have said of a version, whichever of them it was: the most. */
struct keep_world {
    bool passed[KEEP_KEYS]; /* a load of this key has passed */
    bool own_stale[KEEP_KEYS][KEEP_VERSIONS];
    uint64_t most_ms[KEEP_KEYS][KEEP_VERSIONS];
    uint32_t longest_ms[KEEP_KEYS]; /* that any of its entries was to be fresh */
};

/* What the loader of this load will say. */
struct keep_of_load {
    bool says;
    bool told; /* the core has been */
    struct guard_keep keep;
};

void keep_choose(struct sim *sim);
void keep_load_starts(struct sim *sim, struct load_model *load);
void keep_load_ends(struct sim *sim, struct load_model *load, struct core_loaded *loaded);
/* Loads of this world have not stored what they brought. */
bool keep_unstored(const struct sim *sim);
/* A lookup has found this entry. True: it is a mark, and the request passes. */
bool keep_meets_mark(struct sim *sim, struct request *request, const struct stored_value *entry);
/* Of the version that a stale answer has: an entry of it had a stale time of its own; how old it may be. */
bool keep_has_own_stale(struct sim *sim, const struct request *request);
uint64_t keep_most_ms(struct sim *sim, const struct request *request);
/* What a fill or touch has stored is what its loader has said. */
bool keep_stores_rightly(const struct sim *sim, const struct command *command,
                         const struct stored_value *value);
/* A touch that says nothing of it leaves an entry the life that it had. */
void keep_check_touch(struct sim *sim, const struct command *command, const struct stored_value *old,
                      const struct stored_value *value);
/* Either of the two may run beside any other of its key. */
bool keep_parts(struct sim *sim, const struct load_model *load, const struct load_model *other);
void keep_check_answer(struct sim *sim, const struct request *request);
void keep_check_load(struct sim *sim, const struct load_model *load);
void keep_check_rest(struct sim *sim);

#endif
