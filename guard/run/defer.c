/* SPDX-License-Identifier: MIT */
/* defer.c - see defer.h. */
#include "defer.h"
#include "../base/clock.h"
#include "../base/process.h"
#include "mailbox.h"
#include "state.h"
#include <utlist.h>

/* With the mutex held. NULL: it can. The load comes first: the guard of one that is deferred or over may be gone, and
 * with it what the loop was called by. */
static const char *cannot_defer(const struct running_load *load, const struct guard_loop *loop)
{
    if (load == NULL)
        return "the load is over";
    if (load->stage != LOAD_RUNS)
        return "the load is deferred already";
    return loop != NULL && loop->guard != load->desk->context ? "the loop is another guard's" : NULL;
}

/* CLOSING: the loop goes, or is gone. Nothing is amiss: the load began before that, and is for others to load. */
static enum guard_status defer_load(struct running_load *load, const struct guard_loop *name,
                                    void (*cancelled)(void *context), void *context)
{
    bool answered = load->verdict != VERDICT_NONE; /* nothing is left to call back for */
    struct loop *loop = name != NULL ? name->there : NULL;
    bool gone = name != NULL && (loop == NULL || loop->detaching_loads);
    if (gone && !answered) {
        load->left = true;
        load_unwanted(load);
        return GUARD_CLOSING;
    }
    load_keep_bell(load);
    load->stage = LOAD_DEFERRED;
    if (answered)
        return GUARD_OK;
    load->on_cancel = cancelled;
    load->on_cancel_context = context;
    if (loop == NULL)
        return GUARD_OK;
    load_enter_loop(load, loop, &loop->deferred);
    return GUARD_OK;
}

enum guard_status guard_load_defer(struct guard_load *handle, struct guard_loop *loop,
                                   void (*cancelled)(void *context), void *context)
{
    enum guard_status status = GUARD_INVALID;
    desk_lock();
    struct running_load *load = load_of(handle);
    const char *wrong = cannot_defer(load, loop);
    if (wrong == NULL)
        status = defer_load(load, loop, cancelled, context);
    desk_unlock();
    return wrong == NULL ? status : desk_refuse(handle, "guard_load_defer", wrong);
}

/* ---- beginning on its loop ---- */

enum { LOADERS_PER_TURN = 32 }; /* so that the loop's other work is not held up */

bool defer_may_begin(const struct guard_loop *name)
{
    desk_lock();
    const struct loop *loop = name != NULL ? name->there : NULL;
    bool may = loop != NULL && !loop->detaching_loads && !loop->overdue;
    desk_unlock();
    return may;
}

bool defer_start(struct desk *desk, const struct job *job)
{
    const struct guard_loop *name = job->asker.loop;
    struct finished_load *over = NULL;
    struct running_load *load = name != NULL ? load_new(desk, job) : NULL;
    if (load == NULL)
        return false;
    desk_lock();
    struct loop *loop = name->there;
    bool gone = loop == NULL || loop->detaching_loads, refused = gone && job->of_refresh;
    if (!gone) {
        load->begin_by_us = clock_now_us() + (uint64_t)load->policy->lease_ms * 1000;
        load_enter_loop(load, loop, &loop->unbegun);
        host_wake_send(&loop->mail);
    } else if (!refused) {
        load_give_back(load, &over);
    }
    desk_unlock();
    load_hand_in(desk, over);
    if (refused)
        load_free(load);
    return !refused;
}

/* With the mutex held, but not while the loader runs. */
static void run_loader(struct running_load *load)
{
    load_leave_loop(load);
    desk_unlock();
    blocking_callback_begins();
    load_run_here(load);
    blocking_callback_ends();
    desk_lock();
}

static void run_loaders(struct loop *loop)
{
    struct finished_load *late = NULL;
    for (int i = 0; i < LOADERS_PER_TURN && loop->unbegun != NULL; i++) {
        if (clock_now_us() < loop->unbegun->begin_by_us)
            run_loader(loop->unbegun);
        else
            load_give_back(loop->unbegun, &late);
    }
    if (loop->unbegun != NULL) {
        atomic_store(&loop->any_loads, true);
        host_wake_send(&loop->mail);
    }
    desk_unlock();
    load_hand_in(loop->guard->desk, late);
    desk_lock();
}

/* ---- on its loop ---- */

void defer_on_mail(struct loop *loop)
{
    if (!atomic_exchange(&loop->any_loads, false))
        return;
    desk_lock();
    while (loop->cancelled != NULL) {
        struct running_load *load = loop->cancelled;
        load_leave_loop(load);
        load_call_back(load);
    }
    run_loaders(loop);
    loop->overdue = false;
    desk_unlock();
}

/* One whose loader has not returned yet is not called back: only its flag and its descriptor tell. */
static void leave_loop(struct loop *loop, struct running_load *load)
{
    bool call = load->told && load->on_cancel != NULL;
    load->left = true;
    load_unwanted(load);
    load_leave_loop(load);
    if (!call) {
        load->on_cancel = NULL;
        return;
    }
    load_enter_loop(load, loop, &loop->cancelled);
}

bool defer_leave_loop(struct loop *loop)
{
    struct finished_load *over = NULL;
    desk_lock();
    loop->detaching_loads = true;
    while (loop->unbegun != NULL)
        load_give_back(loop->unbegun, &over);
    while (loop->deferred != NULL)
        leave_loop(loop, loop->deferred);
    bool any = loop->cancelled != NULL;
    desk_unlock();
    load_hand_in(loop->guard->desk, over);
    return any;
}

void defer_forget_loop(struct loop *loop)
{
    desk_lock();
    loop->name->there = NULL;
    desk_unlock();
}

/* ---- what it asks for ---- */

bool defer_parent(const struct guard *guard, const struct guard_load *within, struct parent_load *out)
{
    desk_lock();
    const struct running_load *load = load_of(within);
    bool deferred = load != NULL && load->desk->context == guard && load->stage != LOAD_RUNS &&
                    load->verdict == VERDICT_NONE;
    if (deferred)
        *out = (struct parent_load){load->result.load, load->deadline_us};
    desk_unlock();
    return deferred;
}
