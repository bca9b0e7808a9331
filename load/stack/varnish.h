/* SPDX-License-Identifier: MIT */
/*
 * varnish.h - a private Varnish before one server: documents in memory.
 *
 * Requests for a document that is being fetched wait for it without being told to, and within beresp.grace an
 * expired one is served while one fetch renews it: varnish-cache.org/docs/trunk/users-guide/vcl-grace.html. Two
 * thread pools of a hundred threads, the defaults. It runs in a private folder as an ordinary user, without jail
 * and without management port. Documents go by their path alone: by Varnish's own rule a document has a copy for
 * each Host.
 *
 * Threads: as proc.h has it. Errors: false, and the reason with the end of the log on stderr.
 */
#ifndef LOAD_STACK_VARNISH_H
#define LOAD_STACK_VARNISH_H

#include "load/stack/rival.h"

struct varnish_options {
    uint16_t origin_port;
    uint32_t ttl_ms;   /* whatever the origin says for how long a client may keep its answer */
    uint32_t grace_ms; /* an expired document is served so much longer while one fetch renews it */
};

/* Returns when it answers; rival_stop() stops it. */
bool varnish_start(struct rival *varnish, const struct varnish_options *options);

#endif
