/* SPDX-License-Identifier: MIT */
/*
 * listener.h - the sockets that a listen setting stands for.
 *
 * host:port opens one SO_REUSEPORT socket per loop, so that the kernel spreads connections. Such sockets would also let
 * a second copy of the program bind and silently take half of the traffic: so the first socket is bound without
 * SO_REUSEPORT, which fails if the port is in use, and joins the others afterwards. A port of 0 is resolved by the
 * first and taken by the rest.
 *
 * unix:PATH opens one socket and shares it. A path that is being listened on is refused, one left behind by a dead
 * process is replaced, anything that is not a socket is never touched.
 *
 * Threads: one at a time, at start; binding a path changes the umask for a moment.
 */
#ifndef APP_LISTENER_H
#define APP_LISTENER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { LISTENER_NAME_SIZE = 128, LISTENER_BACKLOG = 4096 };

struct listener {
    int *fds; /* owned; -1 once taken by listener_take() */
    size_t fd_count;
    char name[LISTENER_NAME_SIZE]; /* the setting with its port resolved */
    bool is_unix;
};

/* `socket_mode`: permissions of a unix socket. False: the reason was logged and nothing is open. */
bool listener_open(const char *setting, size_t fd_count, mode_t socket_mode, struct listener *out);
/* The fd becomes the caller's. */
int listener_take(struct listener *listener, size_t index);
/* Closes what was not taken. A unix path stays until listener_unlink(). */
void listener_clear(struct listener *listener);
/* New connections to a unix path fail from now on. */
void listener_unlink(const struct listener *listener);

#endif
