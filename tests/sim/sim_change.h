/* SPDX-License-Identifier: MIT */
/* sim_change.h - wishes of operators and of requests about what is there already; see sim_wish.h. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* X(member of enum wish, its name; NULL: the core cannot grant it, and no world has it) */
#define CHANGE_WISHES(X)                                                                                     \
    X(WISH_EXPIRE, "expire a key")                                                                           \
    X(WISH_EXPIRE_TAG, NULL)                                                                                 \
    X(WISH_CLEAR, NULL)                                                                                      \
    X(WISH_REFRESH, "refresh")                                                                               \
    X(WISH_WARM, "a warm-up beside users on few places")                                                     \
    X(WISH_POLICY, NULL)                                                                                     \
    X(WISH_REVALIDATE, "revalidate")                                                                         \
    X(WISH_PEEK, NULL)

/* X(member of enum seen, its name): what a number of runs must have met to mean something */
#define CHANGE_SEENS(X)                                                                                      \
    X(SEEN_EXPIRED, "keys expired")                                                                          \
    X(SEEN_EXPIRED_STALE, "stale answers after that")                                                        \
    X(SEEN_REVALIDATED, "revalidated")                                                                       \
    X(SEEN_REVALIDATED_ELSEWHERE, "by the load of another process")                                          \
    X(SEEN_REFRESH_SHED, "refreshes that gave way")                                                          \
    X(SEEN_WARMED_FOR_USER, "users that joined a queued refresh")                                            \
    X(SEEN_REFRESH_LAST, "refreshes that began when no user was queued")

/* X(member of enum mutant, its name): bugs sown into the model's side of it */
#define CHANGE_MUTANTS(X)                                                                                    \
    X(MUTANT_EXPIRE_KEEPS, "expire-keeps")                                                                   \
    X(MUTANT_EXPIRE_STAYS_FRESH, "expire-stays-fresh")

struct sim;
struct event;
struct process;
struct request;
struct load_model;
struct command;

enum { CHANGE_KEYS = 3 };

/* What was expired of a key, as far as that was confirmed. */
struct change_world {
    uint32_t floor[CHANGE_KEYS];  /* what is older is stale */
    uint64_t losses[CHANGE_KEYS]; /* of what Redis had, when that was confirmed */
    bool warms;                   /* the request that begins is one of a warm-up */
};

/* What this request wants beyond its key. */
struct change_of_request {
    uint32_t version; /* of the row, when it began */
    uint32_t floor;   /* as above */
    uint64_t losses;
};

struct write;

/* This invalidation is to expire instead. */
bool change_expires(struct sim *sim, const struct write *write);
/* One that expires was confirmed. */
void change_expired(struct sim *sim, const struct write *write);

void change_choose(struct sim *sim);
void change_schedule(struct sim *sim);
/* EVENT_CHANGE: an operator does something; subject: which wish. */
void change_happens(struct sim *sim, const struct event *event);
/* True: it is answered, or asked in a way of its own. */
bool change_request_begins(struct sim *sim, struct process *process, struct request *request);
/* The core has taken it. */
void change_entered(struct sim *sim, const struct request *request);
/* It is of requests that revalidate, which have a flight of their own. */
bool change_revalidates(const struct load_model *load);
/* A renewal is sent. */
void change_check_renewal(struct sim *sim, const struct command *renewal);
void change_check_answer(struct sim *sim, const struct request *request);
void change_check_load(struct sim *sim, const struct load_model *load);
