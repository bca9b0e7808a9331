/* SPDX-License-Identifier: MIT */
/*
 * listener.h - the sockets that a listen setting stands for.
 *
 * host:port opens one SO_REUSEPORT socket per loop, so that the kernel spreads connections. Such sockets would also
 * let a second copy of the program bind and silently take half of the traffic: so the first socket is bound without
 * SO_REUSEPORT, which fails if the port is in use, and joins the others afterwards. A port of 0 is resolved by the
 * first and taken by the rest.
 *
 * Sockets that the process was given win over the setting. One of them is shared by all loops, several are
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
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* ---- sockets that were given ---- */

/*
 * Listening sockets that the process was started with (socket activation, sd_listen_fds(3)).
 *
 * They win over LISTEN and OPS_LISTEN. Their names say what for: "http" (any number of them) and "ops" (one). If none
 * has such a name, the first is for http and the second for ops. What keeps them keeps the connections that wait
 * there: they are neither refused when this process ends nor lost until the next one starts.
 *
 * Each must be a listening stream socket, of TCP or Unix; it is made non-blocking, for everything that shares it.
 */

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

/* ---- listening ---- */

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
