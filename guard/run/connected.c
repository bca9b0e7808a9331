/* SPDX-License-Identifier: MIT */
/* connected.c - see connected.h. */
#include "connected.h"
#include "../base/blocking.h"
#include "../base/clock.h"
#include "mailbox.h"
#include <stdlib.h>
#include <utlist.h>

struct connecting {
    struct connecting *prev, *next;
    guard_connected_done *done;
    void *context;
};

/* ---- the guard's thread ---- */

static void tell_connectings(struct guard *guard, enum guard_status status)
{
    pthread_mutex_lock(&guard->mutex);
    struct connecting *list = guard->connectings;
    guard->connectings = NULL;
    pthread_mutex_unlock(&guard->mutex);
    while (list != NULL) {
        struct connecting *each = list;
        DL_DELETE(list, each);
        each->done(each->context, status);
        free(each);
    }
}

void connected_tell(struct guard *guard)
{
    if (guard->redis_spoke)
        tell_connectings(guard, guard->own->redis_state == GUARD_REDIS_UP ? GUARD_OK : GUARD_UNKNOWN);
}

void connected_spoken(struct guard *guard)
{
    guard->redis_spoke = true;
    host_timer_stop(guard->host, &guard->first_word);
    connected_tell(guard);
}

static void on_limit(void *context)
{
    connected_spoken(context);
}

void connected_open(struct guard *guard)
{
    guard->first_word = (struct host_timer){.run = on_limit, .context = guard};
    host_timer_set(guard->host, &guard->first_word,
                   clock_now_us() + (uint64_t)guard->config.connect_limit_ms * 1000);
}

void connected_close(struct guard *guard)
{
    host_timer_stop(guard->host, &guard->first_word);
    tell_connectings(guard, GUARD_CLOSING);
}

/* ---- the public functions ---- */

enum guard_status guard_connected(struct guard *guard, guard_connected_done *done, void *context)
{
    if (is_forked(guard))
        return request_refuse(guard, "guard_connected", FORKED_TEXT);
    if (done == NULL)
        return request_refuse(guard, "guard_connected", "done is NULL");
    struct connecting *connecting = calloc(1, sizeof *connecting);
    if (connecting == NULL)
        return GUARD_NO_MEMORY;
    *connecting = (struct connecting){.done = done, .context = context};
    pthread_mutex_lock(&guard->mutex);
    bool closing = guard->closing_asked;
    if (!closing) {
        DL_APPEND(guard->connectings, connecting);
        mailbox_wake(guard);
    }
    pthread_mutex_unlock(&guard->mutex);
    if (closing)
        free(connecting);
    return closing ? GUARD_CLOSING : GUARD_OK;
}

static void connected(void *context, enum guard_status status)
{
    struct blocking *blocking = context;
    *(enum guard_status *)blocking->out = status;
    blocking_over(blocking);
}

enum guard_status guard_connected_wait(struct guard *guard)
{
    struct blocking blocking;
    enum guard_status told = GUARD_INVALID;
    if (blocking_in_callback())
        return request_refuse(guard, "guard_connected_wait", CALLBACK_TEXT);
    blocking_init(&blocking, &told);
    enum guard_status status = guard_connected(guard, connected, &blocking);
    if (status != GUARD_OK)
        return status;
    blocking_wait(&blocking);
    return told;
}
