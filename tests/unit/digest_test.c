/* SPDX-License-Identifier: MIT */
/*
 * digest_test.c - the published vectors of SipHash-1-3 and SHA-256, and what xxhsum says.
 */
#include "guard/base/digest.h"
#include "tests/support/test.h"

/* Key 00 01 .. 0f, messages of 0, 1, .. 63 bytes 00 01 02 ..: the reference code's vectors for one and three
 * rounds, as Rust (library/coretests, hash/sip.rs) and the siphash crates carry them. */
static const uint64_t siphash_vectors[64] = {
    0xabac0158050fc4dc, 0xc9f49bf37d57ca93, 0x82cb9b024dc7d44d, 0x8bf80ab8e7ddf7fb, 0xcf75576088d38328,
    0xdef9d52f49533b67, 0xc50d2b50c59f22a7, 0xd3927d989bb11140, 0x369095118d299a8e, 0x25a48eb36c063de4,
    0x79de85ee92ff097f, 0x70c118c1f94dc352, 0x78a384b157b4d9a2, 0x306f760c1229ffa7, 0x605aa111c0f95d34,
    0xd320d86d2a519956, 0xcc4fdd1a7d908b66, 0x9cf2689063dbd80c, 0x8ffc389cb473e63e, 0xf21f9de58d297d1c,
    0xc0dc2f46a6cce040, 0xb992abfe2b45f844, 0x7ffe7b9ba320872e, 0x525a0e7fdae6c123, 0xf464aeb267349c8c,
    0x45cd5928705b0979, 0x3a3e35e3ca9913a5, 0xa91dc74e4ade3b35, 0xfb0bed02ef6cd00d, 0x88d93cb44ab1e1f4,
    0x540f11d643c5e663, 0x2370dd1f8c21d1bc, 0x81157b6c16a7b60d, 0x4d54b9e57a8ff9bf, 0x759f12781f2a753e,
    0xcea1a3bebf186b91, 0x2cf508d3ada26206, 0xb6101c2da3c33057, 0xb3f47496ae3a36a1, 0x626b57547b108392,
    0xc1d2363299e41531, 0x667cc1923f1ad944, 0x65704ffec8138825, 0x24f280d1c28949a6, 0xc2ca1cedfaf8876b,
    0xc2164bfc9f042196, 0xa16e9c9368b1d623, 0x49fb169c8b5114fd, 0x9f3143f8df074c46, 0xc6fdaf2412cc86b3,
    0x7eaf49d10a52098f, 0x1cf313559d292f9a, 0xc44a30dda2f41f12, 0x36fae98943a71ed0, 0x318fb34c73f0bce6,
    0xa27abf3670a7e980, 0xb4bcc0db243c6d75, 0x23f8d852fdb71513, 0x8f035f4da67d8a08, 0xd89cd0e5b7e8f148,
    0xf6f4e6bcf7a644ee, 0xaec59ad80f1837f2, 0xc3b2f6154b6694e0, 0x9d199062b7bbb3a8,
};

TEST(siphash_gives_all_64_published_values)
{
    uint8_t key[DIGEST_KEY_BYTES];
    for (size_t i = 0; i < sizeof(key); i++)
        key[i] = (uint8_t)i;
    for (size_t bytes = 0; bytes < 64; bytes++) {
        /* Exactly as large as the message, so that a sanitizer sees one byte too many being read. */
        uint8_t *message = malloc(bytes + 1);
        assert_non_null(message);
        message = realloc(message, bytes > 0 ? bytes : 1);
        assert_non_null(message);
        for (size_t i = 0; i < bytes; i++)
            message[i] = (uint8_t)i;
        assert_true(digest_siphash(key, message, bytes) == siphash_vectors[bytes]);
        free(message);
    }
}

TEST(siphash_does_not_depend_on_alignment)
{
    static const uint8_t key[DIGEST_KEY_BYTES] = "any key";
    char buffer[72];
    uint64_t expected = 0;
    for (size_t shift = 0; shift < 8; shift++) {
        memset(buffer, 'x', sizeof(buffer));
        memcpy(buffer + shift, "the same sixty-one bytes wherever in memory they may happen to be", 61);
        const uint64_t hash = digest_siphash(key, buffer + shift, 61);
        if (shift == 0)
            expected = hash;
        assert_true(hash == expected);
    }
}

TEST(siphash_changes_with_the_key)
{
    uint8_t key[DIGEST_KEY_BYTES] = {0};
    const uint64_t before = digest_siphash(key, "product:7", 9);
    for (size_t i = 0; i < sizeof(key); i++) {
        key[i] = 1;
        assert_true(digest_siphash(key, "product:7", 9) != before);
        key[i] = 0;
    }
}

/* What `xxhsum -H3` prints for so many bytes, byte i being i * 7 + i / 256: on both sides of each length at which
 * XXH3 goes another way. An entry is checked by every process of a fleet, whatever it was built with. */
TEST(the_checksum_is_xxh3)
{
    static const struct {
        size_t bytes;
        uint64_t sum;
    } vectors[] = {
        {0, 0x2d06800538d394c2},    {1, 0xc44bdff4074eecdb},    {3, 0xc3489259e968ad9e},
        {4, 0xd3d60c1519014e89},    {8, 0xb88dee77f6bf6980},    {9, 0x03688dcad730d826},
        {16, 0x9da23836adf2be1e},   {17, 0xf34c3c9cf5a112d1},   {128, 0x65f3c2c00fa93185},
        {129, 0x28065c6ec25f5b25},  {240, 0x4917a75c0ef8eed7},  {241, 0x541b19226f0052e8},
        {1024, 0x71bee625238addb4}, {1025, 0xd9b414f4e1bbf7ad}, {4321, 0x61289c7fdfb5f513},
    };
    for (size_t v = 0; v < sizeof(vectors) / sizeof(vectors[0]); v++) {
        const size_t bytes = vectors[v].bytes;
        uint8_t *data = malloc(bytes > 0 ? bytes : 1);
        assert_non_null(data);
        for (size_t i = 0; i < bytes; i++)
            data[i] = (uint8_t)(i * 7 + i / 256);
        assert_true(digest_checksum(data, bytes) == vectors[v].sum);
        free(data);
    }
}

static void assert_sha256(const void *data, size_t data_bytes, const char *expected)
{
    uint8_t digest[DIGEST_SHA256_BYTES];
    char hex[2 * DIGEST_SHA256_BYTES + 1] = "";
    digest_sha256(data, data_bytes, digest);
    for (size_t i = 0; i < sizeof(digest); i++) {
        hex[2 * i] = "0123456789abcdef"[digest[i] >> 4];
        hex[2 * i + 1] = "0123456789abcdef"[digest[i] & 15];
    }
    assert_string_equal(hex, expected);
}

TEST(sha256_gives_the_published_values)
{
    static const struct {
        const char *text, *digest;
    } vectors[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrs"
         "mnopqrstnopqrstu",
         "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
    };
    for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++)
        assert_sha256(vectors[i].text, strlen(vectors[i].text), vectors[i].digest);
}

TEST(sha256_gives_the_published_value_for_a_million_a)
{
    const size_t bytes = 1000000;
    char *text = malloc(bytes);
    assert_non_null(text);
    memset(text, 'a', bytes);
    assert_sha256(text, bytes, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(text);
}

/* Lengths at which the padding changes, the digests as sha256sum prints them; then two of the CAVP's short
 * messages. */
TEST(sha256_pads_rightly_around_the_block_boundaries)
{
    static const char zeros[64] = {0};
    assert_sha256(zeros, 55, "02779466cdec163811d078815c633f21901413081449002f24aa3e80f0b88ef7");
    assert_sha256(zeros, 56, "d4817aa5497628e7c77e6b606107042bbba3130888c5f47a375e6179be789fbb");
    assert_sha256(zeros, 57, "65a16cb7861335d5ace3c60718b5052e44660726da4cd13bb745381b235a1785");
    assert_sha256(zeros, 64, "f5a5fd42d16a20302798ef6ed309979b43003d2320d9f0e8ea9831a92759fb4b");
    assert_sha256("\xbd", 1, "68325720aabd7c82f30f554b313d0570c95accbb7dc4b5aae11204c08ffe732b");
    assert_sha256("\xc9\x8c\x8e\x55", 4, "7abc22c0ae5af26ce93dbb94433a0e0b2e119d014f8e7f65bd56c61ccccd9504");
}
