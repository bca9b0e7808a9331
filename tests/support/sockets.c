/* SPDX-License-Identifier: MIT */
/* sockets.c - see sockets.h. */
#include "tests/support/sockets.h"

#include "tests/support/test.h"

#include <netinet/in.h>
#include <sys/socket.h>

static int new_socket(struct sockaddr_in *address, uint16_t port)
{
    *address = (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_not_equal(fd, -1);
    return fd;
}

int socket_listen(uint16_t at, int backlog, uint16_t *port)
{
    struct sockaddr_in address;
    socklen_t bytes = sizeof address;
    const int on = at != 0, fd = new_socket(&address, at);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, backlog), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &bytes), 0);
    if (port != NULL)
        *port = ntohs(address.sin_port);
    return fd;
}

int socket_connect(uint16_t port, int receive_bytes)
{
    struct sockaddr_in address;
    const int fd = new_socket(&address, port);
    if (receive_bytes > 0)
        assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

void socket_say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}
