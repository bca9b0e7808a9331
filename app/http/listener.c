/* SPDX-License-Identifier: MIT */
/*
 * listener.c - binding, exclusively first.
 */
#include "app/http/listener.h"

#include "app/base/address.h"
#include "app/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static const char UNIX_PREFIX[] = "unix:";

static bool refuse(const char *setting, const char *why)
{
    log_event(LOG_LEVEL_ERROR, "listen", "address=\"%s\" reason=\"%s\"", setting, why);
    return false;
}

static bool set_option(int fd, int level, int name)
{
    const int on = 1;

    return setsockopt(fd, level, name, &on, sizeof(on)) == 0;
}

/* ---- host:port ---- */

/* `exclusive`: fails if the port is in use; others with SO_REUSEPORT may join once it listens. */
static int open_tcp(const struct sockaddr *address, socklen_t address_bytes, bool exclusive)
{
    const int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    if (set_option(fd, SOL_SOCKET, SO_REUSEADDR) && (exclusive || set_option(fd, SOL_SOCKET, SO_REUSEPORT)) &&
        (address->sa_family != AF_INET6 || set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY)) &&
        bind(fd, address, address_bytes) == 0 && listen(fd, LISTENER_BACKLOG) == 0 &&
        (!exclusive || set_option(fd, SOL_SOCKET, SO_REUSEPORT)))
        return fd;

    const int error = errno;
    close(fd);
    errno = error;
    return -1;
}

/* Opens every socket of `out`; errno says why not. */
static bool open_all_tcp(const struct addrinfo *info, struct listener *out)
{
    struct sockaddr_storage address;
    socklen_t address_bytes = sizeof(address);

    out->fds[0] = open_tcp(info->ai_addr, info->ai_addrlen, true);
    if (out->fds[0] < 0 || getsockname(out->fds[0], (struct sockaddr *)&address, &address_bytes) != 0)
        return false;
    for (size_t i = 1; i < out->fd_count; i++) {
        out->fds[i] = open_tcp((struct sockaddr *)&address, address_bytes, false);
        if (out->fds[i] < 0)
            return false;
    }
    return true;
}

static void name_tcp(const struct address *wanted, struct listener *out)
{
    struct sockaddr_storage address = {0};
    socklen_t address_bytes = sizeof(address);
    const bool is_v6 = strchr(wanted->host, ':') != NULL;

    getsockname(out->fds[0], (struct sockaddr *)&address, &address_bytes);
    const in_port_t port = address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                                                         : ((struct sockaddr_in *)&address)->sin_port;
    snprintf(out->name, sizeof(out->name), is_v6 ? "[%s]:%u" : "%s:%u", wanted->host, (unsigned)ntohs(port));
}

static bool open_host(const char *setting, const struct address *wanted, struct listener *out)
{
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *info = NULL;
    char port[8];

    snprintf(port, sizeof(port), "%u", (unsigned)wanted->port);
    const int error = getaddrinfo(wanted->host[0] != '\0' ? wanted->host : NULL, port, &hints, &info);
    if (error != 0)
        return refuse(setting, gai_strerror(error));

    const bool opened = open_all_tcp(info, out);
    const int reason = errno;
    freeaddrinfo(info);
    if (!opened)
        return refuse(setting, reason == EADDRINUSE ? "something already listens there" : strerror(reason));
    name_tcp(wanted, out);
    return true;
}

/* ---- unix:PATH ---- */

/* Removes a dead socket. False: it is in use, or not a socket; *why says which. */
static bool clear_path(const struct sockaddr_un *address, const char **why)
{
    struct stat status;

    if (lstat(address->sun_path, &status) != 0)
        return true; /* nothing there, or bind() will say what is wrong */
    *why = "the path exists and is not a socket";
    if (!S_ISSOCK(status.st_mode))
        return false;

    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const bool dead = fd >= 0 && connect(fd, (const struct sockaddr *)address, sizeof(*address)) != 0 &&
                      errno == ECONNREFUSED;
    if (fd >= 0)
        close(fd);
    *why = "something already listens there";
    return dead && unlink(address->sun_path) == 0;
}

static int bind_path(const struct sockaddr_un *address, mode_t socket_mode)
{
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    const mode_t mask = umask(~socket_mode & 0777);
    const bool bound = bind(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 &&
                       listen(fd, LISTENER_BACKLOG) == 0;
    const int error = errno;
    umask(mask);
    if (bound)
        return fd;
    close(fd);
    errno = error;
    return -1;
}

static bool open_path(const char *setting, const char *path, mode_t socket_mode, struct listener *out)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *why = NULL;

    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    if (!clear_path(&address, &why))
        return refuse(setting, why);
    out->fds[0] = bind_path(&address, socket_mode);
    for (size_t i = 1; i < out->fd_count && out->fds[i - 1] >= 0; i++)
        out->fds[i] = fcntl(out->fds[0], F_DUPFD_CLOEXEC, 0);
    if (out->fds[out->fd_count - 1] < 0)
        return refuse(setting, strerror(errno));
    snprintf(out->name, sizeof(out->name), "%s%s", UNIX_PREFIX, path);
    out->is_unix = true;
    return true;
}

/* ---- both ---- */

bool listener_open(const char *setting, size_t fd_count, mode_t socket_mode, struct listener *out)
{
    struct address wanted;

    *out = (struct listener){.fd_count = fd_count};
    if (!address_parse(setting, &wanted))
        return refuse(setting, "expected host:port, [v6]:port or unix:PATH");
    out->fds = malloc(fd_count * sizeof(*out->fds));
    if (out->fds == NULL)
        return refuse(setting, "no memory");
    memset(out->fds, 0xff, fd_count * sizeof(*out->fds));

    if (wanted.is_unix ? open_path(setting, wanted.host, socket_mode, out) : open_host(setting, &wanted, out))
        return true;
    listener_clear(out);
    return false;
}

int listener_take(struct listener *listener, size_t index)
{
    const int fd = listener->fds[index];

    listener->fds[index] = -1;
    return fd;
}

void listener_clear(struct listener *listener)
{
    for (size_t i = 0; listener->fds != NULL && i < listener->fd_count; i++) {
        if (listener->fds[i] >= 0)
            close(listener->fds[i]);
    }
    free(listener->fds);
    listener->fds = NULL;
    listener->fd_count = 0;
}

void listener_unlink(const struct listener *listener)
{
    if (listener->is_unix)
        unlink(listener->name + sizeof(UNIX_PREFIX) - 1);
}
