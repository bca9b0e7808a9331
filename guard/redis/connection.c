/* SPDX-License-Identifier: MIT */
/*
 * redis/connection.c - the life of one Redis connection. The stages are drawn in redis/connection.h.
 *
 * Flow      connection_send() appends to the pipeline. What the first command of a turn asks the loop for soon, and
 *           last of all, writes everything before the loop waits again, whatever in the turn sent it.
 * Limits    One timer, set no later than the earliest limit; it may ring early and is then set again. Before
 *           anything is declared late, everything that has arrived is read: a loop that was busy for longer
 *           than the limit must not mistake its own delay for Redis's. What such a turn has kept from being written
 *           begins its time when it is, whether the loop rings its timers before the end of a turn or behind it.
 * Lifetime  A callback may close or reset the connection. `epoch` changes with every socket, so code that has
 *           called out looks whether it still serves the same one; the struct itself is freed by a callback of
 *           its own.
 */
#include "connection.h"
#include "../base/chance.h"
#include "../base/clock.h"
#include "greeting.h"
#include "pipeline.h"
#include "reader.h"
#include "socket.h"
#include "types.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    READ_BYTES = 1 << 14,
    READS_PER_EVENT = 16,   /* then the loop's others have their turn */
    DENIED_DWELL_MS = 1000, /* after the last denial */
    PROVING_MS = 100,       /* between the two greetings */
    TEXT_SIZE = REDIS_LABEL_SIZE + REDIS_WHY_SIZE,
};

static const char fenced_text[] = "fenced: a master without its replicas; another may have taken its place";

enum stage {
    STAGE_RESTING,    /* until rest is over; no socket */
    STAGE_REACHING,   /* DNS and connect */
    STAGE_GREETING,   /* login and what belongs to it is sent */
    STAGE_PROVING,    /* it was greeted and will be asked once more */
    STAGE_CONFIRMING, /* the Sentinels are asked whether it is the master */
    STAGE_UP,
    STAGE_CLOSED,
    STAGE_COUNT,
};

struct redis_connection {
    struct redis_config config;
    char label[REDIS_LABEL_SIZE];
    struct redis_counters own_counters; /* where the owner has none */
    struct redis_counters *counters;
    struct redis_reign *reign;  /* of its place */
    struct redis_member member; /* likewise */
    struct chance chance;

    struct guard_host *host;
    struct host_timer timer;
    struct host_soon flusher, closer;
    uint64_t turn_tick, turn_ms; /* the latest look at the clock for a command of this turn */
    struct host_told told;

    enum stage stage;
    uint64_t stage_ends_ms; /* RESTING: the next attempt; PROVING: its end; others: the limit */
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
    uint64_t tried;       /* its `queued` when it was last begun to be written, or when it came up */
    uint64_t deadline_ms; /* of what is sent; 0: as configured */
    bool asking;          /* what is sent needs an ASKING before it */
    bool counted;         /* something of it has been, since the last batch */

    enum guard_redis_state told_state;
    char told_text[TEXT_SIZE];
    uint64_t denied_until_ms; /* UP, but told DENIED: for this long */

    char input[READ_BYTES]; /* of one read; on the stack, a hardened build would zero it each time */
};

static void count_one(_Atomic uint64_t *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

static const bool legal_move[STAGE_COUNT][STAGE_COUNT] = {
    [STAGE_RESTING] = {[STAGE_REACHING] = true, [STAGE_CLOSED] = true},
    [STAGE_REACHING] = {[STAGE_RESTING] = true, [STAGE_GREETING] = true, [STAGE_CLOSED] = true},
    [STAGE_GREETING] = {[STAGE_RESTING] = true,
                        [STAGE_PROVING] = true,
                        [STAGE_CONFIRMING] = true,
                        [STAGE_UP] = true,
                        [STAGE_CLOSED] = true},
    [STAGE_CONFIRMING] = {[STAGE_RESTING] = true, [STAGE_UP] = true, [STAGE_CLOSED] = true},
    [STAGE_PROVING] = {[STAGE_RESTING] = true, [STAGE_GREETING] = true, [STAGE_CLOSED] = true},
    [STAGE_UP] = {[STAGE_RESTING] = true, [STAGE_CLOSED] = true},
};

static void move_on(struct redis_connection *connection, enum stage to)
{
    assert(legal_move[connection->stage][to]);
    connection->stage = to;
}

static bool has_lapsed(const struct redis_connection *connection)
{
    uint64_t until_ms = redis_place_good_until_ms(connection->config.place);
    return until_ms != UINT64_MAX && clock_now_ms() >= until_ms;
}

/* Another master was confirmed, or this one is none, or has not been for too long: nothing that comes over it reaches
 * a caller. */
static bool is_void(const struct redis_connection *connection)
{
    return connection->stage == STAGE_UP &&
           (connection->generation != redis_reign_now(connection->reign) || has_lapsed(connection));
}

/* It speaks to a master, or will. */
static bool is_for_commands(const struct redis_connection *connection)
{
    return connection->config.channel == NULL && connection->config.expected != REDIS_SERVER_SENTINEL;
}

/* ---- telling ---- */

static void tell(struct redis_connection *connection, enum guard_redis_state state, const char *why)
{
    char text[TEXT_SIZE];
    const char *server = state == GUARD_REDIS_UP ? connection_server(connection) : "";
    bool is_news = redis_news_take(connection->config.news, server);
    snprintf(text, sizeof text, "%s: %s", connection->label, why);
    if (state == connection->told_state && strcmp(text, connection->told_text) == 0 && !is_news)
        return;
    connection->told_state = state;
    memcpy(connection->told_text, text, sizeof text);
    if (is_news)
        snprintf(text + strlen(text), sizeof text - strlen(text), "; %s", server);
    if (connection->config.hooks.state != NULL)
        connection->config.hooks.state(connection->config.hooks.context, state, text);
}

/* "up", what the login lacks, what is to be known of TLS, and what the Sentinels do not say any more. */
static const char *summary(const struct redis_connection *connection, char text[TEXT_SIZE])
{
    const char *remark = redis_socket_remark(connection->socket);
    const char *lack = redis_greeting_lack(&connection->greeting);
    bool confirmed = redis_place_is_confirmed(connection->config.place);
    char why[REDIS_WHY_SIZE] = "";
    if (!confirmed)
        redis_place_why(connection->config.place, why);
    snprintf(text, TEXT_SIZE, "%s%s%s%s%.200s", lack != NULL ? lack : "up", remark[0] != '\0' ? "; " : "",
             remark, confirmed ? "" : "; not confirmed: ", why);
    return text;
}

/* What it is while it is up: told after everything that may have changed that. */
static void tell_up(struct redis_connection *connection)
{
    char text[TEXT_SIZE];
    if (clock_now_ms() < connection->denied_until_ms)
        return; /* end_denial() */
    if (connection->greeting.fence.no_replicas)
        tell(connection, GUARD_REDIS_FENCED, fenced_text);
    else
        tell(connection, GUARD_REDIS_UP, summary(connection, text));
}

/* ---- the timer ---- */

/* A ring that is set for earlier will do: it sets the next one. */
static void ring_by(struct redis_connection *connection, uint64_t at_ms)
{
    uint64_t at_us = at_ms < UINT64_MAX / 1000 ? at_ms * 1000 : UINT64_MAX;
    if (connection->stage != STAGE_CLOSED && (!connection->timer.set || at_us < connection->timer.at_us))
        host_timer_set(connection->host, &connection->timer, at_us);
}

/* It ends when so much time is over: with its limit, or the next attempt. */
static void set_stage_end(struct redis_connection *connection, uint64_t within_ms)
{
    connection->stage_ends_ms = clock_now_ms() + within_ms;
    ring_by(connection, connection->stage_ends_ms);
}

/* ---- losing ---- */

static void drop_socket(struct redis_connection *connection)
{
    connection->epoch++;
    redis_socket_reset(&connection->socket);
    redis_reader_close(&connection->reader);
    redis_buffer_clear(&connection->hello);
}

/* Denied: an operator has to do something, so there is no hurry. */
static uint32_t rest_ms(struct redis_connection *connection, enum guard_redis_state state)
{
    uint32_t first = connection->config.backoff_ms, most = connection->config.max_backoff_ms;
    if (state == GUARD_REDIS_DENIED)
        return chance_backoff(&connection->chance, most, most, 0);
    return chance_backoff(&connection->chance, first, most, connection->failures);
}

/* Gives the connection up. What waited for it to come up goes on waiting; what was entrusted to it is answered.
 * Callers touch nothing afterwards that belongs to the old epoch. */
static void lose(struct redis_connection *connection, enum guard_redis_state state, const char *why)
{
    bool was_up = connection->stage == STAGE_UP;
    struct redis_pipeline pending = {.count = 0};
    if (was_up)
        pending = redis_pipeline_detach(&connection->pipeline);
    drop_socket(connection);
    move_on(connection, STAGE_RESTING);
    set_stage_end(connection, rest_ms(connection, state));
    if (!was_up)
        connection->failures++;
    redis_place_doubt(connection->config.place);
    tell(connection, state, why);
    redis_pipeline_abandon(&pending);
}

/* There is another master to go to. All connections of all processes would: some go first. */
static void rest_less(struct redis_connection *connection)
{
    uint64_t at_ms = clock_now_ms() + chance_below(&connection->chance, connection->config.spread_ms + 1);
    if (connection->stage != STAGE_RESTING || at_ms >= connection->stage_ends_ms)
        return;
    connection->stage_ends_ms = at_ms;
    ring_by(connection, at_ms);
}

static void lose_void(struct redis_connection *connection)
{
    bool lapsed = has_lapsed(connection);
    lose(connection, GUARD_REDIS_DOWN,
         lapsed ? "no majority of the Sentinels has confirmed this master for too long (strict)"
                : "another master was confirmed");
    if (!lapsed && connection->config.place->watched)
        rest_less(connection);
}

static void lose_late(struct redis_connection *connection, const char *what, uint32_t limit_ms,
                      const char *advice)
{
    char why[REDIS_WHY_SIZE];
    snprintf(why, sizeof why, "%s within %u ms%s", what, (unsigned)limit_ms, advice);
    count_one(&connection->counters->timeouts);
    connection->proves = connection->proves || connection->stage != STAGE_REACHING ||
                         redis_socket_awaits_tls(connection->socket);
    lose(connection, GUARD_REDIS_DOWN, why);
}

/* The server is a replica: no connection of the process has any business with it. */
static void lose_demoted(struct redis_connection *connection, const struct redisReply *reply)
{
    char why[REDIS_WHY_SIZE] = "demoted to a replica: ROLE says so";
    if (reply->type == REDIS_REPLY_ERROR)
        redis_explain(reply, "demoted to a replica: ", false, why);
    redis_reign_end(connection->reign, connection->generation);
    lose(connection, GUARD_REDIS_REPLICA, why);
}

/* ---- writing ---- */

enum progress { PROGRESS_DONE, PROGRESS_MORE, PROGRESS_LOST };
static enum progress receive(struct redis_connection *connection);

/* The other side may have answered, and told the reason, before it hung up: its last words come first. */
static void write_failed(struct redis_connection *connection, int error)
{
    char why[REDIS_WHY_SIZE];
    enum progress progress;
    do
        progress = receive(connection);
    while (progress == PROGRESS_MORE);
    if (progress == PROGRESS_LOST)
        return;
    redis_socket_explain(connection->socket, "write", error, why);
    lose(connection, GUARD_REDIS_DOWN, why);
}

/* A turn was held up before its end, at which its commands are written: they have had no chance, and their time
 * begins now. Taken back, they would look as if Redis did not answer; written with the old limit, as if it
 * were late. */
static void excuse_what_waits_for_its_turn(struct redis_connection *connection, uint64_t now)
{
    if (connection->stage == STAGE_UP && connection->tried < connection->pipeline.queued)
        redis_pipeline_reprieve(&connection->pipeline, connection->tried, now + connection->config.limit_ms);
}

static void flush(struct redis_connection *connection)
{
    struct redis_buffer *buffer =
        connection->stage == STAGE_GREETING ? &connection->hello : &connection->pipeline.out;
    ssize_t put = 0;
    if (connection->stage != STAGE_GREETING && connection->stage != STAGE_UP)
        return;
    connection->batches++;
    if (clock_tick() != connection->turn_tick)
        excuse_what_waits_for_its_turn(connection, clock_now_ms());
    connection->tried = connection->pipeline.queued;
    while (redis_buffer_bytes(buffer) > 0) {
        put =
            redis_socket_write(connection->socket, buffer->data + buffer->begin, redis_buffer_bytes(buffer));
        if (put < 0)
            break;
        redis_buffer_consume(buffer, (size_t)put);
    }
    if (put == -EAGAIN)
        redis_socket_await_room(connection->socket);
    else if (put < 0)
        write_failed(connection, (int)-put);
}

static void on_flush(void *context)
{
    struct redis_connection *connection = context;
    if (redis_buffer_bytes(&connection->pipeline.out) > 0 && connection->counted)
        count_one(&connection->counters->round_trips);
    connection->counted = false;
    flush(connection);
}

static void flush_this_turn(struct redis_connection *connection)
{
    if (connection->stage == STAGE_UP)
        host_soon(connection->host, &connection->flusher);
}

/* ---- sending ---- */

/* Hundreds of commands may be queued in a turn: those of one tick have one look at the clock. What waited longer than
 * that is excused here, for flush() knows only the latest of them. */
static uint64_t time_of_command(struct redis_connection *connection)
{
    bool is_first = connection->flusher.list == NULL;
    uint64_t tick = clock_tick();
    if (is_first || tick != connection->turn_tick) {
        connection->turn_ms = clock_now_ms();
        if (!is_first)
            excuse_what_waits_for_its_turn(connection, connection->turn_ms);
    }
    connection->turn_tick = tick;
    return connection->turn_ms;
}

static bool queue(struct redis_connection *connection, size_t argc, const char *const *argv,
                  const size_t *argv_bytes, struct redis_command *command)
{
    uint64_t now = time_of_command(connection);
    assert(connection->config.channel == NULL);
    if (connection->stage == STAGE_CLOSED ||
        !redis_pipeline_fits(&connection->pipeline, connection->config.max_pending_bytes, argc, argv_bytes))
        return false;
    command->resent = connection->deadline_ms != 0;
    command->deadline_ms = command->resent ? connection->deadline_ms : now + connection->config.limit_ms;
    if (!redis_pipeline_add(&connection->pipeline, argc, argv, argv_bytes, command))
        return false;
    connection->greeting.fence.sent_ms = now;
    ring_by(connection, is_void(connection) ? now : command->deadline_ms);
    flush_this_turn(connection);
    return true;
}

static bool enqueue(struct redis_connection *connection, size_t argc, const char *const *argv,
                    const size_t *argv_bytes, struct redis_command *command)
{
    struct redis_command asking = {.replied = NULL};
    if (connection->asking && !queue(connection, 1, (const char *[]){"ASKING"}, (size_t[]){6}, &asking))
        return false;
    if (!queue(connection, argc, argv, argv_bytes, command))
        return false;
    connection->counted = true;
    if (!command->resent)
        count_one(&connection->counters->commands);
    return true;
}

void connection_redirected(struct redis_connection *connection, uint64_t deadline_ms, bool asking)
{
    connection->deadline_ms = deadline_ms;
    connection->asking = asking;
}

bool connection_send(struct redis_connection *connection, size_t argc, const char *const *argv,
                     const size_t *argv_bytes, redis_replied *replied, void *context)
{
    struct redis_command command = {.replied = replied, .context = context};
    return enqueue(connection, argc, argv, argv_bytes, &command);
}

/* ROLE of a value that is read, or of a heartbeat. */
static void on_role(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    struct redis_connection *connection = context;
    if (outcome != REDIS_REPLIED)
        return;
    connection->is_master = redis_is_master(reply);
    if (connection->is_master && connection->greeting.fence.no_role) {
        redis_fence_role_passed(&connection->greeting.fence);
        tell_up(connection);
    }
    if (reply->type == REDIS_REPLY_ERROR) {
        redis_fence_no_role(&connection->greeting.fence, redis_error_classify(reply->str, reply->len));
        tell_up(connection);
    } else if (!connection->is_master) {
        lose_demoted(connection, reply);
    }
}

static bool queue_role(struct redis_connection *connection)
{
    bool again = connection->greeting.fence.no_role;
    struct redis_command command = {.replied = on_role, .context = connection, .asks_again = again};
    return queue(connection, 1, (const char *[]){"ROLE"}, (size_t[]){4}, &command);
}

/* ROLE would use an ASKING up: behind one it is GETEX that only a master answers. */
static bool read_value(struct redis_connection *connection, const char *name, size_t name_bytes,
                       redis_replied *replied, void *context)
{
    struct redis_command command = {.replied = replied, .context = context};
    enum redis_fence_mode mode = connection->greeting.fence.mode;
    bool by_role = mode == REDIS_FENCE_ROLE && !connection->asking;
    if (mode == REDIS_FENCE_SHUT && !connection->asking)
        return false;
    command.needs_master = by_role;
    command.tries_fence = command.is_getex = mode == REDIS_FENCE_WRITE && !connection->asking;
    return (!by_role || queue_role(connection)) &&
           enqueue(connection, 2, (const char *[]){by_role ? "GET" : "GETEX", name},
                   (size_t[]){by_role ? 3 : 5, name_bytes}, &command);
}

static void on_lookup_pttl(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    struct redis_lookup *lookup = context;
    if (outcome == REDIS_REPLIED && reply->type == REDIS_REPLY_INTEGER)
        lookup->pttl_ms = reply->integer;
    if (outcome == REDIS_REPLIED && reply->type == REDIS_REPLY_ERROR) {
        enum redis_error_class class = redis_error_classify(reply->str, reply->len);
        lookup->redirected = class == REDIS_ERROR_MOVED || class == REDIS_ERROR_ASK;
    }
    if (lookup->alone)
        lookup->done(lookup->context, REDIS_UNSENT, -1, NULL);
}

static void on_lookup_value(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    struct redis_lookup *lookup = context;
    lookup->done(lookup->context, outcome, lookup->pttl_ms, reply);
}

static bool read_pttl_and_value(struct redis_connection *connection, struct redis_lookup *lookup,
                                const char *name, size_t name_bytes)
{
    const char *argv[] = {"PTTL", name};
    const size_t argv_bytes[] = {4, name_bytes};
    lookup->pttl_ms = -1;
    lookup->alone = lookup->redirected = false;
    if (!connection_send(connection, 2, argv, argv_bytes, on_lookup_pttl, lookup))
        return false;
    lookup->alone = !read_value(connection, name, name_bytes, on_lookup_value, lookup);
    return true;
}

/* EVALSHA, and kept beside it the same by EVAL. Behind an ASKING the source itself: a NOSCRIPT would use that up. */
static bool run_script(struct redis_connection *connection, const struct redis_call *call)
{
    enum { HEAD = 3 }; /* EVAL, the source, how many keys */
    char key_count[8];
    assert(call->script < connection->config.script_count);
    assert(call->argc <= REDIS_SCRIPT_ARGS_MAX && call->key_count <= call->argc);
    const struct redis_script *script = &connection->config.scripts[call->script];
    const char *digest = connection->asking ? "" : connection->greeting.digests[call->script];
    const size_t argc = HEAD + call->argc;
    const size_t digits = (size_t)snprintf(key_count, sizeof key_count, "%u", (unsigned)call->key_count);
    const char *argv[HEAD + REDIS_SCRIPT_ARGS_MAX] REDIS_ARGS_UNCLEARED;
    size_t argv_bytes[HEAD + REDIS_SCRIPT_ARGS_MAX] REDIS_ARGS_UNCLEARED;
    memcpy(argv, (const char *const[]){"EVAL", script->source, key_count}, HEAD * sizeof *argv);
    memcpy(argv_bytes, (const size_t[]){4, script->source_bytes, digits}, HEAD * sizeof *argv_bytes);
    memcpy(argv + HEAD, call->argv, call->argc * sizeof *argv);
    memcpy(argv_bytes + HEAD, call->argv_bytes, call->argc * sizeof *argv_bytes);
    struct redis_command command = {.replied = call->replied, .context = call->context};
    if (digest[0] != '\0') {
        command.eval = redis_words_keep(2, argc, argv, argv_bytes);
        if (command.eval == NULL)
            return false;
        argv[0] = "EVALSHA";
        argv_bytes[0] = 7;
        argv[1] = digest;
        argv_bytes[1] = REDIS_DIGEST_BYTES;
    }
    if (enqueue(connection, argc, argv, argv_bytes, &command))
        return true;
    free(command.eval);
    return false;
}

bool connection_call(struct redis_connection *connection, const struct redis_call *call)
{
    switch (call->kind) {
    case REDIS_RUN:
    case REDIS_REPLICATED:
        return run_script(connection, call);
    case REDIS_GET:
        return read_value(connection, call->argv[0], call->argv_bytes[0], call->replied, call->context);
    case REDIS_LOOKUP:
        return read_pttl_and_value(connection, call->context, call->argv[0], call->argv_bytes[0]);
    case REDIS_WORDS:
        break;
    }
    return connection_send(connection, call->argc, call->argv, call->argv_bytes, call->replied,
                           call->context);
}

/* ---- the heartbeat ---- */

static void queue_write(struct redis_connection *connection, bool again)
{
    bool zrem = connection->greeting.fence.no_getex && !again;
    struct redis_command command = {.tries_fence = true, .is_getex = !zrem, .asks_again = again};
    const char *argv[] = {zrem ? "ZREM" : "GETEX", redis_greeting_beat_key(&connection->greeting), ""};
    queue(connection, zrem ? 3 : 2, argv, (size_t[]){strlen(argv[0]), strlen(argv[1]), 0}, &command);
}

static void ask_again(struct redis_connection *connection)
{
    if (connection->greeting.fence.no_getex)
        queue_write(connection, true);
    if (connection->greeting.fence.no_role)
        queue_role(connection);
}

/* A subscriber may not send one, but notices here that its reign is over. */
static void beat_if_due(struct redis_connection *connection)
{
    enum redis_beat due = REDIS_BEAT_NONE;
    if (is_void(connection))
        lose_void(connection);
    if (connection->stage == STAGE_UP && redis_fence_redials(&connection->greeting.fence, clock_now_ms()))
        lose(connection, GUARD_REDIS_FENCED, fenced_text);
    if (connection->stage != STAGE_UP)
        return;
    due = redis_fence_beat(&connection->greeting.fence, clock_now_ms());
    /* What waits for a reply already tells as well that the server goes on, but opens no fence. */
    const bool idle = connection->pipeline.count == 0,
               fenced_otherwise = connection->greeting.fence.mode != REDIS_FENCE_WRITE;
    if (is_for_commands(connection) && due == REDIS_BEAT_WRITE && (idle || fenced_otherwise))
        queue_write(connection, false);
    else if (is_for_commands(connection) && due == REDIS_BEAT_ROLE)
        queue_role(connection);
    else if (is_for_commands(connection) && due == REDIS_BEAT_AGAIN)
        ask_again(connection);
    ring_by(connection, redis_fence_next_ms(&connection->greeting.fence));
}

/* ---- the greeting ---- */

static void came_up(struct redis_connection *connection)
{
    if (!redis_reign_join(connection->reign, connection->reign_seen, connection->greeting.reign,
                          &connection->generation)) {
        lose(connection, GUARD_REDIS_DOWN, "another master was confirmed meanwhile");
        return;
    }
    move_on(connection, STAGE_UP);
    connection->failures = 0;
    connection->denied_until_ms = 0;
    connection->proves = false;
    redis_buffer_clear(&connection->hello);
    redis_fence_up(&connection->greeting.fence, clock_now_ms());
    ring_by(connection, redis_fence_next_ms(&connection->greeting.fence));
    connection->tried = connection->pipeline.queued; /* that they have waited for it counts */
    count_one(&connection->counters->connects);
    flush_this_turn(connection);
    tell_up(connection);
}

/* ROLE has said that it is the master; a Sentinel that is asked from here on knows of a failover that is over. */
static void confirm_master(struct redis_connection *connection)
{
    if (!redis_place_confirm(connection->config.place, &connection->member)) {
        came_up(connection);
        return;
    }
    move_on(connection, STAGE_CONFIRMING);
    set_stage_end(connection, connection->config.connect_limit_ms);
}

static void take_word(struct redis_connection *connection)
{
    char why[REDIS_WHY_SIZE], text[REDIS_WHY_SIZE];
    enum guard_redis_state state;
    switch (redis_place_answer(connection->config.place, &connection->member, &connection->reign_seen)) {
    case REDIS_CONFIRM_NONE:
    case REDIS_CONFIRM_WAITS:
    case REDIS_CONFIRM_UNDER_WAY:
        break;
    case REDIS_CONFIRM_YES:
        came_up(connection);
        break;
    case REDIS_CONFIRM_NO:
        state = redis_place_why(connection->config.place, why);
        snprintf(text, sizeof text, "not confirmed: %.*s", REDIS_WHY_SIZE - 20, why);
        lose(connection, state, text);
        break;
    }
}

static void on_place_changed(void *context)
{
    struct redis_connection *connection = context;
    bool moved = redis_place_has_moved(connection->config.place, &connection->member);
    if (is_void(connection)) {
        lose_void(connection);
    } else if (connection->stage == STAGE_CONFIRMING && !moved) {
        take_word(connection);
    } else if (connection->stage != STAGE_UP && connection->stage != STAGE_CLOSED) {
        if (connection->stage != STAGE_RESTING && moved)
            lose(connection, GUARD_REDIS_DOWN, "the Sentinels name another master");
        rest_less(connection);
    } else if (connection->stage == STAGE_UP) {
        tell_up(connection);
    }
}

/* A server that was stopped and goes on has not heard yet of what happened meanwhile. A subscriber has nothing to
 * answer. */
static void greeted(struct redis_connection *connection)
{
    if (!connection->proves || !is_for_commands(connection) || ++connection->greetings > 1) {
        confirm_master(connection);
        return;
    }
    move_on(connection, STAGE_PROVING);
    set_stage_end(connection, PROVING_MS);
}

static void greet_again(struct redis_connection *connection)
{
    move_on(connection, STAGE_GREETING);
    set_stage_end(connection, connection->config.connect_limit_ms);
    if (redis_greeting_write_again(&connection->greeting, &connection->hello))
        flush(connection);
    else
        lose(connection, GUARD_REDIS_DOWN, "out of memory");
}

static void take_greeting(struct redis_connection *connection, const struct redisReply *reply)
{
    char why[REDIS_WHY_SIZE];
    switch (redis_greeting_read(&connection->greeting, reply, why)) {
    case REDIS_GREETING_GOES_ON:
        break;
    case REDIS_GREETING_DONE:
        greeted(connection);
        break;
    case REDIS_GREETING_FAILED:
        lose(connection, GUARD_REDIS_DOWN, why);
        break;
    case REDIS_GREETING_REPLICA:
        lose(connection, GUARD_REDIS_REPLICA, why);
        break;
    case REDIS_GREETING_DENIED:
        lose(connection, GUARD_REDIS_DENIED, why);
        break;
    }
}

/* ---- replies ---- */

static void take_message(struct redis_connection *connection, const struct redisReply *reply)
{
    const struct redis_hooks *hooks = &connection->config.hooks;
    char why[REDIS_WHY_SIZE] = "not a message of the channel";
    if (reply->type == REDIS_REPLY_ERROR)
        redis_explain(reply, "", false, why);
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 3 ||
        !redis_reply_is(reply->element[0], "message") ||
        !redis_reply_is(reply->element[1], connection->config.channel) ||
        reply->element[2]->type != REDIS_REPLY_STRING)
        lose(connection, GUARD_REDIS_DOWN, why); /* an error in its own words */
    else if (hooks->message != NULL)
        hooks->message(hooks->context, reply->element[2]->str, reply->element[2]->len);
}

/* The same call by EVAL, as the command it was. Nothing ran, so one that is late by now is taken back. False:
 * no memory; the caller is told NOSCRIPT. */
static bool run_again(struct redis_connection *connection, struct redis_command *command)
{
    struct redis_words *eval = command->eval;
    struct redis_command again = *command;
    if (clock_now_ms() >= command->deadline_ms) {
        redis_command_answer(command, REDIS_UNSENT, NULL);
        return true;
    }
    again.eval = NULL;
    again.resent = true;
    if (!redis_pipeline_add(&connection->pipeline, eval->argc, eval->argv, eval->argv_bytes, &again))
        return false;
    free(eval);
    ring_by(connection, again.deadline_ms);
    flush_this_turn(connection);
    return true;
}

/* The login may do less than it could when it was greeted. Told with the first refusal; taken back by the timer
 * when a while has passed without another one, so that it is right for the busy and the idle alike. */
static void note_denied(struct redis_connection *connection, const struct redisReply *reply)
{
    char why[REDIS_WHY_SIZE];
    connection->denied_until_ms = clock_now_ms() + DENIED_DWELL_MS;
    ring_by(connection, connection->denied_until_ms);
    if (connection->told_state == GUARD_REDIS_DENIED)
        return;
    redis_explain(reply, "", false, why);
    tell(connection, GUARD_REDIS_DENIED, why);
}

static void end_denial(struct redis_connection *connection)
{
    if (connection->stage != STAGE_UP || connection->told_state != GUARD_REDIS_DENIED)
        return;
    if (clock_now_ms() >= connection->denied_until_ms)
        tell_up(connection);
    else
        ring_by(connection, connection->denied_until_ms);
}

static bool is_redirection(const struct redis_connection *connection, enum redis_error_class class)
{
    return connection->config.expected == REDIS_SERVER_NODE &&
           (class == REDIS_ERROR_MOVED || class == REDIS_ERROR_ASK || class == REDIS_ERROR_MOVING);
}

/* Outside a Cluster no redirection is followed. */
static bool is_denial(const struct redis_connection *connection, enum redis_error_class class)
{
    return class == REDIS_ERROR_DENIED || (connection->config.expected != REDIS_SERVER_NODE &&
                                           (class == REDIS_ERROR_MOVED || class == REDIS_ERROR_ASK));
}

/* The fence is changed before the caller hears of the error: it may ask again in the other way. */
static void take_error(struct redis_connection *connection, struct redis_command *command,
                       const struct redisReply *reply)
{
    enum redis_error_class class = redis_error_classify(reply->str, reply->len);
    bool tries_fence = command->tries_fence, is_news = !command->asks_again;
    uint64_t epoch = connection->epoch;
    if (class == REDIS_ERROR_NOSCRIPT && command->eval != NULL && run_again(connection, command))
        return;
    if (!is_redirection(connection, class) && is_news)
        count_one(&connection->counters->errors);
    if (tries_fence || class == REDIS_ERROR_FENCED)
        redis_fence_refused(&connection->greeting.fence, class);
    redis_command_answer(command, REDIS_REPLIED, reply);
    if (connection->epoch != epoch)
        return;
    if (class == REDIS_ERROR_READONLY)
        lose_demoted(connection, reply);
    else if (is_denial(connection, class) && !tries_fence && is_news)
        note_denied(connection, reply);
    else if (tries_fence || class == REDIS_ERROR_FENCED)
        tell_up(connection);
}

static void take_answer(struct redis_connection *connection, const struct redisReply *reply)
{
    struct redis_command command;
    if (!redis_pipeline_take_written(&connection->pipeline, &command)) {
        lose(connection, GUARD_REDIS_DOWN, "a reply that nobody has asked for");
        return;
    }
    if (reply->type == REDIS_REPLY_ERROR) {
        take_error(connection, &command, reply);
        return;
    }
    if (command.tries_fence && connection->greeting.fence.mode != REDIS_FENCE_WRITE) {
        redis_fence_passed(&connection->greeting.fence, command.is_getex);
        tell_up(connection);
    }
    if (command.needs_master && !connection->is_master)
        redis_command_answer(&command, REDIS_UNKNOWN, NULL);
    else
        redis_command_answer(&command, REDIS_REPLIED, reply);
}

static void take_reply(struct redis_connection *connection, const struct redisReply *reply)
{
    if (is_void(connection))
        lose_void(connection);
    else if (connection->stage == STAGE_GREETING)
        take_greeting(connection, reply);
    else if (connection->stage == STAGE_CONFIRMING && connection->config.channel != NULL)
        return; /* a message, before the subscription is told to be up */
    else if (connection->config.channel != NULL)
        take_message(connection, reply);
    else
        take_answer(connection, reply);
}

/* ---- reading ---- */

/* Of Redis: what comes instead was never meant to be a reply. */
static bool has_heard_nothing(const struct redis_connection *connection)
{
    return connection->stage == STAGE_GREETING && connection->greetings == 0 &&
           connection->greeting.answered == 0;
}

static void read_failed(struct redis_connection *connection, ssize_t got)
{
    bool denied = redis_socket_wants_tls(connection->socket);
    char why[REDIS_WHY_SIZE];
    redis_socket_explain(connection->socket, "read", (int)-got, why);
    lose(connection, denied ? GUARD_REDIS_DENIED : GUARD_REDIS_DOWN, why);
}

/* False: the connection these bytes came from is gone. */
static bool take_bytes(struct redis_connection *connection, const char *data, size_t bytes)
{
    uint64_t epoch = connection->epoch;
    bool sound = true;
    char why[REDIS_WHY_SIZE];
    for (size_t fed = 0; sound && fed < bytes; fed += REDIS_FEED_BYTES) {
        struct redisReply *reply = NULL;
        size_t piece = bytes - fed < REDIS_FEED_BYTES ? bytes - fed : REDIS_FEED_BYTES;
        sound = redis_reader_feed(&connection->reader, data + fed, piece);
        while (sound && (sound = redis_reader_next(&connection->reader, &reply)) && reply != NULL) {
            take_reply(connection, reply);
            redis_reader_free(&connection->reader, reply);
            if (connection->epoch != epoch)
                return false;
        }
    }
    if (sound)
        return true;
    const char *stranger = has_heard_nothing(connection) ? redis_server_stranger(data, bytes) : NULL;
    snprintf(why, sizeof why, "%s", stranger != NULL ? stranger : redis_reader_error(&connection->reader));
    lose(connection, stranger != NULL ? GUARD_REDIS_DENIED : GUARD_REDIS_DOWN, why);
    return false;
}

/* Reads a good piece. DONE: all that had arrived. */
static enum progress receive(struct redis_connection *connection)
{
    for (unsigned i = 0; i < READS_PER_EVENT; i++) {
        ssize_t got = redis_socket_read(connection->socket, connection->input, sizeof connection->input);
        if (got == -EAGAIN)
            return PROGRESS_DONE;
        if (got <= 0) {
            read_failed(connection, got);
            return PROGRESS_LOST;
        }
        if (!take_bytes(connection, connection->input, (size_t)got))
            return PROGRESS_LOST;
        if (redis_socket_is_drained(connection->socket))
            return PROGRESS_DONE;
    }
    return PROGRESS_MORE;
}

/* ---- the socket's hooks ---- */

static void on_reached(void *context)
{
    struct redis_connection *connection = context;
    struct redis_login login;
    char why[REDIS_WHY_SIZE];
    move_on(connection, STAGE_GREETING);
    connection->greetings = 0;
    if (!redis_login_read(connection->config.login, &login, why)) {
        lose(connection, GUARD_REDIS_DENIED, why);
        return;
    }
    bool written = redis_reader_open(&connection->reader, connection->config.max_reply_bytes,
                                     connection->config.max_reply_elements) &&
                   redis_greeting_write(&connection->greeting, &login, &connection->hello);
    redis_login_clear(&login);
    if (written)
        flush(connection);
    else
        lose(connection, GUARD_REDIS_DOWN, "out of memory");
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

/* The Sentinels have not named a master. on_place_changed() */
static void await_place(struct redis_connection *connection)
{
    char why[REDIS_WHY_SIZE];
    enum guard_redis_state state = redis_place_why(connection->config.place, why);
    set_stage_end(connection, connection->config.max_backoff_ms);
    if (why[0] != '\0')
        tell(connection, state, why);
}

static void reach(struct redis_connection *connection)
{
    connection->reign_seen = redis_reign_now(connection->reign);
    struct redis_socket_hooks hooks = {connection, on_reached, on_failed, on_ready};
    struct redis_endpoint endpoint;
    struct redis_socket_target target = {&endpoint, connection->failures, connection->config.tls};
    char why[REDIS_WHY_SIZE];
    if (redis_place_has_moved(connection->config.place, &connection->member))
        connection->proves = false; /* that was another server */
    if (!redis_place_where(connection->config.place, &connection->member, &endpoint)) {
        await_place(connection);
        return;
    }
    redis_endpoint_label(&endpoint, connection->label);
    move_on(connection, STAGE_REACHING);
    set_stage_end(connection, connection->config.connect_limit_ms);
    connection->socket = redis_socket_open(connection->host, &target, &hooks, why);
    if (connection->socket == NULL)
        lose(connection, GUARD_REDIS_DOWN, why);
}

/* ---- limits ---- */

static bool stage_is_over(const struct redis_connection *connection, uint64_t now)
{
    return connection->stage < STAGE_UP && now >= connection->stage_ends_ms;
}

static void lose_unreached(struct redis_connection *connection)
{
    uint32_t limit_ms = connection->config.connect_limit_ms;
    bool is_node = connection->config.expected == REDIS_SERVER_NODE;
    if (redis_socket_awaits_dns(connection->socket))
        lose_late(connection, "DNS: no answer", limit_ms, "");
    else if (redis_socket_awaits_tls(connection->socket))
        lose_late(
            connection, "TLS: no answer to the handshake", limit_ms,
            is_node
                ? "; a port without TLS does that: set tls-cluster yes on the nodes, or use redis+cluster://"
                : "; a port without TLS does that: use the server's tls-port, or redis://");
    else
        lose_late(connection, "connect: no answer", limit_ms, "");
}

static void end_stage(struct redis_connection *connection)
{
    if (connection->stage == STAGE_RESTING)
        reach(connection);
    else if (connection->stage == STAGE_PROVING)
        greet_again(connection);
    else if (connection->stage == STAGE_GREETING)
        lose_late(connection, "login: no answer", connection->config.connect_limit_ms, "");
    else if (connection->stage == STAGE_CONFIRMING)
        lose_late(connection, "Sentinels: no answer", connection->config.connect_limit_ms, "");
    else
        lose_unreached(connection);
}

/* What has not left yet is simply taken back; what has leaves the connection in doubt. */
static void end_late_commands(struct redis_connection *connection, uint64_t now)
{
    struct redis_command command;
    while (connection->stage != STAGE_CLOSED && now >= redis_pipeline_deadline(&connection->pipeline)) {
        if (redis_pipeline_take_back(&connection->pipeline, now, &command))
            redis_command_answer(&command, REDIS_UNSENT, NULL);
        else
            lose_late(connection, "command: no answer", connection->config.limit_ms, "");
    }
}

/* One look at the clock, from before the reading: what becomes late in a slow callback may have been answered since,
 * and is judged by the next ring, when that was read. */
static void on_redis_timer(void *context)
{
    struct redis_connection *connection = context;
    uint64_t now = clock_now_ms();
    excuse_what_waits_for_its_turn(connection, now);
    /* Until nothing that is late at `now` waits any more or nothing is left to read. */
    bool more = true;
    while (more && (connection->stage == STAGE_GREETING || connection->stage == STAGE_UP) &&
           (stage_is_over(connection, now) || now >= redis_pipeline_deadline(&connection->pipeline)))
        more = receive(connection) == PROGRESS_MORE;
    if (stage_is_over(connection, now))
        end_stage(connection);
    end_late_commands(connection, now);
    if (connection->stage == STAGE_CLOSED)
        return;
    end_denial(connection);
    beat_if_due(connection);
    ring_by(connection, redis_pipeline_deadline(&connection->pipeline));
    if (connection->stage != STAGE_UP)
        ring_by(connection, connection->stage_ends_ms);
}

/* ---- opening and closing ---- */

static void on_close(void *context)
{
    struct redis_connection *connection = context;
    redis_pipeline_abandon(&connection->pipeline); /* empty, but for its memory */
    host_free_and_tell(connection, connection->told);
}

struct redis_connection *connection_open(struct guard_host *host, const struct redis_config *config)
{
    struct redis_connection *connection = calloc(1, sizeof *connection);
    assert(config->script_count <= REDIS_SCRIPTS_MAX);
    if (connection == NULL)
        return NULL;
    connection->reign = &config->place->reign;
    connection->config = *config;
    connection->counters = config->counters != NULL ? config->counters : &connection->own_counters;
    connection->chance.state = config->jitter_seed;
    if (config->max_reply_elements == 0)
        connection->config.max_reply_elements = REDIS_ELEMENTS_MAX;
    connection->greeting.config = &connection->config;
    connection->greeting.fence.by_role = config->fence_by_role;
    connection->greeting.fence.sooner_ms = (uint32_t)chance_below(&connection->chance, REDIS_AGAIN_MS / 2);
    connection->host = host;
    connection->timer = (struct host_timer){.run = on_redis_timer, .context = connection};
    connection->flusher = (struct host_soon){.run = on_flush, .context = connection, .last = true};
    connection->closer = (struct host_soon){.run = on_close, .context = connection};
    connection->stage = STAGE_RESTING;
    snprintf(connection->label, sizeof connection->label, "Sentinels"); /* until they have named a master */
    redis_place_join(config->place, &connection->member, host, on_place_changed, connection);
    ring_by(connection, clock_now_ms());
    return connection;
}

void connection_close(struct redis_connection *connection, void (*closed)(void *context), void *context)
{
    struct redis_pipeline pending = redis_pipeline_detach(&connection->pipeline);
    move_on(connection, STAGE_CLOSED);
    connection->told = (struct host_told){closed, context};
    host_timer_stop(connection->host, &connection->timer);
    host_soon_stop(&connection->flusher);
    redis_place_leave(connection->config.place, &connection->member);
    host_soon(connection->host, &connection->closer);
    drop_socket(connection);
    redis_pipeline_abandon(&pending);
}

uint64_t connection_batch(const struct redis_connection *connection)
{
    return connection->batches;
}

bool connection_is_up(const struct redis_connection *connection)
{
    return connection->stage == STAGE_UP;
}

const char *connection_server(const struct redis_connection *connection)
{
    return connection_is_up(connection) ? connection->greeting.server.name : "";
}

bool connection_may_look_up(const struct redis_connection *connection)
{
    return connection->stage == STAGE_UP && connection->greeting.fence.mode != REDIS_FENCE_SHUT &&
           !is_void(connection);
}

bool connection_is_whole(const struct redis_connection *connection)
{
    return connection_is_up(connection) && redis_greeting_lack(&connection->greeting) == NULL &&
           redis_socket_remark(connection->socket)[0] == '\0' &&
           redis_place_is_confirmed(connection->config.place);
}

void connection_reset(struct redis_connection *connection, const char *why)
{
    if (connection->stage == STAGE_CLOSED)
        return;
    if (connection->stage != STAGE_RESTING)
        lose(connection, GUARD_REDIS_DOWN, why);
    if (connection->stage != STAGE_RESTING)
        return;
    set_stage_end(connection, 0);
}
