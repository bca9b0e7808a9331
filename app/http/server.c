/* SPDX-License-Identifier: MIT */
/*
 * server.c - the loops as one thing: started together, stopped together, counted together.
 */
#include "app/http/server.h"

#include "app/base/clock.h"
#include "app/base/log.h"
#include "app/http/listener.h"
#include "app/http/loop.h"

#include <assert.h>
#include <stdlib.h>

static const char REVALIDATE_SETTING[] = "REVALIDATE_TOKEN_FILE";

enum { SOCKET_MODE = 0660 }; /* of a unix listener: a proxy of the same group connects */

struct server {
    struct client_shared shared;
    struct listener listener;
    struct server_loop **loops;     /* owned; each on cache lines of its own */
    size_t loop_wanted, loop_count; /* of those that are to run, and that do */
};

static bool loops_start(struct server *server)
{
    const size_t align = _Alignof(struct server_loop);

    server->loop_wanted = server->listener.fd_count;
    server->loops = calloc(server->loop_wanted, sizeof(struct server_loop *));
    if (server->loops == NULL)
        return false;
    for (size_t i = 0; i < server->loop_wanted; i++) {
        struct server_loop *loop = aligned_alloc(align, (sizeof(*loop) + align - 1) / align * align);

        if (loop == NULL)
            return false;
        *loop = (struct server_loop){.index = i,
                                     .listen_fd = listener_take(&server->listener, i),
                                     .keeps_backlog = server->listener.is_given,
                                     .clients.shared = &server->shared};
        if (!loop_start(loop)) {
            free(loop);
            return false;
        }
        server->loops[server->loop_count++] = loop;
    }
    return true;
}

bool server_open(const struct server_config *config, struct server **out)
{
    const struct listener_options listen = {.setting = config->listen,
                                            .given = config->given,
                                            .use = GIVEN_HTTP,
                                            .fd_count = config->loops,
                                            .path_mode = SOCKET_MODE};
    struct server *server = calloc(1, sizeof(*server));

    assert(config->loops > 0);
    if (server == NULL)
        return false;
    server->shared = (struct client_shared){.guard = config->guard,
                                            .writer = config->writer,
                                            .access = config->access,
                                            .fresh_ms = config->fresh_ms,
                                            .connections_max = config->connections_max,
                                            .shelf_bytes_max = config->shelf_bytes_max};
    server->shared.kinds[ROUTE_CATALOG] = config->kinds[DOCUMENT_TREE];
    server->shared.kinds[ROUTE_CATEGORY] = config->kinds[DOCUMENT_CATEGORY];
    server->shared.kinds[ROUTE_PRODUCT] = server->shared.kinds[ROUTE_PRODUCTS] =
        config->kinds[DOCUMENT_PRODUCT];
    server->shared.kinds[ROUTE_OFFERS] = config->kinds[DOCUMENT_OFFERS];

    if (!token_read(REVALIDATE_SETTING, config->revalidate_token_file, &server->shared.revalidate) ||
        !listener_open(&listen, &server->listener) || !loops_start(server)) {
        server_stop(server, 0);
        server_close(&server);
        return false;
    }
    log_event(LOG_LEVEL_INFO, "listening", "address=%s loops=%zu", server->listener.name, server->loop_count);
    *out = server;
    return true;
}

bool server_read_token(struct server *server, const char *revalidate_token_file)
{
    return token_replace(REVALIDATE_SETTING, revalidate_token_file, &server->shared.revalidate);
}

void server_stop(struct server *server, uint32_t drain_ms)
{
    listener_unlink(&server->listener);
    for (size_t i = 0; i < server->loop_count; i++)
        loop_stop(server->loops[i], drain_ms);
    for (size_t i = 0; i < server->loop_count; i++)
        loop_join(server->loops[i]);
}

void server_close(struct server **server_slot)
{
    struct server *server = *server_slot;

    *server_slot = NULL;
    for (size_t i = 0; i < server->loop_count; i++)
        free(server->loops[i]);
    listener_clear(&server->listener);
    token_clear(&server->shared.revalidate);
    free(server->loops);
    free(server);
}

void server_set_fresh_ms(struct server *server, uint32_t fresh_ms)
{
    atomic_store_explicit(&server->shared.fresh_ms, fresh_ms, memory_order_relaxed);
}

const char *server_address(const struct server *server)
{
    return server->listener.name;
}

static void add_loop(const struct server_loop *loop, uint64_t now_ms, struct server_stats *out)
{
    const uint64_t beat_ms = atomic_load_explicit(&loop->beat_ms, memory_order_relaxed);
    const uint64_t age_ms = now_ms > beat_ms ? now_ms - beat_ms : 0;

    for (size_t target = 0; target < ROUTE_TARGET_COUNT; target++) {
        for (size_t hundreds = 0; hundreds < CLIENT_STATUS_CLASSES; hundreds++)
            out->answers[target][hundreds] +=
                atomic_load_explicit(&loop->clients.counters.answers[target][hundreds], memory_order_relaxed);
    }
    out->connections_expired += atomic_load_explicit(&loop->clients.counters.expired, memory_order_relaxed);
    out->connections_busy += client_busy_count(&loop->clients);
    out->connections_parked += client_count(&loop->clients, CLIENT_PARKED);
    out->shelf_bytes += atomic_load_explicit(&loop->clients.shelf.bytes, memory_order_relaxed);
    if (age_ms > out->beat_age_ms)
        out->beat_age_ms = age_ms < UINT32_MAX ? (uint32_t)age_ms : UINT32_MAX;
}

void server_stats(const struct server *server, struct server_stats *out)
{
    const uint64_t now_ms = clock_ms();

    *out = (struct server_stats){.loops = (uint32_t)server->loop_count};
    out->connections = atomic_load_explicit(&server->shared.connection_count, memory_order_relaxed);
    for (size_t i = 0; i < server->loop_count; i++)
        add_loop(server->loops[i], now_ms, out);
    access_stats(server->shared.access, &out->access);
    out->writes_on = server->shared.writer != NULL;
    if (out->writes_on)
        writer_stats(server->shared.writer, &out->writes);
}
