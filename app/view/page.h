/* SPDX-License-Identifier: MIT */
/*
 * page.h - the live view's page, in one answer: what page.html, view.css, widgets.js and page.js are becomes bytes in
 * the build (load/embed.sh).
 *
 * It holds no data, so it needs no token: its script asks for one when /live does. Its policy allows that script and no
 * other, requests to this listener and to no other, and no frame around it.
 *
 * Threads: that of the connection. False: nothing could be queued; close the connection.
 */
#ifndef APP_PAGE_H
#define APP_PAGE_H

#include <microhttpd.h>
#include <stdbool.h>

bool page_answer(struct MHD_Connection *connection);

#endif
