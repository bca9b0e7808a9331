/* SPDX-License-Identifier: MIT */
/* stream.c - see stream.h. */
#include "app/view/stream.h"

#include "app/base/clock.h"
#include "app/base/number.h"

#include "view_page.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BLOCK_BYTES = 4096, EVERY_DIGITS = 5, SEND_BUFFER_BYTES = 16 * 1024 };

struct stream_viewer {
    struct stream *stream;
    int fd;
    uint32_t every_ms;
    uint64_t next_ms; /* when the next line is due */
    _Atomic uint64_t *behind_ms;
    bool is_told; /* the first line has gone */
    bool is_last; /* the last one has been made */
    char *line;   /* owned; NULL: the next one is still to be made */
    size_t line_bytes, sent_bytes;
};

bool stream_init(struct stream *stream)
{
    stream->ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return stream->ended_fd != -1;
}

void stream_end(struct stream *stream)
{
    eventfd_write(stream->ended_fd, 1); /* and is never read */
}

void stream_clear(struct stream *stream)
{
    if (stream->ended_fd != -1)
        close(stream->ended_fd);
}

/* ---- lines ---- */

static bool make_line(struct stream_viewer *viewer)
{
    struct stream *stream = viewer->stream;
    struct live_sample sample = {0};

    stream->collect(stream->context, &sample);
    sample.draining = sample.draining || viewer->is_last;
    json_t *json =
        viewer->is_told ? live_json(&sample) : live_first_json(&sample, &stream->about, viewer->every_ms);
    viewer->line = json != NULL ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    if (viewer->line == NULL)
        return false;
    viewer->line_bytes = strlen(viewer->line);
    viewer->line[viewer->line_bytes++] = '\n'; /* over its NUL */
    viewer->sent_bytes = 0;
    viewer->is_told = true;
    return true;
}

/* Until its next line is due. False: it has gone. */
static bool wait_for_turn(struct stream_viewer *viewer)
{
    struct pollfd ends[] = {{.fd = viewer->fd, .events = POLLRDHUP},
                            {.fd = viewer->stream->ended_fd, .events = POLLIN}};
    int found;

    do
        found = poll(ends, 2, (int)clock_left_ms(viewer->next_ms));
    while (found == -1 && errno == EINTR);
    viewer->is_last = ends[1].revents != 0;
    return ends[0].revents == 0;
}

/* Lines that could not be sent in time are not made up for. */
static void set_next(struct stream_viewer *viewer)
{
    const uint64_t now_ms = clock_ms();

    viewer->next_ms += viewer->every_ms;
    if (viewer->next_ms < now_ms)
        viewer->next_ms = now_ms;
    atomic_store(viewer->behind_ms, viewer->next_ms + STREAM_PATIENCE_MS);
}

static ssize_t read_stream(void *context, uint64_t position, char *out, size_t max)
{
    struct stream_viewer *viewer = context;

    (void)position;
    if (viewer->line == NULL) {
        if (viewer->is_last || !wait_for_turn(viewer))
            return MHD_CONTENT_READER_END_OF_STREAM;
        if (!make_line(viewer))
            return MHD_CONTENT_READER_END_WITH_ERROR;
        set_next(viewer);
    }
    const size_t left = viewer->line_bytes - viewer->sent_bytes, bytes = left < max ? left : max;
    memcpy(out, viewer->line + viewer->sent_bytes, bytes);
    viewer->sent_bytes += bytes;
    if (viewer->sent_bytes == viewer->line_bytes) {
        free(viewer->line);
        viewer->line = NULL;
    }
    return (ssize_t)bytes;
}

static void free_viewer(void *context)
{
    struct stream_viewer *viewer = context;

    atomic_store(viewer->behind_ms, 0);
    free(viewer->line);
    free(viewer);
}

/* ---- answering ---- */

bool stream_every_ms(struct MHD_Connection *connection, uint32_t *out)
{
    const char *text = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "every_ms");
    const int count = MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, NULL, NULL);
    uint64_t number = STREAM_EVERY_MS;

    if (count != (text != NULL ? 1 : 0) ||
        (text != NULL && !number_parse(text, strlen(text), EVERY_DIGITS, &number)))
        return false;
    *out = (uint32_t)number;
    return number >= STREAM_EVERY_MIN_MS && number <= STREAM_EVERY_MAX_MS;
}

/* What it does not read is held in its socket, and not much of it; libmicrohttpd hangs up when it takes nothing. */
static void set_limits(struct MHD_Connection *connection, const struct stream_viewer *viewer)
{
    const int bytes = SEND_BUFFER_BYTES;

    setsockopt(viewer->fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
    MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT,
                              (unsigned)(viewer->every_ms + STREAM_PATIENCE_MS) / 1000);
}

/* Takes `viewer`, which is told when the connection ends. */
static bool queue(struct MHD_Connection *connection, struct stream_viewer *viewer)
{
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, read_stream, viewer, free_viewer);

    if (response == NULL) {
        free_viewer(viewer);
        return false;
    }
    const bool queued =
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "application/x-ndjson") == MHD_YES &&
        MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store") == MHD_YES &&
        MHD_add_response_header(response, MHD_HTTP_HEADER_X_CONTENT_TYPE_OPTIONS, "nosniff") == MHD_YES &&
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close") == MHD_YES &&
        MHD_queue_response(connection, MHD_HTTP_OK, response) == MHD_YES;
    MHD_destroy_response(response);
    return queued;
}

bool stream_begin(struct stream *stream, struct MHD_Connection *connection, uint32_t every_ms,
                  _Atomic uint64_t *behind_ms)
{
    struct stream_viewer *viewer = calloc(1, sizeof(*viewer));

    if (viewer == NULL)
        return false;
    *viewer = (struct stream_viewer){
        .stream = stream,
        .fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd,
        .every_ms = every_ms,
        .next_ms = clock_ms(),
        .behind_ms = behind_ms};
    set_limits(connection, viewer);
    return queue(connection, viewer);
}

/* ---- the page ---- */

static const struct {
    const char *name, *value;
} HEADERS[] = {
    {MHD_HTTP_HEADER_CONTENT_TYPE, "text/html; charset=utf-8"},
    {"Content-Security-Policy", PAGE_POLICY "; frame-ancestors 'none'"},
    {"X-Frame-Options", "DENY"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
    {MHD_HTTP_HEADER_X_CONTENT_TYPE_OPTIONS, "nosniff"},
    {MHD_HTTP_HEADER_CACHE_CONTROL, "no-store"},
};

bool page_answer(struct MHD_Connection *connection)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(
        sizeof(page_bytes), (void *)(uintptr_t)page_bytes, MHD_RESPMEM_PERSISTENT);
    bool whole = response != NULL;

    for (size_t i = 0; whole && i < sizeof(HEADERS) / sizeof(HEADERS[0]); i++)
        whole = MHD_add_response_header(response, HEADERS[i].name, HEADERS[i].value) == MHD_YES;
    whole = whole && MHD_queue_response(connection, MHD_HTTP_OK, response) == MHD_YES;
    if (response != NULL)
        MHD_destroy_response(response);
    return whole;
}
