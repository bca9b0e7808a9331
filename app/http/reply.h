/* SPDX-License-Identifier: MIT */
/*
 * reply.h - answers and requests as libmicrohttpd knows them; used by every listener.
 *
 * Threads: that of the connection.
 */
#pragma once

#include "app/base/token.h"
#include "app/http/answer.h"
#include "app/http/shelf.h"
#include "app/http/strict.h"

#include <microhttpd.h>
#include <stdbool.h>

/* Queues the answer, without its body if the request is a HEAD; 304 if the client holds it already. Takes the
 * answer's `body`. *status: what was sent. False: no memory, or the connection cannot take it; close it. */
bool reply_queue(struct MHD_Connection *connection, struct answer *answer, unsigned *status);

/*
 * The same for a value whose response is prepared. wish->held: whether the request has an If-None-Match; becomes
 * whether the client holds it. NULL: it is not prepared, or cannot be queued; reply_queue() knows. Otherwise
 * shelf_sent() is due.
 */
struct prepared *reply_queue_prepared(struct MHD_Connection *connection, struct shelf *shelf,
                                      struct shelf_wish *wish, unsigned *status);

/* A document of the program's own. All texts are copied; `header` is one more, or NULL. */
struct reply_document {
    unsigned status;
    const char *content_type, *body;
    const char *header, *header_value;
};
bool reply_document(struct MHD_Connection *connection, const struct reply_document *document);

/*
 * True if the head is not one of HTTP/1.1 (strict.h), announces a body, frames one in a way that two parsers could
 * read differently, or lacks what its version demands; *problem says which. Call it before anything is answered, and
 * close the connection with the refusal. *names counts unless the problem is PROBLEM_FRAMING.
 */
bool reply_refuses_head(struct MHD_Connection *connection, const struct strict_line *line,
                        enum problem *problem, struct head_names *names);

/*
 * libmicrohttpd answers a Content-Length that is not a number by itself (0.9.75 writes the head of that answer
 * twice), but it logs a complaint first. If reply_complains_of_length(), the logger calls reply_refuse_length() for
 * each connection that may be meant. Its status, if it was this one: it was answered under this name ("": none) and
 * shut down, so that nothing more can be sent. 0: it was not.
 */
bool reply_complains_of_length(const char *format);
unsigned reply_refuse_length(struct MHD_Connection *connection, const char *request);

/* For MHD_OPTION_UNESCAPE_CALLBACK: leaves every byte as it came, so that encoded bytes can be refused. */
size_t reply_keep_raw(void *nothing, struct MHD_Connection *connection, char *text);

/* For MHD_OPTION_EXTERNAL_LOGGER: one line in the log. */
void reply_log(const char *format, va_list arguments) __attribute__((format(printf, 1, 0)));

/* ---- past the cache ---- */

/*
 * May this request ask past the cache? `Cache-Control: no-cache` from anybody would force a load each time; so it
 * counts only beside `Revalidate-Token:` with the token of REVALIDATE_TOKEN_FILE. A wrong token is none: the request
 * is answered as any other.
 */

bool revalidate_wanted(struct MHD_Connection *connection, const struct token *token);
/* One Cache-Control line has the directive no-cache, without a value. Pure. */
bool revalidate_is_asked(const char *cache_control);
