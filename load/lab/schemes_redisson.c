/* SPDX-License-Identifier: MIT */
/*
 * schemes_redisson.c - Redisson's locks: (6) around the double-checked look-up that its documentation's readers
 * write, (8) to (11) as locks; see redisson.h.
 *
 *     8   RLock            a waiter is woken by a message, and any newcomer may overtake it
 *     9   RFairLock        a list is the queue; a place in it ends at an instant that depends on those before it
 *     10  RReadWriteLock   one hash for all readers and the writer, and a key for each reader's end
 *     11  RSemaphore       a number, counted down and up
 *
 * Told by the classes org.redisson.Redisson{Lock,FairLock,ReadLock,WriteLock,Semaphore}: as of 2024, but the fair one
 * by the edition that waits 5 s for a dead waiter, as its documentation still has it; its successors wait 5 minutes.
 */
#include "load/lab/redisson.h"

#include "load/base/clock.h"

#include <hiredis/hiredis.h>

/* An integer; `missing` where the script answered nil. */
static long long number_of(struct redisReply *reply, long long missing)
{
    const long long number = reply->type == REDIS_REPLY_NIL ? missing : reply->integer;
    freeReplyObject(reply);
    return number;
}

static bool begin_lock(struct lab_client *client)
{
    return redisson_begin(client, &redisson_lock_kind);
}

/* ---- 6: RLock around a cache ---- */

/*
 * Breaks where a lock cannot help: the row changes while the load runs, or the holder is paused past its lease, and
 * the old value is stored all the same, for the fill asks nobody; and Redis coming back empty makes two holders.
 */
static int32_t get_cached(struct lab_client *client)
{
    int32_t version = lab_look(client);
    if (version != LAB_FAILED)
        return version;
    lab_step(client, STEP_LOOKED);
    if (!redisson_lock(client))
        return LAB_FAILED;
    lab_took(client);
    version = lab_look(client);
    if (version == LAB_FAILED)
        version = lab_load_and_fill(client);
    lab_gave(client);
    lab_step(client, STEP_RELEASING);
    redisson_unlock(client);
    return version;
}

/* ---- 8: RLock ---- */

/*
 * ---- 9: RFairLock ----
 *
 * KEYS: the hash, the queue (a list of owners), the ends of their places (a zset). A place ends thread_wait_ms after
 * the one before it, the first one's so long after the lock's TTL; who takes the lock moves all ends that much
 * closer. The instants are the clients' own clocks.
 */
enum { THREAD_WAIT_MS = 5000 };

#define DROP_STALE(now)                                                                                      \
    "while true do"                                                                                          \
    "  local first = redis.call('LINDEX', KEYS[2], 0)"                                                       \
    "  if not first then break end"                                                                          \
    "  if tonumber(redis.call('ZSCORE', KEYS[3], first)) > tonumber(" now ") then break end"                 \
    "  redis.call('ZREM', KEYS[3], first)"                                                                   \
    "  redis.call('LPOP', KEYS[2]) "                                                                         \
    "end "

static const char fair_lock_script[] = DROP_STALE(
    "ARGV[4]") "local first = redis.call('LINDEX', KEYS[2], 0) "
               "if redis.call('EXISTS', KEYS[1]) == 0 and (not first or first == ARGV[2]) then  "
               "redis.call('LPOP', KEYS[2])"
               "  redis.call('ZREM', KEYS[3], ARGV[2])"
               "  for _, other in ipairs(redis.call('ZRANGE', KEYS[3], 0, -1)) do"
               "    redis.call('ZINCRBY', KEYS[3], -tonumber(ARGV[3]), other)  end"
               "  redis.call('HSET', KEYS[1], ARGV[2], 1)"
               "  redis.call('PEXPIRE', KEYS[1], ARGV[1])  return nil end "
               "if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 1 then"
               "  redis.call('HINCRBY', KEYS[1], ARGV[2], 1)"
               "  redis.call('PEXPIRE', KEYS[1], ARGV[1])  return nil end "
               "local mine = redis.call('ZSCORE', KEYS[3], ARGV[2]) "
               "if mine then return mine - tonumber(ARGV[3]) - tonumber(ARGV[4]) end "
               "local last, ttl = redis.call('LINDEX', KEYS[2], -1) if last and last ~= ARGV[2] then"
               "  ttl = tonumber(redis.call('ZSCORE', KEYS[3], last)) - tonumber(ARGV[4]) else"
               "  ttl = redis.call('PTTL', KEYS[1]) end "
               "if redis.call('ZADD', KEYS[3], ttl + tonumber(ARGV[3]) + tonumber(ARGV[4]), ARGV[2]) == 1 "
               "then"
               "  redis.call('RPUSH', KEYS[2], ARGV[2]) end return ttl";

static const char fair_unlock_script[] = DROP_STALE(
    "ARGV[3]") "if redis.call('EXISTS', KEYS[1]) == 1 then"
               "  if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then return nil end"
               "  if redis.call('HINCRBY', KEYS[1], ARGV[2], -1) > 0 then"
               "    redis.call('PEXPIRE', KEYS[1], ARGV[1])    return 0  end  redis.call('DEL', KEYS[1]) end "
               "local next = redis.call('LINDEX', KEYS[2], 0) "
               "if next then redis.call('PUBLISH', KEYS[4] .. ':' .. next, 0) end return 1";

static unsigned long long wall_ms(void)
{
    return (unsigned long long)(clock_wall_us() / 1000);
}

static long long try_fair(struct lab_client *client)
{
    return number_of(
        lab_command(client, "EVAL %s 3 %s redisson_lock_queue:{%s} redisson_lock_timeout:{%s} %u %s %d %llu",
                    fair_lock_script, client->lock_name, client->lock_name, client->lock_name,
                    (unsigned)lab_lease_ms(client), client->state->owner, (int)THREAD_WAIT_MS, wall_ms()),
        REDISSON_TAKEN);
}

static void unlock_fair(struct lab_client *client)
{
    number_of(lab_command(client,
                          "EVAL %s 4 %s redisson_lock_queue:{%s} redisson_lock_timeout:{%s}"
                          " redisson_lock__channel:{%s} %u %s %llu",
                          fair_unlock_script, client->lock_name, client->lock_name, client->lock_name,
                          client->lock_name, (unsigned)lab_lease_ms(client), client->state->owner, wall_ms()),
              0);
}

static bool begin_fair(struct lab_client *client)
{
    static const struct redisson kind = {try_fair, redisson_renew, unlock_fair, "redisson_lock__channel",
                                         true};
    return redisson_begin(client, &kind);
}

/*
 * ---- 10: RReadWriteLock ----
 *
 * KEYS[1]: a hash with "mode" and how often each owner has locked; a writer's owner ends with ":write". Beside it a
 * key for each time that a reader has locked, with the end of that: PREFIX:owner:rwlock_timeout:n.
 */
static const char read_lock_script[] =
    "local mode = redis.call('HGET', KEYS[1], 'mode') if not mode then"
    "  redis.call('HSET', KEYS[1], 'mode', 'read', ARGV[2], 1)"
    "  redis.call('SET', KEYS[2] .. ':1', 1, 'PX', ARGV[1])"
    "  redis.call('PEXPIRE', KEYS[1], ARGV[1])  return nil end "
    "if mode == 'read' or (mode == 'write' and redis.call('HEXISTS', KEYS[1], ARGV[3]) == 1) then"
    "  local n = redis.call('HINCRBY', KEYS[1], ARGV[2], 1)"
    "  redis.call('SET', KEYS[2] .. ':' .. n, 1, 'PX', ARGV[1])"
    "  redis.call('PEXPIRE', KEYS[1], math.max(redis.call('PTTL', KEYS[1]), ARGV[1]))  return nil end return "
    "redis.call('PTTL', KEYS[1])";

/* The longest of the reads that are left becomes the hash's TTL. */
static const char read_unlock_script[] =
    "local mode = redis.call('HGET', KEYS[1], 'mode') "
    "if not mode then redis.call('PUBLISH', KEYS[2], 0) return 1 end "
    "if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return nil end "
    "local n = redis.call('HINCRBY', KEYS[1], ARGV[1], -1) "
    "if n == 0 then redis.call('HDEL', KEYS[1], ARGV[1]) end "
    "redis.call('DEL', KEYS[3] .. ':' .. (n + 1)) "
    "if redis.call('HLEN', KEYS[1]) > 1 then  local most = -3"
    "  for _, owner in ipairs(redis.call('HKEYS', KEYS[1])) do"
    "    local count = tonumber(redis.call('HGET', KEYS[1], owner))    for i = count or 0, 1, -1 do"
    "      most = math.max(most, redis.call('PTTL', KEYS[4] .. ':' .. owner .. ':rwlock_timeout:' .. i))    "
    "end  end"
    "  if most > 0 then redis.call('PEXPIRE', KEYS[1], most) return 0 end"
    "  if mode == 'write' then return 0 end end redis.call('DEL', KEYS[1]) redis.call('PUBLISH', KEYS[2], 0) "
    "return 1";

/* Lengthens everybody's reads, whoever they are. */
static const char read_renew_script[] =
    "if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then return 0 end "
    "redis.call('PEXPIRE', KEYS[1], ARGV[1]) "
    "if redis.call('HLEN', KEYS[1]) > 1 then"
    "  for _, owner in ipairs(redis.call('HKEYS', KEYS[1])) do"
    "    local count = tonumber(redis.call('HGET', KEYS[1], owner))    for i = count or 0, 1, -1 do"
    "      redis.call('PEXPIRE', KEYS[2] .. ':' .. owner .. ':rwlock_timeout:' .. i, ARGV[1])    end  end "
    "end return 1";

static const char write_lock_script[] =
    "local mode = redis.call('HGET', KEYS[1], 'mode') if not mode then"
    "  redis.call('HSET', KEYS[1], 'mode', 'write', ARGV[2], 1)"
    "  redis.call('PEXPIRE', KEYS[1], ARGV[1])  return nil end "
    "if mode == 'write' and redis.call('HEXISTS', KEYS[1], ARGV[2]) == 1 then"
    "  redis.call('HINCRBY', KEYS[1], ARGV[2], 1)"
    "  redis.call('PEXPIRE', KEYS[1], redis.call('PTTL', KEYS[1]) + ARGV[1])  return nil end return "
    "redis.call('PTTL', KEYS[1])";

static const char write_unlock_script[] =
    "local mode = redis.call('HGET', KEYS[1], 'mode') "
    "if not mode then redis.call('PUBLISH', KEYS[2], 1) return 1 end "
    "if mode ~= 'write' or redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then return nil end "
    "if redis.call('HINCRBY', KEYS[1], ARGV[2], -1) > 0 then"
    "  redis.call('PEXPIRE', KEYS[1], ARGV[1])  return 0 end "
    "redis.call('HDEL', KEYS[1], ARGV[2]) "
    "if redis.call('HLEN', KEYS[1]) == 1 then  redis.call('DEL', KEYS[1])"
    "  redis.call('PUBLISH', KEYS[2], 1) else"
    "  redis.call('HSET', KEYS[1], 'mode', 'read') end return 1";

static long long try_read(struct lab_client *client)
{
    return number_of(lab_command(client, "EVAL %s 2 %s {%s}:%s:rwlock_timeout %u %s %s:write",
                                 read_lock_script, client->lock_name, client->lock_name, client->state->owner,
                                 (unsigned)lab_lease_ms(client), client->state->owner, client->state->owner),
                     REDISSON_TAKEN);
}

static void unlock_read(struct lab_client *client)
{
    number_of(lab_command(client, "EVAL %s 4 %s %s {%s}:%s:rwlock_timeout {%s} %s", read_unlock_script,
                          client->lock_name, client->state->channel, client->lock_name, client->state->owner,
                          client->lock_name, client->state->owner),
              0);
}

static long long try_rw(struct lab_client *client)
{
    if (client->mode == MODE_SHARED)
        return try_read(client);
    return number_of(lab_command(client, "EVAL %s 1 %s %u %s:write", write_lock_script, client->lock_name,
                                 (unsigned)lab_lease_ms(client), client->state->owner),
                     REDISSON_TAKEN);
}

static void unlock_rw(struct lab_client *client)
{
    if (client->mode == MODE_SHARED)
        unlock_read(client);
    else
        number_of(lab_command(client, "EVAL %s 2 %s %s %u %s:write", write_unlock_script, client->lock_name,
                              client->state->channel, (unsigned)lab_lease_ms(client), client->state->owner),
                  0);
}

static struct redisReply *renew_rw(const struct lab_client *client, struct redisContext *redis)
{
    if (client->mode == MODE_SHARED)
        return redisCommand(redis, "EVAL %s 2 %s {%s} %u %s", read_renew_script, client->lock_name,
                            client->lock_name, (unsigned)lab_lease_ms(client), client->state->owner);
    return redisCommand(redis, "EVAL %s 1 %s %u %s:write", redisson_renew_script, client->lock_name,
                        (unsigned)lab_lease_ms(client), client->state->owner);
}

/* A read lock under the write lock is the same owner's: granted at once. */
static bool acquire_rw(struct lab_client *client)
{
    if (!redisson_lock(client))
        return false;
    if (client->mode == MODE_READ_UNDER) {
        try_read(client);
        unlock_read(client);
    }
    return true;
}

static bool begin_rw(struct lab_client *client)
{
    static const struct redisson kind = {try_rw, renew_rw, unlock_rw, "redisson_rwlock", false};
    return redisson_begin(client, &kind);
}

/*
 * ---- 11: RSemaphore ----
 *
 * A number is all there is of it: nobody knows who has a permit, so nobody can take back a dead one's.
 */
static const char set_permits_script[] =
    "local value = redis.call('GET', KEYS[1]) "
    "if not value then redis.call('SET', KEYS[1], ARGV[1]) redis.call('PUBLISH', KEYS[2], ARGV[1]) end "
    "return value and 0 or 1";

static const char permit_script[] =
    "local value = redis.call('GET', KEYS[1]) "
    "if value and tonumber(value) >= 1 then  redis.call('DECRBY', KEYS[1], 1)  return 1 end return 0";

static const char release_script[] =
    "redis.call('PUBLISH', KEYS[2], redis.call('INCRBY', KEYS[1], 1))return 1";

static long long try_permit(struct lab_client *client)
{
    return lab_integer(client, "EVAL %s 1 %s", permit_script, client->lock_name) == 1 ? REDISSON_TAKEN : -1;
}

static void release_permit(struct lab_client *client)
{
    lab_integer(client, "EVAL %s 2 %s %s", release_script, client->lock_name, client->state->channel);
}

static bool begin_semaphore(struct lab_client *client)
{
    static const struct redisson kind = {try_permit, NULL, release_permit, "redisson_sc", false};
    if (!redisson_begin(client, &kind))
        return false;
    lab_integer(client, "EVAL %s 2 %s %s %d", set_permits_script, client->lock_name, client->state->channel,
                (int)LAB_PERMITS);
    return true;
}

/* ---- the table ---- */

const struct scheme schemes_redisson[] = {
    {"6", "redisson", "Redisson: hash, watchdog, publish, subscribe", "org.redisson.RedissonLock",
     .groups = GROUP_CACHE, .open = begin_lock, .close = redisson_end, .get = get_cached},
    {"8", "redisson-lock", "Redisson's RLock", "org.redisson.RedissonLock",
     .groups = GROUP_LOCK | GROUP_CROWD, .crowd = redisson_crowd, .open = begin_lock, .close = redisson_end,
     .get = lab_get_locked, .acquire = redisson_lock, .release = redisson_unlock},
    {"9", "redisson-fair", "Redisson's RFairLock: a list, and ends of places",
     "org.redisson.RedissonFairLock", .groups = GROUP_LOCK | GROUP_FAIR | GROUP_CROWD,
     .crowd = redisson_crowd, .queue_length = "LLEN redisson_lock_queue:{lock:%s}", .open = begin_fair,
     .close = redisson_end, .get = lab_get_locked, .acquire = redisson_lock, .release = redisson_unlock},
    {"10", "redisson-rw", "Redisson's RReadWriteLock: one hash, and a key for each read",
     "org.redisson.RedissonReadLock, WriteLock", .groups = GROUP_RW, .open = begin_rw, .close = redisson_end,
     .get = lab_get_locked, .acquire = acquire_rw, .release = redisson_unlock},
    {"11", "redisson-sema", "Redisson's RSemaphore: a number", "org.redisson.RedissonSemaphore",
     .groups = GROUP_PERMITS, .open = begin_semaphore, .close = redisson_end, .get = lab_get_locked,
     .acquire = redisson_lock, .release = redisson_unlock},
    {.name = NULL},
};
