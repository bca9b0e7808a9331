/* SPDX-License-Identifier: MIT */
/*
 * redis/redis.h - the room redis/: one connection to Redis on an event loop, pipelined commands with limits or one
 * subscription. Others include only this header, and subscription.h on top of it.
 *
 *                             reached               greeting answered
 *   redis_open         REACHING ------> GREETING ----------------------> UP
 *       |               ^    |           ^ |   ^                          |
 *       |       rested  |    |           | |   | 100 ms later: once more  | limit, end of file, nonsense,
 *       |               |    | no        | |   PROVING <- after a limit   | READONLY, another reign,
 *       |               |    | address,  | | refused, limit               | redis_reset()
 *       v               |    v limit       v                              v
 *       +------------> RESTING <---------- reset (RST, never reused) -----+     redis_close -> CLOSED
 *
 * Every command is answered exactly once, never from inside redis_send(). A command that is not answered
 * within its limit resets the connection; so does anything that leaves it in doubt, because a connection
 * whose replies no longer match its commands would hand one caller's reply to the next. After a reset, what
 * had not been written is UNSENT, what had been is UNKNOWN: it may have run, or may still run later.
 * Commands sent while the connection is not up wait for it within their limit: a caller need not know.
 * A login that is refused a command while UP stays connected and UP, but is told DENIED until a second has
 * passed without a refusal.
 *
 * Only the master's replies reach a caller: redis/fence.h says how a value is read and what the heartbeat is for,
 * redis/reign.h what happens to the connections of a process when one of them finds another master: from that instant
 * their replies reach nobody (UNKNOWN). PROVING follows a server that did not answer in time: one that was stopped
 * and goes on says at first what it was, not what it has become.
 *
 * Owns       Connections, their sockets and the threads that resolve names. It knows neither keys nor scripts: those
 *            come from above as bytes.
 * Threads    All functions only on the thread of the loop; a reign and the counters on any.
 * Callbacks  May call every function here. redis_close() and redis_reset() answer what is pending, from
 *            inside the call, or right after the callback in which they were called.
 * Signals    Nothing raises SIGPIPE, on whatever thread the loop runs.
 * Secrets    No text given out contains the password, not even one that the server echoes.
 *
 * Read in this order: connection.c (the stages, and what they are for), pipeline (commands in their order), command
 * (their bytes; EVALSHA), reader (replies within bounds), greeting (the login), fence and reign (one master), error
 * (what errors mean), socket and resolve (DNS, connect, reset), address.c (URLs); subscription stands on top of all.
 */
#ifndef GUARD_REDIS_H
#define GUARD_REDIS_H

#include "../base/host.h"
#include "../guard.h"
#include "reign.h"
#include <hiredis/hiredis.h>

struct redis;
struct redis_tls;

enum { REDIS_LABEL_SIZE = 272 };

/* A parsed URL; free of secrets only after redis_address_clear(). */
struct redis_address {
    bool is_unix;
    char host[256]; /* host name, address, or the socket's path */
    uint16_t port;
    char user[129];     /* "" : none */
    char password[513]; /* "" : none */
    unsigned database;
};

/* redis://[user[:password]@]host[:port][/db] (IPv6 in brackets) and unix://[user[:password]@]/path[?db=n];
 * user, password and path are percent-decoded. False, with *out untouched and a text that names the part
 * that is wrong but repeats nothing of the URL, which may hold a password anywhere. */
bool redis_address_parse(const char *url, struct redis_address *out, struct guard_error *error);
/* Overwrites it, in a way no optimiser takes out. */
void redis_address_clear(struct redis_address *address);
/* "host:port", "[::1]:port" or the path, as logs name it. */
void redis_address_label(const struct redis_address *address, char out[REDIS_LABEL_SIZE]);

enum redis_outcome {
    REDIS_REPLIED, /* `reply` is set; it may be an error reply */
    REDIS_UNSENT,  /* it has not run and never will */
    REDIS_UNKNOWN, /* it may have run, may run later, or never */
};
/* `reply` is lent until the callback returns. */
typedef void redis_replied(void *context, enum redis_outcome outcome, const struct redisReply *reply);

struct redis_hooks {
    void *context;
    /* Up, down, or refused by Redis; `text` says why in one line, naming host:port; lent. Called whenever the
     * state or its reason changes; first DOWN is not told. Not after redis_close(). May be NULL. */
    void (*state)(void *context, enum guard_redis_state state, const char *text);
    /* Subscriber only: one published message; lent. */
    void (*message)(void *context, const char *payload, size_t payload_bytes);
};

/* In Lua. */
enum { REDIS_SCRIPTS_MAX = 16, REDIS_SCRIPT_ARGS_MAX = 48 };
struct redis_script {
    const char *source;
    size_t source_bytes;
};

struct redis_config {
    const struct redis_address *address; /* lent until the connection is closed */
    uint32_t limit_ms;                   /* of one command, waiting for the connection included */
    uint32_t connect_limit_ms;           /* DNS, connect, AUTH, SELECT, SCRIPT LOAD; or SUBSCRIBE confirmed */
    uint32_t backoff_ms, max_backoff_ms; /* between attempts, doubling, +-50 % jitter */
    size_t max_reply_bytes;              /* a larger reply resets the connection; likewise 1024 elements */
    size_t max_pending_bytes;           /* more unwritten or unanswered command bytes: redis_send() refuses */
    const char *channel;                /* subscriber: its one channel; NULL: a command connection; copied */
    const struct redis_script *scripts; /* of redis_run(), at most REDIS_SCRIPTS_MAX; lent like the address */
    size_t script_count;
    const char *client_name; /* CLIENT SETNAME; printable without spaces; NULL: none; copied */
    uint64_t jitter_seed;
    struct redis_hooks hooks;
    struct redis_counters *counters; /* shared with other connections; may be NULL */
    struct redis_reign *reign;       /* likewise; lent */
    struct redis_tls *tls;           /* shared with other connections; lent; NULL: without TLS */
};

/* Counted with relaxed atomics; read from any thread. */
struct redis_counters {
    _Atomic uint64_t commands;    /* accepted; not the greeting's, heartbeats or an EVAL after NOSCRIPT */
    _Atomic uint64_t round_trips; /* batches of them written: all commands of one turn of the loop */
    _Atomic uint64_t timeouts;    /* connections given up for a limit, connecting or up */
    _Atomic uint64_t errors;      /* error replies; a NOSCRIPT that EVAL made good is none */
    _Atomic uint64_t connects;    /* times the connection came up */
};

/* Starts connecting. NULL: no memory. */
struct redis *redis_open(struct guard_host *host, const struct redis_config *config);
/* Answers everything pending (UNSENT or UNKNOWN), then frees and calls `closed` once, soon (host.h); from then on it
 * has nothing on the loop. A DNS lookup that is still running cannot be interrupted: it outlives `closed`, touches
 * nothing of the connection or the loop, and frees itself when it returns (redis/resolve.h says how many there may
 * be). */
void redis_close(struct redis *redis, void (*closed)(void *context), void *context);

bool redis_is_up(const struct redis *redis);
/* Up, and as far as is known at the master: redis_send_get() is worth while. */
bool redis_may_look_up(const struct redis *redis);
/* Up, its login may do all that is of use, and the server is verified; what is not so is in the text of its state. */
bool redis_is_whole(const struct redis *redis);

/* A number that moves on when commands are written: what was sent under the present one has not left yet. */
uint64_t redis_batch(const struct redis *redis);

/* All commands of one turn of the loop leave in one write. False: no memory, too much pending or closing;
 * then `replied` will never be called. argv is copied. Command connections only. */
bool redis_send(struct redis *redis, size_t argc, const char *const *argv, const size_t *argv_bytes,
                redis_replied *replied, void *context);

/* As GET, but only a master that works answers: `replied` never has a value of another's. */
bool redis_send_get(struct redis *redis, const char *name, size_t name_bytes, redis_replied *replied,
                    void *context);

/* The script of that number in its config by EVALSHA; on NOSCRIPT the same arguments again by EVAL, which is
 * safe because nothing ran. Within one limit_ms in all. EVAL at once while the digest is not known: before
 * the first greeting, or if the login may not SCRIPT LOAD. argv is the keys, then the arguments,
 * REDIS_SCRIPT_ARGS_MAX at most. */
bool redis_run(struct redis *redis, unsigned script, size_t key_count, size_t argc, const char *const *argv,
               const size_t *argv_bytes, redis_replied *replied, void *context);

/* Drops the connection now and connects again: a subscriber whose canary has died. */
void redis_reset(struct redis *redis, const char *why);

/* ---- what an error reply means ---- */

enum redis_error_class {
    REDIS_ERROR_NOSCRIPT, /* nothing ran; EVAL */
    REDIS_ERROR_FULL,     /* OOM: reads and deletes work, stores do not */
    REDIS_ERROR_READONLY, /* a replica, or one that lost its master: drop the connection, resolve again */
    REDIS_ERROR_LOADING,  /* alive but not serving yet, or busy in a script, or a slot moves: later again */
    REDIS_ERROR_REFUSED,  /* alive, refuses writes now: MISCONF */
    REDIS_ERROR_FENCED,   /* a master without its replicas, which another may have replaced: NOREPLICAS */
    REDIS_ERROR_DENIED,   /* our login, ACL or the Cluster's slot map: an operator must act */
    REDIS_ERROR_CROWDED,  /* max number of clients reached */
    REDIS_ERROR_OTHER,    /* a bug, ours or another's: nothing ran, say so */
};
/* By the prefix of the error text; Lua's "-ERR ... @user_script" wrapping is looked through. */
enum redis_error_class redis_error_classify(const char *text, size_t text_bytes);

#endif
