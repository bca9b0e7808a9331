/* SPDX-License-Identifier: MIT */
/*
 * wake.h - what the processes of a namespace tell each other, and hearing it. Hints only: waiters also poll.
 *
 *   f <tag of the lease> <encoded key>[ <entry>]   a load has stored a value. Behind the key may stand the entry as
 *                                                  it is in Redis: if a waiter has asked for it, and it is small
 *   r <tag of the lease> <encoded key>[ <entry>]   a lease was given back without a value. Behind the key may stand
 *                                                  what was loaded, and not stored: for those that wait for it
 *   i - <encoded key>                              the key was invalidated
 *   t - <encoded tag>                              the tag was invalidated
 *   p - <waiter>                                   a load permit is free for that process
 *   e - *                                          all entries of the namespace were dropped
 *
 * They go over one subscription, see redis/subscription.h. Pure.
 */
#pragma once

#include "../core/core.h"

enum message_kind {
    MESSAGE_NONE = 0,
    MESSAGE_FILLED = 'f',
    MESSAGE_RELEASED = 'r',
    MESSAGE_INVALIDATED = 'i',
    MESSAGE_TAG = 't',
    MESSAGE_PERMIT = 'p',
    MESSAGE_CLEARED = 'e',
};

enum { MESSAGE_SIZE = KEY_ENCODED_MAX + TOKEN_TAG_BYTES + 8 };

/* Writes one that has a lease tag (TOKEN_TAG_BYTES) or, with NULL, a dash. Returns its length. */
size_t message_write(enum message_kind kind, const char *lease_tag, const char *subject,
                     char out[MESSAGE_SIZE]);

struct message {
    enum message_kind kind;
    /* encoded key or tag, or waiter; points into the payload */
    const char *subject;
    size_t subject_bytes;
    const char *lease_tag; /* TOKEN_TAG_BYTES hex digits; NULL: there is none */
    const char *entry;     /* FILLED: what was stored; RELEASED: what is shared; NULL: nothing came */
    size_t entry_bytes;
};
/* Anything that is not one of ours is MESSAGE_NONE. */
struct message message_read(const char *payload, size_t payload_bytes);

/* Reads the entry of a message that has a lease_tag and one. *value holds a reference for the caller to give back, or
 * NULL. False: it is damaged, of another key or, because it lives longer than max_value_ms, not to be believed
 * without asking Redis; the message is worth no more than one without. */
bool message_read_entry(const struct message *message, const struct core_key *key, uint64_t max_value_ms,
                        struct core_reply *out, struct value **value);

/* Whether this is the tag of a lease. */
bool message_is_lease_tag(const char *text, size_t bytes);
