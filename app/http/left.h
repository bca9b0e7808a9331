/* SPDX-License-Identifier: MIT */
/*
 * left.h - whether the fields that libmicrohttpd 0.9.75 lists are all that the head of a request was.
 *
 * It takes any bytes up to a colon for a name, any but NUL and LF for a value, a bare LF or a NUL for the end of a
 * line, and joins lines that begin with a space. But it works in the buffer that it reads into, and leaves behind:
 *
 *     GET /ping HTTP/1.1 CR LF Host: shop CR LF X:a CR LF CR LF
 *     GET|/ping|HTTP/1.1 |  |  Host| shop |  |  X|a |  |  |  |       | is a NUL
 *                        ^ from here to the end it is judged
 *
 * So each field must stand where the one before it ended. NULs from the sender show, because there are too many; only
 * one that makes up for the CR that a bare LF lacks cannot be told from it. Nor can a line of one colon and a bare
 * LF, which libmicrohttpd takes for the empty one, nor bare LFs before the request line.
 *
 *     left_begin() -> left_field() for each that libmicrohttpd lists, in its order -> left_end()
 *
 * No call of libmicrohttpd shows any of that: a folded Content-Length, say, is listed as a header of another name,
 * and what a proxy took for its body would be carried out. So this is the one place that compares pointers into its
 * buffer.
 *
 * Only strict.c calls it, and only where libmicrohttpd is that old. Pure, any thread.
 */
#ifndef APP_LEFT_H
#define APP_LEFT_H

#include <stdbool.h>
#include <stddef.h>

struct left {
    const char *at, *end; /* what is still to be judged; at: NULL once something was wrong */
};

/* `from`: the NULs behind the version and all up to the end; lent until left_end(). */
void left_begin(struct left *left, const char *from, size_t bytes);
void left_field(struct left *left, const char *name, size_t name_bytes, const char *value,
                size_t value_bytes);
/* False: there was more than was listed, or something else. */
bool left_end(const struct left *left);

#endif
