/* SPDX-License-Identifier: MIT */
/* net.c - see net.h. */
#include "load/base/net.h"

#include "load/base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <unistd.h>

enum { PORT_FIRST = 12000, PORT_COUNT = 20000, PORT_TRIES = 1000 };

static bool unix_address(struct net_address *address, const char *path)
{
    struct sockaddr_un *to = (struct sockaddr_un *)&address->storage;
    if (strlen(path) >= sizeof to->sun_path)
        return false;
    to->sun_family = AF_UNIX;
    memcpy(to->sun_path, path, strlen(path) + 1);
    address->bytes = sizeof *to;
    return true;
}

bool net_address_init(struct net_address *address, const char *host, uint16_t port)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)&address->storage;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&address->storage;
    memset(address, 0, sizeof *address);
    if (strncmp(host, "unix:", 5) == 0)
        return unix_address(address, host + 5);
    if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(port);
        address->bytes = sizeof *v4;
        return true;
    }
    if (inet_pton(AF_INET6, host, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(port);
        address->bytes = sizeof *v6;
        return true;
    }
    return false;
}

/* `from`: an IPv4 address in network order, or INADDR_ANY. The port is chosen by connect(), not bind(), so
 * that one port can serve connections to several targets. */
static bool bind_source(int fd, uint32_t from)
{
    int one = 1;
    struct sockaddr_in source = {.sin_family = AF_INET, .sin_addr.s_addr = from};
    return from == INADDR_ANY ||
           (setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one) == 0 &&
            bind(fd, (const struct sockaddr *)&source, sizeof source) == 0);
}

int net_connect_start(const struct net_address *address)
{
    return net_connect_start_from(address, INADDR_ANY);
}

int net_connect_start_from(const struct net_address *address, uint32_t from)
{
    int one = 1;
    int fd = socket(address->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd == -1)
        return -1;
    if (address->storage.ss_family != AF_UNIX)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (!bind_source(fd, from)) {
        close(fd);
        return -1;
    }
    if (connect(fd, (const struct sockaddr *)&address->storage, address->bytes) == 0 || errno == EINPROGRESS)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

int net_connect_error(int fd)
{
    int error = 0;
    socklen_t bytes = sizeof error;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) == -1)
        return errno;
    return error;
}

bool net_wait(int fd, short events, uint64_t end_us)
{
    struct pollfd wanted = {.fd = fd, .events = events};
    for (;;) {
        uint64_t now_us = clock_us();
        int left_ms = now_us < end_us ? (int)((end_us - now_us + 999) / 1000) : 0;
        int ready = poll(&wanted, 1, left_ms);
        if (ready > 0)
            return true;
        if (ready == 0 || errno != EINTR)
            return false;
    }
}

int net_connect_by(const char *host, uint16_t port, uint64_t end_us)
{
    struct net_address address;
    int fd = net_address_init(&address, host, port) ? net_connect_start(&address) : -1;
    if (fd != -1 && (!net_wait(fd, POLLOUT, end_us) || net_connect_error(fd) != 0))
        net_shut(&fd);
    return fd;
}

static bool port_is_free(uint16_t port)
{
    struct net_address address;
    if (!net_address_init(&address, "127.0.0.1", port))
        return false;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is_free = fd != -1 && bind(fd, (const struct sockaddr *)&address.storage, address.bytes) == 0;
    net_shut(&fd);
    return is_free;
}

uint16_t net_free_port(void)
{
    for (int i = 0; i < PORT_TRIES; i++) {
        uint16_t chance = 0;
        if (getrandom(&chance, sizeof chance, 0) != (ssize_t)sizeof chance)
            continue;
        uint16_t port = (uint16_t)(PORT_FIRST + chance % PORT_COUNT);
        if (port_is_free(port))
            return port;
    }
    return 0;
}

void net_shut(int *fd)
{
    if (*fd != -1)
        close(*fd);
    *fd = -1;
}

bool net_raise_file_limit(size_t needed)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == -1)
        return false;
    if (limit.rlim_max < needed) { /* root may raise the hard limit, too */
        struct rlimit higher = {.rlim_cur = needed, .rlim_max = needed};
        if (setrlimit(RLIMIT_NOFILE, &higher) == 0)
            return true;
    }
    if (limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &limit) == -1)
            return false;
    }
    return limit.rlim_cur >= needed;
}
