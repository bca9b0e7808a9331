/* SPDX-License-Identifier: MIT */
/*
 * redis/types.h - the words that all of redis/ has in common: outcomes, scripts, calls, hooks, counters,
 * configurations, what errors mean.
 *
 * Pure, any thread.
 */
#pragma once

#include "../guard.h"
#include <hiredis/hiredis.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum redis_outcome {
    REDIS_REPLIED, /* `reply` is set; it may be an error reply */
    REDIS_UNSENT,  /* it has not run and never will */
    REDIS_MOVING,  /* likewise: its slot was on the move for as long as the limit allows; ask later */
    REDIS_UNKNOWN, /* it may have run, may run later, or never */
};
/* `reply` is lent until the callback returns. */
typedef void redis_replied(void *context, enum redis_outcome outcome, const struct redisReply *reply);

struct redis_login;
struct redis_news;
struct redis_place;
struct redis_tls;
struct redis_topology;

enum redis_server_kind { REDIS_SERVER_ALONE, REDIS_SERVER_NODE, REDIS_SERVER_SENTINEL };

/* In Lua. */
enum { REDIS_SCRIPTS_MAX = 16, REDIS_SCRIPT_ARGS_MAX = 48 };
struct redis_script {
    const char *source;
    size_t source_bytes;
};

/* A command, before it is sent; all of it is lent. */
enum redis_call_kind {
    REDIS_WORDS,      /* its words */
    REDIS_GET,        /* one word: a name, whose value only a master that works tells */
    REDIS_RUN,        /* a script's keys, then its arguments */
    REDIS_REPLICATED, /* likewise; done once replicas have what it did: replicated.h */
    REDIS_LOOKUP,     /* one word: a name, whose PTTL and value are asked for; context: struct redis_lookup */
};
struct redis_call {
    enum redis_call_kind kind;
    unsigned script; /* its number in the config */
    size_t key_count, argc;
    const char *const *argv;
    const size_t *argv_bytes;
    redis_replied *replied;
    void *context;
};

/* A script's keys, then its arguments, in the making. */
enum { REDIS_ARGS_ROOM = 9216 };
struct redis_args {
    size_t count, key_count, used;
    const char *at[REDIS_SCRIPT_ARGS_MAX]; /* lent */
    size_t bytes[REDIS_SCRIPT_ARGS_MAX];
    char room[REDIS_ARGS_ROOM]; /* for what has to be printed */
};
/* Of a variable: where all that is left out of an initialiser is cleared (-ftrivial-auto-var-init), this is not. Most
 * of the room is never used, and to clear it costs more than the rest of a call. */
#if __has_attribute(uninitialized)
#define REDIS_ARGS_UNCLEARED __attribute__((uninitialized))
#else
#define REDIS_ARGS_UNCLEARED
#endif
/* The rest of it is written where it is needed. */
void redis_args_init(struct redis_args *args);
char *redis_args_room(struct redis_args *args, size_t bytes);
void redis_args_key(struct redis_args *args, const char *name, size_t bytes);
void redis_args_add(struct redis_args *args, const char *text, size_t bytes);
void redis_args_text(struct redis_args *args, const char *text);
void redis_args_number(struct redis_args *args, uint64_t number);

/* PTTL first, then the value, in one write. */
struct redis_lookup {
    /* set by the owner: */
    /* Called once. pttl_ms: -1 unless the PTTL was answered with one; `reply` is the value's. */
    void (*done)(void *context, enum redis_outcome outcome, int64_t pttl_ms, const struct redisReply *reply);
    void *context;
    /* redis/'s: */
    int64_t pttl_ms;
    bool alone;      /* the PTTL left, the read of the value could not be sent */
    bool redirected; /* the PTTL was: another node of the Cluster has the key */
};

struct redis_hooks {
    void *context;
    /* Up, down, or refused by Redis; `text` says why in one line, naming host:port; lent. Called whenever the
     * state or its reason changes; first DOWN is not told. Not after redis_close(). May be NULL. */
    void (*state)(void *context, enum guard_redis_state state, const char *text);
    /* The connection to a shard's master came up or went down. Before `state`. May be NULL. */
    void (*link)(void *context, unsigned shard, bool up);
    /* Another master of the shard was confirmed than the last time. Before `link`. May be NULL. */
    void (*reign)(void *context, unsigned shard);
    /* No key is of this shard any more; its number may be given to another. After `link`. May be NULL. */
    void (*gone)(void *context, unsigned shard);
    /* Subscriber only: one published message; lent. */
    void (*message)(void *context, const char *payload, size_t payload_bytes);
};

/* Counted with relaxed atomics; read from any thread. */
struct redis_counters {
    _Atomic uint64_t commands;    /* accepted; not the greeting's, heartbeats or an EVAL after NOSCRIPT */
    _Atomic uint64_t round_trips; /* batches of them written: all commands of one turn of the loop */
    _Atomic uint64_t timeouts;    /* connections given up for a limit, connecting or up */
    _Atomic uint64_t errors;      /* error replies; a NOSCRIPT that EVAL made good is none */
    _Atomic uint64_t connects;    /* times the connection came up */
};

/* Of one connection, and of a struct redis with all of its own. What it lends it lends until that is closed. */
struct redis_config {
    uint32_t limit_ms;         /* of one command, waiting for a connection and redirections included */
    uint32_t connect_limit_ms; /* DNS, connect, AUTH, SELECT, SCRIPT LOAD; or SUBSCRIBE confirmed */
    uint32_t backoff_ms, max_backoff_ms; /* between attempts, doubling, +-50 % jitter */
    uint32_t spread_ms;        /* after a change of masters: within this time, by chance; 0: at once */
    size_t max_reply_bytes;    /* a larger reply resets the connection */
    size_t max_reply_elements; /* likewise; 0: 1024 */
    size_t max_pending_bytes;  /* more unwritten or unanswered command bytes: nothing more is sent */
    const char *channel;       /* subscriber: its one channel; NULL: for commands; lent */
    const struct redis_script *scripts; /* of REDIS_RUN, at most REDIS_SCRIPTS_MAX; lent */
    size_t script_count;
    const char *client_name; /* CLIENT SETNAME; printable without spaces; NULL: none; lent */
    uint64_t jitter_seed;
    struct redis_hooks hooks;
    struct redis_counters *counters; /* shared with others; may be NULL */

    /* for redis_open() and what it opens */
    struct redis_topology *topology; /* lent */

    /* for connection_open(), which calls of the hooks no more than state and message; all of it lent */
    struct redis_place *place;       /* where, and under which reign */
    enum redis_server_kind expected; /* another one is refused */
    const struct redis_login *login;
    unsigned database;
    bool any_role;           /* a replica will do: to subscribe, or to ask about the Cluster */
    struct redis_tls *tls;   /* NULL: without */
    bool fence_by_role;      /* redis/fence.h */
    struct redis_news *news; /* shared with others; NULL: it does not say which server it is */
    const char *beat_key;    /* of the heartbeat: one of the node's own slots; NULL: any */
};

/* ---- what an error reply means ---- */

enum redis_error_class {
    REDIS_ERROR_NOSCRIPT, /* nothing ran; EVAL */
    REDIS_ERROR_FULL,     /* OOM: reads and deletes work, stores do not */
    REDIS_ERROR_READONLY, /* a replica, or one that lost its master: drop the connection, resolve again */
    REDIS_ERROR_LOADING, /* alive but not serving yet, or busy in a script, or its Cluster is down: later again */
    REDIS_ERROR_REFUSED, /* alive, refuses writes now: MISCONF */
    REDIS_ERROR_FENCED,  /* a master without its replicas, which another may have replaced: NOREPLICAS */
    REDIS_ERROR_DENIED,  /* our login or ACL, or keys of several slots: an operator must act */
    REDIS_ERROR_CROWDED, /* max number of clients reached */
    REDIS_ERROR_MOVED,   /* nothing ran; another node of the Cluster has the slot */
    REDIS_ERROR_ASK,     /* nothing ran; another node has the key, for this command alone */
    REDIS_ERROR_MOVING,  /* nothing ran; the slot is on its way, with some keys here and some there */
    REDIS_ERROR_STRAYED, /* a script began, and wanted a key of another node: it may have run in part */
    REDIS_ERROR_OTHER,   /* a bug, ours or another's: nothing ran, say so */
};
/* By the prefix of the error text; Lua's "-ERR ... @user_script" wrapping is looked through. */
enum redis_error_class redis_error_classify(const char *text, size_t text_bytes);
/* It stays so until an operator acts: DENIED, or a command that this Redis has not. */
bool redis_error_is_permanent(const char *text, size_t text_bytes);

/* ---- what went wrong, as one line for people ---- */

enum { REDIS_WHY_SIZE = 320 }; /* of one line that says why; without the address */

/* The words of Redis by which an error is known, "" if it is not: nothing of what was sent is among them. */
const char *redis_error_name(const char *text, size_t text_bytes);
/* What an operator can do about it; "" if that is not known. */
const char *redis_error_advice(const char *text, size_t text_bytes);

/* `what`, then the error that Redis has replied, printable and cut short, and what to do about it. secret: it may
 * repeat a password, so only words that are known are told. */
void redis_explain(const struct redisReply *reply, const char *what, bool secret, char why[REDIS_WHY_SIZE]);

/* "connect: connection refused": `what` failed for this reason; its first letter becomes a small one, for no sentence
 * begins there. */
void redis_explain_problem(const char *what, const char *problem, char why[REDIS_WHY_SIZE]);
/* The same for a number of errno's. */
void redis_explain_errno(const char *what, int error, char why[REDIS_WHY_SIZE]);
