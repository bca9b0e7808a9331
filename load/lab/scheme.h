/* SPDX-License-Identifier: MIT */
/*
 * scheme.h - a scheme: one way to let one process do what the others then need not, or must not, do.
 *
 * The schemes of GROUP_CACHE let a single process load a missing value while the others wait for it. Each caches the
 * same row of PostgreSQL in the same Redis and differs only in its lock. The usual one is told by two functions,
 * acquire and release, and lab_get_polling() around them:
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
 * The schemes of all other groups are locks, and lab_get_locked() is the work under them: the row is read, and what
 * was read plus 1 is written back. Two that do so at once lose an update, and PostgreSQL counts it:
 *
 *     acquire()   until it is mine
 *       |                                     STEP_HELD
 *       |         the fencing number, if there is one, is shown to the row
 *       |         SELECT ... the row
 *       |         still mine, if the scheme can tell?
 *       |                                     STEP_LOADED
 *       |         UPDATE ... the row
 *     release()                               STEP_RELEASING
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
#pragma once

#include "load/lab/source.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct redisContext;
struct redisReply;
struct pg_conn;

enum {
    LAB_VALUE_S = 60,             /* of the cached value; outlives every trial */
    LAB_POLL_MS = 50,             /* between two looks of a polling waiter */
    LAB_REQUEST_LIMIT_MS = 45000, /* a request gives up; longer than it is watched */
    RECONNECT_LIMIT_MS = 5000,
    LAB_KEY_BYTES = 64,
    LAB_NAME_BYTES = 96,
    LAB_TOKEN_BYTES = 40,
    LAB_URLS_BYTES = 320,
    LAB_ALL = 1000000, /* what an exclusive holder takes; a reader, and who has a permit, takes 1 */
    LAB_PERMITS = 2,
};

/* What a scheme and a failure have to do with each other: a failure is one group's, a scheme is in one or more. */
enum lab_group {
    GROUP_CACHE = 1,
    GROUP_LOCK = 2, /* exclusive locks of every kind */
    GROUP_FAIR = 4,
    GROUP_RW = 8,
    GROUP_PERMITS = 16,
    GROUP_REDLOCK = 32,
    GROUP_ADVISORY = 64,
    GROUP_ZOOKEEPER = 128,
    GROUP_CROWD = 256,
};

struct lab_group_name {
    enum lab_group group;
    const char *name, *title;
};
/* All of them; ends with a NULL name. */
extern const struct lab_group_name lab_groups[];

/* Where a lock lives. */
enum lab_place { PLACE_REDIS = 0, PLACE_MASTERS, PLACE_POSTGRES, PLACE_ZOOKEEPER };

/* How a lock is asked for. */
enum lab_mode {
    MODE_ALONE = 0,
    MODE_SHARED,     /* to read, or one permit; the row is not written */
    MODE_READ_UNDER, /* alone, and under it a read lock is taken and given back before the section */
};

enum lab_step {
    STEP_NONE = 0,
    STEP_LOOKED,    /* no value there; about to ask for the lock */
    STEP_CLAIMED,   /* the lock is taken, but not yet complete */
    STEP_HELD,      /* the lock is taken, the query not yet sent */
    STEP_LOADED,    /* the row is read, the value not yet in Redis, the row not yet written */
    STEP_RELEASING, /* about to delete the lock */
};

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
    const char *lock_urls;   /* of the servers the lock lives on, separated by spaces */
    int link;                /* to the controller */
    enum lab_step stop_at;   /* STEP_NONE: nowhere */
    enum lab_mode mode;      /* of this request, as what follows */
    uint32_t fixed_lease_ms; /* it is not renewed; 0: the usual one, renewed if the scheme does that */
    uint64_t fence;          /* set by acquire(); 0: it has none */
    bool is_refused;         /* set by acquire(): the scheme says that it cannot work here */
    struct lab_state *state; /* the scheme's own, from open() to close() */
};

struct scheme {
    const char *number, *name, *title, *source; /* source: where one reads of it */
    const char *label;                          /* its name in tables; NULL: `name`, which is one word */
    const char *value_prefix, *value_suffix;    /* around the key; NULL: nothing */
    const char *lock_prefix, *lock_suffix;      /* likewise; no prefix: "lock:" */
    bool is_ours;                               /* must keep what its README promises */
    uint32_t groups;
    enum lab_place place;
    int variant; /* for the scheme's own use */
    const char *
        queue_length; /* on PLACE_REDIS, in GROUP_FAIR: a Redis command with %s for the key, how many stand in line */

    /* Before the first request and after the last; NULL: nothing to do. False: why is on stderr. */
    bool (*open)(struct lab_client *client);
    void (*close)(struct lab_client *client);

    /* One request, answered with the row's version or LAB_FAILED. */
    int32_t (*get)(struct lab_client *client);

    /* For lab_get_polling() and lab_get_locked(). */
    bool (*acquire)(struct lab_client *client); /* true: it is mine */
    void (*release)(struct lab_client *client); /* NULL: there is nothing to give back */
    uint32_t poll_ms;                           /* acquire is tried again after so long; 0: it waits itself */
    bool (*is_lost)(
        struct lab_client *client); /* has the holder heard that it no longer is? NULL: it never hears */

    /* For GROUP_CROWD: so many ask at once in this process, and each gives back what it gets at once. NOTE_WAITING
     * when they wait; returns when each has had it. */
    bool (*crowd)(struct lab_client *client, uint32_t count);

    /* After the row has changed; NULL: DEL value. False: not confirmed. */
    bool (*invalidate)(struct lab_client *client);
};

/* The index-th of all, in the order of the tables; NULL: there are no more. */
const struct scheme *scheme_at(size_t index);

const char *lab_label(const struct scheme *scheme);

/* The names of the Redis keys for a key of this scheme. */
void lab_names(const struct scheme *scheme, const char *key, char value_name[static LAB_NAME_BYTES],
               char lock_name[static LAB_NAME_BYTES]);

/* ---- what a scheme is made of ---- */

/* Take the lock, read the row, write it, release. */
int32_t lab_get_locked(struct lab_client *client);

/* Look, take the lock or pause for poll_ms, load, fill, release. */
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
/* The scheme has told the holder that the lock is no longer its own. */
void lab_lost(const struct lab_client *client);

/* What the lock is asked for, in milliseconds. */
uint32_t lab_lease_ms(const struct lab_client *client);

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

/* A thread that renews the lock while this worker holds it. */
struct lab_renewer {
    struct lab_client *client; /* lent */
    /* With the mutex held, once it is due: sets due_us anew, 0 if the lock is lost. */
    void (*renew)(struct lab_client *client);
    pthread_t thread;
    pthread_mutex_t mutex; /* for what follows, and for what the scheme uses on both threads */
    pthread_cond_t changed;
    uint64_t due_us; /* 0: not held */
    bool is_closing;
};

/* False: no thread. */
bool lab_renewer_open(struct lab_renewer *renewer, struct lab_client *client,
                      void (*renew)(struct lab_client *client));
/* The lock is held and to be renewed then; 0: it is about to be given back. No renewal is under way afterwards. */
void lab_renewer_set(struct lab_renewer *renewer, uint64_t due_us);
void lab_renewer_close(struct lab_renewer *renewer);
