/* SPDX-License-Identifier: MIT */
/*
 * revalidate.h - may this request ask past the cache?
 *
 * `Cache-Control: no-cache` from anybody would force a load each time; so it counts only beside `Revalidate-Token:` with
 * the token of REVALIDATE_TOKEN_FILE. A wrong token is none: the request is answered as any other.
 *
 * Threads: that of the connection; revalidate_is_asked() is pure.
 */
#ifndef APP_REVALIDATE_H
#define APP_REVALIDATE_H

#include "app/base/token.h"

#include <microhttpd.h>
#include <stdbool.h>

bool revalidate_wanted(struct MHD_Connection *connection, const struct token *token);
/* One Cache-Control line has the directive no-cache, without a value. */
bool revalidate_is_asked(const char *cache_control);

#endif
