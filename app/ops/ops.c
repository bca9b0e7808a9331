/* SPDX-License-Identifier: MIT */
/*
 * ops.c - one table of paths, one function each.
 */
#include "app/ops/ops.h"

#include "app/base/clock.h"
#include "app/base/log.h"
#include "app/base/token.h"
#include "app/http/head.h"
#include "app/http/listener.h"
#include "app/http/reply.h"
#include "app/ops/ops_reply.h"
#include "app/ops/paths.h"
#include "app/view/stream.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum {
    SOCKET_MODE = 0600,
    STACK_BYTES = 1 << 20, /* jansson recurses */
    IDLE_LIMIT_S = 30,
    POOL_BYTES = 8192,
};

static const char TOKEN_SETTING[] = "OPS_TOKEN_FILE";

struct ops {
    struct ops_parts parts;
    struct policy policy;
    struct stream stream;
    struct token token;
    atomic_bool draining;
    struct listener listener;
    struct MHD_Daemon *daemon;
    struct places places;
};

/* ---- refusals ---- */

static const struct ops_refusal UNKNOWN_PATH = {MHD_HTTP_NOT_FOUND, "No such path",
                                                "Ask for /, /healthz, /readyz, /metrics, /hot, /live, "
                                                "/invalidate, /expire, /refresh, /clear or /policy.",
                                                NULL, NULL};
static const struct ops_refusal NO_TOKEN = {MHD_HTTP_UNAUTHORIZED, "Token required",
                                            "Send Authorization: Bearer and the token of OPS_TOKEN_FILE.",
                                            MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer"};
static const struct ops_refusal FOREIGN_SITE = {MHD_HTTP_FORBIDDEN, "Foreign site",
                                                "A page of another site asks, in the browser of somebody who "
                                                "may: Sec-Fetch-Site says so. Open the address itself.",
                                                NULL, NULL};
static const struct ops_refusal NAMED_HOST = {MHD_HTTP_FORBIDDEN, "Host by name",
                                              "Without a token (OPS_TOKEN_FILE) it answers only what is "
                                              "asked of localhost or a numeric address: a page "
                                              "of any site may have its own name resolve to this machine. "
                                              "Use such an address, or set a token.",
                                              NULL, NULL};
static const struct ops_refusal BAD_PERIOD = {
    MHD_HTTP_BAD_REQUEST, "Not a period",
    "Give ?every_ms= with a number from 100 to 60000, or no argument for a line each second.", NULL, NULL};
static const struct ops_refusal ENOUGH_VIEWERS = {MHD_HTTP_SERVICE_UNAVAILABLE, "Too many viewers",
                                                  "Four read /live already: close one and try again.",
                                                  MHD_HTTP_HEADER_RETRY_AFTER, "5"};
static const struct ops_refusal NO_MORE_VIEWERS = {MHD_HTTP_SERVICE_UNAVAILABLE, "Shutting down",
                                                   "This process ends: look at its successor.",
                                                   MHD_HTTP_HEADER_RETRY_AFTER, "1"};
_Static_assert(STREAM_VIEWERS == 4, "as ENOUGH_VIEWERS says");
_Static_assert(STREAM_EVERY_MIN_MS == 100 && STREAM_EVERY_MAX_MS == 60000, "as BAD_PERIOD says");
static const struct ops_refusal BAD_HEAD = {
    MHD_HTTP_BAD_REQUEST, "Request refused",
    "Send the head of one HTTP request without a body, for exactly one Host.", NULL, NULL};

/* ---- paths ---- */

static bool page(const struct ops_parts *parts, struct MHD_Connection *connection)
{
    (void)parts;
    return page_answer(connection);
}

static struct place *place_of(struct MHD_Connection *connection)
{
    return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

static bool live(const struct ops_parts *parts, struct MHD_Connection *connection)
{
    struct place *place = place_of(connection);
    uint32_t every_ms;

    if (!stream_every_ms(connection, &every_ms))
        return ops_refuse(connection, &BAD_PERIOD);
    if (atomic_load(parts->draining))
        return ops_refuse(connection, &NO_MORE_VIEWERS);
    if (!places_stay(parts->places, place, clock_ms() + STREAM_PATIENCE_MS))
        return ops_refuse(connection, &ENOUGH_VIEWERS);
    return stream_begin(parts->stream, connection, every_ms, &place->yields_ms);
}

static const struct {
    const char *method, *path;
    bool needs_token;
    bool (*answer)(const struct ops_parts *parts, struct MHD_Connection *connection);
} TABLE[] = {
    {MHD_HTTP_METHOD_GET, "/", false, page},
    {MHD_HTTP_METHOD_GET, "/healthz", false, look_healthz},
    {MHD_HTTP_METHOD_GET, "/readyz", false, look_readyz},
    {MHD_HTTP_METHOD_GET, "/metrics", true, look_metrics},
    {MHD_HTTP_METHOD_GET, "/hot", true, look_hot},
    {MHD_HTTP_METHOD_GET, "/live", true, live},
    {MHD_HTTP_METHOD_POST, "/invalidate", true, change_invalidate},
    {MHD_HTTP_METHOD_POST, "/expire", true, change_expire},
    {MHD_HTTP_METHOD_POST, "/refresh", true, change_refresh},
    {MHD_HTTP_METHOD_POST, "/clear", true, change_clear},
    {MHD_HTTP_METHOD_POST, "/policy", true, change_policy},
};
enum { TABLE_ROWS = sizeof(TABLE) / sizeof(TABLE[0]) };

/* ---- requests ---- */

static bool is_authorized(const struct ops *ops, struct MHD_Connection *connection)
{
    static const char scheme[] = "Bearer ";
    const char *given =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);

    if (!ops->token.required)
        return true;
    return given != NULL && strncasecmp(given, scheme, sizeof(scheme) - 1) == 0 &&
           token_matches(&ops->token, given + sizeof(scheme) - 1 + strspn(given + sizeof(scheme) - 1, " "));
}

static bool method_fits(const char *method, const char *wanted)
{
    return strcmp(method, wanted) == 0 ||
           (strcmp(method, MHD_HTTP_METHOD_HEAD) == 0 && strcmp(wanted, MHD_HTTP_METHOD_GET) == 0);
}

static bool answer(struct ops *ops, struct MHD_Connection *connection, const char *method, const char *path)
{
    size_t row = 0;

    while (row < TABLE_ROWS && strcmp(path, TABLE[row].path) != 0)
        row++;
    if (row == TABLE_ROWS)
        return ops_refuse(connection, &UNKNOWN_PATH);
    if (!method_fits(method, TABLE[row].method)) {
        const struct ops_refusal wrong = {MHD_HTTP_METHOD_NOT_ALLOWED, "Method not allowed",
                                          "Use the one in the Allow header.", MHD_HTTP_HEADER_ALLOW,
                                          TABLE[row].method};

        return ops_refuse(connection, &wrong);
    }
    if (strcmp(path, "/") != 0 && ops_is_foreign(connection))
        return ops_refuse(connection, &FOREIGN_SITE);
    if (TABLE[row].needs_token && !is_authorized(ops, connection))
        return ops_refuse(connection, &NO_TOKEN);
    if (TABLE[row].needs_token && !ops->token.required && !ops->listener.is_unix &&
        !ops_host_is_address(connection))
        return ops_refuse(connection, &NAMED_HOST);
    return TABLE[row].answer(&ops->parts, connection);
}

/* On the thread that accepts, at both ends: no other connection is accepted while one waits for a place. */
static void notified(void *context, struct MHD_Connection *connection, void **slot,
                     enum MHD_ConnectionNotificationCode code)
{
    struct ops *ops = context;

    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        *slot = places_take(
            &ops->places, MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd);
    else if (*slot != NULL)
        places_leave(*slot);
}

/* A thread has one connection: a complaint on it is about that one. */
static _Thread_local struct MHD_Connection *heard;

__attribute__((format(printf, 2, 0))) static void complained(void *nothing, const char *format,
                                                             va_list arguments)
{
    (void)nothing;
    reply_log(format, arguments);
    if (heard != NULL && reply_complains_of_length(format))
        reply_refuse_length(heard, "");
}

/* What it returns is *seen at the first call of handle(). */
static void *hear_request_line(void *context, const char *uri, struct MHD_Connection *connection)
{
    (void)context;
    heard = connection;
    return (void *)(uintptr_t)head_target_end(uri);
}

/* Called when the head is complete and again when everything is: an answer at the first call closes. */
static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *path,
                              const char *method, const char *version, const char *body, size_t *body_bytes,
                              void **seen)
{
    struct place *place = place_of(connection);
    struct head_names names;
    enum problem problem;
    bool queued;

    (void)body, (void)body_bytes;
    if (*seen != context) {
        const struct strict_line line = {method, path, version, *seen};

        *seen = context;
        if (place == NULL)
            return MHD_NO;
        places_heard(place);
        if (!reply_refuses_head(connection, &line, &problem, &names))
            return MHD_YES;
        queued = ops_refuse(connection, &BAD_HEAD);
    } else {
        queued = answer(context, connection, method, path);
    }
    places_answered(place);
    return queued ? MHD_YES : MHD_NO;
}

/* ---- opening and closing ---- */

static struct MHD_Daemon *daemon_start(struct ops *ops, int listen_fd)
{
    return MHD_start_daemon(
        MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL | MHD_USE_ITC |
            MHD_USE_ERROR_LOG,
        0, NULL, NULL, handle, ops, MHD_OPTION_EXTERNAL_LOGGER, complained, NULL, MHD_OPTION_LISTEN_SOCKET,
        listen_fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned)OPS_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)IDLE_LIMIT_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)POOL_BYTES,
        MHD_OPTION_THREAD_STACK_SIZE, (size_t)STACK_BYTES, MHD_OPTION_ARRAY, strict_options(),
        MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, MHD_OPTION_UNESCAPE_CALLBACK, ops_decode, NULL,
        MHD_OPTION_URI_LOG_CALLBACK, hear_request_line, NULL, MHD_OPTION_NOTIFY_CONNECTION, notified, ops,
        MHD_OPTION_END);
}

/* What the settings' rule says of OPS_LISTEN: no token, no network. */
static bool given_may_be_open(const struct ops *ops, const struct given *given)
{
    int fds[GIVEN_MAX];

    if (given_for(given, GIVEN_OPS, fds) == 0 || ops->token.required || given_is_local(fds[0]))
        return true;
    log_event(
        LOG_LEVEL_ERROR, "ops",
        "reason=\"the socket named ops is reached from elsewhere: set OPS_TOKEN_FILE, or have it listen on "
        "127.0.0.0/8, [::1] or a path\"");
    return false;
}

static bool ops_start(struct ops *ops, const struct settings *settings, const struct given *given)
{
    const struct listener_options listen = {.setting = settings->ops_listen,
                                            .given = given,
                                            .use = GIVEN_OPS,
                                            .fd_count = 1,
                                            .path_mode = SOCKET_MODE};

    if (!token_read(TOKEN_SETTING, settings->ops_token_file, &ops->token) || !given_may_be_open(ops, given) ||
        !listener_open(&listen, &ops->listener))
        return false;
    ops->daemon = daemon_start(ops, ops->listener.fds[0]);
    if (ops->daemon == NULL) {
        log_event(
            LOG_LEVEL_ERROR, "ops",
            "reason=\"libmicrohttpd: no memory or no descriptors\" hint=\"raise MemoryMax or ulimit -n\"");
        return false;
    }
    listener_take(&ops->listener, 0); /* MHD_stop_daemon() closes it */
    log_event(LOG_LEVEL_INFO, "ops_listening", "address=%s token=%s", ops->listener.name,
              ops->token.required ? "required" : "none");
    return true;
}

static void join_parts(struct ops *ops, const struct settings *settings, const struct ops_service *service)
{
    ops->parts.of = *service;
    ops->parts.name_space = settings->guard.name_space;
    ops->parts.mode = settings->guard.mode;
    ops->parts.started_ms = clock_ms();
    ops->parts.started_at_ms = clock_wall_ms();
    ops->parts.draining = &ops->draining;
    ops->parts.policy = &ops->policy;
    ops->parts.stream = &ops->stream;
    ops->parts.places = &ops->places;
}

static bool open_stream(struct ops *ops, const struct settings *settings)
{
    ops->stream = (struct stream){.collect = look_sample,
                                  .context = &ops->parts,
                                  .about = {.pid = getpid(),
                                            .name_space = ops->parts.name_space,
                                            .address = server_address(ops->parts.of.server),
                                            .mode = ops->parts.mode,
                                            .max_loads = settings->guard.max_loads,
                                            .load_permits = settings->guard.load_permits,
                                            .near_bytes = settings->guard.near_bytes}};
    return stream_init(&ops->stream);
}

bool ops_open(const struct settings *settings, const struct given *given, const struct ops_service *service,
              struct ops **out)
{
    int fds[GIVEN_MAX];

    *out = NULL;
    if (strcmp(settings->ops_listen, "off") == 0 && given_for(given, GIVEN_OPS, fds) == 0)
        return true;
    struct ops *ops = calloc(1, sizeof(*ops));
    if (ops == NULL)
        return false;
    join_parts(ops, settings, service);
    policy_init(&ops->policy, settings);
    if (open_stream(ops, settings) && ops_start(ops, settings, given))
        *out = ops;
    else
        ops_close(&ops);
    return *out != NULL;
}

bool ops_read_token(struct ops *ops, const char *ops_token_file)
{
    return ops == NULL || token_replace(TOKEN_SETTING, ops_token_file, &ops->token);
}

void ops_drain(struct ops *ops)
{
    if (ops == NULL)
        return;
    atomic_store(&ops->draining, true);
    stream_end(&ops->stream);
}

void ops_close(struct ops **ops_slot)
{
    struct ops *ops = *ops_slot;

    *ops_slot = NULL;
    if (ops == NULL)
        return;
    listener_unlink(&ops->listener);
    atomic_store(&ops->places.closing, true);
    stream_end(&ops->stream);
    if (ops->daemon != NULL)
        MHD_stop_daemon(ops->daemon);
    listener_clear(&ops->listener);
    token_clear(&ops->token);
    policy_clear(&ops->policy);
    stream_clear(&ops->stream);
    free(ops);
}
