/* SPDX-License-Identifier: MIT */
/* redis/probe.c - does a port speak Redis without TLS? See redis/probe.h. */
#include "probe.h"
#include "../base/descriptor.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct redis_probe {
    struct guard_host *host;
    struct guard_watch watch; /* its descriptor is owned; -1: it is over */
    bool asked;
    void (*found)(void *context);
    void *context;
};

static void probe_over(struct redis_probe *probe)
{
    host_watch(probe->host, &probe->watch, 0);
    if (probe->watch.fd >= 0)
        close(probe->watch.fd);
    probe->watch.fd = -1;
}

/* An error is an answer, too: it wants a login, or is still loading. */
static bool is_redis(const char *answer, ssize_t bytes)
{
    return (bytes >= 5 && memcmp(answer, "+PONG", 5) == 0) ||
           (bytes >= 2 && answer[0] == '-' && answer[1] >= 'A' && answer[1] <= 'Z');
}

static void probe_hears(struct redis_probe *probe)
{
    char answer[16];
    ssize_t got = recv(probe->watch.fd, answer, sizeof answer, 0);

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    probe_over(probe);
    if (is_redis(answer, got))
        probe->found(probe->context);
}

static void on_probe_event(void *context, unsigned events)
{
    static const char ping[] = "PING\r\n";
    struct redis_probe *probe = context;

    if (probe->asked || (events & GUARD_HOST_WRITABLE) == 0) {
        probe_hears(probe);
        return;
    }
    probe->asked = true;
    if (send(probe->watch.fd, ping, sizeof ping - 1, MSG_NOSIGNAL) == (ssize_t)sizeof ping - 1)
        host_watch(probe->host, &probe->watch, GUARD_HOST_READABLE);
    else
        probe_over(probe);
}

struct redis_probe *redis_probe_start(struct guard_host *host, const struct sockaddr_storage *address,
                                      socklen_t address_bytes, void (*found)(void *context), void *context)
{
    struct redis_probe *probe = calloc(1, sizeof *probe);

    if (probe == NULL)
        return NULL;
    *probe = (struct redis_probe){.host = host, .found = found, .context = context};
    probe->watch = (struct guard_watch){.ready = on_probe_event, .context = probe};
    probe->watch.fd =
        descriptor_not_standard(socket(address->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (probe->watch.fd < 0 ||
        (connect(probe->watch.fd, (const struct sockaddr *)address, address_bytes) != 0 &&
         errno != EINPROGRESS) ||
        host_watch(host, &probe->watch, GUARD_HOST_WRITABLE) != 0)
        redis_probe_stop(&probe);
    return probe;
}

void redis_probe_stop(struct redis_probe **probe)
{
    struct redis_probe *old = *probe;

    *probe = NULL;
    if (old == NULL)
        return;
    probe_over(old);
    free(old);
}
