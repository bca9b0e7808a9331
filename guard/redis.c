/* SPDX-License-Identifier: MIT */
/*
 * redis.c - the life of one Redis connection. The stages are drawn in redis.h.
 *
 * Flow      redis_send() appends to the pipeline. An idle handle, started by the first command of a turn,
 *           writes everything before the loop waits again: whatever in the turn sent it, also another
 *           handle's prepare callback, because a loop with an active idle handle does not block.
 * Limits    One timer, set no later than the earliest limit; it may ring early and is then set again. Before
 *           anything is declared late, everything that has arrived is read: a loop that was busy for longer
 *           than the limit must not mistake its own delay for Redis's.
 * Lifetime  A callback may close or reset the connection. `epoch` changes with every socket, so whoever has
 *           called out looks whether it still serves the same one; the struct itself lives until libuv has
 *           closed both handles, never within a callback.
 */
#include "redis.h"
#include "chance.h"
#include "redis_greeting.h"
#include "redis_pipeline.h"
#include "redis_reader.h"
#include "redis_socket.h"
#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    READS_PER_EVENT = 16,   /* then the loop's others have their turn */
    DENIED_DWELL_MS = 1000, /* after the last denial */
    NANOSECONDS_PER_MS = 1000000,
    TEXT_SIZE = REDIS_LABEL_SIZE + REDIS_WHY_SIZE,
};

enum stage {
    STAGE_RESTING,  /* until rest is over; no socket */
    STAGE_REACHING, /* DNS and connect */
    STAGE_GREETING, /* login and what belongs to it is sent */
    STAGE_UP,
    STAGE_CLOSED,
    STAGE_COUNT,
};

static const bool legal_move[STAGE_COUNT][STAGE_COUNT] = {
    [STAGE_RESTING] = {[STAGE_REACHING] = true, [STAGE_CLOSED] = true},
    [STAGE_REACHING] = {[STAGE_RESTING] = true, [STAGE_GREETING] = true, [STAGE_CLOSED] = true},
    [STAGE_GREETING] = {[STAGE_RESTING] = true, [STAGE_UP] = true, [STAGE_CLOSED] = true},
    [STAGE_UP] = {[STAGE_RESTING] = true, [STAGE_CLOSED] = true},
};

struct redis {
    struct redis_config config; /* channel and client_name are owned copies */
    char label[REDIS_LABEL_SIZE];
    struct redis_counters own_counters; /* where the owner has none */
    struct redis_counters *counters;
    struct chance chance;

    uv_loop_t *loop;
    uv_timer_t timer;
    uv_idle_t flusher;
    unsigned handle_count; /* of the two above, not closed yet */
    void (*closed)(void *context);
    void *closed_context;

    enum stage stage;
    uint64_t stage_ends_ms; /* RESTING: the next attempt; REACHING, GREETING: the limit */
    uint64_t rings_ms;      /* when the timer rings; UINT64_MAX: it is not set */
    uint32_t failures;      /* in a row */
    uint64_t epoch;
    uint64_t batches;            /* written, or begun to be */
    struct redis_socket *socket; /* owned; NULL: RESTING, CLOSED */
    struct redis_reader reader;  /* open while there is a socket */
    struct redis_greeting greeting;
    struct redis_buffer hello; /* the greeting's commands */

    struct redis_pipeline pipeline;

    enum guard_redis_state told_state;
    char told_text[TEXT_SIZE];
    uint64_t denied_until_ms; /* UP, but told DENIED: for this long */
};

static uint64_t now_ms(void)
{
    return uv_hrtime() / NANOSECONDS_PER_MS;
}

static void count(_Atomic uint64_t *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

static void move_on(struct redis *redis, enum stage to)
{
    assert(legal_move[redis->stage][to]);
    redis->stage = to;
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

/* ---- the timer ---- */

static void on_redis_timer(uv_timer_t *timer);

/* An earlier ring that is set already will do: it sets the next one. */
static void ring_by(struct redis *redis, uint64_t at_ms)
{
    uint64_t now = now_ms();

    if (at_ms >= redis->rings_ms)
        return;
    redis->rings_ms = at_ms;
    uv_timer_start(&redis->timer, on_redis_timer, at_ms > now ? at_ms - now : 0, 0);
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

/* Gives the connection up. What waited for it to come up goes on waiting; what was entrusted to it is
 * answered. Callers touch nothing afterwards that belongs to the old epoch. */
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

    snprintf(why, sizeof why, "%s: no answer within %u ms", what, (unsigned)limit_ms);
    count(&redis->counters->timeouts);
    lose(redis, GUARD_REDIS_DOWN, why);
}

/* ---- writing ---- */

enum progress { PROGRESS_DONE, PROGRESS_MORE, PROGRESS_LOST };
static enum progress receive(struct redis *redis);

/* The other side may have answered, and told the reason, before it hung up: its last words come first. */
static void write_failed(struct redis *redis, int uv_error)
{
    char why[REDIS_WHY_SIZE], text[128];
    enum progress progress;

    do
        progress = receive(redis);
    while (progress == PROGRESS_MORE);
    if (progress == PROGRESS_LOST)
        return;
    snprintf(why, sizeof why, "write: %s", uv_strerror_r(uv_error, text, sizeof text));
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
    if (put == UV_EAGAIN)
        redis_socket_await_room(redis->socket);
    else if (put < 0)
        write_failed(redis, (int)put);
}

static void on_flush(uv_idle_t *flusher)
{
    struct redis *redis = flusher->data;

    uv_idle_stop(flusher);
    if (redis_buffer_bytes(&redis->pipeline.out) > 0)
        count(&redis->counters->round_trips);
    flush(redis);
}

static void flush_this_turn(struct redis *redis)
{
    if (redis->stage == STAGE_UP && !uv_is_active((const uv_handle_t *)&redis->flusher))
        uv_idle_start(&redis->flusher, on_flush);
}

/* ---- replies ---- */

static void came_up(struct redis *redis)
{
    move_on(redis, STAGE_UP);
    redis->failures = 0;
    redis_buffer_clear(&redis->hello);
    count(&redis->counters->connects);
    flush_this_turn(redis);
    tell(redis, GUARD_REDIS_UP, "up");
}

static void take_greeting(struct redis *redis, const struct redisReply *reply)
{
    char why[REDIS_WHY_SIZE];

    switch (redis_greeting_read(&redis->greeting, reply, why)) {
    case REDIS_GREETING_GOES_ON:
        break;
    case REDIS_GREETING_DONE:
        came_up(redis);
        break;
    case REDIS_GREETING_FAILED:
        lose(redis, GUARD_REDIS_DOWN, why);
        break;
    case REDIS_GREETING_DENIED:
        lose(redis, GUARD_REDIS_DENIED, why);
        break;
    }
}

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
        tell(redis, GUARD_REDIS_UP, "up");
    else
        ring_by(redis, redis->denied_until_ms);
}

static void take_error(struct redis *redis, struct redis_command *command, const struct redisReply *reply)
{
    enum redis_error_class class = redis_error_classify(reply->str, reply->len);
    uint64_t epoch = redis->epoch;

    if (class == REDIS_ERROR_NOSCRIPT && command->call != NULL && run_again(redis, command))
        return;
    count(&redis->counters->errors);
    redis_command_answer(command, REDIS_REPLIED, reply);
    if (redis->epoch != epoch)
        return;
    if (class == REDIS_ERROR_READONLY)
        lose_refused(redis, reply);
    else if (class == REDIS_ERROR_DENIED)
        note_denied(redis, reply);
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
    redis_command_answer(&command, REDIS_REPLIED, reply);
}

static void take_reply(struct redis *redis, const struct redisReply *reply)
{
    if (redis->stage == STAGE_GREETING)
        take_greeting(redis, reply);
    else if (redis->config.channel != NULL)
        take_message(redis, reply);
    else
        take_answer(redis, reply);
}

/* ---- reading ---- */

static void read_failed(struct redis *redis, ssize_t got)
{
    char why[REDIS_WHY_SIZE], text[128];

    if (got == 0)
        snprintf(why, sizeof why, "closed by the other side");
    else
        snprintf(why, sizeof why, "read: %s", uv_strerror_r((int)got, text, sizeof text));
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
    char data[REDIS_FEED_BYTES];

    for (unsigned i = 0; i < READS_PER_EVENT; i++) {
        ssize_t got = redis_socket_read(redis->socket, data, sizeof data);
        if (got == UV_EAGAIN)
            return PROGRESS_DONE;
        if (got <= 0) {
            read_failed(redis, got);
            return PROGRESS_LOST;
        }
        if (!take_bytes(redis, data, (size_t)got))
            return PROGRESS_LOST;
        if ((size_t)got < sizeof data)
            return PROGRESS_DONE;
    }
    return PROGRESS_MORE;
}

/* ---- the socket's hooks ---- */

static void on_reached(void *context)
{
    struct redis *redis = context;

    move_on(redis, STAGE_GREETING);
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
    struct redis_socket_hooks hooks = {redis, on_reached, on_failed, on_ready};
    char why[REDIS_WHY_SIZE];

    move_on(redis, STAGE_REACHING);
    redis->stage_ends_ms = now_ms() + redis->config.connect_limit_ms;
    ring_by(redis, redis->stage_ends_ms);
    redis->socket = redis_socket_open(redis->loop, redis->config.address, redis->failures, &hooks, why);
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

static void end_stage(struct redis *redis)
{
    if (redis->stage == STAGE_RESTING)
        reach(redis);
    else if (redis->stage == STAGE_GREETING)
        lose_late(redis, "login", redis->config.connect_limit_ms);
    else
        lose_late(redis, redis_socket_awaits_dns(redis->socket) ? "DNS" : "connect",
                  redis->config.connect_limit_ms);
}

/* What has not left yet is simply taken back; what has leaves the connection in doubt. */
static void end_late_commands(struct redis *redis)
{
    struct redis_command command;

    while (redis->stage != STAGE_CLOSED && now_ms() >= redis_pipeline_deadline(&redis->pipeline)) {
        if (redis_pipeline_take_back(&redis->pipeline, now_ms(), &command))
            redis_command_answer(&command, REDIS_UNSENT, NULL);
        else
            lose_late(redis, "command", redis->config.limit_ms);
    }
}

static void on_redis_timer(uv_timer_t *timer)
{
    struct redis *redis = timer->data;

    redis->rings_ms = UINT64_MAX;
    catch_up(redis);
    if (stage_is_over(redis, now_ms()))
        end_stage(redis);
    end_late_commands(redis);
    if (redis->stage == STAGE_CLOSED)
        return;
    end_denial(redis);
    ring_by(redis, redis_pipeline_deadline(&redis->pipeline));
    if (redis->stage != STAGE_UP)
        ring_by(redis, redis->stage_ends_ms);
}

/* ---- sending ---- */

static bool has_room(const struct redis *redis, size_t argc, const size_t *argv_bytes)
{
    size_t room = redis->config.max_pending_bytes, pending = redis_pipeline_bytes(&redis->pipeline);

    if (pending >= room)
        return false;
    room -= pending;
    for (size_t i = 0; i < argc; i++) {
        if (argv_bytes[i] >= room)
            return false;
        room -= argv_bytes[i];
    }
    return true;
}

static bool enqueue(struct redis *redis, size_t argc, const char *const *argv, const size_t *argv_bytes,
                    struct redis_command *command)
{
    assert(redis->config.channel == NULL);
    if (redis->stage == STAGE_CLOSED || !has_room(redis, argc, argv_bytes))
        return false;
    command->deadline_ms = now_ms() + redis->config.limit_ms;
    if (!redis_pipeline_add(&redis->pipeline, argc, argv, argv_bytes, command))
        return false;
    count(&redis->counters->commands);
    ring_by(redis, command->deadline_ms);
    flush_this_turn(redis);
    return true;
}

bool redis_send(struct redis *redis, size_t argc, const char *const *argv, const size_t *argv_bytes,
                redis_replied *replied, void *context)
{
    struct redis_command command = {.replied = replied, .context = context};

    return enqueue(redis, argc, argv, argv_bytes, &command);
}

bool redis_run(struct redis *redis, unsigned script, size_t key_count, size_t argc, const char *const *argv,
               const size_t *argv_bytes, redis_replied *replied, void *context)
{
    const char *digest = redis->greeting.digests[script];
    struct redis_command command = {.replied = replied, .context = context};
    struct redis_script_command words = {.argc = 0};

    assert(script < SCRIPT_COUNT);
    redis_script_compose(&words, (enum script)script, digest, key_count, argc, argv, argv_bytes);
    if (digest[0] != '\0') {
        command.call = redis_script_keep((enum script)script, key_count, argc, argv, argv_bytes);
        if (command.call == NULL)
            return false;
    }
    if (enqueue(redis, words.argc, words.argv, words.argv_bytes, &command))
        return true;
    free(command.call);
    return false;
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
    free(redis);
}

struct redis *redis_open(uv_loop_t *loop, const struct redis_config *config)
{
    struct redis *redis = calloc(1, sizeof *redis);

    if (redis == NULL)
        return NULL;
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
    redis->loop = loop;
    redis->timer.data = redis->flusher.data = redis;
    uv_timer_init(loop, &redis->timer);
    uv_idle_init(loop, &redis->flusher);
    redis->handle_count = 2;
    redis->stage = STAGE_RESTING;
    redis->rings_ms = UINT64_MAX;
    ring_by(redis, now_ms());
    return redis;
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct redis *redis = handle->data;

    if (--redis->handle_count > 0)
        return;
    void (*closed)(void *context) = redis->closed;
    void *context = redis->closed_context;
    free_redis(redis);
    if (closed != NULL)
        closed(context);
}

/* The watcher of the socket is closed last: libuv takes closing handles from the last one back, and the
 * owner is told when all are done. */
void redis_close(struct redis *redis, void (*closed)(void *context), void *context)
{
    struct redis_pipeline pending = redis_pipeline_detach(&redis->pipeline);

    move_on(redis, STAGE_CLOSED);
    redis->closed = closed;
    redis->closed_context = context;
    uv_close((uv_handle_t *)&redis->timer, on_handle_closed);
    uv_close((uv_handle_t *)&redis->flusher, on_handle_closed);
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
