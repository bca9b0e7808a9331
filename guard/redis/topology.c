/* SPDX-License-Identifier: MIT */
/* redis/topology.c - see redis/topology.h. */
#include "topology.h"
#include "sentinel.h"
#include <stdio.h>
#include <stdlib.h>

static void free_topology(struct redis_topology *topology)
{
    redis_place_clear(&topology->place);
    redis_news_clear(&topology->news);
    redis_tls_close(&topology->tls);
    redis_url_clear(&topology->url);
    free(topology);
}

static void on_topology_closed(void *context)
{
    struct redis_topology *topology = context;
    struct host_told told = topology->told;
    free_topology(topology);
    host_tell(told);
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
    struct redis_topology *topology = calloc(1, sizeof *topology);
    if (topology == NULL)
        return refuse_topology(error, GUARD_NO_MEMORY, "no memory");
    topology->tls = url->tls.on ? redis_tls_open(&url->tls, error) : NULL;
    if (url->tls.on && topology->tls == NULL) {
        free(topology);
        return NULL;
    }
    topology->url = *url;
    topology->host = host;
    topology->closer = (struct host_soon){.run = on_topology_closed, .context = topology};
    redis_news_init(&topology->news);
    redis_place_init(&topology->place, url->kind == REDIS_ONE ? &url->hosts[0] : NULL, hooks->ended,
                     hooks->context);
    if (url->kind == REDIS_SENTINEL)
        topology->watcher = redis_watcher_open(host, &topology->url, topology->tls, &topology->place);
    if (url->kind == REDIS_CLUSTER)
        topology->cluster =
            redis_cluster_open(host, &topology->url, topology->tls, hooks->ended, hooks->context);
    if (url->kind == REDIS_ONE || topology->watcher != NULL || topology->cluster != NULL)
        return topology;
    free_topology(topology);
    return refuse_topology(error, GUARD_NO_MEMORY, "no memory");
}

void redis_topology_close(struct redis_topology *topology, void (*closed)(void *context), void *context)
{
    topology->told = (struct host_told){closed, context};
    if (topology->cluster != NULL)
        redis_cluster_close(topology->cluster, on_topology_closed, topology);
    else if (topology->watcher != NULL)
        redis_watcher_close(topology->watcher, on_topology_closed, topology);
    else
        host_soon(topology->host, &topology->closer);
}

uint64_t redis_topology_reigns(const struct redis_topology *topology)
{
    if (topology->cluster != NULL)
        return redis_cluster_reigns(topology->cluster);
    return redis_reign_now(&topology->place.reign);
}
