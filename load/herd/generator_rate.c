/* SPDX-License-Identifier: MIT */
/*
 * generator_rate.c - requests that are due at instants of their own, whatever became of those before.
 *
 * Evenly spread, request n of all generators together is due n / per_second after the barrier. At random, each
 * request of a generator is due at an instant that is as likely as any other of the run: a Poisson process of which
 * the number of events is known. The instants are drawn in their order: of `left` instants that are uniform in what
 * is left of the run, the first is at 1 - u^(1 / left) of it. With a script, request n is its n-th line.
 *
 * A request goes over the idle link of its target that was used last, or opens a new one, if need be in place of
 * another target's idle one. If that cannot be, it waits in its target's queue; the link that is free next takes it.
 */
#include "load/base/clock.h"
#include "load/herd/generator.h"

#include <math.h>

enum { TAKE_MAX = 64 }; /* requests that leave before answers are looked for again */

/* ---- when ---- */

struct schedule {
    uint64_t begin_us, next_us;
    double part; /* of the run, until the next one; at random only */
    uint64_t random;
};

static void schedule_step(const struct generator *generator, struct schedule *schedule)
{
    const struct work *work = generator->work;
    const struct work_script *script = work_script(work);
    uint64_t number = (uint64_t)generator->taken * work->generator_count + generator->job->index;
    if (generator->taken == generator->job->slot_count) {
        schedule->next_us = UINT64_MAX;
    } else if (script != NULL) {
        schedule->next_us = schedule->begin_us + script->lines[number].at_us;
    } else if (work->is_poisson) {
        double left = generator->job->slot_count - generator->taken;
        schedule->part += (1 - schedule->part) * -expm1(log(dice_part(&schedule->random)) / left);
        schedule->next_us =
            schedule->begin_us + (uint64_t)(schedule->part * (double)work->duration_ms * 1000);
    } else {
        schedule->next_us = schedule->begin_us + number * 1000000 / work->per_second;
    }
}

/* ---- over which link ---- */

static void slot_queue_add(struct generator *generator, struct slot_queue *queue, uint32_t slot)
{
    generator->places[slot] = SLOT_NONE;
    if (queue->first == SLOT_NONE)
        queue->first = slot;
    else
        generator->places[queue->last] = slot;
    queue->last = slot;
    generator->waiting_count++;
    atomic_fetch_add_explicit(&generator->post->waited_count, 1, memory_order_relaxed);
}

uint32_t slot_queue_take(struct generator *generator, struct slot_queue *queue)
{
    uint32_t slot = queue->first;
    generator->job->late_us[slot] = 1 + (uint32_t)(clock_us() - generator->job->records[slot].due_us);
    queue->first = generator->places[slot];
    generator->waiting_count--;
    return slot;
}

/* A link without connection, or one whose connection nobody needs now; or NULL. */
static struct link *spare_link(struct generator *generator)
{
    struct link *link = TAILQ_FIRST(&generator->none.queue);
    for (size_t i = 0; link == NULL && i < generator->work->target_count; i++) {
        link = TAILQ_LAST(&generator->idle[i].queue, link_queue);
        if (link != NULL)
            link_drop(generator, link);
    }
    return link;
}

static bool open_for(struct generator *generator, struct link *link, uint32_t slot)
{
    if (link_open(generator, link, generator->job->records[slot].target, slot)) {
        generator->places[slot] = (uint32_t)(link - generator->links);
        return true;
    }
    link->slot = SLOT_NONE;
    record_end(generator, slot, RECORD_REFUSED);
    return false;
}

static void ask_over(struct generator *generator, struct link *link, uint32_t slot)
{
    link->slot = slot;
    link_ask(generator, link);
}

/* The next slot is due: it goes, or it waits. */
static void take(struct generator *generator, uint64_t due_us, uint64_t now_us)
{
    uint32_t slot = generator->taken;
    record_choose(generator, slot);
    record_due(generator, slot, due_us);
    uint8_t target = generator->job->records[slot].target;
    struct link *idle = TAILQ_FIRST(&generator->idle[target].queue);
    struct link *spare = idle == NULL ? spare_link(generator) : NULL;
    if (idle == NULL && spare == NULL) {
        slot_queue_add(generator, &generator->waiting[target], slot);
        return;
    }
    generator->job->late_us[slot] = 1 + (uint32_t)(now_us - due_us);
    if (idle != NULL)
        ask_over(generator, idle, slot);
    else
        open_for(generator, spare, slot);
}

/*
 * Which queue a free link serves: its own target's, so that its connection is used, but for targets that have none
 * at all; without a connection the one that has waited longest. NULL: nobody waits.
 */
static struct slot_queue *queue_for(struct generator *generator, const struct link *link)
{
    struct slot_queue *best = NULL;
    bool has_own = link->state == LINK_IDLE && generator->waiting[link->target].first != SLOT_NONE;
    for (size_t i = 0; generator->waiting_count > 0 && i < generator->work->target_count; i++) {
        struct slot_queue *queue = &generator->waiting[i];
        bool is_served = has_own && i != link->target && generator->target_links[i] > 0;
        if (queue->first != SLOT_NONE && !is_served && (best == NULL || queue->first < best->first))
            best = queue;
    }
    return best;
}

static bool serve(struct generator *generator, struct link *link, uint32_t slot)
{
    if (link->state == LINK_IDLE && link->target == generator->job->records[slot].target) {
        ask_over(generator, link, slot);
        return true;
    }
    if (link->state == LINK_IDLE)
        link_drop(generator, link);
    return open_for(generator, link, slot);
}

static void rate_freed(struct generator *generator, struct link *link)
{
    const uint64_t limit_us = (uint64_t)generator->work->request_limit_ms * 1000;
    struct slot_queue *queue;
    while ((queue = queue_for(generator, link)) != NULL) {
        uint32_t slot = slot_queue_take(generator, queue);
        if (generator->job->records[slot].due_us + limit_us <= clock_us())
            record_end(generator, slot, RECORD_UNSENT);
        else if (serve(generator, link, slot))
            return;
    }
}

static void rate_connected(struct generator *generator, struct link *link)
{
    link_ask(generator, link);
}

static void rate_failed(struct generator *generator, struct link *link, enum record_outcome outcome)
{
    if (link->slot != SLOT_NONE)
        record_end(generator, link->slot, outcome);
    link->slot = SLOT_NONE;
    rate_freed(generator, link);
}

/* ---- the run ---- */

static void take_due(struct generator *generator, struct schedule *schedule)
{
    for (int i = 0; i < TAKE_MAX && schedule->next_us != UINT64_MAX; i++) {
        uint64_t now_us = clock_us();
        if (schedule->next_us > now_us)
            return;
        take(generator, schedule->next_us, now_us);
        schedule_step(generator, schedule);
    }
}

static uint64_t wait_for_begin(struct generator *generator)
{
    uint64_t begin_us;
    atomic_store(&generator->post->stage, HERD_READY);
    while ((begin_us = atomic_load(&generator->job->shared->begin_us)) == 0) {
        if (generator_is_aborted(generator))
            return 0;
        generator_turn(generator, UINT64_MAX);
    }
    return begin_us;
}

void generator_rate(struct generator *generator)
{
    static const struct generator_shape shape = {rate_connected, rate_failed, rate_freed};
    generator->shape = &shape;
    uint64_t begin_us = wait_for_begin(generator);
    if (begin_us == 0)
        return;
    struct schedule schedule = {.begin_us = begin_us, .random = dice_next(&generator->chooser.random)};
    schedule_step(generator, &schedule);
    while (clock_us() < begin_us && !generator_is_aborted(generator))
        generator_turn(generator, begin_us);
    generator_meter_start(generator);
    while ((schedule.next_us != UINT64_MAX || generator->unended > 0) && !generator_is_aborted(generator)) {
        take_due(generator, &schedule);
        generator_turn(generator, schedule.next_us);
    }
    for (size_t i = 0; i < generator->work->target_count; i++) {
        while (generator->waiting[i].first != SLOT_NONE) /* aborted: it waited until then */
            slot_queue_take(generator, &generator->waiting[i]);
    }
    generator_meter_stop(generator);
}
