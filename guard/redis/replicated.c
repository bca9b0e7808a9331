/* SPDX-License-Identifier: MIT */
/* redis/replicated.c - see redis/replicated.h. */
#include "replicated.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum { WAIT_ARGUMENT_SIZE = 16 };

struct replicated_call {
    struct replicated_call *prev, *next;
    struct redis_replicated *replicated;
    redis_replied *replied;
    void *context;
    bool
        has_run; /* its reply is there. Replies come in order: the next WAIT that is answered was sent behind it */
    long long code;
};

struct redis_replicated {
    struct redis_connection *connection; /* owned */
    uint32_t replicas, wait_ms;
    struct replicated_call *calls; /* oldest first; owned until they are answered */
    bool waiting;                  /* a WAIT is out */
    bool closing;
    struct host_told told;
};

static void answer_replicated(struct redis_replicated *replicated, struct replicated_call *call,
                              enum redis_outcome outcome, const struct redisReply *reply)
{
    redis_replied *replied = call->replied;
    void *context = call->context;
    DL_DELETE(replicated->calls, call);
    free(call);
    if (replied != NULL)
        replied(context, outcome, reply);
}

/* ---- WAIT ---- */

static void on_wait(void *context, enum redis_outcome outcome, const struct redisReply *reply);

/* Behind all that has been sent. */
static void send_wait(struct redis_replicated *replicated)
{
    char replicas[WAIT_ARGUMENT_SIZE], ms[WAIT_ARGUMENT_SIZE];
    const char *argv[] = {"WAIT", replicas, ms};
    const size_t argv_bytes[] = {
        4, (size_t)snprintf(replicas, sizeof replicas, "%" PRIu32, replicated->replicas),
        (size_t)snprintf(ms, sizeof ms, "%" PRIu32, replicated->wait_ms)};
    replicated->waiting = connection_send(replicated->connection, 3, argv, argv_bytes, on_wait, replicated);
}

static struct replicated_call *next_run(struct redis_replicated *replicated)
{
    struct replicated_call *call = replicated->calls;
    while (call != NULL && !call->has_run)
        call = call->next;
    return call;
}

static void judge_call(struct redis_replicated *replicated, struct replicated_call *call,
                       enum redis_outcome outcome, const struct redisReply *reply)
{
    const struct redisReply code = {.type = REDIS_REPLY_INTEGER, .integer = call->code};
    if (outcome == REDIS_REPLIED && reply->type == REDIS_REPLY_ERROR)
        answer_replicated(replicated, call, REDIS_REPLIED, reply);
    else if (outcome == REDIS_REPLIED && reply->type == REDIS_REPLY_INTEGER &&
             reply->integer >= (long long)replicated->replicas)
        answer_replicated(replicated, call, REDIS_REPLIED, &code);
    else
        answer_replicated(replicated, call, REDIS_UNKNOWN, NULL);
}

static void on_wait(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    struct redis_replicated *replicated = context;
    struct replicated_call *call = NULL;
    replicated->waiting = false;
    while ((call = next_run(replicated)) != NULL)
        judge_call(replicated, call, outcome, reply);
    if (replicated->calls != NULL && !replicated->waiting)
        send_wait(replicated);
}

/* ---- scripts ---- */

static void on_replicated_script(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    struct replicated_call *call = context;
    struct redis_replicated *replicated = call->replicated;
    if (outcome != REDIS_REPLIED || reply->type != REDIS_REPLY_INTEGER) {
        answer_replicated(replicated, call, outcome, reply);
        return;
    }
    call->has_run = true;
    call->code = reply->integer;
    if (!replicated->waiting) /* none could be sent */
        answer_replicated(replicated, call, REDIS_UNKNOWN, NULL);
}

bool replicated_run(struct redis_replicated *replicated, const struct redis_call *wanted)
{
    struct redis_call script = *wanted;
    struct replicated_call *call = calloc(1, sizeof *call);
    if (call == NULL)
        return false;
    *call = (struct replicated_call){
        .replicated = replicated, .replied = wanted->replied, .context = wanted->context};
    script.replied = on_replicated_script;
    script.context = call;
    if (replicated->closing || !connection_call(replicated->connection, &script)) {
        free(call);
        return false;
    }
    DL_APPEND(replicated->calls, call);
    if (!replicated->waiting)
        send_wait(replicated);
    return true;
}

/* ---- from open to close ---- */

struct redis_replicated *replicated_open(struct guard_host *host, const struct redis_config *config)
{
    const struct redis_url *url = &config->topology->url;
    struct redis_config own = *config;
    struct redis_replicated *replicated = calloc(1, sizeof *replicated);
    if (replicated == NULL)
        return NULL;
    own.limit_ms += url->wait_ms;
    own.hooks = (struct redis_hooks){.context = NULL};
    own.news = NULL;
    replicated->replicas = url->wait_replicas;
    replicated->wait_ms = url->wait_ms;
    replicated->connection = connection_open(host, &own);
    if (replicated->connection == NULL) {
        free(replicated);
        return NULL;
    }
    return replicated;
}

static void on_replicated_closed(void *context)
{
    struct redis_replicated *replicated = context;
    host_free_and_tell(replicated, replicated->told);
}

void replicated_close(struct redis_replicated *replicated, void (*closed)(void *context), void *context)
{
    replicated->closing = true;
    replicated->told = (struct host_told){closed, context};
    connection_close(replicated->connection, on_replicated_closed, replicated);
}
