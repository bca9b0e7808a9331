/* SPDX-License-Identifier: MIT */
/*
 * cache_status.h - reads the Cache-Status header (RFC 9211) of a response or, where there is none, what nginx,
 * Varnish, Squid and CDNs say in a word: CF-Cache-Status, X-Cache-Status, X-Cache.
 *
 * The header is a list of caches, the one closest to the client last: that one counts, for it decided what the
 * client got. Of what it says the first of these counts: "collapsed"; a stale answer ("fwd=stale", or a hit with a
 * negative ttl); "hit"; another "fwd=".
 */
#pragma once

#include "load/herd/record.h"

#include <stddef.h>

/* `head`: status line and headers, NUL-terminated; repeated headers are one list. */
enum record_cache cache_status_read(const char *head);

/* One header's value; not terminated. */
enum record_cache cache_status_of(const char *value, size_t count);
