/* SPDX-License-Identifier: MIT */
/*
 * site.h - what a browser may be made to ask by a page that is not ours, while an operator may.
 *
 * No answer allows another site to read it (there is no CORS header), but a page may send what it cannot read: a browser
 * says so with Sec-Fetch-Site. A page whose own name resolves to this machine is of the same site to the browser: its Host
 * is that name. A token stops both; without one these two do.
 *
 * Pure but for the connection, whose thread it is on.
 */
#ifndef APP_SITE_H
#define APP_SITE_H

#include <microhttpd.h>
#include <stdbool.h>

/* A browser says that another site's page asks. */
bool site_is_foreign(struct MHD_Connection *connection);
/* Host is a numeric address or localhost, with or without a port. */
bool site_host_is_address(struct MHD_Connection *connection);

#endif
