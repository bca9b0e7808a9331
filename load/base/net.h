/* SPDX-License-Identifier: MIT */
/*
 * net.h - the little of sockets that the other modules of load/ share.
 *
 * Addresses are numeric: "127.0.0.1", "::1" or "unix:/path".
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct net_address {
    struct sockaddr_storage storage;
    socklen_t bytes;
};

/* False: not a numeric address. `port` is ignored for "unix:". */
bool net_address_init(struct net_address *address, const char *host, uint16_t port);

/* A non-blocking socket whose connection may still be under way; -1 with errno. */
int net_connect_start(const struct net_address *address);

/* The same from an IPv4 address of ours, in network order. */
int net_connect_start_from(const struct net_address *address, uint32_t from);

/* A connected socket, -1: not until end_us. */
int net_connect_by(const char *host, uint16_t port, uint64_t end_us);

/* What became of it once the socket is writable: 0, or an errno. */
int net_connect_error(int fd);

/* Waits until the socket is ready for POLLIN or POLLOUT, or end_us has passed. */
bool net_wait(int fd, short events, uint64_t end_us);

/* A free port of 127.0.0.1 below the range that outgoing connections use. 0: none found. */
uint16_t net_free_port(void);

/* Closes a descriptor. Leaves -1, accepts -1. */
void net_shut(int *fd);

/* Raises the limit of open files as far as allowed; false if that is less than `needed`. */
bool net_raise_file_limit(size_t needed);
