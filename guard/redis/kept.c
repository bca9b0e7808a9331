/* SPDX-License-Identifier: MIT */
/* redis/kept.c - see redis/kept.h. */
#include "kept.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum { WAIT_ARGUMENT_SIZE = 16 };

struct kept_call {
    struct kept_call *prev, *next;
    struct redis_kept *kept;
    redis_replied *replied;
    void *context;
    bool
        has_run; /* its reply is there. Replies come in order: the next WAIT that is answered was sent behind it */
    long long code;
};

struct redis_kept {
    struct redis_connection *connection; /* owned */
    uint32_t replicas, wait_ms;
    struct kept_call *calls; /* oldest first; owned until they are answered */
    bool waiting;            /* a WAIT is out */
    bool closing;
    struct host_told told;
};

static void answer_kept(struct redis_kept *kept, struct kept_call *call, enum redis_outcome outcome,
                        const struct redisReply *reply)
{
    redis_replied *replied = call->replied;
    void *context = call->context;

    DL_DELETE(kept->calls, call);
    free(call);
    if (replied != NULL)
        replied(context, outcome, reply);
}

/* ---- WAIT ---- */

static void on_wait(void *context, enum redis_outcome outcome, const struct redisReply *reply);

/* Behind all that has been sent. */
static void send_wait(struct redis_kept *kept)
{
    char replicas[WAIT_ARGUMENT_SIZE], ms[WAIT_ARGUMENT_SIZE];
    const char *argv[] = {"WAIT", replicas, ms};
    const size_t argv_bytes[] = {4, (size_t)snprintf(replicas, sizeof replicas, "%" PRIu32, kept->replicas),
                                 (size_t)snprintf(ms, sizeof ms, "%" PRIu32, kept->wait_ms)};

    kept->waiting = connection_send(kept->connection, 3, argv, argv_bytes, on_wait, kept);
}

static struct kept_call *next_run(struct redis_kept *kept)
{
    struct kept_call *call = kept->calls;

    while (call != NULL && !call->has_run)
        call = call->next;
    return call;
}

static void judge_call(struct redis_kept *kept, struct kept_call *call, enum redis_outcome outcome,
                       const struct redisReply *reply)
{
    const struct redisReply code = {.type = REDIS_REPLY_INTEGER, .integer = call->code};

    if (outcome == REDIS_REPLIED && reply->type == REDIS_REPLY_ERROR)
        answer_kept(kept, call, REDIS_REPLIED, reply);
    else if (outcome == REDIS_REPLIED && reply->type == REDIS_REPLY_INTEGER &&
             reply->integer >= (long long)kept->replicas)
        answer_kept(kept, call, REDIS_REPLIED, &code);
    else
        answer_kept(kept, call, REDIS_UNKNOWN, NULL);
}

static void on_wait(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    struct redis_kept *kept = context;
    struct kept_call *call = NULL;

    kept->waiting = false;
    while ((call = next_run(kept)) != NULL)
        judge_call(kept, call, outcome, reply);
    if (kept->calls != NULL && !kept->waiting)
        send_wait(kept);
}

/* ---- scripts ---- */

static void on_kept_script(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    struct kept_call *call = context;
    struct redis_kept *kept = call->kept;

    if (outcome != REDIS_REPLIED || reply->type != REDIS_REPLY_INTEGER) {
        answer_kept(kept, call, outcome, reply);
        return;
    }
    call->has_run = true;
    call->code = reply->integer;
    if (!kept->waiting) /* none could be sent */
        answer_kept(kept, call, REDIS_UNKNOWN, NULL);
}

bool kept_run(struct redis_kept *kept, unsigned script, size_t key_count, size_t argc,
              const char *const *argv, const size_t *argv_bytes, redis_replied *replied, void *context)
{
    struct kept_call *call = calloc(1, sizeof *call);

    if (call == NULL)
        return false;
    *call = (struct kept_call){.kept = kept, .replied = replied, .context = context};
    if (kept->closing ||
        !connection_run(kept->connection, script, key_count, argc, argv, argv_bytes, on_kept_script, call)) {
        free(call);
        return false;
    }
    DL_APPEND(kept->calls, call);
    if (!kept->waiting)
        send_wait(kept);
    return true;
}

/* ---- from open to close ---- */

struct redis_kept *kept_open(struct guard_host *host, const struct connection_config *config,
                             uint32_t replicas, uint32_t wait_ms)
{
    struct connection_config own = *config;
    struct redis_kept *kept = calloc(1, sizeof *kept);

    if (kept == NULL)
        return NULL;
    own.limit_ms += wait_ms;
    own.hooks = (struct redis_hooks){.context = NULL};
    own.news = NULL;
    kept->replicas = replicas;
    kept->wait_ms = wait_ms;
    kept->connection = connection_open(host, &own);
    if (kept->connection == NULL) {
        free(kept);
        return NULL;
    }
    return kept;
}

static void on_kept_closed(void *context)
{
    struct redis_kept *kept = context;
    host_free_and_tell(kept, kept->told);
}

void kept_close(struct redis_kept *kept, void (*closed)(void *context), void *context)
{
    kept->closing = true;
    kept->told = (struct host_told){closed, context};
    connection_close(kept->connection, on_kept_closed, kept);
}
