/* SPDX-License-Identifier: MIT */
/* given.c - see given.h. */
#include "app/http/given.h"

#include "app/base/log.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>

static const char *const NAMES[GIVEN_USES] = {[GIVEN_HTTP] = "http", [GIVEN_OPS] = "ops"};

static bool refuse(int fd, const char *name, const char *why)
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

static bool take(struct given *out, int fd, const char *name, bool by_name)
{
    const enum given_use use = by_name ? use_named(name) : (enum given_use)out->count;
    int taken[GIVEN_MAX];

    if (use >= GIVEN_USES)
        return refuse(fd, name, "name it http or ops (FileDescriptorName= in its .socket unit)");
    if (!is_of_ours(fd))
        return refuse(fd, name,
                      "expected a listening stream socket of TCP or Unix (ListenStream=, Accept=no)");
    if (use == GIVEN_OPS && given_for(out, GIVEN_OPS, taken) > 0)
        return refuse(fd, name, "there can be only one for ops");
    if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0)
        return refuse(fd, name, strerror(errno));
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
        return refuse(SD_LISTEN_FDS_START, "", strerror(-count));
    if (!good)
        refuse(SD_LISTEN_FDS_START, "", "at most 16 sockets may be given");
    const bool by_name = good && any_is_named(names, (size_t)count);
    for (int i = 0; good && i < count; i++)
        good = take(out, SD_LISTEN_FDS_START + i, names[i], by_name);
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
