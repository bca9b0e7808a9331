/* SPDX-License-Identifier: MIT */
/*
 * left_head.h - what libmicrohttpd 0.9.75 makes of the lines of a head, and what is then judged of them.
 *
 * Pure, any thread.
 */
#pragma once

#include "app/http/head.h"

/* `text` is what follows the version, NUL-terminated behind its `bytes`, and is worked upon in place. False: no
 * request comes of it, it is not whole or libmicrohttpd refuses it. True: *end is where the head ends, *sound whether
 * it is a head of HTTP/1.1. */
bool left_head(char *text, size_t bytes, size_t *end, struct head *out, bool *sound);
