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
#include "app/ops/change.h"
#include "app/ops/health.h"
#include "app/ops/metrics.h"
#include "app/ops/ops_reply.h"
#include "app/ops/places.h"
#include "app/ops/policy.h"

#include <dirent.h>
#include <jansson.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    SOCKET_MODE = 0600,
    STACK_BYTES = 1 << 20, /* jansson recurses */
    IDLE_LIMIT_S = 30,
    POOL_BYTES = 8192,
    HOT_SHOWN = 20,
};

static const char TOKEN_SETTING[] = "OPS_TOKEN_FILE";
static const char METRICS_TYPE[] = "text/plain; version=0.0.4; charset=utf-8";

struct ops {
    struct ops_parts parts;
    struct policy policy;
    enum guard_mode mode;
    uint64_t started_ms;
    struct token token;
    atomic_bool draining;
    struct listener listener;
    struct MHD_Daemon *daemon;
    struct places places;
};

/* ---- refusals ---- */

static const struct ops_refusal UNKNOWN_PATH = {
    MHD_HTTP_NOT_FOUND, "No such path",
    "There are /healthz, /readyz, /metrics, /hot, /invalidate, /expire, "
    "/refresh, /clear and /policy.",
    NULL, NULL};
static const struct ops_refusal NO_TOKEN = {MHD_HTTP_UNAUTHORIZED, "Token required",
                                            "Send Authorization: Bearer and the token of OPS_TOKEN_FILE.",
                                            MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer"};
static const struct ops_refusal BAD_HEAD = {
    MHD_HTTP_BAD_REQUEST, "Request refused",
    "Its head is not that of one HTTP request without a body for exactly one Host.", NULL, NULL};

/* ---- paths ---- */

static bool healthz(struct ops *ops, struct MHD_Connection *connection)
{
    const struct health health = health_look(ops->parts.server, ops->parts.guard);
    const bool well = health.is_well || atomic_load(&ops->draining);
    return ops_send(connection, well ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE,
                    json_pack("{s:b, s:i, s:I, s:I}", "healthy", (int)well, "server_loops",
                              (int)health.server_loops, "oldest_turn_ms", (json_int_t)health.server_turn_ms,
                              "guard_turn_ms", (json_int_t)health.guard_turn_ms));
}

static bool readyz(struct ops *ops, struct MHD_Connection *connection)
{
    const bool draining = atomic_load(&ops->draining);
    const bool database = catalog_ready(ops->parts.catalog);
    const bool ready = database && !draining;
    const struct warmer_state warmer = warmer_state(ops->parts.warmer);
    struct guard_stats stats;

    guard_stats(ops->parts.guard, &stats);
    const bool degraded =
        stats.redis_state != GUARD_REDIS_UP || stats.wake_state != GUARD_REDIS_UP || stats.breaker_open;
    return ops_send(connection, ready ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE,
                    json_pack("{s:b, s:b, s:s, s:s, s:s, s:I, s:b, s:b}", "ready", (int)ready, "draining",
                              (int)draining, "database", database ? "up" : "down", "redis",
                              metrics_redis_state_name(stats.redis_state), "wake",
                              metrics_redis_state_name(stats.wake_state), "reigns",
                              (json_int_t)stats.redis_reigns, "degraded", (int)degraded, "warming",
                              (int)warmer.is_warming));
}

static uint32_t count_open_fds(void)
{
    DIR *folder = opendir("/proc/self/fd");
    uint32_t count = 0;

    if (folder == NULL)
        return 0;
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder))
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count - 1; /* the folder's own */
}

static uint64_t read_resident_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    unsigned long long pages = 0;

    if (file == NULL)
        return 0;
    if (fscanf(file, "%*u %llu", &pages) != 1)
        pages = 0;
    fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void collect_kinds(const struct ops *ops, struct metrics_kind kinds[DOCUMENT_KIND_COUNT])
{
    for (size_t i = 0; i < DOCUMENT_KIND_COUNT; i++) {
        const struct guard_kind *kind = catalog_kind(ops->parts.catalog, (enum document_kind)i);

        kinds[i].name = guard_kind_name(kind);
        guard_kind_stats(kind, &kinds[i].stats);
    }
}

static void collect(struct ops *ops, struct metrics *out)
{
    struct rlimit limit = {0};

    *out = (struct metrics){.mode = ops->mode};
    guard_stats(ops->parts.guard, &out->guard);
    server_stats(ops->parts.server, &out->server);
    out->database_ready = catalog_ready(ops->parts.catalog);
    out->uptime_ms = clock_ms() - ops->started_ms;
    out->resident_bytes = read_resident_bytes();
    out->open_fds = count_open_fds();
    getrlimit(RLIMIT_NOFILE, &limit);
    out->max_fds = limit.rlim_cur < UINT32_MAX ? (uint32_t)limit.rlim_cur : UINT32_MAX;
}

static bool metrics(struct ops *ops, struct MHD_Connection *connection)
{
    struct metrics_kind kinds[DOCUMENT_KIND_COUNT];
    struct metrics numbers;
    char *text = NULL;
    size_t text_bytes = 0;
    FILE *out = open_memstream(&text, &text_bytes);

    if (out == NULL)
        return false;
    collect(ops, &numbers);
    collect_kinds(ops, kinds);
    numbers.kinds = kinds;
    numbers.kind_count = DOCUMENT_KIND_COUNT;
    metrics_write(&numbers, out);
    const bool whole = fclose(out) == 0;
    const struct reply_document document = {
        .status = MHD_HTTP_OK, .content_type = METRICS_TYPE, .body = whole ? text : ""};
    const bool queued = whole && reply_document(connection, &document);
    free(text);
    return queued;
}

static json_t *heat(const struct ops *ops, enum guard_hot_by by, uint64_t unit)
{
    struct guard_hot_key keys[HOT_SHOWN];
    const size_t count = guard_hot(ops->parts.guard, by, keys, HOT_SHOWN);
    json_t *list = json_array();

    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, json_pack("{s:s, s:I, s:I}", "key", keys[i].key, "weight",
                                              (json_int_t)(keys[i].weight / unit), "too_high_by_at_most",
                                              (json_int_t)(keys[i].error / unit)));
    return list;
}

static bool hot(struct ops *ops, struct MHD_Connection *connection)
{
    return ops_send(connection, MHD_HTTP_OK,
                    json_pack("{s:s, s:o, s:o}", "about", "this process; weights halve every minute",
                              "loads_saved", heat(ops, GUARD_HOT_COLLAPSED, 1), "waited_ms",
                              heat(ops, GUARD_HOT_WAIT, 1000)));
}

static bool invalidate(struct ops *ops, struct MHD_Connection *connection)
{
    return change_invalidate(&ops->parts, connection);
}

static bool expire(struct ops *ops, struct MHD_Connection *connection)
{
    return change_expire(&ops->parts, connection);
}

static bool refresh(struct ops *ops, struct MHD_Connection *connection)
{
    return change_refresh(&ops->parts, connection);
}

static bool clear(struct ops *ops, struct MHD_Connection *connection)
{
    return change_clear(&ops->parts, connection);
}

static bool policy(struct ops *ops, struct MHD_Connection *connection)
{
    return policy_answer(&ops->policy, &ops->parts, connection);
}

static const struct {
    const char *method, *path;
    bool needs_token;
    bool (*answer)(struct ops *ops, struct MHD_Connection *connection);
} TABLE[] = {
    {MHD_HTTP_METHOD_GET, "/healthz", false, healthz},       {MHD_HTTP_METHOD_GET, "/readyz", false, readyz},
    {MHD_HTTP_METHOD_GET, "/metrics", true, metrics},        {MHD_HTTP_METHOD_GET, "/hot", true, hot},
    {MHD_HTTP_METHOD_POST, "/invalidate", true, invalidate}, {MHD_HTTP_METHOD_POST, "/expire", true, expire},
    {MHD_HTTP_METHOD_POST, "/refresh", true, refresh},       {MHD_HTTP_METHOD_POST, "/clear", true, clear},
    {MHD_HTTP_METHOD_POST, "/policy", true, policy},
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
                                          "The Allow header names the one that is.", MHD_HTTP_HEADER_ALLOW,
                                          TABLE[row].method};

        return ops_refuse(connection, &wrong);
    }
    if (TABLE[row].needs_token && !is_authorized(ops, connection))
        return ops_refuse(connection, &NO_TOKEN);
    return TABLE[row].answer(ops, connection);
}

static struct place *place_of(struct MHD_Connection *connection)
{
    return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
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
        reply_refuse_length(heard);
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
    enum problem problem;
    bool queued;

    (void)body, (void)body_bytes;
    if (*seen != context) {
        const struct reply_line line = {method, path, version, *seen};

        *seen = context;
        if (place == NULL)
            return MHD_NO;
        places_heard(place);
        if (!reply_refuses_head(connection, &line, &problem))
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
        MHD_OPTION_THREAD_STACK_SIZE, (size_t)STACK_BYTES, MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1,
        MHD_OPTION_UNESCAPE_CALLBACK, reply_keep_raw, NULL, MHD_OPTION_URI_LOG_CALLBACK, hear_request_line,
        NULL, MHD_OPTION_NOTIFY_CONNECTION, notified, ops, MHD_OPTION_END);
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
        log_event(LOG_LEVEL_ERROR, "ops", "reason=\"libmicrohttpd: no memory or no descriptors\"");
        return false;
    }
    listener_take(&ops->listener, 0); /* MHD_stop_daemon() closes it */
    log_event(LOG_LEVEL_INFO, "ops_listening", "address=%s token=%s", ops->listener.name,
              ops->token.required ? "required" : "none");
    return true;
}

bool ops_open(const struct settings *settings, const struct given *given, const struct ops_parts *parts,
              struct ops **out)
{
    int fds[GIVEN_MAX];

    *out = NULL;
    if (strcmp(settings->ops_listen, "off") == 0 && given_for(given, GIVEN_OPS, fds) == 0)
        return true;
    struct ops *ops = calloc(1, sizeof(*ops));
    if (ops == NULL)
        return false;
    ops->parts = *parts;
    ops->parts.name_space = settings->guard.name_space;
    policy_init(&ops->policy, settings);
    ops->mode = settings->guard.mode;
    ops->started_ms = clock_ms();
    if (ops_start(ops, settings, given))
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
    if (ops != NULL)
        atomic_store(&ops->draining, true);
}

void ops_close(struct ops **ops_slot)
{
    struct ops *ops = *ops_slot;

    *ops_slot = NULL;
    if (ops == NULL)
        return;
    listener_unlink(&ops->listener);
    atomic_store(&ops->places.closing, true);
    if (ops->daemon != NULL)
        MHD_stop_daemon(ops->daemon);
    listener_clear(&ops->listener);
    token_clear(&ops->token);
    policy_clear(&ops->policy);
    free(ops);
}
