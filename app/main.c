/* SPDX-License-Identifier: MIT */
/*
 * main.c - catalogd: a product catalog out of PostgreSQL, through a Redis cache that a guard keeps from stampeding.
 *
 *     settings -> limits -> given sockets -> guard -> catalog (kinds and loaders) -> writer
 *              -> Redis has said how it is -> access log -> server -> operations -> ready
 *
 * and on SIGTERM or SIGINT the same way back: /readyz says no, the server accepts nothing more and answers what is
 * asked on the connections that there are (loop.h), for DRAIN_MS; then the guard releases its leases. A second signal
 * ends the process at once and leaves its leases to their TTL.
 *
 *     SIGTERM, SIGINT   drain and end; the second one: at once
 *     SIGHUP            reload: opens the access log anew, reads OPS_TOKEN_FILE and REVALIDATE_TOKEN_FILE again
 *     SIGPIPE           ignored; SIGXFSZ is no end, either (standard.h)
 *
 * systemd, where it started the process, is told all of this, and hands over the listening sockets that it
 * keeps (listener.h). `catalogd check` looks at what the service needs, and starts nothing (check.h).
 *
 * The rooms, each of which includes only rooms before it: base, pg, catalog (what is read), write (what is changed),
 * http (clients), view (what operators see), ops (operators), check (what the service stands on). Each says at its
 * door what it owns: settings.h, pg.h, catalog.h, writer.h, server.h, live.h, ops.h, check.h.
 *
 * Exit status: 0 after a clean drain, 1 if it could not start or a loader never came back, 2 for wrong settings, 130
 * or 143 for a second signal.
 */
#include "app/base/clock.h"
#include "app/base/log.h"
#include "app/base/settings.h"
#include "app/catalog/cache_gate.h"
#include "app/catalog/catalog.h"
#include "app/check/check.h"
#include "app/common/standard.h"
#include "app/http/access.h"
#include "app/http/listener.h"
#include "app/http/server.h"
#include "app/ops/ops.h"
#include "app/view/running.h"
#include "app/write/writer.h"
#include "guard/guard.h"

#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

/* ---- the service manager ---- */

/*
 * What the service manager is told (systemd's protocol, sd_notify(3)). Where none asks, nothing happens.
 *
 *     start ... notify_ready() ... notify_reloading(), notify_ready() ... notify_stopping() ... exit
 *
 * Threads: one, the main thread; it alone confirms that the service is alive, and only while /healthz would say so.
 */

enum { STOP_SPARE_MS = 30000 }; /* beyond the drain: loaders that ignore their end, leases, the outbox */

/* READY=1 and a line for `systemctl status`; also after a reload. */
static void notify_ready(const char *address)
{
    sd_notifyf(0, "READY=1\nSTATUS=Serving on %s", address);
}

static void notify_reloading(void)
{
    sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64 "\nSTATUS=Reading its files again",
               clock_ms() * 1000);
}

/* Also asks for as much time as the drain may take, whatever TimeoutStopSec and WatchdogSec say. */
static void notify_stopping(uint32_t drain_ms)
{
    const uint64_t limit_us = ((uint64_t)drain_ms + STOP_SPARE_MS) * 1000;

    sd_notifyf(0,
               "STOPPING=1\nSTATUS=Answering what has been asked\nEXTEND_TIMEOUT_USEC=%" PRIu64
               "\nWATCHDOG_USEC=%" PRIu64,
               limit_us, limit_us);
}

/* How often it is expected to hear that we live; 0: never. */
static uint32_t alive_every_ms(void)
{
    uint64_t limit_us = 0;

    if (sd_watchdog_enabled(0, &limit_us) <= 0)
        return 0;
    const uint64_t half_ms = limit_us / 2000;
    return half_ms == 0 ? 1 : half_ms < UINT32_MAX ? (uint32_t)half_ms : UINT32_MAX;
}

enum { EXIT_SETTINGS = 2, LOG_EVERY_MS = 1000 };

struct service {
    struct running *running;
    struct guard *guard;
    struct cache_gate gate;
    struct catalog *catalog;
    struct writer *writer;     /* NULL: writes are off */
    struct access_log *access; /* NULL: there is none */
    struct server *server;
    struct ops *ops;
    struct given given; /* sockets that it was started with */
};

/* ---- the process ---- */

/* Before any thread: all inherit the mask, so that only await_signal() takes these. */
static void prepare_signals(sigset_t *awaited)
{
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(awaited);
    sigaddset(awaited, SIGTERM);
    sigaddset(awaited, SIGINT);
    sigaddset(awaited, SIGHUP);
    sigprocmask(SIG_BLOCK, awaited, NULL);
}

/* 0: none came within limit_ms. */
static int await_signal(const sigset_t *awaited, uint32_t limit_ms)
{
    const struct timespec limit = {.tv_sec = limit_ms / 1000, .tv_nsec = (long)(limit_ms % 1000) * 1000000};
    const int number = sigtimedwait(awaited, NULL, &limit);

    return number > 0 ? number : 0;
}

static void leave_at_once(int number)
{
    _exit(128 + number);
}

/* SIGHUP has nothing to say any more. */
static void let_next_signal_end(void)
{
    const struct sigaction second = {.sa_handler = leave_at_once};
    sigset_t endings;

    sigemptyset(&endings);
    sigaddset(&endings, SIGTERM);
    sigaddset(&endings, SIGINT);
    sigaction(SIGTERM, &second, NULL);
    sigaction(SIGINT, &second, NULL);
    sigprocmask(SIG_UNBLOCK, &endings, NULL);
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
    config.log = log_guard;
    config.event = running_note;
    config.event_context = service->running;
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

/* A loop for each socket at least. */
static uint32_t loop_count(const struct settings *settings, const struct service *service)
{
    int fds[GIVEN_MAX];
    const uint32_t wanted = limits_loops(settings);
    const uint32_t given = (uint32_t)given_for(&service->given, GIVEN_HTTP, fds);

    return wanted > given ? wanted : given;
}

static bool open_access(const struct settings *settings, struct service *service)
{
    return settings->access_log == SETTINGS_LOG_OFF ||
           access_open(settings->access_log_file, loop_count(settings, service), &service->access);
}

static bool open_server(const struct settings *settings, struct service *service)
{
    struct server_config config = {
        .listen = settings->listen,
        .given = &service->given,
        .loops = loop_count(settings, service),
        .connections_max = settings->max_connections,
        .shelf_bytes_max = settings->shelf_bytes,
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
    const struct ops_service of = {.guard = service->guard,
                                   .catalog = service->catalog,
                                   .gate = &service->gate,
                                   .server = service->server,
                                   .running = service->running};

    return ops_open(settings, &service->given, &of, &service->ops);
}

/* Requests that came before would load what lies in the cache. The guard's line says why it is not connected. */
static bool meet_redis(struct service *service)
{
    if (guard_connected_wait(service->guard) != GUARD_OK)
        log_event(LOG_LEVEL_WARNING, "redis_awaited",
                  "reason=\"not connected yet: requests are answered uncached until it is\""
                  " hint=\"event=guard says why\"");
    return true;
}

static bool service_open(const struct settings *settings, struct service *service)
{
    return given_read(&service->given) && open_guard(settings, service) && open_catalog(settings, service) &&
           open_writer(settings, service) && meet_redis(service) && open_access(settings, service) &&
           open_server(settings, service) && open_ops(settings, service);
}

/* Also for a half-open one. False: a loader never came back and may still use the catalog. */
static bool service_close(struct service *service, uint32_t drain_ms)
{
    const uint64_t end_ms = clock_ms() + drain_ms;

    ops_drain(service->ops);
    if (service->writer != NULL)
        writer_drain(service->writer, drain_ms);
    if (service->server != NULL)
        server_stop(service->server, drain_ms);
    ops_close(&service->ops);
    writer_close(&service->writer);
    if (service->server != NULL)
        server_close(&service->server);
    access_close(&service->access);
    if (service->guard != NULL && guard_close(&service->guard, clock_left_ms(end_ms)) != GUARD_OK)
        return false;
    running_close(&service->running);
    catalog_close(&service->catalog);
    cache_gate_clear(&service->gate);
    return true;
}

/* ---- while it runs ---- */

static const char *reread(bool wanted, bool good)
{
    return !wanted ? "none" : good ? "read" : "kept";
}

static void reload(const struct settings *settings, struct service *service)
{
    notify_reloading();
    access_reopen(service->access);
    const bool ops_token = ops_read_token(service->ops, settings->ops_token_file);
    const bool revalidate_token = server_read_token(service->server, settings->revalidate_token_file);

    log_line(
        ops_token && revalidate_token ? LOG_LEVEL_INFO : LOG_LEVEL_WARNING, "reload",
        "access_log=%s ops_token=%s revalidate_token=%s%s", service->access != NULL ? "anew" : "none",
        reread(settings->ops_token_file[0] != '\0', ops_token),
        reread(settings->revalidate_token_file[0] != '\0', revalidate_token),
        ops_token && revalidate_token
            ? ""
            : " reason=\"event=token_file says it\" hint=\"mend the file and reload: the old token counts\"");
    notify_ready(server_address(service->server));
}

/* Until it is told to end; returns the signal. */
static int serve(const struct settings *settings, struct service *service, const sigset_t *awaited)
{
    const uint32_t alive_ms = alive_every_ms();
    const bool is_watched = alive_ms != 0;
    const uint32_t every_ms = is_watched && alive_ms < LOG_EVERY_MS ? alive_ms : LOG_EVERY_MS;
    int number = 0;

    notify_ready(server_address(service->server));
    while (number == 0 || number == SIGHUP) {
        number = await_signal(awaited, every_ms);
        log_catch_up();
        if (number == SIGHUP)
            reload(settings, service);
        if (is_watched && ops_health(service->server, service->guard).is_well)
            sd_notify(0, "WATCHDOG=1");
    }
    return number;
}

static int run(const struct settings *settings, const sigset_t *awaited)
{
    struct service service = {0};

    const bool opened = service_open(settings, &service);
    if (opened) {
        log_event(LOG_LEVEL_INFO, "ready", "address=%s pid=%ld", server_address(service.server),
                  (long)getpid());
        const int number = serve(settings, &service, awaited);
        log_event(LOG_LEVEL_INFO, "drain", "signal=%d drain_ms=%" PRIu32, number, settings->drain_ms);
        notify_stopping(settings->drain_ms);
    }
    let_next_signal_end();
    const bool closed = service_close(&service, opened ? settings->drain_ms : 0);
    log_event(LOG_LEVEL_INFO, "stopped", "clean=%s", closed ? "yes" : "no");
    log_flush();
    return opened && closed ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    struct settings settings;
    sigset_t awaited;

    standard_open();
    log_open();
    if (argc > 1 && strcmp(argv[1], "check") == 0)
        return check_main(argc, argv, environ);
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
    umask(umask(S_IRWXO) | S_IWGRP | S_IRWXO); /* at least these */
    prepare_signals(&awaited);
    json_object_seed(0); /* before there are threads */
    return limits_raise(&settings) ? run(&settings, &awaited) : EXIT_FAILURE;
}
