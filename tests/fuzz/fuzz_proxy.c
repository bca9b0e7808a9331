/* SPDX-License-Identifier: MIT */
/* fuzz_proxy.c - what clients and servers say through the proxy: each statement that begins ends once, in bounded
 * memory. */
#include "tests/fuzz/fuzz.h"

#include "load/witness/wire.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void tell(void *context, const struct wire_statement *statement)
{
    assert(statement->text != NULL && statement->parameters != NULL);
    assert(statement->begun_us <= statement->ended_us && strlen(statement->text) <= WIRE_TEXT_MAX);
    ++*(size_t *)context;
}

/* The first byte names the protocol; then pieces: a byte of who and how long, and so many bytes. */
void fuzz_proxy(const uint8_t *data, size_t bytes)
{
    static struct wire wire;
    size_t told = 0, at = 1;
    uint64_t now_us = 0;
    if (bytes == 0)
        return;
    wire_init(&wire, (enum wire_protocol)(data[0] % WIRE_PROTOCOLS), tell, &told);
    while (at < bytes) {
        size_t piece = data[at] >> 1, left = bytes - at - 1;
        bool is_client = (data[at++] & 1) != 0;
        piece = piece < left ? piece : left;
        char *copy = malloc(piece + 1);
        memcpy(copy, data + at, piece);
        (is_client ? wire_client : wire_server)(&wire, copy, piece, ++now_us);
        free(copy);
        at += piece;
        assert(wire.count <= WIRE_OPEN_MAX);
    }
    size_t open = wire.count, before = told;
    wire_clear(&wire, now_us + 1);
    assert(wire.count == 0 && told <= before + open);
}
