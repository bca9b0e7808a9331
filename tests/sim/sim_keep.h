/* SPDX-License-Identifier: MIT */
/* sim_keep.h - wishes of loaders about how their answer is kept; see sim_wish.h. */
#pragma once

#include "guard/base/chance.h"
#include "guard/core/core.h"
#include "guard/core/keep.h"

#include <stdbool.h>
#include <stdint.h>

/* X(member of enum wish, its name) */
#define KEEP_WISHES(X)                                                                                       \
    X(WISH_OWN_FRESH, "own fresh time")                                                                      \
    X(WISH_OWN_STALE, "own stale time")                                                                      \
    X(WISH_SHARE, "share")                                                                                   \
    X(WISH_PASS, "pass")

/* X(member of enum seen, its name): what a number of runs must have met to mean something */
#define KEEP_SEENS(X)                                                                                        \
    X(SEEN_SHARED, "answers with what another process shares")                                               \
    X(SEEN_NOWHERE, "answers with what is stored nowhere")                                                   \
    X(SEEN_PASSED, "answers with what was passed")                                                           \
    X(SEEN_PARTED, "waiters that parted")                                                                    \
    X(SEEN_MARKS, "marks found by lookups")                                                                  \
    X(SEEN_STALE_OWN, "answers in a stale time of the entry's own")                                          \
    X(SEEN_TOUCHED_OWN, "lives of their own that went on")                                                   \
    X(SEEN_LACKING, "entries without the meta that is needed")                                               \
    X(SEEN_FOREIGN, "entries of a newer release")

/* X(member of enum mutant, its name): bugs sown into the model's side of it */
#define KEEP_MUTANTS(X)                                                                                      \
    X(MUTANT_OWN_STALE_IGNORED, "a stale time of its own counts only where the policy has one")              \
    X(MUTANT_META_BLIND, "an older release takes what a newer one has stored for an entry")

struct sim;
struct command;
struct request;
struct load_model;
struct stored_value;

struct keep_world {
    uint32_t marks; /* written so far */
};

struct keep_of_request {
    const struct load_model *parted_by; /* the last load that passed and left it to another one; NULL: none */
};

/* What the loader of this load will say. */
struct keep_of_load {
    bool says;
    struct guard_keep keep;
    const struct core_waiter *starter; /* NULL: none */
    const struct flight *flight; /* the starter's; only a name, for as long as the load is not cancelled */
    uint64_t begun_us;           /* as its process knows it */
    bool unchanged;              /* so it ended */
};

void keep_choose(struct sim *sim);
void keep_load_starts(struct sim *sim, struct load_model *load);
void keep_load_ends(struct sim *sim, struct load_model *load, struct core_loaded *loaded);
void keep_check_answer(struct sim *sim, const struct request *request);
void keep_check_load(struct sim *sim, const struct load_model *load);

/* ---- for the model ---- */

/* Every other process of a mixed fleet: its loaders pass meta, and it needs it. Where none does, none is mixed. */
bool keep_knows_meta(const struct sim *sim, uint32_t process);
const struct guard_policy *keep_policy(struct sim *sim, uint32_t process);
/* To this process it is no entry at all. */
bool keep_is_foreign(const struct sim *sim, uint32_t process, const struct stored_value *entry);
/* Nor does it lack what the process needs. */
bool keep_is_of_use(struct sim *sim, uint32_t process, const struct stored_value *entry);

enum hit_age keep_hit_age(const struct stored_value *entry, bool is_stale);
/* The longest that an entry is fresh where the policy says so. */
uint32_t keep_fresh_most_ms(const struct sim *sim, uint32_t policy_ms);
/* Likewise, that it is stale. */
uint32_t keep_stale_most_ms(const struct sim *sim, uint32_t policy_ms);
/* A load may leave the value that it refreshes. */
bool keep_may_not_store(const struct sim *sim);
/* Of two loads of one key. */
bool keep_may_pass(const struct sim *sim, const struct load_model *load, const struct load_model *other);
/* A fill or a touch has stored it; a touch over this one; a release has shared it. */
void keep_check_stored(struct sim *sim, const struct command *command);
void keep_check_touched(struct sim *sim, const struct command *command, const struct stored_value *old);
void keep_check_shared(struct sim *sim, const struct command *command);
/* True: entries have lives of their own here, and this stale answer is judged. */
bool keep_check_stale(struct sim *sim, const struct request *request);
/* Those that wait with the starter of this load, beside it. */
bool keep_waits_for(const struct load_model *load, const struct request *request);
/* What this load has brought was told, and all that followed is done. */
void keep_check_parted(struct sim *sim, const struct load_model *load);
