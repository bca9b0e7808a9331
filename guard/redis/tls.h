/* SPDX-License-Identifier: MIT */
/*
 * redis/tls.h - TLS for the sockets of redis/socket.h, by OpenSSL, which only tls.c knows.
 */
#ifndef GUARD_REDIS_TLS_H
#define GUARD_REDIS_TLS_H

#include <stdbool.h>

enum { REDIS_TLS_PATH_SIZE = 512, REDIS_TLS_NAME_SIZE = 256 };

enum redis_tls_verify {
    REDIS_TLS_REQUIRED, /* the certificate's chain and its name */
    REDIS_TLS_CA,       /* the chain only */
    REDIS_TLS_NONE,     /* nothing: said at every start */
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

#endif
