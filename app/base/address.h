/* SPDX-License-Identifier: MIT */
/* address.h - where to listen: host:port, [v6]:port or unix:PATH. Pure, any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* A checked listen address taken apart; for unix:PATH `host` is the path and `port` is 0. */
struct address {
    bool is_unix;
    char host[108]; /* fits sockaddr_un.sun_path; an IPv6 address has lost its brackets */
    uint16_t port;  /* 0: any free one */
};

/* False: not host:port, [v6]:port or unix:PATH. "off" is no address. */
bool address_parse(const char *text, struct address *out);
