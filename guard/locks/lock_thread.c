/* SPDX-License-Identifier: MIT */
/* lock_thread.c - see lock_state.h. */
#include "../base/check.h"
#include "../base/clock.h"
#include "../base/process.h"
#include "lock_state.h"
#include "lock_wire.h"
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utlist.h>

enum {
    REST_EVERY_MS = 2000,
    UNPERFORMED_MAX = 64,
    BEHIND_US = 5000, /* more than a timer is late by itself */
};

/* ---- memory ---- */

static void free_locks(struct guard_locks *locks)
{
    for (size_t i = 0; i < locks->config.url_count; i++)
        free((char *)(uintptr_t)locks->config.urls[i]);
    free((void *)(uintptr_t)locks->config.urls);
    free((char *)(uintptr_t)locks->config.name_space);
    tickets_clear(&locks->tickets);
    say_clear(&locks->say);
    pthread_mutex_destroy(&locks->mutex);
    free(locks);
}

void lock_one_out_less(struct guard_locks *locks)
{
    pthread_mutex_lock(&locks->mutex);
    bool last = --locks->out == 0;
    pthread_mutex_unlock(&locks->mutex);
    if (last)
        free_locks(locks);
}

void lock_hold_free(struct guard_hold *hold)
{
    struct guard_locks *locks = hold->locks;
    if (hold->lost_fd != -1)
        close(hold->lost_fd);
    free(hold);
    lock_one_out_less(locks);
}

/* ---- what the core wants done ---- */

void lock_thread_make_token(void *context, uint32_t units, uint32_t limit, uint32_t lease_ms,
                            char out[LOCK_TOKEN_SIZE])
{
    struct guard_locks *locks = context;
    struct lock_token token = {
        .units = units, .limit = limit, .lease_ms = lease_ms, .since_s = clock_wall_s()};
    uint8_t random[CHANCE_SECRET_BYTES]; /* a token that another has, too, would break every promise */
    if (!clock_random(random, sizeof random))
        chance_from_secret(&locks->secret, random);
    clock_uuid(random, token.uuid);
    memcpy(token.who, locks->who, sizeof token.who);
    lock_token_write(&token, out);
}

/* What was not accepted is answered when nothing is left to be drained. */
static void perform_lock_actions(struct guard_locks *locks)
{
    const struct lock_reply unsent = {.kind = LOCK_UNSENT, .why = "no memory, or too much is under way"};
    uint64_t unperformed[UNPERFORMED_MAX];
    struct lock_action action;
    size_t count;
    do {
        count = 0;
        while (count < UNPERFORMED_MAX && lock_core_next_action(locks->core, &action))
            if (!locks->provider->perform(locks->provider, &action))
                unperformed[count++] = action.op;
        for (size_t i = 0; i < count; i++)
            lock_core_replied(locks->core, clock_now_us(), unperformed[i], &unsent);
    } while (count > 0);
}

static void after_lock_event(struct guard_locks *locks)
{
    perform_lock_actions(locks);
    host_soon(locks->host, &locks->turn_over);
}

/* ---- what the provider says ---- */

static void on_lock_replied(void *context, uint64_t op, const struct lock_reply *reply)
{
    struct guard_locks *locks = context;
    lock_core_replied(locks->core, clock_now_us(), op, reply);
    after_lock_event(locks);
}

static void on_lock_told(void *context, const char *uuid, const char *encoded, size_t encoded_bytes)
{
    struct guard_locks *locks = context;
    lock_core_told(locks->core, clock_now_us(), uuid, encoded, encoded_bytes);
    after_lock_event(locks);
}

static void on_lock_dropped(void *context, const char *token, const char *why)
{
    struct guard_locks *locks = context;
    lock_core_dropped(locks->core, clock_now_us(), token, why);
    after_lock_event(locks);
}

static void on_lock_resync(void *context)
{
    struct guard_locks *locks = context;
    lock_core_resync(locks->core, clock_now_us());
    after_lock_event(locks);
}

static void on_lock_link(void *context, bool up, const char *why)
{
    struct guard_locks *locks = context;
    locks->is_up = up;
    lock_core_link(locks->core, clock_now_us(), up, why);
    after_lock_event(locks);
}

struct lock_provider_hooks lock_thread_hooks(struct guard_locks *locks)
{
    return (struct lock_provider_hooks){.context = locks,
                                        .replied = on_lock_replied,
                                        .told = on_lock_told,
                                        .dropped = on_lock_dropped,
                                        .resync = on_lock_resync,
                                        .link = on_lock_link};
}

/* ---- what the core tells the application ---- */

/* It is nobody's to cancel any more. */
static void forget_lock_request(struct guard_hold *hold)
{
    struct guard_locks *locks = hold->locks;
    pthread_mutex_lock(&locks->mutex);
    tickets_remove(&locks->tickets, hold->ticket);
    hold->cancelled = true;
    if (hold->cancel.posted)
        DL_DELETE(locks->mail, &hold->cancel);
    hold->cancel.posted = false;
    pthread_mutex_unlock(&locks->mutex);
}

static void answer_lock(struct guard_hold *hold, const struct guard_lock_result *answer)
{
    struct guard_lock_result result = *answer;
    bool granted = result.status == GUARD_LOCK_OK && hold->request.kind != GUARD_LOCK_LATCH;
    forget_lock_request(hold);
    result.hold = granted ? hold : NULL;
    result.waited_ms = (uint32_t)((clock_now_us() - hold->request.start_us) / 1000);
    hold->answered(hold->answered_context, &result);
    if (!granted)
        lock_hold_free(hold);
}

static struct guard_hold *hold_behind(struct lock_hold *core)
{
    return (struct guard_hold *)((char *)core - offsetof(struct guard_hold, core));
}

/* If it is given back at this very moment it may be told all the same, but not once that is confirmed. */
static void tell_lock_lost(struct guard_hold *hold)
{
    pthread_mutex_lock(&hold->locks->mutex);
    bool given = hold->given;
    hold->told_lost = true;
    if (hold->lost_fd != -1)
        eventfd_write(hold->lost_fd, 1);
    pthread_mutex_unlock(&hold->locks->mutex);
    if (!given && hold->lost != NULL)
        hold->lost(hold->lost_context, hold, hold->core.why);
}

static void tell_lock_given(struct guard_hold *hold, enum guard_lock_status status)
{
    DL_DELETE(hold->locks->giving, &hold->mail);
    if (hold->done != NULL)
        hold->done(hold->done_context, status);
    lock_hold_free(hold);
}

/* An answer is in the counters before its callback runs. */
static void tell_application(struct guard_locks *locks)
{
    struct guard_locks_stats stats = {.is_up = locks->is_up};
    lock_core_stats(locks->core, &stats);
    pthread_mutex_lock(&locks->mutex);
    locks->published = stats;
    pthread_mutex_unlock(&locks->mutex);
    struct lock_request *request;
    while ((request = lock_core_next_answer(locks->core)) != NULL)
        answer_lock((struct guard_hold *)request, &request->result);
    struct lock_hold *hold;
    while ((hold = lock_core_next_lost(locks->core)) != NULL)
        tell_lock_lost(hold_behind(hold));
    while ((hold = lock_core_next_given(locks->core)) != NULL)
        tell_lock_given(hold_behind(hold), hold->given);
}

/* ---- what others have handed over ---- */

void lock_mail_post(struct guard_locks *locks, struct lock_mail *mail, enum lock_mail_kind kind)
{
    mail->kind = kind;
    mail->posted = true;
    DL_APPEND(locks->mail, mail);
    host_wake_send(&locks->wake);
}

static void enter_lock_request(struct guard_locks *locks, struct guard_hold *hold)
{
    const char *why = NULL;
    enum guard_lock_status status = GUARD_LOCK_NO_MEMORY;
    if (hold->owner != NULL && hold->owner->core == NULL)
        hold->owner->core = lock_core_owner_new(locks->core);
    if (hold->owner == NULL || hold->owner->core != NULL) {
        hold->request.lock_owner = hold->owner != NULL ? hold->owner->core : NULL;
        status = lock_core_ask(locks->core, clock_now_us(), &hold->request, &why);
    }
    if (status != GUARD_LOCK_OK)
        answer_lock(hold, &(struct guard_lock_result){.status = status, .why = why});
}

static void end_look(struct lock_looking *looking, enum guard_lock_status status, const char *why)
{
    DL_DELETE(looking->locks->looks, &looking->mail);
    enum guard_status of_error = status == GUARD_LOCK_CLOSING     ? GUARD_CLOSING
                                 : status == GUARD_LOCK_NO_MEMORY ? GUARD_NO_MEMORY
                                                                  : GUARD_FAILED;
    looking->status = status;
    if (status != GUARD_LOCK_OK)
        check_failed(looking->error, of_error, "guard_lock_look: %s", why != NULL ? why : "no answer");
    blocking_over(looking->blocking);
}

static void on_lock_looked(void *context, const struct guard_lock_view *view, const char *why)
{
    struct lock_looking *looking = context;
    if (view != NULL)
        *looking->view = *view;
    end_look(looking, view != NULL ? GUARD_LOCK_OK : GUARD_LOCK_UNREACHABLE, why);
}

static void enter_owner_gone(struct guard_locks *locks, struct guard_owner *owner)
{
    if (owner->core != NULL)
        lock_core_owner_free(locks->core, clock_now_us(), &owner->core);
    free(owner);
    lock_one_out_less(locks);
}

static void enter_lock_mail(struct guard_locks *locks, struct lock_mail *mail)
{
    struct guard_hold *hold = mail->of;
    struct lock_looking *looking = mail->of;
    switch (mail->kind) {
    case LOCK_MAIL_ASK:
        enter_lock_request(locks, hold);
        break;
    case LOCK_MAIL_CANCEL:
        lock_core_cancel(locks->core, clock_now_us(), &hold->request);
        break;
    case LOCK_MAIL_GIVE:
        DL_APPEND(locks->giving, &hold->mail);
        hold->core.given_us = hold->given_us;
        lock_core_give(locks->core, clock_now_us(), &hold->core);
        break;
    case LOCK_MAIL_OWNER_GONE:
        enter_owner_gone(locks, mail->of);
        break;
    case LOCK_MAIL_LOOK:
        DL_APPEND(locks->looks, &looking->mail);
        if (!locks->provider->look(locks->provider, &looking->name, on_lock_looked, looking))
            end_look(looking, GUARD_LOCK_NO_MEMORY, "no memory, or too much is under way");
        break;
    }
}

static struct lock_mail *take_lock_mail(struct guard_locks *locks)
{
    pthread_mutex_lock(&locks->mutex);
    struct lock_mail *mail = locks->mail;
    if (mail != NULL) {
        DL_DELETE(locks->mail, mail);
        mail->posted = false;
    }
    pthread_mutex_unlock(&locks->mutex);
    return mail;
}

static void empty_lock_mail(struct guard_locks *locks)
{
    struct lock_mail *mail = take_lock_mail(locks);
    for (; mail != NULL; mail = take_lock_mail(locks)) {
        enter_lock_mail(locks, mail);
        perform_lock_actions(locks);
    }
}

/* The thread has stood still: what has come meanwhile is read, and what was posted is taken out, before what
 * is due. */
static bool locks_are_behind(const struct guard_locks *locks)
{
    uint64_t due_us = lock_core_next_us(locks->core);
    return due_us != UINT64_MAX && clock_now_us() > due_us + BEHIND_US;
}

void lock_thread_on_mail(void *context)
{
    struct guard_locks *locks = context;
    if (locks->phase == LOCK_ENDING)
        return;
    empty_lock_mail(locks);
    after_lock_event(locks);
}

/* ---- the end ---- */

void lock_thread_ends(struct guard_locks *locks)
{
    host_wake_clear(&locks->wake);
    host_close(locks->host, NULL, NULL);
}

void lock_thread_on_provider_closed(void *context)
{
    struct guard_locks *locks = context;
    locks->provider = NULL;
    lock_thread_ends(locks);
}

static void end_locks(struct guard_locks *locks)
{
    locks->phase = LOCK_ENDING;
    do { /* until nothing more comes in; guard_unlock() and the like do by themselves what is left to do */
        empty_lock_mail(locks);
        tell_application(locks);
        pthread_mutex_lock(&locks->mutex);
        locks->ended = locks->mail == NULL;
        locks->published.is_up = false;
        pthread_mutex_unlock(&locks->mutex);
    } while (!locks->ended);
    locks->confirmed = lock_core_idle(locks->core);
    /* The provider says nothing any more. What is not confirmed ends with its lease. */
    struct lock_mail *mail, *next;
    DL_FOREACH_SAFE (locks->giving, mail, next)
        tell_lock_given(mail->of, GUARD_LOCK_UNKNOWN);
    DL_FOREACH_SAFE (locks->looks, mail, next)
        end_look(mail->of, GUARD_LOCK_CLOSING, "the locks are closing");
    host_timer_stop(locks->host, &locks->timer);
    host_timer_stop(locks->host, &locks->limit);
    host_timer_stop(locks->host, &locks->beat);
    host_soon_stop(&locks->turn_over);
    locks->provider->close(locks->provider, lock_thread_on_provider_closed, locks);
}

void lock_thread_on_limit(void *context)
{
    end_locks(context);
}

static void advance_lock_end(struct guard_locks *locks)
{
    pthread_mutex_lock(&locks->mutex);
    bool closing = locks->closing;
    uint32_t drain_ms = locks->drain_ms;
    pthread_mutex_unlock(&locks->mutex);
    if (!closing || locks->phase != LOCK_RUNNING) {
        if (locks->phase == LOCK_CLOSING && lock_core_idle(locks->core))
            end_locks(locks);
        return;
    }
    /* What was posted before the close comes before it: a hold that was given back then is not lost. */
    empty_lock_mail(locks);
    locks->phase = LOCK_CLOSING;
    host_timer_set(locks->host, &locks->limit, clock_now_us() + (uint64_t)drain_ms * 1000);
    lock_core_close(locks->core, clock_now_us());
    after_lock_event(locks);
}

/* ---- once per turn ---- */

void lock_thread_on_turn_over(void *context)
{
    struct guard_locks *locks = context;
    tell_application(locks);
    locks->catches_up = locks->catches_up && locks_are_behind(locks);
    host_timer_set(locks->host, &locks->timer, lock_core_next_us(locks->core));
    advance_lock_end(locks);
}

void lock_thread_on_timer(void *context)
{
    struct guard_locks *locks = context;
    locks->catches_up = !locks->catches_up && locks_are_behind(locks);
    if (locks->catches_up) {
        host_timer_set(locks->host, &locks->timer, clock_now_us()); /* after the loop's other work */
        return;
    }
    empty_lock_mail(locks);
    lock_core_tick(locks->core, clock_now_us());
    after_lock_event(locks);
}

void lock_thread_on_beat(void *context)
{
    struct guard_locks *locks = context;
    uint64_t now_us = clock_now_us();
    host_timer_set(locks->host, &locks->beat, now_us + (uint64_t)REST_EVERY_MS * 1000);
    say_rest(&locks->say, now_us);
}
