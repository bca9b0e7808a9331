/* SPDX-License-Identifier: MIT */
/*
 * loop.c - turns and phases of one server loop.
 */
#include "app/http/loop.h"

#include "app/base/clock.h"
#include "app/base/log.h"
#include "app/common/random.h"
#include "app/http/listener.h"
#include "guard/adapters/libuv.h"

#include <assert.h>
#include <poll.h>
#include <sys/random.h>
#include <unistd.h>

enum {
    CONNECTION_POOL_BYTES = 8192, /* bounds the head too; the 32 KiB default is zeroed every request */
    LOOK_AGAIN_MS = 1,
    ACCEPTED_A_TURN = 10,    /* by libmicrohttpd, at most */
    ACCEPT_TURNS_MAX = 1000, /* of the turns that empty the backlog before it is closed */
};

_Static_assert(CLIENT_STALL_MS >= 2 * LOOP_TICK_MS, "a sweep that is a little late is no stall");

/* ---- turns ---- */

static void poll_ready(uv_poll_t *poll, int status, int events)
{
    (void)status, (void)events;
    client_due(&((struct server_loop *)poll->data)->clients);
}

static bool has(const struct server_loop *loop, enum client_state state)
{
    return loop->clients.list[state] != NULL;
}

/* A look at the ASKED is of use once one has been that for too long, and for what is being read or
 * written meanwhile. */
static uint64_t look_again_ms(const struct server_loop *loop)
{
    const bool moves = has(loop, CLIENT_HEAD) || has(loop, CLIENT_BODY) || has(loop, CLIENT_SENDING);

    return moves ? LOOK_AGAIN_MS : CLIENT_LOOK_MS;
}

/* libmicrohttpd always wants to run again while requests are ASKED, because it looks at them every time. What else it
 * wants cannot be told apart, so it waits for the next event or the next look. */
static void plan_next_turn(struct server_loop *loop)
{
    MHD_UNSIGNED_LONG_LONG timeout_ms;
    const bool wants_more = MHD_get_timeout(loop->daemon, &timeout_ms) == MHD_YES && timeout_ms == 0;

    if (!has(loop, CLIENT_ASKED))
        uv_timer_stop(&loop->clients.look);
    if (has(loop, CLIENT_WAKING) || (wants_more && !has(loop, CLIENT_ASKED)))
        client_due(&loop->clients);
    else if (wants_more && !uv_is_active((uv_handle_t *)&loop->clients.look))
        client_look_in(&loop->clients, look_again_ms(loop));
}

/* Reads, answers and writes for all connections that are not suspended. Of those that were ANSWERED the first run
 * takes the responses and the second writes them; a third notices that they are written. */
static void serve(struct server_loop *loop)
{
    const unsigned runs = has(loop, CLIENT_ANSWERED) ? 3 : 1;

    for (unsigned i = 0; i < runs; i++)
        MHD_run(loop->daemon);
}

/* How many are woken in this turn: few while others make requests, because each step of those waits for a batch, but
 * not so few that the walk over the suspended costs more than answering. */
static unsigned wake_count(const struct server_loop *loop)
{
    const unsigned suspended =
        client_count(&loop->clients, CLIENT_PARKED) + client_count(&loop->clients, CLIENT_WAKING);
    const unsigned walked = suspended / LOOP_WALKED_FOR_ONE;

    if (uv_now(&loop->uv) - loop->clients.line_ms > LOOP_ALONE_MS || walked > LOOP_WAKE_BATCH)
        return LOOP_WAKE_BATCH;
    return walked > LOOP_WAKE_FEW ? walked : LOOP_WAKE_FEW;
}

/* Other requests go ahead of waiters that are woken together: finished lookups are answered, and new ones are on
 * their way to Redis, before the next batch. True: lookups must leave first; not twice in a row, or they would hold
 * up the waiters for ever. */
static bool serve_others(struct server_loop *loop)
{
    const bool left_before = loop->lookups_leave;

    serve(loop);
    loop->lookups_leave = has(loop, CLIENT_ASKED) && !left_before;
    return loop->lookups_leave;
}

static void turn(struct server_loop *loop)
{
    loop->clients.is_due = false;
    uv_idle_stop(&loop->clients.idle);
    if (!has(loop, CLIENT_WAKING)) {
        serve(loop);
    } else if (!serve_others(loop)) {
        client_wake(&loop->clients, wake_count(loop));
        serve(loop);
    }
    plan_next_turn(loop);
}

/* ---- phases ---- */

/* libmicrohttpd closes the descriptor of a daemon that was not told to let go of it; a daemon that it could not start
 * has left it open. */
static void listener_close(struct server_loop *loop)
{
    if (loop->listen_fd < 0)
        return;
    if (loop->daemon != NULL)
        MHD_quiesce_daemon(loop->daemon);
    close(loop->listen_fd);
    loop->listen_fd = -1;
}

static void parts_close(struct server_loop *loop)
{
    uv_handle_t *handles[] = {
        (uv_handle_t *)&loop->check,        (uv_handle_t *)&loop->clients.idle,
        (uv_handle_t *)&loop->clients.look, (uv_handle_t *)&loop->tick,
        (uv_handle_t *)&loop->stop_request, (uv_handle_t *)&loop->clients.written_request};

    listener_close(loop);
    /* Before the daemon closes what is polled, and another thread gets its number. */
    if (loop->poll.data != NULL)
        uv_close((uv_handle_t *)&loop->poll, NULL);
    if (loop->daemon != NULL)
        MHD_stop_daemon(loop->daemon);
    loop->daemon = NULL;
    shelf_clear(&loop->clients.shelf);
    loop->phase = LOOP_CLOSED;
    for (size_t i = 0; i < sizeof(handles) / sizeof(handles[0]); i++)
        uv_close(handles[i], NULL);
}

static void enter(struct server_loop *loop, enum loop_phase phase, uint32_t limit_ms)
{
    loop->phase = phase;
    loop->phase_ends_ms = uv_now(&loop->uv) + limit_ms;
    client_due(&loop->clients);
}

static void detached(void *context)
{
    enter(context, LOOP_FLUSHING, LOOP_FLUSH_MS);
}

static void drain_further(struct server_loop *loop)
{
    const uint64_t now_ms = uv_now(&loop->uv);
    const bool time_up = now_ms >= loop->phase_ends_ms;
    const bool nobody_left = client_connection_count(&loop->clients) == 0 ||
                             (now_ms >= loop->grace_ends_ms && client_busy_count(&loop->clients) == 0);

    if (!time_up && !nobody_left)
        return;
    client_say_goodbye(&loop->clients);
    enter(loop, LOOP_DETACHING, 0);
    guard_loop_detach(&loop->clients.guard, detached, loop);
}

static void flush_further(struct server_loop *loop)
{
    if (has(loop, CLIENT_PARKED) || has(loop, CLIENT_WAKING))
        return;
    if (client_connection_count(&loop->clients) == 0 || uv_now(&loop->uv) >= loop->phase_ends_ms)
        parts_close(loop);
}

static void advance(struct server_loop *loop)
{
    if (loop->phase == LOOP_DRAINING)
        drain_further(loop);
    else if (loop->phase == LOOP_FLUSHING)
        flush_further(loop);
}

/* Connections that the kernel has already accepted would be reset when the listener closes. */
static void empty_backlog(struct server_loop *loop)
{
    struct pollfd listener = {.fd = loop->listen_fd, .events = POLLIN};

    listener_hold_off(loop->listen_fd);
    for (unsigned turns = 0; turns < ACCEPT_TURNS_MAX && poll(&listener, 1, 0) > 0; turns++)
        MHD_run(loop->daemon);
}

static void begin_drain(struct server_loop *loop)
{
    loop->stop_wanted = false;
    loop->clients.is_leaving = true;
    enter(loop, LOOP_DRAINING, loop->drain_ms);
    loop->grace_ends_ms = uv_now(&loop->uv) + loop->drain_ms / LOOP_GRACE_PART;
    if (!loop->keeps_backlog)
        empty_backlog(loop);
    listener_close(loop);
}

static void stop_requested(uv_async_t *request)
{
    struct server_loop *loop = request->data;

    loop->stop_wanted = loop->phase == LOOP_RUNNING;
    client_due(&loop->clients);
}

/* An answer that comes while the rest is flushed needs its time too. */
static void written(uv_async_t *request)
{
    struct server_loop *loop = request->data;

    client_take_written(&loop->clients);
    if (loop->phase == LOOP_FLUSHING)
        loop->phase_ends_ms = uv_now(&loop->uv) + LOOP_FLUSH_MS;
}

/* UV_RUN_ONCE of libuv 1.44.2 does not sleep in a turn in which an idle handle runs, as those of lookups that leave
 * do. */
static void turn_over(uv_check_t *check)
{
    uv_stop(check->loop);
}

static void sweep(struct server_loop *loop)
{
    client_sweep(&loop->clients);
    if (loop->phase != LOOP_RUNNING && uv_now(&loop->uv) >= loop->grace_ends_ms)
        client_say_goodbye(&loop->clients);
}

/* Between two turns of libuv. */
static void step(struct server_loop *loop)
{
    const bool sweeps = loop->sweep_due;

    loop->sweep_due = false;
    if (loop->stop_wanted)
        begin_drain(loop);
    if (loop->clients.is_due)
        turn(loop);
    if (sweeps)
        sweep(loop);
    if (loop->phase != LOOP_RUNNING)
        advance(loop);
}

/* Behind a stall libuv calls it before it looks at any descriptor: what has arrived is read first, then clients are
 * judged. And out of descriptors libmicrohttpd stops accepting, and looks again only when it runs. */
static void ticked(uv_timer_t *timer)
{
    struct server_loop *loop = timer->data;

    atomic_store_explicit(&loop->beat_ms, clock_ms(), memory_order_relaxed);
    loop->sweep_due = true;
    client_due(&loop->clients);
}

/* ---- opening and closing ---- */

/* This close to the limit, idle and slow connections make way for new ones: more than libmicrohttpd accepts before it
 * closes those. */
static uint32_t spare_connections(uint32_t connections_max)
{
    const uint32_t wanted = ACCEPTED_A_TURN + connections_max / 16;

    return wanted < connections_max / 4 ? wanted : connections_max / 4;
}

static enum MHD_Result admit(void *context, const struct sockaddr *address, socklen_t address_bytes)
{
    struct server_loop *loop = context;
    const uint32_t most = loop->clients.shared->connections_max;
    const uint32_t count =
        atomic_load_explicit(&loop->clients.shared->connection_count, memory_order_relaxed);

    (void)address, (void)address_bytes;
    if (count >= most - spare_connections(most))
        client_make_way(&loop->clients);
    if (count < most)
        return MHD_YES;
    log_event(LOG_LEVEL_WARNING, "connections_full",
              "max_connections=%u reason=\"no place for another\" hint=\"raise MAX_CONNECTIONS\"", most);
    return MHD_NO;
}

/* Connections are spread by the kernel, never evenly: each loop may have them all, admit() counts the sum. */
static struct MHD_Daemon *daemon_start(struct server_loop *loop)
{
    return MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, admit, loop, client_handle,
        &loop->clients, MHD_OPTION_EXTERNAL_LOGGER, client_complained,
        &loop->clients,                                             /* first, to hear of the rest */
        MHD_OPTION_LISTEN_SOCKET, loop->listen_fd,                  /* stays ours */
        MHD_OPTION_LISTEN_BACKLOG_SIZE, (unsigned)LISTENER_BACKLOG, /* unused for such a socket */
        MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)loop->clients.shared->connections_max + 1,               /* admit() refuses before */
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_POOL_BYTES, /* per connection */
        MHD_OPTION_CONNECTION_TIMEOUT, 0u, /* it would start over with every byte: client_sweep() */
        MHD_OPTION_ARRAY, strict_options(), MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1,
        MHD_OPTION_UNESCAPE_CALLBACK, reply_keep_raw, NULL, MHD_OPTION_URI_LOG_CALLBACK, client_request_line,
        &loop->clients, MHD_OPTION_NOTIFY_CONNECTION, client_notified, &loop->clients,
        MHD_OPTION_NOTIFY_COMPLETED, client_completed, &loop->clients, MHD_OPTION_END);
}

static void handles_init(struct server_loop *loop)
{
    uv_async_init(&loop->uv, &loop->stop_request, stop_requested);
    uv_async_init(&loop->uv, &loop->clients.written_request, written);
    uv_check_init(&loop->uv, &loop->check);
    uv_idle_init(&loop->uv, &loop->clients.idle);
    uv_timer_init(&loop->uv, &loop->clients.look);
    loop->clients.look.data = &loop->clients;
    uv_timer_init(&loop->uv, &loop->tick);
    loop->clients.written_request.data = loop;
    loop->stop_request.data = loop->tick.data = loop;
    uv_check_start(&loop->check, turn_over);
    uv_timer_start(&loop->tick, ticked, LOOP_TICK_MS, LOOP_TICK_MS);
}

static bool refuse(const struct server_loop *loop, const char *step, const char *why)
{
    log_event(LOG_LEVEL_ERROR, "server_loop", "loop=%zu step=%s reason=\"%s\"", loop->index, step, why);
    return false;
}

static bool poll_start(struct server_loop *loop)
{
    const int epoll_fd = MHD_get_daemon_info(loop->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    const int status = uv_poll_init(&loop->uv, &loop->poll, epoll_fd);

    if (status != 0)
        return refuse(loop, "poll", uv_strerror(status));
    loop->poll.data = loop;
    return uv_poll_start(&loop->poll, UV_READABLE, poll_ready) == 0;
}

static bool open_parts(struct server_loop *loop)
{
    struct guard_error error = {.text = ""};

    loop->daemon = daemon_start(loop);
    if (loop->daemon == NULL)
        return refuse(loop, "libmicrohttpd", "no memory or no descriptors: raise MemoryMax or ulimit -n");
    if (!poll_start(loop))
        return false;
    if (guard_loop_attach(loop->clients.shared->guard, &loop->uv, &loop->clients.guard, &error) != GUARD_OK)
        return refuse(loop, "guard", error.text);
    client_due(&loop->clients);
    return true;
}

static void *thread_main(void *context)
{
    struct server_loop *loop = context;
    const int status = uv_loop_init(&loop->uv);

    if (status != 0) {
        refuse(loop, "libuv", uv_strerror(status));
        close(loop->listen_fd);
        sem_post(&loop->opened);
        return NULL;
    }
    handles_init(loop);
    loop->is_open = open_parts(loop);
    if (!loop->is_open)
        parts_close(loop);
    sem_post(&loop->opened);
    while (uv_run(&loop->uv, UV_RUN_DEFAULT) != 0) /* the last one closes what is open */
        step(loop);
    const int leftover = uv_loop_close(&loop->uv);
    assert(leftover == 0); /* every handle was closed */
    return NULL;
}

bool loop_start(struct server_loop *loop)
{
    loop->clients.uv = &loop->uv;
    loop->clients.lane = access_lane(loop->clients.shared->access, loop->index);
    atomic_store(&loop->beat_ms, clock_ms());
    if (getrandom(&loop->clients.dice, sizeof(loop->clients.dice), 0) < 0)
        loop->clients.dice = clock_fine_us() + loop->index; /* told apart, if not unguessable */
    loop->clients.shelf.seed = random_next(&loop->clients.dice);
    loop->clients.shelf.bytes_max = loop->clients.shared->shelf_bytes_max;
    sem_init(&loop->opened, 0, 0);
    pthread_mutex_init(&loop->clients.written_lock, NULL);
    if (pthread_create(&loop->thread, NULL, thread_main, loop) != 0) {
        close(loop->listen_fd);
        sem_destroy(&loop->opened);
        return refuse(loop, "thread",
                      "the system has no more: raise TasksMax or ulimit -u, or lower SERVER_LOOPS");
    }
    while (sem_wait(&loop->opened) != 0)
        continue; /* a signal */
    if (!loop->is_open)
        loop_join(loop);
    return loop->is_open;
}

void loop_stop(struct server_loop *loop, uint32_t drain_ms)
{
    loop->drain_ms = drain_ms;
    uv_async_send(&loop->stop_request);
}

void loop_join(struct server_loop *loop)
{
    pthread_join(loop->thread, NULL);
    sem_destroy(&loop->opened);
}
