/* SPDX-License-Identifier: MIT */
/*
 * offers_test.c - the offers for a product: those for one client reach that client and no other, however many ask at
 * once; those for all are cached for as long as they stand.
 */
#include "tests/support/test.h"
#include "tests/support/writes.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROCESSES = 2, CLIENTS = 3, THREADS_EACH = 6, ROUNDS = 4, TEXT_BYTES = 160 };

#define LOAD_OFFERS "/* load offers */"

/* The last one has no token. */
static const char *const TOKENS[CLIENTS] = {"alpha", "beta", NULL};
static const char *const OWN[CLIENTS] = {"\"client\":\"Alpha\"", "\"client\":\"Beta\"", "\"client\":null"};
static const char *const PRICES[CLIENTS] = {"\"price_cents\":801", "\"price_cents\":702",
                                            "\"price_cents\":900"};

static char path[TEXT_BYTES];
static uint32_t product;

static bool make_clients(void)
{
    return writes_up() &&
           fleet_sql(
               NULL, 0,
               "INSERT INTO clients (id, name, token_sha256) VALUES "
               "(1, 'Alpha', encode(sha256('alpha'), 'hex')), (2, 'Beta', encode(sha256('beta'), 'hex'))");
}

static bool choose_product(void)
{
    char cold[BURST_PATH_BYTES];
    product = fleet_cold_product(cold);
    snprintf(path, sizeof path, "/products/%u/offers", (unsigned)product);
    return true;
}

/* client: NULL for all. */
static void offer(const char *client, unsigned price_cents, const char *span)
{
    assert_true(fleet_sql(NULL, 0,
                          "INSERT INTO offers (product_id, client_id, price_cents, valid_until) "
                          "VALUES (%u, %s, %u, now() + interval '%s')",
                          (unsigned)product, client != NULL ? client : "NULL", price_cents, span));
}

struct seen {
    unsigned status;
    long max_age, age; /* -1: none */
    char cache_control[64], cache_status[128], etag[64], vary[32], body[1024];
};

static long number_behind(const char *text, const char *word)
{
    const char *at = strstr(text, word);
    return at != NULL ? strtol(at + strlen(word), NULL, 10) : -1;
}

static struct seen ask(size_t process, const char *token)
{
    char headers[64] = "", age[16];
    struct http_answer answer;
    struct seen seen;
    if (token != NULL)
        snprintf(headers, sizeof headers, "Authorization: Bearer %s\r\n", token);
    fleet_ask_port(fleet.catalogd[process].port, NULL, path, headers, &answer);
    seen.status = answer.status;
    http_header(&answer, "Cache-Control", seen.cache_control, sizeof seen.cache_control);
    http_header(&answer, "Cache-Status", seen.cache_status, sizeof seen.cache_status);
    http_header(&answer, "ETag", seen.etag, sizeof seen.etag);
    http_header(&answer, "Vary", seen.vary, sizeof seen.vary);
    http_header(&answer, "Age", age, sizeof age);
    seen.age = number_behind(age, "");
    seen.max_age = number_behind(seen.cache_control, "max-age=");
    snprintf(seen.body, sizeof seen.body, "%s", answer.body);
    http_answer_clear(&answer);
    return seen;
}

/* ---- for one client ---- */

/* What `client` may see, and nothing that is another's. */
static bool is_its_own(const struct seen *seen, size_t client)
{
    bool is_right = seen->status == 200 && strcmp(seen->cache_control, "private, no-store") == 0 &&
                    strcmp(seen->vary, "Authorization") == 0 && seen->etag[0] == '\0' &&
                    strstr(seen->body, OWN[client]) != NULL && strstr(seen->body, PRICES[client]) != NULL;
    for (size_t other = 0; other + 1 < CLIENTS; other++)
        is_right = is_right && (other == client || (strstr(seen->body, OWN[other]) == NULL &&
                                                    strstr(seen->body, PRICES[other]) == NULL));
    return is_right;
}

static pthread_barrier_t all_ready;
static _Atomic unsigned wrong;
static char first_wrong[2048];

static void *ask_as_one(void *context)
{
    const size_t client = (size_t)(uintptr_t)context % CLIENTS,
                 process = (size_t)(uintptr_t)context % PROCESSES;
    for (int round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&all_ready);
        const struct seen seen = ask(process, TOKENS[client]);
        if (!is_its_own(&seen, client) && atomic_fetch_add(&wrong, 1) == 0)
            snprintf(first_wrong, sizeof first_wrong, "%s was told %u %s %s", OWN[client], seen.status,
                     seen.cache_control, seen.body);
    }
    return NULL;
}

static void ask_all_at_once(void)
{
    enum { THREADS = CLIENTS * THREADS_EACH };
    pthread_t threads[THREADS];
    wrong = 0;
    pthread_barrier_init(&all_ready, NULL, THREADS);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_as_one, (void *)(uintptr_t)i), 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&all_ready);
    if (wrong > 0)
        fail_msg("%u answers were wrong; the first: %s", wrong, first_wrong);
}

static void make_personal(void)
{
    offer(NULL, 900, "1 hour");
    offer("1", 801, "1 hour");
    offer("2", 702, "1 hour");
}

/* Cold at first: they all meet in one flight of each process, whose load says that it is for one of them. */
static void assert_each_gets_its_own(const char *mode, const char *near)
{
    const char *const settings[] = {mode, near, "LOAD_DELAY_MS=20", "MAX_LOADS=16", NULL};
    assert_true(fleet_start(PROCESSES, settings));
    make_personal();
    ask_all_at_once();
}

TEST(clients_who_ask_at_once_never_get_each_others_offers, P149)
{
    assert_each_gets_its_own("GUARD_MODE=fleet", "NEAR_MS=1000");
}

/* ---- for all ---- */

TEST(an_offer_for_all_is_cached_with_a_life_of_its_own, P151)
{
    assert_true(fleet_start(PROCESSES, (const char *const[]){"FRESH_MS=86000000", "JITTER_PERCENT=0", NULL}));
    offer(NULL, 900, "2 hours");
    fleet_mark();
    const struct seen first = ask(0, NULL), second = ask(1, TOKENS[0]);
    assert_int_equal(first.status, 200);
    assert_in_range(first.max_age, 7000, 7200);
    assert_string_equal(first.vary, "Authorization");
    assert_int_equal(first.age, 0);
    assert_non_null(strstr(second.cache_status, "; hit; ttl="));
    assert_in_range(second.max_age, 7000, 7200);
    assert_in_range(number_behind(second.cache_status, "ttl="), 7000, 7200);
    assert_string_equal(second.etag, first.etag);
    assert_string_equal(second.body, first.body);
    assert_int_equal(fleet_loads(LOAD_OFFERS), 1);
}

TEST_GROUP(.up = make_clients, .down = fleet_down, .before = choose_product, .after = fleet_end);
