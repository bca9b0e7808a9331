/* SPDX-License-Identifier: MIT */
/*
 * given.h - listening sockets that the process was started with (socket activation, sd_listen_fds(3)).
 *
 * They win over LISTEN and OPS_LISTEN. Their names say what for: "http" (any number of them) and "ops" (one). If none
 * has such a name, the first is for http and the second for ops. What keeps them keeps the connections that wait
 * there: they are neither refused when this process ends nor lost until the next one starts.
 *
 * Each must be a listening stream socket, of TCP or Unix; it is made non-blocking, for everything that shares it.
 *
 * Threads: one at a time, at start.
 */
#ifndef APP_GIVEN_H
#define APP_GIVEN_H

#include <stdbool.h>
#include <stddef.h>

enum { GIVEN_MAX = 16 };

enum given_use { GIVEN_HTTP, GIVEN_OPS, GIVEN_USES };

/* All zeros: none. The descriptors stay open as long as the process. */
struct given {
    struct given_socket {
        int fd;
        enum given_use use;
    } sockets[GIVEN_MAX];
    size_t count;
};

/* Once, before there are threads: it clears the environment of them. False: the reason was logged. */
bool given_read(struct given *out);

/* Returns how many there are for this use; their descriptors go into fds. `given` may be NULL: none. */
size_t given_for(const struct given *given, enum given_use use, int fds[static GIVEN_MAX]);

/* Only this machine reaches it: a Unix socket, or one of a loopback address. */
bool given_is_local(int fd);

#endif
