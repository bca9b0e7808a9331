/* SPDX-License-Identifier: MIT */
/*
 * app_fail_test.c - the parts of the service beside a real Redis and PostgreSQL, again and again; each time another
 * allocation or system call fails.
 *
 * Expected as in guard_fail_test.c: no crash, nothing lost, an outcome that the headers name, and health once
 * nothing fails any more. jansson takes its memory from the test, so its allocations fail, too.
 *
 * Left out, and why:
 *
 *     libpq           its own malloc() and sockets     not ours to count; pg_test.c takes the server away instead
 *     libmicrohttpd   its own malloc()                 likewise
 *     route, answer,  take no memory and call no one   nothing to fail
 *     settings
 */
#include "tests/fail/failing.h"

#include "app/catalog/catalog.h"
#include "app/catalog/catalog_json.h"
#include "app/http/server.h"
#include "app/pg/pg.h"
#include "app/write/writer.h"
#include "load/stack/stack.h"

#include <arpa/inet.h>
#include <jansson.h>
#include <netinet/in.h>
#include <semaphore.h>

enum { SCALE = 200, LIMIT_MS = 10000, LIMIT_S = 20, ROWS_BYTES = 1 << 20, TEXT_BYTES = 200, PRODUCT = 7 };

static struct stack_redis redis;
static struct stack_postgres postgres;

/* ---- documents ---- */

static void *json_memory(size_t bytes)
{
    return fails(FAIL_LIBRARY_MEMORY) ? NULL : counted(__real_malloc(bytes));
}

static bool add_row(struct rows *rows, const char *const *texts, size_t count)
{
    bool added = true;
    for (size_t i = 0; i < count && added; i++)
        added = rows_add(rows, texts[i], texts[i] != NULL ? strlen(texts[i]) : 0);
    return added;
}

static void build(catalog_json_build *make, const char *const (*table)[15], size_t columns, size_t row_count,
                  bool healthy)
{
    struct catalog_document document = {.body = NULL};
    struct rows rows;
    bool added = true;
    rows_init(&rows, ROWS_BYTES);
    rows_reset(&rows, columns);
    for (size_t i = 0; i < row_count && added; i++)
        added = add_row(&rows, table[i], columns);
    enum catalog_json_verdict verdict = added ? make(&rows, &document) : CATALOG_JSON_BROKEN;
    assert_true(verdict == CATALOG_JSON_OK || (verdict == CATALOG_JSON_BROKEN && !healthy));
    assert_true((verdict == CATALOG_JSON_OK) == (document.body != NULL));
    catalog_document_clear(&document);
    rows_clear(&rows);
}

static void build_tree(bool healthy)
{
    static const char *const table[][15] = {{"1", "1", "Tools", "0"},
                                            {"2", "2", "Saws", "0"},
                                            {"3", "3", "Handsaws", "7"},
                                            {"4", "1", "Toys", "0"}};
    build(catalog_json_tree, table, 4, 4, healthy);
}

static void build_category(bool healthy)
{
    static const char *const table[][15] = {
        {"3", "Saws", "2", "1", "Tools", NULL, NULL, "child", "4", "Handsaws", NULL, NULL, NULL},
        {"3", "Saws", "2", "1", "Tools", NULL, NULL, "product", "9", "A saw", "SKU-9", "995", "3"}};
    build(catalog_json_category, table, 13, 2, healthy);
}

static void build_product(bool healthy)
{
    static const char *const table[][15] = {{"9", "SKU-9", "A saw", "It saws.", "995", "3", "1",
                                             "2024-01-01T00:00:00Z", "3", "Saws", "1", "Tools", NULL, NULL,
                                             "1-a.b.c.d"}};
    build(catalog_json_product, table, 15, 1, healthy);
}

TEST(a_document_is_whole_or_none)
{
    static attempt *const builds[] = {build_tree, build_category, build_product};
    for (size_t i = 0; i < sizeof builds / sizeof *builds; i++) {
        sweep_alone(FAIL_MEMORY, builds[i]);
        sweep_alone(FAIL_LIBRARY_MEMORY, builds[i]); /* jansson's */
    }
}

/* ---- the database ---- */

static const struct pg_statement statements[] = {{"echo", "SELECT $1::text, NULL", 1},
                                                 {"nap", "SELECT pg_sleep($1::float8)", 1}};

static enum pg_outcome ask(struct pg_pool *pool, size_t statement, const char *param, uint32_t left_ms)
{
    struct pg_request request = {statement, &param, left_ms, -1, NULL};
    struct pg_fault fault;
    struct rows rows;
    rows_init(&rows, ROWS_BYTES);
    enum pg_outcome outcome = pg_query(pool, &request, &rows, &fault);
    assert_true((outcome == PG_OK) == (fault.text[0] == '\0'));
    if (outcome == PG_REJECTED)
        assert_string_equal(fault.text, "no memory for the result");
    if (outcome == PG_OK && statement == 0)
        assert_string_equal(rows_text(&rows, 0, 0), param);
    rows_clear(&rows);
    return outcome;
}

static void use_pool(bool prepare, bool healthy)
{
    const struct pg_config config = {.conninfo = postgres.url,
                                     .connection_count = 2,
                                     .prepare = prepare,
                                     .statement_limit_ms = LIMIT_MS,
                                     .statements = statements,
                                     .statement_count = 2};
    struct pg_pool *pool = NULL;
    if (!pg_pool_open(&config, &pool)) {
        assert_false(healthy);
        return;
    }
    for (int i = 0; i < 3; i++) {
        enum pg_outcome outcome = ask(pool, 0, "hello", LIMIT_MS);
        assert_true(outcome == PG_OK || !healthy);
    }
    enum pg_outcome given_up = ask(pool, 1, "60", 50); /* and cancelled */
    assert_true(given_up == PG_TIMEOUT || (!healthy && given_up != PG_OK));
    failing_stop();
    assert_int_equal(ask(pool, 0, "healthy", LIMIT_MS), PG_OK);
    assert_int_equal(pg_pool_state(pool), PG_STATE_UP);
    pg_pool_close(&pool);
}

static void use_prepared(bool healthy)
{
    use_pool(true, healthy);
}

static void use_pipelined(bool healthy)
{
    use_pool(false, healthy);
}

TEST(a_query_has_an_outcome_and_the_pool_goes_on)
{
    sweep_some(FAIL_MEMORY, use_prepared);
    sweep_some(FAIL_MEMORY, use_pipelined);
    sweep_some(FAIL_THREAD, use_prepared);
    sweep_some(FAIL_POLL_SIGNAL, use_prepared);
}

/* ---- the catalog behind the guard ---- */

static void read_settings(struct settings *settings, char *redis_url, char *database_url)
{
    char *argv[] = {(char[]){"catalogd"}, NULL};
    char *env[] = {redis_url, database_url, NULL};
    snprintf(redis_url, TEXT_BYTES, "REDIS_URL=%s", redis.url);
    snprintf(database_url, TEXT_BYTES, "DATABASE_URL=%s", postgres.url);
    assert_int_equal(settings_read(1, argv, env, settings, stderr), SETTINGS_OK);
    settings->policy.failure_ms = 10;
    settings->policy.lease_ms = 800;
    settings->guard.redis_limit_ms = 250;
    settings->guard.max_loads = 2;
}

static void get(struct guard *guard, const struct catalog *catalog, enum document_kind kind, const char *key,
                bool healthy)
{
    struct guard_result result;
    guard_get_wait(guard, &(struct guard_request){.kind = catalog_kind(catalog, kind), .key = key}, &result);
    bool named = result.status == GUARD_OK || result.status == GUARD_ABSENT ||
                 result.status == GUARD_FAILED || result.status == GUARD_NO_MEMORY;
    assert_true(named);
    assert_true(!healthy || result.status == GUARD_OK || result.status == GUARD_ABSENT);
    guard_value_unref(&result.value);
}

static void ask_catalog(struct guard *guard, const struct catalog *catalog, unsigned run, bool healthy)
{
    char category[48], absent[48];
    snprintf(category, sizeof category, "category:1:after:%u", run);
    snprintf(absent, sizeof absent, "product:%u", 1000000 + run);
    get(guard, catalog, DOCUMENT_CATEGORY, category, healthy);
    get(guard, catalog, DOCUMENT_CATEGORY, category, healthy);
    get(guard, catalog, DOCUMENT_PRODUCT, absent, healthy);
}

/* ---- the server ---- */

/* One request on a connection of its own, past everything that may fail; the status, or 0: none came. */
static unsigned request(const char *address, const char *target)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timeval limit = {.tv_sec = LIMIT_MS / 1000};
    char text[4096] = "";
    unsigned status = 0;
    to.sin_port = htons((uint16_t)strtoul(strrchr(address, ':') + 1, NULL, 10));
    int fd = __real_socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    assert_int_equal(__real_connect(fd, (const struct sockaddr *)&to, sizeof to), 0);
    int bytes =
        snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: shop\r\nConnection: close\r\n\r\n", target);
    __real_send(fd, text, (size_t)bytes, MSG_NOSIGNAL);
    size_t count = 0;
    ssize_t got = 1;
    while (got > 0 || (got < 0 && errno == EINTR)) { /* this process was stopped meanwhile */
        got = __real_recv(fd, text + count, sizeof text - 1 - count, 0);
        count += got > 0 ? (size_t)got : 0;
    }
    assert_false(got < 0 && errno == EAGAIN); /* a request that is never answered */
    text[count] = '\0';
    if (sscanf(text, "HTTP/1.1 %u ", &status) != 1)
        status = 0;
    close(fd);
    return status;
}

static void request_all(const struct server *server, unsigned run, bool healthy)
{
    static const char *const targets[] = {"/categories/1?after=", "/products/", "/nowhere/"};
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        char target[64];
        snprintf(target, sizeof target, "%s%u", targets[i], 1000000 + run);
        unsigned status = request(server_address(server), target);
        assert_true(!healthy || status == (i == 0 ? 200 : 404));
        assert_true(status == 0 || status == 200 || status == 404 || status == 503 || status == 500);
    }
}

static void serve_requests(struct guard *guard, const struct catalog *catalog, unsigned run, bool healthy)
{
    const struct server_config config = {
        .listen = "127.0.0.1:0",
        .loops = 2,
        .connections_max = 10,
        .fresh_ms = 60000,
        .revalidate_token_file = "",
        .guard = guard,
        .kinds = {catalog_kind(catalog, DOCUMENT_TREE), catalog_kind(catalog, DOCUMENT_CATEGORY),
                  catalog_kind(catalog, DOCUMENT_PRODUCT), catalog_kind(catalog, DOCUMENT_OFFERS)},
    };
    struct server *server = NULL;
    if (!server_open(&config, &server)) {
        assert_false(healthy);
        assert_null(server);
        return;
    }
    request_all(server, run, healthy);
    failing_stop();
    request_all(server, run + SWEEP_RUNS_MAX, true);
    server_stop(server, 1000);
    server_close(&server);
}

/* ---- all of it ---- */

static struct guard *open_guard(const struct settings *settings, const char *name_space)
{
    struct guard_config config = settings->guard;
    struct guard_error error = {.text = ""};
    struct guard *guard = NULL;
    config.name_space = name_space;
    if (guard_open(&config, &guard, &error) != GUARD_OK)
        assert_string_not_equal(error.text, "");
    return guard;
}

static void serve(struct guard *guard, const struct settings *settings, unsigned run, bool healthy)
{
    struct guard_error error = {.text = ""};
    struct catalog *catalog = NULL;
    if (!catalog_open(settings, guard, &catalog, &error)) {
        assert_false(healthy);
        assert_string_not_equal(error.text, "");
        guard_close(&guard, 1000);
        return;
    }
    ask_catalog(guard, catalog, run, healthy);
    serve_requests(guard, catalog, run, healthy);
    failing_stop();
    ask_catalog(guard, catalog, run + 2 * SWEEP_RUNS_MAX, true);
    assert_int_equal(guard_close(&guard, 1000), GUARD_OK);
    catalog_close(&catalog);
}

static void live(bool healthy)
{
    static unsigned runs;
    char redis_url[TEXT_BYTES], database_url[TEXT_BYTES], name_space[24];
    struct settings settings;
    read_settings(&settings, redis_url, database_url);
    snprintf(name_space, sizeof name_space, "app%u", ++runs);
    struct guard *guard = open_guard(&settings, name_space);
    if (guard != NULL)
        serve(guard, &settings, runs, healthy);
    assert_true(guard != NULL || !healthy);
}

TEST(the_service_answers_and_recovers)
{
    sweep_some(FAIL_MEMORY, live);
    sweep_some(FAIL_LIBRARY_MEMORY, live); /* and jansson's */
    sweep_some(FAIL_THREAD, live);
    sweep_some(FAIL_DESCRIPTOR, live);
    sweep_some(FAIL_SOCKET, live);
    sweep_some(FAIL_LISTEN, live);
}

/* Whether it hits accept() beside another connection or alone is a matter of timing. */
TEST(a_server_out_of_descriptors_accepts_again)
{
    enum { TIMES = 5 };
    for (int i = 0; i < TIMES; i++)
        sweep_some(FAIL_ACCEPT, live);
}

/* ---- writing ---- */

static void done(struct write_job *job)
{
    sem_post(job->context);
}

/* WRITE_SHED also for a job that there was no memory for. */
static enum write_outcome buy(struct writer *writer, const char *key, bool *visible)
{
    static const char body[] = "{\"quantity\":1}";
    struct write_job *job = write_job_new(WRITE_PURCHASE, PRODUCT, sizeof body - 1);
    struct timespec until;
    sem_t finished;
    if (job == NULL)
        return WRITE_SHED;
    sem_init(&finished, 0, 0);
    memcpy(job->body, body, sizeof body - 1);
    job->body_bytes = sizeof body - 1;
    snprintf(job->key, sizeof job->key, "%s", key);
    job->done = done;
    job->context = &finished;
    assert_int_equal(writer_submit(writer, job), WRITE_DONE);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += LIMIT_S;
    assert_int_equal(sem_timedwait(&finished, &until), 0);
    const enum write_outcome outcome = job->result.outcome;
    *visible = job->result.visible;
    sem_destroy(&finished);
    free(job);
    return outcome;
}

static void write_some(bool healthy)
{
    static unsigned run;
    struct settings settings = {.write_database_url = postgres.url,
                                .guard = GUARD_CONFIG_DEFAULTS,
                                .prepare = true,
                                .write_workers = 2,
                                .write_queue = 10,
                                .write_limit_ms = 5000,
                                .write_lock_ms = 2000,
                                .outbox_poll_ms = 50};
    char key[32];
    bool visible = false;
    snprintf(key, sizeof key, "run-%u", ++run);
    settings.guard.redis_url = redis.url;
    settings.guard.name_space = "default";
    settings.guard.redis_limit_ms = 250;
    struct guard *guard = open_guard(&settings, "default");
    struct cache_gate gate;
    cache_gate_init(&gate, &settings, guard);
    struct writer *writer = guard != NULL ? writer_open(&settings, guard, &gate) : NULL;
    assert_true(writer != NULL || !healthy);
    if (writer != NULL) {
        const enum write_outcome first = buy(writer, key, &visible);
        assert_true(first == WRITE_DONE ||
                    (!healthy && (first == WRITE_SHED || first == WRITE_FAILED || first == WRITE_UNKNOWN ||
                                  first == WRITE_REFUSED || first == WRITE_BAD_BODY)));
        failing_stop();
        const enum write_outcome second = buy(writer, key, &visible);
        assert_true(second == WRITE_DONE || second == WRITE_REPEATED);
        assert_true(first != WRITE_DONE || second == WRITE_REPEATED);
        writer_drain(writer, 1000);
        writer_close(&writer);
    }
    failing_stop();
    cache_gate_clear(&gate);
    if (guard != NULL)
        assert_int_equal(guard_close(&guard, 1000), GUARD_OK);
}

TEST(a_write_has_an_outcome_and_the_next_one_is_made)
{
    char value[32];
    sweep_some(FAIL_MEMORY, write_some);
    sweep_some(FAIL_DESCRIPTOR, write_some);
    sweep_some(FAIL_THREAD, write_some);
    sweep_some(FAIL_POLL_SIGNAL, write_some);
    /* every purchase that was remembered took one piece, and no other did */
    assert_true(stack_postgres_query(postgres.url,
                                     "SELECT 100000 - stock = (SELECT count(*) FROM purchases) "
                                     "FROM products WHERE id = 7",
                                     value, sizeof value));
    assert_string_equal(value, "t");
}

/* ---- the servers ---- */

static bool start(void)
{
    if (!failing_take_over_libuv())
        return false;
    json_set_alloc_funcs(json_memory, __wrap_free);
    json_object_seed(1); /* else it is read from a device once */
    return stack_redis_start(&redis, NULL) && stack_postgres_start_seeded(&postgres, 50, SCALE) &&
           stack_postgres_query(postgres.url, "UPDATE products SET stock = 100000 WHERE id = 7", NULL, 0);
}

static bool stop(void)
{
    stack_postgres_stop(&postgres);
    stack_redis_stop(&redis);
    return true;
}

TEST_GROUP(.up = start, .down = stop);
