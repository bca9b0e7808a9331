/* SPDX-License-Identifier: MIT */
/*
 * scheme_lua.c - (5) a UUID in the lock, compared and deleted by one script; no renewal.
 *
 * redis.io, SET, "Patterns", second form, and one node of Redlock. Breaks when the work outlives the lease:
 * two holders, each of them sure. Martin Kleppmann, How to do distributed locking (2016), adds the rest: a
 * holder that was paused still writes, because nothing but a fencing token checked where it writes stops it.
 */
#include "load/lab/lab.h"

static const char delete_mine[] = "if redis.call('GET', KEYS[1]) == ARGV[1] then"
                                  "  return redis.call('DEL', KEYS[1]) "
                                  "end "
                                  "return 0";

static bool acquire(struct lab_client *client)
{
    lab_token(client);
    return lab_ok(client, "SET %s %s NX EX %d", client->lock_name, client->token, (int)client->lease_s);
}

static void release(struct lab_client *client)
{
    lab_step(client, STEP_RELEASING);
    lab_integer(client, "EVAL %s 1 %s %s", delete_mine, client->lock_name, client->token);
}

const struct scheme scheme_lua = {
    .number = "5",
    .name = "uuid-lua",
    .title = "UUID, compare and delete in Lua",
    .source = "redis.io, SET: patterns, second form",
    .lock_prefix = "lock:",
    .get = lab_get_polling,
    .acquire = acquire,
    .release = release,
};
