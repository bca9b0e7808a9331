/* SPDX-License-Identifier: MIT */
/* generator_link.c - connections; see generator.h. */
#include "load/base/clock.h"
#include "load/base/net.h"
#include "load/herd/generator.h"
#include "load/herd/tls.h"

#include <errno.h>
#include <netinet/in.h>
#include <unistd.h>

static void leave_list(struct link *link)
{
    if (link->list == NULL)
        return;
    TAILQ_REMOVE(&link->list->queue, link, entry);
    link->list->count--;
    link->list = NULL;
}

void link_move(struct link *link, struct link_list *list)
{
    leave_list(link);
    if (list == NULL)
        return;
    TAILQ_INSERT_TAIL(&list->queue, link, entry);
    list->count++;
    link->list = list;
}

void link_move_first(struct link *link, struct link_list *list)
{
    leave_list(link);
    TAILQ_INSERT_HEAD(&list->queue, link, entry);
    list->count++;
    link->list = list;
}

static void count_open(struct generator *generator, const struct link *link, bool is_open)
{
    generator->target_links[link->target] += is_open ? 1U : -1U;
    generator->open_count += is_open ? 1U : -1U;
    atomic_store_explicit(&generator->post->open_connections, generator->open_count, memory_order_relaxed);
}

/*
 * One pair of addresses has as many connections as there are local ports. Connections to this machine come from
 * several addresses of 127.0.0.0/8 in turn, for each target by itself.
 */
static uint32_t source_for(struct generator *generator, uint8_t target)
{
    const struct work *work = generator->work;
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)&work->targets[target].address.storage;
    bool is_loopback = v4->sin_family == AF_INET && (ntohl(v4->sin_addr.s_addr) >> 24) == 127;
    if (!is_loopback || work->source_count == 1)
        return INADDR_ANY;
    uint64_t number = generator->target_opened[target]++ * work->generator_count + generator->job->index;
    return htonl(INADDR_LOOPBACK + (uint32_t)(number % work->source_count));
}

static uint64_t event_data(const struct generator *generator, const struct link *link)
{
    return (uint64_t)link->serial << 32 | (uint32_t)(link - generator->links);
}

bool link_open(struct generator *generator, struct link *link, uint8_t target, uint32_t slot)
{
    struct epoll_event event = {.events = EPOLLOUT, .data.u64 = event_data(generator, link)};
    link->slot = slot;
    link->target = target;
    link->fd =
        net_connect_start_from(&generator->work->targets[target].address, source_for(generator, target));
    if (link->fd == -1) {
        generator->error = errno;
        return false;
    }
    if (epoll_ctl(generator->epoll, EPOLL_CTL_ADD, link->fd, &event) == -1) {
        int error = errno;
        close(link->fd);
        link->fd = -1;
        errno = generator->error = error;
        return false;
    }
    link->state = LINK_CONNECTING;
    link->opened_us = clock_us();
    link->until_us = link->opened_us + (uint64_t)generator->work->connect_limit_ms * 1000;
    link_move(link, &generator->connecting);
    count_open(generator, link, true);
    return true;
}

void link_drop(struct generator *generator, struct link *link)
{
    tls_end(&link->tls);
    close(link->fd); /* also leaves the epoll set */
    link->fd = -1;
    link->state = LINK_NONE;
    link->serial++;
    link_move(link, &generator->none);
    count_open(generator, link, false);
}

/* TLS_DONE: it is there, also where it needs no TLS. */
static enum tls_step connect_on(struct generator *generator, struct link *link, int *error)
{
    const struct work_target *target = &generator->work->targets[link->target];
    if (link->tls == NULL) {
        *error = net_connect_error(link->fd);
        if (*error != 0 || !target->is_tls)
            return *error != 0 ? TLS_FAILED : TLS_DONE;
        link->tls = tls_begin(generator->tls, target, link->fd);
    }
    enum tls_step step = link->tls != NULL ? tls_shake(link->tls) : TLS_FAILED;
    *error = step == TLS_FAILED ? EPROTO : 0;
    return step;
}

void link_connected(struct generator *generator, struct link *link)
{
    int error = 0;
    enum tls_step step = connect_on(generator, link, &error);
    struct epoll_event event = {.events = step == TLS_WRITES ? EPOLLOUT : EPOLLIN,
                                .data.u64 = event_data(generator, link)};
    if (error == 0 && epoll_ctl(generator->epoll, EPOLL_CTL_MOD, link->fd, &event) == -1)
        error = errno;
    if (error == 0 && step != TLS_DONE)
        return;
    if (error != 0) {
        generator->connect_error = generator->error = error;
        link_drop(generator, link);
        generator->shape->failed(generator, link, error == ETIMEDOUT ? RECORD_UNCONNECTED : RECORD_REFUSED);
        return;
    }
    link->connect_us = (uint32_t)(clock_us() - link->opened_us) + 1; /* 0 means none */
    link->state = LINK_IDLE;
    link_move_first(link, &generator->idle[link->target]);
    generator->shape->connected(generator, link);
}
