/* SPDX-License-Identifier: MIT */
/*
 * ops_test.c - the operations listener by itself: what it says of a guard whose own thread is stuck (in one process,
 * because only a callback can hold that thread and nothing else); and clients that keep others from asking it.
 */
#include "ops_rig.h"

#include "load/base/clock.h"
#include "tests/support/drips.h"

#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ASK_LIMIT_MS = 10000, PAUSE_MS = 10, STUCK_MS = 5000 };

static unsigned health(const struct service *service)
{
    struct http_answer answer;
    const struct http_request request = {
        .host = service->host, .port = service->ops_port, .path = "/healthz", .deadline_ms = ASK_LIMIT_MS};
    const unsigned status = http_ask(&request, &answer) ? answer.status : 0;

    http_answer_clear(&answer);
    return status;
}

static bool becomes(const struct service *service, unsigned status)
{
    const uint64_t end_us = clock_after_ms(LIMIT_MS);

    while (health(service) != status && clock_us() < end_us)
        clock_pause_ms(PAUSE_MS);
    return health(service) == status;
}

struct hold {
    sem_t held, released;
};

static void hold_the_guards_thread(void *context, const struct guard_result *result)
{
    struct hold *hold = context;

    (void)result;
    sem_post(&hold->held);
    sem_wait(&hold->released);
}

TEST(a_guard_whose_thread_is_stuck_is_not_healthy_until_it_turns_again)
{
    struct service service;
    struct hold hold;
    struct guard_stats stats;

    sem_init(&hold.held, 0, 0);
    sem_init(&hold.released, 0, 0);
    service_open(&service, NULL, NULL);
    assert_true(becomes(&service, 200));
    const struct guard_request request = {
        .kind = service.kind, .key = "k", .answered = hold_the_guards_thread, .context = &hold};
    assert_int_equal(guard_get(service.guard, &request, NULL, NULL), GUARD_OK);
    sem_wait(&hold.held);
    const uint64_t held_us = clock_us();
    const bool became_ill = becomes(&service, 503);
    const uint64_t ill_after_ms = (clock_us() - held_us) / 1000;
    guard_stats(service.guard, &stats);
    sem_post(&hold.released);
    const bool became_well = becomes(&service, 200);
    service_close(&service);
    assert_true(became_ill && became_well);
    assert_in_range(stats.beat_age_ms, STUCK_MS, LIMIT_MS);
    assert_in_range(ill_after_ms, STUCK_MS / 2, LIMIT_MS);
    sem_destroy(&hold.held);
    sem_destroy(&hold.released);
}

/* ---- those who keep others out ---- */

#define QUESTION "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"

/* Most are answered, and before a place of theirs can be free again: but for when the machine stands still, which may
 * cost a question its place, too, before its head is read. */
static bool is_prompt(const struct service *service)
{
    enum { ASKED = 10, PROMPT_MS = PLACES_ANSWER_MS - 100 };
    unsigned prompt = 0;
    for (int i = 0; i < ASKED; i++) {
        uint64_t asked_us = clock_us();
        const bool well = health(service) == 200;
        prompt += well && clock_us() - asked_us < (uint64_t)PROMPT_MS * 1000;
    }
    return prompt > ASKED / 2;
}

/* They come back as often as they are hung up on, and all the while it is asked. */
static void assert_healthy_among(struct service *service, const char *begun, const char *drip)
{
    const struct drips_options options = {.host = service->host,
                                          .port = service->ops_port,
                                          .count = 3 * PLACES_MAX,
                                          .begun = begun,
                                          .begun_bytes = strlen(begun),
                                          .drip = drip};
    struct drips *drips = NULL;
    assert_true(drips_open(&options, &drips));
    WAIT_UNTIL(is_prompt(service) && drips_hung_up(drips) > options.count);
    drips_close(&drips);
}

TEST(whoever_drips_or_asks_for_ever_keeps_nobody_from_asking, P87)
{
    char folder[] = "/tmp/ops_test.XXXXXX", path[sizeof folder + 8];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/ops", folder);
    for (int i = 0; i < 2; i++) {
        struct service service;
        service_open(&service, i == 0 ? NULL : path, NULL);
        assert_true(becomes(&service, 200));
        assert_healthy_among(&service, "GET /healthz HTTP/1.1\r\nHost: a\r\nX: ", "x");
        assert_healthy_among(&service, "G", "x");
        assert_healthy_among(&service, QUESTION, QUESTION QUESTION);
        service_close(&service);
    }
    assert_int_equal(rmdir(folder), 0);
}
