/* SPDX-License-Identifier: MIT */
/* tail.c - see witness_follow.h. */
#include "load/witness/witness_follow.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK_BYTES = 65536, CHUNKS_MAX = 1024, FILES_MAX = 16 };

struct source {
    int fd;      /* owned; -1: none */
    uint64_t at; /* bytes of it that were read */
};

/* Who renames a log tells its writer afterwards: until then the writer goes on in the old file. */
struct tail {
    char *path; /* owned, a copy */
    struct source now, before;
    uint32_t cut_count;
    char chunk[CHUNK_BYTES];
};

static bool refuse(char *why, const char *path)
{
    snprintf(why, TAIL_WHY_BYTES, "%s: cannot be read: %s", path, strerror(errno));
    return false;
}

static bool start(struct tail *tail, uint64_t history_bytes)
{
    struct stat file;
    tail->now.fd = open(tail->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (tail->now.fd == -1 || fstat(tail->now.fd, &file) == -1)
        return false;
    if (!S_ISREG(file.st_mode)) {
        errno = S_ISDIR(file.st_mode) ? EISDIR : ESPIPE;
        return false;
    }
    uint64_t size = (uint64_t)file.st_size;
    tail->now.at = size > history_bytes ? size - history_bytes : 0;
    return true;
}

bool tail_open(const char *path, uint64_t history_bytes, struct tail **out, char why[static TAIL_WHY_BYTES])
{
    struct tail *tail = calloc(1, sizeof *tail);
    if (tail == NULL)
        return refuse(why, path);
    tail->now.fd = tail->before.fd = -1;
    tail->path = strdup(path);
    if (tail->path == NULL || !start(tail, history_bytes)) {
        refuse(why, path);
        tail_close(&tail);
        return false;
    }
    *out = tail;
    return true;
}

/* To the end of one file. */
static bool read_source(struct tail *tail, struct source *source, tail_take *take, void *context)
{
    bool any = false;
    for (int i = 0; i < CHUNKS_MAX && source->fd != -1; i++) {
        ssize_t got = pread(source->fd, tail->chunk, sizeof tail->chunk, (off_t)source->at);
        if (got == -1 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        source->at += (uint64_t)got;
        take(context, tail->chunk, (size_t)got);
        any = true;
    }
    return any;
}

/* True: it is shorter than what was read of it, and is to be read from its beginning. */
static bool was_cut(struct tail *tail)
{
    struct stat file;
    if (fstat(tail->now.fd, &file) == -1 || (uint64_t)file.st_size >= tail->now.at)
        return false;
    tail->now.at = 0;
    tail->cut_count++;
    return true;
}

/* True: there is another file of this name now, and it is open. */
static bool was_replaced(struct tail *tail)
{
    struct stat here, there;
    if (tail->now.fd == -1 || stat(tail->path, &there) == -1 || fstat(tail->now.fd, &here) == -1 ||
        (here.st_dev == there.st_dev && here.st_ino == there.st_ino))
        return false;
    int fd = open(tail->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd == -1)
        return false;
    if (tail->before.fd != -1)
        close(tail->before.fd);
    tail->before = tail->now;
    tail->now = (struct source){.fd = fd};
    return true;
}

bool tail_read(struct tail *tail, tail_take *take, void *context)
{
    bool any = read_source(tail, &tail->before, take, context);
    bool is_broken = was_cut(tail);
    if (any || is_broken)
        take(context, NULL, 0);
    any = read_source(tail, &tail->now, take, context) || any;
    for (int i = 0; i < FILES_MAX && was_replaced(tail); i++) {
        read_source(tail, &tail->before, take, context); /* what came between the two looks */
        take(context, NULL, 0);
        any = read_source(tail, &tail->now, take, context) || any;
    }
    return any;
}

uint32_t tail_cut_count(const struct tail *tail)
{
    return tail->cut_count;
}

void tail_close(struct tail **slot)
{
    struct tail *tail = *slot;
    *slot = NULL;
    if (tail == NULL)
        return;
    if (tail->now.fd != -1)
        close(tail->now.fd);
    if (tail->before.fd != -1)
        close(tail->before.fd);
    free(tail->path);
    free(tail);
}
