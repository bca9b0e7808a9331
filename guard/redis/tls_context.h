/* SPDX-License-Identifier: MIT */
/*
 * redis/tls_context.h - TLS as all threads of a process share it: its settings, and what was read from their files.
 *
 *   redis_tls_open -> the files are read -> redis_tls_draw() for each socket
 *                            ^                      |
 *                            +--- they changed <----+   at most once a second; if what is there now is of no use,
 *                                                       what was read before stays, and the remark says so
 *
 * TLS 1.2 and 1.3, no renegotiation, no compression, no early data (what is sent early may be sent again
 * by others), no sessions resumed: connections live long.
 *
 * Threads   All functions on any thread.
 * Errors    One line, without a path: that is a part of the URL. Built without OpenSSL, redis_tls_open() refuses and
 *           everything else works.
 */
#pragma once

#include "../guard.h"
#include "types.h"
#include <stdbool.h>

enum { REDIS_TLS_PATH_SIZE = 512, REDIS_TLS_NAME_SIZE = 256 };

enum redis_tls_verify {
    REDIS_TLS_REQUIRED, /* the certificate's chain and its name */
    REDIS_TLS_CA,       /* the chain only */
    REDIS_TLS_NONE,     /* nothing: said with every connection */
};

/* As the URL has them. */
struct redis_tls_settings {
    bool on;
    enum redis_tls_verify verify;
    char ca[REDIS_TLS_PATH_SIZE];   /* PEM, a file or a folder; "": the system's */
    char cert[REDIS_TLS_PATH_SIZE]; /* PEM, with its chain; "": none */
    char key[REDIS_TLS_PATH_SIZE];  /* PEM, not encrypted; "" if and only if there is no cert */
    char server_name
        [REDIS_TLS_NAME_SIZE]; /* verified, and sent unless it is an address; "": the host asked for */
};

struct redis_tls;

/* Reads the files. NULL: they are of no use, and *error (may be NULL) says why; INVALID or NO_MEMORY. Blocks for as
 * long as the files do. */
struct redis_tls *redis_tls_open(const struct redis_tls_settings *settings, struct guard_error *error);
/* After all of its sessions. Leaves NULL. */
void redis_tls_close(struct redis_tls **tls);

/* ---- for redis/tls.c ---- */

struct bio_st;
struct ssl_st;

/* One session, also for the callbacks that OpenSSL makes about it. */
struct redis_tls_session {
    struct redis_tls *tls;
    char name[REDIS_TLS_NAME_SIZE]; /* that is verified */
    bool certificate_asked;         /* and we have none */
    char why[REDIS_WHY_SIZE];       /* it failed: one line that begins with "TLS: "; "": it has not */
    char remark[REDIS_WHY_SIZE];    /* what an operator should know although it works; "": nothing */
    struct ssl_st *ssl;             /* owned, and with it: */
    struct bio_st *in, *out;        /* what came over the socket; what is to go */
    bool heard, foreign;            /* something has come; what came first was not TLS */
};

/* Looks at the files, and gives it `ssl` by what they have come to. False: no memory. */
bool redis_tls_draw(struct redis_tls_session *session);
const struct redis_tls_settings *redis_tls_settings_of(const struct redis_tls *tls);

/* Every call into OpenSSL that may fail stands between begin and end: the queue of errors is the thread's, so that
 * what the host has left there is kept apart and kept. The two may be nested. */
void redis_tls_errors_begin(void);
/* The last error since that says what is wrong, be it one of the socket's no more; 0: none. */
unsigned long redis_tls_errors_end(void);
/* Why a session has failed. certificate_asked: the server has asked for one and there is none. */
void redis_tls_explain_failure(unsigned long error, bool certificate_asked, char why[REDIS_WHY_SIZE]);
