/* SPDX-License-Identifier: MIT */
/* defer.c - see defer.h. */
#include "defer.h"
#include "mailbox.h"
#include "state.h"
#include <utlist.h>

/* With the mutex held. NULL: it can. */
static const char *cannot_defer(const struct running_load *load, const struct guard_loop *loop)
{
    if (load == NULL)
        return "the load is over";
    if (load->stage != LOAD_RUNS)
        return "the load is deferred already";
    if (loop != NULL && loop->guard != load->desk->context)
        return "the loop is another guard's";
    return loop != NULL && loop->detaching_loads ? "the loop is being detached" : NULL;
}

/* Its query may have been answered by now: then there is nothing left to call back for. */
static void defer_load(struct running_load *load, struct guard_loop *loop, void (*cancelled)(void *context),
                       void *context)
{
    load_keep_bell(load);
    load->stage = LOAD_DEFERRED;
    if (load->verdict != VERDICT_NONE)
        return;
    load->on_cancel = cancelled;
    load->on_cancel_context = context;
    load->loop = loop;
    if (loop == NULL)
        return;
    load->listed = IN_DEFERRED;
    DL_APPEND(loop->deferred, load);
}

enum guard_status guard_load_defer(struct guard_load *handle, struct guard_loop *loop,
                                   void (*cancelled)(void *context), void *context)
{
    desk_lock();
    struct running_load *load = load_of(handle);
    const char *wrong = cannot_defer(load, loop);
    if (wrong == NULL)
        defer_load(load, loop, cancelled, context);
    desk_unlock();
    return wrong == NULL ? GUARD_OK : desk_refuse(handle, "guard_load_defer", wrong);
}

/* ---- on its loop ---- */

void defer_call_back(struct guard_loop *loop)
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
static void leave_loop(struct guard_loop *loop, struct running_load *load)
{
    bool call = load->told && load->on_cancel != NULL;
    load->loop_gone = true;
    load_unwanted(load);
    load_leave_loop(load);
    if (!call) {
        load->on_cancel = NULL;
        return;
    }
    DL_APPEND(loop->cancelled, load);
    load->listed = IN_CANCELLED;
    atomic_store(&loop->any_cancelled, true);
}

bool defer_leave_loop(struct guard_loop *loop)
{
    desk_lock();
    loop->detaching_loads = true;
    while (loop->deferred != NULL)
        leave_loop(loop, loop->deferred);
    bool any = loop->cancelled != NULL;
    desk_unlock();
    return any;
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
