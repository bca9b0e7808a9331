/* SPDX-License-Identifier: MIT */
/*
 * head.h - judges the head of a request byte for byte, as RFC 9112 has it and not as a tolerant parser does.
 *
 * Two parsers that read a head differently disagree on where the request ends, and what one takes for a body the other
 * executes. libmicrohttpd 0.9.75 takes any bytes up to a colon for a name, any but NUL and LF for a value, a bare LF or
 * a NUL for the end of a line, and joins lines that begin with a space. But it works in the buffer that it reads into,
 * and leaves behind:
 *
 *     GET /ping HTTP/1.1 CR LF Host: shop CR LF X:a CR LF CR LF
 *     GET|/ping|HTTP/1.1 |  |  Host| shop |  |  X|a |  |  |  |       | is a NUL
 *                        ^ from here to the end it is judged
 *
 * So each line is judged where libmicrohttpd says that it found it, and must end where the next one begins. NULs from
 * the sender show, because there are too many; only one that makes up for the CR that a bare LF lacks cannot be told
 * from it. Nor can a line of one colon and a bare LF, which libmicrohttpd takes for the empty one, nor bare LFs before
 * the request line.
 *
 *     head_begin() -> head_line() for each that libmicrohttpd lists, in its order -> head_end()
 *
 * Pure, any thread.
 */
#ifndef APP_HEAD_H
#define APP_HEAD_H

#include <stdbool.h>
#include <stddef.h>

/* What a request says of itself, unjudged. Names: where libmicrohttpd has left them; NULL: none; "": more than one. */
struct head_names {
    const char *request, *trace; /* X-Request-Id, traceparent */
    bool is_conditional;         /* there is an If-None-Match */
};

/* What a head says about where its request ends, which host it is for, and what it is called. */
struct head {
    const char *at, *end;               /* what is still to be judged; at: NULL once something was wrong */
    unsigned lengths, encodings, hosts; /* lines of Content-Length, Transfer-Encoding, Host */
    bool length_is_wrong;               /* one is no number */
    bool has_body;                      /* one is not 0 */
    struct head_names names;
};

/* `left`: the NULs behind the version and all up to the end; lent until head_end(). */
void head_begin(struct head *head, const char *left, size_t bytes);
void head_line(struct head *head, const char *name, const char *value);
/* False: it is no head of HTTP/1.1. */
bool head_end(const struct head *head);

/* The NUL behind a request target as it came; NULL: a space or a control character is in it. */
const char *head_target_end(const char *target);
/* All of text[0..bytes) are characters of a token, and there is one. */
bool head_is_token(const char *text, size_t bytes);

#endif
