/* SPDX-License-Identifier: MIT */
/*
 * scheme.h - a scheme: one way to let a single process load a missing value while the others wait for it.
 *
 * Every scheme caches the same row of PostgreSQL in the same Redis and differs only in its lock. The usual
 * one is told by two functions, acquire and release, and lab_get_polling() around them:
 *
 *     lab_look()  value in Redis? ------------------------------------------------> answered
 *       | no                                  STEP_LOOKED
 *     acquire()   not mine: pause, look again
 *       | mine    (between its commands       STEP_CLAIMED)
 *     lab_load_and_fill()                     STEP_HELD
 *       |         SELECT ... the row
 *       |                                     STEP_LOADED
 *       |         SET value
 *     release()                               STEP_RELEASING, right before what deletes the lock
 *
 * The fleet is one of prefork workers: a process serves one request at a time and has one blocking connection
 * to Redis and one to PostgreSQL. A worker told to stop at a step raises SIGSTOP there, on itself, so that
 * the controller kills or delays it exactly at that point and never has to hit a window by timing.
 *
 * Threads    A client belongs to its process's only thread, but lab_step(), lab_took(), lab_gave() and
 *            lab_load() may be called on the one thread that a scheme loads on.
 * Errors     Redis away: a command is sent again over a new connection, as client libraries do. A worker that
 *            cannot go on (no Redis for RECONNECT_LIMIT_MS, no PostgreSQL, a reply that makes no sense) says
 *            why on stderr and ends; the controller then reports its cell as not run.
 */
#ifndef LOAD_LAB_SCHEME_H
#define LOAD_LAB_SCHEME_H

#include "load/lab/source.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct redisContext;
struct redisReply;
struct pg_conn;

enum {
    LAB_VALUE_S = 60,             /* of the cached value; outlives every trial */
    LAB_POLL_MS = 50,             /* between two looks of a polling waiter */
    LAB_REQUEST_LIMIT_MS = 30000, /* a request gives up; longer than it is watched */
    RECONNECT_LIMIT_MS = 5000,
    LAB_KEY_BYTES = 64,
    LAB_NAME_BYTES = 96,
    LAB_TOKEN_BYTES = 40,
};

enum lab_step {
    STEP_NONE = 0,
    STEP_LOOKED,    /* no value there; about to ask for the lock */
    STEP_CLAIMED,   /* the lock is taken, but not yet complete */
    STEP_HELD,      /* the lock is taken, the query not yet sent */
    STEP_LOADED,    /* the row is read, the value not yet in Redis */
    STEP_RELEASING, /* about to delete the lock */
};
enum { LAB_STEPS = 6 };

const char *lab_step_name(enum lab_step step);

struct lab_client {
    const struct scheme *scheme;
    struct redisContext *redis;
    struct pg_conn *postgres;
    const char *key;                 /* of the row */
    char value_name[LAB_NAME_BYTES]; /* Redis keys */
    char lock_name[LAB_NAME_BYTES];
    char token[LAB_TOKEN_BYTES]; /* for the scheme: what names this worker in the lock */
    uint32_t index;              /* of this worker */
    uint32_t lease_s;            /* of every lock that has one; EXPIRE knows whole seconds */
    uint16_t redis_port;
    int link;                /* to the controller */
    enum lab_step stop_at;   /* STEP_NONE: nowhere */
    struct lab_state *state; /* the scheme's own, from open() to close() */
};

struct scheme {
    const char *number, *name, *title, *source; /* source: where one reads of it */
    const char *value_prefix, *value_suffix;    /* around the key; NULL: nothing */
    const char *lock_prefix, *lock_suffix;
    bool is_ours; /* must keep what its README promises */

    /* Before the first request and after the last; NULL: nothing to do. False: why is on stderr. */
    bool (*open)(struct lab_client *client);
    void (*close)(struct lab_client *client);

    /* One request, answered with the row's version or LAB_FAILED. */
    int32_t (*get)(struct lab_client *client);

    /* For lab_get_polling(); other ways of waiting have their own. */
    bool (*acquire)(struct lab_client *client); /* true: it is mine */
    void (*release)(struct lab_client *client);

    /* After the row has changed; NULL: DEL value. False: not confirmed. */
    bool (*invalidate)(struct lab_client *client);
};

/* All of them, in the order of the tables; ends with NULL. */
extern const struct scheme *const schemes[];

/* The names of the Redis keys for a key of this scheme. */
void lab_names(const struct scheme *scheme, const char *key, char value_name[static LAB_NAME_BYTES],
               char lock_name[static LAB_NAME_BYTES]);

/* ---- what a scheme is made of ---- */

/* Look, take the lock or pause for LAB_POLL_MS, load, fill, release. */
int32_t lab_get_polling(struct lab_client *client);

/* The version in the cached value; LAB_FAILED: no value there. */
int32_t lab_look(struct lab_client *client);

/* For the holder: the steps from STEP_HELD to the value being in Redis. */
int32_t lab_load_and_fill(struct lab_client *client);

/* The query alone. */
int32_t lab_load(struct lab_client *client);

/* Here a worker that was told to stops itself. */
void lab_step(struct lab_client *client, enum lab_step step);

/* Tell the controller that the lock is mine, and that I am about to give it back. */
void lab_took(const struct lab_client *client);
void lab_gave(const struct lab_client *client);

/* A new random UUID in client->token. */
void lab_token(struct lab_client *client);

/* A cached value's text and the version in it; LAB_FAILED: none in there. */
void lab_body(const char *key, int32_t version, char *body, size_t body_bytes);
int32_t lab_body_version(const char *bytes, size_t count);

/* One command; hiredis's format. The reply is never NULL and yours: freeReplyObject(). */
struct redisReply *lab_command(struct lab_client *client, const char *format, ...);

/* The same for replies that are a number, or "OK". */
long long lab_integer(struct lab_client *client, const char *format, ...);
bool lab_ok(struct lab_client *client, const char *format, ...);

/* A further connection to the same Redis; NULL: refused. */
struct redisContext *lab_redis_open(const struct lab_client *client);

#endif
