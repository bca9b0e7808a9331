/* SPDX-License-Identifier: MIT */
/* load.c - see load.h. */
#include "load.h"
#include "../base/check.h"
#include "../base/clock.h"
#include "state.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

/* ---- the desk ---- */

struct desk *desk_open(load_done *done, void *context)
{
    struct desk *desk = calloc(1, sizeof *desk);
    if (desk == NULL)
        return NULL;
    pthread_mutex_init(&desk->mutex, NULL);
    pthread_cond_init(&desk->quiet, NULL);
    desk->done = done;
    desk->context = context;
    desk->refs = 1;
    return desk;
}

void desk_unref(struct desk *desk)
{
    pthread_mutex_lock(&desk->mutex);
    bool last = --desk->refs == 0;
    pthread_mutex_unlock(&desk->mutex);
    if (!last)
        return;
    pthread_cond_destroy(&desk->quiet);
    pthread_mutex_destroy(&desk->mutex);
    free(desk);
}

void desk_close(struct desk *desk)
{
    pthread_mutex_lock(&desk->mutex);
    desk->done = NULL;
    while (desk->inside > 0)
        pthread_cond_wait(&desk->quiet, &desk->mutex);
    pthread_mutex_unlock(&desk->mutex);
}

static struct guard_load **desk_slot(struct desk *desk, uint64_t load)
{
    return &desk->by_id[load % DESK_SLOTS];
}

struct guard_load *load_find(const struct desk *desk, uint64_t id)
{
    struct guard_load *load = desk->by_id[id % DESK_SLOTS];
    while (load != NULL && load->result.load != id)
        load = load->id_next;
    return load;
}

/* ---- the handle ---- */

static struct guard_load *alloc_load(const struct job *job)
{
    size_t tags_size = job->policy->tagged ? TAGS_TEXT_MAX + 1 : 0;
    struct guard_load *load = calloc(1, sizeof *load + job->key_bytes + 1 + tags_size);
    if (load == NULL)
        return NULL;
    load->result.load = load->deferral.load = job->load;
    load->result.key = load->deferral.key = load->key;
    load->policy = job->policy;
    load->deadline_us = job->deadline_us;
    load->depth = job->depth;
    load->asker = job->asker;
    if (load->asker.ref != NULL)
        load->asker.ref(load->asker.what);
    load->has_previous = job->previous_validator != NULL;
    if (load->has_previous)
        memcpy(load->previous_validator, job->previous_validator,
               strnlen(job->previous_validator, ENVELOPE_VALIDATOR_MAX));
    memcpy(load->key, job->key, job->key_bytes);
    load->tags = job->policy->tagged ? load->key + job->key_bytes + 1 : NULL;
    return load;
}

struct guard_load *load_new(struct desk *desk, const struct job *job)
{
    struct guard_load *load = alloc_load(job);
    if (load == NULL)
        return NULL;
    load->desk = desk;
    pthread_mutex_lock(&desk->mutex);
    desk->refs++;
    DL_APPEND2(*desk_slot(desk, job->load), load, id_prev, id_next);
    pthread_mutex_unlock(&desk->mutex);
    return load;
}

static void quit_bells(struct guard_load *load)
{
    if (load->quit)
        return;
    load->quit = true;
    if (load->bell != NULL)
        bell_unwanted(load->bell);
    if (load->batch_bell != NULL)
        bell_unwanted(load->batch_bell);
}

void load_unwanted(struct guard_load *load)
{
    atomic_store(&load->cancelled, true);
    quit_bells(load);
}

void load_leave_loop(struct guard_load *load)
{
    if (load->listed == IN_DEFERRED)
        DL_DELETE(load->loop->deferred, load);
    else if (load->listed == IN_CANCELLED)
        DL_DELETE(load->loop->cancelled, load);
    load->listed = IN_NO_LIST;
}

/* With the mutex held: from here on no other thread knows it. */
static void retire_load(struct guard_load *load)
{
    DL_DELETE2(*desk_slot(load->desk, load->result.load), load, id_prev, id_next);
    quit_bells(load);
    load_leave_loop(load);
}

static void free_retired(struct guard_load *load)
{
    struct desk *desk = load->desk;
    pthread_mutex_lock(&desk->mutex);
    bell_unref(&load->bell);
    bell_unref(&load->batch_bell);
    pthread_mutex_unlock(&desk->mutex);
    value_unref(&load->result.loaded.value);
    if (load->asker.unref != NULL)
        load->asker.unref(load->asker.what);
    free(load);
    desk_unref(desk);
}

void load_free(struct guard_load *load)
{
    pthread_mutex_lock(&load->desk->mutex);
    retire_load(load);
    pthread_mutex_unlock(&load->desk->mutex);
    free_retired(load);
}

void finished_load_free(struct finished_load *finished)
{
    if (!finished->deferred)
        free_retired((struct guard_load *)finished);
}

/* ---- handing in ---- */

bool desk_enter(struct desk *desk)
{
    pthread_mutex_lock(&desk->mutex);
    bool wanted = desk->done != NULL;
    desk->inside += wanted;
    pthread_mutex_unlock(&desk->mutex);
    return wanted;
}

void desk_leave(struct desk *desk)
{
    pthread_mutex_lock(&desk->mutex);
    if (--desk->inside == 0)
        pthread_cond_broadcast(&desk->quiet);
    pthread_mutex_unlock(&desk->mutex);
}

static void hand_in(struct desk *desk, struct finished_load *list)
{
    if (list == NULL)
        return;
    if (desk_enter(desk)) {
        desk->done(desk->context, list);
        desk_leave(desk);
        return;
    }
    while (list != NULL) {
        struct finished_load *finished = list;
        list = finished->next;
        finished_load_free(finished);
    }
}

static void put_in(struct finished_load **list, struct finished_load *finished)
{
    finished->next = NULL;
    LL_APPEND(*list, finished);
}

/* With the mutex held. */
static void retire_into(struct finished_load **list, struct guard_load *load)
{
    struct core_loaded *loaded = &load->result.loaded;
    if (load->doomed) {
        value_unref(&loaded->value);
        loaded->outcome = LOAD_FAILED;
        loaded->failure = GUARD_FAILURE_INTERNAL;
    }
    loaded->unwanted = load->loop_gone;
    retire_load(load);
    put_in(list, &load->result);
}

/* The first is told what the guard must know of a batch first. */
struct returned {
    struct finished_load *over;
    struct guard_load *deferred, *last_deferred; /* by `mate` */
};

static void unfinished(struct guard_load *load, bool thread_ends);

/* With the mutex held. */
static void sort_returned(struct guard_load *load, bool thread_ends, struct returned *out)
{
    if (!load->deferred)
        unfinished(load, thread_ends);
    load->thread = NULL;
    load->parent = load->mate = NULL;
    if (load->finished) {
        retire_into(&out->over, load);
        return;
    }
    if (out->deferred == NULL)
        out->deferred = load;
    else
        out->last_deferred->mate = load;
    out->last_deferred = load;
}

/* With the mutex held: from here on its verdict is handed in at once, if there is none yet. */
static void let_hand_in(struct guard_load *load, struct finished_load **over)
{
    load->mate = NULL;
    load->returned = true;
    if (load->finished)
        retire_into(over, load);
}

/* What is deferred is told before its verdict can be. */
static void tell_deferred(struct desk *desk, struct guard_load *first)
{
    struct finished_load *list = NULL, *over = NULL;
    for (struct guard_load *load = first; load != NULL; load = load->mate) {
        load->deferral.deferred = true;
        put_in(&list, &load->deferral);
    }
    hand_in(desk, list);
    pthread_mutex_lock(&desk->mutex);
    for (struct guard_load *load = first, *next = NULL; load != NULL; load = next) {
        next = load->mate;
        let_hand_in(load, &over);
    }
    pthread_mutex_unlock(&desk->mutex);
    hand_in(desk, over);
}

void load_returned(struct guard_load *first, bool thread_ends)
{
    struct desk *desk = first->desk;
    struct returned returned = {NULL, NULL, NULL};
    pthread_mutex_lock(&desk->mutex);
    for (struct guard_load *load = first, *next = NULL; load != NULL; load = next) {
        next = load->mate;
        sort_returned(load, thread_ends, &returned);
    }
    pthread_mutex_unlock(&desk->mutex);
    hand_in(desk, returned.over);
    if (returned.deferred != NULL)
        tell_deferred(desk, returned.deferred);
}

/* ---- what the guard says ---- */

struct call_back {
    void (*run)(void *context);
    void *context;
};

/* With the mutex held: on the guard's thread here, or on the loop. */
static struct call_back call_of_cancelled(struct guard_load *load)
{
    struct call_back call = {NULL, NULL};
    if (!load->told || load->finished || load->on_cancel == NULL || !atomic_load(&load->cancelled))
        return call;
    if (load->loop == NULL) {
        call = (struct call_back){load->on_cancel, load->on_cancel_context};
        load->on_cancel = NULL;
    } else if (load->listed == IN_DEFERRED) {
        load_leave_loop(load);
        DL_APPEND(load->loop->cancelled, load);
        load->listed = IN_CANCELLED;
        atomic_store(&load->loop->any_cancelled, true);
        host_wake_send(&load->loop->mail);
    }
    return call;
}

static void say_to_load(struct desk *desk, uint64_t id, bool told)
{
    struct call_back call = {NULL, NULL};
    pthread_mutex_lock(&desk->mutex);
    struct guard_load *load = load_find(desk, id);
    if (load != NULL) {
        load->told = load->told || told;
        if (!told)
            load_unwanted(load);
        call = call_of_cancelled(load);
    }
    pthread_mutex_unlock(&desk->mutex);
    if (call.run != NULL)
        call.run(call.context);
}

void load_cancel(struct desk *desk, uint64_t load)
{
    say_to_load(desk, load, false);
}

void load_told(struct desk *desk, uint64_t load)
{
    say_to_load(desk, load, true);
}

bool load_key_of(struct desk *desk, uint64_t id, char *key, size_t key_size)
{
    pthread_mutex_lock(&desk->mutex);
    const struct guard_load *load = load_find(desk, id);
    if (load != NULL)
        snprintf(key, key_size, "%s", load->key);
    pthread_mutex_unlock(&desk->mutex);
    return load != NULL;
}

/* ---- what a loader sees ---- */

const char *guard_load_key(const struct guard_load *load)
{
    return load->key;
}

uint32_t guard_load_left_ms(const struct guard_load *load)
{
    uint64_t now_us = clock_now_us();
    if (now_us >= load->deadline_us)
        return 0;
    return (uint32_t)((load->deadline_us - now_us + 999) / 1000);
}

bool guard_load_cancelled(const struct guard_load *load)
{
    return atomic_load(&load->cancelled);
}

/* The first of its batch; what is nested on a thread is alone. */
static struct guard_load *first_of_batch(struct guard_load *load)
{
    return load->parent == NULL ? load->thread->first : load;
}

static uint32_t wanted_in(const struct guard_load *first)
{
    uint32_t wanted = 0;
    for (const struct guard_load *load = first; load != NULL; load = load->mate)
        wanted += !load->deferred && !load->quit;
    return wanted;
}

/* The thread's, or a new one that the thread keeps; what is nested has one of its own, the outer has the thread's. */
static struct bell *bell_for(struct guard_load *first, uint32_t wanted)
{
    struct load_thread *thread = first->thread;
    if (first->parent == NULL && thread->bell != NULL) {
        bell_again(thread->bell, wanted);
        thread->bell->refs++;
        return thread->bell;
    }
    struct bell *bell = bell_new(wanted);
    if (bell != NULL && first->parent == NULL) {
        thread->bell = bell;
        bell->refs++;
    }
    return bell;
}

/* One for all of the batch that are not deferred. */
static struct bell *batch_bell_of(struct guard_load *asking)
{
    struct guard_load *first = first_of_batch(asking);
    if (asking->batch_bell != NULL)
        return asking->batch_bell;
    struct bell *bell = bell_for(first, wanted_in(first));
    if (bell == NULL)
        return NULL;
    for (struct guard_load *load = first; load != NULL; load = load->mate) {
        if (load->deferred)
            continue;
        load->batch_bell = bell;
        bell->refs++;
    }
    bell->refs--; /* that of bell_for() */
    return bell;
}

void load_keep_bell(struct guard_load *load)
{
    struct load_thread *thread = load->thread;
    if (load->batch_bell == NULL)
        return;
    if (load->parent == NULL && thread->bell == load->batch_bell)
        bell_unref(&thread->bell); /* the thread gets a new one */
    if (first_of_batch(load)->mate != NULL)
        return;
    load->bell = load->batch_bell;
    load->batch_bell = NULL;
}

static struct bell *own_bell_of(struct guard_load *load)
{
    if (load->bell == NULL)
        load->bell = bell_new(!load->quit);
    return load->bell;
}

int guard_load_cancel_fd(const struct guard_load *asking)
{
    struct guard_load *load = (struct guard_load *)(uintptr_t)asking;
    struct desk *desk = load->desk;
    pthread_mutex_lock(&desk->mutex);
    const struct bell *bell = load->deferred ? own_bell_of(load) : batch_bell_of(load);
    int fd = bell != NULL ? bell->fd : -1;
    pthread_mutex_unlock(&desk->mutex);
    return fd;
}

/* Only the first is told: the others may follow from it. */
static void breach(struct guard_load *load, const char *text)
{
    if (load->result.breach == NULL)
        load->result.breach = text;
}

/* False: it was finished before. */
static bool settle(struct guard_load *load, const struct core_loaded *verdict)
{
    if (load->finished) {
        breach(load, "finished the load a second time; its first verdict stands");
        return false;
    }
    load->finished = true;
    load->result.loaded = *verdict;
    load->result.loaded.load_us = clock_now_us() - load->start_us;
    load->result.loaded.keep = load->kept ? &load->keep : NULL;
    return true;
}

/* On any thread: once its loader has returned, nobody but this call has the handle. */
static bool settle_deferred(struct guard_load *load, const struct core_loaded *verdict)
{
    struct desk *desk = load->desk;
    struct finished_load *over = NULL;
    pthread_mutex_lock(&desk->mutex);
    bool settled = settle(load, verdict);
    if (settled && load->returned)
        retire_into(&over, load);
    pthread_mutex_unlock(&desk->mutex);
    hand_in(desk, over);
    return settled;
}

static void finish(struct guard_load *load, enum core_load_outcome outcome, struct value *value,
                   enum guard_failure failure)
{
    const struct core_loaded verdict = {.outcome = outcome, .value = value, .failure = failure};
    if (!(load->deferred ? settle_deferred : settle)(load, &verdict))
        value_unref(&value);
}

/* For good: whatever it says now or has said. */
static void fail_for_good(struct guard_load *load)
{
    load->doomed = true;
}

static const char *wrong_tag(struct guard_load *load, const char *tag)
{
    if (load->tags == NULL)
        return "named a tag, but guard_policy.tagged is false; the load fails";
    if (load->finished)
        return "named a tag after it had finished the load, which fails";
    if (check_tag(tag) != NULL)
        return "named a tag that is not of 1 to 64 bytes; the load fails";
    if (!tags_add(load->tags, &load->tags_bytes, tag))
        return "named more than 8 tags; the load fails";
    return NULL;
}
_Static_assert(GUARD_TAGS_MAX == 8 && GUARD_TAG_BYTES_MAX == 64 && ENVELOPE_VALIDATOR_MAX == 127,
               "as in the texts");

enum guard_status guard_load_tag(struct guard_load *load, const char *tag)
{
    const char *wrong = wrong_tag(load, tag);
    if (wrong == NULL)
        return GUARD_OK;
    breach(load, wrong);
    fail_for_good(load);
    return GUARD_INVALID;
}

uint64_t guard_load_id(const struct guard_load *load)
{
    return load->result.load;
}

static const char *wrong_keep(const struct guard_load *load, const struct guard_keep *keep)
{
    if (load->finished)
        return "said how to keep its answer after it had finished the load, which fails";
    if (keep == NULL)
        return "passed no struct guard_keep; the load fails";
    if ((unsigned)keep->how > GUARD_PASS)
        return "said how to keep its answer with a number that is no enum guard_how; the load fails";
    return NULL;
}

enum guard_status guard_load_keep(struct guard_load *load, const struct guard_keep *keep)
{
    const char *wrong = wrong_keep(load, keep);
    if (wrong != NULL) {
        breach(load, wrong);
        fail_for_good(load);
        return GUARD_INVALID;
    }
    load->keep = *keep;
    load->kept = true;
    return GUARD_OK;
}

static bool validator_valid(const char *validator, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (validator[i] < 0x20 || validator[i] > 0x7e)
            return false;
    return bytes <= ENVELOPE_VALIDATOR_MAX;
}

void guard_load_done(struct guard_load *load, const void *body, size_t body_bytes, const char *validator)
{
    size_t validator_bytes = validator != NULL ? strnlen(validator, ENVELOPE_VALIDATOR_MAX + 1) : 0;
    if (!validator_valid(validator, validator_bytes)) {
        breach(load,
               "passed a validator that is not of at most 127 bytes of printable ASCII; the load fails");
        finish(load, LOAD_FAILED, NULL, GUARD_FAILURE_INTERNAL);
        return;
    }
    struct value *value =
        value_new(body, body_bytes, validator, validator_bytes, load->tags, load->tags_bytes);
    finish(load, value != NULL ? LOAD_OK : LOAD_NO_MEMORY, value, GUARD_FAILURE_NONE);
}

void guard_load_absent(struct guard_load *load)
{
    struct value *tags = NULL;
    if (load->tags_bytes > 0)
        tags = value_new("", 0, "", 0, load->tags, load->tags_bytes);
    bool kept = load->tags_bytes == 0 || tags != NULL;
    finish(load, kept ? LOAD_ABSENT : LOAD_NO_MEMORY, tags, GUARD_FAILURE_NONE);
}

void guard_load_fail(struct guard_load *load, enum guard_failure failure)
{
    bool known = failure > GUARD_FAILURE_NONE && failure <= GUARD_FAILURE_CYCLE;
    if (!known)
        breach(load, "failed the load with a number that is no enum guard_failure");
    finish(load, LOAD_FAILED, NULL, known ? failure : GUARD_FAILURE_INTERNAL);
}

static void unfinished(struct guard_load *load, bool thread_ends)
{
    if (load->finished)
        return;
    breach(load, thread_ends ? "ended its thread without finishing the load, which fails"
                             : "returned without finishing the load, which fails");
    finish(load, LOAD_FAILED, NULL, GUARD_FAILURE_INTERNAL);
}

const char *guard_load_previous_validator(const struct guard_load *load)
{
    return load->has_previous ? load->previous_validator : NULL;
}

void guard_load_unchanged(struct guard_load *load)
{
    if (!load->has_previous)
        breach(load, "found unchanged what had no previous validator; the load fails");
    if (load->has_previous)
        finish(load, LOAD_UNCHANGED, NULL, GUARD_FAILURE_NONE);
    else
        finish(load, LOAD_FAILED, NULL, GUARD_FAILURE_INTERNAL);
}

void *guard_load_asker(const struct guard_load *load)
{
    return load->asker.what;
}
