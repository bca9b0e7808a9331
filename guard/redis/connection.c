/* SPDX-License-Identifier: MIT */
/*
 * redis/connection.c - the life of one Redis connection. The stages are drawn in redis/redis.h.
 *
 * Flow      redis_send() appends to the pipeline. What the first command of a turn asks the loop for soon, and last
 *           of all, writes everything before the loop waits again, whatever in the turn sent it.
 * Limits    One timer, set no later than the earliest limit; it may ring early and is then set again. Before
 *           anything is declared late, everything that has arrived is read: a loop that was busy for longer
 *           than the limit must not mistake its own delay for Redis's.
 * Lifetime  A callback may close or reset the connection. `epoch` changes with every socket, so code that has
 *           called out looks whether it still serves the same one; the struct itself is freed by a callback of
 *           its own.
 */
#include "../base/chance.h"
#include "../base/clock.h"
#include "error.h"
#include "greeting.h"
#include "pipeline.h"
#include "reader.h"
#include "socket.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    READS_PER_EVENT = 16,   /* then the loop's others have their turn */
    DENIED_DWELL_MS = 1000, /* after the last denial */
    PROVING_MS = 100,       /* between the two greetings */
    TEXT_SIZE = REDIS_LABEL_SIZE + REDIS_WHY_SIZE,
};

static const char fenced_text[] = "fenced: a master without its replicas; another may have taken its place";

enum stage {
    STAGE_RESTING,  /* until rest is over; no socket */
    STAGE_REACHING, /* DNS and connect */
    STAGE_GREETING, /* login and what belongs to it is sent */
    STAGE_PROVING,  /* it was greeted and will be asked once more */
    STAGE_UP,
    STAGE_CLOSED,
    STAGE_COUNT,
};

struct redis {
    struct redis_config config; /* channel and client_name are owned copies */
    char label[REDIS_LABEL_SIZE];
    struct redis_counters own_counters; /* where the owner has none */
    struct redis_counters *counters;
    struct redis_reign own_reign; /* likewise */
    struct redis_reign *reign;
    struct chance chance;

    struct guard_host *host;
    struct host_timer timer;
    struct host_soon flusher, closer;
    void (*closed)(void *context);
    void *closed_context;

    enum stage stage;
    uint64_t stage_ends_ms; /* RESTING: the next attempt; REACHING, GREETING: the limit; PROVING: its end */
    uint32_t failures;      /* in a row */
    uint64_t epoch;
    uint64_t batches;                /* written, or begun to be */
    struct redis_socket *socket;     /* owned; NULL: RESTING, CLOSED */
    struct redis_reader reader;      /* open while there is a socket */
    struct redis_greeting greeting;  /* its fence is the connection's */
    struct redis_buffer hello;       /* the greeting's commands */
    unsigned greetings;              /* answered on this socket */
    bool proves;                     /* the server did not answer in time: greeted twice */
    bool is_master;                  /* the last ROLE said so */
    uint64_t reign_seen, generation; /* before the greeting; under which it came up */

    struct redis_pipeline pipeline;
    bool counted; /* something of it has been, since the last batch */

    enum guard_redis_state told_state;
    char told_text[TEXT_SIZE];
    uint64_t denied_until_ms; /* UP, but told DENIED: for this long */

    char input[REDIS_FEED_BYTES]; /* of one read; on the stack, a hardened build would zero it each time */
};

static uint64_t now_ms(void)
{
    return clock_now_us() / 1000;
}

static void count_one(_Atomic uint64_t *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

static const bool legal_move[STAGE_COUNT][STAGE_COUNT] = {
    [STAGE_RESTING] = {[STAGE_REACHING] = true, [STAGE_CLOSED] = true},
    [STAGE_REACHING] = {[STAGE_RESTING] = true, [STAGE_GREETING] = true, [STAGE_CLOSED] = true},
    [STAGE_GREETING] =
        {[STAGE_RESTING] = true, [STAGE_PROVING] = true, [STAGE_UP] = true, [STAGE_CLOSED] = true},
    [STAGE_PROVING] = {[STAGE_RESTING] = true, [STAGE_GREETING] = true, [STAGE_CLOSED] = true},
    [STAGE_UP] = {[STAGE_RESTING] = true, [STAGE_CLOSED] = true},
};

static void move_on(struct redis *redis, enum stage to)
{
    assert(legal_move[redis->stage][to]);
    redis->stage = to;
}

/* Another master was confirmed, or this one is none: nothing that comes over it reaches a caller. */
static bool is_void(const struct redis *redis)
{
    return redis->stage == STAGE_UP && redis->generation != redis_reign_now(redis->reign);
}

/* ---- telling ---- */

static void tell(struct redis *redis, enum guard_redis_state state, const char *why)
{
    char text[TEXT_SIZE];

    snprintf(text, sizeof text, "%s: %s", redis->label, why);
    if (state == redis->told_state && strcmp(text, redis->told_text) == 0)
        return;
    redis->told_state = state;
    memcpy(redis->told_text, text, sizeof text);
    if (redis->config.hooks.state != NULL)
        redis->config.hooks.state(redis->config.hooks.context, state, text);
}

/* "up", what the login lacks, and what is to be known of TLS. */
static const char *summary(const struct redis *redis, char text[TEXT_SIZE])
{
    const char *remark = redis_socket_remark(redis->socket);

    snprintf(text, TEXT_SIZE, "%s%s%s", redis_greeting_summary(&redis->greeting),
             remark[0] != '\0' ? "; " : "", remark);
    return text;
}

/* What it is while it is up: told after everything that may have changed that. */
static void tell_up(struct redis *redis)
{
    char text[TEXT_SIZE];

    if (now_ms() < redis->denied_until_ms)
        return; /* end_denial() */
    if (redis->greeting.fence.no_replicas)
        tell(redis, GUARD_REDIS_FENCED, fenced_text);
    else
        tell(redis, GUARD_REDIS_UP, summary(redis, text));
}

/* ---- the timer ---- */

/* A ring that is set for earlier will do: it sets the next one. */
static void ring_by(struct redis *redis, uint64_t at_ms)
{
    uint64_t at_us = at_ms < UINT64_MAX / 1000 ? at_ms * 1000 : UINT64_MAX;

    if (redis->stage != STAGE_CLOSED && (!redis->timer.set || at_us < redis->timer.at_us))
        host_timer_set(redis->host, &redis->timer, at_us);
}

/* ---- losing ---- */

static void drop_socket(struct redis *redis)
{
    redis->epoch++;
    redis_socket_reset(&redis->socket);
    redis_reader_close(&redis->reader);
    redis_buffer_clear(&redis->hello);
}

/* Denied: an operator has to do something, so there is no hurry. */
static uint32_t rest_ms(struct redis *redis, enum guard_redis_state state)
{
    uint32_t first = redis->config.backoff_ms, most = redis->config.max_backoff_ms;

    if (state == GUARD_REDIS_DENIED)
        return chance_backoff(&redis->chance, most, most, 0);
    return chance_backoff(&redis->chance, first, most, redis->failures);
}

/* Gives the connection up. What waited for it to come up goes on waiting; what was entrusted to it is answered. Callers
 * touch nothing afterwards that belongs to the old epoch. */
static void lose(struct redis *redis, enum guard_redis_state state, const char *why)
{
    bool was_up = redis->stage == STAGE_UP;
    struct redis_pipeline pending = {.count = 0};

    if (was_up)
        pending = redis_pipeline_detach(&redis->pipeline);
    drop_socket(redis);
    move_on(redis, STAGE_RESTING);
    redis->stage_ends_ms = now_ms() + rest_ms(redis, state);
    if (!was_up)
        redis->failures++;
    ring_by(redis, redis->stage_ends_ms);
    tell(redis, state, why);
    redis_pipeline_abandon(&pending);
}

static void lose_late(struct redis *redis, const char *what, uint32_t limit_ms)
{
    char why[REDIS_WHY_SIZE];

    snprintf(why, sizeof why, "%s within %u ms", what, (unsigned)limit_ms);
    count_one(&redis->counters->timeouts);
    redis->proves = redis->proves || redis->stage != STAGE_REACHING || redis_socket_awaits_tls(redis->socket);
    lose(redis, GUARD_REDIS_DOWN, why);
}

/* The server is a replica: no connection of the process has any business with it. */
static void lose_demoted(struct redis *redis, const struct redisReply *reply)
{
    char why[REDIS_WHY_SIZE] = "demoted to a replica: ROLE says so";

    if (reply->type == REDIS_REPLY_ERROR)
        redis_explain(reply, "demoted to a replica: ", false, why);
    redis_reign_end(redis->reign, redis->generation);
    lose(redis, GUARD_REDIS_REPLICA, why);
}

/* ---- writing ---- */

enum progress { PROGRESS_DONE, PROGRESS_MORE, PROGRESS_LOST };
static enum progress receive(struct redis *redis);

/* The other side may have answered, and told the reason, before it hung up: its last words come first. */
static void write_failed(struct redis *redis, int error)
{
    char why[REDIS_WHY_SIZE];
    enum progress progress;

    do
        progress = receive(redis);
    while (progress == PROGRESS_MORE);
    if (progress == PROGRESS_LOST)
        return;
    redis_socket_explain(redis->socket, "write", error, why);
    lose(redis, GUARD_REDIS_DOWN, why);
}

static void flush(struct redis *redis)
{
    struct redis_buffer *buffer = redis->stage == STAGE_GREETING ? &redis->hello : &redis->pipeline.out;
    ssize_t put = 0;

    if (redis->stage != STAGE_GREETING && redis->stage != STAGE_UP)
        return;
    redis->batches++;
    while (redis_buffer_bytes(buffer) > 0) {
        put = redis_socket_write(redis->socket, buffer->data + buffer->begin, redis_buffer_bytes(buffer));
        if (put < 0)
            break;
        redis_buffer_consume(buffer, (size_t)put);
    }
    if (put == -EAGAIN)
        redis_socket_await_room(redis->socket);
    else if (put < 0)
        write_failed(redis, (int)-put);
}

static void on_flush(void *context)
{
    struct redis *redis = context;

    if (redis_buffer_bytes(&redis->pipeline.out) > 0 && redis->counted)
        count_one(&redis->counters->round_trips);
    redis->counted = false;
    flush(redis);
}

static void flush_this_turn(struct redis *redis)
{
    if (redis->stage == STAGE_UP)
        host_soon(redis->host, &redis->flusher);
}

/* ---- sending ---- */

static bool queue(struct redis *redis, size_t argc, const char *const *argv, const size_t *argv_bytes,
                  struct redis_command *command)
{
    uint64_t now = now_ms();

    assert(redis->config.channel == NULL);
    if (redis->stage == STAGE_CLOSED ||
        !redis_pipeline_fits(&redis->pipeline, redis->config.max_pending_bytes, argc, argv_bytes))
        return false;
    command->deadline_ms = now + redis->config.limit_ms;
    if (!redis_pipeline_add(&redis->pipeline, argc, argv, argv_bytes, command))
        return false;
    redis->greeting.fence.sent_ms = now;
    ring_by(redis, is_void(redis) ? now : command->deadline_ms);
    flush_this_turn(redis);
    return true;
}

static bool enqueue(struct redis *redis, size_t argc, const char *const *argv, const size_t *argv_bytes,
                    struct redis_command *command)
{
    if (!queue(redis, argc, argv, argv_bytes, command))
        return false;
    redis->counted = true;
    count_one(&redis->counters->commands);
    return true;
}

bool redis_send(struct redis *redis, size_t argc, const char *const *argv, const size_t *argv_bytes,
                redis_replied *replied, void *context)
{
    struct redis_command command = {.replied = replied, .context = context};

    return enqueue(redis, argc, argv, argv_bytes, &command);
}

/* ROLE of a value that is read, or of a heartbeat. */
static void on_role(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    struct redis *redis = context;

    if (outcome != REDIS_REPLIED)
        return;
    redis->is_master = redis_is_master(reply);
    if (reply->type == REDIS_REPLY_ERROR) {
        redis_fence_no_role(&redis->greeting.fence, redis_error_classify(reply->str, reply->len));
        tell_up(redis);
    } else if (!redis->is_master) {
        lose_demoted(redis, reply);
    }
}

static bool queue_role(struct redis *redis)
{
    struct redis_command command = {.replied = on_role, .context = redis};

    return queue(redis, 1, (const char *[]){"ROLE"}, (size_t[]){4}, &command);
}

bool redis_send_get(struct redis *redis, const char *name, size_t name_bytes, redis_replied *replied,
                    void *context)
{
    struct redis_command command = {.replied = replied, .context = context};
    const char *argv[] = {"GETEX", name};
    size_t argv_bytes[] = {5, name_bytes};

    switch (redis->greeting.fence.mode) {
    case REDIS_FENCE_SHUT:
        return false;
    case REDIS_FENCE_ROLE:
        argv[0] = "GET";
        argv_bytes[0] = 3;
        command.needs_master = true;
        return queue_role(redis) && enqueue(redis, 2, argv, argv_bytes, &command);
    case REDIS_FENCE_WRITE:
        break;
    }
    command.tries_fence = true;
    return enqueue(redis, 2, argv, argv_bytes, &command);
}

bool redis_run(struct redis *redis, unsigned script, size_t key_count, size_t argc, const char *const *argv,
               const size_t *argv_bytes, redis_replied *replied, void *context)
{
    const struct redis_script *source = &redis->config.scripts[script];
    const char *digest = redis->greeting.digests[script];
    struct redis_command command = {.replied = replied, .context = context};
    struct redis_script_command words = {.argc = 0};

    assert(script < redis->config.script_count);
    redis_script_compose(&words, source, digest, key_count, argc, argv, argv_bytes);
    if (digest[0] != '\0') {
        command.call = redis_script_keep(source, key_count, argc, argv, argv_bytes);
        if (command.call == NULL)
            return false;
    }
    if (enqueue(redis, words.argc, words.argv, words.argv_bytes, &command))
        return true;
    free(command.call);
    return false;
}

/* ---- the heartbeat ---- */

static void queue_write(struct redis *redis)
{
    struct redis_command command = {.tries_fence = true};
    bool zrem = redis->greeting.fence.no_getex;
    const char *argv[] = {zrem ? "ZREM" : "GETEX", REDIS_BEAT_KEY, ""};

    queue(redis, zrem ? 3 : 2, argv, (size_t[]){strlen(argv[0]), strlen(REDIS_BEAT_KEY), 0}, &command);
}

/* What waits for a reply already tells as well that the server goes on, but opens no fence. */
static bool needs_write(const struct redis *redis)
{
    return redis->pipeline.count == 0 || redis->greeting.fence.mode != REDIS_FENCE_WRITE;
}

/* A subscriber may not send one, but notices here that its reign is over. */
static void beat_if_due(struct redis *redis)
{
    enum redis_beat due = REDIS_BEAT_NONE;

    if (is_void(redis))
        lose(redis, GUARD_REDIS_DOWN, "another master was confirmed");
    if (redis->stage == STAGE_UP && redis_fence_redials(&redis->greeting.fence, now_ms()))
        lose(redis, GUARD_REDIS_FENCED, fenced_text);
    if (redis->stage != STAGE_UP)
        return;
    due = redis_fence_beat(&redis->greeting.fence, now_ms());
    if (redis->config.channel == NULL && due == REDIS_BEAT_WRITE && needs_write(redis))
        queue_write(redis);
    else if (redis->config.channel == NULL && due == REDIS_BEAT_ROLE)
        queue_role(redis);
    ring_by(redis, redis_fence_next_ms(&redis->greeting.fence));
}

/* ---- the greeting ---- */

static void came_up(struct redis *redis)
{
    if (!redis_reign_join(redis->reign, redis->reign_seen, redis->greeting.reign, &redis->generation)) {
        lose(redis, GUARD_REDIS_DOWN, "another master was confirmed meanwhile");
        return;
    }
    move_on(redis, STAGE_UP);
    redis->failures = 0;
    redis->denied_until_ms = 0;
    redis->proves = false;
    redis_buffer_clear(&redis->hello);
    redis_fence_up(&redis->greeting.fence, now_ms());
    ring_by(redis, redis_fence_next_ms(&redis->greeting.fence));
    count_one(&redis->counters->connects);
    flush_this_turn(redis);
    tell_up(redis);
}

/* A server that was stopped and goes on has not heard yet of what happened meanwhile. A subscriber has nothing to
 * answer. */
static void greeted(struct redis *redis)
{
    if (!redis->proves || redis->config.channel != NULL || ++redis->greetings > 1) {
        came_up(redis);
        return;
    }
    move_on(redis, STAGE_PROVING);
    redis->stage_ends_ms = now_ms() + PROVING_MS;
    ring_by(redis, redis->stage_ends_ms);
}

static void greet_again(struct redis *redis)
{
    move_on(redis, STAGE_GREETING);
    redis->stage_ends_ms = now_ms() + redis->config.connect_limit_ms;
    if (redis_greeting_write_again(&redis->greeting, &redis->hello))
        flush(redis);
    else
        lose(redis, GUARD_REDIS_DOWN, "out of memory");
}

static void take_greeting(struct redis *redis, const struct redisReply *reply)
{
    char why[REDIS_WHY_SIZE];

    switch (redis_greeting_read(&redis->greeting, reply, why)) {
    case REDIS_GREETING_GOES_ON:
        break;
    case REDIS_GREETING_DONE:
        greeted(redis);
        break;
    case REDIS_GREETING_FAILED:
        lose(redis, GUARD_REDIS_DOWN, why);
        break;
    case REDIS_GREETING_REPLICA:
        lose(redis, GUARD_REDIS_REPLICA, why);
        break;
    case REDIS_GREETING_DENIED:
        lose(redis, GUARD_REDIS_DENIED, why);
        break;
    }
}

/* ---- replies ---- */

/* An error reply after which the connection is of no use, in its own words. */
static void lose_refused(struct redis *redis, const struct redisReply *reply)
{
    char why[REDIS_WHY_SIZE];

    redis_explain(reply, "", false, why);
    lose(redis, GUARD_REDIS_DOWN, why);
}

static void take_message(struct redis *redis, const struct redisReply *reply)
{
    const struct redis_hooks *hooks = &redis->config.hooks;

    if (reply->type == REDIS_REPLY_ERROR)
        lose_refused(redis, reply);
    else if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 3 ||
             !redis_reply_is(reply->element[0], "message") ||
             !redis_reply_is(reply->element[1], redis->config.channel) ||
             reply->element[2]->type != REDIS_REPLY_STRING)
        lose(redis, GUARD_REDIS_DOWN, "not a message of the channel");
    else if (hooks->message != NULL)
        hooks->message(hooks->context, reply->element[2]->str, reply->element[2]->len);
}

/* The same call by EVAL, as the command it was. Nothing ran, so one that is late by now is taken back. False:
 * no memory; the caller is told NOSCRIPT. */
static bool run_again(struct redis *redis, struct redis_command *command)
{
    struct redis_command again = *command;
    struct redis_script_command eval = {.argc = 0};

    if (now_ms() >= command->deadline_ms) {
        redis_command_answer(command, REDIS_UNSENT, NULL);
        return true;
    }
    again.call = NULL;
    again.resent = true;
    redis_script_compose_again(&eval, command->call);
    if (!redis_pipeline_add(&redis->pipeline, eval.argc, eval.argv, eval.argv_bytes, &again))
        return false;
    free(command->call);
    ring_by(redis, again.deadline_ms);
    flush_this_turn(redis);
    return true;
}

/* The login may do less than it could when it was greeted. Told with the first refusal; taken back by the timer
 * when a while has passed without another one, so that it is right for the busy and the idle alike. */
static void note_denied(struct redis *redis, const struct redisReply *reply)
{
    char why[REDIS_WHY_SIZE];

    redis->denied_until_ms = now_ms() + DENIED_DWELL_MS;
    ring_by(redis, redis->denied_until_ms);
    if (redis->told_state == GUARD_REDIS_DENIED)
        return;
    redis_explain(reply, "", false, why);
    tell(redis, GUARD_REDIS_DENIED, why);
}

static void end_denial(struct redis *redis)
{
    if (redis->stage != STAGE_UP || redis->told_state != GUARD_REDIS_DENIED)
        return;
    if (now_ms() >= redis->denied_until_ms)
        tell_up(redis);
    else
        ring_by(redis, redis->denied_until_ms);
}

/* The fence is changed before the caller hears of the error: it may ask again in the other way. */
static void take_error(struct redis *redis, struct redis_command *command, const struct redisReply *reply)
{
    enum redis_error_class class = redis_error_classify(reply->str, reply->len);
    bool tries_fence = command->tries_fence;
    uint64_t epoch = redis->epoch;

    if (class == REDIS_ERROR_NOSCRIPT && command->call != NULL && run_again(redis, command))
        return;
    count_one(&redis->counters->errors);
    if (tries_fence || class == REDIS_ERROR_FENCED)
        redis_fence_refused(&redis->greeting.fence, class);
    redis_command_answer(command, REDIS_REPLIED, reply);
    if (redis->epoch != epoch)
        return;
    if (class == REDIS_ERROR_READONLY)
        lose_demoted(redis, reply);
    else if (class == REDIS_ERROR_DENIED && !tries_fence)
        note_denied(redis, reply);
    else if (tries_fence || class == REDIS_ERROR_FENCED)
        tell_up(redis);
}

static void take_answer(struct redis *redis, const struct redisReply *reply)
{
    struct redis_command command;

    if (!redis_pipeline_take_written(&redis->pipeline, &command)) {
        lose(redis, GUARD_REDIS_DOWN, "a reply that nobody has asked for");
        return;
    }
    if (reply->type == REDIS_REPLY_ERROR) {
        take_error(redis, &command, reply);
        return;
    }
    if (command.tries_fence && redis->greeting.fence.mode != REDIS_FENCE_WRITE) {
        redis_fence_passed(&redis->greeting.fence);
        tell_up(redis);
    }
    if (command.needs_master && !redis->is_master)
        redis_command_answer(&command, REDIS_UNKNOWN, NULL);
    else
        redis_command_answer(&command, REDIS_REPLIED, reply);
}

static void take_reply(struct redis *redis, const struct redisReply *reply)
{
    if (is_void(redis))
        lose(redis, GUARD_REDIS_DOWN, "another master was confirmed");
    else if (redis->stage == STAGE_GREETING)
        take_greeting(redis, reply);
    else if (redis->config.channel != NULL)
        take_message(redis, reply);
    else
        take_answer(redis, reply);
}

/* ---- reading ---- */

static void read_failed(struct redis *redis, ssize_t got)
{
    char why[REDIS_WHY_SIZE];

    redis_socket_explain(redis->socket, "read", (int)-got, why);
    lose(redis, GUARD_REDIS_DOWN, why);
}

/* False: the connection these bytes came from is gone. */
static bool take_bytes(struct redis *redis, const char *data, size_t bytes)
{
    uint64_t epoch = redis->epoch;
    struct redisReply *reply = NULL;
    bool sound = redis_reader_feed(&redis->reader, data, bytes);
    char why[REDIS_WHY_SIZE];

    while (sound && (sound = redis_reader_next(&redis->reader, &reply)) && reply != NULL) {
        take_reply(redis, reply);
        freeReplyObject(reply);
        if (redis->epoch != epoch)
            return false;
    }
    if (sound)
        return true;
    snprintf(why, sizeof why, "%s", redis_reader_error(&redis->reader));
    lose(redis, GUARD_REDIS_DOWN, why);
    return false;
}

/* Reads a good piece. DONE: all that had arrived. */
static enum progress receive(struct redis *redis)
{
    for (unsigned i = 0; i < READS_PER_EVENT; i++) {
        ssize_t got = redis_socket_read(redis->socket, redis->input, sizeof redis->input);
        if (got == -EAGAIN)
            return PROGRESS_DONE;
        if (got <= 0) {
            read_failed(redis, got);
            return PROGRESS_LOST;
        }
        if (!take_bytes(redis, redis->input, (size_t)got))
            return PROGRESS_LOST;
        if (redis_socket_is_drained(redis->socket))
            return PROGRESS_DONE;
    }
    return PROGRESS_MORE;
}

/* ---- the socket's hooks ---- */

static void on_reached(void *context)
{
    struct redis *redis = context;

    move_on(redis, STAGE_GREETING);
    redis->greetings = 0;
    if (redis_reader_open(&redis->reader, redis->config.max_reply_bytes) &&
        redis_greeting_write(&redis->greeting, redis->config.address, redis->config.client_name,
                             redis->config.channel, &redis->hello))
        flush(redis);
    else
        lose(redis, GUARD_REDIS_DOWN, "out of memory");
}

static void on_failed(void *context, const char *why)
{
    lose(context, GUARD_REDIS_DOWN, why);
}

static void on_ready(void *context, bool room)
{
    if (receive(context) != PROGRESS_LOST && room)
        flush(context);
}

static void reach(struct redis *redis)
{
    redis->reign_seen = redis_reign_now(redis->reign);
    struct redis_socket_hooks hooks = {redis, on_reached, on_failed, on_ready};
    struct redis_socket_target target = {redis->config.address, redis->failures, redis->config.tls,
                                         redis->config.connect_limit_ms};
    char why[REDIS_WHY_SIZE];

    move_on(redis, STAGE_REACHING);
    redis->stage_ends_ms = now_ms() + redis->config.connect_limit_ms;
    ring_by(redis, redis->stage_ends_ms);
    redis->socket = redis_socket_open(redis->host, &target, &hooks, why);
    if (redis->socket == NULL)
        lose(redis, GUARD_REDIS_DOWN, why);
}

/* ---- limits ---- */

static bool stage_is_over(const struct redis *redis, uint64_t now)
{
    return redis->stage < STAGE_UP && now >= redis->stage_ends_ms;
}

static bool is_late(const struct redis *redis, uint64_t now)
{
    return stage_is_over(redis, now) || now >= redis_pipeline_deadline(&redis->pipeline);
}

/* Reads until nothing is late any more or nothing is left to read. */
static void catch_up(struct redis *redis)
{
    while ((redis->stage == STAGE_GREETING || redis->stage == STAGE_UP) && is_late(redis, now_ms()))
        if (receive(redis) != PROGRESS_MORE)
            return;
}

static const char *unreached(const struct redis *redis)
{
    if (redis_socket_awaits_dns(redis->socket))
        return "DNS: no answer";
    if (redis_socket_awaits_tls(redis->socket))
        return "TLS: no answer to the handshake";
    return "connect: no answer";
}

static void end_stage(struct redis *redis)
{
    if (redis->stage == STAGE_RESTING)
        reach(redis);
    else if (redis->stage == STAGE_PROVING)
        greet_again(redis);
    else if (redis->stage == STAGE_GREETING)
        lose_late(redis, "login: no answer", redis->config.connect_limit_ms);
    else
        lose_late(redis, unreached(redis), redis->config.connect_limit_ms);
}

/* What has not left yet is simply taken back; what has leaves the connection in doubt. */
static void end_late_commands(struct redis *redis)
{
    struct redis_command command;

    while (redis->stage != STAGE_CLOSED && now_ms() >= redis_pipeline_deadline(&redis->pipeline)) {
        if (redis_pipeline_take_back(&redis->pipeline, now_ms(), &command))
            redis_command_answer(&command, REDIS_UNSENT, NULL);
        else
            lose_late(redis, "command: no answer", redis->config.limit_ms);
    }
}

static void on_redis_timer(void *context)
{
    struct redis *redis = context;

    catch_up(redis);
    if (stage_is_over(redis, now_ms()))
        end_stage(redis);
    end_late_commands(redis);
    if (redis->stage == STAGE_CLOSED)
        return;
    end_denial(redis);
    beat_if_due(redis);
    ring_by(redis, redis_pipeline_deadline(&redis->pipeline));
    if (redis->stage != STAGE_UP)
        ring_by(redis, redis->stage_ends_ms);
}

/* ---- opening and closing ---- */

static char *copy_or_null(const char *text)
{
    return text != NULL ? strdup(text) : NULL;
}

static void free_redis(struct redis *redis)
{
    free((char *)redis->config.channel);
    free((char *)redis->config.client_name);
    redis_pipeline_abandon(&redis->pipeline); /* empty, but for its memory */
    redis_reign_clear(&redis->own_reign);
    free(redis);
}

static void on_close(void *context)
{
    struct redis *redis = context;
    void (*closed)(void *context) = redis->closed;
    void *closed_context = redis->closed_context;

    free_redis(redis);
    if (closed != NULL)
        closed(closed_context);
}

struct redis *redis_open(struct guard_host *host, const struct redis_config *config)
{
    struct redis *redis = calloc(1, sizeof *redis);

    assert(config->script_count <= REDIS_SCRIPTS_MAX);
    if (redis == NULL)
        return NULL;
    redis_reign_init(&redis->own_reign, NULL, NULL);
    redis->reign = config->reign != NULL ? config->reign : &redis->own_reign;
    redis->config = *config;
    redis->config.channel = copy_or_null(config->channel);
    redis->config.client_name = copy_or_null(config->client_name);
    if ((config->channel != NULL && redis->config.channel == NULL) ||
        (config->client_name != NULL && redis->config.client_name == NULL)) {
        free_redis(redis);
        return NULL;
    }
    redis_address_label(config->address, redis->label);
    redis->counters = config->counters != NULL ? config->counters : &redis->own_counters;
    redis->chance.state = config->jitter_seed;
    redis->greeting.scripts = config->scripts;
    redis->greeting.script_count = config->script_count;
    redis->host = host;
    redis->timer = (struct host_timer){.run = on_redis_timer, .context = redis};
    redis->flusher = (struct host_soon){.run = on_flush, .context = redis, .last = true};
    redis->closer = (struct host_soon){.run = on_close, .context = redis};
    redis->stage = STAGE_RESTING;
    ring_by(redis, now_ms());
    return redis;
}

void redis_close(struct redis *redis, void (*closed)(void *context), void *context)
{
    struct redis_pipeline pending = redis_pipeline_detach(&redis->pipeline);

    move_on(redis, STAGE_CLOSED);
    redis->closed = closed;
    redis->closed_context = context;
    host_timer_stop(redis->host, &redis->timer);
    host_soon_stop(&redis->flusher);
    host_soon(redis->host, &redis->closer);
    drop_socket(redis);
    redis_pipeline_abandon(&pending);
}

uint64_t redis_batch(const struct redis *redis)
{
    return redis->batches;
}

bool redis_is_up(const struct redis *redis)
{
    return redis->stage == STAGE_UP;
}

bool redis_may_look_up(const struct redis *redis)
{
    return redis->stage == STAGE_UP && redis->greeting.fence.mode != REDIS_FENCE_SHUT && !is_void(redis);
}

bool redis_is_whole(const struct redis *redis)
{
    char text[TEXT_SIZE];

    return redis_is_up(redis) && strcmp(summary(redis, text), "up") == 0;
}

void redis_reset(struct redis *redis, const char *why)
{
    if (redis->stage == STAGE_CLOSED)
        return;
    if (redis->stage != STAGE_RESTING)
        lose(redis, GUARD_REDIS_DOWN, why);
    if (redis->stage != STAGE_RESTING)
        return;
    redis->stage_ends_ms = now_ms();
    ring_by(redis, redis->stage_ends_ms);
}
