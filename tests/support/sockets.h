/* SPDX-License-Identifier: MIT */
/*
 * sockets.h - blocking sockets of 127.0.0.1, for tests. They close on exec; close() is yours.
 *
 * Threads: any, but only the test's may fail. Errors: what goes wrong fails the test.
 */
#pragma once

#include <stdint.h>

/* Listens there, with so long a queue; 0: on a free port. `port` gets its number; may be NULL. */
int socket_listen(uint16_t at, int backlog, uint16_t *port);

/* Connected. `receive_bytes` is SO_RCVBUF; 0: as it is. */
int socket_connect(uint16_t port, int receive_bytes);

/* Sends all of the text. */
void socket_say(int fd, const char *text);
