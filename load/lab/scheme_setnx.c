/* SPDX-License-Identifier: MIT */
/*
 * scheme_setnx.c - (1) SETNX, and DEL when done.
 *
 * From the command's first description: redis.io, SETNX, "Design pattern: Locking with SETNX", which goes on
 * to warn of it. Breaks when a holder dies: nobody deletes the lock, and it has no end of its own.
 */
#include "load/lab/lab.h"

static bool acquire(struct lab_client *client)
{
    return lab_integer(client, "SETNX %s 1", client->lock_name) == 1;
}

static void release(struct lab_client *client)
{
    lab_step(client, STEP_RELEASING);
    lab_integer(client, "DEL %s", client->lock_name);
}

const struct scheme scheme_setnx = {
    .number = "1",
    .name = "setnx",
    .title = "SETNX without expiry",
    .source = "redis.io, SETNX: locking pattern",
    .lock_prefix = "lock:",
    .get = lab_get_polling,
    .acquire = acquire,
    .release = release,
};
