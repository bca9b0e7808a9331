/* SPDX-License-Identifier: MIT */
/*
 * ops_reply.h - the answers of the operations listener: JSON, and refusals as problem documents; its arguments; and
 * what a browser may be made to ask by a page that is not ours, while an operator may.
 *
 * No answer allows another site to read it (there is no CORS header), but a page may send what it cannot read: a
 * browser says so with Sec-Fetch-Site. A page whose own name resolves to this machine is of the same site to the
 * browser: its Host is that name. A token stops both; without one these two do.
 *
 * Threads: that of the connection. What returns bool is false if nothing could be queued: close the connection.
 */
#pragma once

#include "guard/guard.h"

#include <jansson.h>
#include <microhttpd.h>
#include <stdbool.h>

/* Takes `json`; NULL means that there was no memory. */
bool ops_send(struct MHD_Connection *connection, unsigned status, json_t *json);

struct ops_refusal {
    unsigned status;
    const char *title, *detail;
    const char *header, *header_value; /* one more, or NULL */
};
bool ops_refuse(struct MHD_Connection *connection, const struct ops_refusal *refusal);
/* Of a change of the cache that did not end with OK. */
bool ops_refuse_status(struct MHD_Connection *connection, enum guard_status status);

/* For MHD_OPTION_UNESCAPE_CALLBACK: %3A becomes ":". A text with something else behind a "%", or with a NUL, stays as
 * it came, and so no key and no setting. */
size_t ops_decode(void *nothing, struct MHD_Connection *connection, char *text);

/* How many arguments the request has, whatever they are called. */
unsigned ops_argument_count(struct MHD_Connection *connection);
/* The first one of this name; NULL: there is none. */
const char *ops_argument(struct MHD_Connection *connection, const char *name);

/* A browser says that another site's page asks. */
bool ops_is_foreign(struct MHD_Connection *connection);
/* Host is a numeric address or localhost, with or without a port. */
bool ops_host_is_address(struct MHD_Connection *connection);
