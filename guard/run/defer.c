/* SPDX-License-Identifier: MIT */
/* defer.c - see defer.h. */
#include "defer.h"
#include "mailbox.h"
#include "state.h"
#include <utlist.h>

/* With the mutex held. NULL: it can. */
static const char *cannot_defer(const struct guard_load *load, const struct guard_loop *loop)
{
    if (load->deferred)
        return "the load is deferred already";
    if (load->finished)
        return "the load is finished";
    if (loop != NULL && loop->guard != load->desk->context)
        return "the loop is another guard's";
    return loop != NULL && loop->detaching_loads ? "the loop is being detached" : NULL;
}

enum guard_status defer_refuse(struct desk *desk, const char *function, const char *wrong)
{
    if (!desk_enter(desk))
        return GUARD_INVALID;
    request_refuse(desk->context, function, wrong);
    desk_leave(desk);
    return GUARD_INVALID;
}

static void defer_load(struct guard_load *load, struct guard_loop *loop, void (*cancelled)(void *context),
                       void *context)
{
    load_keep_bell(load);
    load->deferred = true;
    load->on_cancel = cancelled;
    load->on_cancel_context = context;
    load->loop = loop;
    if (loop == NULL)
        return;
    load->listed = IN_DEFERRED;
    DL_APPEND(loop->deferred, load);
}

enum guard_status guard_load_defer(struct guard_load *load, struct guard_loop *loop,
                                   void (*cancelled)(void *context), void *context)
{
    struct desk *desk = load->desk;
    pthread_mutex_lock(&desk->mutex);
    const char *wrong = cannot_defer(load, loop);
    if (wrong == NULL)
        defer_load(load, loop, cancelled, context);
    pthread_mutex_unlock(&desk->mutex);
    return wrong == NULL ? GUARD_OK : defer_refuse(desk, "guard_load_defer", wrong);
}

/* ---- on its loop ---- */

void defer_call_back(struct guard_loop *loop)
{
    struct desk *desk = loop->guard->desk;
    pthread_mutex_lock(&desk->mutex);
    for (struct guard_load *load = loop->cancelled; load != NULL; load = loop->cancelled) {
        void (*call)(void *context) = load->on_cancel;
        void *context = load->on_cancel_context;
        load->on_cancel = NULL;
        load_leave_loop(load);
        pthread_mutex_unlock(&desk->mutex);
        call(context);
        pthread_mutex_lock(&desk->mutex);
    }
    pthread_mutex_unlock(&desk->mutex);
}

/* One whose loader has not returned yet is not called back: only its flag and its descriptor tell. */
static void leave_loop(struct guard_loop *loop, struct guard_load *load)
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
    struct desk *desk = loop->guard->desk;
    pthread_mutex_lock(&desk->mutex);
    loop->detaching_loads = true;
    while (loop->deferred != NULL)
        leave_loop(loop, loop->deferred);
    bool any = loop->cancelled != NULL;
    pthread_mutex_unlock(&desk->mutex);
    return any;
}

/* ---- what it asks for ---- */

bool defer_parent(struct guard_load *within, struct parent_load *out)
{
    pthread_mutex_lock(&within->desk->mutex);
    bool deferred = within->deferred && !within->finished;
    pthread_mutex_unlock(&within->desk->mutex);
    *out = (struct parent_load){within->result.load, within->deadline_us};
    return deferred;
}
