/* SPDX-License-Identifier: MIT */
/*
 * scheme_redisson.c - (6) Redisson's RLock around the double-checked look-up that its documentation's readers write; see
 * redisson.h.
 *
 * Breaks where a lock cannot help: the row changes while the load runs, or the holder is paused past its
 * lease, and the old value is stored all the same, for the fill asks nobody; and Redis coming back empty
 * makes two holders.
 */
#include "load/lab/redisson.h"

static bool begin(struct lab_client *client)
{
    return redisson_begin(client, &redisson_lock_kind);
}

static int32_t get(struct lab_client *client)
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

const struct scheme scheme_redisson = {
    .number = "6",
    .name = "redisson",
    .title = "Redisson: hash, watchdog, publish, subscribe",
    .source = "org.redisson.RedissonLock",
    .groups = GROUP_CACHE,
    .lock_prefix = "lock:",
    .open = begin,
    .close = redisson_end,
    .get = get,
};
