/* SPDX-License-Identifier: MIT */
/*
 * digest.h - the hashes of the guard: SipHash for tables, XXH3 for checksums, SHA-256 for long keys.
 *
 * Pure, any thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { DIGEST_KEY_BYTES = 16, DIGEST_SHA256_BYTES = 32 };

/*
 * SipHash-1-3 with 64 bits of output. With a random key nobody outside can find keys that share a bucket
 * of a hash table. It is not a MAC.
 */
uint64_t digest_siphash(const uint8_t key[DIGEST_KEY_BYTES], const void *data, size_t data_bytes);

/* XXH3 with 64 bits and no seed, the same on every machine. It tells damage, not forgery. */
uint64_t digest_checksum(const void *data, size_t data_bytes);

/* SHA-256 of FIPS 180-4. */
void digest_sha256(const void *data, size_t data_bytes, uint8_t out[DIGEST_SHA256_BYTES]);
