/* SPDX-License-Identifier: MIT */
/*
 * envelope_test.c - the layout the scripts rely on, and every way in which an entry can be unsound.
 */
#include "guard/base/digest.h"
#include "guard/wire/envelope.h"
#include "tests/support/test.h"
#include <inttypes.h>

static const char key[] = "product:7";
enum { KEY_BYTES = sizeof(key) - 1 };

static struct envelope envelope;
static char *text; /* as it is written */

static bool take_sample(void)
{
    envelope = (struct envelope){.filler = "0f8fad5b-d9cb-469f-a165-70867728950e",
                                 .px_ms = 65000,
                                 .stale_ms = 5000,
                                 .load_us = 151234,
                                 .key = key,
                                 .key_bytes = KEY_BYTES,
                                 .tags = "category:7 listing:7",
                                 .tags_bytes = 20,
                                 .born = {1763777777000000, 42},
                                 .validator = "\"v3\"",
                                 .validator_bytes = 4,
                                 .body = "{\"id\":7}",
                                 .body_bytes = 8};
    return true;
}

static bool drop_text(void)
{
    free(text);
    text = NULL;
    return true;
}

/* In memory of exactly its size. */
static void write_text(void)
{
    drop_text();
    text = malloc(envelope_size(&envelope));
    assert_non_null(text);
    envelope_write(&envelope, text);
}

/* Reads from memory of exactly that size, so that a sanitizer sees one byte too many being read. */
static enum envelope_fault read_exactly(const char *data, size_t data_bytes)
{
    struct envelope out;
    char *copy = malloc(data_bytes > 0 ? data_bytes : 1);
    assert_non_null(copy);
    memcpy(copy, data, data_bytes);
    const enum envelope_fault fault = envelope_read(copy, data_bytes, key, KEY_BYTES, &out);
    free(copy);
    return fault;
}

static void assert_same(const struct envelope *a, const struct envelope *b)
{
    assert_string_equal(a->filler, b->filler);
    assert_true(a->px_ms == b->px_ms && a->stale_ms == b->stale_ms && a->load_us == b->load_us);
    assert_true(a->absent == b->absent && a->mark == b->mark);
    assert_true(a->life.own_fresh == b->life.own_fresh && a->life.own_stale == b->life.own_stale);
    assert_true(a->life.fresh_ms == b->life.fresh_ms && a->life.stale_ms == b->life.stale_ms);
    assert_int_equal(a->key_bytes, b->key_bytes);
    assert_memory_equal(a->key, b->key, a->key_bytes);
    assert_int_equal(a->tags_bytes, b->tags_bytes);
    assert_memory_equal(a->tags, b->tags, a->tags_bytes);
    assert_true(a->born.era == b->born.era && a->born.count == b->born.count);
    assert_int_equal(a->validator_bytes, b->validator_bytes);
    assert_memory_equal(a->validator, b->validator, a->validator_bytes);
    assert_int_equal(a->body_bytes, b->body_bytes);
    assert_memory_equal(a->body, b->body, a->body_bytes);
    assert_int_equal(a->meta_bytes, b->meta_bytes);
    assert_memory_equal(a->meta, b->meta, a->meta_bytes);
}

static void assert_survives(void)
{
    struct envelope out;
    write_text();
    assert_int_equal(envelope_read(text, envelope_size(&envelope), envelope.key, envelope.key_bytes, &out),
                     ENVELOPE_OK);
    assert_same(&out, &envelope);
}

TEST(the_layout_is_the_published_one)
{
    static const char head[] =
        "0f8fad5b-d9cb-469f-a165-70867728950e 0000000065000 0000000005000 csg3 v ---------- - "
        "0000000151234 0009 004 0000000008 0020 1763777777000000.000000000042\n"
        "product:7\n"
        "\"v3\"\n"
        "{\"id\":7}\n"
        "category:7 listing:7\n"
        "e4861b4323729973";
    write_text();
    assert_int_equal(envelope_size(&envelope), sizeof(head) - 1);
    assert_memory_equal(text, head, sizeof(head) - 1);
}

/* An older process sees an unknown letter, and would see a length that does not fit. */
TEST(meta_stands_behind_the_tags_and_the_head_says_so)
{
    write_text();
    const size_t without = envelope_size(&envelope);
    char head[ENVELOPE_HEAD_BYTES];
    memcpy(head, text, sizeof head);
    envelope.meta = "status=200\nstatus=404";
    envelope.meta_bytes = 21;
    write_text();
    assert_int_equal(envelope_size(&envelope), without + 22);
    assert_int_equal(text[70], 'm');
    text[70] = 'v';
    assert_memory_equal(text, head, sizeof head);
    assert_memory_equal(text + without - ENVELOPE_CHECKSUM_BYTES, "status=200\nstatus=404\n", 22);
    assert_int_equal(read_exactly(text, envelope_size(&envelope)), ENVELOPE_TRUNCATED);
}

TEST(meta_of_any_bytes_up_to_its_limit_is_read)
{
    static char meta[GUARD_META_MAX];
    for (size_t i = 0; i < sizeof meta; i++)
        meta[i] = (char)i;
    envelope.meta = meta;
    for (size_t bytes = 1; bytes <= sizeof meta; bytes = bytes < 3 ? bytes + 1 : bytes + 1364 + bytes % 2) {
        envelope.meta_bytes = bytes;
        assert_survives();
    }
    envelope.meta_bytes = sizeof meta;
    assert_survives();
}

TEST(what_was_written_is_read)
{
    assert_survives();
}

TEST(a_life_of_its_own_is_read)
{
    envelope.life =
        (struct entry_life){.own_fresh = true, .fresh_ms = 66000, .own_stale = true, .stale_ms = 5000};
    assert_survives();
    envelope.life.own_stale = false;
    envelope.life.stale_ms = 0;
    assert_survives();
    envelope.life = (struct entry_life){.own_stale = true, .stale_ms = 5000};
    assert_survives();
    envelope.stale_ms = envelope.life.stale_ms = 0;
    envelope.life.own_fresh = true;
    envelope.life.fresh_ms = GUARD_POLICY_MS - 1;
    assert_survives();
}

/* acquire.lua reads one letter, touch.lua all that is behind the head. */
TEST(the_scripts_find_whose_the_stale_time_is)
{
    envelope.life = (struct entry_life){.own_stale = true, .stale_ms = 5000};
    write_text();
    assert_int_equal(text[84 - 1], 'o');
    assert_int_equal(text[154 - 1], '\n');
    envelope.life = (struct entry_life){.own_fresh = true, .fresh_ms = 1};
    write_text();
    assert_int_equal(text[84 - 1], '-');
}

TEST(a_mark_is_read)
{
    envelope.mark = true;
    envelope.stale_ms = 0;
    envelope.validator_bytes = envelope.body_bytes = 0;
    assert_survives();
    envelope.tags_bytes = 0;
    envelope.born = (struct tags_clock){0, 0};
    assert_survives();
}

TEST(empty_and_binary_bodies_are_read)
{
    envelope.body_bytes = 0;
    assert_survives();
    char body[256];
    for (size_t i = 0; i < sizeof(body); i++)
        body[i] = (char)i;
    envelope.body = body;
    envelope.body_bytes = sizeof(body);
    assert_survives();
    envelope.body = "\r\n}\0\xff\xc3(";
    envelope.body_bytes = 7;
    assert_survives();
}

TEST(the_largest_fields_are_read)
{
    char long_key[4096], validator[ENVELOPE_VALIDATOR_MAX];
    memset(long_key, 'k', sizeof(long_key));
    memset(validator, 'v', sizeof(validator));
    envelope.key = long_key;
    envelope.key_bytes = sizeof(long_key);
    envelope.validator = validator;
    envelope.validator_bytes = sizeof(validator);
    envelope.px_ms = envelope.stale_ms = 9999999999999;
    envelope.body_bytes = 1048576;
    char *body = calloc(1, envelope.body_bytes);
    assert_non_null(body);
    envelope.body = body;
    assert_survives();
    free(body);
}

TEST(a_load_time_beyond_its_field_is_capped)
{
    struct envelope out;
    envelope.load_us = UINT64_MAX;
    write_text();
    assert_int_equal(envelope_read(text, envelope_size(&envelope), key, KEY_BYTES, &out), ENVELOPE_OK);
    assert_true(out.load_us == 9999999999999);
}

TEST(every_truncation_is_refused, P34)
{
    write_text();
    for (size_t bytes = 0; bytes < envelope_size(&envelope); bytes++)
        assert_int_equal(read_exactly(text, bytes),
                         bytes < ENVELOPE_HEAD_BYTES ? ENVELOPE_FOREIGN : ENVELOPE_TRUNCATED);
}

TEST(anything_appended_is_refused)
{
    const size_t size = envelope_size(&envelope);
    write_text();
    char *longer = calloc(1, size + 100);
    assert_non_null(longer);
    memcpy(longer, text, size);
    for (size_t more = 1; more <= 100; more++)
        assert_int_equal(read_exactly(longer, size + more), ENVELOPE_TRUNCATED);
    free(longer);
}

TEST(every_single_bit_flip_is_refused, P34)
{
    for (int absent = 0; absent <= 1; absent++) {
        envelope.absent = absent != 0;
        if (envelope.absent)
            envelope.stale_ms = envelope.validator_bytes = envelope.body_bytes = 0;
        write_text();
        const size_t size = envelope_size(&envelope);
        for (size_t bit = 0; bit < 8 * size; bit++) {
            text[bit / 8] = (char)(text[bit / 8] ^ (1 << bit % 8));
            assert_int_not_equal(read_exactly(text, size), ENVELOPE_OK);
            text[bit / 8] = (char)(text[bit / 8] ^ (1 << bit % 8));
        }
        assert_int_equal(read_exactly(text, size), ENVELOPE_OK);
    }
}

/* Every byte of the head replaced by every byte there is: signs, spaces, hexadecimal, NUL. */
TEST(every_other_byte_in_the_head_is_refused)
{
    write_text();
    for (size_t at = 0; at < ENVELOPE_HEAD_BYTES; at++) {
        const char kept = text[at];
        for (int byte = 0; byte < 256; byte++) {
            text[at] = (char)byte;
            assert_int_equal(read_exactly(text, envelope_size(&envelope)) == ENVELOPE_OK, text[at] == kept);
        }
        text[at] = kept;
    }
}

TEST(the_fault_is_named)
{
    const size_t size = envelope_size(&envelope);
    struct envelope out;
    write_text();
    assert_int_equal(envelope_read(text, size, "product:8", 9, &out), ENVELOPE_OTHER_KEY);
    assert_int_equal(envelope_read(text, size, "product:77", 10, &out), ENVELOPE_OTHER_KEY);
    assert_int_equal(envelope_read(text, size, "product:", 8, &out), ENVELOPE_OTHER_KEY);
    text[68] = '2'; /* csg2 is older, and another checksum */
    assert_int_equal(read_exactly(text, size), ENVELOPE_FOREIGN);
    text[68] = '3';
    text[size - 20] ^= 1; /* the body */
    assert_int_equal(read_exactly(text, size), ENVELOPE_DAMAGED);
    text[size - 20] ^= 1;
    memset(text + 108, '9', 10); /* body_bytes */
    assert_int_equal(read_exactly(text, size), ENVELOPE_TRUNCATED);
    assert_int_equal(read_exactly("", 0), ENVELOPE_FOREIGN);
    assert_int_equal(read_exactly("a value of somebody else", 24), ENVELOPE_FOREIGN);
}

/* Sound in form and checksum, but not what any filler of ours writes. The sums come from another implementation. */
#define FILLER "0f8fad5b-d9cb-469f-a165-70867728950e "
#define LOADED " 0000000151234 0009 "
#define UNTAGGED "0000 0000000000000000.000000000000\nproduct:7\n"
#define TAGGED "1763777777000000.000000000042\nproduct:7\n\"v3\"\n{\"id\":7}\n"
static const char *const foreign[] = {
    FILLER "0000000000000 0000000000000 csg3 v ---------- -" LOADED "004 0000000008 " UNTAGGED
           "\"v3\"\n{\"id\":7}\n\na7f188aa714552f2",
    FILLER "0000000065000 0000000065001 csg3 v ---------- -" LOADED "004 0000000008 " UNTAGGED
           "\"v3\"\n{\"id\":7}\n\n956b593681e8b672",
    FILLER "0000000065000 0000000000000 csg3 a ---------- -" LOADED "000 0000000008 " UNTAGGED
           "\n{\"id\":7}\n\nf1abbbb0933fb25b",
    FILLER "0000000065000 0000000000000 csg3 v ---------- -" LOADED "004 0000000008 0010 "
           "0000000000000000.000000000000\nproduct:7\n\"v3\"\n{\"id\":7}\ncategory:7\n6157e0b45648f216",
    FILLER "0000000065000 0000000000000 csg3 v ---------- -" LOADED "004 0000000008 0004 " TAGGED
           "a  b\n952e16cc7c4c672d",
    FILLER "0000000065000 0000000000000 csg3 v ---------- -" LOADED "004 0000000008 0017 " TAGGED
           "a b c d e f g h i\n03d76f5d702917d0",
    /* a mark with a body, a mark with a life of its own, an absent row with a stale time of its own */
    FILLER "0000000065000 0000000000000 csg3 p ---------- -" LOADED "000 0000000008 " UNTAGGED
           "\n{\"id\":7}\n\nf42ae5bd50b215ce",
    FILLER "0000000065000 0000000000000 csg3 p 0000065000 -" LOADED "000 0000000000 " UNTAGGED
           "\n\n\n1709e1009f1f12e5",
    FILLER "0000000065000 0000000005000 csg3 p ---------- o" LOADED "000 0000000000 " UNTAGGED
           "\n\n\n9ddd75135aaaa0a6",
    /* the number that stands for the policy's is none, and there is one other letter */
    FILLER "0000000065000 0000000000000 csg3 v 4294967295 -" LOADED "000 0000000000 " UNTAGGED
           "\n\n\nf36a33eb52684a52",
    FILLER "0000000065000 0000000000000 csg3 v ---------- x" LOADED "000 0000000000 " UNTAGGED
           "\n\n\n153989950bf461db",
};

TEST(a_sound_envelope_that_no_filler_writes_is_foreign)
{
    for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++)
        if (read_exactly(foreign[i], strlen(foreign[i])) != ENVELOPE_FOREIGN)
            fail_msg("not foreign: %s", foreign[i]);
}

/* Sound in form and checksum. */
TEST(meta_above_its_limit_or_of_no_bytes_is_refused)
{
    static char meta[GUARD_META_MAX + 1];
    char longer[1024 + sizeof meta];
    envelope.meta = meta;
    envelope.meta_bytes = GUARD_META_MAX;
    write_text();
    const size_t size = envelope_size(&envelope), body_end = size - ENVELOPE_CHECKSUM_BYTES - 1;
    memcpy(longer, text, body_end);
    for (size_t i = 0; i < 2; i++) {
        /* one byte more, then the line end alone */
        const size_t end = i == 0 ? body_end + 1 : body_end - GUARD_META_MAX;
        longer[end - (i == 0)] = i == 0 ? 'x' : '\n';
        longer[end] = '\n';
        snprintf(longer + end + 1, ENVELOPE_CHECKSUM_BYTES + 1, "%016" PRIx64,
                 digest_checksum(longer, end + 1));
        assert_int_equal(read_exactly(longer, end + 1 + ENVELOPE_CHECKSUM_BYTES),
                         i == 0 ? ENVELOPE_FOREIGN : ENVELOPE_TRUNCATED);
    }
}

/* The sample has px_ms 65000 and stale_ms 5000. */
TEST(a_ttl_makes_an_envelope_fresh_stale_or_doubtful)
{
    static const struct {
        int64_t ttl_ms;
        uint64_t max_ms;
        int verdict;
    } rows[] = {
        {65000, 86400000, ENVELOPE_FRESH},        {5001, 86400000, ENVELOPE_FRESH},
        {5000, 86400000, ENVELOPE_STALE},         {0, 86400000, ENVELOPE_STALE},
        {-1, 86400000, ENVELOPE_DOUBTFUL},        {-2, 86400000, ENVELOPE_DOUBTFUL},
        {INT64_MIN, 86400000, ENVELOPE_DOUBTFUL}, {INT64_MAX, UINT64_MAX, ENVELOPE_DOUBTFUL},
        {65001, 86400000, ENVELOPE_DOUBTFUL},     {60001, 60000, ENVELOPE_DOUBTFUL},
        {60000, 60000, ENVELOPE_FRESH},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const int verdict = (int)envelope_judge(&envelope, rows[i].ttl_ms, rows[i].max_ms);
        if (verdict != rows[i].verdict)
            fail_msg("TTL %lld of at most %llu: %d, not %d", (long long)rows[i].ttl_ms,
                     (unsigned long long)rows[i].max_ms, verdict, rows[i].verdict);
    }
}

TEST_GROUP(.before = take_sample, .after = drop_text);
