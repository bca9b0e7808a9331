/* SPDX-License-Identifier: MIT */
/* crowd.c - see crowd.h. */
#include "tests/chaos/crowd.h"

#include "load/base/clock.h"
#include "load/base/dice.h"
#include "load/base/http.h"

#include <libpq-fe.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    HOT_KEYS = 3,
    LEAVES_ONE_IN = 16,
    LEAVES_MOST_MS = 200,
    REFUSED_PAUSE_MS = 20, /* longer, or refusals, which take no time, would be most of the history */
    INVALIDATE_TRIES = 3,
    INVALIDATE_LIMIT_MS = 5000,
};

struct member {
    struct crowd *crowd;
    pthread_t thread;
    uint32_t number;
    uint64_t chance;
    PGconn *connection; /* a writer's; owned */
};

struct crowd {
    struct crowd_options options;
    atomic_bool ending, quiet;
    struct member members[CROWD_MAX];
    uint32_t count;
};

static uint32_t chance_below(struct member *member, uint32_t limit)
{
    return (uint32_t)dice_below(&member->chance, limit);
}

static void rest(struct member *member, uint32_t pause_ms)
{
    clock_pause_ms(chance_below(member, pause_ms * 2 + 1));
}

static uint32_t choose_key(struct member *member)
{
    bool hot = chance_below(member, 2) == 0;
    return 1 + chance_below(member, hot ? HOT_KEYS : scene_key_count(member->crowd->options.scene));
}

/* NULL: the key is a product. */
static const struct scene_page *page_of(const struct crowd *crowd, uint32_t key)
{
    return key > SCENE_KEYS ? &crowd->options.scene->page[key - SCENE_KEYS - 1] : NULL;
}

/* Half of the time its own, so that a stopped process does not hold everybody. */
static uint8_t choose_process(struct member *member)
{
    bool own = chance_below(member, 2) == 0;
    return (uint8_t)(own ? member->number % SCENE_PROCESSES : chance_below(member, SCENE_PROCESSES));
}

/* ---- clients ---- */

static uint64_t number_behind(const char *text, const char *name)
{
    const char *found = strstr(text, name);
    return found != NULL ? strtoull(found + strlen(name), NULL, 10) : 0;
}

/* The row's id is believed only if body and ETag are of one version. */
static void read_row(const struct http_answer *answer, struct history_get *get)
{
    char etag[64];
    http_header(answer, "ETag", etag, sizeof etag);
    get->version = number_behind(etag, "\"");
    if (number_behind(answer->body, "\"version\":") == get->version)
        get->body_key = (uint32_t)number_behind(answer->body, "\"id\":");
}

/* The version is told by the stock of the one product of the page that is edited. */
static void read_page(const struct http_answer *answer, const struct scene_page *page,
                      struct history_get *get)
{
    char wanted[32];
    snprintf(wanted, sizeof wanted, "{\"id\":%" PRIu32 ",", page->product);
    const char *at = strstr(answer->body, wanted);
    if (at == NULL)
        return;
    get->version = number_behind(at, "\"stock\":") + 1 - (uint64_t)page->stock;
    get->body_key = get->key;
}

static bool is_kept(const struct http_answer *answer)
{
    char status[128];
    http_header(answer, "Cache-Status", status, sizeof status);
    return strstr(status, "detail=outage") != NULL;
}

static void write_path(const struct crowd *crowd, uint32_t key, char path[static 64])
{
    const struct scene_page *page = page_of(crowd, key);
    if (page == NULL)
        snprintf(path, 64, "/products/%" PRIu32, key);
    else
        snprintf(path, 64, "/categories/%" PRIu32 "?after=%" PRIu32, page->category, page->product - 1);
}

/* True: it was given a row. */
static bool ask(struct member *member)
{
    struct crowd *crowd = member->crowd;
    bool leaves = chance_below(member, LEAVES_ONE_IN) == 0;
    char path[64];
    struct http_answer answer;
    struct history_get get = {
        .begin_us = clock_us(),
        .key = choose_key(member),
        .process = choose_process(member),
        .limit_ms = leaves ? 1 + chance_below(member, LEAVES_MOST_MS) : CROWD_PATIENCE_MS,
    };
    uint16_t port = atomic_load(&crowd->options.scene->port[get.process]);
    if (port == 0)
        return false;
    write_path(crowd, get.key, path);
    scene_go_to(crowd->options.scene, get.process);
    http_ask(
        &(struct http_request){.host = "127.0.0.1", .port = port, .path = path, .deadline_ms = get.limit_ms},
        &answer);
    scene_go_home(crowd->options.scene);
    get.end_us = clock_us();
    get.outcome = answer.outcome;
    get.status = answer.status;
    get.kept = answer.outcome == HTTP_ANSWERED && is_kept(&answer);
    if (answer.status == 200 && page_of(crowd, get.key) != NULL)
        read_page(&answer, page_of(crowd, get.key), &get);
    else if (answer.status == 200)
        read_row(&answer, &get);
    http_answer_clear(&answer);
    history_add_get(crowd->options.history, &get);
    return get.status == 200;
}

static void *run_client(void *context)
{
    struct member *member = context;
    while (!atomic_load(&member->crowd->ending)) {
        uint32_t pause_ms = member->crowd->options.client_pause_ms;
        rest(member, ask(member) ? pause_ms : pause_ms + REFUSED_PAUSE_MS);
    }
    return NULL;
}

/* ---- writers ---- */

/* The server's farewell to a session it ends. */
static void ignore_notice(void *context, const char *text)
{
    (void)context, (void)text;
}

static bool connect_writer(struct member *member)
{
    char url[256];
    if (member->connection != NULL && PQstatus(member->connection) == CONNECTION_OK)
        return true;
    PQfinish(member->connection);
    snprintf(url, sizeof url,
             "host=127.0.0.1 port=%u user=postgres dbname=postgres connect_timeout=2 "
             "options='-c statement_timeout=2000'",
             (unsigned)member->crowd->options.scene->postgres.port);
    member->connection = PQconnectdb(url);
    PQsetNoticeProcessor(member->connection, ignore_notice, NULL);
    return PQstatus(member->connection) == CONNECTION_OK;
}

/* The row's new version; 0: not known to be committed. */
static uint64_t edit(struct member *member, uint32_t key)
{
    char statement[128];
    struct history_edit done = {.begin_us = clock_us(), .key = key};
    const struct scene_page *page = page_of(member->crowd, key);
    snprintf(statement, sizeof statement,
             "UPDATE products SET stock = stock + 1 WHERE id = %" PRIu32 " RETURNING %s - %ld",
             page != NULL ? page->product : key, page != NULL ? "stock + 1" : "edition",
             page != NULL ? page->stock : 0);
    PGresult *result = PQexec(member->connection, statement);
    done.end_us = clock_us();
    done.committed = PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 1;
    if (done.committed)
        done.version = strtoull(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    history_add_edit(member->crowd->options.history, &done);
    return done.version;
}

static bool invalidate(struct member *member, uint32_t key, uint64_t version)
{
    struct crowd *crowd = member->crowd;
    char path[64];
    struct http_answer answer;
    const uint32_t process = chance_below(member, SCENE_PROCESSES);
    uint16_t port = atomic_load(&crowd->options.scene->ops_port[process]);
    struct history_invalidation done = {
        .begin_us = clock_us(), .key = key, .version = version, .process = (uint8_t)process};
    if (port == 0)
        return false;
    const struct scene_page *page = page_of(crowd, key);
    snprintf(path, sizeof path, "/invalidate?%s:%" PRIu32, page != NULL ? "tag=listing" : "key=product",
             page != NULL ? page->category : key);
    scene_go_to(crowd->options.scene, process);
    http_ask(&(struct http_request){.host = "127.0.0.1",
                                    .port = port,
                                    .method = "POST",
                                    .path = path,
                                    .deadline_ms = INVALIDATE_LIMIT_MS},
             &answer);
    scene_go_home(crowd->options.scene);
    done.end_us = clock_us();
    done.confirmed = answer.status == 200;
    http_answer_clear(&answer);
    history_add_invalidation(crowd->options.history, &done);
    return done.confirmed;
}

static void change(struct member *member)
{
    uint32_t key = 1 + chance_below(member, scene_key_count(member->crowd->options.scene));
    uint64_t version = connect_writer(member) ? edit(member, key) : 0;
    bool confirmed = version == 0;
    for (int i = 0; !confirmed && i < INVALIDATE_TRIES; i++)
        confirmed = invalidate(member, key, version);
}

static void *run_writer(void *context)
{
    struct member *member = context;
    while (!atomic_load(&member->crowd->ending)) {
        if (!atomic_load(&member->crowd->quiet))
            change(member);
        rest(member, member->crowd->options.writer_pause_ms);
    }
    PQfinish(member->connection);
    return NULL;
}

/* ---- all of them ---- */

bool crowd_open(const struct crowd_options *options, struct crowd **out)
{
    struct crowd *crowd = calloc(1, sizeof *crowd);
    if (crowd == NULL)
        return false;
    crowd->options = *options;
    *out = crowd;
    for (uint32_t i = 0; i < options->client_count + options->writer_count && i < CROWD_MAX; i++) {
        struct member *member = &crowd->members[i];
        *member = (struct member){.crowd = crowd, .number = i, .chance = options->seed * 1000003 + i};
        if (pthread_create(&member->thread, NULL, i < options->client_count ? run_client : run_writer,
                           member) != 0) {
            perror("crowd");
            crowd_close(out);
            return false;
        }
        crowd->count++;
    }
    return true;
}

void crowd_quiet_writers(struct crowd *crowd, bool quiet)
{
    atomic_store(&crowd->quiet, quiet);
}

void crowd_close(struct crowd **slot)
{
    struct crowd *crowd = *slot;
    *slot = NULL;
    if (crowd == NULL)
        return;
    atomic_store(&crowd->ending, true);
    for (uint32_t i = 0; i < crowd->count; i++)
        pthread_join(crowd->members[i].thread, NULL);
    free(crowd);
}
