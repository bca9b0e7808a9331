/* SPDX-License-Identifier: MIT */
/*
 * http_parse.h - reads HTTP/1.x responses from bytes as they come.
 *
 *     HEAD --+--> FIXED ----------------------------------------+--> DONE
 *            +--> CHUNK_SIZE <--> CHUNK_DATA ... --> TRAILER ---+
 *            +--> UNTIL_CLOSE ------------- http_parse_end() ---+
 *            +--> HEAD again after a 1xx
 *     any state --> BAD
 *
 * No I/O: bytes go in through http_parse_feed(), body bytes come out through the callback. One parser reads
 * one response after another; http_parse_next() begins the next one and keeps the memory.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum http_parse_state {
    HTTP_PARSE_HEAD = 0,    /* status line and headers */
    HTTP_PARSE_FIXED,       /* body of Content-Length */
    HTTP_PARSE_CHUNK_SIZE,  /* the line before a chunk, or the empty one behind it */
    HTTP_PARSE_CHUNK_DATA,  /* bytes of a chunk */
    HTTP_PARSE_TRAILER,     /* lines after the last chunk */
    HTTP_PARSE_UNTIL_CLOSE, /* body that ends with the connection */
    HTTP_PARSE_DONE,        /* the response is complete */
    HTTP_PARSE_BAD,         /* not HTTP, or cut short; also a 101: what follows it is not HTTP */
};

/* `bytes` are lent until it returns. */
typedef void http_parse_body(void *context, const char *bytes, size_t count);

/* Read what you like; written by the functions below only. */
struct http_parse {
    enum http_parse_state state;
    uint16_t status;     /* of the final response, from the end of the head on */
    bool keeps_alive;    /* the connection may be used again after DONE */
    bool answers_head;   /* the request was HEAD: there is no body, whatever the headers say */
    uint64_t body_bytes; /* so far */

    char *head; /* owned; status line and headers, NUL-terminated once they are complete */
    size_t head_bytes, head_capacity;

    uint64_t left_bytes; /* of the body or chunk */
    char line[64];       /* a chunk's size or a trailer, as much as is here */
    size_t line_bytes;
    bool inside_chunk; /* the next line must be the empty one behind a chunk */

    http_parse_body *body; /* may be NULL */
    void *context;         /* lent until http_parse_clear() */
};

void http_parse_init(struct http_parse *parse, http_parse_body *body, void *context);
void http_parse_clear(struct http_parse *parse);

/* Ready for the response to the next request. */
void http_parse_next(struct http_parse *parse, bool answers_head);

/* Returns how many bytes were used: fewer than count only in DONE and BAD. */
size_t http_parse_feed(struct http_parse *parse, const char *bytes, size_t count);

/* The connection ended: what was open until then is DONE, what was not complete is BAD. */
void http_parse_end(struct http_parse *parse);

/*
 * Looks a header up in a complete head, without regard to case. The value's own bytes within `head`, not
 * terminated, *count of them; NULL: not there. The first, if there are several.
 */
const char *http_parse_header(const char *head, const char *name, size_t *count);

/* The value as a text, cut to fit; "" if there is no such header, or no head (NULL). Returns `value`. */
const char *http_parse_value(const char *head, const char *name, char *value, size_t value_bytes);
