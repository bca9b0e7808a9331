/* SPDX-License-Identifier: MIT */
/* host.c - many timers, soons and wakes on a loop that has to offer one of each. See host.h. */
#include "host.h"
#include "../adapters/epoll.h"
#include "clock.h"
#include "process.h"
#include <assert.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utlist.h>

/* ---- an eventfd, for an adapter that leaves waking to us ---- */

static void on_eventfd(void *context, unsigned events)
{
    struct guard_host *host = context;
    eventfd_t count = 0;
    (void)events;
    eventfd_read(host->state->woken.fd, &count);
    guard_host_woken(host);
}

static bool watch_eventfd(struct guard_host *host)
{
    struct guard_watch *woken = &host->state->woken;
    woken->fd = descriptor_not_standard(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (woken->fd != -1 && host_watch(host, woken, GUARD_HOST_READABLE) == 0)
        return true;
    if (woken->fd != -1)
        close(woken->fd);
    return false;
}

static void leave_eventfd(struct guard_host *host)
{
    if (host->wake != NULL)
        return;
    host_watch(host, &host->state->woken, 0);
    close(host->state->woken.fd);
}

bool host_init(struct guard_host *host, struct guard_host_state *state)
{
    *state =
        (struct guard_host_state){.armed_us = UINT64_MAX, .woken = {.ready = on_eventfd, .context = host}};
    host->state = state;
    if (host->wake != NULL || watch_eventfd(host))
        return true;
    host->state = NULL;
    return false;
}

void host_clear(struct guard_host *host)
{
    leave_eventfd(host);
    host->state = NULL;
}

/* ---- timers: a handful, so a list will do ---- */

static struct host_timer *earliest(const struct guard_host *host, bool of_due)
{
    struct host_timer *first = NULL;
    for (struct host_timer *timer = host->state->timers; timer != NULL; timer = timer->next)
        if ((timer->due || !of_due) && (first == NULL || timer->at_us < first->at_us))
            first = timer;
    return first;
}

static void arm(struct guard_host *host, uint32_t least_ms)
{
    const struct host_timer *first = earliest(host, false);
    uint64_t at_us = first != NULL ? first->at_us : UINT64_MAX;
    bool armed = at_us == host->state->armed_us &&
                 at_us > clock_now_us(); /* an overdue one may have slept with the machine */
    if (host->state->ringing || armed)
        return;
    const uint64_t now_us = clock_now_us(), wait_ms = at_us > now_us ? (at_us - now_us + 999) / 1000 : 0;
    uint32_t in_ms = wait_ms < GUARD_HOST_NEVER ? (uint32_t)wait_ms : GUARD_HOST_NEVER - 1;
    if (at_us == UINT64_MAX)
        in_ms = GUARD_HOST_NEVER;
    host->state->armed_us = at_us;
    host->timer(host, in_ms > least_ms ? in_ms : least_ms);
}

static void take_off(struct guard_host *host, struct host_timer *timer)
{
    if (timer->set)
        DL_DELETE(host->state->timers, timer);
    timer->set = timer->due = false;
}

void host_timer_set(struct guard_host *host, struct host_timer *timer, uint64_t at_us)
{
    assert(!host->state->closing);
    if (timer->set && timer->at_us == at_us)
        return;
    take_off(host, timer);
    timer->at_us = at_us;
    timer->set = at_us != UINT64_MAX;
    if (timer->set)
        DL_APPEND(host->state->timers, timer);
    arm(host, 0);
}

void host_timer_stop(struct guard_host *host, struct host_timer *timer)
{
    if (!timer->set)
        return;
    take_off(host, timer);
    arm(host, 0);
}

uint64_t guard_host_now_ms(void)
{
    return clock_now_ms();
}

/* Which ones are due is settled first. One that a callback sets for an instant that has passed rings in a
 * millisecond: some loops call a timer of 0 ms before they do anything else, again and again. */
void guard_host_rang(struct guard_host *host)
{
    uint64_t now_us = clock_now_us();
    struct host_timer *timer = NULL;
    host->state->armed_us = UINT64_MAX;
    host->state->ringing = true; /* it is armed once, for what they leave */
    DL_FOREACH (host->state->timers, timer)
        timer->due = timer->at_us <= now_us;
    while ((timer = earliest(host, true)) != NULL) {
        take_off(host, timer);
        timer->run(timer->context);
    }
    host->state->ringing = false;
    arm(host, 1);
}

/* ---- soon ---- */

void host_soon(struct guard_host *host, struct host_soon *soon)
{
    assert(!host->state->closing);
    if (soon->list != NULL)
        return;
    soon->list = soon->last ? &host->state->last_soons : &host->state->soons;
    soon->turn = host->state->turn;
    DL_APPEND(*soon->list, soon);
    if (!host->state->soon_asked) {
        host->state->soon_asked = true;
        host->soon(host, false);
    }
}

void host_soon_stop(struct host_soon *soon)
{
    if (soon->list != NULL)
        DL_DELETE(*soon->list, soon);
    soon->list = NULL;
}

/* Those that asked before it began. */
static void run_soons(struct guard_host *host, struct host_soon **list)
{
    struct host_soon *soon = NULL;
    host->state->turn++;
    while ((soon = *list) != NULL && soon->turn < host->state->turn) {
        host_soon_stop(soon);
        soon->run(soon->context);
    }
}

void guard_host_turn_over(struct guard_host *host)
{
    run_soons(host, &host->state->soons);
    run_soons(host, &host->state->last_soons);
    host->state->soon_asked = host->state->soons != NULL || host->state->last_soons != NULL;
    if (host->state->soon_asked)
        host->soon(host, true);
    else if (host->state->closing)
        host->close(host);
}

/* ---- wakes ---- */

void host_wake_init(struct guard_host *host, struct host_wake *wake, void (*run)(void *context),
                    void *context)
{
    wake->run = run;
    wake->context = context;
    wake->host = host;
    wake->running = false;
    atomic_init(&wake->due, false);
    DL_APPEND(host->state->wakes, wake);
}

void host_wake_clear(struct host_wake *wake)
{
    DL_DELETE(wake->host->state->wakes, wake);
}

void host_wake_send(struct host_wake *wake)
{
    struct guard_host *host = wake->host;
    if (atomic_exchange(&wake->due, true))
        return;
    if (host->wake != NULL)
        host->wake(host);
    else
        eventfd_write(host->state->woken.fd, 1);
}

static struct host_wake *next_running(const struct guard_host *host)
{
    struct host_wake *wake = host->state->wakes;
    while (wake != NULL && !wake->running)
        wake = wake->next;
    return wake;
}

/* Which ones are due is settled first: one that is sent meanwhile has its next turn like the loop's other work. */
void guard_host_woken(struct guard_host *host)
{
    struct host_wake *wake = NULL;
    DL_FOREACH (host->state->wakes, wake)
        wake->running = atomic_exchange(&wake->due, false);
    while ((wake = next_running(host)) != NULL) {
        wake->running = false;
        wake->run(wake->context);
    }
}

/* ---- the end ---- */

void host_close(struct guard_host *host, void (*closed)(void *context), void *context)
{
    assert(host->state->timers == NULL && host->state->soons == NULL && host->state->last_soons == NULL &&
           host->state->wakes == NULL);
    host->state->closing = true;
    host->state->told = (struct host_told){closed, context};
    leave_eventfd(host);
    if (!host->state->soon_asked)
        host->soon(host, false);
    host->state->soon_asked = true;
}

void guard_host_closed(struct guard_host *host)
{
    host_tell(host->state->told);
}

/* ---- the loop of the guard's own thread ---- */

struct own_host {
    struct guard_epoll epoll; /* first */
    struct guard_host_state state;
    bool over;
};

/* It is freed by its owner. */
static void close_own_host(struct guard_host *host)
{
    ((struct own_host *)host)->over = true;
}

struct guard_host *own_host_open(void)
{
    struct own_host *self = calloc(1, sizeof *self);
    if (self == NULL)
        return NULL;
    self->epoll.host = (struct guard_host){.watch = guard_epoll_watch,
                                           .timer = guard_epoll_timer,
                                           .soon = guard_epoll_soon,
                                           .close = close_own_host};
    self->epoll.fd = descriptor_not_standard(epoll_create1(EPOLL_CLOEXEC));
    if (self->epoll.fd != -1 && host_init(&self->epoll.host, &self->state))
        return &self->epoll.host;
    guard_epoll_free(&self->epoll);
    return NULL;
}

void own_host_run(struct guard_host *host)
{
    struct own_host *self = (struct own_host *)host;
    while (!self->over) {
        int wait_ms = guard_epoll_before_wait(&self->epoll, -1);
        if (!self->over)
            guard_epoll_wait(&self->epoll, wait_ms);
    }
    guard_host_closed(host);
}

void own_host_free(struct guard_host **host)
{
    guard_epoll_free((struct guard_epoll *)*host);
    *host = NULL;
}
