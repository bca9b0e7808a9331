/* SPDX-License-Identifier: MIT */
/*
 * shell.c - the guard's thread. See shell.h.
 *
 * The end, in phases: DRAINING until nobody waits or the drain time is over; CANCELLING, every waiter answered
 * and every load told to stop, until the core is idle or STUCK_LOADER_MS are over; ENDING, handles closing.
 */
#include "shell.h"
#include "check.h"
#include "clock.h"
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utlist.h>

enum {
    STUCK_LOADER_MS = 5000,                          /* a loader has this long to notice its cancellation */
    REPLY_MOST_BYTES = CHECK_VALUE_MAX_BYTES + 8192, /* what any process may have filled, and its head */
    BEAT_MS = 500,
    LOOP_DESCRIPTORS = 6, /* epoll, two pipes, eventfd */
    PENDING_BYTES = 64 << 20,
    BACKOFF_MS = 50,
    MAX_BACKOFF_MS = 1000,
};

/* One command on its way. */
struct call {
    struct guard *guard;
    enum core_action_kind kind;
    uint64_t op;
    size_t key_bytes;
    char key[]; /* the application's: entries are checked against it */
};

static void after_events(struct guard *guard);

void shell_log(const struct guard *guard, const char *format, ...)
{
    char text[512];
    va_list args;
    if (guard->config.log == NULL)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    guard->config.log(guard->config.log_context, text);
}

void shell_redis_config(struct guard *guard, struct redis_config *config)
{
    *config = (struct redis_config){
        .address = &guard->address,
        .limit_ms = guard->config.redis_limit_ms,
        .connect_limit_ms = guard->config.connect_limit_ms,
        .backoff_ms = BACKOFF_MS,
        .max_backoff_ms = MAX_BACKOFF_MS,
        .max_reply_bytes = REPLY_MOST_BYTES,
        .max_pending_bytes = PENDING_BYTES + (size_t)guard->config.max_value_bytes,
        .client_name = "stampede-guard",
        .counters = &guard->redis_counters,
    };
}

/* ---- performing actions ---- */

static void on_reply(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    struct call *call = context;
    struct guard *guard = call->guard;
    struct core_reply core_reply;
    struct value *value = NULL;
    if (guard->phase == SHELL_ENDING) { /* the core has ended already */
        free(call);
        return;
    }
    if (outcome == REDIS_REPLIED && reply->type == REDIS_REPLY_ERROR)
        shell_log(guard, "redis refused a script: %.200s", reply->str);
    protocol_read(call->kind, call->key, call->key_bytes, outcome, reply, &core_reply, &value);
    core_replied(guard->fleet, clock_now_us(), call->op, &core_reply);
    value_unref(&value);
    free(call);
    after_events(guard);
}

static bool send_script(struct guard *guard, const struct core_action *action)
{
    struct call *call = malloc(sizeof *call + action->key.plain_bytes);
    if (call == NULL)
        return false;
    call->guard = guard;
    call->kind = action->kind;
    call->op = action->op;
    call->key_bytes = action->key.plain_bytes;
    memcpy(call->key, action->key.plain, call->key_bytes);
    if (protocol_send(&guard->protocol, guard->own->redis, action, on_reply, call))
        return true;
    free(call);
    return false;
}

static bool start_load(struct guard *guard, const struct core_action *action)
{
    const struct job job = {
        .load = action->load,
        .key = action->key.plain,
        .key_bytes = action->key.plain_bytes,
        .policy = action->policy,
        .deadline_us = action->deadline_us,
        .lender = action->lender,
        .previous_validator = action->previous != NULL ? action->previous->public.validator : NULL,
        .batch = action->batch,
    };
    return workers_start(guard->workers, &job);
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
        performed = send_script(guard, action);
        break;
    case CORE_LOAD:
        performed = start_load(guard, action);
        break;
    case CORE_CANCEL:
        workers_cancel(guard->workers, action->load);
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
}

/* ---- answering ---- */

static void return_get(struct get *get)
{
    get->in_core = false;
    get->prev = get->next = NULL;
    struct get *list = NULL;
    DL_APPEND(list, get);
    loop_return(get->loop, list);
}

/* Into its loop's outbox; `told` links the loops that have something there. */
static void put_in_outbox(struct get *get, struct guard_loop **told)
{
    struct guard_loop *loop = get->loop;
    get->in_core = false;
    get->prev = get->next = NULL;
    if (loop->outbox == NULL) {
        loop->outbox_next = *told;
        *told = loop;
    }
    DL_APPEND(loop->outbox, get);
}

static void note_heat(struct guard *guard, uint64_t now_us, const struct get *get)
{
    enum guard_source source = get->waiter.result.source;
    if (source == GUARD_FROM_FLIGHT || source == GUARD_FROM_FLEET)
        hot_add(&guard->hot[GUARD_HOT_COLLAPSED], now_us, get->text, 1);
    if (now_us > get->waiter.start_us)
        hot_add(&guard->hot[GUARD_HOT_WAIT], now_us, get->text, now_us - get->waiter.start_us);
}

static void tell_answered(struct guard *guard)
{
    struct guard_loop *told = NULL;
    struct core_waiter *waiter = core_next_answer(guard->core);
    if (waiter == NULL)
        return;
    uint64_t now_us = clock_now_us();
    pthread_mutex_lock(&guard->hot_mutex);
    for (; waiter != NULL; waiter = core_next_answer(guard->core)) {
        note_heat(guard, now_us, (struct get *)waiter);
        if (guard->shadow != NULL)
            shadow_told(guard->shadow, now_us, (struct get *)waiter);
        put_in_outbox((struct get *)waiter, &told);
    }
    pthread_mutex_unlock(&guard->hot_mutex);
    while (told != NULL) { /* a loop may be gone once it has its answers */
        struct guard_loop *loop = told;
        struct get *list = loop->outbox;
        told = loop->outbox_next;
        loop->outbox = NULL;
        loop_return(loop, list);
    }
}

static void drop_near(struct guard *guard, const char *encoded, size_t encoded_bytes)
{
    if (guard->near != NULL)
        near_drop(guard->near, encoded, encoded_bytes);
}

/* The second drop of a key: between the first, when it was accepted, and the deletion in Redis somebody may have
 * looked the old value up and kept it. */
static void end_invalidation(struct guard *guard, struct invalidation *invalidation,
                             const struct guard_invalidated *result)
{
    drop_near(guard, invalidation->core.key.encoded, invalidation->core.key.encoded_bytes);
    pthread_mutex_lock(&guard->mutex);
    guard->invalidation_count--;
    pthread_mutex_unlock(&guard->mutex);
    if (invalidation->done != NULL)
        invalidation->done(invalidation->context, result);
    free(invalidation);
}

static void tell_invalidated(struct guard *guard)
{
    struct core_invalidation *core = core_next_invalidated(guard->fleet);
    for (; core != NULL; core = core_next_invalidated(guard->fleet)) {
        struct invalidation *invalidation = (struct invalidation *)core;
        end_invalidation(guard, invalidation, &core->result);
    }
}

/* ---- the turn ---- */

static void on_timer(uv_timer_t *timer)
{
    struct guard *guard = timer->data;
    core_tick(guard->core, clock_now_us());
    perform_all(guard);
    if (guard->shadow != NULL)
        core_tick(guard->fleet, clock_now_us());
    after_events(guard);
}

static void set_timer(struct guard *guard)
{
    uint64_t next_us = core_next_us(guard->core), fleet_us = core_next_us(guard->fleet);
    if (fleet_us < next_us)
        next_us = fleet_us;
    if (next_us == UINT64_MAX) {
        uv_timer_stop(&guard->timer);
        return;
    }
    uint64_t now_us = clock_now_us();
    uint64_t in_ms = next_us > now_us ? (next_us - now_us + 999) / 1000 : 0;
    uv_update_time(&guard->loop);
    uv_timer_start(&guard->timer, on_timer, in_ms, 0);
}

static void publish_stats(struct guard *guard)
{
    struct guard_stats stats;
    core_stats(guard->core, &stats);
    if (guard->shadow != NULL)
        shadow_stats(guard->shadow, &stats);
    stats.redis_state = guard->own->redis_state;
    stats.wake_state = wake_state(guard->wake);
    pthread_mutex_lock(&guard->mutex);
    guard->published = stats;
    pthread_mutex_unlock(&guard->mutex);
}

static void advance_end(struct guard *guard);

/* What the answered gets have loaded goes on from here. */
static void end_shadows(struct guard *guard)
{
    perform_shadow(guard);
    publish_stats(guard);
}

/* Only keeps the loop from blocking before on_turn_over(). */
static void on_awake(uv_idle_t *idle)
{
    (void)idle;
}

/* After every batch of events: do what the core wants, tell whom it answered. Who is told finds himself in the
 * counters. */
static void after_events(struct guard *guard)
{
    if (guard->phase == SHELL_ENDING)
        return;
    perform_all(guard);
    publish_stats(guard);
    tell_answered(guard);
    if (guard->shadow != NULL)
        end_shadows(guard);
    tell_invalidated(guard);
    set_timer(guard);
    if (core_turn_due(guard->core))
        uv_idle_start(&guard->awake, on_awake);
    advance_end(guard);
}

/* After all that was to be read in this turn of the loop has been read. */
static void on_turn_over(uv_check_t *check)
{
    struct guard *guard = check->data;
    if (guard->phase == SHELL_ENDING || !core_turn_due(guard->core))
        return;
    uv_idle_stop(&guard->awake);
    core_turn_over(guard->core, clock_now_us());
    after_events(guard);
}

/* ---- the mailbox ---- */

void shell_add_gets(struct guard *guard, struct get *list)
{
    for (struct get *get = list; get != NULL; get = get->next)
        get->stage = GET_CORE;
    DL_CONCAT(guard->incoming, list);
    uv_async_send(&guard->async);
}

void shell_post_get(struct guard *guard, struct get *get)
{
    struct get *list = NULL;
    DL_APPEND(list, get);
    pthread_mutex_lock(&guard->mutex);
    shell_add_gets(guard, list);
    pthread_mutex_unlock(&guard->mutex);
}

/* Under the mutex. */
static enum guard_status admit_invalidation(const struct guard *guard)
{
    if (guard->closing_asked)
        return GUARD_CLOSING;
    return guard->invalidation_count < GUARD_INVALIDATIONS_MAX ? GUARD_OK : GUARD_SHED;
}

enum guard_status shell_post_invalidation(struct guard *guard, struct invalidation *invalidation)
{
    drop_near(guard, invalidation->core.key.encoded, invalidation->core.key.encoded_bytes);
    pthread_mutex_lock(&guard->mutex);
    enum guard_status status = admit_invalidation(guard);
    if (status == GUARD_OK) {
        guard->invalidation_count++;
        DL_APPEND(guard->invalidations, invalidation);
        uv_async_send(&guard->async);
    }
    pthread_mutex_unlock(&guard->mutex);
    return status;
}

void shell_post_cancel(struct guard *guard, struct get *get)
{
    if (get->cancelling)
        return;
    get->cancelling = true;
    DL_APPEND2(guard->cancels, get, cancel_prev, cancel_next);
    uv_async_send(&guard->async);
}

void shell_forget_cancel(struct guard *guard, struct get *get)
{
    if (!get->cancelling)
        return;
    get->cancelling = false;
    DL_DELETE2(guard->cancels, get, cancel_prev, cancel_next);
}

static void on_finished(void *context, struct finished_load *finished)
{
    struct guard *guard = context;
    pthread_mutex_lock(&guard->mutex);
    bool ended = guard->ended;
    if (!ended) {
        LL_CONCAT(guard->finished, finished);
        uv_async_send(&guard->async);
    }
    pthread_mutex_unlock(&guard->mutex);
    while (ended && finished != NULL) {
        struct finished_load *next = finished->next;
        finished_load_free(finished);
        finished = next;
    }
}

/* ---- refreshes behind hits ---- */

static struct refresh *new_refresh(const struct get *get, const char *filler)
{
    size_t bytes = (size_t)get->plain_bytes + get->encoded_bytes + 2;
    struct core_key key = get_key(get);
    struct refresh *refresh = calloc(1, sizeof *refresh + bytes);
    if (refresh == NULL)
        return NULL;
    memcpy(refresh->text, get->text, bytes);
    refresh->policy = &get->kind->policy;
    refresh->together = get->many != NULL;
    key.plain = refresh->text;
    key.encoded = refresh->text + key.plain_bytes + 1;
    refresh->key = key;
    if (filler != NULL)
        memcpy(refresh->filler, filler, TOKEN_UUID_BYTES);
    return refresh;
}

void shell_post_refresh(struct guard *guard, const struct get *get, const char *filler)
{
    struct refresh *refresh = new_refresh(get, filler);
    if (refresh == NULL)
        return;
    pthread_mutex_lock(&guard->mutex);
    bool wanted = !guard->draining && !guard->ended;
    if (wanted) {
        LL_PREPEND(guard->refreshes, refresh);
        uv_async_send(&guard->async);
    }
    pthread_mutex_unlock(&guard->mutex);
    if (!wanted)
        free(refresh);
}

static void enter_refreshes(struct guard *guard, struct refresh *list)
{
    while (list != NULL) {
        struct refresh *refresh = list;
        list = refresh->next;
        if (guard->phase == SHELL_RUNNING) {
            const char *filler = refresh->filler[0] != '\0' ? refresh->filler : NULL;
            (refresh->together ? core_refresh_together : core_refresh)(
                guard->core, clock_now_us(), &refresh->key, refresh->policy, filler);
            perform_all(guard);
        }
        free(refresh);
    }
}

static enum guard_status enter_core(struct guard *guard, struct get *get)
{
    struct core_key key = get_key(get);
    if (get->cancelled_early)
        return GUARD_CANCELLED;
    if (guard->phase == SHELL_ENDING)
        return GUARD_CLOSING;
    get->in_core = true;
    uint64_t now_us = clock_now_us();
    enum guard_status status =
        core_get(guard->core, now_us, &key, &get->kind->policy, &get->waiter, get->deadline_us);
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
    bool over = get->cancelled_early || guard->phase == SHELL_ENDING;
    if (new && !over && loop_look_up(guard->own, get))
        return;
    enum guard_status status = enter_core(guard, get);
    if (status == GUARD_OK) {
        perform_all(guard);
        return;
    }
    get->waiter.result = (struct guard_result){.status = status, .retry_ms = status == GUARD_SHED ? 1000 : 0};
    if (status != GUARD_SHED) /* which the core has counted */
        loop_count(guard->own, get);
    return_get(get);
}

static void enter_gets(struct guard *guard, struct get *list)
{
    while (list != NULL) {
        struct get *get = list;
        DL_DELETE(list, get);
        enter_get(guard, get);
    }
}

/* Nobody is answered with what the shadow has stored: whoever changed the row need not wait for Redis. */
static void tell_at_once(struct invalidation *invalidation)
{
    if (invalidation->done != NULL)
        invalidation->done(invalidation->context, &(struct guard_invalidated){.status = GUARD_OK});
    invalidation->done = NULL;
}

static void enter_invalidations(struct guard *guard, struct invalidation *list)
{
    while (list != NULL) {
        struct invalidation *invalidation = list;
        DL_DELETE(list, invalidation);
        enum guard_status status = GUARD_CLOSING;
        if (guard->phase != SHELL_ENDING)
            status = core_invalidate(guard->fleet, clock_now_us(), &invalidation->core);
        if (status == GUARD_OK) {
            if (guard->shadow != NULL)
                tell_at_once(invalidation);
            perform_all(guard);
            continue;
        }
        end_invalidation(guard, invalidation, &(struct guard_invalidated){.status = status});
    }
}

static void enter_finished(struct guard *guard, struct finished_load *list)
{
    while (list != NULL) {
        struct finished_load *finished = list;
        list = finished->next;
        if (guard->phase != SHELL_ENDING) {
            core_loaded(guard->core, clock_now_us(), finished->load, &finished->loaded);
            perform_all(guard);
        }
        finished_load_free(finished);
    }
}

/* Under the mutex, because a get that has left the core may be freed by its loop as soon as it is released. */
static void cancel(struct guard *guard, struct get *get)
{
    shell_forget_cancel(guard, get);
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
    struct get *gets = guard->incoming;
    struct invalidation *invalidations = guard->invalidations;
    struct finished_load *finished = guard->finished;
    struct refresh *refreshes = guard->refreshes;
    guard->refreshes = NULL;
    guard->incoming = NULL;
    guard->invalidations = NULL;
    guard->finished = NULL;
    pthread_mutex_unlock(&guard->mutex);
    enter_finished(guard, finished);
    enter_gets(guard, gets);
    enter_invalidations(guard, invalidations);
    enter_refreshes(guard, refreshes);
    while (enter_cancel(guard))
        perform_all(guard);
}

static void on_async(uv_async_t *async)
{
    struct guard *guard = async->data;
    empty_mailbox(guard);
    after_events(guard);
}

/* ---- messages and the link ---- */

static void on_message(void *context, const struct message *message)
{
    struct guard *guard = context;
    if (message->kind == MESSAGE_INVALIDATED)
        drop_near(guard, message->subject, message->subject_bytes);
    core_woken(guard->fleet, clock_now_us(), message->subject, message->subject_bytes,
               message->kind == MESSAGE_INVALIDATED);
    after_events(guard);
}

static void on_resync(void *context)
{
    struct guard *guard = context;
    core_resync(guard->fleet, clock_now_us());
    after_events(guard);
}

static void on_wake_state(void *context, const char *text)
{
    struct guard *guard = context;
    shell_log(guard, "wake-ups: %s", text);
    if (guard->near != NULL)
        near_listen(guard->near, wake_state(guard->wake) == GUARD_REDIS_UP);
    after_events(guard); /* nothing else may happen for long, and guard_stats() tells of it */
}

/* ---- the end ---- */

/* The loop runs out when the last of these is closed. */
static void close_everything(struct guard *guard)
{
    guard->phase = SHELL_ENDING;
    empty_mailbox(guard);
    pthread_mutex_lock(&guard->mutex);
    guard->ended = true;
    pthread_mutex_unlock(&guard->mutex);
    uv_close((uv_handle_t *)&guard->async, NULL);
    uv_close((uv_handle_t *)&guard->timer, NULL);
    uv_close((uv_handle_t *)&guard->limit, NULL);
    uv_close((uv_handle_t *)&guard->beat, NULL);
    uv_close((uv_handle_t *)&guard->turn, NULL);
    uv_close((uv_handle_t *)&guard->awake, NULL);
    if (guard->wake != NULL)
        wake_close(guard->wake, NULL, NULL);
    if (guard->own != NULL)
        loop_close(guard->own, NULL, NULL);
}

static void on_limit(uv_timer_t *timer);

static void cancel_everything(struct guard *guard)
{
    guard->phase = SHELL_CANCELLING;
    pthread_mutex_lock(&guard->mutex);
    guard->cancelling = true;
    pthread_mutex_unlock(&guard->mutex);
    uv_timer_start(&guard->limit, on_limit, STUCK_LOADER_MS, 0);
    core_close(guard->core, clock_now_us());
    if (guard->shadow != NULL) {
        perform_all(guard);
        core_close(guard->fleet, clock_now_us());
    }
    after_events(guard);
}

/* The drain time is over; or the loaders have had their time to notice that they are cancelled. */
static void on_limit(uv_timer_t *timer)
{
    struct guard *guard = timer->data;
    if (guard->phase == SHELL_DRAINING)
        cancel_everything(guard);
    else
        close_everything(guard);
}

/* Gets that have not been taken out of the mailbox or are still looked up are not known to the core yet. */
static bool nothing_to_finish(const struct guard *guard, bool mail)
{
    return !mail && guard->own->count == 0 && !core_has_waiters(guard->core) && core_drained(guard->core);
}

static void advance_end(struct guard *guard)
{
    pthread_mutex_lock(&guard->mutex);
    bool closing = guard->closing_asked;
    bool mail = guard->incoming != NULL || guard->invalidations != NULL;
    uint32_t drain_ms = guard->drain_ms;
    pthread_mutex_unlock(&guard->mutex);
    if (guard->phase == SHELL_RUNNING && closing) {
        guard->phase = SHELL_DRAINING;
        uv_update_time(&guard->loop);
        uv_timer_start(&guard->limit, on_limit, drain_ms, 0);
    }
    if (guard->phase == SHELL_DRAINING && nothing_to_finish(guard, mail))
        cancel_everything(guard);
    else if (guard->phase == SHELL_CANCELLING && core_idle(guard->core) && core_idle(guard->fleet))
        close_everything(guard);
}

void shell_rested(struct guard *guard)
{
    if (guard->phase == SHELL_DRAINING)
        advance_end(guard);
}

/* ---- life ---- */

void shell_link(struct guard *guard, bool up)
{
    if (guard->phase == SHELL_ENDING)
        return;
    core_link(guard->fleet, clock_now_us(), up);
    after_events(guard);
}

static void make_token(void *context, uint32_t lease_ms, char token[TOKEN_SIZE])
{
    struct guard *guard = context;
    uint8_t random[24];
    if (!clock_random(random, sizeof random))
        abort(); /* it worked when the guard was opened; a guessable token would break every promise */
    protocol_token(&guard->protocol, random, lease_ms, clock_wall_s(), token);
}

static struct core *new_core(struct guard *guard, enum guard_mode mode, bool without_redis)
{
    struct core_config config = {
        .mode = mode,
        .without_redis = without_redis,
        .load_workers = guard->config.load_workers,
        .load_queue = guard->config.load_queue,
        .max_waiters = guard->config.max_waiters,
        .max_value_bytes = guard->config.max_value_bytes,
        .make_token = make_token,
        .token_context = guard,
    };
    memcpy(config.hash_key, guard->hash_key, sizeof config.hash_key);
    return clock_random(&config.seed, sizeof config.seed) ? core_new(&config) : NULL;
}

static struct wake *open_wake(struct guard *guard)
{
    struct redis_config config;
    struct wake_hooks hooks = {guard, on_message, on_resync, on_wake_state};
    shell_redis_config(guard, &config);
    if (!clock_random(&config.jitter_seed, sizeof config.jitter_seed))
        return NULL;
    return wake_open(&guard->loop, &guard->protocol, &config, guard->own->redis, &hooks);
}

static bool open_cores(struct guard *guard)
{
    if (guard->config.mode != GUARD_MODE_SHADOW) {
        guard->core = guard->fleet = new_core(guard, guard->config.mode, false);
        return guard->core != NULL;
    }
    guard->core = new_core(guard, GUARD_MODE_OFF, true);
    guard->fleet = new_core(guard, GUARD_MODE_FLEET, false);
    guard->shadow = guard->core != NULL && guard->fleet != NULL ? shadow_open(guard->fleet) : NULL;
    return guard->shadow != NULL;
}

static bool open_parts(struct guard *guard)
{
    if (!open_cores(guard))
        return false;
    guard->workers = workers_open(guard->config.load_workers, on_finished, guard);
    if (guard->workers == NULL || loop_open(guard, &guard->loop, &guard->own) != GUARD_OK)
        return false;
    guard->wake = open_wake(guard);
    return guard->wake != NULL;
}

/* This thread is alive: see beat_age_ms in guard_stats(). */
static void on_beat(uv_timer_t *timer)
{
    struct guard *guard = timer->data;
    atomic_store_explicit(&guard->beat_us, clock_now_us(), memory_order_relaxed);
}

static void *run(void *context)
{
    struct guard *guard = context;
    uv_run(&guard->loop, UV_RUN_DEFAULT);
    return NULL;
}

/* The host's signals, SIGPIPE among them, are no business of this thread. */
static bool start_thread(struct guard *guard)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&guard->thread, NULL, run, guard) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

/* False: a loader keeps the memory. */
static bool clear(struct guard *guard)
{
    bool idle =
        (guard->core == NULL || core_idle(guard->core)) && (guard->fleet == NULL || core_idle(guard->fleet));
    if (!workers_close(&guard->workers) || !idle)
        return false;
    if (guard->fleet != guard->core)
        core_free(&guard->fleet);
    core_free(&guard->core);
    shadow_close(&guard->shadow);
    uv_loop_close(&guard->loop);
    return true;
}

/* uv_loop_init() of libuv 1.44 leaks the descriptor of its epoll when it has none for its two pipes and its
 * eventfd: those it needs are tried first. */
static bool descriptors_to_spare(void)
{
    int fds[LOOP_DESCRIPTORS];
    int count = 0;
    while (count < LOOP_DESCRIPTORS && (fds[count] = eventfd(0, EFD_CLOEXEC)) >= 0)
        count++;
    bool enough = count == LOOP_DESCRIPTORS;
    while (count > 0)
        close(fds[--count]);
    return enough;
}

enum guard_status shell_start(struct guard *guard)
{
    if (!descriptors_to_spare() || uv_loop_init(&guard->loop) != 0)
        return GUARD_NO_MEMORY;
    guard->loop.data = guard;
    atomic_init(&guard->beat_us, clock_now_us());
    guard->async.data = guard->timer.data = guard->limit.data = guard->beat.data = guard->turn.data = guard;
    if (uv_async_init(&guard->loop, &guard->async, on_async) != 0) {
        uv_loop_close(&guard->loop);
        return GUARD_NO_MEMORY;
    }
    uv_timer_init(&guard->loop, &guard->timer);
    uv_timer_init(&guard->loop, &guard->limit);
    uv_timer_init(&guard->loop, &guard->beat);
    uv_timer_start(&guard->beat, on_beat, 0, BEAT_MS);
    uv_check_init(&guard->loop, &guard->turn);
    uv_check_start(&guard->turn, on_turn_over);
    uv_idle_init(&guard->loop, &guard->awake);
    if (open_parts(guard) && start_thread(guard))
        return GUARD_OK;
    close_everything(guard);
    uv_run(&guard->loop, UV_RUN_DEFAULT);
    clear(guard);
    return GUARD_NO_MEMORY;
}

bool shell_stop(struct guard *guard, uint32_t drain_ms)
{
    pthread_mutex_lock(&guard->mutex);
    guard->draining = guard->closing_asked = true;
    atomic_store(&guard->refusing, true);
    guard->drain_ms = drain_ms;
    uv_async_send(&guard->async);
    pthread_mutex_unlock(&guard->mutex);
    pthread_join(guard->thread, NULL);
    return clear(guard);
}
