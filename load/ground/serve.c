/* SPDX-License-Identifier: MIT */
/*
 * serve.c - see serve.h. The playground's own listener is on 127.0.0.1:
 *
 *     GET /          the page: no token, it holds nothing
 *     GET /stream    state.h, a line at a time, for as long as the reader wants it; at most STATE_READERS of them
 *     POST /act      a button; see buttons.h. 200 {"ok":true}, else {"error": text}
 *
 * buttons.h says who may. Threads: one of libmicrohttpd's for each connection.
 */
#include "load/ground/serve.h"

#include "load/base/net.h"
#include "load/base/progress.h"
#include "load/base/text.h"
#include "load/ground/buttons.h"
#include "load/ground/state.h"

#include "ground_page.h"

#include <microhttpd.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

struct web {
    struct state *state;   /* lent */
    struct ground *ground; /* lent */
    struct MHD_Daemon *daemon;
    uint16_t port;
    char token[GATE_TOKEN_BYTES];
};

enum { BODY_BYTES_MAX = 4096, CONNECTIONS_MAX = 32, IDLE_LIMIT_S = 60, WAIT_MS = 2000, BLOCK_BYTES = 16384 };

/* A body that arrives. */
struct upload {
    struct text body;
    bool is_too_large;
};

/* A reader of the stream. */
struct follower {
    struct state *state;
    uint64_t number;
    struct text line; /* the one being sent */
    size_t sent;
};

/* ---- answers ---- */

static enum MHD_Result answer(struct MHD_Connection *connection, unsigned status,
                              struct MHD_Response *response, const char *type)
{
    if (response == NULL)
        return MHD_NO;
    MHD_add_response_header(response, "Content-Type", type);
    MHD_add_response_header(response, "Cache-Control", "no-store");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "Cross-Origin-Resource-Policy", "same-origin");
    enum MHD_Result result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result answer_json(struct MHD_Connection *connection, unsigned status, const char *why)
{
    json_t *said = why != NULL ? json_pack("{s:s}", "error", why) : json_pack("{s:b}", "ok", 1);
    char *text = json_dumps(said, JSON_COMPACT);
    json_decref(said);
    return answer(connection, status,
                  text != NULL ? MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE)
                               : NULL,
                  "application/json");
}

static enum MHD_Result answer_page(struct MHD_Connection *connection)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(
        sizeof page_bytes, (void *)(uintptr_t)page_bytes, MHD_RESPMEM_PERSISTENT);
    if (response == NULL)
        return MHD_NO;
    MHD_add_response_header(response, "Content-Security-Policy", PAGE_POLICY "; frame-ancestors 'none'");
    MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
    return answer(connection, MHD_HTTP_OK, response, "text/html; charset=utf-8");
}

/* ---- the stream ---- */

static ssize_t next_bytes(void *context, uint64_t position, char *bytes, size_t room)
{
    struct follower *follower = context;
    (void)position;
    if (follower->sent == follower->line.count) {
        text_empty(&follower->line);
        follower->sent = 0;
        if (!state_wait(follower->state, &follower->number, WAIT_MS, &follower->line))
            text_add(&follower->line, "\n", 1); /* an empty line: somebody who has gone is noticed */
    }
    size_t left = follower->line.count - follower->sent, count = left < room ? left : room;
    memcpy(bytes, follower->line.bytes + follower->sent, count);
    follower->sent += count;
    return (ssize_t)count;
}

static void forget_follower(void *context)
{
    struct follower *follower = context;
    state_read(follower->state, false);
    text_clear(&follower->line);
    free(follower);
}

static enum MHD_Result answer_stream(struct web *web, struct MHD_Connection *connection)
{
    struct follower *follower = calloc(1, sizeof *follower);
    if (follower == NULL)
        return MHD_NO;
    follower->state = web->state;
    if (!state_read(web->state, true)) {
        free(follower);
        return answer_json(connection, MHD_HTTP_SERVICE_UNAVAILABLE,
                           "Too many pages look at this playground: close one.");
    }
    struct MHD_Response *response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES,
                                                                      next_bytes, follower, forget_follower);
    if (response == NULL)
        forget_follower(follower);
    return answer(connection, MHD_HTTP_OK, response, "application/x-ndjson");
}

/* ---- requests ---- */

static bool may(const struct web *web, struct MHD_Connection *connection, enum gate_wish wish,
                unsigned *status, const char **why)
{
    const struct gate_request request = {
        .host = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Host"),
        .origin = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Origin"),
        .authorization = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Authorization"),
        .content_type = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Content-Type")};
    *status = gate_judge(wish, &request, web->port, web->token, why);
    return *status == 0;
}

static enum MHD_Result press(struct web *web, struct MHD_Connection *connection, const struct upload *upload)
{
    char why[BUTTONS_WHY_BYTES];
    if (upload->is_too_large)
        return answer_json(connection, MHD_HTTP_CONTENT_TOO_LARGE, "No button takes so much.");
    unsigned status = buttons_press(web->ground, upload->body.bytes != NULL ? upload->body.bytes : "",
                                    upload->body.count, why);
    return answer_json(connection, status, status == MHD_HTTP_OK ? NULL : why);
}

static void take(struct upload *upload, const char *bytes, size_t count)
{
    upload->is_too_large = upload->is_too_large || upload->body.count + count > BODY_BYTES_MAX;
    if (!upload->is_too_large)
        text_add(&upload->body, bytes, count);
}

static enum MHD_Result act(struct web *web, struct MHD_Connection *connection, const struct upload *upload)
{
    unsigned status;
    const char *why;
    return may(web, connection, GATE_BUTTON, &status, &why) ? press(web, connection, upload)
                                                            : answer_json(connection, status, why);
}

static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *path,
                              const char *method, const char *version, const char *bytes, size_t *count,
                              void **slot)
{
    struct web *web = context;
    unsigned status;
    const char *why;
    bool is_get = strcmp(method, "GET") == 0, is_post = strcmp(method, "POST") == 0;
    (void)version;
    if (*slot == NULL) {
        *slot = calloc(1, sizeof(struct upload));
        return *slot != NULL ? MHD_YES : MHD_NO;
    }
    if (*count > 0) { /* nothing can be answered before the body is there */
        take(*slot, bytes, *count);
        *count = 0;
        return MHD_YES;
    }
    if (is_post && strcmp(path, "/act") == 0)
        return act(web, connection, *slot);
    bool is_stream = strcmp(path, "/stream") == 0;
    if (!is_get || (!is_stream && strcmp(path, "/") != 0))
        return answer_json(connection, is_get ? MHD_HTTP_NOT_FOUND : MHD_HTTP_METHOD_NOT_ALLOWED,
                           "There is GET /, GET /stream and POST /act.");
    if (!may(web, connection, is_stream ? GATE_STREAM : GATE_PAGE, &status, &why))
        return answer_json(connection, status, why);
    return is_stream ? answer_stream(web, connection) : answer_page(connection);
}

static void forget_upload(void *context, struct MHD_Connection *connection, void **slot,
                          enum MHD_RequestTerminationCode how)
{
    struct upload *upload = *slot;
    (void)context;
    (void)connection;
    (void)how;
    if (upload != NULL)
        text_clear(&upload->body);
    free(upload);
    *slot = NULL;
}

/* ---- opening ---- */

static bool make_token(char token[static GATE_TOKEN_BYTES])
{
    unsigned char random[(GATE_TOKEN_BYTES - 1) / 2];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return false;
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(token + 2 * i, 3, "%02x", random[i]);
    return true;
}

static bool web_open(struct web *web, struct state *state, struct ground *ground, uint16_t port)
{
    memset(web, 0, sizeof *web);
    web->state = state;
    web->ground = ground;
    web->port = port != 0 ? port : net_free_port();
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(web->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (make_token(web->token))
        web->daemon = MHD_start_daemon(
            MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL, web->port, NULL,
            NULL, handle, web, MHD_OPTION_SOCK_ADDR, &address, MHD_OPTION_CONNECTION_LIMIT,
            (unsigned)CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_LIMIT_S,
            MHD_OPTION_NOTIFY_COMPLETED, forget_upload, NULL, MHD_OPTION_END);
    if (web->daemon == NULL)
        fprintf(stderr, "stampede: the page cannot be served on 127.0.0.1:%u: %s; --port names another\n",
                (unsigned)web->port, strerror(errno));
    return web->daemon != NULL;
}

/* ---- the command ---- */

enum {
    COULD_NOT_RUN = 3,
    TURN_MS = 20,
    POPULAR = 100, /* products of the line to try: after some loads most requests are hits */
};

static struct ground ground;
static struct state state;
static struct web web;

static bool start(uint32_t product_count, uint16_t port)
{
    story_init(&ground.story);
    if (!site_open(&ground.site, product_count, &ground.story) || !jobs_open(&ground.jobs, &ground.site))
        return false;
    return state_open(&state, &ground) && web_open(&web, &state, &ground, port);
}

/* A crowd that is under way keeps what it uses: the program ends next, and its servers with it. */
static void stop(void)
{
    if (web.daemon != NULL)
        MHD_stop_daemon(web.daemon);
    web.daemon = NULL;
    state_close(&state);
    if (jobs_close(&ground.jobs))
        site_close(&ground.site);
}

/* They work when they are pasted: the ETag that If-Match wants is asked for on the way. */
static void invite_to_write(unsigned port)
{
    printf("\n  # a price by PUT, with the ETag of the product as it is; then a purchase that may be "
           "repeated\n");
    printf("  curl -i -X PUT http://127.0.0.1:%u/products/7 -H 'Content-Type: application/json' \\\n", port);
    printf("      -H \"If-Match: $(curl -si http://127.0.0.1:%u/products/7 | sed -n 's/^ETag: //p' | tr -d "
           "'\\r')\" \\\n",
           port);
    printf("      -d '{\"name\": \"Kettle\", \"description\": \"Whistles.\", \"price_cents\": 2999, "
           "\"stock\": 50}'\n");
    printf("  curl -i http://127.0.0.1:%u/products/7/purchase -H 'Content-Type: application/json' \\\n",
           port);
    printf("      -H 'Idempotency-Key: order-1' -d '{\"quantity\": 2}'\n");
}

static void invite(const struct site *site)
{
    const struct servers *servers = &site->servers;
    unsigned a = site->ports[DEED_A], b = site->ports[DEED_B], ops = site->ops_ports[DEED_A];
    printf("\nThe playground: http://127.0.0.1:%u/#%s\n", (unsigned)web.port, web.token);
    printf("(for this machine only; what follows the # is its key)\n");
    printf("\nTwo catalogd are up; their logs: %s %s\n\n", servers->catalogd[DEED_A].log_path,
           servers->catalogd[DEED_B].log_path);
    printf("  curl -i http://127.0.0.1:%u/products/7\n", a);
    printf("  curl -i http://127.0.0.1:%u/categories/30\n", b);
    printf("  curl -s http://127.0.0.1:%u/catalog | head -c 400\n", a);
    printf("  curl -X POST 'http://127.0.0.1:%u/invalidate?key=product:7'\n", ops);
    printf("  curl -s http://127.0.0.1:%u/metrics\n", ops);
    printf("  build/stampede --target 127.0.0.1:%u --target 127.0.0.1:%u --url '/products/{zipf:1-%u}' "
           "--rate 1000 --for 10s\n",
           a, b, (unsigned)(site->product_count < POPULAR ? site->product_count : POPULAR));
    printf("  psql %s\n", servers->postgres.url);
    printf("  redis-cli -p %u\n", (unsigned)servers->redis.port);
    invite_to_write(a);
    printf("\nEvery setting of catalogd but the addresses works here, for instance: LOAD_DELAY_MS=2000 make "
           "run. Ctrl-C ends it.\n");
    fflush(stdout);
}

int serve(uint32_t product_count, uint32_t port)
{
    if (start(product_count, (uint16_t)port)) {
        invite(&ground.site);
        while (site_turn(&ground.site, TURN_MS))
            continue;
        fprintf(stderr, "stampede: a process did not come back: the playground ends\n");
    }
    stop();
    return COULD_NOT_RUN;
}
