/* SPDX-License-Identifier: MIT */
/*
 * envelope.c - writes and checks the envelope; envelope.h says which bytes the scripts read.
 *
 *   <uuid> <px_ms> <stale_ms> csg3 <v|m|a|p> <own fresh_ms> <o|-> <load_us> <key_bytes> <validator_bytes>
 *   <body_bytes> <tags_bytes> <born>\n
 *   <key>\n
 *   <validator>\n
 *   <body>\n
 *   <tags>\n
 *   <meta>\n        m only: what is left
 *   <checksum>
 *
 * The checksum comes last, so that what was cut off or overwritten in part has none; a cut in meta, whose length
 * the head does not say, has one only if meta was made to hold it.
 */
#include "envelope.h"
#include "../base/digest.h"
#include "../base/digits.h"

#include <assert.h>
#include <string.h>

/* One fixed-width field of the head. What lies between the fields stands in frame. */
struct field {
    size_t at, bytes;
};

static const struct field filler_field = {0, ENVELOPE_UUID_BYTES};
static const struct field px_field = {37, 13};
static const struct field stale_field = {51, 13};
static const struct field kind_field = {70, 1};
static const struct field own_fresh_field = {72, 10};
static const struct field own_stale_field = {83, 1};
static const struct field load_field = {85, 13};
static const struct field key_field = {99, 4};
static const struct field validator_field = {104, 3};
static const struct field body_field = {108, 10};
static const struct field tags_field = {119, 4};
static const struct field era_field = {124, 16};
static const struct field count_field = {141, 12};

/* The head with its fields open: '0' where a digit goes, 'x' where anything may, the rest as it stands.
 * "csg3" is the format's name and version. */
static const char frame[] =
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx 0000000000000 0000000000000 csg3 x "
    "xxxxxxxxxx x 0000000000000 0000 000 0000000000 0000 0000000000000000.000000000000\n";

enum {
    HEAD_BYTES = ENVELOPE_HEAD_BYTES,
    LINE_ENDS = 4, /* after key, validator, body and tags; there is one more if there is meta */
    CHECKSUM_BYTES = ENVELOPE_CHECKSUM_BYTES,
    DIGITS_MAX = 16,
    HEAD_BLOCK_BYTES = 16, /* of the head, looked at together */
};
static const char kind_value = 'v', kind_meta = 'm', kind_absent = 'a', kind_mark = 'p';
static const char stale_own = 'o', of_policy = '-';
static const uint64_t load_us_max = 9999999999999;

_Static_assert(HEAD_BYTES == sizeof(frame) - 1, "frame and the fields describe the same head");
_Static_assert((int)HEAD_BYTES >= (int)HEAD_BLOCK_BYTES, "the last block, which overlaps, lies in the head");
_Static_assert(DIGITS_MAX < 19, "no field overflows 64 bits, nor does the sum of the lengths");

/* ---- fields ---- */

static void put_digits(char *head, struct field field, uint64_t number)
{
    for (size_t i = field.bytes; i-- > 0; number /= 10)
        head[field.at + i] = (char)('0' + number % 10);
    assert(number == 0);
}

static uint64_t get_digits(const char *head, struct field field)
{
    uint64_t number = 0;
    digits_read(head + field.at, field.bytes, &number); /* they are: fits_frame() */
    return number;
}

/* A span is shorter than that which stands for the policy's. */
static bool has_own_fresh(const char *head)
{
    uint64_t fresh_ms = 0;
    return digits_read(head + own_fresh_field.at, own_fresh_field.bytes, &fresh_ms) &&
           fresh_ms < GUARD_POLICY_MS;
}

static bool is_of_policy(const char *head)
{
    size_t i = 0;
    while (i < own_fresh_field.bytes && head[own_fresh_field.at + i] == of_policy)
        i++;
    return i == own_fresh_field.bytes;
}

/* No branch for each byte, so that compilers make it a few vector instructions: every hit does this. */
static unsigned misfits(const char *head, size_t at)
{
    unsigned char misfit = 0;
    for (size_t i = at; i < at + HEAD_BLOCK_BYTES; i++) {
        const unsigned char differs =
            (unsigned char)(head[i] ^ frame[i]); /* a digit from '0': by its value */
        const unsigned char most = frame[i] == '0' ? 9 : frame[i] == 'x' ? 255 : 0;
        misfit |= differs > most;
    }
    return misfit;
}

static bool fits_frame(const char *head)
{
    unsigned misfit = misfits(head, HEAD_BYTES - HEAD_BLOCK_BYTES);
    for (size_t at = 0; at + HEAD_BLOCK_BYTES <= HEAD_BYTES; at += HEAD_BLOCK_BYTES)
        misfit |= misfits(head, at);
    if (misfit != 0)
        return false;
    const char kind = head[kind_field.at], stale = head[own_stale_field.at];
    return (kind == kind_value || kind == kind_meta || kind == kind_absent || kind == kind_mark) &&
           (stale == stale_own || stale == of_policy) && (is_of_policy(head) || has_own_fresh(head));
}

static void put_checksum(const char *data, size_t data_bytes, char out[CHECKSUM_BYTES])
{
    const uint64_t sum = digest_checksum(data, data_bytes);
    for (size_t i = 0; i < CHECKSUM_BYTES; i++)
        out[i] = "0123456789abcdef"[sum >> (60 - 4 * i) & 15];
}

static char *put_line(char *at, const char *bytes, size_t count)
{
    if (count > 0)
        memcpy(at, bytes, count);
    at[count] = '\n';
    return at + count + 1;
}

/* ---- whole ---- */

size_t envelope_size(const struct envelope *envelope)
{
    const size_t meta_bytes = envelope->meta_bytes > 0 ? envelope->meta_bytes + 1 : 0;
    return HEAD_BYTES + envelope->key_bytes + envelope->tags_bytes + envelope->validator_bytes +
           envelope->body_bytes + LINE_ENDS + meta_bytes + CHECKSUM_BYTES;
}

static void put_head(const struct envelope *envelope, char *head)
{
    memcpy(head, frame, HEAD_BYTES);
    memcpy(head + filler_field.at, envelope->filler, filler_field.bytes);
    put_digits(head, px_field, envelope->px_ms);
    put_digits(head, stale_field, envelope->stale_ms);
    head[kind_field.at] = envelope->mark             ? kind_mark
                          : envelope->absent         ? kind_absent
                          : envelope->meta_bytes > 0 ? kind_meta
                                                     : kind_value;
    memset(head + own_fresh_field.at, of_policy, own_fresh_field.bytes);
    if (envelope->life.own_fresh)
        put_digits(head, own_fresh_field, envelope->life.fresh_ms);
    head[own_stale_field.at] = envelope->life.own_stale ? stale_own : of_policy;
    put_digits(head, load_field, envelope->load_us < load_us_max ? envelope->load_us : load_us_max);
    put_digits(head, key_field, envelope->key_bytes);
    put_digits(head, validator_field, envelope->validator_bytes);
    put_digits(head, body_field, envelope->body_bytes);
    put_digits(head, tags_field, envelope->tags_bytes);
    put_digits(head, era_field, envelope->born.era);
    put_digits(head, count_field, envelope->born.count);
}

static bool has_coherent_tags(const struct envelope *envelope)
{
    struct tag tags[GUARD_TAGS_MAX];
    return envelope->tags_bytes == 0 ||
           (envelope->born.era != 0 && tags_split(envelope->tags, envelope->tags_bytes, tags) > 0);
}

/* What a filler promises beyond the layout. */
static bool is_coherent(const struct envelope *envelope)
{
    if (envelope->px_ms == 0 || envelope->stale_ms > envelope->px_ms ||
        (envelope->life.own_stale && envelope->stale_ms >= GUARD_POLICY_MS) ||
        envelope->validator_bytes > ENVELOPE_VALIDATOR_MAX || envelope->meta_bytes > GUARD_META_MAX ||
        !has_coherent_tags(envelope))
        return false;
    const struct entry_life *life = &envelope->life;
    if (envelope->mark && (envelope->absent || life->own_fresh || life->own_stale))
        return false;
    return (!envelope->absent && !envelope->mark) ||
           (envelope->stale_ms == 0 && envelope->validator_bytes == 0 && envelope->body_bytes == 0 &&
            envelope->meta_bytes == 0);
}

void envelope_write(const struct envelope *envelope, char *out)
{
    assert(strlen(envelope->filler) == ENVELOPE_UUID_BYTES);
    assert(is_coherent(envelope));
    put_head(envelope, out);
    char *at = out + HEAD_BYTES;
    at = put_line(at, envelope->key, envelope->key_bytes);
    at = put_line(at, envelope->validator, envelope->validator_bytes);
    at = put_line(at, envelope->body, envelope->body_bytes);
    at = put_line(at, envelope->tags, envelope->tags_bytes);
    if (envelope->meta_bytes > 0)
        at = put_line(at, envelope->meta, envelope->meta_bytes);
    put_checksum(out, (size_t)(at - out), at);
}

/* Splits sound lengths into pointers; false if they do not add up to the size. */
static bool split(const char *data, size_t data_bytes, struct envelope *envelope)
{
    const uint64_t key_bytes = get_digits(data, key_field);
    const uint64_t tags_bytes = get_digits(data, tags_field);
    const uint64_t validator_bytes = get_digits(data, validator_field);
    const uint64_t body_bytes = get_digits(data, body_field);
    const uint64_t without_meta =
        HEAD_BYTES + key_bytes + tags_bytes + validator_bytes + body_bytes + LINE_ENDS + CHECKSUM_BYTES;
    const bool has_meta = data[kind_field.at] == kind_meta;
    if (has_meta ? without_meta + 1 >= data_bytes : without_meta != data_bytes)
        return false;
    /* None is larger than data_bytes, so each fits a size_t. */
    envelope->key = data + HEAD_BYTES;
    envelope->key_bytes = (size_t)key_bytes;
    envelope->validator = envelope->key + envelope->key_bytes + 1;
    envelope->validator_bytes = (size_t)validator_bytes;
    envelope->body = envelope->validator + envelope->validator_bytes + 1;
    envelope->body_bytes = (size_t)body_bytes;
    envelope->tags = envelope->body + envelope->body_bytes + 1;
    envelope->tags_bytes = (size_t)tags_bytes;
    envelope->meta = has_meta ? envelope->tags + envelope->tags_bytes + 1 : "";
    envelope->meta_bytes = has_meta ? (size_t)(data_bytes - without_meta) - 1 : 0;
    return true;
}

static void get_head(const char *head, struct envelope *envelope)
{
    memcpy(envelope->filler, head + filler_field.at, filler_field.bytes);
    envelope->filler[filler_field.bytes] = '\0';
    envelope->px_ms = get_digits(head, px_field);
    envelope->stale_ms = get_digits(head, stale_field);
    envelope->absent = head[kind_field.at] == kind_absent;
    envelope->mark = head[kind_field.at] == kind_mark;
    envelope->life = (struct entry_life){.own_fresh = !is_of_policy(head),
                                         .own_stale = head[own_stale_field.at] == stale_own};
    if (envelope->life.own_fresh)
        envelope->life.fresh_ms = (uint32_t)get_digits(head, own_fresh_field);
    if (envelope->life.own_stale)
        envelope->life.stale_ms = (uint32_t)envelope->stale_ms;
    envelope->load_us = get_digits(head, load_field);
    envelope->born.era = get_digits(head, era_field);
    envelope->born.count = get_digits(head, count_field);
}

enum envelope_fault envelope_read(const char *data, size_t data_bytes, const char *key, size_t key_bytes,
                                  struct envelope *out)
{
    struct envelope envelope;
    if (data_bytes < HEAD_BYTES || !fits_frame(data))
        return ENVELOPE_FOREIGN;
    if (!split(data, data_bytes, &envelope))
        return ENVELOPE_TRUNCATED;
    char checksum[CHECKSUM_BYTES];
    put_checksum(data, data_bytes - CHECKSUM_BYTES, checksum);
    if (memcmp(data + data_bytes - CHECKSUM_BYTES, checksum, CHECKSUM_BYTES) != 0)
        return ENVELOPE_DAMAGED;
    if (envelope.key_bytes != key_bytes || memcmp(envelope.key, key, key_bytes) != 0)
        return ENVELOPE_OTHER_KEY;
    get_head(data, &envelope);
    if (!is_coherent(&envelope))
        return ENVELOPE_FOREIGN;
    *out = envelope;
    return ENVELOPE_OK;
}

struct value *envelope_value(const struct envelope *envelope)
{
    return value_from(&(struct value_parts){
        .body = envelope->body,
        .body_bytes = envelope->body_bytes,
        .validator = envelope->validator,
        .validator_bytes = envelope->validator_bytes,
        .tags = envelope->tags,
        .tags_bytes = envelope->tags_bytes,
        .meta = envelope->meta,
        .meta_bytes = envelope->meta_bytes,
    });
}

enum envelope_age envelope_judge(const struct envelope *envelope, int64_t pttl_ms, uint64_t max_value_ms)
{
    if (pttl_ms < 0 || (uint64_t)pttl_ms > envelope->px_ms || (uint64_t)pttl_ms > max_value_ms)
        return ENVELOPE_DOUBTFUL;
    return (uint64_t)pttl_ms <= envelope->stale_ms ? ENVELOPE_STALE : ENVELOPE_FRESH;
}
