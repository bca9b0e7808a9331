/* SPDX-License-Identifier: MIT */
/*
 * asker.h - what a load may know of the request that started it: the token that its client sent, and which request it
 * is (trace.h).
 *
 * Threads: any. Ownership: counted; whoever has a reference gives it back.
 */
#pragma once

#include "app/base/trace.h"

enum { ASKER_TOKEN_MAX = 256 };

struct asker;

/*
 * `authorization`: NULL, or a header of which `Bearer TOKEN` counts, a token of 1 to ASKER_TOKEN_MAX printable ASCII
 * characters: a client without one sees what all see. `trace`: copied. NULL: there is nothing to know, or no memory.
 */
struct asker *asker_new(const char *authorization, const struct trace *trace);
/* For guard_request.asker_ref and asker_unref. */
void asker_ref(void *asker);
void asker_unref(void *asker);
/* "" if asker is NULL. */
const char *asker_token(const struct asker *asker);
/* Empty if asker is NULL. Lent until the last reference is given back. */
const struct trace *asker_trace(const struct asker *asker);
