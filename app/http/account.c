/* SPDX-License-Identifier: MIT */
/* account.c - see account.h. */
#include "app/http/account.h"

#include "app/base/clock.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { TARGET_MAX = 1500, METHOD_SIZE = 24, PROTOCOL_SIZE = 12, HUNG_UP = 499 };

struct account {
    uint64_t begun_us, load;
    size_t bytes;
    const char *source; /* static; NULL: none */
    unsigned status;    /* 0: not answered */
    char method[METHOD_SIZE], protocol[PROTOCOL_SIZE];
    char target[];
};

struct account *account_new(const struct access_lane *lane, const char *target)
{
    const size_t bytes = lane != NULL ? strnlen(target, TARGET_MAX) : 0;
    struct account *account = lane != NULL ? malloc(sizeof(*account) + bytes + 1) : NULL;

    if (account == NULL)
        return NULL;
    *account = (struct account){.begun_us = clock_fine_us()};
    memcpy(account->target, target, bytes);
    account->target[bytes] = '\0';
    return account;
}

void account_head(struct account *account, const char *method, const char *protocol)
{
    if (account == NULL)
        return;
    snprintf(account->method, sizeof(account->method), "%s", method);
    snprintf(account->protocol, sizeof(account->protocol), "%s", protocol);
}

void account_source(struct account *account, const char *source, uint64_t load)
{
    if (account == NULL)
        return;
    account->source = source;
    account->load = load;
}

void account_answer(struct account *account, unsigned status, size_t body_bytes)
{
    const bool has_body = account != NULL && status != MHD_HTTP_NOT_MODIFIED &&
                          strcmp(account->method, MHD_HTTP_METHOD_HEAD) != 0;

    if (account == NULL)
        return;
    account->status = status;
    account->bytes = has_body ? body_bytes : 0;
}

/* ---- the end ---- */

static enum access_end end_of(const struct account_end *end)
{
    if (end->code == MHD_REQUEST_TERMINATED_COMPLETED_OK)
        return ACCESS_DONE;
    if (end->expired)
        return ACCESS_EXPIRED;
    return end->code == MHD_REQUEST_TERMINATED_DAEMON_SHUTDOWN ? ACCESS_STOPPED : ACCESS_HUNG_UP;
}

/* 0: libmicrohttpd has not refused it. */
static unsigned refused_status(const struct account_end *end)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(end->connection, MHD_CONNECTION_INFO_HTTP_STATUS);

    return info != NULL ? info->http_status : 0;
}

static unsigned status_without_answer(const struct account_end *end)
{
    static const unsigned STATUSES[] = {[ACCESS_DONE] = HUNG_UP,
                                        [ACCESS_HUNG_UP] = HUNG_UP,
                                        [ACCESS_EXPIRED] = MHD_HTTP_REQUEST_TIMEOUT,
                                        [ACCESS_STOPPED] = MHD_HTTP_SERVICE_UNAVAILABLE};

    return STATUSES[end_of(end)];
}

static const char *remote_of(struct MHD_Connection *connection, char out[INET6_ADDRSTRLEN])
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *address = info != NULL ? info->client_addr : NULL;

    if (address != NULL && address->sa_family == AF_INET)
        return inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)address)->sin_addr, out,
                         INET6_ADDRSTRLEN);
    if (address != NULL && address->sa_family == AF_INET6)
        return inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, out,
                         INET6_ADDRSTRLEN);
    return NULL;
}

static const char *header(const struct account_end *end, const char *name)
{
    return MHD_lookup_connection_value(end->connection, MHD_HEADER_KIND, name);
}

/* Where libmicrohttpd refused the request, it has written its answer over the head. */
static void put(const struct account *account, struct access_lane *lane, const struct account_end *end)
{
    const unsigned refused = account->status == 0 ? refused_status(end) : 0;
    const bool head_is_there = account->method[0] != '\0' && refused == 0;
    const uint64_t duration_us = clock_fine_us() - account->begun_us;
    char remote[INET6_ADDRSTRLEN];
    const struct access_line line = {
        .began = clock_wall_before(duration_us),
        .duration_us = duration_us,
        .remote = remote_of(end->connection, remote),
        .method = account->method,
        .target = account->target,
        .protocol = account->protocol,
        .status = refused != 0           ? refused
                  : account->status != 0 ? account->status
                                         : status_without_answer(end),
        .bytes = account->bytes,
        .referer = head_is_there ? header(end, MHD_HTTP_HEADER_REFERER) : NULL,
        .user_agent = head_is_there ? header(end, MHD_HTTP_HEADER_USER_AGENT) : NULL,
        .route = end->route,
        .source = account->source,
        .load = account->load,
        .request = end->trace->request,
        .trace = trace_id(end->trace),
        .end = end_of(end),
    };

    access_put(lane, &line);
}

void account_close(struct account **account_slot, struct access_lane *lane, const struct account_end *end)
{
    struct account *account = *account_slot;

    *account_slot = NULL;
    if (account == NULL)
        return;
    put(account, lane, end);
    free(account);
}
