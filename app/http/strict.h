/* SPDX-License-Identifier: MIT */
/*
 * strict.h - has libmicrohttpd refuse what RFC 9112 refuses, whichever it is: what differs between 0.9.75 and 1.0 is
 * here.
 *
 * From 0.9.77.1 on it has a level of discipline that refuses folded lines, bare LFs and CRs, NULs, blanks around
 * names and the like by itself, with an answer of its own, or (a NUL in the request line) by closing without one.
 * 0.9.75 takes all of that, so it is found in what it leaves behind (left.h). On both, names and values are judged by
 * head.h.
 *
 * Threads: that of the connection.
 */
#ifndef APP_STRICT_H
#define APP_STRICT_H

#include "app/http/head.h"

#include <microhttpd.h>

/* For MHD_OPTION_ARRAY, of each daemon whose heads are judged. */
const struct MHD_OptionItem *strict_options(void);

/* Where libmicrohttpd has left the parts of the request line. */
struct strict_line {
    const char *method, *uri, *version;
    const char *uri_end; /* head_target_end(), of the URI while it was still as it came */
};

/* When the head is complete and nothing is answered yet. False: it is no head of HTTP/1.1, and nothing of *out
 * counts. */
bool strict_head(struct MHD_Connection *connection, const struct strict_line *line, struct head *out);

#endif
