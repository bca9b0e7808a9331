/* SPDX-License-Identifier: MIT */
/*
 * guard_proxy.h - a TCP proxy before Redis that can go deaf: the connection lives, nothing comes through.
 *
 * One thread, poll(). What Redis sends to subscribers is thrown away while `mute` is set; the client sees a
 * connection that is up and silent, as after a firewall forgot it.
 */
#ifndef GUARD_PROXY_H
#define GUARD_PROXY_H

#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PROXY_PAIRS = 32, PROXY_BYTES = 65536 };

struct proxy_pair {
    int client, server;
    bool subscriber;
};

struct proxy {
    int listener, end; /* an eventfd: readable when it is over */
    uint16_t port, redis_port;
    pthread_t thread;
    atomic_bool mute;
    atomic_uint subscribers, thrown_away; /* subscriptions seen; pieces not passed on */
    struct proxy_pair pairs[PROXY_PAIRS];
    size_t pair_count;
};

static inline struct sockaddr_in proxy_address(uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static inline void proxy_accept(struct proxy *proxy)
{
    struct sockaddr_in address = proxy_address(proxy->redis_port);
    int client = accept4(proxy->listener, NULL, NULL, SOCK_CLOEXEC);
    int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (client < 0 || proxy->pair_count == PROXY_PAIRS ||
        connect(server, (struct sockaddr *)&address, sizeof address) != 0) {
        close(client);
        close(server);
        return;
    }
    proxy->pairs[proxy->pair_count++] = (struct proxy_pair){client, server, false};
}

static inline void proxy_drop(struct proxy *proxy, size_t i)
{
    close(proxy->pairs[i].client);
    close(proxy->pairs[i].server);
    proxy->pairs[i] = proxy->pairs[--proxy->pair_count];
}

static inline bool proxy_send_all(int to, const char *bytes, size_t count)
{
    while (count > 0) {
        ssize_t sent = send(to, bytes, count, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        bytes += sent;
        count -= (size_t)sent;
    }
    return true;
}

/* False: one side is gone. */
static inline bool proxy_pass(struct proxy *proxy, struct proxy_pair *pair, bool to_client)
{
    char bytes[PROXY_BYTES];
    ssize_t got = recv(to_client ? pair->server : pair->client, bytes, sizeof bytes, 0);
    if (got <= 0)
        return false;
    if (!to_client && memmem(bytes, (size_t)got, "SUBSCRIBE", 9) != NULL) {
        pair->subscriber = true;
        proxy->subscribers++;
    }
    if (to_client && pair->subscriber && proxy->mute) {
        proxy->thrown_away++;
        return true;
    }
    return proxy_send_all(to_client ? pair->client : pair->server, bytes, (size_t)got);
}

static inline void *proxy_run(void *context)
{
    struct proxy *proxy = context;
    struct pollfd fds[2 + 2 * PROXY_PAIRS];
    for (;;) {
        fds[0] = (struct pollfd){proxy->end, POLLIN, 0};
        fds[1] = (struct pollfd){proxy->listener, POLLIN, 0};
        for (size_t i = 0; i < proxy->pair_count; i++) {
            fds[2 + 2 * i] = (struct pollfd){proxy->pairs[i].client, POLLIN, 0};
            fds[3 + 2 * i] = (struct pollfd){proxy->pairs[i].server, POLLIN, 0};
        }
        if (poll(fds, 2 + 2 * proxy->pair_count, -1) < 0)
            continue;
        if (fds[0].revents != 0)
            return NULL;
        for (size_t i = proxy->pair_count; i-- > 0;) /* from the end: dropping moves the last one here */
            if ((fds[2 + 2 * i].revents != 0 && !proxy_pass(proxy, &proxy->pairs[i], false)) ||
                (fds[3 + 2 * i].revents != 0 && !proxy_pass(proxy, &proxy->pairs[i], true)))
                proxy_drop(proxy, i);
        if (fds[1].revents != 0)
            proxy_accept(proxy);
    }
}

static inline void proxy_open(struct proxy *proxy, uint16_t redis_port)
{
    struct sockaddr_in address = proxy_address(0);
    socklen_t bytes = sizeof address;
    memset(proxy, 0, sizeof *proxy);
    proxy->redis_port = redis_port;
    proxy->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    proxy->end = eventfd(0, EFD_CLOEXEC);
    bool up = bind(proxy->listener, (struct sockaddr *)&address, sizeof address) == 0 &&
              listen(proxy->listener, 16) == 0 &&
              getsockname(proxy->listener, (struct sockaddr *)&address, &bytes) == 0 &&
              pthread_create(&proxy->thread, NULL, proxy_run, proxy) == 0;
    assert(up);
    proxy->port = ntohs(address.sin_port);
}

static inline void proxy_close(struct proxy *proxy)
{
    eventfd_write(proxy->end, 1);
    pthread_join(proxy->thread, NULL);
    while (proxy->pair_count > 0)
        proxy_drop(proxy, proxy->pair_count - 1);
    close(proxy->listener);
    close(proxy->end);
}

#endif
