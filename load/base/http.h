/* SPDX-License-Identifier: MIT */
/*
 * http.h - one HTTP request at a time, blocking, each over a connection of its own.
 *
 * Threads: any. Hosts are numeric or "unix:/path", see net.h.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_request {
    const char *host;
    uint16_t port;
    const char *method; /* NULL: GET */
    const char *path;
    const char *headers; /* further lines, each with its "\r\n"; NULL: none */
    const char *body;    /* NULL: none */
    size_t body_bytes;
    uint32_t deadline_ms; /* for everything, connecting included */
};

enum http_outcome {
    HTTP_ANSWERED = 0, /* a whole response */
    HTTP_UNCONNECTED,  /* refused or unreachable */
    HTTP_RESET,        /* the connection ended before the response did */
    HTTP_TIMEOUT,      /* the deadline passed */
    HTTP_BAD,          /* what came is not HTTP */
};

struct http_answer {
    enum http_outcome outcome;
    uint16_t status; /* 0 unless HTTP_ANSWERED */
    char *head;      /* owned: status line and headers; NULL if they did not arrive whole */
    char *body;      /* owned, NUL-terminated; never NULL */
    size_t body_bytes;
    uint64_t total_us;
};

/* True: answered. `*out` is set in any case and is yours: http_answer_clear(). */
bool http_ask(const struct http_request *request, struct http_answer *out);
void http_answer_clear(struct http_answer *answer);

/* The header's value, cut to fit; "" if there is none. Returns `value`. */
const char *http_header(const struct http_answer *answer, const char *name, char *value, size_t value_bytes);

/* For bad input: what came back, byte for byte. */
struct http_raw {
    char *bytes; /* owned, NUL-terminated; never NULL; http_raw_clear() */
    size_t count;
    bool connected, closed; /* closed: by the server, before the deadline */
};

/* Sends these bytes as they are and reads until the server closes or the deadline passes. */
void http_raw_ask(const char *host, uint16_t port, const char *bytes, size_t count, uint32_t deadline_ms,
                  struct http_raw *out);
void http_raw_clear(struct http_raw *raw);
