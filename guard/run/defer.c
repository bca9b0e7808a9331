/* SPDX-License-Identifier: MIT */
/* defer.c - see defer.h. */
#include "defer.h"
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

static void defer_to_loop(struct running_load *load, struct loop *loop)
{
    load->loop = loop;
    load->listed = IN_DEFERRED;
    DL_APPEND(loop->deferred, load);
}

/* CLOSING: the loop goes, or is gone. Nothing is amiss: the load began before that, and is for others to load. */
static enum guard_status defer_load(struct running_load *load, const struct guard_loop *name,
                                    void (*cancelled)(void *context), void *context)
{
    bool answered = load->verdict != VERDICT_NONE; /* nothing is left to call back for */
    struct loop *loop = name != NULL ? name->there : NULL;
    bool gone = name != NULL && (loop == NULL || loop->detaching_loads);
    if (gone && !answered) {
        load->loop_gone = true;
        load_unwanted(load);
        return GUARD_CLOSING;
    }
    load_keep_bell(load);
    load->stage = LOAD_DEFERRED;
    if (answered)
        return GUARD_OK;
    load->on_cancel = cancelled;
    load->on_cancel_context = context;
    if (loop != NULL)
        defer_to_loop(load, loop);
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

/* ---- on its loop ---- */

void defer_call_back(struct loop *loop)
{
    desk_lock();
    while (loop->cancelled != NULL) {
        struct running_load *load = loop->cancelled;
        load_leave_loop(load);
        load_call_back(load);
    }
    desk_unlock();
}

/* One whose loader has not returned yet is not called back: only its flag and its descriptor tell. */
static void leave_loop(struct loop *loop, struct running_load *load)
{
    bool call = load->told && load->on_cancel != NULL;
    load->loop_gone = true;
    load_unwanted(load);
    load_leave_loop(load);
    if (!call) {
        load->on_cancel = NULL;
        return;
    }
    load_to_be_called(load, loop);
}

bool defer_leave_loop(struct loop *loop)
{
    desk_lock();
    loop->detaching_loads = true;
    while (loop->deferred != NULL)
        leave_loop(loop, loop->deferred);
    bool any = loop->cancelled != NULL;
    desk_unlock();
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
