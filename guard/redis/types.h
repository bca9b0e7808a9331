/* SPDX-License-Identifier: MIT */
/*
 * redis/types.h - the words that all of redis/ has in common: outcomes, scripts, counters, and what errors mean.
 *
 * Pure, any thread.
 */
#ifndef GUARD_REDIS_TYPES_H
#define GUARD_REDIS_TYPES_H

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

enum redis_server_kind { REDIS_SERVER_ALONE, REDIS_SERVER_NODE, REDIS_SERVER_SENTINEL };

/* In Lua. */
enum { REDIS_SCRIPTS_MAX = 16, REDIS_SCRIPT_ARGS_MAX = 48 };
struct redis_script {
    const char *source;
    size_t source_bytes;
};

/* Counted with relaxed atomics; read from any thread. */
struct redis_counters {
    _Atomic uint64_t commands;    /* accepted; not the greeting's, heartbeats or an EVAL after NOSCRIPT */
    _Atomic uint64_t round_trips; /* batches of them written: all commands of one turn of the loop */
    _Atomic uint64_t timeouts;    /* connections given up for a limit, connecting or up */
    _Atomic uint64_t errors;      /* error replies; a NOSCRIPT that EVAL made good is none */
    _Atomic uint64_t connects;    /* times the connection came up */
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

#endif
