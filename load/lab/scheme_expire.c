/* SPDX-License-Identifier: MIT */
/*
 * scheme_expire.c - (2) SETNX, then EXPIRE: the first repair of (1), in two commands.
 *
 * Josiah Carlson, Redis in Action, 6.2.5, sets the expiry in a second command (and mends the gap by letting
 * every waiter look whether one is missing); countless articles leave the mending out. Breaks when a holder
 * dies between the two.
 */
#include "load/lab/lab.h"

static bool acquire(struct lab_client *client)
{
    if (lab_integer(client, "SETNX %s 1", client->lock_name) != 1)
        return false;
    lab_step(client, STEP_CLAIMED);
    lab_integer(client, "EXPIRE %s %d", client->lock_name, (int)client->lease_s);
    return true;
}

static void release(struct lab_client *client)
{
    lab_step(client, STEP_RELEASING);
    lab_integer(client, "DEL %s", client->lock_name);
}

const struct scheme scheme_expire = {
    .number = "2",
    .name = "setnx-expire",
    .title = "SETNX, then EXPIRE",
    .source = "Redis in Action 6.2.5 without its repair",
    .lock_prefix = "lock:",
    .get = lab_get_polling,
    .acquire = acquire,
    .release = release,
};
