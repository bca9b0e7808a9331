/* SPDX-License-Identifier: MIT */
/* note.c - see note.h. */
#include "load/lab/note.h"

#include "load/base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 64 };

static int open_socket(const char *path, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address->sun_path) {
        fprintf(stderr, "lab: %s: too long for a socket's path\n", path);
        return -1;
    }
    snprintf(address->sun_path, sizeof address->sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd == -1)
        fprintf(stderr, "lab: socket: %s\n", strerror(errno));
    return fd;
}

static int checked(int fd, int result, const char *path)
{
    if (fd != -1 && result == -1) {
        fprintf(stderr, "lab: %s: %s\n", path, strerror(errno));
        close(fd);
        return -1;
    }
    return fd;
}

int note_listen(const char *path)
{
    struct sockaddr_un address;
    int fd = open_socket(path, &address);
    unlink(path);
    int result = fd == -1 ? -1 : bind(fd, (struct sockaddr *)&address, sizeof address);
    return checked(fd, result == -1 ? -1 : listen(fd, BACKLOG), path);
}

int note_connect(const char *path)
{
    struct sockaddr_un address;
    int fd = open_socket(path, &address);
    return checked(fd, fd == -1 ? -1 : connect(fd, (struct sockaddr *)&address, sizeof address), path);
}

static bool send_whole(int fd, const void *bytes, size_t count)
{
    return send(fd, bytes, count, MSG_NOSIGNAL) == (ssize_t)count;
}

static bool receive_whole(int fd, void *bytes, size_t count)
{
    ssize_t got;
    do
        got = recv(fd, bytes, count, 0);
    while (got == -1 && errno == EINTR);
    return got == (ssize_t)count;
}

bool note_send(int fd, enum note_kind kind, int32_t value)
{
    const struct note note = {.kind = kind, .value = value, .at_us = clock_us()};
    return send_whole(fd, &note, sizeof note);
}

bool note_receive(int fd, struct note *out)
{
    return receive_whole(fd, out, sizeof *out);
}

bool order_send(int fd, const struct order *order)
{
    return send_whole(fd, order, sizeof *order);
}

bool order_receive(int fd, struct order *out)
{
    return receive_whole(fd, out, sizeof *out);
}
