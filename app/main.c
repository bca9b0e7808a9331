/* SPDX-License-Identifier: MIT */
/*
 * main.c - catalogd: a product catalog out of PostgreSQL, through a Redis cache that a guard keeps from stampeding.
 *
 *     settings -> limits -> guard -> catalog (kinds and loaders) -> writer -> warmer -> access log -> server
 *              -> operations -> ready
 *
 * and on SIGTERM or SIGINT the same way back: /readyz says no, the guard refuses new requests, the server finishes its
 * running ones for DRAIN_MS, the guard releases its leases. A second signal ends the process at once and leaves its
 * leases to their TTL. SIGHUP opens the access log anew.
 *
 * The rooms, each of which includes only rooms before it: base, pg, catalog (what is read), write (what is changed),
 * http (clients), view (what operators see), ops (operators). Each says at its door what it owns: settings.h, pg.h,
 * catalog.h, writer.h, server.h, live.h, ops.h.
 *
 * Exit status: 0 after a clean drain, 1 if it could not start or a loader never came back, 2 for wrong settings, 130 or
 * 143 for a second signal.
 */
#include "app/base/clock.h"
#include "app/base/log.h"
#include "app/base/settings.h"
#include "app/catalog/cache_gate.h"
#include "app/catalog/catalog.h"
#include "app/catalog/hot_file.h"
#include "app/catalog/warmer.h"
#include "app/http/access.h"
#include "app/http/server.h"
#include "app/ops/ops.h"
#include "app/view/running.h"
#include "app/write/writer.h"
#include "guard/guard.h"

#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

enum {
    EXIT_SETTINGS = 2,
    SPARE_FDS = 64,     /* logs, listeners, epoll, Redis, DNS */
    FDS_PER_LOOP = 16,  /* libuv's and libmicrohttpd's own, a Redis connection */
    FDS_PER_WORKER = 4, /* a database connection, a cancellation pipe */
};

struct service {
    struct running *running;
    struct guard *guard;
    struct cache_gate gate;
    struct catalog *catalog;
    struct warmer *warmer;     /* NULL: nothing is warmed */
    struct writer *writer;     /* NULL: writes are off */
    struct access_log *access; /* NULL: there is none */
    struct server *server;
    struct ops *ops;
};

/* ---- the process ---- */

static uint32_t loop_count(const struct settings *settings)
{
    return settings->server_loops != 0 ? settings->server_loops : uv_available_parallelism();
}

static bool raise_limits(const struct settings *settings)
{
    const uint64_t needed = (uint64_t)settings->max_connections +
                            (uint64_t)loop_count(settings) * FDS_PER_LOOP +
                            (uint64_t)settings->guard.max_loads * FDS_PER_WORKER +
                            (uint64_t)settings->write_workers * FDS_PER_WORKER + SPARE_FDS + OPS_CONNECTIONS;
    const struct rlimit no_core = {0, 0}; /* values and passwords would be in it */
    struct rlimit files;

    setrlimit(RLIMIT_CORE, &no_core);
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

/* Before any thread: all inherit the mask, so that only wait_for_signal() takes these. */
static void prepare_signals(sigset_t *awaited)
{
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(awaited);
    sigaddset(awaited, SIGTERM);
    sigaddset(awaited, SIGINT);
    sigaddset(awaited, SIGHUP);
    sigprocmask(SIG_BLOCK, awaited, NULL);
}

static void leave_at_once(int number)
{
    _exit(128 + number);
}

/* SIGHUP opens the access log anew; the others end the process. */
static int wait_for_signal(const sigset_t *awaited, struct access_log *access)
{
    const struct sigaction second = {.sa_handler = leave_at_once};
    int number = 0;

    while (sigwait(awaited, &number) != 0 || number == SIGHUP)
        access_reopen(access);
    signal(SIGHUP, SIG_IGN);
    sigaction(SIGTERM, &second, NULL);
    sigaction(SIGINT, &second, NULL);
    sigprocmask(SIG_UNBLOCK, awaited, NULL);
    return number;
}

/* ---- the service ---- */

/* The guard limits its lines itself, and says at the end of each window how things stand. */
static void log_guard(void *context, const char *text, bool good)
{
    (void)context;
    log_line(good ? LOG_LEVEL_INFO : LOG_LEVEL_WARNING, "guard", "text=\"%s\"", text);
}

static bool open_guard(const struct settings *settings, struct service *service)
{
    struct guard_config config = settings->guard;
    struct guard_error error = {.text = ""};

    service->running = running_open();
    if (service->running == NULL)
        return false;
    config.told = log_guard;
    config.event = running_note;
    config.event_context = service->running;
    config.hot_keys = settings->hot_file[0] != '\0' ? HOT_KEYS_MAX : 0;
    if (guard_open(&config, &service->guard, &error) == GUARD_OK)
        return true;
    log_event(LOG_LEVEL_ERROR, "guard_open", "reason=\"%s\"", error.text);
    return false;
}

static bool open_catalog(const struct settings *settings, struct service *service)
{
    struct guard_error error = {.text = ""};

    cache_gate_init(&service->gate, settings, service->guard);
    if (catalog_open(settings, service->guard, &service->catalog, &error)) {
        catalog_set_gate(service->catalog, &service->gate);
        return true;
    }
    log_event(LOG_LEVEL_ERROR, "catalog_open", "reason=\"%s\"", error.text);
    return false;
}

static bool open_writer(const struct settings *settings, struct service *service)
{
    if (settings->write_database_url[0] == '\0')
        return true;
    service->writer = writer_open(settings, service->guard, &service->gate);
    return service->writer != NULL;
}

static bool open_access(const struct settings *settings, struct service *service)
{
    static const enum access_format formats[] = {[SETTINGS_LOG_OFF] = ACCESS_OFF,
                                                 [SETTINGS_LOG_COMBINED] = ACCESS_COMBINED,
                                                 [SETTINGS_LOG_JSON] = ACCESS_JSON};
    const struct access_config config = {.format = formats[settings->access_log],
                                         .file = settings->access_log_file,
                                         .percent = settings->access_log_percent,
                                         .lanes = loop_count(settings)};

    return config.format == ACCESS_OFF || access_open(&config, &service->access);
}

static bool open_server(const struct settings *settings, struct service *service)
{
    struct server_config config = {
        .listen = settings->listen,
        .loops = loop_count(settings),
        .connections_max = settings->max_connections,
        .fresh_ms = settings->policy.fresh_ms,
        .revalidate_token_file = settings->revalidate_token_file,
        .guard = service->guard,
        .writer = service->writer,
        .access = service->access,
    };

    for (enum document_kind kind = 0; kind < DOCUMENT_KIND_COUNT; kind++)
        config.kinds[kind] = catalog_kind(service->catalog, kind);
    return server_open(&config, &service->server);
}

static bool open_ops(const struct settings *settings, struct service *service)
{
    const struct ops_parts parts = {.guard = service->guard,
                                    .catalog = service->catalog,
                                    .gate = &service->gate,
                                    .warmer = service->warmer,
                                    .server = service->server,
                                    .running = service->running};

    return ops_open(settings, &parts, &service->ops);
}

static bool service_open(const struct settings *settings, struct service *service)
{
    return open_guard(settings, service) && open_catalog(settings, service) &&
           open_writer(settings, service) &&
           warmer_open(settings, service->guard, service->catalog, &service->gate, &service->warmer) &&
           open_access(settings, service) && open_server(settings, service) && open_ops(settings, service);
}

/* Also for a half-open one. False: a loader never came back and may still use the catalog. */
static bool service_close(struct service *service, uint32_t drain_ms)
{
    const uint64_t end_ms = clock_ms() + drain_ms;

    ops_drain(service->ops);
    if (service->guard != NULL)
        guard_drain(service->guard);
    if (service->writer != NULL)
        writer_drain(service->writer, drain_ms);
    if (service->server != NULL)
        server_stop(service->server, drain_ms);
    ops_close(&service->ops);
    warmer_stop(service->warmer);
    writer_close(&service->writer);
    if (service->server != NULL)
        server_close(&service->server);
    access_close(&service->access);
    if (service->guard != NULL && guard_close(&service->guard, clock_left_ms(end_ms)) != GUARD_OK)
        return false;
    running_close(&service->running);
    warmer_close(&service->warmer);
    catalog_close(&service->catalog);
    cache_gate_clear(&service->gate);
    return true;
}

int main(int argc, char **argv)
{
    struct settings settings;
    struct service service = {0};
    sigset_t awaited;

    log_open();
    switch (settings_read(argc, argv, environ, &settings, stderr)) {
    case SETTINGS_OK:
        break;
    case SETTINGS_HELP:
        settings_print_help(stdout);
        return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    case SETTINGS_VERSION:
        return puts("catalogd " GUARD_VERSION) >= 0 && fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    case SETTINGS_WRONG:
        return EXIT_SETTINGS;
    }
    umask(S_IWGRP | S_IRWXO);
    prepare_signals(&awaited);
    json_object_seed(0); /* before there are threads */
    if (!raise_limits(&settings))
        return EXIT_FAILURE;

    const bool opened = service_open(&settings, &service);
    if (opened) {
        log_event(LOG_LEVEL_INFO, "ready", "address=%s pid=%ld", server_address(service.server),
                  (long)getpid());
        const int number = wait_for_signal(&awaited, service.access);
        log_event(LOG_LEVEL_INFO, "drain", "signal=%d drain_ms=%" PRIu32, number, settings.drain_ms);
    }
    const bool closed = service_close(&service, opened ? settings.drain_ms : 0);
    log_event(LOG_LEVEL_INFO, "stopped", "clean=%s", closed ? "yes" : "no");
    log_flush();
    return opened && closed ? EXIT_SUCCESS : EXIT_FAILURE;
}
