/* SPDX-License-Identifier: MIT */
/*
 * schemes_plain.c - (0) to (5b): a key in Redis as a lock, in the order in which the literature repairs it.
 *
 *     0   no lock
 *     1   SETNX, DEL                     a holder that dies leaves it for ever
 *     2   SETNX, then EXPIRE             ... unless it dies between the two
 *     3   SET NX EX, DEL                 a late holder deletes another's lock
 *     4   a UUID in it; GET, DEL         ... if it stops between the two
 *     5   compare and delete in Lua      two holders when the work outlives the lease
 *     5b  SETNX and EXPIRE in Lua        as 5; a waiter sleeps and calls itself
 *
 * 2, 3 and 5 also as locks around no cache, where a waiter looks every LAB_POLL_MS: 2l, 3l and 5l.
 *
 * None of them renews its lease, and nothing stops a late fill.
 */
#include "load/lab/scheme.h"

#include <hiredis/hiredis.h>

#include <string.h>

/* ---- what several share ---- */

/* SET NX EX. */
static bool take(struct lab_client *client, const char *value)
{
    return lab_ok(client, "SET %s %s NX EX %d", client->lock_name, value, (int)client->lease_s);
}

static bool take_with_token(struct lab_client *client)
{
    lab_token(client);
    return take(client, client->token);
}

/* Whosever it is. */
static void drop(struct lab_client *client)
{
    lab_step(client, STEP_RELEASING);
    lab_integer(client, "DEL %s", client->lock_name);
}

static void drop_mine(struct lab_client *client)
{
    static const char script[] = "if redis.call('GET', KEYS[1]) == ARGV[1] then"
                                 "  return redis.call('DEL', KEYS[1]) end return 0";
    lab_step(client, STEP_RELEASING);
    lab_integer(client, "EVAL %s 1 %s %s", script, client->lock_name, client->token);
}

/* ---- 0: every process that misses loads; what the others are compared with ---- */

static bool take_nothing(struct lab_client *client)
{
    (void)client;
    return true;
}

/*
 * ---- 1: SETNX, and DEL when done ----
 *
 * From the command's first description: redis.io, SETNX, "Design pattern: Locking with SETNX", which goes on to warn
 * of it. Breaks when a holder dies: nobody deletes the lock, and it has no end of its own.
 */
static bool acquire_setnx(struct lab_client *client)
{
    return lab_integer(client, "SETNX %s 1", client->lock_name) == 1;
}

/*
 * ---- 2: SETNX, then EXPIRE: the first repair, in two commands ----
 *
 * Josiah Carlson, Redis in Action, 6.2.5, sets the expiry in a second command (and mends the gap by letting every
 * waiter look whether one is missing); countless articles leave the mending out. Breaks when a holder dies between
 * the two.
 */
static bool acquire_setnx_expire(struct lab_client *client)
{
    if (!acquire_setnx(client))
        return false;
    lab_step(client, STEP_CLAIMED);
    lab_integer(client, "EXPIRE %s %d", client->lock_name, (int)client->lease_s);
    return true;
}

/*
 * ---- 3: SET NX EX with a constant value, DEL when done ----
 *
 * redis.io, SET, "Patterns", first form ("a simple way to implement a locking system"); as the "mutex key" of Redis
 * development and operations (Fu, Zhang), chapter 11, in most articles about cache breakdown. Breaks when the work
 * outlives the lease: the late holder deletes the lock of its successor.
 */
static bool acquire_constant(struct lab_client *client)
{
    return take(client, "1");
}

/*
 * ---- 4: a UUID in the lock; GET, compare, DEL in the client ----
 *
 * The usual repair of 3 in articles, before they arrive at a script. Breaks when the holder stops between the
 * comparison and the DEL: what it compared is not what it deletes.
 */
static void compare_and_delete(struct lab_client *client)
{
    struct redisReply *owner = lab_command(client, "GET %s", client->lock_name);
    if (owner->type == REDIS_REPLY_STRING && strcmp(owner->str, client->token) == 0)
        drop(client);
    freeReplyObject(owner);
}

/*
 * ---- 5: a UUID in the lock, compared and deleted by one script; no renewal ----
 *
 * redis.io, SET, "Patterns", second form, and one node of Redlock. Breaks when the work outlives the lease: two
 * holders, each of them sure. Martin Kleppmann, How to do distributed locking (2016), adds the rest: a holder that
 * was paused still writes, because nothing but a fencing token checked where it writes stops it.
 */
/*
 * ---- 5b: SETNX and EXPIRE in one script, and waiting by sleeping 100 ms and calling oneself ----
 *
 * The other repair of 2, from before SET knew NX and EX together, and the way of waiting that most articles about
 * cache breakdown show: Thread.sleep(100); return get(key). It breaks as 5 does; what the waiting costs stands in the
 * wake delay (up to 100 ms after the value is there) and in the commands meanwhile. The recursion is a loop here.
 */
enum { SLEEP_MS = 100 };

static bool take_by_script(struct lab_client *client)
{
    static const char script[] = "if redis.call('SETNX', KEYS[1], ARGV[1]) == 1 then"
                                 "  redis.call('EXPIRE', KEYS[1], ARGV[2])  return 1 end return 0";
    lab_token(client);
    return lab_integer(client, "EVAL %s 1 %s %s %d", script, client->lock_name, client->token,
                       (int)client->lease_s) == 1;
}

/* ---- 2, 3 and 5 as locks ---- */

static bool try_expire(struct lab_client *client)
{
    if (!acquire_setnx(client))
        return false;
    lab_step(client, STEP_CLAIMED);
    lab_integer(client, "PEXPIRE %s %d", client->lock_name, (int)lab_lease_ms(client));
    return true;
}

static bool try_px(struct lab_client *client)
{
    lab_token(client);
    return lab_ok(client, "SET %s %s NX PX %d", client->lock_name, client->token, (int)lab_lease_ms(client));
}

#define AROUND_CACHE .groups = GROUP_CACHE, .get = lab_get_polling, .poll_ms = LAB_POLL_MS
#define AS_LOCK .groups = GROUP_LOCK, .get = lab_get_locked, .poll_ms = LAB_POLL_MS

/* ---- the table ---- */

const struct scheme schemes_plain[] = {
    {"0", "none", "no lock", "cache-aside as everybody begins", AROUND_CACHE, .acquire = take_nothing},
    {"1", "setnx", "SETNX without expiry", "redis.io, SETNX: locking pattern", AROUND_CACHE,
     .acquire = acquire_setnx, .release = drop},
    {"2", "setnx-expire", "SETNX, then EXPIRE", "Redis in Action 6.2.5 without its repair", AROUND_CACHE,
     .acquire = acquire_setnx_expire, .release = drop},
    {"3", "set-nx-ex", "SET NX EX with a constant, DEL", "redis.io, SET: patterns, first form", AROUND_CACHE,
     .acquire = acquire_constant, .release = drop},
    {"4", "uuid-get-del", "UUID; GET, compare, DEL", "articles on the way from (3) to (5)", AROUND_CACHE,
     .acquire = take_with_token, .release = compare_and_delete},
    {"5", "uuid-lua", "UUID, compare and delete in Lua", "redis.io, SET: patterns, second form", AROUND_CACHE,
     .acquire = take_with_token, .release = drop_mine},
    {"5b", "lua-sleep", "SETNX+EXPIRE in Lua, sleep 100 ms, recursion", "articles on cache breakdown",
     .groups = GROUP_CACHE, .get = lab_get_polling, .poll_ms = SLEEP_MS, .acquire = take_by_script,
     .release = drop_mine},
    {"2l", "expire-lock", "SETNX, then EXPIRE, DEL; as a lock", "Redis in Action 6.2.5 without its repair",
     AS_LOCK, .acquire = try_expire, .release = drop},
    {"3l", "px-lock", "SET NX PX, DEL; as a lock", "redis.io, SET: patterns, first form", AS_LOCK,
     .acquire = try_px, .release = drop},
    {"5l", "px-lua-lock", "SET NX PX, compare and delete in Lua; as a lock",
     "redis.io, SET: patterns, second form", AS_LOCK, .acquire = try_px, .release = drop_mine},
    {.name = NULL},
};
