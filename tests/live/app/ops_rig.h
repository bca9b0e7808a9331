/* SPDX-License-Identifier: MIT */
/* ops_rig.h - a service in the test's own process, for tests of its operations listener. */
#pragma once

#include "app/ops/ops.h"
#include "load/base/http.h"
#include "load/base/net.h"
#include "tests/support/test.h"

#include <stdio.h>

enum { LIMIT_MS = 20000 };

/* Without a Redis and without a catalog: /healthz asks for neither, and a sample says so. */
struct service {
    struct running *running;
    struct guard *guard;
    struct guard_kind *kind;
    struct server *server;
    struct ops *ops;
    char host[64]; /* of the operations listener */
    uint16_t ops_port;
};

static inline void load_nothing(struct guard_load *load, void *context)
{
    (void)context;
    guard_load_absent(load);
}

/* `path`: of a unix listener; NULL: TCP. `token_file`: NULL: none. */
static inline void service_open(struct service *service, const char *path, const char *token_file)
{
    struct guard_config config = GUARD_CONFIG_DEFAULTS;
    struct guard_policy policy = GUARD_POLICY_DEFAULTS;
    char ops_listen[80];

    *service = (struct service){.ops_port = net_free_port()};
    config.redis_url = "unix:///nonexistent/redis";
    policy.loader = load_nothing;
    service->running = running_open();
    assert_non_null(service->running);
    config.event = running_note;
    config.event_context = service->running;
    assert_int_equal(guard_open(&config, &service->guard, NULL), GUARD_OK);
    assert_int_equal(guard_kind_add(service->guard, &policy, &service->kind, NULL), GUARD_OK);
    const struct server_config server = {.listen = "127.0.0.1:0",
                                         .loops = 1,
                                         .connections_max = 10,
                                         .revalidate_token_file = "",
                                         .guard = service->guard,
                                         .kinds = {service->kind, service->kind, service->kind}};
    assert_true(server_open(&server, &service->server));
    snprintf(service->host, sizeof service->host, path != NULL ? "unix:%s" : "127.0.0.1", path);
    snprintf(ops_listen, sizeof ops_listen, path != NULL ? "%s" : "%s:%u", service->host,
             (unsigned)service->ops_port);
    const struct settings settings = {
        .guard = config, .ops_listen = ops_listen, .ops_token_file = token_file != NULL ? token_file : ""};
    const struct ops_service of = {
        .guard = service->guard, .server = service->server, .running = service->running};
    assert_true(ops_open(&settings, NULL, &of, &service->ops));
}

static inline void service_close(struct service *service)
{
    guard_drain(service->guard);
    server_stop(service->server, 0);
    ops_close(&service->ops);
    server_close(&service->server);
    assert_int_equal(guard_close(&service->guard, LIMIT_MS), GUARD_OK);
    running_close(&service->running);
}
