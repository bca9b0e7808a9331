/* SPDX-License-Identifier: MIT */
/*
 * deeds.h - what the playground's buttons do to a process or a server, as a table: what it is called, what it takes, what
 * the party is like afterwards, what becomes of that by itself, and the sentence that says so.
 *
 * Pure.
 */
#ifndef LOAD_GROUND_DEEDS_H
#define LOAD_GROUND_DEEDS_H

#include "load/play/scenario.h"

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

#endif
