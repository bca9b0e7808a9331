/* SPDX-License-Identifier: MIT */
/*
 * locks.c - requests, holds and owners as the application has them: check, copy, hand over to the locks' thread. See
 * locks.h; opening and closing are lock_life.c's.
 */
#include "../locks.h"
#include "../base/check.h"
#include "../base/clock.h"
#include "../base/key.h"
#include "../base/process.h"
#include "lock_state.h"
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

const char *guard_lock_status_name(enum guard_lock_status status)
{
    static const char *const NAMES[] = {
        [GUARD_LOCK_OK] = "ok",
        [GUARD_LOCK_BUSY] = "busy",
        [GUARD_LOCK_UNREACHABLE] = "unreachable",
        [GUARD_LOCK_LOST] = "lost",
        [GUARD_LOCK_UNKNOWN] = "unknown",
        [GUARD_LOCK_CANCELLED] = "cancelled",
        [GUARD_LOCK_CLOSING] = "closing",
        [GUARD_LOCK_SHED] = "shed",
        [GUARD_LOCK_INVALID] = "invalid",
        [GUARD_LOCK_NO_MEMORY] = "no_memory",
    };
    return (size_t)status < sizeof NAMES / sizeof *NAMES ? NAMES[status] : "?";
}

/* ---- requests ---- */

static void set_times(struct lock_request *out, const struct guard_lock_request *request)
{
    out->start_us = clock_now_us();
    out->once = request->wait_ms == 0;
    out->deadline_us = UINT64_MAX; /* `once` has an end of its own */
    if (request->wait_ms != 0 && request->wait_ms != UINT32_MAX)
        out->deadline_us = out->start_us + (uint64_t)request->wait_ms * 1000;
    out->lease_ms = request->lease_ms;
    out->hold_ms = request->hold_ms;
}

static void copy_names(struct guard_hold *hold, char encoded[][KEY_ENCODED_MAX + 1], size_t count)
{
    char *text = hold->text;
    for (size_t i = 0; i < count; i++) {
        size_t bytes = strlen(encoded[i]);
        memcpy(text, encoded[i], bytes + 1);
        hold->names[i] = (struct lock_name){text, bytes};
        text += bytes + 1;
    }
}

/* NULL: no memory. */
static struct guard_hold *new_hold(struct guard_locks *locks, const struct guard_lock_request *request)
{
    char encoded[GUARD_LOCK_NAMES_MAX][KEY_ENCODED_MAX + 1];
    size_t bytes = 0;
    for (size_t i = 0; i < request->count; i++)
        bytes += key_encode(request->names[i], strlen(request->names[i]), encoded[i]) + 1;
    struct guard_hold *hold = calloc(1, sizeof *hold + bytes);
    if (hold == NULL)
        return NULL;
    copy_names(hold, encoded, request->count);
    const bool counts = request->kind == GUARD_LOCK_PERMITS || request->kind == GUARD_LOCK_LATCH;
    hold->request.kind = request->kind; /* what a kind asks for: lock_core.h */
    hold->request.limit = counts ? request->limit : LOCK_ALL;
    hold->request.units = counts ? request->units : request->kind == GUARD_LOCK_READ ? 1 : LOCK_ALL;
    set_times(&hold->request, request);
    hold->request.names = hold->names;
    hold->request.count = request->count;
    hold->request.hold = request->kind != GUARD_LOCK_LATCH ? &hold->core : NULL;
    hold->mail.of = hold->cancel.of = hold;
    hold->lost_fd = -1;
    hold->locks = locks;
    hold->owner = request->owner;
    hold->lost = request->lost;
    hold->lost_context = request->context;
    return hold;
}

/* Under the mutex. */
static enum guard_lock_status admit_request(struct guard_locks *locks, struct guard_hold *hold)
{
    if (locks->closing)
        return GUARD_LOCK_CLOSING;
    if (locks->tickets.used >= locks->config.max_requests) {
        locks->shed++;
        return GUARD_LOCK_SHED;
    }
    hold->ticket = tickets_add(&locks->tickets, hold);
    if (hold->ticket == 0)
        return GUARD_LOCK_NO_MEMORY;
    locks->out++;
    lock_mail_post(locks, &hold->mail, LOCK_MAIL_ASK);
    return GUARD_LOCK_OK;
}

static enum guard_lock_status refuse_lock(struct guard_error *error, const char *function,
                                          enum guard_lock_status status)
{
    static const struct {
        enum guard_status status;
        const char *why; /* NULL: it is no refusal, or was told before */
    } REFUSALS[] = {
        [GUARD_LOCK_CLOSING] = {GUARD_CLOSING, "the locks are closing"},
        [GUARD_LOCK_SHED] = {GUARD_SHED, "as many wait already as guard_locks_config.max_requests permits"},
        [GUARD_LOCK_NO_MEMORY] = {GUARD_NO_MEMORY, "no memory"}, /* the last status of all */
    };
    if (REFUSALS[status].why != NULL)
        check_failed(error, REFUSALS[status].status, "%s: %s", function, REFUSALS[status].why);
    return status;
}

static bool check_locks(const struct guard_locks *locks, const char *function, struct guard_error *error)
{
    if (locks == NULL)
        check_failed(error, GUARD_INVALID, "%s: locks is NULL", function);
    else if (locks_are_forked(locks))
        check_failed(error, GUARD_INVALID, "%s: " LOCKS_FORKED_TEXT, function);
    return locks != NULL && !locks_are_forked(locks);
}

static bool check_lock(const struct guard_locks *locks, const struct guard_lock_request *request,
                       const char *function, struct guard_error *error)
{
    if (!check_locks(locks, function, error) ||
        lock_check_request(request, &locks->config, locks->kinds, error) != GUARD_OK)
        return false;
    if (request->owner != NULL && request->owner->locks != locks) {
        check_failed(error, GUARD_INVALID, "guard_lock_request.owner belongs to other locks");
        return false;
    }
    return true;
}

/* Of one that was checked. */
static enum guard_lock_status post_request(struct guard_locks *locks,
                                           const struct guard_lock_request *request,
                                           guard_lock_answered *answered, void *context, guard_ticket *ticket)
{
    struct guard_hold *hold = new_hold(locks, request);
    if (hold == NULL)
        return GUARD_LOCK_NO_MEMORY;
    hold->answered = answered;
    hold->answered_context = context;
    pthread_mutex_lock(&locks->mutex);
    enum guard_lock_status status = admit_request(locks, hold);
    if (status == GUARD_LOCK_OK && ticket != NULL)
        *ticket = hold->ticket;
    pthread_mutex_unlock(&locks->mutex);
    if (status != GUARD_LOCK_OK)
        free(hold);
    return status;
}

enum guard_lock_status guard_lock(struct guard_locks *locks, const struct guard_lock_request *request,
                                  guard_ticket *ticket, struct guard_error *error)
{
    if (!check_lock(locks, request, "guard_lock", error))
        return GUARD_LOCK_INVALID;
    if (request->answered == NULL) {
        check_failed(error, GUARD_INVALID, "guard_lock_request.answered is NULL; see guard_lock_wait()");
        return GUARD_LOCK_INVALID;
    }
    return refuse_lock(error, "guard_lock",
                       post_request(locks, request, request->answered, request->context, ticket));
}

void guard_lock_cancel(struct guard_locks *locks, guard_ticket ticket)
{
    if (locks_are_forked(locks))
        return;
    pthread_mutex_lock(&locks->mutex);
    struct guard_hold *hold = tickets_find(&locks->tickets, ticket);
    if (hold != NULL && !hold->cancelled)
        lock_mail_post(locks, &hold->cancel, LOCK_MAIL_CANCEL);
    if (hold != NULL)
        hold->cancelled = true;
    pthread_mutex_unlock(&locks->mutex);
}

struct lock_answer {
    struct guard_lock_result *result;
    struct guard_error *error; /* may be NULL */
};

static void lock_answered(void *context, const struct guard_lock_result *result)
{
    struct blocking *blocking = context;
    const struct lock_answer *out = blocking->out;
    *out->result = *result;
    out->result->why = NULL;
    if (result->why != NULL && out->error != NULL) {
        check_failed(out->error, result->status == GUARD_LOCK_INVALID ? GUARD_INVALID : GUARD_FAILED, "%s",
                     result->why);
        out->result->why = out->error->text;
    }
    blocking_over(blocking);
}

static enum guard_lock_status lock_and_wait(struct guard_locks *locks,
                                            const struct guard_lock_request *request,
                                            struct guard_lock_result *result, struct guard_error *error)
{
    struct blocking blocking;
    struct lock_answer out = {result, error};
    blocking_init(&blocking, &out);
    enum guard_lock_status status = post_request(locks, request, lock_answered, &blocking, NULL);
    if (status == GUARD_LOCK_OK)
        blocking_wait(&blocking);
    else
        result->status = refuse_lock(error, "guard_lock_wait", status);
    return result->status;
}

enum guard_lock_status guard_lock_wait(struct guard_locks *locks, const struct guard_lock_request *request,
                                       struct guard_lock_result *result, struct guard_error *error)
{
    *result = (struct guard_lock_result){.status = GUARD_LOCK_INVALID};
    if (!check_lock(locks, request, "guard_lock_wait", error))
        return GUARD_LOCK_INVALID;
    if (blocking_in_callback()) {
        check_failed(error, GUARD_INVALID, "guard_lock_wait: " CALLBACK_TEXT);
        return GUARD_LOCK_INVALID;
    }
    return lock_and_wait(locks, request, result, error);
}

/* ---- holds ---- */

void guard_unlock(struct guard_hold **giving, guard_unlocked *done, void *context)
{
    struct guard_hold *hold = *giving;
    *giving = NULL;
    if (hold == NULL)
        return;
    struct guard_locks *locks = hold->locks;
    if (locks_are_forked(locks)) {
        if (hold->lost_fd != -1) /* its memory goes; what the provider has is the parent's */
            close(hold->lost_fd);
        free(hold);
        return;
    }
    pthread_mutex_lock(&locks->mutex);
    bool ended = locks->ended;
    hold->given = true;
    hold->given_us = clock_now_us();
    hold->done = done;
    hold->done_context = context;
    if (!ended)
        lock_mail_post(locks, &hold->mail, LOCK_MAIL_GIVE);
    pthread_mutex_unlock(&locks->mutex);
    if (!ended)
        return;
    if (done != NULL)
        done(context, GUARD_LOCK_LOST);
    lock_hold_free(hold);
}

static void lock_given(void *context, enum guard_lock_status status)
{
    blocking_answer(context, &status, sizeof status);
}

enum guard_lock_status guard_unlock_wait(struct guard_hold **giving)
{
    enum guard_lock_status status = GUARD_LOCK_UNKNOWN;
    struct blocking blocking;
    bool invalid = *giving == NULL || locks_are_forked((*giving)->locks);
    if (invalid || blocking_in_callback()) {
        guard_unlock(giving, NULL, NULL);
        return invalid ? GUARD_LOCK_INVALID : GUARD_LOCK_UNKNOWN;
    }
    blocking_init(&blocking, &status);
    guard_unlock(giving, lock_given, &blocking);
    blocking_wait(&blocking);
    return status;
}

void guard_unlock_scoped(struct guard_hold **hold)
{
    if (*hold != NULL)
        guard_unlock_wait(hold);
}

uint32_t guard_hold_left_ms(const struct guard_hold *hold)
{
    if (hold == NULL || locks_are_forked(hold->locks))
        return 0;
    uint64_t valid_until_us = atomic_load(&hold->core.valid_until_us), now_us = clock_now_us();
    return valid_until_us > now_us ? (uint32_t)((valid_until_us - now_us) / 1000) : 0;
}

int guard_hold_lost_fd(struct guard_hold *hold)
{
    if (hold == NULL || locks_are_forked(hold->locks))
        return -1;
    pthread_mutex_lock(&hold->locks->mutex);
    if (hold->lost_fd == -1)
        hold->lost_fd = descriptor_not_standard(eventfd(hold->told_lost ? 1 : 0, EFD_CLOEXEC | EFD_NONBLOCK));
    int fd = hold->lost_fd;
    pthread_mutex_unlock(&hold->locks->mutex);
    return fd;
}

/* ---- owners ---- */

enum guard_lock_status guard_owner_new(struct guard_locks *locks, struct guard_owner **out)
{
    if (locks == NULL || locks_are_forked(locks))
        return GUARD_LOCK_INVALID;
    struct guard_owner *owner = calloc(1, sizeof *owner);
    if (owner == NULL)
        return GUARD_LOCK_NO_MEMORY;
    owner->locks = locks;
    owner->mail.of = owner;
    pthread_mutex_lock(&locks->mutex);
    locks->out++;
    pthread_mutex_unlock(&locks->mutex);
    *out = owner;
    return GUARD_LOCK_OK;
}

void guard_owner_free(struct guard_owner **freeing)
{
    struct guard_owner *owner = *freeing;
    *freeing = NULL;
    if (owner == NULL)
        return;
    struct guard_locks *locks = owner->locks;
    if (locks_are_forked(locks)) {
        free(owner);
        return;
    }
    pthread_mutex_lock(&locks->mutex);
    bool ended = locks->ended;
    if (!ended)
        lock_mail_post(locks, &owner->mail, LOCK_MAIL_OWNER_GONE);
    pthread_mutex_unlock(&locks->mutex);
    if (!ended)
        return;
    free(owner);
    lock_one_out_less(locks);
}

/* ---- looking ---- */

enum guard_lock_status guard_lock_look(struct guard_locks *locks, const char *name,
                                       struct guard_lock_view *view, struct guard_error *error)
{
    char encoded[KEY_ENCODED_MAX + 1];
    struct blocking blocking;
    *view = (struct guard_lock_view){0};
    if (!check_locks(locks, "guard_lock_look", error))
        return GUARD_LOCK_INVALID;
    if (name == NULL || !key_valid(name, strnlen(name, GUARD_LOCK_NAME_BYTES_MAX + 1)) ||
        blocking_in_callback()) {
        check_failed(error, GUARD_INVALID, "guard_lock_look: %s",
                     blocking_in_callback() ? CALLBACK_TEXT : "a name has 1..4096 bytes");
        return GUARD_LOCK_INVALID;
    }
    struct lock_looking looking = {.locks = locks,
                                   .name = {encoded, key_encode(name, strlen(name), encoded)},
                                   .view = view,
                                   .blocking = &blocking,
                                   .error = error};
    looking.mail.of = &looking;
    blocking_init(&blocking, &looking);
    pthread_mutex_lock(&locks->mutex);
    bool closing = locks->closing;
    if (!closing)
        lock_mail_post(locks, &looking.mail, LOCK_MAIL_LOOK);
    pthread_mutex_unlock(&locks->mutex);
    if (!closing)
        blocking_wait(&blocking);
    return closing ? refuse_lock(error, "guard_lock_look", GUARD_LOCK_CLOSING) : looking.status;
}

/* ---- counting ---- */

void guard_locks_stats(struct guard_locks *locks, struct guard_locks_stats *stats)
{
    *stats = (struct guard_locks_stats){0};
    if (locks_are_forked(locks))
        return;
    pthread_mutex_lock(&locks->mutex);
    *stats = locks->published;
    stats->shed += locks->shed;
    pthread_mutex_unlock(&locks->mutex);
}
