/* SPDX-License-Identifier: MIT */
/*
 * host_rig.h - hosts of the fleet's guards: each is a thread with a loop of one of the kinds of loops_rig.h.
 *
 * A test gives a host work with host_do(), which returns when the work is done.
 */
#pragma once

#include "guard_rig.h"
#include "loops_rig.h"

struct host {
    size_t guard; /* of the fleet */
    struct loop_rig rig;
    pthread_t thread;
    struct guard_loop *attached;
    atomic_bool detached;

    pthread_mutex_t mutex;
    pthread_cond_t changed;
    void (*work)(struct host *host, void *context); /* NULL: done */
    void *context;
    bool ending, left;
};

static inline void on_work(void *context)
{
    struct host *host = context;
    pthread_mutex_lock(&host->mutex);
    void (*work)(struct host * host, void *context) = host->work;
    bool ending = host->ending && !host->left;
    host->left = host->left || ending;
    pthread_mutex_unlock(&host->mutex);
    if (work != NULL)
        work(host, host->context);
    pthread_mutex_lock(&host->mutex);
    host->work = NULL;
    pthread_cond_signal(&host->changed);
    pthread_mutex_unlock(&host->mutex);
    if (ending)
        rig_kind->leave(&host->rig);
}

static inline void *host_run(void *context)
{
    struct host *host = context;
    rig_kind->run(&host->rig);
    return NULL;
}

static inline void host_do(struct host *host, void (*work)(struct host *host, void *context), void *context)
{
    pthread_mutex_lock(&host->mutex);
    host->work = work;
    host->context = context;
    rig_kind->wake(&host->rig);
    while (host->work != NULL)
        pthread_cond_wait(&host->changed, &host->mutex);
    pthread_mutex_unlock(&host->mutex);
}

static inline void attach(struct host *host, void *context)
{
    struct guard_error error = {.text = ""};
    (void)context;
    enum guard_status status =
        rig_kind->attach(&host->rig, fleet.guards[host->guard], &host->attached, &error);
    if (status != GUARD_OK)
        fail_msg("on %s: %s", rig_kind->name, error.text);
}

static inline void host_init(struct host *host, size_t guard)
{
    memset(host, 0, sizeof *host);
    host->guard = guard;
    pthread_mutex_init(&host->mutex, NULL);
    pthread_cond_init(&host->changed, NULL);
    loop_rig_open(&host->rig, on_work, host);
    assert_int_equal(pthread_create(&host->thread, NULL, host_run, host), 0);
}

static inline void on_detached(void *context)
{
    struct host *host = context;
    assert_true(pthread_equal(pthread_self(), host->thread));
    assert_false(host->detached);
    host->rig.ours = NULL;
    host->detached = true;
}

static inline void detach(struct host *host, void *context)
{
    (void)context;
    guard_loop_detach(&host->attached, on_detached, host);
    assert_null(host->attached);
}

static inline void host_end(struct host *host)
{
    pthread_mutex_lock(&host->mutex);
    host->ending = true;
    rig_kind->wake(&host->rig);
    pthread_mutex_unlock(&host->mutex);
    pthread_join(host->thread, NULL);
    rig_kind->close(&host->rig);
    pthread_cond_destroy(&host->changed);
    pthread_mutex_destroy(&host->mutex);
}

/* With its loop attached to this guard. */
static inline void host_open(struct host *host, size_t guard)
{
    host_init(host, guard);
    host_do(host, attach, NULL);
}

/* A fleet of one guard, and its host. */
static inline void open_with_host(struct host *host)
{
    fleet_init();
    fleet_open(1);
    host_open(host, 0);
}

/* Detaches, ends the loop. */
static inline void host_close(struct host *host)
{
    host_do(host, detach, NULL);
    WAIT_UNTIL(host->detached);
    host_end(host);
}

/* ---- asking on a host's loop ---- */

struct loop_ask {
    struct ask ask; /* first */
    struct host *host;
    const char *key;
    uint32_t deadline_ms;
    struct guard_request more; /* what else is asked for; answered: beside loop_answered(), if it is set */
    enum guard_status status;
};

static inline void loop_answered(void *context, const struct guard_result *result)
{
    struct loop_ask *loop_ask = context;
    void (*also)(void *, const struct guard_result *) = loop_ask->more.answered;
    assert_true(pthread_equal(pthread_self(), loop_ask->host->thread));
    ask_answered(&loop_ask->ask, result); /* whoever waits for it may go on, and its memory with it */
    if (also != NULL)
        also(loop_ask, result);
}

static inline void loop_ask(struct host *host, void *context)
{
    struct loop_ask *loop_ask = context;
    struct ask *ask = &loop_ask->ask;
    struct guard_request request = loop_ask->more;
    request.kind = fleet.kinds[host->guard];
    request.key = loop_ask->key;
    request.loop = host->attached;
    request.deadline_ms = loop_ask->deadline_ms;
    request.answered = loop_answered;
    request.context = loop_ask;
    memset(ask, 0, sizeof *ask);
    loop_ask->host = host;
    ask->caller = pthread_self();
    ask->starting = true;
    loop_ask->status = guard_get(fleet.guards[host->guard], &request, NULL, &ask->ticket);
    ask->starting = false;
    if (loop_ask->status == GUARD_OK)
        atomic_fetch_add(&fleet.accepted[host->guard], 1);
}

static inline void loop_ask_start(struct host *host, struct loop_ask *asked, const char *key)
{
    *asked = (struct loop_ask){.key = key};
    host_do(host, loop_ask, asked);
    assert_int_equal(asked->status, GUARD_OK);
}

static inline void loop_cancel(struct host *host, void *context)
{
    const struct loop_ask *asked = context;
    guard_cancel(fleet.guards[host->guard], host->attached, asked->ask.ticket);
}

static inline void loop_expect(struct host *host, const char *key, const char *row)
{
    struct loop_ask asked;
    loop_ask_start(host, &asked, key);
    expect_answer(&asked.ask, row);
}

/* Until the loop's own connection answers: then a hit is counted without a round trip of the guard's. */
static inline void host_wait_up(struct host *host, const char *key, const char *row)
{
    struct guard *guard = fleet.guards[host->guard];
    uint64_t connects = stats_of(guard).redis_connects;
    loop_expect(host, key, row);
    WAIT_UNTIL(stats_of(guard).redis_connects >= connects && stats_of(guard).redis_connects >= 3);
    loop_expect(host, key, row);
}
