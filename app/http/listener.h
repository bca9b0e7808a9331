/* SPDX-License-Identifier: MIT */
/*
 * listener.h - the sockets that a listen setting stands for.
 *
 * host:port opens one SO_REUSEPORT socket per loop, so that the kernel spreads connections. Such sockets would also
 * let a second copy of the program bind and silently take half of the traffic: so the first socket is bound without
 * SO_REUSEPORT, which fails if the port is in use, and joins the others afterwards. A port of 0 is resolved by the
 * first and taken by the rest.
 *
 * Sockets that the process was given (given.h) win over the setting. One of them is shared by all loops, several are
 * dealt to them. Sharing costs: every loop that blocks wakes up for each connection and the first one takes it, so
 * connections are spread less evenly than the kernel spreads them over sockets of their own (ReusePort=yes and a
 * ListenStream= for each loop make such). What waits in a given socket is left there at the end: another process
 * accepts it.
 *
 * unix:PATH opens one socket and shares it. A path that is being listened on is refused, one left behind by a dead
 * process is replaced, anything that is not a socket is never touched.
 *
 * Threads: one at a time, at start; binding a path changes the umask for a moment.
 */
#ifndef APP_LISTENER_H
#define APP_LISTENER_H

#include "app/http/given.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { LISTENER_NAME_SIZE = 128, LISTENER_BACKLOG = 4096 };

struct listener {
    int *fds; /* owned; -1 once taken by listener_take() */
    size_t fd_count;
    char name
        [LISTENER_NAME_SIZE]; /* the setting with its port resolved; of given sockets, where they listen */
    bool is_unix;             /* nothing but paths */
    bool is_given;            /* others may accept from it, before, beside and after us */
};

struct listener_options {
    const char *setting;       /* lent */
    const struct given *given; /* lent; NULL: none */
    enum given_use use;
    size_t fd_count;  /* at least so many; as many as were given, if those are more */
    mode_t path_mode; /* of a unix socket of ours */
};

/* False: the reason was logged and nothing is open. */
bool listener_open(const struct listener_options *options, struct listener *out);
/* The fd becomes the caller's. */
int listener_take(struct listener *listener, size_t index);
/* Closes what was not taken. A unix path stays until listener_unlink(). */
void listener_clear(struct listener *listener);
/* New connections to a unix path of ours fail from now on. */
void listener_unlink(const struct listener *listener);

/*
 * From now on the kernel drops attempts to connect to this socket of ours. So what it has accepted until now is all
 * there will be: take that, and close the socket without resetting anything. An attempt is repeated by the client's
 * kernel, and refused then.
 */
void listener_hold_off(int fd);

#endif
