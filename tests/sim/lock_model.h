/* SPDX-License-Identifier: MIT */
/*
 * lock_model.h - the locks of one Redis in plain C: what guard/locks/scripts/ must do, said once more and otherwise.
 *
 * The simulator's Redis for locks, and what lock_model_test compares the scripts with on a real one. A call is one
 * atomic step. The clock is this Redis's own, set by the owner before a call, and may step. What the owner does to a
 * Redis beside calling scripts it does to the fields: a key is evicted by emptying its set, or lock_model_forget().
 *
 * Threads  none: one owner. Memory: none of its own.
 */
#pragma once

#include "guard/locks/lock_core.h"

enum { LOCK_MODEL_NAMES_MAX = 8, LOCK_MODEL_MEMBERS_MAX = 160, LOCK_MODEL_TOLD_MAX = 64 };

struct lock_model_member {
    char token[LOCK_TOKEN_SIZE];
    int64_t until_ms; /* of queue: no meaning */
};

/* A key. Held, alive, gone and latch are in no order, queue is in that of arrival. */
struct lock_model_set {
    size_t count; /* 0: there is no such key */
    int64_t expires_ms;
    struct lock_model_member member[LOCK_MODEL_MEMBERS_MAX];
};

struct lock_model_name {
    char encoded[KEY_ENCODED_MAX + 1];
    struct lock_model_set held, queue, alive, gone, latch;
    bool is_open; /* the latch has its member "open" */
    uint64_t fence;
    int64_t fence_expires_ms;
};

struct lock_model {
    uint64_t now_us; /* what TIME says */
    uint32_t max_lease_ms, fence_ms;
    size_t name_count;
    struct lock_model_name name[LOCK_MODEL_NAMES_MAX];
};

void lock_model_init(struct lock_model *model, uint32_t max_lease_ms, uint32_t fence_ms);
/* It comes back empty. */
void lock_model_forget(struct lock_model *model);
/* Made if there is none; without what has gone by its TTL. */
struct lock_model_name *lock_model_name(struct lock_model *model, const char *encoded, size_t bytes);

/* Was published, in this order. */
struct lock_model_told {
    const struct lock_model_name *name;
    char uuid[LOCK_UUID_BYTES + 1]; /* "": everybody */
};

struct lock_model_answer {
    struct lock_reply reply; /* ask_now points to the array below */
    uint32_t ask_now[LOCK_MODEL_MEMBERS_MAX];
    size_t told_count;
    struct lock_model_told told[LOCK_MODEL_TOLD_MAX];
};

/* What lock_wire_send() has a Redis do for an action. */
void lock_model_run(struct lock_model *model, const struct lock_action *action,
                    struct lock_model_answer *answer);
/* What lock_wire_send_raise() does. */
void lock_model_raise(struct lock_model *model, const struct lock_action *action, const uint64_t fence[],
                      struct lock_model_answer *answer);

/* The member of that token; NULL: there is none. */
struct lock_model_member *lock_model_find(struct lock_model_set *set, const char *token);
