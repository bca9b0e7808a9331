/* SPDX-License-Identifier: MIT */
/*
 * generator_burst.c - rounds: everybody connects, waits for the barrier, asks.
 *
 *     prepare (choose, connect) --> ready --barrier--> write to all --> read until all are over --> prepare ...
 *
 * A connection that cannot be opened, or is closed before the barrier, is tried again a few times; after that its
 * request fails at the barrier. All requests are written before the first answer is read, so that they are as close
 * together as one thread can have them: an answer that is there earlier is noticed afterwards.
 */
#include "load/base/clock.h"
#include "load/herd/generator.h"

#include <errno.h>

enum {
    CONNECTING_MAX = 256, /* at a time, all generators together: below any listener's backlog */
    CONNECT_TRIES = 3,
    LASTING_US = 200000,   /* a connection that was there for so long was not opened in vain */
    SPIN_US = 200,         /* before the barrier sleep is not precise enough */
    STUCK_LIMIT_MS = 30000 /* beyond what a round of the others can last */
};

static void burst_connected(struct generator *generator, struct link *link)
{
    (void)generator, (void)link; /* it waits for the barrier */
}

static void burst_failed(struct generator *generator, struct link *link, enum record_outcome outcome)
{
    (void)generator;
    link->failure = (uint8_t)outcome;
    if (outcome == RECORD_RESET && clock_us() >= link->opened_us + LASTING_US)
        link->tries = 0; /* a server that hangs up on who is silent, while we wait for the barrier */
    else if (++link->tries == CONNECT_TRIES)
        link_move(link, NULL);
}

static void burst_freed(struct generator *generator, struct link *link)
{
    (void)generator, (void)link; /* the next round will need it */
}

static const struct generator_shape shape = {burst_connected, burst_failed, burst_freed};

/* ---- before the barrier ---- */

/* The links of list `none` are those to be opened. */
static void open_missing(struct generator *generator)
{
    uint32_t limit = CONNECTING_MAX / generator->work->generator_count;
    while (generator->connecting.count < limit && generator->none.count > 0) {
        struct link *link = TAILQ_FIRST(&generator->none.queue);
        if (!link_open(generator, link, link->target, link->slot)) {
            generator->connect_error = errno;
            burst_failed(generator, link, RECORD_REFUSED);
        }
    }
}

void round_place(struct generator *generator, struct link *link, uint32_t slot)
{
    uint8_t target = generator->job->records[slot].target;
    link->tries = 0;
    link->failure = RECORD_UNCONNECTED;
    if (link->state == LINK_IDLE && link->target != target)
        link_drop(generator, link);
    link->slot = slot;
    link->target = target;
    if (link->state == LINK_NONE)
        link_move(link, &generator->none);
}

static void place_all(struct generator *generator, uint32_t round)
{
    for (uint32_t i = 0; i < generator->link_count; i++) {
        uint32_t slot = round * generator->link_count + i;
        record_choose(generator, slot);
        round_place(generator, &generator->links[i], slot);
    }
}

void round_connect(struct generator *generator)
{
    uint64_t end_us = clock_after_ms(generator->work->connect_limit_ms);
    generator->shape = &shape;
    generator->connect_error = ETIMEDOUT;
    open_missing(generator);
    while (generator->none.count + generator->connecting.count > 0 && clock_us() < end_us &&
           !generator_is_aborted(generator)) {
        generator_turn(generator, end_us);
        open_missing(generator);
    }
    while (generator->none.count > 0) /* no time left for them */
        link_move(TAILQ_FIRST(&generator->none.queue), NULL);
}

/* For how long the others may keep us waiting; the parent takes as long as it likes for what it releases. */
static uint64_t patience_end_us(const struct work *work, uint32_t round)
{
    if (round == 0 || work->holds_rounds)
        return UINT64_MAX;
    return clock_us() + 1000 * ((uint64_t)work->request_limit_ms + work->connect_limit_ms + work->pause_ms +
                                work->every_ms + STUCK_LIMIT_MS);
}

/* The instant of the barrier, once it is near; 0: there will be none. */
static uint64_t wait_for_barrier(struct generator *generator, uint32_t round, uint64_t done_us)
{
    const _Atomic uint64_t *begin_us = &generator->job->shared->begin_us;
    uint64_t end_us = patience_end_us(generator->work, round);
    for (;;) {
        uint64_t next_us = atomic_load(begin_us), now_us = clock_us();
        if (generator_is_aborted(generator) || now_us >= end_us)
            return 0;
        if (next_us != done_us && now_us + SPIN_US >= next_us)
            return next_us;
        generator_turn(generator, next_us != done_us ? next_us - SPIN_US : UINT64_MAX);
        open_missing(generator);
    }
}

/* ---- from the barrier on ---- */

static void ask_at(struct generator *generator, struct link *link, uint64_t begin_us)
{
    uint32_t slot = link->slot;
    record_due(generator, slot, begin_us);
    if (link->state == LINK_IDLE) {
        link_ask(generator, link);
        generator->job->late_us[slot] = 1 + generator->job->records[slot].sent_us;
        return;
    }
    if (link->state == LINK_CONNECTING) {
        link_fail(generator, link, RECORD_UNCONNECTED);
        return;
    }
    link->slot = SLOT_NONE;
    generator->error = generator->connect_error;
    record_end(generator, slot, (enum record_outcome)link->failure);
}

void round_ask(struct generator *generator, uint64_t begin_us)
{
    for (uint32_t i = 0; i < generator->link_count && !generator_is_aborted(generator); i++)
        ask_at(generator, &generator->links[i], begin_us);
}

static void run_round(struct generator *generator, uint64_t begin_us)
{
    while (clock_us() < begin_us)
        ;
    generator_meter_start(generator);
    round_ask(generator, begin_us);
    while (generator->unended > 0 && !generator_is_aborted(generator))
        generator_turn(generator, UINT64_MAX);
    generator_meter_stop(generator);
}

void generator_burst(struct generator *generator)
{
    const struct herd_job *job = generator->job;
    uint64_t done_us = 0;
    for (uint32_t round = 0; round < generator->work->round_count; round++) {
        place_all(generator, round);
        round_connect(generator);
        atomic_store(&generator->post->stage, HERD_READY);
        atomic_store(&generator->post->done_us, done_us);
        herd_next_round(job->shared, generator->work, done_us, job->bell);
        done_us = wait_for_barrier(generator, round, done_us);
        if (done_us == 0)
            return;
        run_round(generator, done_us);
    }
}
