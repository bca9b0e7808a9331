/* SPDX-License-Identifier: MIT */
/* account.c - see account.h. */
#include "app/http/account.h"

#include "app/base/clock.h"
#include "app/common/random.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { TARGET_MAX = 1500, METHOD_SIZE = 24, PROTOCOL_SIZE = 12, HUNG_UP = 499 };

struct account_record {
    uint64_t begun_us, load;
    size_t bytes;
    const char *source; /* static; NULL: none */
    unsigned status;    /* 0: not answered */
    char method[METHOD_SIZE], protocol[PROTOCOL_SIZE];
    char target[];
};

/* NULL: no memory. */
static struct account_record *record_new(const char *target)
{
    const size_t bytes = strnlen(target, TARGET_MAX);
    struct account_record *record = malloc(sizeof(*record) + bytes + 1);

    if (record == NULL)
        return NULL;
    *record = (struct account_record){.begun_us = clock_fine_us()};
    memcpy(record->target, target, bytes);
    record->target[bytes] = '\0';
    return record;
}

void account_begin(struct account *account, const struct access_lane *lane, const char *target)
{
    if (lane != NULL)
        account->record = record_new(target);
}

void account_head(struct account *account, const struct account_head *head, uint64_t *dice)
{
    const struct head_names *names = head->names;
    const char *authorization = NULL;

    if (names->request == NULL && names->trace == NULL && account->record == NULL && !head->may_own)
        return;
    struct trace trace = {.request = ""};
    trace_take_parent(&trace, names->trace);
    if (!trace_take_request(&trace, names->request) && account->record != NULL)
        trace_make_request(&trace, random_next(dice));
    if (head->may_own)
        authorization =
            MHD_lookup_connection_value(head->connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
    account->asker = asker_new(authorization, &trace);
    if (account->record == NULL)
        return;
    snprintf(account->record->method, METHOD_SIZE, "%s", head->method);
    snprintf(account->record->protocol, PROTOCOL_SIZE, "%s", head->protocol);
}

const char *account_request(const struct account *account)
{
    return account->asker != NULL ? asker_trace(account->asker)->request : "";
}

void account_source(struct account *account, const struct guard_result *result)
{
    const bool is_answer = result->status == GUARD_OK || result->status == GUARD_ABSENT;

    if (account->record == NULL)
        return;
    account->record->source =
        is_answer ? guard_source_name(result->source) : guard_status_name(result->status);
    account->record->load = result->load;
}

void account_outcome(struct account *account, const char *outcome)
{
    if (account->record != NULL)
        account->record->source = outcome;
}

/* ---- the answer ---- */

void account_name(const struct account *account, struct answer *answer, uint64_t *dice)
{
    const char *request = account_request(account);
    struct trace made;

    if (request[0] == '\0' && answer->status >= MHD_HTTP_BAD_REQUEST) {
        trace_make_request(&made, random_next(dice));
        request = made.request;
    }
    answer_name_request(request, answer);
}

void account_answer(struct account *account, unsigned status, size_t body_bytes)
{
    struct account_record *record = account->record;

    if (record == NULL)
        return;
    const bool has_body =
        status != MHD_HTTP_NOT_MODIFIED && strcmp(record->method, MHD_HTTP_METHOD_HEAD) != 0;
    record->status = status;
    record->bytes = has_body ? body_bytes : 0;
}

/* ---- the end ---- */

static enum access_end end_of(const struct account_over *over)
{
    if (over->code == MHD_REQUEST_TERMINATED_COMPLETED_OK)
        return ACCESS_DONE;
    if (over->expired)
        return ACCESS_EXPIRED;
    return over->code == MHD_REQUEST_TERMINATED_DAEMON_SHUTDOWN ? ACCESS_STOPPED : ACCESS_HUNG_UP;
}

/* 0: libmicrohttpd has not refused it. */
static unsigned refused_status(const struct account_over *over)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(over->connection, MHD_CONNECTION_INFO_HTTP_STATUS);

    return info != NULL ? info->http_status : 0;
}

static unsigned status_without_answer(const struct account_over *over)
{
    static const unsigned STATUSES[] = {[ACCESS_DONE] = HUNG_UP,
                                        [ACCESS_HUNG_UP] = HUNG_UP,
                                        [ACCESS_EXPIRED] = MHD_HTTP_REQUEST_TIMEOUT,
                                        [ACCESS_STOPPED] = MHD_HTTP_SERVICE_UNAVAILABLE};

    return STATUSES[end_of(over)];
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

static const char *header(const struct account_over *over, const char *name)
{
    return MHD_lookup_connection_value(over->connection, MHD_HEADER_KIND, name);
}

/* Where libmicrohttpd refused the request, it has written its answer over the head. */
static void put(const struct account *account, struct access_lane *lane, const struct account_over *over)
{
    const struct account_record *record = account->record;
    const struct trace *trace = asker_trace(account->asker);
    const unsigned refused = record->status == 0 ? refused_status(over) : 0;
    const bool head_is_there = record->method[0] != '\0' && refused == 0;
    const uint64_t duration_us = clock_fine_us() - record->begun_us;
    char remote[INET6_ADDRSTRLEN];
    const struct access_line line = {
        .began = clock_wall_before(duration_us),
        .duration_us = duration_us,
        .remote = remote_of(over->connection, remote),
        .method = record->method,
        .target = record->target,
        .protocol = record->protocol,
        .status = refused != 0          ? refused
                  : record->status != 0 ? record->status
                                        : status_without_answer(over),
        .bytes = record->bytes,
        .referer = head_is_there ? header(over, MHD_HTTP_HEADER_REFERER) : NULL,
        .user_agent = head_is_there ? header(over, MHD_HTTP_HEADER_USER_AGENT) : NULL,
        .route = over->route,
        .source = record->source,
        .load = record->load,
        .request = trace->request,
        .trace = trace_id(trace),
        .end = end_of(over),
    };

    access_put(lane, &line);
}

void account_end(struct account *account, struct access_lane *lane, const struct account_over *over)
{
    if (account->record != NULL)
        put(account, lane, over);
    free(account->record);
    asker_unref(account->asker);
    *account = (struct account){.asker = NULL};
}
