/* SPDX-License-Identifier: MIT */
/* own_host.c - see own_host.h. */
#include "own_host.h"
#include "../adapters/epoll.h"
#include "process.h"

struct own_host {
    struct guard_epoll epoll; /* first */
    struct guard_host_state state;
    bool over;
};

/* It is freed by its owner. */
static void close_own_host(struct guard_host *host)
{
    ((struct own_host *)host)->over = true;
}

struct guard_host *own_host_open(void)
{
    struct own_host *self = calloc(1, sizeof *self);
    if (self == NULL)
        return NULL;
    self->epoll.host = (struct guard_host){.watch = guard_epoll_watch,
                                           .timer = guard_epoll_timer,
                                           .soon = guard_epoll_soon,
                                           .close = close_own_host};
    self->epoll.fd = descriptor_not_standard(epoll_create1(EPOLL_CLOEXEC));
    if (self->epoll.fd != -1 && host_init(&self->epoll.host, &self->state))
        return &self->epoll.host;
    guard_epoll_free(&self->epoll);
    return NULL;
}

void own_host_run(struct guard_host *host)
{
    struct own_host *self = (struct own_host *)host;
    while (!self->over) {
        int wait_ms = guard_epoll_before_wait(&self->epoll, -1);
        if (!self->over)
            guard_epoll_wait(&self->epoll, wait_ms);
    }
    guard_host_closed(host);
}

void own_host_free(struct guard_host **host)
{
    guard_epoll_free((struct guard_epoll *)*host);
    *host = NULL;
}
