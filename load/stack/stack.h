/* SPDX-License-Identifier: MIT */
/*
 * stack.h - private servers: Redis, PostgreSQL, PgBouncer, ZooKeeper and catalogd, as one program needs them.
 *
 *     ..._start() --> running --> proc_pause() / proc_resume()          SIGSTOP, and stands still; SIGCONT
 *                        |------> proc_kill_tree() --> ..._restart()    SIGKILL; the same ports again
 *                        +------> ..._stop()                            in order; the struct is clear again
 *
 * A Redis is paused, resumed and killed by functions of its own: it has a connection besides.
 *
 * Everything listens on free ports of 127.0.0.1 and in a temporary folder, runs as an ordinary user when we
 * are root, and is gone when this program is, however it ends (see proc.h). ..._stop() accepts a struct that
 * is all zeros or stopped.
 *
 * Threads: as proc.h has it: all from one thread. Errors: false or NULL, and the reason with the end of the
 * server's log on stderr.
 */
#pragma once

#include "load/base/proc.h"
#include "load/stack/rival.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct redisReply;
struct redisContext;

/* ---- Redis ---- */

struct stack_redis {
    pid_t pid;
    uint16_t port;
    char url[64];                          /* redis://127.0.0.1:port/0 */
    char socket_url[PROC_PATH_BYTES + 32]; /* unix:///.../redis.sock */
    char socket_path[PROC_PATH_BYTES + 16];
    char folder[PROC_PATH_BYTES];
    char log_path[PROC_PATH_BYTES + 16];
    const char *const *arguments; /* further ones, "--maxmemory", "1mb", ..., NULL; lent until ..._stop() */
    uint16_t primary_port;        /* of the Redis it follows, also after a restart; 0: it is a primary */
    struct redisContext *context; /* owned: the connection of stack_redis_command() */

    /* 0 and NULL but for one of a fleet, see tests/support/stack_sentinel.h and stack_cluster.h */
    uint16_t tls_port, bus_port;
    const char *const *tls;      /* lent until ..._stop() */
    const char *host;            /* lent likewise */
    const char *user, *password; /* lent likewise */
    bool is_sentinel, is_node;
    bool is_paused;
    char settings_path[PROC_PATH_BYTES + 16]; /* "": it has no file of settings */
};

/* A Redis without persistence that answers PING. `arguments` may be NULL. */
bool stack_redis_start(struct stack_redis *redis, const char *const *arguments);

/* All texts and lists are lent until ..._stop(), the settings until the call returns. */
struct stack_redis_options {
    const char *host;             /* it listens there; NULL: 127.0.0.1 */
    const char *const *arguments; /* or NULL */
    const char *const
        *tls;             /* "--tls-cert-file", ...: it listens with TLS as well, on another port; or NULL */
    const char *settings; /* lines of a file, which it writes anew as it is told; NULL: no file */
    const char *user, *password; /* stack_redis_command() says them; NULL: the default user, no password */
    bool is_sentinel;            /* a Sentinel */
    bool is_node;                /* of a Cluster */
};
bool stack_redis_start_as(struct stack_redis *redis, const struct stack_redis_options *options);

/* Not killed, not paused. */
bool stack_redis_runs(const struct stack_redis *redis);
/* Where others speak to it: with TLS, if it listens with TLS. */
uint16_t stack_redis_used_port(const struct stack_redis *redis);

bool stack_redis_restart(struct stack_redis *redis); /* empty again; with its file of settings */
void stack_redis_kill(struct stack_redis *redis);
void stack_redis_pause(struct stack_redis *redis);
void stack_redis_resume(struct stack_redis *redis);
void stack_redis_stop(struct stack_redis *redis);

/*
 * A Redis that follows `primary`, with its arguments (but without its password: it must have none). It has all
 * that the primary had when this was called.
 */
bool stack_redis_start_replica(struct stack_redis *replica, const struct stack_redis *primary);

/* Waits until the replica has all that the primary has done by now; false after limit_ms. */
bool stack_redis_wait_in_sync(struct stack_redis *replica, struct stack_redis *primary, uint32_t limit_ms);

/* It follows the one on this port, and has had all of its data. */
bool stack_redis_follows(struct stack_redis *replica, uint16_t port);

/* Makes it a primary, as a failover does; the other one, if it lives, knows nothing of it. */
bool stack_redis_promote(struct stack_redis *redis);

/* Blocks for at most 5 s; the format is hiredis's; freeReplyObject() is yours. NULL: no answer. */
struct redisReply *stack_redis_command(struct stack_redis *redis, const char *format, ...);
/* The same, word by word: without a NUL in any. */
struct redisReply *stack_redis_command_words(struct stack_redis *redis, const char *const *words,
                                             size_t count);
/* True: it was no error. Frees the reply; `what` was asked. */
bool stack_redis_done(const char *what, struct redisReply *reply);

/* One command, in hiredis's format, and what is wanted of its answer. True: it was no error. */
bool stack_redis_do(struct stack_redis *redis, const char *format, ...);
/* The number it answers; STACK_REDIS_NO_NUMBER: none. */
#define STACK_REDIS_NO_NUMBER LLONG_MIN
long long stack_redis_number(struct stack_redis *redis, const char *format, ...);
/* The text it answers, cut to fit; false, and "": none. */
bool stack_redis_text(struct stack_redis *redis, char *text, size_t text_bytes, const char *format, ...);
/* It answers with just this text. */
bool stack_redis_answers(struct stack_redis *redis, const char *wanted, const char *format, ...);
/* This is somewhere in the text it answers. Neither a no nor silence is told on stderr: it is asked again and
 * again. */
bool stack_redis_mentions(struct stack_redis *redis, const char *wanted, const char *format, ...);

/* A number of this section of INFO, by its name. -1: there is none, or no answer; neither is told on stderr. */
long long stack_redis_info(struct stack_redis *redis, const char *section, const char *name);

/* What it says it is: "7.0.15". A Valkey names the Redis that it is like. False, and "?": no answer. */
bool stack_redis_version(struct stack_redis *redis, char *version, size_t version_bytes);
bool stack_redis_is_since(struct stack_redis *redis, unsigned major, unsigned minor);

/*
 * How often this command ("get") ran since the start, NULL for all but our own looking (INFO). Commands run
 * by a script count like those of a client: it is what the server did.
 */
uint64_t stack_redis_calls(struct stack_redis *redis, const char *command);

/* ---- PostgreSQL ---- */

struct stack_postgres {
    pid_t pid;
    uint16_t port;
    uint32_t max_connections;
    char url[96];                          /* postgresql://postgres@127.0.0.1:port/postgres */
    char socket_url[PROC_PATH_BYTES + 96]; /* the same over the Unix socket */
    char folder[PROC_PATH_BYTES];
    char log_path[PROC_PATH_BYTES + 16];
    char programs[128]; /* folder of initdb and postgres */
    const char *const
        *settings; /* "name=value", ..., NULL: from its next restart on; lent until ..._stop() */
};

/*
 * A new cluster that accepts queries. It logs every statement when it starts, with its parameters: what
 * stack_postgres_count() counts. It is not safe against power loss.
 */
bool stack_postgres_start(struct stack_postgres *postgres, uint32_t max_connections);
/* One that has what stack_postgres_load() brings, of a scale above 0. */
bool stack_postgres_start_seeded(struct stack_postgres *postgres, uint32_t max_connections, uint32_t scale);
bool stack_postgres_restart(struct stack_postgres *postgres); /* with its data */
/* A standby that streams from this one, and takes over when it is promoted. Its replay can be held up: what has come
 * is not seen until it goes on. */
bool stack_postgres_start_standby(struct stack_postgres *standby, const struct stack_postgres *primary);
bool stack_postgres_promote(struct stack_postgres *standby);
bool stack_postgres_hold_replay(const struct stack_postgres *standby, bool held);
void stack_postgres_stop(struct stack_postgres *postgres);

/* Loads the project's sql/schema.sql and, with a scale above 0, sql/seed.sql. */
bool stack_postgres_load(const char *url, uint32_t scale);

/* Runs one statement, for two minutes at most; the first column of the first row goes into `value` ("" if none; may
 * be NULL). */
bool stack_postgres_query(const char *url, const char *statement, char *value, size_t value_bytes);

/* Where the statement log ends now, and how many statements with this text in them started since: each once, however
 * often it has the text and however it ended. What a statement is, witness_log.h says. */
uint64_t stack_postgres_mark(const struct stack_postgres *postgres);
uint32_t stack_postgres_count(const struct stack_postgres *postgres, uint64_t mark, const char *text);

/* How often the value of one key had to be loaded since: statements that started less than the TTL after the first of
 * them are for the same expiry. */
uint32_t stack_postgres_expiries(const struct stack_postgres *postgres, uint64_t mark, const char *text,
                                 uint32_t ttl_ms);

/* Whether the log also says when statements end. Open sessions hear of it a moment later, between two statements. */
bool stack_postgres_log_ends(const struct stack_postgres *postgres, bool wanted);

/* Waits until at least `wanted` of them started; false after limit_ms. */
bool stack_postgres_wait(const struct stack_postgres *postgres, uint64_t mark, const char *text,
                         uint32_t wanted, uint32_t limit_ms);

/* ---- PgBouncer ---- */

struct stack_pgbouncer {
    struct rival server;
    char url[96]; /* postgresql://postgres@127.0.0.1:port/postgres */
};

/* Before all databases of this PostgreSQL, for any user; returns when a query through it is answered. Its pool_mode
 * is "session", "transaction" or "statement". It has at most two connections to the server. */
bool stack_pgbouncer_start(struct stack_pgbouncer *pgbouncer, const struct stack_postgres *postgres,
                           const char *pool_mode);
void stack_pgbouncer_stop(struct stack_pgbouncer *pgbouncer);
/* ---- ZooKeeper ---- */

enum { STACK_ZOOKEEPER_MOST = 3, STACK_ZOOKEEPER_TICK_MS = 50 };

struct stack_zookeeper {
    size_t count; /* of its servers */
    struct stack_zookeeper_server {
        pid_t pid;
        uint16_t port, follow_port, election_port;
        char log_path[PROC_PATH_BYTES + 32];
    } servers[STACK_ZOOKEEPER_MOST];
    char url[64]; /* 127.0.0.1:port,... of all of them, as its clients want it */
    char folder[PROC_PATH_BYTES];
};

/*
 * One server that stands alone, or an ensemble of three; returns when all of them serve. Sessions of 100 ms to a
 * minute are allowed and end within a tick of their time; empty containers go within a second. It is not safe against
 * power loss.
 */
bool stack_zookeeper_start(struct stack_zookeeper *zookeeper, size_t count);
/* One of them, by its number. It comes back with its data, and returns when it serves: most of the others must
 * live. */
bool stack_zookeeper_restart(struct stack_zookeeper *zookeeper, size_t at);
void stack_zookeeper_stop(struct stack_zookeeper *zookeeper); /* all of them */

/* What one of them says to a word of four letters ("srvr", "dump", "cons"); false: nothing within a second. */
bool stack_zookeeper_ask(const struct stack_zookeeper *zookeeper, size_t at, const char *word, char *text,
                         size_t text_bytes);

/* ---- catalogd ---- */

struct stack_catalogd {
    pid_t pid;
    uint16_t port, ops_port; /* on 127.0.0.1 */
    char folder[PROC_PATH_BYTES];
    char log_path[PROC_PATH_BYTES + 16];
};

/*
 * The service with these settings ("NAME=value", ends with NULL), LISTEN and OPS_LISTEN added; returns when
 * /healthz answers.
 */
bool stack_catalogd_start(struct stack_catalogd *catalogd, const char *const *settings);
/* The same with these listening sockets for clients, as systemd hands them over; port is that of the first. */
bool stack_catalogd_start_given(struct stack_catalogd *catalogd, const char *const *settings,
                                const int *sockets, size_t count);
/* $CATALOGD; without it the one beside this program, or the project's build/catalogd. */
const char *stack_catalogd_program(void);
/* The same ports again, after SIGTERM if it still runs. */
bool stack_catalogd_restart(struct stack_catalogd *catalogd, const char *const *settings);
/* SIGTERM; false: it had to be killed after 20 s. */
bool stack_catalogd_stop(struct stack_catalogd *catalogd);

/* Waits until /readyz answers 200. */
bool stack_catalogd_wait_ready(const struct stack_catalogd *catalogd, uint32_t limit_ms);
/* Until it is connected to its Redis, and hears of others there or polls for want of a right; ready does not mean
 * that. */
bool stack_catalogd_wait_joined(const struct stack_catalogd *catalogd, uint32_t limit_ms);
/* Over these two, with these settings besides ("NAME=value", ends with NULL); returns when it is ready and
 * connected. */
bool stack_catalogd_start_over(struct stack_catalogd *catalogd, const struct stack_redis *redis,
                               const struct stack_postgres *postgres, const char *const *settings);

/* Samples of one /metrics, each by its whole name, labels included; -1 where there is none, and then false. */
bool stack_catalogd_metrics(const struct stack_catalogd *catalogd, uint32_t limit_ms, size_t count,
                            const char *const *samples, double *values);

/* One of them. */
double stack_catalogd_metric(const struct stack_catalogd *catalogd, const char *sample);

/* How many lines of the server's log contain the text. */
uint32_t stack_log_count(const char *log_path, uint64_t mark, const char *text);

/* ---- the machine ---- */

enum { MACHINE_BYTES = 256 };

/* "2 cores, Linux 6.1.0 x86_64; Redis 7.0.15, PostgreSQL 15.18": cores, kernel and the versions that both servers
 * tell, of those that are given; "?" for one that does not answer. */
void machine_describe(struct stack_redis *redis, const char *database_url, char text[static MACHINE_BYTES]);
