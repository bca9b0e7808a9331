/* SPDX-License-Identifier: MIT */
/*
 * relay.c - see relay.h.
 *
 * One thread polls all sockets. A direction that is held is not read, so the kernel keeps what waits; only
 * the chunk in which the text was found is kept here.
 *
 * Locking: `mutex` guards mode, text, held_count and `ending`; the rest is the thread's.
 */
#include "tests/support/relay.h"

#include "load/base/net.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LINKS_MAX = 64, CHUNK_BYTES = 65536, BACKLOG = 64, SEND_LIMIT_MS = 10000 };

/* One connection: from the process, and on to Redis. */
struct link {
    int client, server; /* -1: free */
    bool requests_held, replies_held;
    char *kept; /* the request that is held; owned; NULL: none */
    size_t kept_bytes;
};

struct relay {
    int listener, wake;
    uint16_t port;
    struct net_address target;
    struct link links[LINKS_MAX];
    char chunk[CHUNK_BYTES];
    pthread_t thread;

    pthread_mutex_t mutex;
    enum relay_mode mode;
    const char *text;
    uint32_t held_count;
    bool ending;
};

/* ---- one link ---- */

static void hang_up(struct link *link)
{
    close(link->client);
    close(link->server);
    free(link->kept);
    *link = (struct link){.client = -1, .server = -1};
}

static bool send_all(int fd, const char *bytes, size_t count)
{
    uint64_t end_us = net_now_us() + (uint64_t)SEND_LIMIT_MS * 1000;
    while (count > 0) {
        ssize_t sent = send(fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && !net_wait(fd, POLLOUT, end_us))
            return false;
        if (sent > 0) {
            bytes += sent;
            count -= (size_t)sent;
        }
    }
    return true;
}

static bool keep(struct link *link, const char *bytes, size_t count)
{
    link->kept = malloc(count);
    if (link->kept == NULL)
        return false;
    memcpy(link->kept, bytes, count);
    link->kept_bytes = count;
    return true;
}

/* What is to be done with this request; counts the link as held if it is. */
static enum relay_mode judge(struct relay *relay, const char *bytes, size_t count)
{
    pthread_mutex_lock(&relay->mutex);
    enum relay_mode mode = relay->mode;
    if (mode != RELAY_PASS && memmem(bytes, count, relay->text, strlen(relay->text)) == NULL)
        mode = RELAY_PASS;
    if (mode != RELAY_PASS)
        relay->held_count++;
    pthread_mutex_unlock(&relay->mutex);
    return mode;
}

/* False: the link is over. */
static bool move_request(struct relay *relay, struct link *link)
{
    ssize_t count = recv(link->client, relay->chunk, sizeof relay->chunk, MSG_DONTWAIT);
    if (count <= 0)
        return false;
    enum relay_mode mode = link->replies_held ? RELAY_PASS : judge(relay, relay->chunk, (size_t)count);
    link->replies_held = link->replies_held || mode == RELAY_HOLD_REPLIES;
    if (mode != RELAY_HOLD_REQUESTS)
        return send_all(link->server, relay->chunk, (size_t)count);
    link->requests_held = true;
    return keep(link, relay->chunk, (size_t)count);
}

static bool move_reply(struct relay *relay, struct link *link)
{
    ssize_t count = recv(link->server, relay->chunk, sizeof relay->chunk, MSG_DONTWAIT);
    return count > 0 && send_all(link->client, relay->chunk, (size_t)count);
}

static bool let_go(struct link *link)
{
    bool sent = link->kept == NULL || send_all(link->server, link->kept, link->kept_bytes);
    free(link->kept);
    link->kept = NULL;
    link->requests_held = link->replies_held = false;
    return sent;
}

/* ---- all of them ---- */

static void accept_one(struct relay *relay)
{
    int client = accept4(relay->listener, NULL, NULL, SOCK_CLOEXEC);
    for (size_t i = 0; client != -1 && i < LINKS_MAX; i++) {
        struct link *link = &relay->links[i];
        if (link->client != -1)
            continue;
        link->client = client;
        link->server = net_connect_start(&relay->target);
        if (link->server == -1 ||
            !net_wait(link->server, POLLOUT, net_now_us() + (uint64_t)SEND_LIMIT_MS * 1000) ||
            net_connect_error(link->server) != 0)
            hang_up(link);
        return;
    }
    if (client != -1)
        close(client);
}

static bool is_readable(const struct pollfd *polled)
{
    return (polled->revents & (POLLIN | POLLHUP | POLLERR)) != 0;
}

static void serve(struct relay *relay, struct link *link, const struct pollfd polled[2])
{
    bool alive = true;
    if (!link->requests_held && is_readable(&polled[0]))
        alive = move_request(relay, link);
    if (alive && !link->replies_held && is_readable(&polled[1]))
        alive = move_reply(relay, link);
    if (!alive)
        hang_up(link);
}

/* A held direction is not asked for: -1 makes poll() pass over it. */
static void poll_all(struct relay *relay, struct pollfd *polled)
{
    polled[0] = (struct pollfd){.fd = relay->wake, .events = POLLIN};
    polled[1] = (struct pollfd){.fd = relay->listener, .events = POLLIN};
    for (size_t i = 0; i < LINKS_MAX; i++) {
        const struct link *link = &relay->links[i];
        polled[2 + i * 2] = (struct pollfd){.fd = link->requests_held ? -1 : link->client, .events = POLLIN};
        polled[3 + i * 2] = (struct pollfd){.fd = link->replies_held ? -1 : link->server, .events = POLLIN};
    }
    poll(polled, 2 + LINKS_MAX * 2, -1);
}

/* True: go on. */
static bool obey(struct relay *relay)
{
    uint64_t ignored;
    if (read(relay->wake, &ignored, sizeof ignored) != sizeof ignored)
        return true;
    pthread_mutex_lock(&relay->mutex);
    bool passes = relay->mode == RELAY_PASS;
    bool ending = relay->ending;
    pthread_mutex_unlock(&relay->mutex);
    for (size_t i = 0; passes && i < LINKS_MAX; i++) {
        if (relay->links[i].client != -1 && !let_go(&relay->links[i]))
            hang_up(&relay->links[i]);
    }
    return !ending;
}

static void *run(void *context)
{
    struct relay *relay = context;
    struct pollfd polled[2 + LINKS_MAX * 2];
    bool goes_on = true;
    while (goes_on) {
        poll_all(relay, polled);
        for (size_t i = 0; i < LINKS_MAX; i++) {
            if (relay->links[i].client != -1)
                serve(relay, &relay->links[i], &polled[2 + i * 2]);
        }
        if (polled[1].revents != 0)
            accept_one(relay);
        if (polled[0].revents != 0)
            goes_on = obey(relay);
    }
    for (size_t i = 0; i < LINKS_MAX; i++) {
        if (relay->links[i].client != -1)
            hang_up(&relay->links[i]);
    }
    return NULL;
}

/* ---- for the test ---- */

static void set_mode(struct relay *relay, enum relay_mode mode, const char *text, bool ending)
{
    const uint64_t one = 1;
    pthread_mutex_lock(&relay->mutex);
    relay->mode = mode;
    relay->text = text;
    relay->held_count = 0;
    relay->ending = ending;
    pthread_mutex_unlock(&relay->mutex);
    if (write(relay->wake, &one, sizeof one) != sizeof one)
        fprintf(stderr, "relay: cannot wake its thread\n");
}

static bool listen_anywhere(struct relay *relay)
{
    struct net_address address;
    relay->port = net_free_port();
    relay->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return relay->listener != -1 && net_address_init(&address, "127.0.0.1", relay->port) &&
           bind(relay->listener, (const struct sockaddr *)&address.storage, address.bytes) == 0 &&
           listen(relay->listener, BACKLOG) == 0;
}

bool relay_open(uint16_t target_port, struct relay **out)
{
    struct relay *relay = calloc(1, sizeof *relay);
    if (relay == NULL)
        return false;
    for (size_t i = 0; i < LINKS_MAX; i++)
        relay->links[i] = (struct link){.client = -1, .server = -1};
    pthread_mutex_init(&relay->mutex, NULL);
    relay->wake = eventfd(0, EFD_CLOEXEC);
    if (net_address_init(&relay->target, "127.0.0.1", target_port) && listen_anywhere(relay) &&
        relay->wake != -1 && pthread_create(&relay->thread, NULL, run, relay) == 0) {
        *out = relay;
        return true;
    }
    perror("relay");
    if (relay->listener != -1)
        close(relay->listener);
    if (relay->wake != -1)
        close(relay->wake);
    pthread_mutex_destroy(&relay->mutex);
    free(relay);
    return false;
}

uint16_t relay_port(const struct relay *relay)
{
    return relay->port;
}

void relay_hold(struct relay *relay, enum relay_mode mode, const char *text)
{
    set_mode(relay, mode, text, false);
}

void relay_pass(struct relay *relay)
{
    set_mode(relay, RELAY_PASS, NULL, false);
}

bool relay_wait_held(struct relay *relay, uint32_t wanted, uint32_t limit_ms)
{
    uint64_t end_us = net_now_us() + (uint64_t)limit_ms * 1000;
    for (;;) {
        pthread_mutex_lock(&relay->mutex);
        bool reached = relay->held_count >= wanted;
        pthread_mutex_unlock(&relay->mutex);
        if (reached || net_now_us() >= end_us)
            return reached;
        net_pause_ms(1);
    }
}

void relay_close(struct relay **relay_slot)
{
    struct relay *relay = *relay_slot;
    *relay_slot = NULL;
    if (relay == NULL)
        return;
    set_mode(relay, RELAY_PASS, NULL, true);
    pthread_join(relay->thread, NULL);
    close(relay->listener);
    close(relay->wake);
    pthread_mutex_destroy(&relay->mutex);
    free(relay);
}
