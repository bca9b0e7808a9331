/* SPDX-License-Identifier: MIT */
/*
 * writer_fail_test.c - the n-th allocation, thread or descriptor of writing fails: a write has an
 * outcome in any case, and once all is well again the next one is made and everything owed is paid.
 */
#include "failing.h"

#include "app/write/writer.h"
#include "load/stack/stack.h"

#include <semaphore.h>
#include <time.h>

enum { SCALE = 200, LIMIT_S = 20, TEXT_BYTES = 200, PRODUCT = 7 };

static struct stack_redis redis;
static struct stack_postgres postgres;

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

static struct guard *open_guard(void)
{
    struct guard_config config = GUARD_CONFIG_DEFAULTS;
    struct guard_error error = {.text = ""};
    struct guard *guard = NULL;
    config.redis_url = redis.url;
    guard_open(&config, &guard, &error);
    return guard;
}

static void write_some(bool healthy)
{
    static unsigned run;
    const struct settings settings = {
        .write_database_url = postgres.url,
        .guard = {.redis_url = redis.url, .name_space = "default", .redis_limit_ms = 250},
        .prepare = true,
        .write_workers = 2,
        .write_queue = 10,
        .write_limit_ms = 5000,
        .write_lock_ms = 2000,
        .outbox_poll_ms = 50};
    char key[32];
    bool visible = false;
    snprintf(key, sizeof key, "run-%u", ++run);
    struct guard *guard = open_guard();
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

static bool start(void)
{
    return failing_take_over_libuv() && stack_redis_start(&redis, NULL) &&
           stack_postgres_start_seeded(&postgres, 50, SCALE) &&
           stack_postgres_query(postgres.url, "UPDATE products SET stock = 100000 WHERE id = 7", NULL, 0);
}

static bool stop(void)
{
    stack_postgres_stop(&postgres);
    stack_redis_stop(&redis);
    return true;
}

TEST_GROUP(.up = start, .down = stop);
