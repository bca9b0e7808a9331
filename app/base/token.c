/* SPDX-License-Identifier: MIT */
/*
 * token.c - reading and comparing.
 */
#include "app/base/token.h"

#include "app/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
        return refuse(of, "not a regular file");
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

/* Takes equally long for all texts of one length. */
bool token_matches(const struct token *token, const char *given)
{
    char padded[TOKEN_BYTES_MAX + 1] = "";
    const size_t bytes = strlen(given);
    volatile unsigned char difference = bytes != token->bytes;

    memcpy(padded, given, bytes < TOKEN_BYTES_MAX ? bytes : TOKEN_BYTES_MAX);
    for (size_t i = 0; i < sizeof(padded); i++)
        difference = difference | (unsigned char)(padded[i] ^ token->text[i]);
    return difference == 0;
}

void token_clear(struct token *token)
{
    explicit_bzero(token, sizeof(*token));
}
