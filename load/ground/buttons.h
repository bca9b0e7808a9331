/* SPDX-License-Identifier: MIT */
/*
 * buttons.h - what the page can ask for: POST /act with {"do": WORD, ...}.
 *
 *     rush        requests (1 to 3000), many, warm; mode: set before; hit: "kill" or "pause", what happens to the process
 *                 that loads; step: of the page's guide that it is for
 *     compare     requests
 *     deed        name: one of deeds.c
 *     hit         verb: "kill" or "pause", the process that loads
 *     set         mode, delay_ms
 *     rate        per_second (0 to 2000)
 *     change, buy, expire, invalidate, mend
 *
 * Threads: any. It may block for some seconds: what a client of the service would wait for.
 */
#ifndef LOAD_GROUND_BUTTONS_H
#define LOAD_GROUND_BUTTONS_H

#include "load/ground/state.h"

enum { BUTTONS_WHY_BYTES = 240 };

/* The status: 200, or why not. */
unsigned buttons_press(struct ground *ground, const char *body, size_t body_bytes,
                       char why[static BUTTONS_WHY_BYTES]);

#endif
