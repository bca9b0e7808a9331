/* SPDX-License-Identifier: MIT */
/*
 * digest.c - SipHash-1-3 and SHA-256, from their specifications, and XXH3 out of xxhash.h, for data that is in memory
 * as a whole.
 *
 * Why one round per block and three at the end: the authors proposed 2-4 as a MAC, whose output an
 * attacker sees. Ours is not seen. For that use Aumasson "would be very surprised if SipHash-1-3 introduced
 * weaknesses" (github.com/rust-lang/rust/issues/29754); Rust, Ruby and CPython took the same variant.
 *
 * Why XXH3 for the checksum: every hit reads all bytes of an entry, and SipHash, each of whose steps waits for the
 * one before, takes four times as long (310 and 83 ns for 1.5 KB). xxhash.h is compiled in here, so nothing is
 * linked.
 *
 * SipHash: Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012. SHA-256: FIPS 180-4, whose
 * letters and names are kept. Bytes are put together by shifts, so the machine's byte order and alignment
 * do not matter; compilers turn that into plain loads. XXH3 sees to both itself.
 */
#include "digest.h"
#include "digits.h"

#include <string.h>
/* With -Og gcc does not inline what xxhash >= 0.8.2 says must be. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__OPTIMIZE__)
#pragma GCC push_options
#pragma GCC optimize("O2")
#endif
#ifndef XXH_INLINE_ALL
#define XXH_INLINE_ALL
#endif
#include <xxhash.h>

_Static_assert(XXH_VERSION_NUMBER >= 800, "xxhash 0.8 or later is needed: before, XXH3 gave other sums");

/* ---- SipHash ---- */

static inline uint64_t rotate_left64(uint64_t word, unsigned bits)
{
    return word << bits | word >> (64 - bits);
}

static inline void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = rotate_left64(v[1], 13) ^ v[0];
    v[0] = rotate_left64(v[0], 32);
    v[2] += v[3];
    v[3] = rotate_left64(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotate_left64(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotate_left64(v[1], 17) ^ v[2];
    v[2] = rotate_left64(v[2], 32);
}

static inline void sip_absorb(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
}

uint64_t digest_siphash(const uint8_t key[DIGEST_KEY_BYTES], const void *data, size_t data_bytes)
{
    const uint8_t *bytes = data;
    const size_t tail_bytes = data_bytes % 8;
    const uint64_t k0 = load_le64(key), k1 = load_le64(key + 8);
    uint64_t v[4] = {k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261,
                     k1 ^ 0x7465646279746573};
    for (size_t at = 0; at + 8 <= data_bytes; at += 8)
        sip_absorb(v, load_le64(bytes + at));
    uint64_t last = (uint64_t)data_bytes << 56;
    for (size_t i = 0; i < tail_bytes; i++)
        last |= (uint64_t)bytes[data_bytes - tail_bytes + i] << (8 * i);
    sip_absorb(v, last);
    v[2] ^= 0xff;
    for (int round = 0; round < 3; round++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* ---- XXH3 ---- */

uint64_t digest_checksum(const void *data, size_t data_bytes)
{
    return XXH3_64bits(data, data_bytes);
}

/* ---- SHA-256 ---- */

enum { BLOCK_BYTES = 64, LENGTH_BYTES = 8 };

/* Section 4.2.2: the first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static inline uint32_t rotate_right32(uint32_t word, unsigned bits)
{
    return word >> bits | word << (32 - bits);
}

static void sha256_expand(const uint8_t block[BLOCK_BYTES], uint32_t w[64])
{
    for (unsigned t = 0; t < 16; t++)
        w[t] = (uint32_t)block[4 * t] << 24 | (uint32_t)block[4 * t + 1] << 16 |
               (uint32_t)block[4 * t + 2] << 8 | block[4 * t + 3];
    for (unsigned t = 16; t < 64; t++) {
        const uint32_t sigma0 = rotate_right32(w[t - 15], 7) ^ rotate_right32(w[t - 15], 18) ^ w[t - 15] >> 3;
        const uint32_t sigma1 = rotate_right32(w[t - 2], 17) ^ rotate_right32(w[t - 2], 19) ^ w[t - 2] >> 10;
        w[t] = sigma1 + w[t - 7] + sigma0 + w[t - 16];
    }
}

/* One block of section 6.2.2; s[0..7] are a..h. */
static void sha256_compress(uint32_t hash[8], const uint8_t block[BLOCK_BYTES])
{
    uint32_t w[64], s[8];
    sha256_expand(block, w);
    memcpy(s, hash, sizeof(s));
    for (unsigned t = 0; t < 64; t++) {
        const uint32_t sum1 = rotate_right32(s[4], 6) ^ rotate_right32(s[4], 11) ^ rotate_right32(s[4], 25);
        const uint32_t choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
        const uint32_t sum0 = rotate_right32(s[0], 2) ^ rotate_right32(s[0], 13) ^ rotate_right32(s[0], 22);
        const uint32_t majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
        const uint32_t t1 = s[7] + sum1 + choice + round_constants[t] + w[t];
        memmove(&s[1], &s[0], 7 * sizeof(s[0]));
        s[4] += t1;
        s[0] = t1 + sum0 + majority;
    }
    for (unsigned i = 0; i < 8; i++)
        hash[i] += s[i];
}

/* The last one or two blocks: what is left, a 1 bit, zeros and the length in bits. */
static void sha256_compress_end(uint32_t hash[8], const uint8_t *rest, size_t rest_bytes, uint64_t data_bytes)
{
    uint8_t end[2 * BLOCK_BYTES] = {0};
    const size_t end_bytes = rest_bytes + 1 + LENGTH_BYTES <= BLOCK_BYTES ? BLOCK_BYTES : 2 * BLOCK_BYTES;
    if (rest_bytes > 0)
        memcpy(end, rest, rest_bytes);
    end[rest_bytes] = 0x80;
    for (unsigned i = 0; i < LENGTH_BYTES; i++)
        end[end_bytes - 1 - i] = (uint8_t)(data_bytes * 8 >> 8 * i);
    for (size_t at = 0; at < end_bytes; at += BLOCK_BYTES)
        sha256_compress(hash, end + at);
}

void digest_sha256(const void *data, size_t data_bytes, uint8_t out[DIGEST_SHA256_BYTES])
{
    const uint8_t *bytes = data;
    const size_t rest_bytes = data_bytes % BLOCK_BYTES;
    uint32_t hash[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    for (size_t at = 0; at + BLOCK_BYTES <= data_bytes; at += BLOCK_BYTES)
        sha256_compress(hash, bytes + at);
    sha256_compress_end(hash, rest_bytes > 0 ? bytes + data_bytes - rest_bytes : NULL, rest_bytes,
                        data_bytes);
    for (unsigned i = 0; i < DIGEST_SHA256_BYTES; i++)
        out[i] = (uint8_t)(hash[i / 4] >> (24 - 8 * (i % 4)));
}

#if defined(__GNUC__) && !defined(__clang__) && defined(__OPTIMIZE__)
#pragma GCC pop_options
#endif
