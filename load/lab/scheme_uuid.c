/* SPDX-License-Identifier: MIT */
/*
 * scheme_uuid.c - (4) a UUID in the lock; GET, compare, DEL in the client.
 *
 * The usual repair of (3) in articles, before they arrive at a script. Breaks when the holder stops between
 * the comparison and the DEL: what it compared is not what it deletes.
 */
#include "load/lab/lab.h"

#include <hiredis/hiredis.h>

#include <string.h>

static bool acquire(struct lab_client *client)
{
    lab_token(client);
    return lab_ok(client, "SET %s %s NX EX %d", client->lock_name, client->token, (int)client->lease_s);
}

static void release(struct lab_client *client)
{
    struct redisReply *owner = lab_command(client, "GET %s", client->lock_name);
    if (owner->type == REDIS_REPLY_STRING && strcmp(owner->str, client->token) == 0) {
        lab_step(client, STEP_RELEASING);
        lab_integer(client, "DEL %s", client->lock_name);
    }
    freeReplyObject(owner);
}

const struct scheme scheme_uuid = {
    .number = "4",
    .name = "uuid-get-del",
    .title = "UUID; GET, compare, DEL",
    .source = "articles on the way from (3) to (5)",
    .lock_prefix = "lock:",
    .get = lab_get_polling,
    .acquire = acquire,
    .release = release,
};
