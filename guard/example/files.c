/* SPDX-License-Identifier: MIT */
/* files.c - see files.h. */
#include "files.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_BYTES = 256 };

/* ---- the source: what happens once per key, however many clients ask ---- */

static void load_open_file(struct guard_load *load, int fd)
{
    struct stat about;
    char version[48];
    if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode)) {
        guard_load_fail(load, GUARD_FAILURE_REJECTED);
        return;
    }
    size_t bytes = (size_t)about.st_size;
    char *body = malloc(bytes + 1);
    if (body == NULL || read(fd, body, bytes) != (ssize_t)bytes) {
        guard_load_fail(load, GUARD_FAILURE_UNAVAILABLE);
    } else {
        snprintf(version, sizeof version, "\"%lld\"", (long long)about.st_mtime);
        guard_load_done(load, body, bytes, version);
    }
    free(body);
}

void files_answer(struct guard_load *load, const struct files *files)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", files->folder, guard_load_key(load) + strlen("file:"));
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd >= 0) {
        load_open_file(load, fd);
        close(fd);
    } else if (errno == ENOENT) {
        guard_load_absent(load);
    } else {
        guard_load_fail(load, GUARD_FAILURE_UNAVAILABLE);
    }
}

void files_load(struct guard_load *load, void *context)
{
    const struct files *files = context;
    struct pollfd cancelled = {guard_load_cancel_fd(load), POLLIN, 0};
    fprintf(stderr, "load %s\n", guard_load_key(load));
    if (poll(&cancelled, 1, files->delay_ms) > 0)
        guard_load_fail(load, GUARD_FAILURE_UNAVAILABLE);
    else
        files_answer(load, files);
}

/* ---- the rest ---- */

bool files_key(const char *path, size_t path_bytes, char key[FILES_KEY_BYTES])
{
    static const char LEGAL[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    bool legal = path_bytes >= 2 && path_bytes <= NAME_BYTES && path[0] == '/' && path[1] != '.';
    for (size_t i = 1; i < path_bytes && legal; i++)
        legal = path[i] != '\0' && strchr(LEGAL, path[i]) != NULL;
    if (legal)
        snprintf(key, FILES_KEY_BYTES, "file:%.*s", (int)path_bytes - 1, path + 1);
    return legal;
}

void files_listening(unsigned port)
{
    printf("listening on 127.0.0.1:%u\n", port);
    fflush(stdout);
}

int files_listen(const char *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)atoi(port)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd == -1 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, 1024) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &bytes) != 0) {
        perror("listen");
        exit(1);
    }
    files_listening(ntohs(address.sin_port));
    return fd;
}

int files_signals(void)
{
    sigset_t ending;
    sigemptyset(&ending);
    sigaddset(&ending, SIGTERM);
    sigaddset(&ending, SIGINT);
    pthread_sigmask(SIG_BLOCK, &ending, NULL);
    return signalfd(-1, &ending, SFD_CLOEXEC);
}

void files_open(struct files *files, int argc, char **argv)
{
    struct guard_config config = GUARD_CONFIG_DEFAULTS;
    struct guard_policy policy = GUARD_POLICY_DEFAULTS;
    struct guard_error error;
    if (argc < 3) {
        fprintf(stderr, "usage: %s PORT FOLDER [REDIS_URL [DELAY_MS]]\n", argv[0]);
        exit(2);
    }
    files->folder = argv[2];
    files->delay_ms = argc > 4 ? atoi(argv[4]) : 0;
    config.name_space = "files";
    if (argc > 3)
        config.redis_url = argv[3];
    policy.loader = files->loader != NULL ? files->loader : files_load;
    policy.context = files;
    if (guard_open(&config, &files->guard, &error) == GUARD_OK &&
        guard_kind_add(files->guard, &policy, &files->kind, &error) == GUARD_OK)
        return;
    fprintf(stderr, "%s: %s\n", argv[0], error.text);
    exit(1);
}
