/* SPDX-License-Identifier: MIT */
/*
 * scheme_script.c - (5b) SETNX and EXPIRE in one script, and waiting by sleeping 100 ms and calling oneself.
 *
 * The other repair of (2), from before SET knew NX and EX together, and the way of waiting that most articles
 * about cache breakdown show: Thread.sleep(100); return get(key). It breaks as (5) does; what the waiting
 * costs stands in the wake delay (up to 100 ms after the value is there) and in the commands meanwhile.
 */
#include "load/lab/lab.h"

#include "load/base/clock.h"

enum { SLEEP_MS = 100, DEPTH_MAX = LAB_REQUEST_LIMIT_MS / SLEEP_MS };

static const char take[] = "if redis.call('SETNX', KEYS[1], ARGV[1]) == 1 then"
                           "  redis.call('EXPIRE', KEYS[1], ARGV[2])"
                           "  return 1 "
                           "end "
                           "return 0";

static const char delete_mine[] = "if redis.call('GET', KEYS[1]) == ARGV[1] then"
                                  "  return redis.call('DEL', KEYS[1]) "
                                  "end "
                                  "return 0";

static bool acquire(struct lab_client *client)
{
    lab_token(client);
    return lab_integer(client, "EVAL %s 1 %s %s %d", take, client->lock_name, client->token,
                       (int)client->lease_s) == 1;
}

static void release(struct lab_client *client)
{
    lab_step(client, STEP_RELEASING);
    lab_integer(client, "EVAL %s 1 %s %s", delete_mine, client->lock_name, client->token);
}

static int32_t get_again(struct lab_client *client, uint32_t depth)
{
    int32_t version = lab_look(client);
    if (version != LAB_FAILED || depth == DEPTH_MAX)
        return version;
    lab_step(client, STEP_LOOKED);
    if (!acquire(client)) {
        clock_pause_ms(SLEEP_MS);
        return get_again(client, depth + 1);
    }
    lab_took(client);
    version = lab_load_and_fill(client);
    lab_gave(client);
    release(client);
    return version;
}

static int32_t get(struct lab_client *client)
{
    return get_again(client, 0);
}

const struct scheme scheme_script = {
    .number = "5b",
    .name = "lua-sleep",
    .title = "SETNX+EXPIRE in Lua, sleep 100 ms, recursion",
    .source = "articles on cache breakdown",
    .lock_prefix = "lock:",
    .get = get,
};
