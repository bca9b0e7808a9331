/* SPDX-License-Identifier: MIT */
/* uv_host.h - the loop of a test, which turns by uv_run(), as base/host.h has it, without a guard. */
#pragma once

#include "guard/adapters/libuv.h"
#include "guard/base/host.h"

/* NULL: no memory. The state is that of a zeroed struct, and outlives the host. */
static inline struct guard_host *uv_host_attach(uv_loop_t *loop, struct guard_host_state *state)
{
    struct guard_libuv *self = guard_libuv_new(loop);
    return self != NULL && host_init(&self->host, state) ? &self->host : NULL;
}
