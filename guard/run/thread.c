/* SPDX-License-Identifier: MIT */
/* thread.c - see thread.h. */
#include "thread.h"
#include "../base/clock.h"
#include "../base/load_id.h"
#include "../core/near.h"
#include "../redis/subscription.h"
#include "../wire/wake.h"
#include "callback.h"
#include "calls.h"
#include "clear.h"
#include "connected.h"
#include "defer.h"
#include "kind.h"
#include "lookup.h"
#include "loop.h"
#include "mailbox.h"
#include "numbers.h"
#include "shadow.h"
#include "workers.h"
#include <stdlib.h>
#include <utlist.h>

/* After every event; see below. */
static void after_events(struct guard *guard);

/* ---- what the core wants done ---- */

static void on_replied(struct guard *guard, uint64_t op, const struct core_reply *reply)
{
    core_replied(guard->fleet, clock_now_us(), op, reply);
    after_events(guard);
}

void thread_make_token(void *context, uint32_t lease_ms, char token[TOKEN_SIZE])
{
    struct guard *guard = context;
    uint8_t random[CHANCE_SECRET_BYTES]; /* a guessable token would break every promise */
    if (!clock_random(random, sizeof random))
        chance_from_secret(&guard->secret, random);
    protocol_token(&guard->protocol, random, lease_ms, clock_wall_s(), token);
}

unsigned thread_kind_of(void *context, const struct guard_policy *policy)
{
    (void)context;
    return policy_kind(policy)->index;
}

/* Where loaders run on loops: of those that wait, the first whose loop comes to it; else the first user, whose load
 * is not given up with its loop. One that is answered is in no flight. */
static struct core_waiter *choose_starter(const struct core_action *action)
{
    struct core_waiter *oldest = action->starter, *user = NULL;
    bool waits = oldest != NULL && oldest->flight != NULL;
    if (!waits || action->policy->loads_on != GUARD_ON_LOOP)
        return oldest;
    for (struct core_waiter *waiter = oldest; waiter != NULL; waiter = waiter->next) {
        if (defer_may_begin(((const struct get *)waiter)->asker.loop))
            return waiter;
        if (user == NULL && !waiter->refreshes)
            user = waiter;
    }
    return user != NULL ? user : oldest;
}

/* False: there is no thread or no memory, or the loop of a refresh is gone. */
static bool start_load_of(struct guard *guard, const struct core_action *action,
                          const struct core_waiter *chosen)
{
    const struct get *starter = (const struct get *)chosen;
    const struct origin *origin = (const struct origin *)action->origin;
    const struct job job = {
        .action = action,
        .asker = starter != NULL  ? starter->asker
                 : origin != NULL ? origin->asker
                                  : (struct asker){.what = NULL},
        .caller = starter != NULL && starter->waiter.lends && action->lender == 0 ? starter->context : NULL,
        .of_refresh = starter != NULL && starter->waiter.refreshes,
    };
    if (!(action->policy->loads_on == GUARD_ON_LOOP ? defer_start(guard->desk, &job)
                                                    : workers_start(guard->workers, &job)))
        return false;
    if (chosen != action->starter)
        core_starts(guard->core, action, chosen);
    if (guard->shadow != NULL && starter != NULL)
        shadow_started(starter, action->load);
    return true;
}

/* A loop may go between the choice and the start. It is not chosen twice. */
static bool start_load(struct guard *guard, const struct core_action *action)
{
    const struct core_waiter *chosen = choose_starter(action), *other = NULL;
    bool started = start_load_of(guard, action, chosen);
    while (!started && (other = choose_starter(action)) != chosen) {
        chosen = other;
        started = start_load_of(guard, action, chosen);
    }
    return started;
}

static void say_forgotten(struct guard *guard, uint64_t load)
{
    char key[SAID_KEY_SIZE];
    if (load_key_of(guard->desk, load, key))
        say(&guard->say, SAY_LOADER, SAY_BAD,
            "the load of %s was deferred and not finished within max_hold_ms: its place is free for another "
            "one",
            key);
}

static void perform(struct guard *guard, const struct core_action *action)
{
    bool performed = true;
    switch (action->kind) {
    case CORE_ACQUIRE:
    case CORE_RENEW:
    case CORE_FILL:
    case CORE_TOUCH:
    case CORE_RELEASE:
    case CORE_INVALIDATE:
    case CORE_PERMIT_ACQUIRE:
    case CORE_PERMIT_RENEW:
    case CORE_PERMIT_RELEASE:
        performed = calls_send(guard, action, on_replied);
        break;
    case CORE_LOAD:
        performed = start_load(guard, action);
        if (!performed)
            say(&guard->say, SAY_LOADER, SAY_BAD,
                "there is no thread or no memory for the load of \"%.*s\", or no loop any more that "
                "guard_refresh() named: its requests are answered NO_MEMORY here, and other processes may "
                "load it",
                SAID_KEY_BYTES, action->key.plain);
        break;
    case CORE_CANCEL:
        load_cancel(guard->desk, action->load);
        break;
    case CORE_FORGET:
        say_forgotten(guard, action->load);
        break;
    }
    if (!performed)
        core_unperformed(action->op != 0 ? guard->fleet : guard->core, action);
}

/* Its loads are those of the gets. */
static void perform_shadow(struct guard *guard)
{
    struct core_action action;
    do {
        while (core_next_action(guard->fleet, &action)) {
            if (action.kind == CORE_LOAD)
                shadow_load(guard->shadow, &action);
            else if (action.kind == CORE_CANCEL)
                shadow_cancel(guard->shadow, action.load);
            else
                perform(guard, &action);
        }
        shadow_answers(guard->shadow);
    } while (shadow_step(guard->shadow, clock_now_us()));
}

static void perform_all(struct guard *guard)
{
    struct core_action action;
    do {
        while (core_next_action(guard->core, &action))
            perform(guard, &action);
    } while (core_tell_unperformed(guard->core, clock_now_us()));
    if (guard->shadow != NULL)
        perform_shadow(guard);
    workers_commit(guard->workers);
    struct core_origin *spent = NULL;
    while ((spent = core_next_spent(guard->core)) != NULL)
        origin_free((struct origin *)spent);
}

/* ---- what the core has answered ---- */

/* Into its loop's outbox; `told` links the loops that have something there. */
static void put_in_outbox(struct get *get, struct loop **told)
{
    struct loop *loop = get->loop;
    get->in_core = false;
    get->prev = get->next = NULL;
    if (loop->outbox == NULL) {
        loop->outbox_next = *told;
        *told = loop;
    }
    DL_APPEND(loop->outbox, get);
}

/* Of all that is in their outboxes. */
static void note_heats(struct guard *guard, uint64_t now_us, const struct loop *told)
{
    const struct get *get = NULL;
    pthread_mutex_lock(&guard->hot_mutex);
    for (; told != NULL; told = told->outbox_next)
        DL_FOREACH (told->outbox, get) {
            const enum guard_source source = get->waiter.result.source;
            const uint64_t start_us = get->waiter.start_us;
            if (source == GUARD_FROM_FLIGHT || source == GUARD_FROM_FLEET)
                hot_add(&guard->hot[GUARD_HOT_COLLAPSED], now_us, get->text, get->kind, 1);
            if (now_us > start_us)
                hot_add(&guard->hot[GUARD_HOT_WAIT], now_us, get->text, get->kind, now_us - start_us);
        }
    pthread_mutex_unlock(&guard->hot_mutex);
}

/* What the core has answered, beginning with this one. */
static void tell_waiters(struct guard *guard, struct core_waiter *waiter, struct loop **told)
{
    uint64_t now_us = clock_now_us();
    for (; waiter != NULL; waiter = core_next_answer(guard->core)) {
        if (guard->shadow != NULL)
            shadow_told(guard->shadow, now_us, (struct get *)waiter);
        put_in_outbox((struct get *)waiter, told);
    }
    note_heats(guard, now_us, *told);
}

static void tell_answered(struct guard *guard)
{
    struct loop *told = NULL;
    struct core_waiter *waiter = core_next_answer(guard->core);
    if (waiter != NULL)
        tell_waiters(guard, waiter, &told);
    while (guard->refused != NULL) { /* they have waited for nothing */
        struct get *get = guard->refused;
        DL_DELETE(guard->refused, get);
        put_in_outbox(get, &told);
    }
    while (told != NULL) { /* a loop may be gone once it has its answers */
        struct loop *loop = told;
        struct get *list = loop->outbox;
        told = loop->outbox_next;
        loop->outbox = NULL;
        loop_return(loop, list);
    }
}

/* The first that is not confirmed says how it ended. */
static void end_part(struct change *change, const struct guard_invalidated *part)
{
    struct guard_invalidated *whole = &change->result;
    if (whole->status == GUARD_OK)
        whole->status = part->status;
    whole->value_dropped |= part->value_dropped;
    whole->load_voided |= part->load_voided;
    if (--change->left > 0)
        return;
    if (change->loop != NULL)
        loop_return_change(change);
    else
        loop_tell_change(change);
}

static void end_invalidation(struct guard *guard, struct invalidation *invalidation,
                             const struct guard_invalidated *result)
{
    const struct core_invalidation *core = &invalidation->core;
    struct change *change = invalidation->change;
    near_invalidation_ends(guard->near, core->of_tag, core->key.encoded, core->key.encoded_bytes);
    pthread_mutex_lock(&guard->mutex);
    guard->invalidation_count--;
    pthread_mutex_unlock(&guard->mutex);
    const struct guard_invalidated part = *result; /* it may lie in what is freed */
    if (invalidation != change->first)
        free(invalidation);
    end_part(change, &part);
}

/* ---- what others have handed over ---- */

static void enter_refreshes(struct guard *guard, struct refresh *list)
{
    while (list != NULL) {
        struct refresh *refresh = list;
        list = refresh->next;
        if (guard->phase == PHASE_RUNNING) {
            core_refresh(guard->core, clock_now_us(), &refresh->core);
            refresh->core.origin = NULL;
            perform_all(guard);
        }
        refresh_free(refresh);
    }
}

static void enter_load(struct guard *guard, const struct finished_load *finished)
{
    if (finished->deferred) {
        load_told(guard->desk, finished->load);
        if (!finished->heard)
            core_deferred(guard->core, clock_now_us(), finished->load);
    } else {
        if (guard->shadow != NULL)
            shadow_kept(guard->shadow, finished->load, finished->loaded.keep);
        core_loaded(guard->core, clock_now_us(), finished->load, &finished->loaded);
    }
    perform_all(guard);
}

static void enter_finished(struct guard *guard, struct finished_load *list)
{
    while (list != NULL) {
        struct finished_load *finished = list;
        list = finished->next;
        if (guard->phase != PHASE_ENDING)
            enter_load(guard, finished);
        finished_load_free(finished);
    }
}

static struct finished_load *take_finished(struct guard *guard)
{
    pthread_mutex_lock(&guard->mutex);
    struct finished_load *list = guard->posted.finished;
    guard->posted.finished = NULL;
    pthread_mutex_unlock(&guard->mutex);
    return list;
}

/* What a deferred load asks for may come before the word that it is deferred, which waits for its loader to return:
 * the core would lend a thread that does not wait. */
static void hear_parent(struct guard *guard, uint64_t load)
{
    if (load == 0)
        return;
    if (load_hear_deferral(guard->desk, load))
        core_deferred(guard->core, clock_now_us(), load);
    else
        enter_finished(guard, take_finished(guard)); /* it may be over, and that in there */
}

static enum guard_status enter_core(struct guard *guard, struct get *get)
{
    struct core_key key = get_key(get);
    if (get->cancelled_early)
        return GUARD_CANCELLED;
    if (guard->phase == PHASE_ENDING)
        return GUARD_CLOSING;
    hear_parent(guard, get->waiter.parent_load);
    get->waiter.origin = (struct core_origin *)origin_new(&get->asker);
    get->in_core = true;
    uint64_t now_us = clock_now_us();
    enum guard_status status =
        core_get(guard->core, now_us, &key, get->policy, &get->waiter, get->deadline_us);
    if (status == GUARD_OK && guard->shadow != NULL)
        shadow_get(guard->shadow, now_us, get);
    return status;
}

/* New: from guard_get(), to be looked up on the guard's own loop. Otherwise its lookup was no hit. */
static void enter_get(struct guard *guard, struct get *get)
{
    bool new = get->stage == GET_NEW;
    if (new)
        guard->own->count++;
    bool over = get->cancelled_early || guard->phase == PHASE_ENDING;
    if (new && !over && lookup_begin(guard->own, get))
        return;
    enum guard_status status = enter_core(guard, get);
    if (status == GUARD_OK) {
        perform_all(guard);
        return;
    }
    get->waiter.result = (struct guard_result){.status = status, .retry_ms = status == GUARD_SHED ? 1000 : 0};
    callback_count(guard->own, get);
    get->in_core = false;
    DL_APPEND(guard->refused, get);
}

static void enter_invalidations(struct guard *guard, struct invalidation *list)
{
    while (list != NULL) {
        struct invalidation *invalidation = list;
        DL_DELETE(list, invalidation);
        enum guard_status status = GUARD_CLOSING;
        if (guard->phase != PHASE_ENDING)
            status = core_invalidate(guard->fleet, clock_now_us(), &invalidation->core);
        if (status == GUARD_OK)
            perform_all(guard);
        else
            end_invalidation(guard, invalidation, &(struct guard_invalidated){.status = status});
    }
}

/* Under the mutex, because a get that has left the core may be freed by its loop as soon as it is released. */
static void cancel(struct guard *guard, struct get *get)
{
    mailbox_forget_cancel(guard, get);
    if (get->in_core)
        core_cancel(guard->core, clock_now_us(), &get->waiter);
    else if (get->loop == guard->own && (get->lookup != NULL || get->stage == GET_HELD))
        loop_cancel(guard->own, get);
    else
        get->cancelled_early = true; /* still in the mailbox, or answered already */
}

static bool enter_cancel(struct guard *guard)
{
    pthread_mutex_lock(&guard->mutex);
    bool any = guard->cancels != NULL;
    if (any)
        cancel(guard, guard->cancels);
    pthread_mutex_unlock(&guard->mutex);
    return any;
}

static void empty_mailbox(struct guard *guard)
{
    pthread_mutex_lock(&guard->mutex);
    struct posted posted = guard->posted;
    guard->posted = (struct posted){.gets = NULL};
    pthread_mutex_unlock(&guard->mutex);
    enter_finished(guard, posted.finished);
    while (posted.gets != NULL) {
        struct get *get = posted.gets;
        DL_DELETE(posted.gets, get);
        enter_get(guard, get);
    }
    enter_invalidations(guard, posted.invalidations);
    enter_refreshes(guard, posted.refreshes);
    if (posted.clearings != NULL)
        clear_enter(guard, posted.clearings);
    while (enter_cancel(guard))
        perform_all(guard);
}

/* ---- the end ---- */

/* The loop runs out when nothing is left on it. */
static void topology_closed(void *context)
{
    struct guard *guard = context;
    host_close(guard->host, NULL, NULL);
}

/* The topology goes last: all others are connected over it. */
static void part_closed(void *context)
{
    struct guard *guard = context;
    if (--guard->parts_open > 0)
        return;
    if (guard->topology != NULL)
        redis_topology_close(guard->topology, topology_closed, guard);
    else
        topology_closed(guard);
}

void thread_close_everything(struct guard *guard)
{
    guard->phase = PHASE_ENDING;
    clear_close(guard);
    connected_close(guard);
    pthread_mutex_lock(&guard->mutex);
    guard->ended = true; /* first: what comes later is its sender's to free */
    struct finished_load *each = NULL, *next = NULL;
    LL_FOREACH_SAFE (guard->posted.finished, each, next)
        if (each->deferred) /* it is in a load that whoever finishes it frees, once the guard has ended */
            LL_DELETE(guard->posted.finished, each);
    pthread_mutex_unlock(&guard->mutex);
    empty_mailbox(guard);
    if (guard->core != NULL) /* it had come that far */
        tell_answered(guard);
    host_wake_clear(&guard->mail);
    host_timer_stop(guard->host, &guard->timer);
    host_timer_stop(guard->host, &guard->limit);
    host_timer_stop(guard->host, &guard->beat);
    host_soon_stop(&guard->turn_over);
    guard->parts_open = 1u + (guard->wake != NULL) + (guard->own != NULL);
    if (guard->wake != NULL)
        subscription_close(guard->wake, part_closed, guard);
    if (guard->own != NULL)
        loop_close(guard->own, part_closed, guard);
    part_closed(guard); /* of this call */
}

static void set_limit(struct guard *guard, uint32_t in_ms)
{
    host_timer_set(guard->host, &guard->limit, clock_now_us() + (uint64_t)in_ms * 1000);
}

static void cancel_everything(struct guard *guard)
{
    guard->phase = PHASE_CANCELLING;
    guard->cancelled_us = clock_now_us();
    pthread_mutex_lock(&guard->mutex);
    guard->cancelling = true;
    pthread_mutex_unlock(&guard->mutex);
    set_limit(guard, STUCK_LOADER_MS);
    core_close(guard->core, clock_now_us());
    if (guard->shadow != NULL) {
        perform_all(guard);
        core_close(guard->fleet, clock_now_us());
    }
    after_events(guard);
}

/* The drain time is over; or the loaders have had their time to notice that they are cancelled. */
void thread_on_limit(void *context)
{
    struct guard *guard = context;
    if (guard->phase == PHASE_DRAINING)
        cancel_everything(guard);
    else
        thread_close_everything(guard);
}

static void advance_end(struct guard *guard)
{
    pthread_mutex_lock(&guard->mutex);
    bool closing = guard->closing_asked;
    bool mail =
        guard->posted.gets != NULL || guard->posted.invalidations != NULL || guard->posted.clearings != NULL;
    uint32_t drain_ms = guard->drain_ms;
    pthread_mutex_unlock(&guard->mutex);
    if (guard->phase == PHASE_RUNNING && closing) {
        guard->phase = PHASE_DRAINING;
        set_limit(guard, drain_ms);
        empty_mailbox(guard); /* what was said before the close comes before it */
        core_drain(guard->core, clock_now_us());
        after_events(guard);
        return;
    }
    /* The core does not know of what is in the mailbox or still looked up. */
    bool finished = guard->phase == PHASE_DRAINING && !mail && guard->own->count == 0 &&
                    !core_has_waiters(guard->core) && core_drained(guard->core) && !clear_is_awaited(guard);
    if (finished)
        cancel_everything(guard);
    else if (guard->phase == PHASE_CANCELLING && core_idle(guard->core) && core_idle(guard->fleet))
        thread_close_everything(guard);
}

/* ---- after every event ---- */

void thread_on_timer(void *context)
{
    struct guard *guard = context;
    empty_mailbox(guard); /* a loop that was held up hears what came in time before it judges what is late */
    core_tick(guard->core, clock_now_us());
    perform_all(guard);
    if (guard->shadow != NULL)
        core_tick(guard->fleet, clock_now_us());
    after_events(guard);
}

static void tell_numbers(struct guard *guard)
{
    numbers_publish(guard);
    if (guard->events.first != NULL)
        events_tell_all(guard, false);
}

/* After every batch of events: do what the core wants, tell what happened, return what was answered. An answer is in
 * the counters before its callback runs, and before the host hears of its load. */
static void after_events(struct guard *guard)
{
    if (guard->phase == PHASE_ENDING)
        return;
    perform_all(guard);
    tell_numbers(guard);
    tell_answered(guard);
    if (guard->shadow != NULL) { /* what the answered gets have loaded goes on from here */
        perform_shadow(guard);
        tell_numbers(guard);
    }
    struct core_invalidation *told = NULL;
    while ((told = core_next_invalidated(guard->fleet)) != NULL)
        end_invalidation(guard, (struct invalidation *)told, &told->result);
    const uint64_t core_us = core_next_us(guard->core), fleet_us = core_next_us(guard->fleet);
    host_timer_set(guard->host, &guard->timer, core_us < fleet_us ? core_us : fleet_us);
    if (core_turn_due(guard->core) || guard->sweep_due)
        host_soon(guard->host, &guard->turn_over);
    advance_end(guard);
}

/* After all that was to be read in this turn of the loop has been read. */
void thread_on_turn_over(void *context)
{
    struct guard *guard = context;
    if (guard->phase == PHASE_ENDING)
        return;
    guard->sweep_due = guard->sweep_due && near_sweep(guard->near);
    if (guard->sweep_due)
        host_soon(guard->host, &guard->turn_over);
    if (!core_turn_due(guard->core))
        return;
    core_turn_over(guard->core, clock_now_us());
    after_events(guard);
}

void thread_on_mail(void *context)
{
    struct guard *guard = context;
    empty_mailbox(guard);
    if (guard->resync_due)
        core_resync(guard->fleet, clock_now_us());
    guard->resync_due = false;
    cache_ask(guard);
    connected_tell(guard);
    after_events(guard);
}

/* ---- messages and the link ---- */

/* Whether a waiter is left for it is the core's to see. */
static void push_checked(struct guard *guard, const char *subject, size_t subject_bytes,
                         const struct core_reply *pushed)
{
    if (pushed != NULL)
        core_pushed(guard->fleet, clock_now_us(), subject, subject_bytes, pushed);
    else
        core_woken(guard->fleet, clock_now_us(), subject, subject_bytes, false);
    after_events(guard);
}

/* Answers the waiters with what the message has brought, which is read only if there are any. False: it is a
 * wake-up like any other. */
static bool take_push(struct guard *guard, const struct message *message)
{
    struct core_reply pushed;
    struct value *value = NULL;
    const struct core_key *key = NULL;
    bool taken = true;
    if (message->entry != NULL && message->lease_tag != NULL)
        key = core_awaits(guard->fleet, message->subject, message->subject_bytes, message->lease_tag,
                          message->kind == MESSAGE_RELEASED);
    if (key == NULL || !message_read_entry(message, key, guard->protocol.max_value_ms, &pushed, &value))
        return false;
    if (pushed.tags_bytes > 0)
        taken = calls_check_push(guard, message, &pushed, push_checked);
    else
        core_pushed(guard->fleet, clock_now_us(), message->subject, message->subject_bytes, &pushed);
    value_unref(&value);
    return taken;
}

void thread_on_message(void *context, const char *payload, size_t payload_bytes)
{
    struct guard *guard = context;
    struct message message = message_read(payload, payload_bytes);
    if (message.kind == MESSAGE_NONE)
        return;
    bool invalidated = message.kind == MESSAGE_INVALIDATED;
    if (message.kind == MESSAGE_TAG) {
        near_heard_tag(guard->near, message.subject, message.subject_bytes);
        return; /* no key: no flight waits for it */
    }
    if (message.kind == MESSAGE_CLEARED) {
        clear_heard(guard);
        return;
    }
    uint64_t lease = message.lease_tag != NULL ? load_id_of_tag(message.lease_tag) : 0;
    near_heard(guard->near, invalidated || message.kind == MESSAGE_FILLED, lease, message.subject,
               message.subject_bytes);
    if (message.kind == MESSAGE_PERMIT)
        core_permit_freed(guard->fleet, clock_now_us(), message.subject, message.subject_bytes);
    else if (!take_push(guard, &message))
        core_woken(guard->fleet, clock_now_us(), message.subject, message.subject_bytes, invalidated);
    after_events(guard);
}

void thread_on_resync(void *context)
{
    struct guard *guard = context;
    core_resync(guard->fleet, clock_now_us());
    after_events(guard);
}

void thread_on_wake_state(void *context, const char *text)
{
    struct guard *guard = context;
    guard->wake_state = subscription_state(guard->wake);
    bool up = guard->wake_state == GUARD_REDIS_UP;
    say(&guard->say, SAY_WAKE, up ? SAY_GOOD : SAY_BAD, "wake-ups: %s", text);
    near_subscribed(guard->near, up);
    guard->sweep_due = guard->near != NULL && (guard->sweep_due || up);
    after_events(guard); /* nothing else may happen for long, and guard_stats() tells of it */
}

void thread_on_touched(void *context, uint64_t sent_us)
{
    const struct guard *guard = context;
    near_touched(guard->near, sent_us);
}

void thread_on_link(void *loop, unsigned shard, bool up)
{
    struct guard *guard = ((struct loop *)loop)->guard;
    if (guard->phase == PHASE_ENDING)
        return;
    if (up)
        cache_ask(guard);
    else
        cache_forget(guard, shard);
    core_link(guard->fleet, clock_now_us(), shard, up);
    after_events(guard);
}

void thread_on_gone(void *loop, unsigned shard)
{
    struct guard *guard = ((struct loop *)loop)->guard;
    if (guard->phase == PHASE_ENDING)
        return;
    core_shard_gone(guard->fleet, shard);
    after_events(guard);
}

void thread_on_heard(struct guard *guard)
{
    if (guard->phase == PHASE_ENDING)
        return;
    for (unsigned i = 0; i < REDIS_SHARDS_MAX / 64; i++) {
        uint64_t heard = atomic_exchange_explicit(&guard->heard[i], 0, memory_order_relaxed);
        for (unsigned shard = i * 64; heard != 0; shard++, heard >>= 1)
            if ((heard & 1) != 0)
                core_heard(guard->fleet, clock_now_us(), shard);
    }
    after_events(guard);
}

void thread_on_reign(void *loop, unsigned shard)
{
    struct guard *guard = ((struct loop *)loop)->guard;
    if (guard->phase == PHASE_ENDING)
        return;
    cache_forget(guard, shard);
    clear_reigned(guard);
    core_reign(guard->fleet, clock_now_us(), shard);
    after_events(guard);
}

void thread_on_state(struct guard *guard)
{
    after_events(guard); /* guard_stats() tells of it */
    if (guard->phase != PHASE_ENDING)
        connected_spoken(guard);
}
