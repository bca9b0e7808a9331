/* SPDX-License-Identifier: MIT */
/* site.c - see site.h. */
#include "app/ops/site.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { HOST_BYTES = 64 };

static const char *header(struct MHD_Connection *connection, const char *name)
{
    const char *value = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);

    return value != NULL ? value : "";
}

bool site_is_foreign(struct MHD_Connection *connection)
{
    const char *site = header(connection, "Sec-Fetch-Site");

    return strcmp(site, "cross-site") == 0 || strcmp(site, "same-site") == 0;
}

bool site_host_is_address(struct MHD_Connection *connection)
{
    const char *host = header(connection, MHD_HTTP_HEADER_HOST);
    const bool is_v6 = host[0] == '[';
    const size_t bytes = strcspn(host += is_v6, is_v6 ? "]" : ":");
    unsigned char address[sizeof(struct in6_addr)];
    char name[HOST_BYTES];

    if (bytes >= sizeof(name))
        return false;
    snprintf(name, sizeof(name), "%.*s", (int)bytes, host);
    return strcasecmp(name, "localhost") == 0 || inet_pton(is_v6 ? AF_INET6 : AF_INET, name, address) == 1;
}
