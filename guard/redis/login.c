/* SPDX-License-Identifier: MIT */
/* redis/login.c - see redis/login.h. */
#include "login.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Bytes, or errno's number below 0. */
static ssize_t read_small_file(const char *path, char *out, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    size_t filled = 0;
    ssize_t got = 1;
    if (fd < 0)
        return -errno;
    while (filled < size && got != 0) {
        got = read(fd, out + filled, size - filled);
        if (got < 0 && errno != EINTR)
            break;
        filled += got > 0 ? (size_t)got : 0;
    }
    int error = got < 0 ? errno : 0;
    close(fd);
    return error == 0 ? (ssize_t)filled : -error;
}

static bool refuse_file(const char *problem, char why[REDIS_WHY_SIZE])
{
    redis_explain_problem("the file with the password", problem, why);
    return false;
}

static bool read_password(const char *path, char out[REDIS_PASSWORD_SIZE], char why[REDIS_WHY_SIZE])
{
    char text[REDIS_PASSWORD_SIZE + 2];
    ssize_t bytes = read_small_file(path, text, sizeof text - 1);
    if (bytes < 0)
        return refuse_file(strerror((int)-bytes), why);
    text[bytes] = '\0';
    size_t length = strcspn(text, "\r\n");
    bool is_short = length > 0 && length < REDIS_PASSWORD_SIZE;
    if (is_short) {
        memcpy(out, text, length);
        out[length] = '\0';
    }
    explicit_bzero(text, sizeof text);
    return is_short || refuse_file(length == 0 ? "is empty" : "is longer than 4096 bytes", why);
}

bool redis_login_read(const struct redis_login *login, struct redis_login *out, char why[REDIS_WHY_SIZE])
{
    *out = *login;
    if (login->password_file[0] == '\0' || read_password(login->password_file, out->password, why))
        return true;
    redis_login_clear(out);
    return false;
}

void redis_login_clear(struct redis_login *login)
{
    explicit_bzero(login, sizeof *login);
}
