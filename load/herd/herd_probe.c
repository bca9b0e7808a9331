/* SPDX-License-Identifier: MIT */
/*
 * herd_probe.c - one question to each target before the run; see herd_limits.h.
 *
 * All targets are asked at the same time. One that says nothing is not refused: it may be the very thing to test.
 */
#include "load/base/net.h"
#include "load/herd/herd_limits.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { CONNECT_LIMIT_MS = 5000, SILENCE_LIMIT_MS = 500, SHOWN_BYTES = 24 };

struct probe_call {
    const struct work_target *target;
    int fd; /* owned; -1: none */
    int error;
};

static bool refuse(const struct work_target *target, const char *what, const char *more, char *why)
{
    char host[INET6_ADDRSTRLEN + 16] = "?";
    getnameinfo((const struct sockaddr *)&target->address.storage, target->address.bytes, host, sizeof host,
                NULL, 0, NI_NUMERICHOST);
    snprintf(why, WORK_WHY_BYTES, "target %.80s (%.50s): %s%s", target->name, host, what, more);
    return false;
}

static void call_start(struct probe_call *call)
{
    call->fd = net_connect_start(&call->target->address);
    call->error = call->fd == -1 ? errno : 0;
}

static bool call_connect(struct probe_call *call, uint64_t end_us, char *why)
{
    if (call->error == 0)
        call->error = net_wait(call->fd, POLLOUT, end_us) ? net_connect_error(call->fd) : ETIMEDOUT;
    if (call->error == 0)
        return true;
    return refuse(call->target, "no connection: ", strerror(call->error), why);
}

static void call_ask(const struct probe_call *call)
{
    char text[256];
    int count = snprintf(text, sizeof text, "OPTIONS * HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n",
                         call->target->name);
    ssize_t sent = send(call->fd, text, (size_t)count, MSG_NOSIGNAL);
    (void)sent; /* what is wrong shows when the answer is read */
}

static bool refuse_bytes(const struct work_target *target, const char *bytes, size_t count, char *why)
{
    char shown[SHOWN_BYTES * 4 + 48] = "";
    size_t used = 0;
    for (size_t i = 0; i < count && i < SHOWN_BYTES; i++)
        used += (size_t)snprintf(shown + used, 5, isprint((unsigned char)bytes[i]) ? "%c" : "\\x%02x",
                                 (unsigned)(unsigned char)bytes[i]);
    if (bytes[0] == 0x15 && count > 1 && bytes[1] == 0x03)
        snprintf(shown + used, sizeof shown - used, " (it speaks TLS; name its plain HTTP port)");
    return refuse(target, "answers, but not in HTTP: ", shown, why);
}

static bool call_hear(const struct probe_call *call, uint64_t end_us, char *why)
{
    char bytes[64];
    static const char begin[] = "HTTP/";
    if (!net_wait(call->fd, POLLIN, end_us))
        return true;
    ssize_t count = recv(call->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (count <= 0)
        return refuse(call->target, "accepts connections and closes them without an answer", "", why);
    size_t compared = (size_t)count < sizeof begin - 1 ? (size_t)count : sizeof begin - 1;
    return memcmp(bytes, begin, compared) == 0 || refuse_bytes(call->target, bytes, (size_t)count, why);
}

static bool probe_all(struct probe_call *calls, const struct work *work, char *why)
{
    uint32_t limit_ms = work->connect_limit_ms < CONNECT_LIMIT_MS ? work->connect_limit_ms : CONNECT_LIMIT_MS;
    uint64_t connect_end_us = net_now_us() + (uint64_t)limit_ms * 1000;
    for (size_t i = 0; i < work->target_count; i++)
        call_start(&calls[i]);
    for (size_t i = 0; i < work->target_count; i++) {
        if (!call_connect(&calls[i], connect_end_us, why))
            return false;
        call_ask(&calls[i]);
    }
    uint64_t hear_end_us = net_now_us() + (uint64_t)SILENCE_LIMIT_MS * 1000;
    for (size_t i = 0; i < work->target_count; i++) {
        if (!call_hear(&calls[i], hear_end_us, why))
            return false;
    }
    return true;
}

bool herd_probe(const struct work *work, char why[static WORK_WHY_BYTES])
{
    struct probe_call calls[WORK_TARGETS_MAX];
    for (size_t i = 0; i < work->target_count; i++)
        calls[i] = (struct probe_call){.target = &work->targets[i], .fd = -1};
    bool good = probe_all(calls, work, why);
    for (size_t i = 0; i < work->target_count; i++) {
        if (calls[i].fd != -1)
            close(calls[i].fd);
    }
    return good;
}
