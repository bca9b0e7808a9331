/* SPDX-License-Identifier: MIT */
/*
 * worker.c - one guard for each worker, on nginx's event loop by adapters/epoll.h.
 *
 *     the guard's descriptor is ready  --> on_ready()   -.
 *     a turn is asked for, a timer set --> posted event -+-> before_wait() --> answers, and the timer set anew
 *     the timer                        ------------------'
 *
 * Beginning  init_process, after nginx has forked: a guard of the master answers INVALID in a worker. A cache manager
 *            and a cache loader run that, too, and want none.
 * Ending     A worker that quits ends when no timer is left that is not `cancelable`: ours is so exactly while nobody
 *            waits. `always` would drop clients that wait, `never` would never end.
 *            The descriptor is the guard's: its ngx_connection_t is given back before detach closes it.
 * Timer      ngx_add_timer() keeps one that differs by less than 300 ms: it is deleted first.
 * Log        nginx's is for its own thread (syslog's connection has no lock): lines of the guard's threads come
 *            through a pipe, which takes each as a whole and loses those that it has no room for.
 */
#include "module.h"

#include "adapters/epoll.h"
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { DRAIN_MS = 1000 };

struct worker worker;

static struct guard_epoll *ours;
static ngx_connection_t *guards, *lines; /* ours->fd; said[0] */
static ngx_event_t turn, timer;
static ngx_connection_t no_connection = {.fd = -1}; /* of the two, for nginx's debug log */
static bool is_in_turn;
static pthread_t nginxs_thread;
static int said[2] = {-1, -1}; /* a pipe of struct line; there before the guard's threads are */
static atomic_uint lost_lines; /* it had no room for */

static void before_wait(ngx_event_t *event)
{
    (void)event;
    is_in_turn = true;
    int wait_ms = guard_epoll_before_wait(ours, -1);
    is_in_turn = false;
    if (timer.timer_set)
        ngx_del_timer(&timer);
    timer.cancelable = worker.waiting == 0;
    ngx_add_timer(&timer, (ngx_msec_t)wait_ms);
}

static void turn_soon(void)
{
    if (!is_in_turn && !worker.is_ending) { /* ending: `ours` goes before the event would come */
        ngx_post_event(&turn, &ngx_posted_events);
    }
}

void worker_waits(int more)
{
    worker.waiting += (ngx_uint_t)more;
    turn_soon(); /* sets `cancelable` anew */
}

/* Of the adapter's five, these two begin a turn: nginx waits without asking. One that asks for itself again looks at
 * the descriptors first, by a timer of 0 ms. */
static void on_soon(struct guard_host *host, bool again)
{
    guard_epoll_soon(host, again);
    turn_soon();
}

static void on_timer(struct guard_host *host, uint32_t in_ms)
{
    guard_epoll_timer(host, in_ms);
    turn_soon();
}

static void on_ready(ngx_event_t *event)
{
    (void)event;
    guard_epoll_ready(ours);
    turn_soon();
}

/* ---- what the guard says ---- */

struct line {
    ngx_uint_t level;
    char text[1016]; /* more than the guard says at once */
};
_Static_assert(sizeof(struct line) <= PIPE_BUF, "a pipe takes it as a whole");

static void log_line(const struct line *line)
{
    ngx_log_error(line->level, ngx_cycle->log, 0, "stampede: %s", line->text);
}

/* Any thread. */
static void say(void *context, const char *text, bool good)
{
    struct line line = {.level = good ? NGX_LOG_NOTICE : NGX_LOG_WARN};
    (void)context;
    snprintf(line.text, sizeof line.text, "%s", text);
    if (pthread_equal(pthread_self(), nginxs_thread))
        log_line(&line);
    else if (write(said[1], &line, sizeof line) < 0)
        atomic_fetch_add(&lost_lines, 1); /* full: nginx hangs, and this thread must not */
}

static void log_lines(void)
{
    struct line line;
    while (read(said[0], &line, sizeof line) == (ssize_t)sizeof line)
        log_line(&line);
    const unsigned lost = atomic_exchange(&lost_lines, 0);
    if (lost > 0)
        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "stampede: %ui lines of its threads are lost, this worker did not come to write them",
                      (ngx_uint_t)lost);
}

static void on_lines(ngx_event_t *event)
{
    (void)event;
    log_lines();
}

/* ---- begin and end ---- */

static ngx_connection_t *watch(int fd, ngx_event_handler_pt handler, ngx_log_t *log)
{
    ngx_connection_t *connection = ngx_get_connection(fd, log);
    if (connection == NULL)
        return NULL;
    connection->read->handler = handler;
    connection->read->log = log;
    connection->read->channel = 1; /* none that a client has: nginx does not miss it when it ends */
    if (ngx_add_event(connection->read, NGX_READ_EVENT, NGX_LEVEL_EVENT) == NGX_OK)
        return connection;
    ngx_free_connection(connection);
    return NULL;
}

static void unwatch(ngx_connection_t **connection)
{
    if (*connection == NULL)
        return;
    ngx_del_event((*connection)->read, NGX_READ_EVENT, 0);
    ngx_free_connection(*connection);
    (*connection)->fd = (ngx_socket_t)-1;
    *connection = NULL;
}

static enum guard_status attach(struct settings *settings, ngx_log_t *log, struct guard_error *error)
{
    nginxs_thread = pthread_self();
    if (pipe2(said, O_CLOEXEC | O_NONBLOCK) != 0) {
        snprintf(error->text, sizeof error->text, "cannot open a pipe: %s", strerror(errno));
        return GUARD_NO_MEMORY;
    }
    enum guard_status status = settings_open(settings, say, &worker.guard, error);
    if (status == GUARD_OK)
        guard_connected_wait(worker.guard); /* else each new worker would load what the fleet has */
    if (status == GUARD_OK)
        status = guard_epoll_attach(worker.guard, &ours, &worker.loop, error);
    if (status != GUARD_OK)
        return status;
    ours->host.soon = on_soon;
    ours->host.timer = on_timer;
    turn.log = timer.log = log;
    turn.data = timer.data = &no_connection;
    turn.handler = timer.handler = before_wait;
    lines = watch(said[0], on_lines, log);
    guards = lines != NULL ? watch(ours->fd, on_ready, log) : NULL;
    snprintf(error->text, sizeof error->text, "no connection for the guard: raise worker_connections");
    return guards != NULL ? GUARD_OK : GUARD_NO_MEMORY;
}

/* A cache manager and a cache loader run it, too, and answer no requests. Without its guard a worker passes. */
ngx_int_t worker_begin(ngx_cycle_t *cycle)
{
    struct guard_error error = {.text = ""};
    struct settings *settings = ngx_http_cycle_get_module_main_conf(cycle, ngx_http_stampede_module);
    if (settings == NULL || !settings->is_used ||
        (ngx_process != NGX_PROCESS_WORKER && ngx_process != NGX_PROCESS_SINGLE))
        return NGX_OK;
    if (attach(settings, cycle->log, &error) != GUARD_OK) {
        ngx_log_error(NGX_LOG_CRIT, cycle->log, 0, "stampede: all requests of this worker pass: %s",
                      error.text);
        worker_end(cycle);
        return NGX_OK;
    }
    before_wait(NULL);
    numbers_begin(settings, cycle->log);
    return NGX_OK;
}

static void detached(void *gone)
{
    *(bool *)gone = true;
}

/* The loop does not run any more: what the guard still needs of it is done here. */
static void detach(void)
{
    bool is_gone = false;
    guard_loop_detach(&worker.loop, detached, &is_gone);
    for (;;) {
        int wait_ms = guard_epoll_before_wait(ours, -1);
        if (is_gone)
            return;
        struct pollfd ready[] = {{.fd = ours->fd, .events = POLLIN}};
        poll(ready, 1, wait_ms);
        guard_epoll_ready(ours);
        log_lines();
    }
}

void worker_end(ngx_cycle_t *cycle)
{
    (void)cycle;
    if (said[0] == -1)
        return;
    worker.is_ending = true;
    numbers_end();
    if (timer.timer_set)
        ngx_del_timer(&timer);
    if (turn.posted) {
        ngx_delete_posted_event(&turn);
    }
    unwatch(&guards); /* before the guard closes its descriptor */
    if (worker.loop != NULL)
        detach();
    if (worker.guard != NULL)
        guard_close(&worker.guard, lines != NULL ? DRAIN_MS : 0);
    log_lines();
    unwatch(&lines);
    close(said[0]);
    close(said[1]);
    said[0] = said[1] = -1;
}
