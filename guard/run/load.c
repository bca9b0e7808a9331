/* SPDX-License-Identifier: MIT */
/* load.c - see load.h. */
#include "load.h"
#include "../base/check.h"
#include "../base/clock.h"
#include "../base/process.h"
#include "state.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utlist.h>

/* ---- the desks of the process ---- */

/* A handle: the number of its desk, and below it that of its load. None comes again within 2^40 loads of a guard,
 * where addresses have 32 bits within 2^24. */
enum { LOAD_BITS = sizeof(uintptr_t) > 4 ? 40 : 24 };
static const uintptr_t LOADS_MAX = ((uintptr_t)1 << LOAD_BITS) - 1, DESKS_MAX = UINTPTR_MAX >> LOAD_BITS;

static pthread_mutex_t desks_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct desk *desks;
static uintptr_t desks_last; /* number */

void desk_lock(void)
{
    pthread_mutex_lock(&desks_mutex);
}

void desk_unlock(void)
{
    pthread_mutex_unlock(&desks_mutex);
}

/* The child of a fork: another thread may have been inside, and no load of the parent's is this process's. */
static void forget_desks(void)
{
    pthread_mutex_init(&desks_mutex, NULL);
    desks = NULL;
}

static pthread_once_t desks_once = PTHREAD_ONCE_INIT;
static bool desks_watched;

static void watch_desks(void)
{
    desks_watched = pthread_atfork(NULL, NULL, forget_desks) == 0;
}

/* With the mutex held. NULL: its guard and all its loads are gone. */
static struct desk *desk_numbered(uintptr_t number)
{
    struct desk *desk = desks;
    while (desk != NULL && desk->number != number)
        desk = desk->next;
    return desk;
}

static struct desk *desk_of(const struct guard_load *handle)
{
    return desk_numbered((uintptr_t)handle >> LOAD_BITS);
}

/* False: no number is free, as where addresses have 32 bits and a process has 255 guards. */
static bool number_desk(struct desk *desk)
{
    desk_lock();
    for (uintptr_t tried = 0; desk->number == 0 && tried < DESKS_MAX; tried++) {
        desks_last = desks_last % DESKS_MAX + 1;
        desk->number = desk_numbered(desks_last) == NULL ? desks_last : 0;
    }
    if (desk->number != 0)
        DL_APPEND(desks, desk);
    desk_unlock();
    return desk->number != 0;
}

struct desk *desk_open(load_done *done, load_refused *refused, void *context)
{
    pthread_once(&desks_once, watch_desks);
    struct desk *desk = desks_watched ? calloc(1, sizeof *desk) : NULL;
    if (desk == NULL)
        return NULL;
    pthread_cond_init(&desk->quiet, NULL);
    desk->done = done;
    desk->refused = refused;
    desk->context = context;
    desk->refs = 1;
    if (number_desk(desk))
        return desk;
    pthread_cond_destroy(&desk->quiet);
    free(desk);
    return NULL;
}

void desk_unref(struct desk *desk)
{
    desk_lock();
    bool last = --desk->refs == 0;
    if (last)
        DL_DELETE(desks, desk);
    desk_unlock();
    if (!last)
        return;
    pthread_cond_destroy(&desk->quiet);
    free(desk);
}

void desk_close(struct desk *desk)
{
    desk_lock();
    desk->done = NULL;
    while (desk->inside > 0)
        pthread_cond_wait(&desk->quiet, &desks_mutex);
    desk_unlock();
}

/* With the mutex held. False: the guard is gone. True: it stays until leave_desk(). */
static bool enter_desk(struct desk *desk)
{
    bool wanted = desk != NULL && desk->done != NULL;
    if (wanted)
        desk->inside++;
    return wanted;
}

static void leave_desk(struct desk *desk)
{
    desk_lock();
    if (--desk->inside == 0)
        pthread_cond_broadcast(&desk->quiet);
    desk_unlock();
}

enum guard_status desk_refuse(const struct guard_load *handle, const char *function, const char *wrong)
{
    desk_lock();
    struct desk *desk = desk_of(handle);
    bool heard = enter_desk(desk);
    desk_unlock();
    if (!heard)
        return GUARD_INVALID;
    desk->refused(desk->context, function, wrong);
    leave_desk(desk);
    return GUARD_INVALID;
}

/* ---- its tables ---- */

static struct running_load **id_slot(struct desk *desk, uint64_t load)
{
    return &desk->by_id[load % DESK_SLOTS];
}

static struct running_load **handle_slot(struct desk *desk, uintptr_t handle)
{
    return &desk->by_handle[handle % DESK_SLOTS];
}

struct running_load *load_find(const struct desk *desk, uint64_t id)
{
    struct running_load *load = desk->by_id[id % DESK_SLOTS];
    while (load != NULL && load->result.load != id)
        load = load->id_next;
    return load;
}

static struct running_load *find_handle(struct desk *desk, const struct guard_load *handle)
{
    struct running_load *load = *handle_slot(desk, (uintptr_t)handle);
    while (load != NULL && load->handle != handle)
        load = load->handle_next;
    return load;
}

struct running_load *load_of(const struct guard_load *handle)
{
    struct desk *desk = desk_of(handle);
    return desk != NULL ? find_handle(desk, handle) : NULL;
}

/* With the mutex held. */
static void add_to_desk(struct desk *desk, struct running_load *load)
{
    do {
        desk->last = desk->last % LOADS_MAX + 1;
        load->handle = (struct guard_load *)(desk->number << LOAD_BITS | desk->last);
    } while (find_handle(desk, load->handle) != NULL);
    load->desk = desk;
    desk->refs++;
    DL_APPEND2(*id_slot(desk, load->result.load), load, id_prev, id_next);
    DL_APPEND2(*handle_slot(desk, (uintptr_t)load->handle), load, handle_prev, handle_next);
}

/* ---- bells: under the mutex, too ---- */

/* For so many loads that are wanted; the reference is the caller's. NULL: no memory or descriptor. */
static struct bell *bell_new(uint32_t wanted)
{
    struct bell *bell = malloc(sizeof *bell);
    if (bell == NULL)
        return NULL;
    *bell =
        (struct bell){descriptor_not_standard(eventfd(wanted == 0, EFD_CLOEXEC | EFD_NONBLOCK)), 1, wanted};
    if (bell->fd >= 0)
        return bell;
    free(bell);
    return NULL;
}

/* One of them is not wanted any more, or over. */
static void bell_unwanted(struct bell *bell)
{
    if (--bell->wanted == 0)
        eventfd_write(bell->fd, 1);
}

/* Leaves NULL; accepts NULL in *unref. */
static void bell_unref(struct bell **unref)
{
    struct bell *bell = *unref;
    *unref = NULL;
    if (bell == NULL || --bell->refs > 0)
        return;
    close(bell->fd);
    free(bell);
}

/* ---- the handle ---- */

static struct running_load *alloc_load(const struct job *job)
{
    const struct core_action *action = job->action;
    const struct guard_policy *policy = action->policy;
    const size_t key_size = action->key.plain_bytes + 1, tags_size = policy->tagged ? TAGS_TEXT_MAX + 1 : 0;
    struct running_load *load = calloc(1, sizeof *load + key_size + tags_size);
    if (load == NULL)
        return NULL;
    load->result.load = load->deferral.load = action->load;
    load->result.key = load->deferral.key = load->key;
    load->policy = policy;
    load->deadline_us = action->deadline_us;
    load->depth = action->depth;
    load->asker = job->asker;
    if (load->asker.ref != NULL)
        load->asker.ref(load->asker.what);
    load->has_previous = action->previous != NULL;
    if (load->has_previous)
        memcpy(load->previous_validator, action->previous->public.validator,
               strnlen(action->previous->public.validator, ENVELOPE_VALIDATOR_MAX));
    memcpy(load->key, action->key.plain, key_size - 1);
    load->needs_meta = policy->needs_meta;
    load->tags = policy->tagged ? load->key + key_size : NULL;
    return load;
}

struct running_load *load_new(struct desk *desk, const struct job *job)
{
    struct running_load *load = alloc_load(job);
    if (load == NULL)
        return NULL;
    desk_lock();
    add_to_desk(desk, load);
    desk_unlock();
    return load;
}

static void quit_bells(struct running_load *load)
{
    if (load->quit)
        return;
    load->quit = true;
    if (load->bell != NULL)
        bell_unwanted(load->bell);
    if (load->batch_bell != NULL)
        bell_unwanted(load->batch_bell);
}

void load_unwanted(struct running_load *load)
{
    load->cancelled = true;
    quit_bells(load);
}

void load_enter_loop(struct running_load *load, struct loop *loop, struct running_load **list)
{
    load->loop = loop;
    load->list = list;
    DL_APPEND(*list, load);
    if (list != &loop->deferred)
        atomic_store(&loop->any_loads, true);
}

void load_leave_loop(struct running_load *load)
{
    if (load->list != NULL)
        DL_DELETE(*load->list, load);
    load->list = NULL;
    load->loop = NULL;
}

static bool is_unbegun(const struct running_load *load)
{
    return load->loop != NULL && load->list == &load->loop->unbegun;
}

/* With the mutex held: from here on no other thread finds it. */
static void retire_load(struct running_load *load)
{
    DL_DELETE2(*id_slot(load->desk, load->result.load), load, id_prev, id_next);
    DL_DELETE2(*handle_slot(load->desk, (uintptr_t)load->handle), load, handle_prev, handle_next);
    quit_bells(load);
    load_leave_loop(load);
}

static void free_retired(struct running_load *load)
{
    struct desk *desk = load->desk;
    desk_lock();
    bell_unref(&load->bell);
    bell_unref(&load->batch_bell);
    desk_unlock();
    value_unref(&load->result.loaded.value);
    free(load->meta);
    if (load->asker.unref != NULL)
        load->asker.unref(load->asker.what);
    free(load);
    desk_unref(desk);
}

void load_free(struct running_load *load)
{
    desk_lock();
    retire_load(load);
    desk_unlock();
    free_retired(load);
}

void finished_load_free(struct finished_load *finished)
{
    if (!finished->deferred)
        free_retired((struct running_load *)finished);
}

/* ---- handing in ---- */

void load_hand_in(struct desk *desk, struct finished_load *list)
{
    if (list == NULL)
        return;
    desk_lock();
    bool wanted = enter_desk(desk);
    desk_unlock();
    if (wanted) {
        desk->done(desk->context, list);
        leave_desk(desk);
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
static void retire_into(struct finished_load **list, struct running_load *load)
{
    struct core_loaded *loaded = &load->result.loaded;
    if (load->doomed) {
        value_unref(&loaded->value);
        loaded->outcome = LOAD_FAILED;
        loaded->failure = GUARD_FAILURE_INTERNAL;
    }
    loaded->unwanted = load->left;
    retire_load(load);
    put_in(list, &load->result);
}

/* With the mutex held; in a list if that is the end of it. */
static void settle(struct running_load *load, const struct core_loaded *verdict, struct finished_load **over)
{
    load->verdict = VERDICT_HERE;
    load->result.loaded = *verdict;
    load->result.loaded.load_us = clock_now_us() - load->start_us;
    load->result.loaded.keep = load->kept ? &load->keep : NULL;
    if (load->stage == LOAD_LEFT)
        retire_into(over, load);
}

/* Only the first is told: the others may follow from it. */
static void breach(struct running_load *load, const char *text)
{
    if (load->result.breach == NULL)
        load->result.breach = text;
}

static void fail_unfinished(struct running_load *load, bool thread_ends)
{
    const struct core_loaded failed = {.outcome = LOAD_FAILED, .failure = GUARD_FAILURE_INTERNAL};
    breach(load, thread_ends ? "ended its thread without finishing the load, which fails"
                             : "returned without finishing the load, which fails");
    settle(load, &failed, NULL);
}

/* With the mutex held. All that is still wanted has failed by what was asked for, so nobody knows which key that is
 * about. */
static bool failed_as_one(const struct running_load *first)
{
    bool failed = true;
    for (const struct running_load *load = first; load != NULL && failed; load = load->mate) {
        const struct core_loaded *loaded = &load->result.loaded;
        bool by_itself =
            load->doomed || (loaded->outcome == LOAD_FAILED && (loaded->failure == GUARD_FAILURE_REJECTED ||
                                                                loaded->failure == GUARD_FAILURE_INTERNAL));
        failed = load->cancelled || (load->verdict == VERDICT_HERE && by_itself);
    }
    return failed && first->mate != NULL;
}

/* The first is told what the guard must know of a batch first. */
struct returned {
    struct finished_load *over;
    struct running_load *deferred, *last_deferred; /* by `mate` */
};

/* With the mutex held. */
static void sort_returned(struct running_load *load, bool as_one, struct returned *out)
{
    bool deferred = load->stage == LOAD_DEFERRED;
    load->first = load->parent = load->mate = NULL;
    if (load->verdict == VERDICT_HERE) {
        load->result.loaded.as_one = as_one;
        retire_into(&out->over, load);
        return;
    }
    if (!deferred) {
        load->stage = LOAD_LEFT;
        return;
    }
    if (out->deferred == NULL)
        out->deferred = load;
    else
        out->last_deferred->mate = load;
    out->last_deferred = load;
}

/* What is deferred is told before its verdict can be. */
static void tell_deferred(struct desk *desk, struct running_load *first)
{
    struct finished_load *list = NULL, *over = NULL;
    for (struct running_load *load = first; load != NULL; load = load->mate) {
        load->deferral.deferred = true;
        put_in(&list, &load->deferral);
    }
    load_hand_in(desk, list);
    desk_lock();
    for (struct running_load *load = first, *next = NULL; load != NULL; load = next) {
        next = load->mate;
        load->mate = NULL;
        load->stage = LOAD_LEFT; /* from here on its verdict is handed in at once, if it is not here yet */
        if (load->verdict == VERDICT_HERE)
            retire_into(&over, load);
    }
    desk_unlock();
    load_hand_in(desk, over);
}

void load_returned(struct running_load *first, bool thread_ends)
{
    struct desk *desk = first->desk;
    struct returned returned = {NULL, NULL, NULL};
    desk_lock();
    for (struct running_load *load = first; load != NULL; load = load->mate)
        if (load->stage != LOAD_DEFERRED && load->verdict == VERDICT_NONE)
            fail_unfinished(load, thread_ends);
    bool as_one = failed_as_one(first);
    for (struct running_load *load = first, *next = NULL; load != NULL; load = next) {
        next = load->mate;
        sort_returned(load, as_one, &returned);
    }
    desk_unlock();
    load_hand_in(desk, returned.over);
    if (returned.deferred != NULL)
        tell_deferred(desk, returned.deferred);
}

/* ---- on a thread of the host's ---- */

struct here {
    struct running_load *load;
    bool returned;
};

/* Also when the loader ends the thread. */
static void leave_here(void *context)
{
    struct here *here = context;
    load_returned(here->load, !here->returned);
}

static void run_here(struct here *here)
{
    struct running_load *load = here->load;
    load->first = load;
    load->start_us = clock_now_us();
    pthread_cleanup_push(leave_here, here);
    load->policy->loader(load->handle, load->policy->context);
    here->returned = true;
    pthread_cleanup_pop(1);
}

void load_run_here(struct running_load *load)
{
    run_here(&(struct here){.load = load});
}

void load_give_back(struct running_load *load, struct finished_load **over)
{
    static const struct core_loaded unrun = {.outcome = LOAD_FAILED, .failure = GUARD_FAILURE_UNAVAILABLE};
    load->start_us = clock_now_us();
    load->left = true;
    load->stage = LOAD_LEFT;
    settle(load, &unrun, over);
}

void load_give_back_late(struct desk *desk, uint64_t now_us)
{
    struct finished_load *over = NULL;
    desk_lock();
    for (size_t i = 0; i < DESK_SLOTS; i++) {
        struct running_load *load = NULL, *next = NULL;
        DL_FOREACH_SAFE2 (desk->by_id[i], load, next, id_next)
            if (is_unbegun(load) && now_us >= load->begin_by_us) {
                load->loop->overdue = true;
                load_give_back(load, &over);
            }
    }
    desk_unlock();
    load_hand_in(desk, over);
}

void load_leave(struct desk *desk, uint64_t id)
{
    desk_lock();
    struct running_load *load = load_find(desk, id);
    if (load != NULL && load->stage == LOAD_RUNS) {
        load->left = true;
        load_unwanted(load);
    }
    desk_unlock();
}

/* ---- what the guard says ---- */

void load_call_back(struct running_load *load)
{
    void (*call)(void *context) = load->on_cancel;
    void *context = load->on_cancel_context;
    struct guard_load *handle = load->handle;
    struct desk *desk = load->desk;
    load->on_cancel = NULL;
    load->calling = true;
    load->caller = pthread_self();
    desk_unlock();
    blocking_callback_begins();
    call(context);
    blocking_callback_ends();
    desk_lock();
    load = find_handle(desk, handle); /* it may have been finished in there */
    if (load != NULL)
        load->calling = false;
    pthread_cond_broadcast(&desk->quiet);
}

/* With the mutex held: on the guard's thread here, or on the loop. */
static void call_if_cancelled(struct running_load *load)
{
    struct loop *loop = load->loop;
    bool wanted = load->told && load->cancelled && load->verdict == VERDICT_NONE && load->on_cancel != NULL;
    if (!wanted || (loop != NULL && load->list == &loop->cancelled))
        return;
    if (loop == NULL) {
        load_call_back(load);
        return;
    }
    load_leave_loop(load);
    load_enter_loop(load, loop, &loop->cancelled);
    host_wake_send(&loop->mail);
}

static void say_to_load(struct desk *desk, uint64_t id, bool told)
{
    struct finished_load *over = NULL;
    desk_lock();
    struct running_load *load = load_find(desk, id);
    if (load != NULL && is_unbegun(load)) {
        load_give_back(load, &over);
    } else if (load != NULL) {
        load->told = load->told || told;
        if (!told)
            load_unwanted(load);
        call_if_cancelled(load);
    }
    desk_unlock();
    load_hand_in(desk, over);
}

void load_cancel(struct desk *desk, uint64_t load)
{
    say_to_load(desk, load, false);
}

void load_told(struct desk *desk, uint64_t load)
{
    say_to_load(desk, load, true);
}

bool load_hear_deferral(struct desk *desk, uint64_t id)
{
    desk_lock();
    struct running_load *load = load_find(desk, id);
    bool is_news = load != NULL && load->stage != LOAD_RUNS && !load->told && !load->deferral.heard;
    if (is_news)
        load->deferral.heard = true;
    desk_unlock();
    return is_news;
}

void load_say_key(const char *key, char said[SAID_KEY_SIZE])
{
    bool cut = strnlen(key, SAID_KEY_BYTES + 1) > SAID_KEY_BYTES;
    snprintf(said, SAID_KEY_SIZE, "%.*s%s", SAID_KEY_BYTES, key, cut ? "..." : "");
}

bool load_key_of(struct desk *desk, uint64_t id, char said[SAID_KEY_SIZE])
{
    desk_lock();
    const struct running_load *load = load_find(desk, id);
    if (load != NULL)
        load_say_key(load->key, said);
    desk_unlock();
    return load != NULL;
}

uint32_t load_still_running(struct desk *desk, char said[SAID_KEY_SIZE])
{
    uint32_t count = 0;
    const struct running_load *last = NULL;
    desk_lock();
    for (size_t i = 0; i < DESK_SLOTS; i++)
        for (const struct running_load *load = desk->by_id[i]; load != NULL; load = load->id_next) {
            if (load->stage == LOAD_LEFT)
                continue;
            count++;
            if (last == NULL || (uintptr_t)load->handle > (uintptr_t)last->handle)
                last = load;
        }
    if (last != NULL)
        load_say_key(last->key, said);
    desk_unlock();
    return count;
}

/* ---- what a loader sees ---- */

const char *guard_load_key(const struct guard_load *handle)
{
    desk_lock();
    const struct running_load *load = load_of(handle);
    const char *key = load != NULL ? load->key : "";
    desk_unlock();
    return key;
}

uint32_t guard_load_left_ms(const struct guard_load *handle)
{
    uint64_t now_us = clock_now_us();
    desk_lock();
    const struct running_load *load = load_of(handle);
    uint64_t deadline_us = load != NULL ? load->deadline_us : 0;
    desk_unlock();
    return now_us < deadline_us ? (uint32_t)((deadline_us - now_us + 999) / 1000) : 0;
}

bool guard_load_cancelled(const struct guard_load *handle)
{
    desk_lock();
    const struct running_load *load = load_of(handle);
    bool cancelled = load == NULL || load->cancelled;
    desk_unlock();
    return cancelled;
}

const char *guard_load_previous_validator(const struct guard_load *handle)
{
    desk_lock();
    const struct running_load *load = load_of(handle);
    const char *validator = load != NULL && load->has_previous ? load->previous_validator : NULL;
    desk_unlock();
    return validator;
}

void *guard_load_asker(const struct guard_load *handle)
{
    desk_lock();
    const struct running_load *load = load_of(handle);
    void *asker = load != NULL ? load->asker.what : NULL;
    desk_unlock();
    return asker;
}

uint64_t guard_load_id(const struct guard_load *handle)
{
    desk_lock();
    const struct running_load *load = load_of(handle);
    uint64_t id = load != NULL ? load->result.load : 0;
    desk_unlock();
    return id;
}

static uint32_t wanted_in(const struct running_load *first)
{
    uint32_t wanted = 0;
    for (const struct running_load *load = first; load != NULL; load = load->mate)
        wanted += load->stage == LOAD_RUNS && !load->quit;
    return wanted;
}

/* One for all of the batch that are not deferred. */
static struct bell *batch_bell_of(struct running_load *asking)
{
    struct running_load *const first = asking->first;
    if (asking->batch_bell != NULL || first == NULL)
        return asking->batch_bell;
    struct bell *bell = bell_new(wanted_in(first));
    if (bell == NULL)
        return NULL;
    for (struct running_load *load = first; load != NULL; load = load->mate) {
        if (load->stage != LOAD_RUNS)
            continue;
        load->batch_bell = bell;
        bell->refs++;
    }
    bell->refs--; /* that of bell_new() */
    assert(asking->batch_bell == bell);
    return asking->batch_bell;
}

void load_keep_bell(struct running_load *load)
{
    if (load->batch_bell == NULL || load->first->mate != NULL)
        return;
    load->bell = load->batch_bell;
    load->batch_bell = NULL;
}

int guard_load_cancel_fd(const struct guard_load *handle)
{
    const struct bell *bell = NULL;
    desk_lock();
    struct running_load *load = load_of(handle);
    if (load != NULL && load->stage != LOAD_RUNS && load->bell == NULL)
        load->bell = bell_new(!load->quit);
    if (load != NULL)
        bell = load->stage != LOAD_RUNS ? load->bell : batch_bell_of(load);
    int fd = bell != NULL ? bell->fd : -1;
    desk_unlock();
    return fd;
}

/* ---- what it says beside its verdict ---- */

/* With the mutex held. NULL: its loader has not finished it. */
static const char *wrong_tag(struct running_load *load, const char *tag, size_t tag_bytes)
{
    if (load->tags == NULL)
        return "named a tag, but guard_policy.tagged is false; the load fails";
    if (load->verdict != VERDICT_NONE)
        return "named a tag after it had finished the load, which fails";
    if (check_tag(tag, tag_bytes) != NULL)
        return "named a tag that is not of 1 to 64 bytes, none of them 0; the load fails";
    if (!tags_add(load->tags, &load->tags_bytes, tag, check_length(tag, tag_bytes)))
        return "named more than 8 tags; the load fails";
    return NULL;
}
_Static_assert(GUARD_TAGS_MAX == 8 && GUARD_TAG_BYTES_MAX == 64 && ENVELOPE_VALIDATOR_MAX == 127,
               "as in the texts");

static const char *wrong_meta(const struct running_load *load, const void *meta, size_t meta_bytes)
{
    if (load->verdict != VERDICT_NONE)
        return "passed its meta after it had finished the load, which fails";
    if (meta == NULL && meta_bytes > 0)
        return "passed NULL for meta of more than 0 bytes; the load fails";
    return meta_bytes > GUARD_META_MAX ? "passed meta of more than 4096 bytes; the load fails" : NULL;
}
_Static_assert(GUARD_META_MAX == 4096, "as in the text");

static const char *wrong_keep(const struct running_load *load, const struct guard_keep *keep)
{
    if (load->verdict != VERDICT_NONE)
        return "said how to keep its answer after it had finished the load, which fails";
    if (keep == NULL)
        return "passed no struct guard_keep; the load fails";
    if ((unsigned)keep->how > GUARD_HERE)
        return "said how to keep its answer with a number that is no enum guard_how; the load fails";
    return NULL;
}

/* With the mutex held. For good, whatever it says now or has said: INVALID. */
static enum guard_status doom(struct running_load *load, const char *wrong)
{
    breach(load, wrong);
    load->doomed = true;
    return GUARD_INVALID;
}

static const char OVER_TEXT[] =
    "the load is over: its first verdict stands, or its loader returned without one";

enum guard_status guard_load_tag(struct guard_load *handle, const char *tag)
{
    return guard_load_tag_of(handle, tag, 0);
}

enum guard_status guard_load_tag_of(struct guard_load *handle, const char *tag, size_t tag_bytes)
{
    enum guard_status status = GUARD_OK;
    desk_lock();
    struct running_load *load = load_of(handle);
    const char *wrong = load != NULL ? wrong_tag(load, tag, tag_bytes) : NULL;
    if (wrong != NULL)
        status = doom(load, wrong);
    desk_unlock();
    return load != NULL ? status : desk_refuse(handle, "guard_load_tag", OVER_TEXT);
}

/* With the mutex held. Without memory it has a length and no bytes: nothing may be stored without what it should
 * have. */
static enum guard_status take_meta(struct running_load *load, const void *meta, size_t meta_bytes)
{
    free(load->meta);
    load->meta = meta_bytes > 0 ? malloc(meta_bytes) : NULL;
    load->meta_bytes = meta_bytes;
    if (load->meta != NULL)
        memcpy(load->meta, meta, meta_bytes);
    return load->meta != NULL || meta_bytes == 0 ? GUARD_OK : GUARD_NO_MEMORY;
}

enum guard_status guard_load_meta(struct guard_load *handle, const void *meta, size_t meta_bytes)
{
    enum guard_status status = GUARD_OK;
    desk_lock();
    struct running_load *load = load_of(handle);
    const char *wrong = load != NULL ? wrong_meta(load, meta, meta_bytes) : NULL;
    if (wrong != NULL)
        status = doom(load, wrong);
    else if (load != NULL)
        status = take_meta(load, meta, meta_bytes);
    desk_unlock();
    return load != NULL ? status : desk_refuse(handle, "guard_load_meta", OVER_TEXT);
}

enum guard_status guard_load_keep(struct guard_load *handle, const struct guard_keep *keep)
{
    enum guard_status status = GUARD_OK;
    desk_lock();
    struct running_load *load = load_of(handle);
    const char *wrong = load != NULL ? wrong_keep(load, keep) : NULL;
    if (wrong != NULL) {
        status = doom(load, wrong);
    } else if (load != NULL) {
        load->keep = *keep;
        load->kept = true;
    }
    desk_unlock();
    return load != NULL ? status : desk_refuse(handle, "guard_load_keep", OVER_TEXT);
}

/* ---- its verdict ---- */

/* It is COMING from here on, and this call's. A cancelled() that runs on another thread is over first, because what
 * that uses may go once this call has returned. NULL: it is not the first. */
static struct running_load *claim_verdict(struct guard_load *handle, const char *function)
{
    desk_lock();
    struct running_load *load = load_of(handle);
    bool first = load != NULL && load->verdict == VERDICT_NONE;
    if (first)
        load->verdict = VERDICT_COMING;
    else if (load != NULL)
        breach(load, "finished the load a second time; its first verdict stands");
    while (first && load->calling && !pthread_equal(load->caller, pthread_self()))
        pthread_cond_wait(&load->desk->quiet, &desks_mutex);
    desk_unlock();
    if (load == NULL)
        desk_refuse(handle, function, OVER_TEXT);
    return first ? load : NULL;
}

static enum guard_status bring_verdict(struct running_load *load, enum core_load_outcome outcome,
                                       struct value *value, enum guard_failure failure)
{
    const struct core_loaded verdict = {.outcome = outcome, .value = value, .failure = failure};
    struct desk *desk = load->desk;
    struct finished_load *over = NULL;
    desk_lock();
    settle(load, &verdict, &over);
    desk_unlock();
    load_hand_in(desk, over);
    return GUARD_OK;
}

/* `wrong`: what the loader did against its contract. */
static enum guard_status bring_failure(struct running_load *load, const char *wrong)
{
    desk_lock();
    breach(load, wrong);
    desk_unlock();
    return bring_verdict(load, LOAD_FAILED, NULL, GUARD_FAILURE_INTERNAL);
}

static bool validator_valid(const char *validator, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (validator[i] < 0x20 || validator[i] > 0x7e)
            return false;
    return bytes <= ENVELOPE_VALIDATOR_MAX;
}

enum guard_status guard_load_done(struct guard_load *handle, const void *body, size_t body_bytes,
                                  const char *validator)
{
    size_t validator_bytes = validator != NULL ? strnlen(validator, ENVELOPE_VALIDATOR_MAX + 1) : 0;
    struct running_load *load = claim_verdict(handle, "guard_load_done");
    if (load == NULL)
        return GUARD_INVALID;
    if (!validator_valid(validator, validator_bytes))
        return bring_failure(
            load, "passed a validator that is not of at most 127 bytes of printable ASCII; the load fails");
    if (load->needs_meta && load->meta_bytes == 0)
        return bring_failure(load,
                             "finished the load without meta, but guard_policy.needs_meta is true; it fails");
    const struct value_parts parts = {
        .body = body,
        .body_bytes = body_bytes,
        .validator = validator,
        .validator_bytes = validator_bytes,
        .tags = load->tags,
        .tags_bytes = load->tags_bytes,
        .meta = load->meta,
        .meta_bytes = load->meta_bytes,
    };
    bool meta_lost = load->meta == NULL && load->meta_bytes > 0;
    struct value *value = meta_lost ? NULL : value_from(&parts);
    return bring_verdict(load, value != NULL ? LOAD_OK : LOAD_NO_MEMORY, value, GUARD_FAILURE_NONE);
}

enum guard_status guard_load_absent(struct guard_load *handle)
{
    struct running_load *load = claim_verdict(handle, "guard_load_absent");
    if (load == NULL)
        return GUARD_INVALID;
    struct value *tags = NULL;
    if (load->tags_bytes > 0)
        tags = value_new("", 0, "", 0, load->tags, load->tags_bytes);
    bool kept = load->tags_bytes == 0 || tags != NULL;
    return bring_verdict(load, kept ? LOAD_ABSENT : LOAD_NO_MEMORY, tags, GUARD_FAILURE_NONE);
}

enum guard_status guard_load_fail(struct guard_load *handle, enum guard_failure failure)
{
    struct running_load *load = claim_verdict(handle, "guard_load_fail");
    if (load == NULL)
        return GUARD_INVALID;
    if (failure <= GUARD_FAILURE_NONE || failure > GUARD_FAILURE_CYCLE)
        return bring_failure(load, "failed the load with a number that is no enum guard_failure");
    return bring_verdict(load, LOAD_FAILED, NULL, failure);
}

enum guard_status guard_load_unchanged(struct guard_load *handle)
{
    struct running_load *load = claim_verdict(handle, "guard_load_unchanged");
    if (load == NULL)
        return GUARD_INVALID;
    if (!load->has_previous)
        return bring_failure(load, "found unchanged what had no previous validator; the load fails");
    return bring_verdict(load, LOAD_UNCHANGED, NULL, GUARD_FAILURE_NONE);
}
