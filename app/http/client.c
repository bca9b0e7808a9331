/* SPDX-License-Identifier: MIT */
/*
 * client.c - the states of client.h, one function each.
 */
#include "app/http/client.h"

#include "app/common/random.h"
#include "app/http/answer.h"
#include "app/http/head.h"
#include "app/http/reply.h"
#include "app/http/selection.h"
#include "app/http/upload.h"
#include "app/write/writer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <utlist.h>

enum { FIN_LOOK_MS = 500, RETRY_SHED_MS = 1000 };

static const char PONG[] = "pong\n";

#define BIT(state) (1u << (state))

/* Where each state may come from. */
static const unsigned LEGAL_FROM[CLIENT_STATE_COUNT] = {
    [CLIENT_HEAD] = BIT(CLIENT_FRESH) | BIT(CLIENT_IDLE),
    [CLIENT_BODY] = BIT(CLIENT_HEAD),
    [CLIENT_READY] = BIT(CLIENT_HEAD) | BIT(CLIENT_BODY),
    [CLIENT_ASKED] = BIT(CLIENT_READY),
    [CLIENT_PARKED] = BIT(CLIENT_ASKED) | BIT(CLIENT_READY),
    [CLIENT_WAKING] = BIT(CLIENT_PARKED),
    [CLIENT_ANSWERED] = BIT(CLIENT_ASKED) | BIT(CLIENT_WAKING),
    [CLIENT_SENDING] = BIT(CLIENT_HEAD) | BIT(CLIENT_READY) | BIT(CLIENT_ANSWERED),
    [CLIENT_IDLE] =
        BIT(CLIENT_HEAD) | BIT(CLIENT_BODY) | BIT(CLIENT_READY) | BIT(CLIENT_ANSWERED) | BIT(CLIENT_SENDING),
    [CLIENT_GONE] = BIT(CLIENT_ASKED),
};

/* How long a client may stay in a state; 0: it is not the client that ends it. */
static const uint32_t LIMIT_MS[CLIENT_STATE_COUNT] = {
    [CLIENT_FRESH] = 10000, [CLIENT_HEAD] = 10000,    [CLIENT_BODY] = 20000,
    [CLIENT_READY] = 10000, [CLIENT_SENDING] = 60000, [CLIENT_IDLE] = 60000,
};

static const enum problem VERDICT_PROBLEMS[] = {
    [ROUTE_UNKNOWN] = PROBLEM_UNKNOWN_PATH, [ROUTE_ENCODED] = PROBLEM_ENCODED_PATH,
    [ROUTE_BAD_ID] = PROBLEM_BAD_ID,        [ROUTE_BAD_QUERY] = PROBLEM_BAD_QUERY,
    [ROUTE_BAD_IDS] = PROBLEM_BAD_IDS,
};

/* Counters have one writer, the loop's thread: a load and a store are enough, and no locked instruction. */
static void add_u32(_Atomic uint32_t *counter, uint32_t more)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + more,
                          memory_order_relaxed);
}

static void add_u64(_Atomic uint64_t *counter)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

/* ---- states ---- */

/* What counts against a client: all time but that in which the loop stood still. The sweep looks at it often. */
static uint64_t time_of(struct clients *clients)
{
    const uint64_t passed_ms = uv_now(clients->uv) - clients->looked_ms;

    clients->looked_ms += passed_ms;
    clients->time_ms += passed_ms < CLIENT_STALL_MS ? passed_ms : CLIENT_STALL_MS;
    return clients->time_ms;
}

static void list_in(struct client *client, enum client_state state)
{
    struct clients *clients = client->clients;

    client->state = (uint8_t)state;
    client->since_ms = time_of(clients);
    client->looked_at = false;
    DL_APPEND(clients->list[state], client);
    add_u32(&clients->count[state], 1);
}

static void list_out(struct client *client)
{
    struct clients *clients = client->clients;

    DL_DELETE(clients->list[client->state], client);
    add_u32(&clients->count[client->state], UINT32_MAX);
}

static void move(struct client *client, enum client_state state)
{
    assert((LEGAL_FROM[state] & BIT(client->state)) != 0);
    list_out(client);
    list_in(client, state);
}

static void drop_result(struct client *client)
{
    guard_value_unref(&client->result.value);
    selection_free(&client->selection);
    if (client->job != NULL)
        client->clients->upload_bytes -= client->job->body_room;
    free(client->job);
    client->job = NULL;
}

static void answer_over(struct client *client)
{
    client->clients->answer_bytes -= client->answer_bytes;
    client->answer_bytes = 0;
}

static void client_free(struct client *client)
{
    assert(client->account.record == NULL);
    list_out(client);
    drop_result(client);
    answer_over(client);
    shelf_sent(&client->prepared);
    asker_unref(client->account.asker);
    free(client);
}

/* A GONE one is known to libmicrohttpd until its connection is closed, and to the guard until it has called back. */
static void forget(struct client *client)
{
    if (client->forgotten)
        client_free(client);
    else
        client->forgotten = true;
}

uint32_t client_busy_count(const struct clients *clients)
{
    uint32_t count = 0;

    for (enum client_state state = CLIENT_HEAD; state <= CLIENT_SENDING; state++)
        count += client_count(clients, state);
    return count;
}

uint32_t client_connection_count(const struct clients *clients)
{
    uint32_t count = 0;

    for (enum client_state state = 0; state < CLIENT_GONE; state++)
        count += client_count(clients, state);
    return count;
}

static void idle_ran(uv_idle_t *idle)
{
    (void)idle; /* that it is active is all that matters */
}

void client_due(struct clients *clients)
{
    if (clients->is_due)
        return;
    clients->is_due = true;
    uv_idle_start(&clients->idle, idle_ran);
}

static void look_again(uv_timer_t *look)
{
    client_due(look->data);
}

void client_look_in(struct clients *clients, uint64_t in_ms)
{
    uv_timer_start(&clients->look, look_again, in_ms, 0);
}

/* ---- connections ---- */

void client_notified(void *context, struct MHD_Connection *connection, void **client_slot,
                     enum MHD_ConnectionNotificationCode code)
{
    struct clients *clients = context;
    struct client *client = *client_slot;

    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        atomic_fetch_add_explicit(&clients->shared->connection_count, 1, memory_order_relaxed);
        client = calloc(1, sizeof(*client));
        if (client == NULL)
            return; /* its first request will be refused */
        client->clients = clients;
        client->connection = connection;
        list_in(client, CLIENT_FRESH);
        *client_slot = client;
        return;
    }
    atomic_fetch_sub_explicit(&clients->shared->connection_count, 1, memory_order_relaxed);
    *client_slot = NULL;
    if (client == NULL)
        return;
    if (client->state == CLIENT_GONE)
        forget(client);
    else
        client_free(client);
}

static int socket_of(const struct client *client)
{
    return MHD_get_connection_info(client->connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
}

static void end(struct client *client)
{
    client->ended = true;
    shutdown(socket_of(client), SHUT_RDWR); /* libmicrohttpd notices, and closes it */
}

static void say_goodbye_to(struct client *client)
{
    char byte;

    if (client->ended || recv(socket_of(client), &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0)
        return;
    client->ended = true;
    shutdown(socket_of(client), SHUT_WR);
}

void client_say_goodbye(struct clients *clients)
{
    for (struct client *client = clients->list[CLIENT_FRESH]; client != NULL; client = client->next)
        say_goodbye_to(client);
    for (struct client *client = clients->list[CLIENT_IDLE]; client != NULL; client = client->next)
        say_goodbye_to(client);
}

static void expire(struct client *client)
{
    end(client);
    client->expired = true;
    add_u64(&client->clients->counters.expired);
}

/* A client that has finished sending in one of these has nothing left to be answered. In SENDING it may
 * be reading. */
static bool fin_means_gone(enum client_state state)
{
    return state == CLIENT_FRESH || state == CLIENT_HEAD || state == CLIENT_IDLE;
}

/* libmicrohttpd may lose a FIN that came together with the last bytes: it polls edge-triggered and stops reading
 * after a short read. One look a little later finds it; any later FIN is an edge of its own. */
static void look_for_fin(struct client *client)
{
    char byte;

    client->looked_at = true;
    if (recv(socket_of(client), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
        end(client);
}

static uint32_t limit_ms(const struct client *client)
{
    const uint32_t most_ms = LIMIT_MS[client->state];

    if (client->state != CLIENT_BODY)
        return most_ms;
    const uint32_t earned_ms =
        CLIENT_BODY_LEAST_MS + (uint32_t)(client->job->body_bytes / CLIENT_BODY_BYTES_A_MS);
    return earned_ms < most_ms ? earned_ms : most_ms;
}

static void sweep_state(struct clients *clients, enum client_state state)
{
    const uint64_t now_ms = time_of(clients);

    for (struct client *client = clients->list[state]; client != NULL; client = client->next) {
        const uint64_t age_ms = now_ms - client->since_ms;

        if (age_ms < FIN_LOOK_MS)
            return; /* the rest came later */
        if (client->ended)
            continue;
        if (age_ms >= limit_ms(client)) {
            expire(client);
        } else if (!client->looked_at && fin_means_gone(state)) {
            look_for_fin(client);
        }
    }
}

/* Of those in this state whose sockets were not shut down. */
static struct client *oldest(const struct clients *clients, enum client_state state)
{
    struct client *client = clients->list[state];

    while (client != NULL && client->ended)
        client = client->next;
    return client;
}

/* The client that has been reading for longest, if that is too long; else NULL. */
static struct client *slow_reader(struct clients *clients)
{
    struct client *client = oldest(clients, CLIENT_SENDING);

    return client != NULL && time_of(clients) - client->since_ms >= CLIENT_SLOW_MS ? client : NULL;
}

void client_make_way(struct clients *clients)
{
    static const enum client_state asking_nothing[] = {CLIENT_FRESH, CLIENT_HEAD, CLIENT_BODY, CLIENT_IDLE};
    struct client *first = NULL;

    for (size_t i = 0; i < sizeof(asking_nothing) / sizeof(asking_nothing[0]); i++) {
        struct client *client = oldest(clients, asking_nothing[i]);

        if (client != NULL && (first == NULL || client->since_ms < first->since_ms))
            first = client;
    }
    if (first == NULL)
        first = slow_reader(clients);
    if (first != NULL)
        expire(first);
}

void client_sweep(struct clients *clients)
{
    for (enum client_state state = 0; state < CLIENT_STATE_COUNT; state++) {
        if (LIMIT_MS[state] != 0)
            sweep_state(clients, state);
    }
}

/* ---- room for answers ---- */

static bool is_in_the_way(const struct client *client, size_t bytes)
{
    const uint64_t age_ms = time_of(client->clients) - client->since_ms;

    return client->answer_bytes > bytes || (client->answer_bytes > 0 && age_ms >= CLIENT_SLOW_MS);
}

static bool has_room(const struct clients *clients, size_t bytes)
{
    return clients->answer_bytes == 0 || clients->answer_bytes + bytes <= CLIENT_ANSWERS_BYTES_MAX;
}

/* False: too many others are quicker. A client that makes room is gone in the next MHD_run(). */
static bool make_room_for_answer(struct clients *clients, size_t bytes)
{
    struct client *client = clients->list[CLIENT_SENDING];

    for (; client != NULL && !has_room(clients, bytes); client = client->next) {
        if (!is_in_the_way(client, bytes))
            continue;
        expire(client);
        answer_over(client);
    }
    return has_room(clients, bytes);
}

/* ---- answering ---- */

static enum MHD_Result finish(struct client *client, bool queued, unsigned status, size_t body_bytes)
{
    drop_result(client);
    if (!queued)
        return MHD_NO;
    account_answer(&client->account, status, body_bytes);
    add_u64(&client->clients->counters.answers[client->route.target][status / 100]);
    move(client, CLIENT_SENDING);
    return MHD_YES;
}

static struct writer *writer_of(const struct client *client)
{
    return client->clients->shared->writer;
}

static enum MHD_Result send_answer(struct client *client, struct answer *answer)
{
    unsigned status = 0;

    answer->close = answer->close || client->clients->is_leaving;
    account_name(&client->account, answer, &client->clients->dice);
    const size_t body_bytes = answer_body_bytes(answer);
    const bool queued = reply_queue(client->connection, answer, &status);
    return finish(client, queued, status, body_bytes);
}

static enum MHD_Result send_problem(struct client *client, enum problem problem, const char *path, bool close)
{
    struct answer answer;

    answer_problem(problem, path, &answer);
    if (problem == PROBLEM_BAD_IDS && client->selection != NULL)
        selection_answer_bad(client->selection, path, &answer);
    answer.close = answer.close || close;
    if (problem == PROBLEM_METHOD)
        answer.allow = upload_allowed(&client->route, writer_of(client) != NULL);
    if (problem == PROBLEM_SHED || problem == PROBLEM_UNREAD)
        answer_retry_after(RETRY_SHED_MS, &answer);
    return send_answer(client, &answer);
}

static enum MHD_Result send_written(struct client *client, const char *path)
{
    struct answer answer;

    account_outcome(&client->account, write_outcome_name(client->job->result.outcome));
    upload_answer(&client->job->result, client->job->kind, client->job->id, path, &answer);
    return send_answer(client, &answer);
}

/* Others are answered the same. */
static bool may_be_prepared(const struct client *client, const struct guard_result *result)
{
    return result->status == GUARD_OK && !client->clients->is_leaving && !client->revalidates &&
           client->route.target != ROUTE_OFFERS && account_request(&client->account)[0] == '\0';
}

/* False: it is not prepared. */
static bool send_prepared(struct client *client, const struct guard_result *result)
{
    struct clients *clients = client->clients;
    struct shelf_wish wish = {.result = result,
                              .route = &client->route,
                              .fresh_ms = clients->shared->fresh_ms,
                              .held = client->is_conditional};
    unsigned status = 0;

    client->prepared = reply_queue_prepared(client->connection, &clients->shelf, &wish, &status);
    if (client->prepared == NULL)
        return false;
    finish(client, true, status, result->value->body_bytes);
    return true;
}

static enum MHD_Result send_made(struct client *client, const struct guard_result *result, const char *path)
{
    struct answer answer;

    answer_from_result(result, path, client->clients->shared->fresh_ms, &answer);
    if (client->route.target == ROUTE_OFFERS)
        answer_own_life(result, &answer);
    if (client->revalidates)
        answer_revalidated(&answer);
    return send_answer(client, &answer);
}

static enum MHD_Result send_result(struct client *client, const struct guard_result *result, const char *path)
{
    account_source(&client->account, result);
    if (may_be_prepared(client, result) && send_prepared(client, result))
        return MHD_YES;
    return send_made(client, result, path);
}

static enum MHD_Result send_selection(struct client *client, const char *path)
{
    const size_t most_bytes = selection_bytes(client->selection);
    struct answer answer;

    if (most_bytes > 0 && !make_room_for_answer(client->clients, most_bytes))
        return send_problem(client, PROBLEM_UNREAD, path, false);
    const struct guard_result sum = selection_result(client->selection);
    account_source(&client->account, &sum);
    selection_answer(client->selection, path, client->clients->shared->fresh_ms, &answer);
    if (client->revalidates)
        answer_revalidated(&answer);
    client->answer_bytes = answer.body_bytes;
    client->clients->answer_bytes += answer.body_bytes;
    return send_answer(client, &answer);
}

/* libmicrohttpd closes the connection with such an answer. */
static bool add_close(struct MHD_Response *response)
{
    return MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close") == MHD_YES;
}

static enum MHD_Result send_pong(struct client *client)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(sizeof(PONG) - 1, (void *)(uintptr_t)PONG, MHD_RESPMEM_PERSISTENT);
    const char *request = account_request(&client->account);
    bool queued = false;

    if (response != NULL) {
        queued = MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "text/plain") == MHD_YES &&
                 (request[0] == '\0' ||
                  MHD_add_response_header(response, ANSWER_REQUEST_ID, request) == MHD_YES) &&
                 (!client->clients->is_leaving || add_close(response)) &&
                 MHD_queue_response(client->connection, MHD_HTTP_OK, response) == MHD_YES;
        MHD_destroy_response(response);
    }
    return finish(client, queued, MHD_HTTP_OK, sizeof(PONG) - 1);
}

/* ---- asking ---- */

/* A hit that had to be parked in the meantime goes ahead of waiters that were woken together. */
static void go_on(struct client *client, bool is_hit)
{
    struct clients *clients = client->clients;

    move(client, client->state == CLIENT_PARKED ? CLIENT_WAKING : CLIENT_ANSWERED);
    if (client->state == CLIENT_WAKING && is_hit) {
        DL_DELETE(clients->list[CLIENT_WAKING], client);
        DL_PREPEND(clients->list[CLIENT_WAKING], client);
    }
    client_due(clients);
}

/* The guard's callback, on this loop's thread. The value is lent: keep it. */
static void answered(void *context, const struct guard_result *result)
{
    struct client *client = context;

    if (client->state == CLIENT_GONE) {
        forget(client);
        return;
    }
    client->result = *result;
    if (result->value != NULL)
        client->result.value = guard_value_ref(result->value);
    go_on(client, result->source == GUARD_FROM_CACHE);
}

/* The same for all of a selection. */
static void many_answered(void *context, const struct guard_result *results)
{
    struct client *client = context;

    if (client->state == CLIENT_GONE) {
        forget(client);
        return;
    }
    selection_take(client->selection, results);
    go_on(client, selection_is_hit(client->selection));
}

static enum MHD_Result park(struct client *client)
{
    move(client, CLIENT_PARKED);
    MHD_suspend_connection(client->connection);
    return MHD_YES;
}

static enum MHD_Result send_what_came(struct client *client, const char *path)
{
    if (client->selection != NULL)
        return send_selection(client, path);
    return client->job != NULL ? send_written(client, path) : send_result(client, &client->result, path);
}

static enum MHD_Result await(struct client *client)
{
    move(client, CLIENT_ASKED);
    return client_count(client->clients, CLIENT_ASKED) > CLIENT_LOOK_MAX ? park(client) : MHD_YES;
}

/* Of the one key or all of a selection. */
static enum guard_status ask_guard(struct client *client, struct guard_request *request,
                                   struct guard_result *results)
{
    struct clients *clients = client->clients;

    request->kind = clients->shared->kinds[client->route.target];
    request->loop = clients->guard;
    request->context = client;
    request->flags = client->revalidates ? GUARD_REVALIDATE : 0;
    if (client->account.asker != NULL) {
        request->asker = client->account.asker;
        request->asker_ref = asker_ref;
        request->asker_unref = asker_unref;
    }
    return clients->guard != NULL ? guard_get(clients->shared->guard, request, results, &client->ticket)
                                  : GUARD_CLOSING;
}

static enum MHD_Result get_many(struct client *client, const char *path)
{
    struct selection_keys keys;

    if (client->selection == NULL)
        return send_problem(client, PROBLEM_SHED, path, false); /* there was no memory for it */
    selection_list(client->selection, &keys);
    struct guard_request request = {.keys = keys.list, .count = keys.count, .answered = many_answered};
    const enum guard_status status = ask_guard(client, &request, selection_results(client->selection));
    if (status == GUARD_NOW)
        return send_selection(client, path);
    if (status != GUARD_OK)
        return send_result(client, &(struct guard_result){.status = status}, path);
    return await(client);
}

static enum MHD_Result get_one(struct client *client, const char *path)
{
    char key[DOCUMENT_KEY_SIZE];
    struct guard_request request = {.key = key, .answered = answered};

    route_key(&client->route, key);
    shelf_expect(&client->clients->shelf, &client->route);
    const enum guard_status status = ask_guard(client, &request, &client->result);
    if (status == GUARD_NOW)
        return send_result(client, &client->result, path);
    if (status != GUARD_OK)
        return send_result(client, &(struct guard_result){.status = status}, path);
    return await(client);
}

/* ---- writing ---- */

/* The writer's callback, on one of its threads. Sent under the lock: a loop that finds the job in the list knows that
 * nothing more is done to its handle, and may close it. */
static void written(struct write_job *job)
{
    struct clients *clients = ((struct client *)job->context)->clients;

    pthread_mutex_lock(&clients->written_lock);
    DL_APPEND(clients->written, job);
    uv_async_send(&clients->written_request);
    pthread_mutex_unlock(&clients->written_lock);
}

void client_take_written(struct clients *clients)
{
    pthread_mutex_lock(&clients->written_lock);
    struct write_job *jobs = clients->written;
    clients->written = NULL;
    pthread_mutex_unlock(&clients->written_lock);

    while (jobs != NULL) {
        struct write_job *job = jobs;

        DL_DELETE(jobs, job);
        move(job->context, CLIENT_WAKING);
        client_due(clients);
    }
}

static enum MHD_Result submit(struct client *client, const char *path)
{
    client->job->done = written;
    client->job->context = client;
    client->job->trace = asker_trace(client->account.asker);
    const enum write_outcome outcome = writer_submit(writer_of(client), client->job);
    if (outcome == WRITE_DONE)
        return park(client); /* the job is the writer's now */
    client->job->result.outcome = outcome;
    return send_written(client, path);
}

/* The body that has been arriving for longest makes way. False: that is this client's own, or all room is taken by
 * complete bodies. */
static bool make_room_for_body(const struct client *client, size_t more_bytes)
{
    struct clients *clients = client->clients;

    while (clients->upload_bytes + more_bytes > CLIENT_UPLOADS_BYTES_MAX) {
        struct client *first = oldest(clients, CLIENT_BODY);

        if (first == NULL || first == client)
            return false;
        expire(first);
        drop_result(first);
    }
    return true;
}

static enum MHD_Result start_upload(struct client *client, const char *path)
{
    struct clients *clients = client->clients;
    enum problem problem = PROBLEM_SHED;

    if (make_room_for_body(client, WRITE_ROOM_BYTES))
        problem = upload_open(client->connection, &client->route, &client->job);
    if (problem != PROBLEM_COUNT)
        return send_problem(client, problem, path, true);
    clients->upload_bytes += client->job->body_room;
    move(client, CLIENT_BODY);
    return MHD_YES;
}

static bool grow_upload(struct client *client, size_t bytes)
{
    const size_t old_room = client->job->body_room, room = write_job_room(client->job, bytes);

    if (room == old_room)
        return true;
    if (!make_room_for_body(client, room - old_room) || !write_job_grow(&client->job, room))
        return false;
    client->clients->upload_bytes += room - old_room;
    return true;
}

/* ---- requests ---- */

void *client_request_line(void *context, const char *uri, struct MHD_Connection *connection)
{
    struct clients *clients = context;
    struct client *client =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;

    clients->line_ms = uv_now(clients->uv);
    if (client != NULL) {
        account_begin(&client->account, clients->lane, uri);
        client->revalidates = false;
        client->verdict = (uint8_t)route_parse(uri, &client->route);
        shelf_seek(&clients->shelf, &client->route);
        client->uri_end = head_target_end(uri);
        if (client->route.target == ROUTE_PRODUCTS &&
            (client->verdict == ROUTE_OK || client->verdict == ROUTE_BAD_IDS))
            client->selection = selection_new(uri); /* libmicrohttpd takes the URI apart later */
        move(client, CLIENT_HEAD);
    }
    return client;
}

/* With its line in the access log. */
static void request_over(struct client *client, enum MHD_RequestTerminationCode code)
{
    const struct account_over over = {.connection = client->connection,
                                      .code = code,
                                      .expired = client->expired,
                                      .route = route_target_name(client->route.target)};

    account_end(&client->account, client->clients->lane, &over);
}

/* libmicrohttpd would refuse its length. */
static void refuse_length(struct client *client)
{
    struct trace trace = {.request = ""};

    trace_make_request(&trace, random_next(&client->clients->dice));
    const unsigned status = reply_refuse_length(client->connection, trace.request);
    if (status == 0)
        return;
    client->ended = true;
    add_u64(&client->clients->counters.answers[client->route.target][status / 100]);
    client->account.asker = asker_new(NULL, &trace);
    account_answer(&client->account, status, 0);
    request_over(client, MHD_REQUEST_TERMINATED_COMPLETED_OK);
}

void client_complained(void *context, const char *format, va_list arguments)
{
    struct clients *clients = context;

    reply_log(format, arguments);
    if (!reply_complains_of_length(format))
        return;
    for (struct client *client = clients->list[CLIENT_HEAD]; client != NULL; client = client->next) {
        if (!client->ended)
            refuse_length(client);
    }
}

/* What is wrong with path or method; PROBLEM_COUNT: nothing. */
static enum problem refusal(const struct client *client, const char *method)
{
    if (client->verdict != ROUTE_OK)
        return VERDICT_PROBLEMS[client->verdict];
    if (upload_is_write(&client->route, method))
        return writer_of(client) != NULL ? PROBLEM_COUNT : PROBLEM_WRITES_OFF;
    const bool reads = strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
    return reads && client->route.target != ROUTE_PURCHASE ? PROBLEM_COUNT : PROBLEM_METHOD;
}

/* First call: only what cannot be kept open is answered here, for an answer given here closes the
 * connection. */
static enum MHD_Result handle_head(struct client *client, const char *path, const char *method,
                                   const char *version)
{
    const struct strict_line line = {method, path, version, client->uri_end};
    struct head_names names;
    enum problem problem;

    if (client->ended)
        return MHD_NO; /* it could not hear an answer */
    const bool refused = reply_refuses_head(client->connection, &line, &problem, &names);
    const struct account_head head = {.connection = client->connection,
                                      .method = method,
                                      .protocol = version,
                                      .names = &names,
                                      .may_own = client->route.target == ROUTE_OFFERS};
    account_head(&client->account, &head, &client->clients->dice);
    client->is_conditional = names.is_conditional;
    const bool writes = upload_is_write(&client->route, method) && refusal(client, method) == PROBLEM_COUNT;
    if (writes && (!refused || problem == PROBLEM_BODY))
        return start_upload(client, path);
    if (!refused) {
        move(client, CLIENT_READY);
        return MHD_YES;
    }
    if (problem == PROBLEM_BODY && refusal(client, method) != PROBLEM_COUNT)
        problem = refusal(client, method);
    return send_problem(client, problem, path, true);
}

static enum MHD_Result handle_ready(struct client *client, const char *path, const char *method)
{
    const enum problem problem = refusal(client, method);

    if (problem != PROBLEM_COUNT)
        return send_problem(client, problem, path, false);
    if (client->job != NULL)
        return submit(client, path);
    if (client->route.target == ROUTE_PING)
        return send_pong(client);
    client->revalidates = revalidate_wanted(client->connection, &client->clients->shared->revalidate);
    return client->route.target == ROUTE_PRODUCTS ? get_many(client, path) : get_one(client, path);
}

static enum MHD_Result handle_body(struct client *client, const char *path, const char *method,
                                   const char *body, size_t *body_bytes)
{
    if (client->ended)
        return MHD_NO; /* it made way */
    if (*body_bytes == 0) {
        move(client, CLIENT_READY);
        return handle_ready(client, path, method);
    }
    const bool taken = grow_upload(client, client->job->body_bytes + *body_bytes) &&
                       upload_take(client->job, body, *body_bytes);
    *body_bytes = 0;
    return taken ? MHD_YES : MHD_NO;
}

enum MHD_Result client_handle(void *context, struct MHD_Connection *connection, const char *path,
                              const char *method, const char *version, const char *body, size_t *body_bytes,
                              void **client_slot)
{
    struct client *client = *client_slot;

    (void)context, (void)connection;
    if (client == NULL)
        return MHD_NO; /* no memory when it connected */
    switch ((enum client_state)client->state) {
    case CLIENT_HEAD:
        return handle_head(client, path, method, version);
    case CLIENT_BODY:
        return handle_body(client, path, method, body, body_bytes);
    case CLIENT_READY:
        return handle_ready(client, path, method);
    case CLIENT_ASKED:
        return time_of(client->clients) - client->since_ms >= CLIENT_LOOK_MS ? park(client) : MHD_YES;
    case CLIENT_ANSWERED:
        return send_what_came(client, path);
    case CLIENT_FRESH:
    case CLIENT_PARKED:
    case CLIENT_WAKING:
    case CLIENT_SENDING:
    case CLIENT_IDLE:
    case CLIENT_GONE:
    case CLIENT_STATE_COUNT:
        break;
    }
    assert(false); /* libmicrohttpd does not call here in these */
    return MHD_NO;
}

void client_completed(void *context, struct MHD_Connection *connection, void **client_slot,
                      enum MHD_RequestTerminationCode code)
{
    struct clients *clients = context;
    struct client *client = *client_slot;

    (void)connection;
    if (client == NULL)
        return;
    request_over(client, code);
    answer_over(client);
    shelf_sent(&client->prepared);
    if (client->state != CLIENT_ASKED) {
        drop_result(client);
        move(client, CLIENT_IDLE);
        return;
    }
    move(client, CLIENT_GONE);
    client->connection = NULL;
    if (clients->guard != NULL) /* else it is detaching, and about to answer all of them anyway */
        guard_cancel(clients->shared->guard, clients->guard, client->ticket);
}

unsigned client_wake(struct clients *clients, unsigned count_max)
{
    unsigned count = 0;

    while (count < count_max && clients->list[CLIENT_WAKING] != NULL) {
        struct client *client = clients->list[CLIENT_WAKING];

        move(client, CLIENT_ANSWERED);
        MHD_resume_connection(client->connection);
        count++;
    }
    return count;
}
