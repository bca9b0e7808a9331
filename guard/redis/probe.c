/* SPDX-License-Identifier: MIT */
/* redis/probe.c - see redis/probe.h. */
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
    enum redis_probed probed;
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

static bool is_postgres(const char *answer, ssize_t bytes)
{
    return bytes == 1 && (answer[0] == 'S' || answer[0] == 'N');
}

/* An alert, or its own hello. */
static bool is_tls(const char *answer, ssize_t bytes)
{
    return bytes >= 2 && (answer[0] == 0x15 || answer[0] == 0x16) && answer[1] == 0x03;
}

static bool is_http(const char *answer, ssize_t bytes)
{
    return bytes >= 5 && memcmp(answer, "HTTP/", 5) == 0;
}

/* SSLRequest; and a ClientHello of TLS 1.2 with one cipher, 32 zeros for the random bytes and nothing more. */
#define ZEROS_8 "\0\0\0\0\0\0\0\0"
static const char ssl_request[] = "\0\0\0\x08\x04\xd2\x16\x2f";
static const char client_hello[] =
    "\x16\x03\x01\0\x2d\x01\0\0\x29\x03\x03" ZEROS_8 ZEROS_8 ZEROS_8 ZEROS_8 "\0\0\x02\0\x2f\x01\0";
static const struct probing {
    const char *ask;
    size_t ask_bytes;
    bool (*is)(const char *answer, ssize_t bytes);
} probings[] = {
    [REDIS_PROBED_PLAIN] = {"PING\r\n", 6, is_redis},
    [REDIS_PROBED_POSTGRES] = {ssl_request, sizeof ssl_request - 1, is_postgres},
    [REDIS_PROBED_TLS] = {client_hello, sizeof client_hello - 1, is_tls},
    [REDIS_PROBED_HTTP] = {"HEAD / HTTP/1.0\r\n\r\n", 19, is_http},
};

static void probe_hears(struct redis_probe *probe)
{
    char answer[16];
    ssize_t got = recv(probe->watch.fd, answer, sizeof answer, 0);

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    probe_over(probe);
    if (probings[probe->probed].is(answer, got))
        probe->found(probe->context);
}

static void on_probe_event(void *context, unsigned events)
{
    struct redis_probe *probe = context;
    const struct probing *probing = &probings[probe->probed];

    if (probe->asked || (events & GUARD_HOST_WRITABLE) == 0) {
        probe_hears(probe);
        return;
    }
    probe->asked = true;
    if (send(probe->watch.fd, probing->ask, probing->ask_bytes, MSG_NOSIGNAL) == (ssize_t)probing->ask_bytes)
        host_watch(probe->host, &probe->watch, GUARD_HOST_READABLE);
    else
        probe_over(probe);
}

struct redis_probe *redis_probe_start(struct guard_host *host, const struct sockaddr_storage *address,
                                      socklen_t address_bytes, enum redis_probed probed,
                                      void (*found)(void *context), void *context)
{
    struct redis_probe *probe = calloc(1, sizeof *probe);

    if (probe == NULL)
        return NULL;
    *probe = (struct redis_probe){.host = host, .probed = probed, .found = found, .context = context};
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
