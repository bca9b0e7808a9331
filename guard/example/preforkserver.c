/* SPDX-License-Identifier: MIT */
/*
 * preforkserver.c - the guard in a server that forks its workers: each opens a guard of its own, after fork().
 *
 *     preforkserver PORT FOLDER [REDIS_URL [DELAY_MS]]      see files.h
 *
 *   main: listen, fork -> worker: files_open(), accept, guard_get_wait(), answer, one client after the other
 *
 * The workers collapse their loads over Redis, as processes on several hosts would. A guard that is opened before
 * fork() is the parent's: in a worker it answers INVALID at once, and says so in the log.
 */
#include "files.h"
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORKERS = 4, REQUEST_BYTES = 4096, IDLE_S = 5, DRAIN_MS = 5000 };

static void answer(int fd, const char *status, const struct guard_value *value)
{
    size_t bytes = value != NULL ? value->body_bytes : 0;
    dprintf(fd, "HTTP/1.0 %s\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n", status, bytes);
    if (value != NULL)
        send(fd, value->body, bytes, MSG_NOSIGNAL);
}

static void serve(const struct files *files, int fd)
{
    char request[REQUEST_BYTES] = "", key[FILES_KEY_BYTES];
    const char *path = request + strlen("GET ");
    struct guard_result result;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){.tv_sec = IDLE_S}, sizeof(struct timeval));
    if (recv(fd, request, sizeof request - 1, 0) <= 0)
        return;
    if (strncmp(request, "GET ", strlen("GET ")) != 0 || !files_key(path, strcspn(path, " "), key)) {
        answer(fd, "400 Bad Request", NULL);
        return;
    }
    guard_get_wait(files->guard, &(struct guard_request){.kind = files->kind, .key = key}, &result);
    answer(fd,
           result.status == GUARD_OK       ? "200 OK"
           : result.status == GUARD_ABSENT ? "404 Not Found"
                                           : "503 Service Unavailable",
           result.value);
    guard_value_unref(&result.value);
}

static void try_the_guard_of_the_parent(const struct files *parents)
{
    struct guard_result result;
    guard_get_wait(parents->guard, &(struct guard_request){.kind = parents->kind, .key = "file:any"},
                   &result);
    printf("the parent's guard says in a worker: %s\n", guard_status_name(result.status));
    fflush(stdout);
}

static int work(int listener, int signals, int argc, char **argv)
{
    static struct files files;
    struct pollfd fds[] = {{listener, POLLIN, 0}, {signals, POLLIN, 0}};
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* a worker does not outlive its parent */
    files_open(&files, argc, argv);
    while (fds[1].revents == 0) {
        if (poll(fds, 2, -1) <= 0 || fds[0].revents == 0)
            continue;
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            continue; /* another worker was quicker */
        serve(&files, fd);
        close(fd);
    }
    return guard_close(&files.guard, DRAIN_MS) == GUARD_OK ? 0 : 1;
}

int main(int argc, char **argv)
{
    static struct files parents;
    pid_t workers[WORKERS];
    char told[128];
    int failed = 0, status = 0;
    int signals = files_signals();
    files_open(&parents, argc, argv);
    int listener = files_listen(argv[1]);
    fcntl(listener, F_SETFL, O_NONBLOCK);
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = fork();
        if (workers[i] == 0 && i == 0)
            try_the_guard_of_the_parent(&parents);
        if (workers[i] == 0)
            _exit(work(listener, signals, argc, argv));
    }
    (void)!read(signals, told, sizeof told); /* SIGTERM or SIGINT */
    for (int i = 0; i < WORKERS; i++) {
        kill(workers[i], SIGTERM);
        failed |= waitpid(workers[i], &status, 0) != workers[i] || status != 0;
    }
    return guard_close(&parents.guard, DRAIN_MS) == GUARD_OK && !failed ? 0 : 1;
}
