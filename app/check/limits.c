/* SPDX-License-Identifier: MIT */
/* limits.c - see limits.h. */
#include "app/check/limits.h"

#include "app/base/log.h"
#include "app/ops/ops.h"

#include <inttypes.h>
#include <sys/resource.h>
#include <uv.h>

enum {
    SPARE_FDS = 64,     /* logs, listeners, epoll, Redis, DNS */
    FDS_PER_LOOP = 16,  /* libuv's and libmicrohttpd's own, a Redis connection */
    FDS_PER_WORKER = 4, /* a database connection, a cancellation pipe */
    WRITER_EXTRA = 2,   /* connections of the outbox: one that pays, one that listens */
};

uint32_t limits_loops(const struct settings *settings)
{
    return settings->server_loops != 0 ? settings->server_loops : uv_available_parallelism();
}

uint64_t limits_descriptors_needed(const struct settings *settings)
{
    return (uint64_t)settings->max_connections + (uint64_t)limits_loops(settings) * FDS_PER_LOOP +
           (uint64_t)settings->guard.max_loads * FDS_PER_WORKER +
           (uint64_t)settings->write_workers * FDS_PER_WORKER + SPARE_FDS + OPS_CONNECTIONS;
}

uint32_t limits_database_connections(const struct settings *settings)
{
    const uint32_t loaders =
        settings->guard.load_threads != 0 ? settings->guard.load_threads : settings->guard.max_loads;

    return loaders + (settings->write_database_url[0] != '\0' ? settings->write_workers + WRITER_EXTRA : 0);
}

bool limits_raise(const struct settings *settings)
{
    const uint64_t needed = limits_descriptors_needed(settings);
    struct rlimit core = {0, 0}, files;

    if (settings->cores && getrlimit(RLIMIT_CORE, &core) == 0)
        core.rlim_cur = core.rlim_max;
    setrlimit(RLIMIT_CORE, &core);
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return false;
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur >= needed)
        return true;
    log_event(LOG_LEVEL_ERROR, "limits",
              "reason=\"MAX_CONNECTIONS=%" PRIu32 " needs %" PRIu64 " file descriptors but only %" PRIu64
              " may be open: lower it or raise ulimit -n\"",
              settings->max_connections, needed, (uint64_t)files.rlim_cur);
    return false;
}
