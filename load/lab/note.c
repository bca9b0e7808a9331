/* SPDX-License-Identifier: MIT */
/* note.c - see note.h. */
#include "load/lab/note.h"

#include "load/base/clock.h"

#include <errno.h>
#include <sys/socket.h>

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
