/* SPDX-License-Identifier: MIT */
/*
 * site.h - the servers of the playground: two processes of catalogd over a Redis and a PostgreSQL, and what is done
 * to them.
 *
 *     any thread:  site_order() ---> a queue ---> site_turn(), on the thread of proc.h ---> site_look()
 *                                                    |
 *                                                    +-- what a deed has broken is mended by itself when its time has
 *                                                    come
 *
 * Every setting of catalogd but the addresses may be in the environment; those that make a stampede visible have
 * defaults of their own here.
 *
 * What has happened is a story, one sentence each, of which the page shows the last.
 *
 * Threads: site_open(), site_turn() and site_close() from one, that of proc.h; all else, and the story, from any.
 * Errors: false, the reason on stderr or in `why`.
 */
#pragma once

#include "load/herd/burst.h"
#include "load/herd/herd.h"
#include "load/play/act.h"
#include "load/play/scenario.h"

#include <jansson.h>

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- deeds: deeds.c ---- */

/*
 * What the playground's buttons do to a process or a server, as a table: what it is called, what it takes, what
 * the party is like afterwards, what becomes of that by itself, and the sentence that says so.
 *
 * Pure.
 */

enum deed_party { DEED_A = 0, DEED_B, DEED_REDIS, DEED_POSTGRES, DEED_PARTIES };

#define DEED_PROCESSES 2 /* A and B */

enum deed_health {
    DEED_UP = 0,
    DEED_PAUSED,   /* SIGSTOP */
    DEED_DEAD,     /* SIGKILL */
    DEED_HUNG,     /* connections stay, nothing is answered */
    DEED_LOCKED,   /* a table is locked */
    DEED_BROKEN,   /* every query of products fails */
    DEED_STARTING, /* on its way up */
    DEED_HEALTHS
};

struct deed {
    const char *name;
    enum deed_party party;
    unsigned when; /* a bit for each health in which it can be done */
    enum deed_health after;
    uint32_t back_ms; /* so long afterwards the deed `back` is done by itself; 0: never */
    const char *back;
    const char *said; /* the sentence */
    struct scenario_action action;
};

/* "up", "paused", ...; "A", "B", "Redis", "PostgreSQL". */
const char *deed_health_name(enum deed_health health);
const char *deed_party_name(enum deed_party party);

/* NULL: there is none of that name. */
const struct deed *deed_find(const char *name);

/* The deed that makes the party well again; NULL: nothing has to be done. */
const struct deed *deed_cure(enum deed_party party, enum deed_health health);

/* ---- the story ---- */

enum { STORY_KEPT = 24, STORY_TEXT_BYTES = 400 };

/* How the page draws it. */
enum story_kind { STORY_DEED = 0, STORY_RESULT, STORY_TROUBLE };

struct story {
    pthread_mutex_t lock;
    uint64_t count; /* told so far: the next one's number */
    struct {
        uint64_t at_ms; /* the date */
        enum story_kind kind;
        char text[STORY_TEXT_BYTES];
    } told[STORY_KEPT]; /* number n stands at n % STORY_KEPT */
};

void story_init(struct story *story);
void story_tell(struct story *story, enum story_kind kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* [{"n","at_ms","kind","text"}], oldest first. Yours. */
json_t *story_json(struct story *story);

/* 1234 as "1 234", as the page has it; reports leave four digits together. Returns `text`. */
enum { STORY_COUNT_BYTES = 32 };
const char *story_count(uint64_t count, char text[static STORY_COUNT_BYTES]);

/* ---- what stands in Redis ---- */

/*
 * What stands in Redis about a key: which process has its lease, and for how long still. Over a connection of one's
 * own; a Redis that is away shows nothing.
 *
 * Threads: one at a time for each. Errors: false; nothing is to be seen.
 */

struct site;

struct shelf {
    struct stack_redis redis; /* where it is, and the connection */
    const char *name_space;   /* lent */
};

struct shelf_lease {
    pid_t pid; /* of its holder */
    uint32_t left_ms;
    uint32_t lease_ms; /* as it was taken */
};

void shelf_open(struct shelf *shelf, const struct site *site);
/* `key`: "product:7". */
bool shelf_look(struct shelf *shelf, const char *key, struct shelf_lease *out);
/* Deletes the value, or the failure that is remembered, as if its time had passed: nobody is told, unlike with an
 * invalidation. */
bool shelf_drop(struct shelf *shelf, const char *key);
/* Accepts zeros. */
void shelf_close(struct shelf *shelf);

/* ---- the servers ---- */

enum { SITE_ORDERS_MAX = 32, SITE_MODE_BYTES = 16, SITE_WHY_BYTES = 160, SITE_PRODUCT = 7 };

/* What is ordered. */
struct site_order {
    enum {
        SITE_DEED, /* `deed` */
        SITE_HIT, /* what the process that has the lease of the product suffers: `verb`, within a few seconds */
        SITE_SET,  /* mode and delay; both processes start again */
        SITE_RATE, /* requests a second from now on */
        SITE_MEND  /* whatever is not well */
    } what;
    const struct deed *deed;
    enum { SITE_KILL, SITE_PAUSE } verb;
    char mode[SITE_MODE_BYTES];
    uint32_t delay_ms, per_second;
    bool is_quiet; /* SITE_SET: it is part of something else, which is told */
};

/* How it is in this instant. */
struct site_look {
    enum deed_health health[DEED_PARTIES];
    uint64_t back_us[DEED_PARTIES];  /* when it gets well by itself; 0: it does not */
    pid_t pids[DEED_PROCESSES];      /* 0: dead */
    pid_t last_pids[DEED_PROCESSES]; /* of the dead, too: a lease may still name it */
    char mode[SITE_MODE_BYTES];
    uint32_t delay_ms, per_second;
};

struct site {
    /* set by site_open() */
    bool has_near; /* values are also in the memory of the processes */
    char name_space[40];
    uint32_t product_count;
    uint16_t ports[DEED_PROCESSES], ops_ports[DEED_PROCESSES];
    struct story *story; /* lent */

    /* the thread of proc.h */
    struct scenario *scenario; /* owned */
    struct servers servers;
    struct act act;
    struct shelf shelf;
    struct herd *herd;      /* owned; sends the steady rate */
    uint64_t rate_again_us; /* one that ended is not started again before */
    struct site_order hit;  /* being tried until hit_until_us; 0: none */
    uint64_t hit_until_us;
    uint64_t refused; /* statements, so far */

    struct witness *witness; /* owned */

    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* under lock */
    struct site_order orders[SITE_ORDERS_MAX];
    uint64_t ordered, done; /* how many ever */
    struct site_look look;
    uint64_t rate_waiting;     /* of the steady rate: due and not over */
    const struct burst *burst; /* lent: the crowd under way; NULL: none */
};

/* `story` is lent until site_close(). */
bool site_open(struct site *site, uint32_t product_count, struct story *story);
/* Accepts one that is all zeros or failed to open. */
void site_close(struct site *site);

/* Does what was ordered and what is due; waits for it at most limit_ms. False: a server does not come back. */
bool site_turn(struct site *site, uint32_t limit_ms);

/* False: not now, and why. *number: for site_wait(). */
bool site_order(struct site *site, const struct site_order *order, uint64_t *number,
                char why[static SITE_WHY_BYTES]);
/* Until it was done, or its time is up. */
bool site_wait(struct site *site, uint64_t number, uint32_t limit_ms);

void site_look_at(struct site *site, struct site_look *out);

/* Under way from now on; NULL: no longer. */
void site_show_burst(struct site *site, const struct burst *burst);

/* What clients wait for, of crowd and rate. */
uint64_t site_waiting(struct site *site);

/* Loads that have begun, as the database's own log has it. */
uint64_t site_queries(struct site *site);
/* Of those behind the first `from`: the ones for products `first` to `last`. */
uint64_t site_queries_for(struct site *site, uint64_t from, uint32_t first, uint32_t last);

/* The product that everything is about: "/products/7", "product:7". */
#define SITE_PATH "/products/7"
#define SITE_KEY "product:7"
