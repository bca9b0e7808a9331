/* SPDX-License-Identifier: MIT */
/*
 * fuzz_wire.c - what comes from Redis: replies, entries, messages.
 *
 * Whoever can write to this Redis, or stands in its place, can send all of it. It may be believed and wrong;
 * it may not break us.
 */
#include "tests/fuzz/fuzz.h"

#include "guard/base/digest.h"
#include "guard/locks/lock_wire.h"
#include "guard/redis/greeting.h"
#include "guard/redis/reader.h"
#include "guard/wire/envelope.h"
#include "guard/wire/protocol.h"
#include "guard/wire/wake.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const char KEY[] = "product:7";
enum { KEY_LENGTH = sizeof KEY - 1, REPLY_LIMIT_BYTES = 1 << 20 };

/* ---- replies ---- */

/* Numbers that nobody has said are none. A mark has no life of its own. */
static void check_life(const struct entry_life *life, bool mark)
{
    assert(life->own_fresh ? life->fresh_ms < GUARD_POLICY_MS : life->fresh_ms == 0);
    assert(life->own_stale || life->stale_ms == 0);
    assert(!mark || (!life->own_fresh && !life->own_stale));
}

static void check_found(const struct core_reply *reply, const struct value *value)
{
    if (reply->damaged) {
        assert(reply->head != NULL && reply->value == NULL);
        return;
    }
    assert(!reply->absent || !reply->mark);
    assert((reply->absent || reply->mark) == (value == NULL));
    check_life(&reply->life, reply->mark);
    assert(value == NULL || value->public.body[value->public.body_bytes] == '\0');
}

/* What the core is told must be something that the core knows. */
static void check_core_reply(enum core_action_kind kind, const struct core_reply *reply,
                             const struct value *value)
{
    bool found = reply->kind == REPLY_FRESH || reply->kind == REPLY_STALE;
    assert(reply->value == value);
    if (found)
        check_found(reply, value);
    assert(found || value == NULL);
    assert(kind == CORE_ACQUIRE ? reply->kind != REPLY_CODE
                                : reply->kind == REPLY_CODE || reply->kind == REPLY_REFUSED);
    assert(reply->refresher >= REFRESH_COOLING && reply->refresher <= REFRESH_OURS);
    assert(reply->failure >= GUARD_FAILURE_NONE && reply->failure <= GUARD_FAILURE_CYCLE);
}

static void read_as_answer(const struct redisReply *reply)
{
    for (enum core_action_kind kind = CORE_ACQUIRE; kind <= CORE_PERMIT_RELEASE; kind++) {
        struct core_reply out;
        struct value *value = NULL;
        protocol_read(kind, KEY, KEY_LENGTH, REDIS_REPLIED, reply, &out, &value);
        check_core_reply(kind, &out, value);
        value_unref(&value);
    }
}

enum { FUZZ_ASKED_MAX = 8 };

static void check_lock_reply(const struct lock_asked *asked, const struct lock_reply *reply)
{
    assert((reply->kind == LOCK_UNANSWERED || reply->kind == LOCK_IMPOSSIBLE) == (reply->why != NULL));
    assert(reply->kind != LOCK_IMPOSSIBLE || asked->kind == LOCK_TAKE);
    assert(reply->kind != LOCK_UNSENT);
    assert(reply->kind != LOCK_REFUSED || asked->latch || reply->hint_ms > 0);
    assert(reply->ask_now_count <= asked->count);
    for (size_t i = 0; i < reply->ask_now_count; i++)
        assert(reply->ask_now[i] < asked->count);
    for (size_t i = 0; reply->kind == LOCK_GRANTED && !asked->latch && i < asked->count; i++)
        assert(reply->fence[i] > 0);
}

static void read_as_lock_answer(const struct redisReply *reply)
{
    struct guard_lock_view view;
    const char *why = NULL;
    for (int kind = LOCK_TAKE; kind <= LOCK_STAY; kind++)
        for (size_t count = 1; count <= FUZZ_ASKED_MAX; count++) {
            struct lock_asked asked = {(enum lock_action_kind)kind, kind != LOCK_STAY && count == 1, count};
            struct lock_reply out;
            uint32_t ask_now[FUZZ_ASKED_MAX];
            lock_wire_read(&asked, REDIS_REPLIED, reply, &out, ask_now);
            check_lock_reply(&asked, &out);
        }
    if (!lock_wire_read_look(REDIS_REPLIED, reply, &view, &why))
        assert(why != NULL);
    else
        assert(view.seen_count <= GUARD_LOCK_SEEN_MAX);
}

static void read_as_error(const struct redisReply *reply)
{
    char quoted[REDIS_WHY_SIZE];
    redis_explain(reply, "", false, quoted);
    for (const char *at = quoted; *at != '\0'; at++)
        assert(*at >= ' ' && *at <= '~');
}

/* ---- a stream of them ---- */

struct listener {
    struct redis_reader reader;
    struct redis_greeting greeting;
    bool greeted;
    unsigned replies;
};

static void read_as_greeting(struct listener *listener, const struct redisReply *reply)
{
    char why[REDIS_WHY_SIZE] = "";
    if (listener->greeted)
        return;
    enum redis_verdict verdict = redis_greeting_read(&listener->greeting, reply, why);
    listener->greeted = verdict != REDIS_GREETING_GOES_ON;
    assert(strlen(why) < sizeof why);
    bool goes_well = verdict == REDIS_GREETING_GOES_ON || verdict == REDIS_GREETING_DONE;
    assert(goes_well == (why[0] == '\0'));
}

/* What everybody who reads a reply relies on: a type of RESP2, and what goes with it. */
static void check_whole(const struct redisReply *reply)
{
    assert(reply != NULL && reply->type >= REDIS_REPLY_STRING && reply->type <= REDIS_REPLY_ERROR);
    bool text = reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS ||
                reply->type == REDIS_REPLY_ERROR;
    assert(!text || reply->str[reply->len] == '\0');
    assert(reply->type == REDIS_REPLY_ARRAY || reply->elements == 0);
    for (size_t i = 0; i < reply->elements; i++)
        check_whole(reply->element[i]);
}

static void take_reply(struct listener *listener, struct redisReply *reply)
{
    listener->replies++;
    check_whole(reply);
    read_as_greeting(listener, reply);
    read_as_answer(reply);
    read_as_lock_answer(reply);
    if (reply->type == REDIS_REPLY_ERROR)
        read_as_error(reply);
    redis_reader_free(&listener->reader, reply);
}

/* False: the stream is broken. */
static bool feed(struct listener *listener, const char *data, size_t bytes)
{
    struct redisReply *reply = NULL;
    bool sound = redis_reader_feed(&listener->reader, data, bytes);
    while (sound && (sound = redis_reader_next(&listener->reader, &reply)) && reply != NULL)
        take_reply(listener, reply);
    if (!sound)
        assert(redis_reader_error(&listener->reader)[0] != '\0');
    return sound;
}

/* How many replies there were, and whether the stream broke. */
struct heard {
    unsigned replies;
    bool sound;
};

static struct heard listen_in_pieces(const uint8_t *data, size_t bytes, size_t piece_bytes, bool subscriber)
{
    struct redis_login login = {.password = "secret"};
    struct redis_place place = {.watched = false};
    const struct redis_config config = {
        .place = &place, .database = 1, .client_name = "fuzz", .channel = subscriber ? "channel" : NULL};
    struct redis_buffer hello = {.data = NULL};
    struct listener listener = {.greeting.config = &config};
    struct heard heard = {.sound = true};
    bool made = redis_reader_open(&listener.reader, REPLY_LIMIT_BYTES, REDIS_ELEMENTS_MAX) &&
                redis_greeting_write(&listener.greeting, &login, &hello);
    assert(made);
    for (size_t at = 0; heard.sound && at < bytes; at += piece_bytes) {
        size_t left = bytes - at;
        heard.sound = feed(&listener, (const char *)data + at, left < piece_bytes ? left : piece_bytes);
    }
    heard.replies = listener.replies;
    redis_reader_close(&listener.reader);
    redis_buffer_clear(&hello);
    return heard;
}

/* Where the network cuts the stream must make no difference. */
void fuzz_reply(const uint8_t *data, size_t bytes)
{
    if (bytes < 1 || bytes > REDIS_FEED_BYTES)
        return;
    bool subscriber = (data[0] & 1) != 0;
    struct heard whole = listen_in_pieces(data + 1, bytes - 1, REDIS_FEED_BYTES, subscriber);
    struct heard parts = listen_in_pieces(data + 1, bytes - 1, 1 + data[0] % 16, subscriber);
    assert(whole.replies == parts.replies && whole.sound == parts.sound);
}

/* ---- messages ---- */

enum { MAX_VALUE_MS = 86400000 };

/* Read as if somebody waited for it. */
static void read_pushed(const struct message *message)
{
    static const struct core_key key = {"product:7", 9, "product:7", 9};
    struct core_reply pushed;
    struct value *value = NULL;
    if (message_read_entry(message, &key, MAX_VALUE_MS, &pushed, &value)) {
        assert((pushed.absent || pushed.mark) == (value == NULL) && pushed.value == value &&
               pushed.lease_tag == message->lease_tag);
        assert(pushed.shared == (message->kind == MESSAGE_RELEASED));
        assert(pushed.left_ms <= MAX_VALUE_MS);
    } else {
        assert(value == NULL);
    }
    value_unref(&value);
}

static void read_as_lock_message(const char *payload, size_t bytes)
{
    struct lock_message message;
    if (!lock_message_read(payload, bytes, &message))
        return;
    assert(message.encoded + message.encoded_bytes == payload + bytes);
    assert(message.encoded_bytes >= 1 && message.encoded_bytes <= KEY_ENCODED_MAX);
    assert(message.uuid == NULL || message.uuid == payload + 2);
}

void fuzz_message(const uint8_t *data, size_t bytes)
{
    char *payload = fuzz_text(data, bytes);
    read_as_lock_message(payload, bytes);
    struct message message = message_read(payload, bytes);
    if (message.kind != MESSAGE_NONE) {
        assert(message.subject >= payload && message.subject_bytes > 0);
        const char *end = message.entry != NULL ? message.entry + message.entry_bytes : payload + bytes;
        size_t between = message.entry != NULL ? 1 : 0;
        assert(end == payload + bytes);
        assert(message.subject + message.subject_bytes + between + message.entry_bytes == end);
        assert(message.lease_tag == NULL || message.lease_tag == payload + 2);
    }
    if (message.entry != NULL)
        read_pushed(&message);
    free(payload);
}

/* ---- entries ---- */

enum { HEAD_BYTES = ENVELOPE_HEAD_BYTES, CHECKSUM_BYTES = ENVELOPE_CHECKSUM_BYTES };

static void check_read(const struct envelope *envelope, const char *data, size_t bytes)
{
    assert(envelope->px_ms > 0 && envelope->stale_ms <= envelope->px_ms);
    assert(envelope->validator_bytes <= ENVELOPE_VALIDATOR_MAX);
    assert(envelope->body >= data && envelope->body + envelope->body_bytes < data + bytes);
    assert(envelope->meta_bytes == 0 ||
           (envelope->meta > envelope->body && envelope->meta_bytes <= GUARD_META_MAX &&
            envelope->meta + envelope->meta_bytes < data + bytes));
    assert(!(envelope->absent || envelope->mark) || envelope->body_bytes == 0);
    assert(!envelope->absent || !envelope->mark);
    check_life(&envelope->life, envelope->mark);
    struct tag tags[GUARD_TAGS_MAX];
    int count = tags_split(envelope->tags, envelope->tags_bytes, tags);
    assert(count >= 0 && (size_t)count == tags_count(envelope->tags, envelope->tags_bytes));
    assert(count == 0 || envelope->born.era != 0);
    assert(envelope_judge(envelope, -1, UINT64_MAX) == ENVELOPE_DOUBTFUL);
    assert(envelope_judge(envelope, (int64_t)envelope->px_ms + 1, UINT64_MAX) == ENVELOPE_DOUBTFUL);
}

/* What is accepted is written again as the very same bytes. */
static void read_entry(const char *data, size_t bytes)
{
    struct envelope envelope;
    if (envelope_read(data, bytes, KEY, KEY_LENGTH, &envelope) != ENVELOPE_OK)
        return;
    check_read(&envelope, data, bytes);
    if (memchr(envelope.filler, '\0', ENVELOPE_UUID_BYTES) != NULL)
        return; /* no filler of ours writes a NUL */
    assert(envelope_size(&envelope) == bytes);
    char *again = malloc(bytes);
    assert(again != NULL);
    envelope_write(&envelope, again);
    assert(memcmp(again, data, HEAD_BYTES + KEY_LENGTH) == 0);
    free(again);
}

/* Anybody can compute the checksum. */
static void sign(char *data, size_t bytes)
{
    uint64_t sum = digest_checksum(data, bytes - CHECKSUM_BYTES);
    for (size_t i = 0; i < CHECKSUM_BYTES; i++)
        data[bytes - CHECKSUM_BYTES + i] = "0123456789abcdef"[sum >> (60 - 4 * i) & 15];
}

static struct envelope envelope_from(struct fuzz_input *input)
{
    struct envelope envelope = {
        .filler = "01234567-89ab-4cde-8f01-23456789abcd",
        .px_ms = 1 + (uint64_t)fuzz_u32(input),
        .load_us = fuzz_u32(input),
        .key = KEY,
        .key_bytes = KEY_LENGTH,
        .validator = "",
        .body = "",
        .meta = "",
    };
    uint8_t kind = fuzz_byte(input);
    envelope.absent = (kind & 1) != 0;
    envelope.mark = (kind & 3) == 2;
    if (!envelope.mark && (kind & 4) != 0)
        envelope.life = (struct entry_life){.own_fresh = true, .fresh_ms = fuzz_u32(input) % GUARD_POLICY_MS};
    uint32_t tags = fuzz_u32(input);
    envelope.tags = "category:7 listing:7";
    envelope.tags_bytes = tags % 3 == 0 ? 0 : tags % 3 * 10;
    envelope.born = (struct tags_clock){1 + (uint64_t)tags, tags};
    if (envelope.absent || envelope.mark)
        return envelope;
    envelope.stale_ms = fuzz_u32(input) % (envelope.px_ms + 1);
    envelope.life.own_stale = (kind & 8) != 0 && envelope.stale_ms < GUARD_POLICY_MS;
    envelope.life.stale_ms = envelope.life.own_stale ? (uint32_t)envelope.stale_ms : 0;
    envelope.validator_bytes = fuzz_byte(input) % (ENVELOPE_VALIDATOR_MAX + 1);
    if (envelope.validator_bytes > input->left)
        envelope.validator_bytes = input->left;
    envelope.validator = (const char *)input->at;
    envelope.body = (const char *)input->at + envelope.validator_bytes;
    envelope.body_bytes = input->left - envelope.validator_bytes;
    envelope.meta_bytes = (kind & 16) != 0 ? envelope.body_bytes / 2 : 0;
    if (envelope.meta_bytes > GUARD_META_MAX)
        envelope.meta_bytes = GUARD_META_MAX;
    envelope.body_bytes -= envelope.meta_bytes;
    envelope.meta = envelope.body + envelope.body_bytes;
    return envelope;
}

static void check_same(const struct envelope *sent, const struct envelope *got)
{
    assert(strcmp(got->filler, sent->filler) == 0);
    assert(got->px_ms == sent->px_ms && got->stale_ms == sent->stale_ms && got->load_us == sent->load_us);
    assert(got->absent == sent->absent && got->mark == sent->mark);
    assert(got->life.own_fresh == sent->life.own_fresh && got->life.own_stale == sent->life.own_stale);
    assert(got->life.fresh_ms == sent->life.fresh_ms && got->life.stale_ms == sent->life.stale_ms);
    assert(got->tags_bytes == sent->tags_bytes && memcmp(got->tags, sent->tags, sent->tags_bytes) == 0);
    assert(got->born.era == sent->born.era && got->born.count == sent->born.count);
    assert(got->validator_bytes == sent->validator_bytes && got->body_bytes == sent->body_bytes);
    assert(memcmp(got->validator, sent->validator, sent->validator_bytes) == 0);
    assert(memcmp(got->body, sent->body, sent->body_bytes) == 0);
    assert(got->meta_bytes == sent->meta_bytes && memcmp(got->meta, sent->meta, sent->meta_bytes) == 0);
}

/* The head counts all lengths but that of meta. So a cut can pass where meta holds the checksum of all before it,
 * which somebody must have computed for this very entry; then all is there but the rest of meta. */
static void cut_entry(const struct envelope *sent, const char *data, size_t bytes)
{
    struct envelope got;
    if (envelope_read(data, bytes, KEY, KEY_LENGTH, &got) != ENVELOPE_OK)
        return;
    assert(got.meta_bytes + CHECKSUM_BYTES <= sent->meta_bytes);
    struct envelope kept = *sent;
    kept.meta_bytes = got.meta_bytes;
    check_same(&kept, &got);
}

/* There and back; then cut off, and with one byte of it changed, which must not pass. */
static void write_entry(struct fuzz_input input)
{
    uint8_t change = fuzz_byte(&input);
    uint32_t where = fuzz_u32(&input);
    struct envelope sent = envelope_from(&input), got;
    size_t bytes = envelope_size(&sent);
    char *data = malloc(bytes);
    assert(data != NULL);
    envelope_write(&sent, data);
    assert(envelope_read(data, bytes, KEY, KEY_LENGTH, &got) == ENVELOPE_OK);
    check_same(&sent, &got);
    assert(envelope_read(data, bytes, "product:8", KEY_LENGTH, &got) == ENVELOPE_OTHER_KEY);
    cut_entry(&sent, data, where % bytes);
    if (change != 0) {
        data[where % bytes] = (char)(data[where % bytes] ^ change);
        assert(envelope_read(data, bytes, KEY, KEY_LENGTH, &got) != ENVELOPE_OK);
        if (where % bytes < bytes - CHECKSUM_BYTES)
            sign(data, bytes);
        read_entry(data, bytes);
    }
    free(data);
}

void fuzz_envelope(const uint8_t *data, size_t bytes)
{
    char *entry = fuzz_text(data, bytes);
    read_entry(entry, bytes);
    if (bytes >= HEAD_BYTES + CHECKSUM_BYTES) {
        sign(entry, bytes);
        read_entry(entry, bytes);
    }
    free(entry);
    write_entry((struct fuzz_input){data, bytes});
}
