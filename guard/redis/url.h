/* SPDX-License-Identifier: MIT */
/*
 * redis/url.h - what a Redis URL says: which servers, how they are found, how to log in, and what to do over TLS.
 *
 *     redis://[user[:password]@]host[:6379][/db]               unix://[user[:password]@]/path[?db=n]
 *     redis+sentinel://[user[:password]@]host[:26379],host.../name[/db]
 *     redis+cluster://[user[:password]@]host[:6379],host...
 *
 * rediss in place of redis: TLS. Up to REDIS_HOSTS_MAX hosts. User and password are those of the servers with the
 * data; Sentinels have a login of their own. Behind ? stand parameters, joined by &, their values percent-encoded;
 * url.c has the table. The forms and names are redis-py's where it has one; one that a scheme does not have is
 * refused, for a misspelt ssl_cert_reqs must not be silent.
 *
 * Secrets    No text given out repeats a value of the URL: with one character out of place a password stands where a
 *            host or a port belongs. The struct is free of them only after redis_url_clear().
 * Threads    Pure, any thread.
 */
#pragma once

#include "../guard.h"
#include "tls_context.h"

enum {
    REDIS_HOSTS_MAX = 9,
    REDIS_LABEL_SIZE = 272,
    REDIS_USER_SIZE = 129,
    REDIS_PASSWORD_SIZE = 4097, /* tokens of clouds have two thousand bytes and more */
    REDIS_MASTER_NAME_SIZE = 129,
    REDIS_PATH_SIZE = 512,
};

/* One server's place. */
struct redis_endpoint {
    bool is_unix;
    uint16_t port;
    char host[256]; /* host name, address, or the socket's path */
};

struct redis_login {
    char user[REDIS_USER_SIZE];          /* "": none */
    char password[REDIS_PASSWORD_SIZE];  /* "": none */
    char password_file[REDIS_PATH_SIZE]; /* read at each login in place of the password; "": none */
};

enum redis_topology_kind {
    REDIS_ONE,      /* the host is the master, or leads to it */
    REDIS_SENTINEL, /* the hosts are Sentinels, which know the master */
    REDIS_CLUSTER,  /* the hosts are some nodes of a Cluster */
};

struct redis_url {
    enum redis_topology_kind kind;
    struct redis_endpoint hosts[REDIS_HOSTS_MAX];
    size_t host_count; /* at least one; of REDIS_ONE exactly one */
    unsigned database; /* of a Cluster 0 */
    struct redis_login login;
    struct redis_login sentinel_login;
    char master_name[REDIS_MASTER_NAME_SIZE]; /* of REDIS_SENTINEL */
    struct redis_tls_settings tls;
    bool fence_by_role;       /* hits are read behind ROLE, not with a write: redis/fence.h */
    bool strict;              /* of REDIS_SENTINEL: no hits while no majority of the Sentinels answers */
    uint32_t wait_replicas;   /* that must have an invalidation before it is confirmed; 0: none */
    uint32_t wait_ms;         /* for them */
    uint32_t parameters_seen; /* url.c's */
};

/* False, with *out untouched and a text that names what is wrong. `error` may be NULL. */
bool redis_url_read(const char *url, struct redis_url *out, struct guard_error *error);
/* Overwrites it, in a way no optimiser takes out. */
void redis_url_clear(struct redis_url *url);

/* "host:port", "[::1]:port" or the path, as logs name it. */
void redis_endpoint_label(const struct redis_endpoint *endpoint, char out[REDIS_LABEL_SIZE]);
bool redis_endpoint_equal(const struct redis_endpoint *a, const struct redis_endpoint *b);
/* What logs call the servers of the URL: its first host, and how many more. */
void redis_url_label(const struct redis_url *url, char out[REDIS_LABEL_SIZE]);
