/* SPDX-License-Identifier: MIT */
/*
 * strict.h - has libmicrohttpd refuse what RFC 9112 refuses, whichever it is: what differs between 0.9.75 and 1.0 is
 * here.
 *
 * From 0.9.77.1 on it has a level of discipline that refuses folded lines, bare LFs and CRs, NULs, blanks around
 * names and the like by itself, with an answer of its own, or (a NUL in the request line) by closing without one.
 * 0.9.75 takes all of that, so it is found in what it leaves behind (below). On both, names and values are judged by
 * head.h.
 *
 * Threads: that of the connection.
 */
#pragma once

#include "app/http/head.h"

#include <microhttpd.h>

#include <stdbool.h>
#include <stddef.h>

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

/* ---- what 0.9.75 leaves behind ---- */

/*
 * Whether the fields that libmicrohttpd 0.9.75 lists are all that the head of a request was.
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
 * and what a proxy took for its body would be carried out. MHD_OPTION_STRICT_FOR_CLIENT takes folds, too. The length
 * of the head (MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE) beside those of the fields decides nothing: as many blanks as
 * one likes may follow a colon, and CR, LF and blank of a fold look like three of them. So this is the one place that
 * compares pointers into its buffer.
 *
 * Only where libmicrohttpd is that old. Pure, any thread.
 */

struct left {
    const char *at, *end; /* what is still to be judged; at: NULL once something was wrong */
};

/* `from`: the NULs behind the version and all up to the end; lent until left_end(). */
void left_begin(struct left *left, const char *from, size_t bytes);
void left_field(struct left *left, const char *name, size_t name_bytes, const char *value,
                size_t value_bytes);
/* False: there was more than was listed, or something else. */
bool left_end(const struct left *left);
