/* SPDX-License-Identifier: MIT */
/*
 * head.h - judges the names and values of a request's head byte for byte, as RFC 9110 has them and not as a tolerant
 * parser does.
 *
 * Two parsers that read a head differently disagree on where the request ends, and what one takes for a body the
 * other executes. Names and values are all that this looks at; that they are all there was, strict.h sees to.
 *
 *     a head of zeros -> head_field() for each that libmicrohttpd lists
 *
 * Pure, any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* What a request says of itself, unjudged. Names: where libmicrohttpd has left them; NULL: none; "": more
 * than one. */
struct head_names {
    const char *request, *trace; /* X-Request-Id, traceparent */
    bool is_conditional;         /* there is an If-None-Match */
};

/* What a head says about where its request ends, which host it is for, and what it is called. */
struct head {
    bool is_wrong;                      /* a byte stands where it may not: nothing else counts */
    unsigned lengths, encodings, hosts; /* lines of Content-Length, Transfer-Encoding, Host */
    bool length_is_wrong;               /* one is no number */
    bool has_body;                      /* one is not 0 */
    struct head_names names;
};

/* Both end at a NUL that is not counted; the value without the blanks in front of it. */
void head_field(struct head *head, const char *name, size_t name_bytes, const char *value,
                size_t value_bytes);

/* The NUL behind a request target as it came; NULL: a space or a control character is in it. */
const char *head_target_end(const char *target);
/* All of text[0..bytes) are characters of a token, and there is one. */
bool head_is_token(const char *text, size_t bytes);
