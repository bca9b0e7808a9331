/* SPDX-License-Identifier: MIT */
/* herd_server.c - see herd_server.h. */
#include "tests/support/herd_server.h"

#include "load/base/clock.h"
#include "load/base/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FILES_MAX = 16384, REQUEST_BYTES = 1024, BACKLOG = 4096, TURN_MS = 50 };

/* By descriptor. */
struct caller {
    enum herd_server_port port;
    uint64_t until_us; /* on port IMPATIENT; 0: as long as it likes */
    size_t count;
    char request[REQUEST_BYTES];
};

static struct {
    int epoll, listeners[HERD_SERVER_PORTS];
    struct caller *callers;  /* FILES_MAX */
    int gathered[FILES_MAX]; /* those who wait in /gather */
    size_t gathered_count;
    struct herd_server_seen *seen;
} here;

static void say(int fd, const char *text)
{
    ssize_t sent = send(fd, text, strlen(text), MSG_NOSIGNAL);
    (void)sent; /* who has gone does not hear it */
}

static void say_200(int fd, const char *header, const char *body)
{
    char text[512];
    snprintf(text, sizeof text, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n%s\r\n%s", strlen(body), header,
             body);
    say(fd, text);
}

static void say_key(int fd, const char *number)
{
    char body[64];
    unsigned key = (unsigned)strtoul(number, NULL, 10);
    snprintf(body, sizeof body, "{\"id\":%u,\"version\": %u}", key, key + 1);
    atomic_fetch_add(&here.seen->keys[key % 1024], 1);
    say_200(fd, "", body);
}

static void say_cache(int fd, const char *status)
{
    char header[256] = "Cache-Status: ";
    size_t used = strlen(header);
    for (; *status != '\0' && used < sizeof header - 8; status++)
        used += (size_t)snprintf(header + used, 3, *status == '+' ? "; " : "%c", *status);
    strcpy(header + used, "\r\n");
    say_200(fd, header, "cached");
}

static void say_bytes(int fd, const char *number)
{
    char piece[4096];
    size_t left = strtoul(number, NULL, 10);
    snprintf(piece, sizeof piece, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", left);
    say(fd, piece);
    memset(piece, 'x', sizeof piece);
    while (left > 0) {
        size_t count = left < sizeof piece ? left : sizeof piece;
        if (send(fd, piece, count, MSG_NOSIGNAL) != (ssize_t)count)
            return;
        left -= count;
    }
}

static void gather(int fd)
{
    if (here.gathered_count == FILES_MAX)
        return;
    here.gathered[here.gathered_count++] = fd;
    if (here.gathered_count < atomic_load(&here.seen->gather_target))
        return;
    for (size_t i = 0; i < here.gathered_count; i++)
        say_200(here.gathered[i], "Cache-Status: test; hit\r\n", "xxx");
    here.gathered_count = 0;
}

static void say_status(int fd, const char *number)
{
    char text[128];
    snprintf(text, sizeof text, "HTTP/1.1 %.3s Told\r\nContent-Length: 4\r\n\r\ntold", number);
    say(fd, text);
}

/* What becomes of the connection: as the request wants it, closed, or it gets no answer yet. */
enum after { KEEP, CLOSE, WAIT };

struct fixed_answer {
    const char *path, *text;
    enum after after;
};

static const struct fixed_answer fixed_answers[] = {
    {"/ok", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", KEEP},
    {"/typed", "HTTP/1.1 200 OK\r\nContent-Type: text/x-typed\r\nContent-Length: 5\r\n\r\ntyped", KEEP},
    {"/close", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok", CLOSE},
    {"/until-close", "HTTP/1.1 200 OK\r\n\r\nuntil it closes", CLOSE},
    {"/chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
     KEEP},
    {"/trailers",
     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n5\r\nabcde\r\n0\r\nX-Sum: "
     "5\r\n\r\n",
     KEEP},
    {"/half", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nxxxxx", CLOSE},
    {"/stall", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nxxxxx", WAIT},
    {"/more", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokay", CLOSE},
    {"/garbage", "garbage", KEEP},
    {"/switching", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: magic\r\n\r\n", KEEP},
    {"/reset", "", CLOSE},
    {"/hang", "", WAIT},
};

static enum after answer(int fd, const char *path)
{
    for (size_t i = 0; i < sizeof fixed_answers / sizeof *fixed_answers; i++) {
        if (strcmp(path, fixed_answers[i].path) == 0) {
            say(fd, fixed_answers[i].text);
            return fixed_answers[i].after;
        }
    }
    if (strcmp(path, "/gather") == 0) {
        gather(fd);
        return WAIT;
    }
    if (strncmp(path, "/key/", 5) == 0)
        say_key(fd, path + 5);
    else if (strncmp(path, "/cache/", 7) == 0)
        say_cache(fd, path + 7);
    else if (strncmp(path, "/bytes/", 7) == 0)
        say_bytes(fd, path + 7);
    else if (strncmp(path, "/status/", 8) == 0)
        say_status(fd, path + 8);
    else
        say_status(fd, "404");
    return KEEP;
}

/* True: hang up now. */
static bool take_request(int fd, struct caller *caller)
{
    char path[256] = "";
    bool closes = strstr(caller->request, "Connection: close\r\n") != NULL;
    bool is_options = strncmp(caller->request, "OPTIONS", 7) == 0;
    sscanf(caller->request, "%*s %255s", path);
    if (is_options && caller->port == HERD_SERVER_STRICT)
        return true;
    if (!is_options) {
        atomic_fetch_add(&here.seen->requests[caller->port], 1);
        memcpy(here.seen->last_request, caller->request, REQUEST_BYTES);
    }
    caller->count = 0;
    enum after after = answer(fd, path);
    return after == CLOSE || (after == KEEP && closes);
}

/* Who has left waits no longer: its number is soon another's. */
static void hang_up(int fd)
{
    for (size_t i = 0; i < here.gathered_count; i++)
        if (here.gathered[i] == fd)
            here.gathered[i] = here.gathered[--here.gathered_count];
    here.callers[fd].until_us = 0;
    close(fd);
}

static void hear(int fd)
{
    struct caller *caller = &here.callers[fd];
    ssize_t count =
        recv(fd, caller->request + caller->count, REQUEST_BYTES - caller->count - 1, MSG_DONTWAIT);
    if (count <= 0) {
        hang_up(fd);
        return;
    }
    caller->count += (size_t)count;
    caller->request[caller->count] = '\0';
    if (caller->port == HERD_SERVER_RUBBISH)
        say(fd, "220 mail.example.org ESMTP\r\n");
    else if (caller->port == HERD_SERVER_TLS)
        say(fd, "\x15\x03\x03\x01\x02\x02\x16");
    else if (strstr(caller->request, "\r\n\r\n") != NULL && take_request(fd, caller))
        hang_up(fd);
}

static void take_caller(enum herd_server_port port)
{
    struct sockaddr_in from;
    socklen_t bytes = sizeof from;
    int fd = accept4(here.listeners[port], (struct sockaddr *)&from, &bytes, SOCK_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    if (fd == -1)
        return;
    const unsigned number = atomic_fetch_add(&here.seen->accepted[port], 1);
    atomic_fetch_add(&here.seen->sources[ntohl(from.sin_addr.s_addr) & 0xff], 1);
    if (port == HERD_SERVER_CLOSING || fd >= FILES_MAX) {
        close(fd);
        return;
    }
    here.callers[fd].port = port;
    here.callers[fd].count = 0;
    here.callers[fd].until_us = port == HERD_SERVER_IMPATIENT && number < atomic_load(&here.seen->closing)
                                    ? clock_us() + HERD_SERVER_PATIENCE_MS * 1000
                                    : 0;
    epoll_ctl(here.epoll, EPOLL_CTL_ADD, fd, &event);
}

static void hang_up_on_the_silent(void)
{
    uint64_t now_us = clock_us();
    for (int fd = 0; fd < FILES_MAX; fd++) {
        if (here.callers[fd].until_us != 0 && here.callers[fd].until_us <= now_us)
            hang_up(fd);
    }
}

static _Noreturn void serve(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    signal(SIGINT, SIG_IGN);
    for (;;) {
        struct epoll_event event;
        if (epoll_wait(here.epoll, &event, 1, TURN_MS) != 1) {
            hang_up_on_the_silent();
            continue;
        }
        size_t port = 0;
        while (port < HERD_SERVER_PORTS && here.listeners[port] != event.data.fd)
            port++;
        if (port < HERD_SERVER_PORTS)
            take_caller((enum herd_server_port)port);
        else
            hear(event.data.fd);
    }
}

static bool start_listening(enum herd_server_port port, uint16_t *number)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    here.listeners[port] = fd;
    if (fd == -1 || bind(fd, (struct sockaddr *)&at, sizeof at) == -1 || listen(fd, BACKLOG) == -1 ||
        getsockname(fd, (struct sockaddr *)&at, &bytes) == -1 ||
        epoll_ctl(here.epoll, EPOLL_CTL_ADD, fd, &event) == -1)
        return false;
    *number = ntohs(at.sin_port);
    return true;
}

bool herd_server_start(struct herd_server *server)
{
    pid_t parent = getpid();
    if (!net_raise_file_limit(FILES_MAX))
        return false;
    server->seen =
        mmap(NULL, sizeof *server->seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    here.seen = server->seen;
    here.epoll = epoll_create1(EPOLL_CLOEXEC);
    here.callers = calloc(FILES_MAX, sizeof *here.callers);
    if (server->seen == MAP_FAILED || here.epoll == -1 || here.callers == NULL)
        return false;
    for (size_t i = 0; i < HERD_SERVER_PORTS; i++) {
        if (!start_listening((enum herd_server_port)i, &server->ports[i]))
            return false;
    }
    server->pid = fork();
    if (server->pid == 0)
        serve(parent);
    for (size_t i = 0; i < HERD_SERVER_PORTS; i++)
        close(here.listeners[i]);
    close(here.epoll);
    free(here.callers);
    return server->pid > 0;
}

void herd_server_forget(struct herd_server *server)
{
    memset(server->seen, 0, sizeof *server->seen);
}

void herd_server_stop(struct herd_server *server)
{
    kill(server->pid, SIGKILL);
    waitpid(server->pid, NULL, 0);
    munmap(server->seen, sizeof *server->seen);
}
