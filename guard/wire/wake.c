/* SPDX-License-Identifier: MIT */
/* wake.c - see wake.h. */
#include "wake.h"
#include "../base/load_id.h"
#include "envelope.h"
#include <stdio.h>
#include <string.h>

/* ---- messages ---- */

_Static_assert((int)TAGS_ENCODED_MAX <= (int)KEY_ENCODED_MAX, "a message has room for a tag, too");

size_t message_write(enum message_kind kind, const char *lease_tag, const char *subject,
                     char out[MESSAGE_SIZE])
{
    int tag_bytes = lease_tag != NULL ? TOKEN_TAG_BYTES : 1;
    return (size_t)snprintf(out, MESSAGE_SIZE, "%c %.*s %s", (char)kind, tag_bytes,
                            lease_tag != NULL ? lease_tag : "-", subject);
}

bool message_is_lease_tag(const char *text, size_t bytes)
{
    static const char digits[] = "0123456789abcdef";
    size_t at = 0;
    while (at < bytes && text[at] != '\0' && strchr(digits, text[at]) != NULL)
        at++;
    return bytes == TOKEN_TAG_BYTES && at == bytes;
}

static enum message_kind kind_of(char operation)
{
    switch ((enum message_kind)operation) {
    case MESSAGE_FILLED:
    case MESSAGE_RELEASED:
    case MESSAGE_INVALIDATED:
    case MESSAGE_TAG:
    case MESSAGE_PERMIT:
    case MESSAGE_CLEARED:
        return (enum message_kind)operation;
    case MESSAGE_NONE:
        break;
    }
    return MESSAGE_NONE;
}

/* The key, and what travels behind it. No encoded key has a space. */
static void split_entry(struct message *message)
{
    const char *space = memchr(message->subject, ' ', message->subject_bytes);
    if (space == NULL)
        return;
    size_t key_bytes = (size_t)(space - message->subject);
    message->entry = space + 1;
    message->entry_bytes = message->subject_bytes - key_bytes - 1;
    message->subject_bytes = key_bytes;
}

struct message message_read(const char *payload, size_t payload_bytes)
{
    struct message none = {.kind = MESSAGE_NONE};
    if (payload_bytes < 3 || payload[1] != ' ')
        return none;
    struct message message = {
        .kind = kind_of(payload[0]), .subject = payload + 2, .subject_bytes = payload_bytes - 2};
    if (message.kind == MESSAGE_NONE)
        return none;
    const char *space = memchr(message.subject, ' ', message.subject_bytes);
    if (space == NULL)
        return none;
    if (message_is_lease_tag(message.subject, (size_t)(space - message.subject)))
        message.lease_tag = message.subject;
    message.subject_bytes -= (size_t)(space + 1 - message.subject);
    message.subject = space + 1;
    if (message.kind == MESSAGE_FILLED || message.kind == MESSAGE_RELEASED)
        split_entry(&message);
    return message.subject_bytes > 0 ? message : none;
}

bool message_read_entry(const struct message *message, const struct core_key *key, uint64_t max_value_ms,
                        struct core_reply *out, struct value **value)
{
    struct envelope envelope;
    *value = NULL;
    if (envelope_read(message->entry, message->entry_bytes, key->plain, key->plain_bytes, &envelope) !=
            ENVELOPE_OK ||
        envelope.px_ms > max_value_ms) /* acquire clamps the TTL of such a one */
        return false;
    bool has_body = !envelope.absent && !envelope.mark;
    if (has_body)
        *value = envelope_value(&envelope);
    *out = (struct core_reply){.kind = REPLY_FRESH,
                               .lease_tag = message->lease_tag,
                               .tags = envelope.tags,
                               .tags_bytes = envelope.tags_bytes,
                               .born = envelope.born,
                               .value = *value,
                               .absent = envelope.absent,
                               .load = load_id_of_uuid(envelope.filler),
                               .mark = envelope.mark,
                               .shared = message->kind == MESSAGE_RELEASED,
                               .left_ms = (uint32_t)(envelope.px_ms - envelope.stale_ms)};
    return !has_body || *value != NULL;
}
