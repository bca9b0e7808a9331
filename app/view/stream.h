/* SPDX-License-Identifier: MIT */
/*
 * stream.h - GET /live: samples (live.h), one JSON object a line, for as long as the viewer reads.
 *
 *     200 application/x-ndjson, chunked: a line at once, then one every `every_ms`, until the viewer goes, the
 *         process shuts down (the last line says so), or the viewer takes nothing for STREAM_PATIENCE_MS more than a
 *         period
 *     503 there are STREAM_VIEWERS already, all of which read; or the process is shutting down
 *     400 every_ms is no number from STREAM_EVERY_MIN_MS to STREAM_EVERY_MAX_MS, or there are other arguments
 *
 * A sample is made when it is sent, so nothing is done while nobody looks. A viewer that is behind by
 * STREAM_PATIENCE_MS makes way when another one comes.
 *
 * Threads: stream_begin() on that of the connection, which the stream keeps; the rest on any.
 * Lifetime: stream_end() before MHD_stop_daemon(), stream_clear() after it.
 */
#pragma once

#include "app/view/live.h"

#include <microhttpd.h>
#include <stdatomic.h>
#include <stdbool.h>

enum {
    STREAM_VIEWERS = 4,
    STREAM_EVERY_MIN_MS = 100,
    STREAM_EVERY_MS = 1000,
    STREAM_EVERY_MAX_MS = 60000,
    STREAM_PATIENCE_MS = 3000,
};

struct stream {
    /* Lent, like its context. Fills in everything. */
    void (*collect)(void *context, struct live_sample *out);
    void *context;
    struct live_about about;
    int ended_fd; /* readable: streams end */
};

/* After `collect`, `context` and `about` have been set. False: no descriptor. */
bool stream_init(struct stream *stream);
/* All streams end with one more line, and there are no new ones. Any number of times. */
void stream_end(struct stream *stream);
void stream_clear(struct stream *stream);

/* False: what the request has is no period. */
bool stream_every_ms(struct MHD_Connection *connection, uint32_t *out);
/* The first line, and all others. behind_ms: from then on it is behind; put off with each line, and lent until the
 * connection is closed. False: no memory; close the connection. */
bool stream_begin(struct stream *stream, struct MHD_Connection *connection, uint32_t every_ms,
                  _Atomic uint64_t *behind_ms);

/* ---- the page ---- */

/*
 * The live view's page, in one answer: what page.html, view.css, widgets.js and page.js are becomes bytes in
 * the build (load/embed.sh).
 *
 * It holds no data, so it needs no token: its script asks for one when /live does. Its policy allows that script and
 * no other, requests to this listener and to no other, and no frame around it.
 *
 * Threads: that of the connection. False: nothing could be queued; close the connection.
 */

bool page_answer(struct MHD_Connection *connection);
