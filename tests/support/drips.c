/* SPDX-License-Identifier: MIT */
/* drips.c - see drips.h. */
#include "tests/support/drips.h"

#include "load/base/clock.h"
#include "load/base/net.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { OPEN_LIMIT_MS = 30000, TURN_MS = 10 };

struct drip {
    int fd; /* -1: none */
    size_t sent_bytes;
    uint64_t dripped_us;
    bool has_begun; /* ever */
};

struct drips {
    const struct drips_options *options;
    struct net_address address;
    pthread_t thread;
    atomic_bool over;
    atomic_size_t begun_count; /* of those that ever have */
    _Atomic uint64_t hung_up;
    struct drip list[DRIPS_MAX];
};

static void leave(struct drips *drips, struct drip *drip)
{
    close(drip->fd);
    drip->fd = -1;
    atomic_fetch_add(&drips->hung_up, drip->sent_bytes > 0);
}

/* What it begins with, as far as the socket takes it, or what it drips when its time has come. */
static void say(struct drips *drips, struct drip *drip)
{
    const struct drips_options *options = drips->options;
    const size_t left = options->begun_bytes - drip->sent_bytes;
    ssize_t sent = 0;
    if (left > 0) {
        sent = send(drip->fd, options->begun + drip->sent_bytes, left, MSG_NOSIGNAL | MSG_DONTWAIT);
        drip->sent_bytes += sent > 0 ? (size_t)sent : 0;
        if (drip->sent_bytes == options->begun_bytes && !drip->has_begun) {
            drip->has_begun = true;
            atomic_fetch_add(&drips->begun_count, 1);
        }
    } else if (options->drip != NULL && clock_us() - drip->dripped_us > (uint64_t)DRIPS_EVERY_MS * 1000) {
        send(drip->fd, options->drip, strlen(options->drip), MSG_NOSIGNAL | MSG_DONTWAIT);
        drip->dripped_us = clock_us();
    }
}

static void turn(struct drips *drips, struct drip *drip, short revents)
{
    char bytes[512];
    if (drip->fd == -1) {
        *drip = (struct drip){.fd = net_connect_start(&drips->address), .has_begun = drip->has_begun};
        return;
    }
    bool gone = (revents & (POLLERR | POLLHUP)) != 0;
    if ((revents & POLLIN) != 0)
        gone = recv(drip->fd, bytes, sizeof bytes, MSG_DONTWAIT) == 0 || gone;
    if (gone)
        leave(drips, drip);
    else
        say(drips, drip);
}

static void *run(void *context)
{
    struct drips *drips = context;
    struct pollfd fds[DRIPS_MAX];
    size_t count = drips->options->count;
    while (!atomic_load(&drips->over)) {
        for (size_t i = 0; i < count; i++) {
            const struct drip *drip = &drips->list[i];
            bool has_more = drip->sent_bytes < drips->options->begun_bytes;
            fds[i] = (struct pollfd){.fd = drip->fd, .events = has_more ? POLLIN | POLLOUT : POLLIN};
        }
        poll(fds, count, TURN_MS);
        for (size_t i = 0; i < count; i++)
            turn(drips, &drips->list[i], drips->list[i].fd == -1 ? 0 : fds[i].revents);
    }
    return NULL;
}

bool drips_open(const struct drips_options *options, struct drips **out)
{
    struct drips *drips = calloc(1, sizeof *drips);
    uint64_t end_us = clock_after_ms(OPEN_LIMIT_MS);
    if (drips == NULL || options->count > DRIPS_MAX ||
        !net_address_init(&drips->address, options->host, options->port)) {
        free(drips);
        return false;
    }
    drips->options = options;
    for (size_t i = 0; i < options->count; i++)
        drips->list[i].fd = -1;
    *out = drips;
    if (pthread_create(&drips->thread, NULL, run, drips) != 0)
        abort();
    while (atomic_load(&drips->begun_count) < options->count && clock_us() < end_us)
        clock_pause_ms(1);
    if (atomic_load(&drips->begun_count) == options->count)
        return true;
    drips_close(out);
    return false;
}

uint64_t drips_hung_up(const struct drips *drips)
{
    return atomic_load(&drips->hung_up);
}

void drips_close(struct drips **drips_slot)
{
    struct drips *drips = *drips_slot;
    *drips_slot = NULL;
    atomic_store(&drips->over, true);
    pthread_join(drips->thread, NULL);
    for (size_t i = 0; i < drips->options->count; i++)
        if (drips->list[i].fd != -1)
            close(drips->list[i].fd);
    free(drips);
}
