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

void files_load(struct guard_load *load, void *context)
{
    const struct files *files = context;
    const char *name = guard_load_key(load) + strlen("file:");
    char path[4096];
    struct pollfd cancelled = {guard_load_cancel_fd(load), POLLIN, 0};
    fprintf(stderr, "load %s\n", name);
    if (poll(&cancelled, 1, files->delay_ms) > 0) {
        guard_load_fail(load, GUARD_FAILURE_UNAVAILABLE);
        return;
    }
    snprintf(path, sizeof path, "%s/%s", files->folder, name);
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

/* ---- the rest ---- */

const char *files_requested(char *request)
{
    static const char LEGAL[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    char *name = request + strlen("GET /");
    if (strncmp(request, "GET /", strlen("GET /")) != 0)
        return NULL;
    size_t bytes = strspn(name, LEGAL);
    if (bytes == 0 || bytes > NAME_BYTES || name[0] == '.' || name[bytes] != ' ')
        return NULL;
    name[bytes] = '\0';
    return name;
}

int files_listen(uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, 1024) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &bytes) != 0) {
        perror("listen");
        exit(1);
    }
    printf("listening on 127.0.0.1:%u\n", (unsigned)ntohs(address.sin_port));
    fflush(stdout);
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

bool files_open(struct files *files, const char *name_space, const char *redis_url)
{
    struct guard_config config = GUARD_CONFIG_DEFAULTS;
    struct guard_policy policy = GUARD_POLICY_DEFAULTS;
    struct guard_error error;
    config.name_space = name_space;
    if (redis_url != NULL)
        config.redis_url = redis_url;
    policy.loader = files_load;
    policy.context = files;
    if (guard_open(&config, &files->guard, &error) == GUARD_OK &&
        guard_kind_add(files->guard, &policy, &files->kind, &error) == GUARD_OK)
        return true;
    fprintf(stderr, "%s: %s\n", name_space, error.text);
    return false;
}
