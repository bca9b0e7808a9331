/* SPDX-License-Identifier: MIT */
/*
 * listener.c - binding, exclusively first; or taking what is given.
 */
#include "app/http/listener.h"

#include "app/base/address.h"
#include "app/base/log.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

/* ---- sockets that were given ---- */

static const char *const NAMES[GIVEN_USES] = {[GIVEN_HTTP] = "http", [GIVEN_OPS] = "ops"};

static bool refuse_given(int fd, const char *name, const char *why)
{
    log_event(LOG_LEVEL_ERROR, "given_socket", "descriptor=%d name=\"%s\" reason=\"%s\"", fd, name, why);
    return false;
}

/* GIVEN_USES: neither name. */
static enum given_use use_named(const char *name)
{
    enum given_use use = GIVEN_HTTP;

    while (use < GIVEN_USES && strcmp(name, NAMES[use]) != 0)
        use++;
    return use;
}

static bool any_is_named(char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (use_named(names[i]) != GIVEN_USES)
            return true;
    }
    return false;
}

static bool is_of_ours(int fd)
{
    return sd_is_socket(fd, AF_INET, SOCK_STREAM, 1) > 0 || sd_is_socket(fd, AF_INET6, SOCK_STREAM, 1) > 0 ||
           sd_is_socket(fd, AF_UNIX, SOCK_STREAM, 1) > 0;
}

static bool take_given(struct given *out, int fd, const char *name, bool by_name)
{
    const enum given_use use = by_name ? use_named(name) : (enum given_use)out->count;
    int taken[GIVEN_MAX];

    if (use >= GIVEN_USES)
        return refuse_given(fd, name, "name it http or ops (FileDescriptorName= in its .socket unit)");
    if (!is_of_ours(fd))
        return refuse_given(fd, name,
                            "expected a listening stream socket of TCP or Unix (ListenStream=, Accept=no)");
    if (use == GIVEN_OPS && given_for(out, GIVEN_OPS, taken) > 0)
        return refuse_given(fd, name, "there can be only one for ops");
    if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0)
        return refuse_given(fd, name, strerror(errno));
    out->sockets[out->count++] = (struct given_socket){fd, use};
    return true;
}

bool given_read(struct given *out)
{
    char **names = NULL;
    const int count = sd_listen_fds_with_names(1, &names);
    bool good = count <= GIVEN_MAX;

    *out = (struct given){.count = 0};
    if (count < 0)
        return refuse_given(SD_LISTEN_FDS_START, "", strerror(-count));
    if (!good)
        refuse_given(SD_LISTEN_FDS_START, "", "at most 16 sockets may be given");
    const bool by_name = good && any_is_named(names, (size_t)count);
    for (int i = 0; good && i < count; i++)
        good = take_given(out, SD_LISTEN_FDS_START + i, names[i], by_name);
    for (int i = 0; i < count; i++)
        free(names[i]);
    free(names);
    return good;
}

size_t given_for(const struct given *given, enum given_use use, int fds[static GIVEN_MAX])
{
    size_t count = 0;

    for (size_t i = 0; given != NULL && i < given->count; i++) {
        if (given->sockets[i].use == use)
            fds[count++] = given->sockets[i].fd;
    }
    return count;
}

bool given_is_local(int fd)
{
    struct sockaddr_storage address = {0};
    socklen_t bytes = sizeof(address);

    if (getsockname(fd, (struct sockaddr *)&address, &bytes) != 0)
        return false;
    switch (address.ss_family) {
    case AF_UNIX:
        return true;
    case AF_INET:
        return ntohl(((struct sockaddr_in *)&address)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    case AF_INET6:
        return IN6_IS_ADDR_LOOPBACK(&((struct sockaddr_in6 *)&address)->sin6_addr);
    default:
        return false;
    }
}

/* ---- listening ---- */

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

/* Where a TCP socket listens; HOST in place of its address, unless that is NULL. */
static void name_tcp(int fd, const char *host, char *name, size_t size)
{
    struct sockaddr_storage address = {0};
    socklen_t bytes = sizeof(address);
    char own[NI_MAXHOST] = "?", port[8] = "?"; /* a scope may follow the address */

    getsockname(fd, (struct sockaddr *)&address, &bytes);
    getnameinfo((struct sockaddr *)&address, bytes, own, sizeof(own), port, sizeof(port),
                NI_NUMERICHOST | NI_NUMERICSERV);
    host = host != NULL ? host : own;
    snprintf(name, size, strchr(host, ':') != NULL ? "[%s]:%s" : "%s:%s", host, port);
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
        return refuse(setting, reason == EADDRINUSE
                                   ? "something already listens there: stop it, or name another address"
                                   : strerror(reason));
    name_tcp(out->fds[0], wanted->host, out->name, sizeof(out->name));
    return true;
}

/* ---- unix:PATH ---- */

/* Removes a dead socket. False: it is in use, or not a socket; *why says which. */
static bool clear_path(const struct sockaddr_un *address, const char **why)
{
    struct stat status;

    if (lstat(address->sun_path, &status) != 0)
        return true; /* nothing there, or bind() will say what is wrong */
    *why = "the path exists and is not a socket: remove it, or name another";
    if (!S_ISSOCK(status.st_mode))
        return false;

    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const bool dead = fd >= 0 && connect(fd, (const struct sockaddr *)address, sizeof(*address)) != 0 &&
                      errno == ECONNREFUSED;
    if (fd >= 0)
        close(fd);
    *why = "something already listens there: stop it, or name another address";
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

/* ---- given ---- */

/* Appends where the socket listens; one that does not fit is left out. */
static void name_given(int fd, char name[static LISTENER_NAME_SIZE])
{
    struct sockaddr_un address = {0};
    socklen_t bytes = sizeof(address);
    char one[2 * LISTENER_NAME_SIZE];
    const size_t used = strlen(name);

    getsockname(fd, (struct sockaddr *)&address, &bytes);
    if (address.sun_family == AF_UNIX)
        snprintf(one, sizeof(one), "%s%.*s", UNIX_PREFIX, (int)sizeof(address.sun_path), address.sun_path);
    else
        name_tcp(fd, NULL, one, sizeof(one));
    if (used + strlen(one) + 2 <= LISTENER_NAME_SIZE)
        snprintf(name + used, LISTENER_NAME_SIZE - used, "%s%.*s", used > 0 ? "," : "",
                 (int)(LISTENER_NAME_SIZE - used - 2), one);
}

/* An IPv6 socket that takes IPv4 as well, which its address does not show. */
static bool is_dual(int fd)
{
    int only_v6 = 1;
    socklen_t bytes = sizeof(only_v6);

    return getsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only_v6, &bytes) == 0 && only_v6 == 0;
}

static bool open_given(const struct listener_options *options, const int *given, size_t given_count,
                       struct listener *out)
{
    bool dual = false;

    out->is_unix = true;
    for (size_t i = 0; i < given_count; i++) {
        name_given(given[i], out->name);
        dual = dual || is_dual(given[i]);
        out->is_unix = out->is_unix && sd_is_socket(given[i], AF_UNIX, 0, -1) > 0;
    }
    for (size_t i = 0; i < out->fd_count; i++) {
        out->fds[i] = fcntl(given[i % given_count], F_DUPFD_CLOEXEC, 0);
        if (out->fds[i] < 0)
            return refuse(out->name, strerror(errno));
    }
    out->is_given = true;
    log_event(LOG_LEVEL_INFO, "given_sockets", "address=%s sockets=%zu ipv4_too=%s instead_of=\"%s\"",
              out->name, given_count, dual ? "yes" : "no", options->setting);
    return true;
}

/* ---- all ---- */

static bool open_setting(const struct listener_options *options, struct listener *out)
{
    struct address wanted;

    if (!address_parse(options->setting, &wanted))
        return refuse(options->setting, "expected host:port, [v6]:port or unix:PATH");
    return wanted.is_unix ? open_path(options->setting, wanted.host, options->path_mode, out)
                          : open_host(options->setting, &wanted, out);
}

bool listener_open(const struct listener_options *options, struct listener *out)
{
    int given[GIVEN_MAX];
    const size_t given_count = given_for(options->given, options->use, given);

    *out = (struct listener){.fd_count = options->fd_count > given_count ? options->fd_count : given_count};
    out->fds = malloc(out->fd_count * sizeof(*out->fds));
    if (out->fds == NULL)
        return refuse(options->setting, "no memory");
    memset(out->fds, 0xff, out->fd_count * sizeof(*out->fds));
    if (given_count > 0 ? open_given(options, given, given_count, out) : open_setting(options, out))
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
    if (listener->is_unix && !listener->is_given)
        unlink(listener->name + sizeof(UNIX_PREFIX) - 1);
}

void listener_hold_off(int fd)
{
    struct sock_filter nothing[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
    const struct sock_fprog program = {.len = 1, .filter = nothing};

    setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
}
