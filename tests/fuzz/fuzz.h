/* SPDX-License-Identifier: MIT */
/*
 * fuzz.h - what strangers can send us, as functions of bytes.
 *
 *     libFuzzer -> fuzz_main.c ---+
 *                                 +--> fuzz_targets[] --> the code itself, with assert() as the judge
 *     corpus/, mutated -> fuzz_test.c
 *
 * A target takes any bytes, keeps nothing from one call to the next, and aborts when a promise is broken. All
 * are deterministic: the same bytes do the same.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef void fuzz_run(const uint8_t *data, size_t bytes);

fuzz_run fuzz_reply;    /* replies of a Redis that means no good: redis_reader, protocol, greeting, errors */
fuzz_run fuzz_cluster;  /* views of the slots of a Cluster, and redirections */
fuzz_run fuzz_message;  /* what others publish on the channel */
fuzz_run fuzz_envelope; /* entries: those that are not ours, and ours there and back */
fuzz_run fuzz_key;      /* keys of the application and their spelling in Redis */
fuzz_run fuzz_address;  /* Redis URLs */
fuzz_run fuzz_core;     /* sequences of events into the core */
fuzz_run fuzz_locks;    /* sequences of events into the core of the locks */
fuzz_run fuzz_route;    /* request targets and keys */
fuzz_run fuzz_settings; /* flags and environment */
fuzz_run fuzz_head;     /* heads of requests, as libmicrohttpd leaves them */
fuzz_run fuzz_trace;    /* names that requests give themselves, and their lines in the access log */
fuzz_run fuzz_replay;   /* lines of access logs, as the load tool reads them */
fuzz_run fuzz_http;     /* responses, as the load tool reads them */
fuzz_run fuzz_proxy;    /* what passes through the proxy that counts */

struct fuzz_target {
    const char *name; /* also of its folder and its .base64 in corpus/ */
    fuzz_run *run;
};
/* Ends with a NULL name. */
extern const struct fuzz_target fuzz_targets[];

/* NULL: none of this name. */
const struct fuzz_target *fuzz_target(const char *name);

/* ---- for the targets ---- */

/* Bytes taken one after another; zeros behind the end. */
struct fuzz_input {
    const uint8_t *at;
    size_t left;
};

uint8_t fuzz_byte(struct fuzz_input *input);
uint32_t fuzz_u32(struct fuzz_input *input);

/* NUL-terminated, in a block of just this size, so that a byte too far is seen; free() is yours. */
char *fuzz_text(const uint8_t *data, size_t bytes);
