/* SPDX-License-Identifier: MIT */
/* warm.c - see warm.h. */
#include "load/play/warm.h"

#include "load/herd/burst.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 500, CONNECT_LIMIT_MS = 10000, REQUEST_LIMIT_MS = 60000, HOST_BYTES = 64 };

struct warming {
    const struct work_url *url;
    uint32_t first; /* key of the batch's first request */
    struct burst_target targets[WORK_TARGETS_MAX];
    char hosts[WORK_TARGETS_MAX][HOST_BYTES];
    size_t target_count;
};

static void path_of(void *context, uint32_t index, char *path)
{
    const struct warming *warming = context;
    work_path(warming->url, warming->first + index, path);
}

static bool add_target(struct warming *warming, const struct work_target *target)
{
    char port[8];
    char *host = warming->hosts[warming->target_count];
    if (getnameinfo((const struct sockaddr *)&target->address.storage, target->address.bytes, host,
                    HOST_BYTES, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return false;
    warming->targets[warming->target_count++] =
        (struct burst_target){.host = host, .port = (uint16_t)strtoul(port, NULL, 10)};
    return true;
}

static bool ask_batch(struct warming *warming, uint32_t count, char *why)
{
    struct burst *burst = NULL;
    struct burst_summary summary;
    const struct burst_options options = {.targets = warming->targets,
                                          .target_count = warming->target_count,
                                          .connection_count = count,
                                          .connect_limit_ms = CONNECT_LIMIT_MS,
                                          .request_limit_ms = REQUEST_LIMIT_MS,
                                          .path_of = path_of,
                                          .path_context = warming};
    if (!burst_open(&options, &burst)) {
        snprintf(why, WORK_WHY_BYTES, "warm %.100s: the target does not take connections",
                 warming->url->path);
        return false;
    }
    bool ran = burst_run(burst);
    burst_summarise(burst, &summary);
    burst_close(&burst);
    uint32_t good = 0;
    for (size_t status = 100; status < 500; status++)
        good += summary.statuses[status];
    if (ran && good == count)
        return true;
    snprintf(why, WORK_WHY_BYTES, "warm %.100s: %u of %u requests got no answer below 500",
             warming->url->path, (unsigned)(count - good), (unsigned)count);
    return false;
}

static bool warm_url(const struct work_url *url, const struct work_target *targets, size_t target_count,
                     char *why)
{
    struct warming warming = {.url = url};
    uint64_t count = url->keys == WORK_EACH ? (uint64_t)url->last - url->first + 1 : 1;
    for (size_t i = 0; i < target_count; i++) {
        if ((url->target < 0 || (size_t)url->target == i) && !add_target(&warming, &targets[i])) {
            snprintf(why, WORK_WHY_BYTES, "warm: %.100s is not a numeric address", targets[i].name);
            return false;
        }
    }
    for (uint64_t done = 0; done < count; done += BATCH) {
        warming.first = url->first + (uint32_t)done;
        if (!ask_batch(&warming, (uint32_t)(count - done < BATCH ? count - done : BATCH), why))
            return false;
    }
    return true;
}

bool warm_up(const struct work *warm, const struct work *work, char why[static WORK_WHY_BYTES])
{
    for (size_t i = 0; i < warm->url_count; i++) {
        bool is_absolute = warm->urls[i].target >= 0; /* then it has targets of its own */
        const struct work *owner = is_absolute ? warm : work;
        if (!warm_url(&warm->urls[i], owner->targets, owner->target_count, why))
            return false;
    }
    return true;
}
