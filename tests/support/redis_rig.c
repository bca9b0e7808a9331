/* SPDX-License-Identifier: MIT */
/* redis_rig.c - a loop with one Redis connection, for tests. */
#include "tests/support/redis_rig.h"
#include "guard/base/clock.h"
#include "guard/wire/protocol.h"
#include "tests/support/files.h"
#include "tests/support/uv_host.h"

struct rig rig;

static void on_state(void *context, enum guard_redis_state state, const char *text)
{
    (void)context;
    assert_false(rig.closed);
    assert_in_range(rig.state_count, 0, RIG_TOLD_MAX - 1);
    rig.states[rig.state_count++] = state;
    snprintf(rig.text, sizeof rig.text, "%s", text);
}

static void on_message(void *context, const char *payload, size_t payload_bytes)
{
    (void)context;
    rig.message_count++;
    memset(rig.message, 0, sizeof rig.message);
    memcpy(rig.message, payload, payload_bytes < sizeof rig.message ? payload_bytes : sizeof rig.message - 1);
}

static void on_tick(uv_timer_t *timer)
{
    (void)timer;
}

void rig_closed(void *context)
{
    (void)context;
    assert_false(rig.closed);
    rig.closed = true;
}

void rig_prepare(const char *url)
{
    struct guard_error error;
    struct redis_url parsed;

    memset(&rig, 0, sizeof rig);
    rig.descriptor_count = count_descriptors();
    assert_int_equal(uv_loop_init(&rig.loop), 0);
    rig.host = uv_host_attach(&rig.loop, &rig.host_state);
    assert_non_null(rig.host);
    uv_timer_init(&rig.loop, &rig.tick);
    if (!redis_url_read(url, &parsed, &error))
        fail_msg("%s", error.text);
    rig.topology = redis_topology_open(rig.host, &parsed, &(struct redis_topology_hooks){NULL, NULL}, &error);
    if (rig.topology == NULL)
        fail_msg("%s", error.text);
    rig.config = (struct redis_config){
        .topology = rig.topology,
        .limit_ms = RIG_LIMIT_MS,
        .connect_limit_ms = RIG_LIMIT_MS,
        .backoff_ms = 10,
        .max_backoff_ms = 40,
        .max_reply_bytes = 4 << 20,
        .max_pending_bytes = 64 << 20,
        .client_name = "redis_test",
        .scripts = protocol_scripts,
        .script_count = SCRIPT_COUNT,
        .jitter_seed = 1,
        .hooks = {.state = on_state, .message = on_message},
        .counters = &rig.counters,
    };
}

void rig_open(void)
{
    rig.redis = redis_open(rig.host, &rig.config);
    assert_non_null(rig.redis);
    assert_int_equal(rig.state_count, 0);
}

bool rig_turn(void)
{
    if (!uv_is_active((uv_handle_t *)&rig.tick)) {
        rig.wait_began_us = clock_now_us();
        uv_timer_start(&rig.tick, on_tick, RIG_TICK_MS, RIG_TICK_MS);
    }
    uv_run(&rig.loop, UV_RUN_ONCE);
    return clock_now_us() - rig.wait_began_us < RIG_WAIT_MS * UINT64_C(1000);
}

void rig_wait_up(void)
{
    rig_wait_until(redis_is_up(rig.redis));
}

void rig_start(const char *url)
{
    rig_prepare(url);
    rig_open();
}

void rig_close(void)
{
    if (rig.redis != NULL)
        redis_close(rig.redis, rig_closed, NULL);
    rig.redis = NULL;
    rig_wait_until(rig.closed);
}

static void close_host(void *context)
{
    (void)context;
    host_close(rig.host, NULL, NULL);
}

void rig_finish(void)
{
    if (rig.host == NULL)
        return;
    rig_close();
    redis_topology_close(rig.topology, close_host, NULL);
    uv_close((uv_handle_t *)&rig.tick, NULL);
    while (uv_run(&rig.loop, UV_RUN_DEFAULT) != 0)
        ;
    assert_int_equal(uv_loop_close(&rig.loop), 0);
    assert_int_equal(count_descriptors(), rig.descriptor_count);
    rig.host = NULL;
}

bool rig_forget(void)
{
    rig.host = NULL;
    return true;
}

void call_replied(void *context, enum redis_outcome outcome, const struct redisReply *reply)
{
    struct call *call = context;

    call->answered++;
    call->outcome = outcome;
    assert_true((reply != NULL) == (outcome == REDIS_REPLIED));
    if (reply == NULL)
        return;
    call->type = reply->type;
    call->integer = reply->integer;
    call->bytes = reply->len;
    if (reply->str != NULL)
        snprintf(call->text, sizeof call->text, "%s", reply->str);
}

void call_send_words(struct call *call, const char *const *words, size_t word_count)
{
    size_t bytes[8];

    assert_in_range(word_count, 1, sizeof bytes / sizeof bytes[0]);
    for (size_t i = 0; i < word_count; i++)
        bytes[i] = strlen(words[i]);
    memset(call, 0, sizeof *call);
    assert_true(redis_send(rig.redis, word_count, words, bytes, call_replied, call));
    assert_int_equal(call->answered, 0);
}

void call_renew(struct call *call, const char *name)
{
    struct redis_args args;
    redis_args_init(&args);
    redis_args_key(&args, name, strlen(name));
    redis_args_text(&args, "token");
    redis_args_text(&args, "60000");
    memset(call, 0, sizeof *call);
    assert_true(redis_run(rig.redis, REDIS_RUN, SCRIPT_RENEW, &args, call_replied, call));
    assert_int_equal(call->answered, 0);
}

void rig_expect_pong(void)
{
    struct call call;

    call_send(&call, "PING");
    rig_wait_until(call.answered > 0);
    assert_int_equal(call.outcome, REDIS_REPLIED);
    assert_string_equal(call.text, "PONG");
}

uint64_t elapsed_ms(uint64_t since_ns)
{
    return (uv_hrtime() - since_ns) / 1000000;
}
