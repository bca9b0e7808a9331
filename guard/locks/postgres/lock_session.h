/* SPDX-License-Identifier: MIT */
/*
 * lock_session.h - one session of PostgreSQL, and the advisory locks that it waits for or holds: those of all names
 * of one token, taken one after the other in the order of their bytes, which lets no circle close.
 *
 *                logged in          direct, primary            try
 *   CONNECTING -----------> CHECKING --------------> IDLE -----------> TRYING --- granted --------+
 *                            |  ^   no table          ^ ^                 | refused               v
 *                            v  |                     | |                 +-----> WAITING ---> LOCKED <---> NUMBERING
 *                          CREATING                   | |                                      |  ^  |
 *                                          LOOKING <--+ +------------- GIVING <----------------+  +--+ RENEWING
 *   any --> CLOSED: lost, late, not to be trusted, or closed by the owner. Such a connection is never used again, so
 *           what was under way in it ends with it.
 *
 *   key      the first 8 bytes of SHA-256 of the row's name; two names with one key wait for each other
 *   queue    the server's own lock manager: trying passes nobody that waits
 *   lease    the server ends a session that is silent for this long (idle_session_timeout). That is never sooner than
 *            the core thinks, because the core counts from the sending of what the server answers. No other end of a
 *            client that is cut off comes before it: the server's keepalives leave a holder alone for longer
 *   fence    the row of lock_fences, one table for all search paths, with that name: an exclusive grant adds 1, a
 *            reader sees what is there. While a transaction has the row FOR SHARE the next exclusive grant waits in
 *            NUMBERING
 *   renewal  a look into pg_locks, which is a word of the session, too. The end of the session tells by itself
 *
 * A waiter whose process dies leaves the server's queue within client_connection_check_interval, one whose host is
 * cut off with the keepalives; one that is stopped holds for a lease once its turn comes.
 *
 * Time       limit_ms for what is answered at once. NUMBERING and RENEWING go on when it is over: the owner hears
 *            LATE. What has come by then is heard, also if the process stood still until after the limit.
 * Callbacks  Never from inside the call that began it. They may call everything here, but not free its memory.
 * Threads    the loop's.
 */
#pragma once

#include "../provider.h"
#include "lock_pg.h"

enum {
    LOCK_ROW_NAME_SIZE = KEY_NAMESPACE_MAX + 1 + KEY_ENCODED_MAX + 1,
    LOCK_NUMBER_SIZE = 24,
    LOCK_TABLE_SIZE = 160
};

/* What PostgreSQL calls a name. */
struct lock_row {
    char name[LOCK_ROW_NAME_SIZE]; /* "<namespace>:<encoded>" */
    char key[LOCK_NUMBER_SIZE];
};
void lock_row_init(struct lock_row *row, const char *name_space, const struct lock_name *name);

/* What a token wants of a session. */
struct lock_wanted {
    const struct lock_row *rows; /* in that order */
    size_t count;
    char lease_ms[LOCK_NUMBER_SIZE];
    const char *who; /* for people, who look at the server: its application_name */
    bool is_shared;
    bool stands; /* refused, it waits */
};

enum lock_session_state {
    LOCK_SESSION_CLOSED,
    LOCK_SESSION_CONNECTING,
    LOCK_SESSION_CHECKING, /* who is there; its settings */
    LOCK_SESSION_CREATING, /* lock_fences */
    LOCK_SESSION_IDLE,
    LOCK_SESSION_LOOKING,
    LOCK_SESSION_TRYING, /* from here on it may have the lock */
    LOCK_SESSION_WAITING,
    LOCK_SESSION_LOCKED,
    LOCK_SESSION_NUMBERING,
    LOCK_SESSION_RENEWING,
    LOCK_SESSION_GIVING,
};

enum lock_session_event_kind {
    LOCK_SESSION_READY,        /* IDLE for the first time */
    LOCK_SESSION_REFUSED,      /* before; WAITING if it stands, else IDLE, or CLOSED if it had some names */
    LOCK_SESSION_GRANTED,      /* LOCKED, and has no number yet */
    LOCK_SESSION_NUMBERED,     /* fences; LOCKED */
    LOCK_SESSION_NUMBER_LATE,  /* a transaction has a row: it goes on */
    LOCK_SESSION_RENEWED,      /* LOCKED */
    LOCK_SESSION_RENEWAL_LATE, /* it goes on: the server may be back before the lease is over */
    LOCK_SESSION_GIVEN,        /* IDLE */
    LOCK_SESSION_SEEN,         /* view; IDLE */
    LOCK_SESSION_ENDED,        /* CLOSED: state, verdict, why */
};
struct lock_session_event {
    enum lock_session_event_kind kind;
    uint32_t before;                    /* so many wait already */
    const uint64_t *fences;             /* of each row; lent */
    const struct guard_lock_view *view; /* lent */
    enum lock_session_state state;      /* in which it ended */
    /* What a take is to be answered: IMPOSSIBLE, UNSENT, UNANSWERED. NOT_HELD: GIVING found no lock. */
    enum lock_reply_kind verdict;
    const char *why; /* lent */
};

struct lock_session {
    /* set by the owner, the rest zeroed */
    struct guard_host *host;
    const struct guard_locks_config *config;
    void (*heard)(void *context, const struct lock_session_event *event);
    void *context;

    /* lock_session.c's; anybody may read the state */
    enum lock_session_state state;
    struct lock_pg pg;
    struct host_timer limit;
    char table[LOCK_TABLE_SIZE];      /* lock_fences, with its schema, quoted */
    bool has_created;                 /* it */
    bool limit_rang;                  /* once; what has come is read before it is judged */
    const struct lock_wanted *wanted; /* lent from try until it is IDLE or CLOSED */
    size_t at;                        /* the row under way */
    uint64_t fences[GUARD_LOCK_NAMES_MAX];
    enum lock_session_state next; /* wanted when what runs is through: RENEWING or GIVING; else CLOSED */
};

/* It is CLOSED. READY, or ENDED. */
void lock_session_open(struct lock_session *session);
/* Ends what it does without a word. */
void lock_session_close(struct lock_session *session);

/* It is IDLE. GRANTED, REFUSED (and GRANTED later if it stands), or ENDED. */
void lock_session_try(struct lock_session *session, const struct lock_wanted *wanted);
/* It is LOCKED. NUMBERED, perhaps NUMBER_LATE before it, or ENDED. */
void lock_session_number(struct lock_session *session);
/* It is LOCKED, or RENEWING late: what is under way is not taken for this one. RENEWED, or RENEWAL_LATE, or ENDED. */
void lock_session_renew(struct lock_session *session);
/* It is LOCKED or RENEWING, about which nothing is heard any more. GIVEN or ENDED. */
void lock_session_give(struct lock_session *session);
/* It is IDLE. SEEN or ENDED. */
void lock_session_look(struct lock_session *session, const struct lock_row *row);

/* On its way to being IDLE for the first time. */
bool lock_session_is_beginning(enum lock_session_state state);
