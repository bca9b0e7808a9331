/* SPDX-License-Identifier: MIT */
/*
 * keeper_session.h - one session with a ZooKeeper ensemble, as an event loop sees it.
 *
 *                    connected                       the ensemble has ended it
 *     open ---> AWAY ----------> UP -----> OVER <--------------------------------- AWAY
 *                ^                |          ^
 *                +----------------+          +---- no such host, refused: `why`
 *                 connection lost
 *
 * The library calls back on a thread of its own. What it says is put into a box here and taken out on the thread of
 * the host, in the order in which it came. Two of its calls may block, opening a handle (it asks DNS) and closing it:
 * they are made on a thread of ours, which lives as long as the session. This is the only file that knows
 * <zookeeper/zookeeper.h>.
 *
 * Commands   run in the order in which they were sent, in the session's connection and over its end. Each is answered
 *            by one done(), not from inside the call. After the connection was lost in between, an answer is UNSURE;
 *            so is that of those that keeper_close() finds, which it gives from inside.
 * Watches    `changed` is called once for each node that was watched, and for watches that are of no interest any
 *            more.
 * Threads    All functions only on the thread of the host.
 * Lifetime   After keeper_close() nothing is called but `closed`.
 * Log        What the library would log goes nowhere; `why` says what matters.
 */
#pragma once

#include "../../base/host.h"
#include "keeper_line.h"

struct keeper_session;

enum keeper_state { KEEPER_AWAY, KEEPER_UP, KEEPER_OVER };

struct keeper_hooks {
    void *context;
    /* `why` is static. UP may follow UP: the connection was lost in between. After OVER only keeper_close()
     * is left. */
    void (*state)(void *context, enum keeper_state state, const char *why);
    /* The path of a node that was watched, lent; NULL: of any, for want of memory. */
    void (*changed)(void *context, const char *path);
};

struct keeper_config {
    struct guard_host *host; /* lent */
    const char *servers;     /* "host:port,host:port[/chroot]"; copied */
    uint32_t session_ms;     /* wanted */
    struct keeper_hooks hooks;
};

/* Starts connecting. NULL: no memory or no thread. */
struct keeper_session *keeper_open(const struct keeper_config *config);
/* Ends the session at the ensemble, if it can be reached. Calls `closed` once, soon, when that is done or after
 * limit_ms; what is still under way then (a DNS lookup cannot be interrupted) ends by itself and touches nothing of
 * the host. */
void keeper_close(struct keeper_session *session, uint32_t limit_ms, void (*closed)(void *context),
                  void *context);

/* UP: what the ensemble has agreed to, and its name for the session. */
uint32_t keeper_timeout_ms(const struct keeper_session *session);
int64_t keeper_id(const struct keeper_session *session);

enum keeper_outcome {
    KEEPER_DONE,
    KEEPER_NO_NODE, /* this one, or its parent */
    KEEPER_UNSURE,  /* it may have run, or not */
    KEEPER_DENIED,  /* it has not run: `why` */
};

struct keeper_result {
    enum keeper_outcome outcome;
    const char *why;           /* static */
    uint64_t sent_us;          /* when it was sent; no two have the same instant */
    struct keeper_node node;   /* create: as it is called; its units are 0 if the name is none of ours */
    uint64_t czxid;            /* create, look at: the transaction that made it */
    int64_t owner;             /* likewise: the session it will go with; 0: none */
    struct keeper_node *nodes; /* list: those of ours, in order; lent; yours to change */
    size_t count;
    const char *data; /* read: lent */
    size_t data_bytes;
};
typedef void keeper_done(void *context, const struct keeper_result *result);

/* False for all of these: no memory, or it is not UP; done() is not called then. */

/* DONE: it is there, maybe since before. */
bool keeper_create_parent(struct keeper_session *session, const char *path, keeper_done *done, void *context);
bool keeper_create(struct keeper_session *session, const char *path, const char *data, keeper_done *done,
                   void *context);
bool keeper_delete(struct keeper_session *session, const char *path, keeper_done *done, void *context);
/* A transaction that changes nothing: DONE proves that, after it was sent, most of the ensemble had the node; so the
 * session that owns it had not ended. A mere read may come from a server that has heard of nothing for a while. */
bool keeper_prove(struct keeper_session *session, const char *path, keeper_done *done, void *context);
bool keeper_look_at(struct keeper_session *session, const char *path, keeper_done *done, void *context);
/* `fresh`: as of now for the ensemble, not just for the server we are connected to. */
bool keeper_list(struct keeper_session *session, const char *path, bool fresh, bool watch, keeper_done *done,
                 void *context);
/* `watch`: until it goes, or is changed. What is not there is not watched. */
bool keeper_read(struct keeper_session *session, const char *path, bool watch, keeper_done *done,
                 void *context);

/*
 * ---- keeper_look.c: the line of one name as a view ----
 *
 * A listing, then the nodes themselves, for what made them: all at once, and as many as a view has room for.
 */

struct guard_lock_view;
struct keeper_look;

/* `view` is lent; NULL: no answer, and why. */
typedef void keeper_looked(void *context, const struct guard_lock_view *view, const char *why);

/* Calls `looked` once, not from inside the call; the end of the session is an answer, too. `path` is the parent of
 * the nodes. NULL: no memory, or the session is not UP. */
struct keeper_look *keeper_look_start(struct keeper_session *session, const char *path, keeper_looked *looked,
                                      void *context);
/* `looked` is not called any more. */
void keeper_look_abandon(struct keeper_look *look);
