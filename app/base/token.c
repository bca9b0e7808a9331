/* SPDX-License-Identifier: MIT */
/*
 * token.c - reading and comparing.
 */
#include "app/base/token.h"

#include "app/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Between those that compare and one that replaces. */
static pthread_mutex_t replacing = PTHREAD_MUTEX_INITIALIZER;

/* What is to be read, and which setting says so. */
struct source {
    const char *setting, *path;
};

static bool refuse(struct source of, const char *why)
{
    log_event(LOG_LEVEL_ERROR, "token_file", "setting=%s path=\"%s\" reason=\"%s\"", of.setting, of.path,
              why);
    return false;
}

static bool is_printable(const char *text)
{
    while (*text > ' ' && *text <= '~')
        text++;
    return *text == '\0';
}

static bool read_line(int fd, struct source of, struct token *out)
{
    struct stat status;

    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode))
        return refuse(of, "not a regular file: name one that holds the token");
    if ((status.st_mode & (S_IRWXO | S_IWGRP)) != 0)
        return refuse(of, "others may read or write it; chmod 600 or 640");

    char text[TOKEN_BYTES_MAX + 2] = ""; /* one more than allowed, and its NUL */
    if (read(fd, text, sizeof(text) - 1) < 0)
        return refuse(of, strerror(errno));
    text[strcspn(text, "\r\n")] = '\0';
    const size_t bytes = strlen(text);
    if (bytes < TOKEN_BYTES_MIN || bytes > TOKEN_BYTES_MAX || !is_printable(text))
        return refuse(of, "its first line must be 16 to 256 printable ASCII characters without a space");
    memcpy(out->text, text, bytes);
    out->bytes = bytes;
    out->required = true;
    explicit_bzero(text, sizeof(text));
    return true;
}

bool token_read(const char *setting, const char *path, struct token *out)
{
    const struct source of = {setting, path};

    memset(out, 0, sizeof(*out));
    if (path[0] == '\0')
        return true;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return refuse(of, strerror(errno));
    const bool good = read_line(fd, of, out);
    close(fd);
    return good;
}

bool token_replace(const char *setting, const char *path, struct token *token)
{
    struct token latest;
    const bool good = token_read(setting, path, &latest);

    if (good) {
        pthread_mutex_lock(&replacing);
        token->bytes = latest.bytes;
        memcpy(token->text, latest.text, sizeof(token->text));
        pthread_mutex_unlock(&replacing);
    }
    token_clear(&latest);
    return good;
}

/* Takes equally long for all texts of one length. */
bool token_matches(const struct token *token, const char *given)
{
    char padded[TOKEN_BYTES_MAX + 1] = "";
    const size_t bytes = strlen(given);

    memcpy(padded, given, bytes < TOKEN_BYTES_MAX ? bytes : TOKEN_BYTES_MAX);
    pthread_mutex_lock(&replacing);
    volatile unsigned char difference = bytes != token->bytes;
    for (size_t i = 0; i < sizeof(padded); i++)
        difference = difference | (unsigned char)(padded[i] ^ token->text[i]);
    pthread_mutex_unlock(&replacing);
    return difference == 0;
}

void token_clear(struct token *token)
{
    explicit_bzero(token, sizeof(*token));
}
