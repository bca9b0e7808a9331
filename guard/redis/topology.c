/* SPDX-License-Identifier: MIT */
/* redis/topology.c - see redis/topology.h. */
#include "topology.h"
#include <stdio.h>
#include <stdlib.h>

struct redis_topology {
    struct redis_url url;
    struct redis_place place;
    struct guard_host *host;
    struct host_soon closer;
    void (*closed)(void *context);
    void *closed_context;
};

static void on_topology_closed(void *context)
{
    struct redis_topology *topology = context;
    void (*closed)(void *context) = topology->closed;
    void *closed_context = topology->closed_context;

    redis_place_clear(&topology->place);
    redis_url_clear(&topology->url);
    free(topology);
    if (closed != NULL)
        closed(closed_context);
}

static struct redis_topology *refuse_topology(struct guard_error *error, enum guard_status status,
                                              const char *why)
{
    if (error != NULL) {
        error->status = status;
        snprintf(error->text, sizeof error->text, "redis_url: %s", why);
    }
    return NULL;
}

struct redis_topology *redis_topology_open(struct guard_host *host, const struct redis_url *url,
                                           const struct redis_topology_hooks *hooks,
                                           struct guard_error *error)
{
    if (url->tls.on)
        return refuse_topology(error, GUARD_INVALID, "rediss:// (TLS) is not built in");
    if (url->kind != REDIS_ONE)
        return refuse_topology(error, GUARD_INVALID, "only redis:// and unix:// are built in");
    struct redis_topology *topology = calloc(1, sizeof *topology);
    if (topology == NULL)
        return refuse_topology(error, GUARD_NO_MEMORY, "no memory");
    topology->url = *url;
    topology->host = host;
    topology->closer = (struct host_soon){.run = on_topology_closed, .context = topology};
    redis_place_init(&topology->place, &url->hosts[0], hooks->ended, hooks->context);
    return topology;
}

void redis_topology_close(struct redis_topology *topology, void (*closed)(void *context), void *context)
{
    topology->closed = closed;
    topology->closed_context = context;
    host_soon(topology->host, &topology->closer);
}

const struct redis_url *redis_topology_url(const struct redis_topology *topology)
{
    return &topology->url;
}

struct redis_place *redis_topology_place(struct redis_topology *topology)
{
    return &topology->place;
}

uint64_t redis_topology_reigns(const struct redis_topology *topology)
{
    return redis_reign_now(&topology->place.reign);
}
