/* SPDX-License-Identifier: MIT */
/*
 * scheme_constant.c - (3) SET NX EX with a constant value, DEL when done.
 *
 * redis.io, SET, "Patterns", first form ("a simple way to implement a locking system"); as the "mutex key" of
 * Redis development and operations (Fu, Zhang), chapter 11, in most articles about cache breakdown. Breaks
 * when the work outlives the lease: the late holder deletes whoever holds the lock by then.
 */
#include "load/lab/lab.h"

static bool acquire(struct lab_client *client)
{
    return lab_ok(client, "SET %s 1 NX EX %d", client->lock_name, (int)client->lease_s);
}

static void release(struct lab_client *client)
{
    lab_step(client, STEP_RELEASING);
    lab_integer(client, "DEL %s", client->lock_name);
}

const struct scheme scheme_constant = {
    .number = "3",
    .name = "set-nx-ex",
    .title = "SET NX EX with a constant, DEL",
    .source = "redis.io, SET: patterns, first form",
    .lock_prefix = "lock:",
    .get = lab_get_polling,
    .acquire = acquire,
    .release = release,
};
