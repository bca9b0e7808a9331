/* SPDX-License-Identifier: MIT */
/*
 * buttons.h - what the page can ask for: POST /act with {"do": WORD, ...}.
 *
 *     rush        requests (1 to 3000), many, warm; mode: set before; hit: "kill" or "pause", what happens to the
 *                 process that loads; step: of the page's guide that it is for
 *     deed        name: one of deeds.c
 *     hit         verb: "kill" or "pause", the process that loads
 *     set         mode, delay_ms
 *     rate        per_second (0 to 2000)
 *     change, buy, expire, invalidate, mend
 *
 * Threads: any. It may block for some seconds: what a client of the service would wait for.
 */
#pragma once

#include "load/ground/state.h"

#include <stdint.h>

enum { BUTTONS_WHY_BYTES = 240 };

/* The status: 200, or why not. */
unsigned buttons_press(struct ground *ground, const char *body, size_t body_bytes,
                       char why[static BUTTONS_WHY_BYTES]);

/* ---- who may press ---- */

/*
 * May this request do what it asks for? The playground listens on loopback, but so does every page in the browser
 * of whoever plays with it: another page must not press its buttons, be it by a form, by a script or through a name
 * that was made to point at 127.0.0.1.
 *
 *     Host           127.0.0.1, localhost or [::1] and our port: else a name was pointed at us (DNS rebinding)
 *     token          "Authorization: Bearer", which no other origin may send without asking us first, and we say no
 *     Origin         http:// and that Host: else another page sends it
 *     Content-Type   application/json: else a form could
 *
 * Reading the page takes the first of them, its stream the first two and an Origin, if there is one, of ours; a
 * button all four. Pure.
 */

enum { GATE_TOKEN_BYTES = 33 };

enum gate_wish { GATE_PAGE, GATE_STREAM, GATE_BUTTON };

/* Headers as they came; NULL: there was none. */
struct gate_request {
    const char *host, *origin, *authorization, *content_type;
};

/* 0, or the status to refuse it with, and why: a text that stays. */
unsigned gate_judge(enum gate_wish wish, const struct gate_request *request, uint16_t port, const char *token,
                    const char **why);
