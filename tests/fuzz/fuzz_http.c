/* SPDX-License-Identifier: MIT */
/* fuzz_http.c - responses as the load tool reads them: however they are cut, they say the same. */
#include "tests/fuzz/fuzz.h"

#include "load/base/http_parse.h"

#include <assert.h>
#include <string.h>

struct read {
    struct http_parse parse;
    uint64_t body_bytes, body_sum;
    size_t used;
};

static void take_body(void *context, const char *bytes, size_t count)
{
    struct read *read = context;
    assert(count > 0);
    for (size_t i = 0; i < count; i++)
        read->body_sum = read->body_sum * 31 + (uint8_t)bytes[i];
    read->body_bytes += count;
}

static void read_response(struct read *read, const uint8_t *data, size_t bytes, size_t piece_bytes, bool head)
{
    *read = (struct read){.used = 0};
    http_parse_init(&read->parse, take_body, read);
    http_parse_next(&read->parse, head);
    while (read->used < bytes) {
        size_t left = bytes - read->used, piece = left < piece_bytes ? left : piece_bytes;
        size_t used = http_parse_feed(&read->parse, (const char *)data + read->used, piece);
        bool over = read->parse.state == HTTP_PARSE_DONE || read->parse.state == HTTP_PARSE_BAD;
        assert(used <= piece && (used == piece || over));
        read->used += used;
        if (over)
            break;
    }
    assert(read->body_bytes == read->parse.body_bytes);
}

static void check_end(struct read *read)
{
    if (read->parse.state == HTTP_PARSE_DONE)
        assert(read->parse.status >= 100 && read->parse.status <= 999);
    http_parse_end(&read->parse);
    assert(read->parse.state == HTTP_PARSE_DONE || read->parse.state == HTTP_PARSE_BAD);
    assert(!read->parse.keeps_alive);
}

void fuzz_http(const uint8_t *data, size_t bytes)
{
    struct read whole, parts;
    if (bytes < 1 || bytes > 32768) /* beyond it the limit of the head depends on the pieces */
        return;
    bool head = (data[0] & 1) != 0;
    read_response(&whole, data + 1, bytes - 1, bytes, head);
    read_response(&parts, data + 1, bytes - 1, 1 + data[0] % 7, head);
    assert(whole.parse.state == parts.parse.state);
    if (whole.parse.state != HTTP_PARSE_BAD) {
        assert(whole.parse.status == parts.parse.status && whole.used == parts.used);
        assert(whole.body_bytes == parts.body_bytes && whole.body_sum == parts.body_sum);
    }
    check_end(&whole);
    check_end(&parts);
    http_parse_clear(&whole.parse);
    http_parse_clear(&parts.parse);
}
