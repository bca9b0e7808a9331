/* SPDX-License-Identifier: MIT */
/*
 * redis/greeting.h - what a new connection says first, all in one write, and what the answers make of it.
 *
 *   commands    AUTH  HELLO  SELECT  CLIENT SETNAME  ROLE  INFO  INFO server  GETEX  SCRIPT LOAD ...
 *   subscriber  AUTH  HELLO  CLIENT SETNAME  ROLE  INFO  SUBSCRIBE
 *   any role    AUTH  HELLO  CLIENT SETNAME  (SUBSCRIBE)
 *   once more   ROLE  INFO  GETEX
 *   a Sentinel  AUTH  HELLO  CLIENT SETNAME  [SUBSCRIBE]
 *
 * AUTH and SELECT are left out where the URL has neither. HELLO, which changes nothing without arguments, says
 * whether this is a server of the kind that the URL is for: alone, a node of a Cluster, or a Sentinel. ROLE keeps
 * away from a replica, which would answer reads with old values, INFO tells the master's reign and which server it
 * is, GETEX whether the fence works here. An ACL may forbid all that is not AUTH, SELECT and SUBSCRIBE: then there is
 * no name, no check, no reign, ROLE with each value that is read, and EVAL in place of EVALSHA.
 *
 * Pure, but for the file with the password; the owner's thread.
 */
#pragma once

#include "command.h"
#include "fence.h"
#include "place.h"
#include "server.h"
#include "types.h"
#include "url.h"

enum redis_verdict {
    REDIS_GREETING_GOES_ON,
    REDIS_GREETING_DONE,
    REDIS_GREETING_FAILED,  /* may be different next time: loading, too many clients */
    REDIS_GREETING_REPLICA, /* likewise */
    REDIS_GREETING_DENIED,  /* an operator must act */
};

struct redis_greeting_step {
    const struct redis_greeting_rule *rule;
    size_t script; /* SCRIPT LOAD: which */
};

struct redis_greeting {
    struct redis_greeting_step steps[8 + REDIS_SCRIPTS_MAX];
    size_t asked, answered;
    bool is_other;                     /* the server said that it is of another kind */
    const struct redis_config *config; /* its owner's, set once; lent */
    char digests[REDIS_SCRIPTS_MAX]
                [REDIS_DIGEST_BYTES + 1]; /* "": unknown; kept from one greeting to the next */
    /* what it has learned: */
    char reign[REDIS_REIGN_BYTES + 1]; /* "": INFO was refused */
    struct redis_server server;        /* likewise */
    struct redis_fence fence;
};

/* Appends the commands. login: that of the config, its password has been read. False: no memory. */
bool redis_greeting_write(struct redis_greeting *greeting, const struct redis_login *login,
                          struct redis_buffer *out);

/* The same without what a login is needed for but once: what the server was and what it is may differ. */
bool redis_greeting_write_again(struct redis_greeting *greeting, struct redis_buffer *out);

/* What ROLE was answered with. */
bool redis_is_master(const struct redisReply *role);

/* No such key is ever there. */
#define REDIS_BEAT_KEY "csg1:{beat}"

static inline const char *redis_greeting_beat_key(const struct redis_greeting *greeting)
{
    return greeting->config->beat_key != NULL ? greeting->config->beat_key : REDIS_BEAT_KEY;
}

/* "up", and what the login lacks: one line; NULL: nothing. */
const char *redis_greeting_lack(const struct redis_greeting *greeting);

/* Takes the next reply. *why is set on FAILED and DENIED. */
enum redis_verdict redis_greeting_read(struct redis_greeting *greeting, const struct redisReply *reply,
                                       char why[REDIS_WHY_SIZE]);

/* ---- user and password as they are when they are needed: those in a file may have been changed since ---- */

/* The login with what its file holds, without the end of the line; clear it with redis_login_clear(). False, and *why
 * names the file and what is wrong with it: it cannot be read, is empty, or is too long. */
bool redis_login_read(const struct redis_login *login, struct redis_login *out, char why[REDIS_WHY_SIZE]);
void redis_login_clear(struct redis_login *login);
