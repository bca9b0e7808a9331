/* SPDX-License-Identifier: MIT */
/*
 * ask.h - guard_get() and its kin: a request is checked, answered from the near cache, or made into gets with tickets
 * that are on their way.
 *
 *     ask_check() -> ask() -> near -- all of it ------------------------------> NOW
 *                               |
 *                               +---- gets, one ticket -- of a host's loop ---> loop
 *                                                      -- of any thread ------> mailbox
 *
 * One key is one get. Of several, those that the near cache does not answer are gets that are answered together:
 * callback.h.
 *
 * Threads  that of the request's loop; without one, any.
 */
#pragma once

#include "load.h"

/* What is wrong with the request, a static text, which has been said in the log; NULL: nothing. blocks: its thread
 * waits for the answer. */
const char *ask_check(struct guard *guard, const struct guard_request *request, const char *function,
                      bool blocks);
/* Several keys, or tags. */
struct ask_keys {
    const char *const *keys;
    const size_t *bytes; /* NULL: they are NUL-terminated */
    size_t count;
    bool are_tags;
};
/* Likewise of these; the log names the one that is wrong. */
const char *ask_check_keys(struct guard *guard, const struct ask_keys *keys, const char *function);

/*
 * For guard_request.flags, of our own:
 *
 * REFRESHES  Its load is queued behind those of users. It is asked for on the guard's own loop; request->loop is no
 *            more than where a kind that is GUARD_ON_LOOP loads.
 * LENDS      The context is a struct blocking, whose thread runs the load that it starts.
 */
enum { ASK_REFRESHES = 0x100, ASK_LENDS = 0x200 };

/* guard_get() of a request that was checked. parent NULL: it comes from no load. */
enum guard_status ask(struct guard *guard, const struct guard_request *request,
                      const struct parent_load *parent, struct guard_result *results, guard_ticket *ticket);

/* A hit of the near cache, whose value is the caller's. The key was checked. */
bool ask_near(struct guard *guard, const struct guard_kind *kind, const char *key, size_t key_bytes,
              struct guard_result *result);
