/* SPDX-License-Identifier: MIT */
/* page.c - see page.h. */
#include "app/view/page.h"

#include "view_page.h"

#include <stddef.h>
#include <stdint.h>

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
