/* SPDX-License-Identifier: MIT */
/*
 * lock_rig.h - the core and its thread as a provider sees them, played by a test: one loop, some providers on it,
 * claims that take, renew and give.
 *
 * Each provider stands for a process: they share the loop and the server, nothing else. Everything is waited for on
 * that loop, until it has happened or RIG_WAIT_MS are over: then the test fails. So does an action that is answered
 * twice, or from inside perform(), and whatever is called after close(). rig_finish() looks that nothing is left, in
 * the loop or among the process's descriptors.
 *
 *     rig_start();
 *     side_open(&side, lock_postgres_open, url);
 *     claim_init(&claim, &side, GUARD_LOCK_FAIR, "catalog", LEASE_MS);
 *     fence = claim_acquire(&claim);
 *     assert_int_equal(claim_do(&claim, LOCK_RENEW), LOCK_DONE);
 *     assert_int_equal(claim_do(&claim, LOCK_GIVE), LOCK_DONE);
 *     rig_finish();
 */
#pragma once

#include "guard/base/clock.h"
#include "guard/base/key.h"
#include "guard/locks/provider.h"
#include "tests/support/files.h"
#include "tests/support/test.h"
#include "tests/support/uv_host.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

enum {
    RIG_WAIT_MS = 40000,
    RIG_TICK_MS = 20,
    RIG_ASK_MS = 20, /* the poll of a claim that was not answered */
    RIG_WHY_BYTES = 512,
    RIG_SIDES_MAX = 12,
    RIG_CLAIMS_MAX = 32
};

/* ---- one action, and what came back ---- */

struct rig_errand {
    struct rig_claim *claim;
    enum lock_action_kind kind;
    bool is_out;
    unsigned replies;
    struct lock_reply reply; /* the last one; its `why` is the copy below, or NULL */
    char why[RIG_WHY_BYTES];
    uint32_t ask_now[RIG_CLAIMS_MAX];
    uint64_t replied_us;
};

/* What lives under one token. */
struct rig_claim {
    struct rig_side *side;
    char token[LOCK_TOKEN_SIZE];
    char encoded[KEY_ENCODED_MAX + 1];
    struct lock_name name;
    enum guard_lock_kind kind;
    uint32_t units, limit, lease_ms, place_ms;
    struct rig_errand errands[LOCK_STAY + 1]; /* by kind */
    unsigned told, dropped;
    char dropped_why[RIG_WHY_BYTES];
    uint64_t told_us, dropped_us;
};

/* One provider, and what it tells. */
struct rig_side {
    struct lock_provider *provider; /* NULL: closed */
    struct guard_locks_config config;
    const char *url;
    struct say say;
    struct rig_claim *claims[RIG_CLAIMS_MAX];
    size_t claim_count;
    bool is_up, is_inside, is_closed;
    unsigned ups, downs, resyncs;
    char down_why[RIG_WHY_BYTES];
    bool has_looked;
    struct guard_lock_view view;
    char look_why[RIG_WHY_BYTES]; /* "" if there is a view */
};

static struct {
    uv_loop_t loop;
    struct guard_host *host;
    struct guard_host_state host_state;
    uv_timer_t tick, pause;
    uint64_t wait_began_us;
    bool pause_over;
    struct rig_side *sides[RIG_SIDES_MAX];
    size_t side_count;
    size_t descriptor_count; /* before */
} rig;

/* ---- the loop ---- */

static inline void rig_on_pause_over(uv_timer_t *timer)
{
    (void)timer;
    rig.pause_over = true;
}

static inline void rig_on_tick(uv_timer_t *timer)
{
    (void)timer;
}

/* One turn; false once RIG_WAIT_MS have passed since the wait began. A turn in which a timer has rung still waits for
 * a descriptor (libuv before 1.45): the tick ends it, for that timer may be all that is waited for. */
static inline bool rig_turn(void)
{
    uv_update_time(&rig.loop); /* the test may have been long about something else */
    if (!uv_is_active((uv_handle_t *)&rig.tick)) {
        rig.wait_began_us = clock_now_us();
        uv_timer_start(&rig.tick, rig_on_tick, RIG_TICK_MS, RIG_TICK_MS);
    }
    uv_run(&rig.loop, UV_RUN_ONCE);
    return clock_now_us() - rig.wait_began_us < RIG_WAIT_MS * UINT64_C(1000);
}

#define rig_wait_until(condition)                                                                            \
    do {                                                                                                     \
        while (!(condition))                                                                                 \
            if (!rig_turn() && !(condition))                                                                 \
                fail_msg("waited in vain for: %s", #condition);                                              \
        uv_timer_stop(&rig.tick);                                                                            \
    } while (0)

/* Lets the loop go on for so long: between two polls, or to see that nothing happens. */
static inline void rig_pause_ms(uint32_t ms)
{
    rig.pause_over = false;
    uv_update_time(&rig.loop);
    uv_timer_start(&rig.pause, rig_on_pause_over, ms, 0);
    rig_wait_until(rig.pause_over);
}

static inline void rig_start(void)
{
    memset(&rig, 0, sizeof rig);
    assert_int_equal(uv_loop_init(&rig.loop), 0); /* the first one opens what stays open */
    assert_int_equal(uv_loop_close(&rig.loop), 0);
    rig.descriptor_count = count_descriptors();
    assert_int_equal(uv_loop_init(&rig.loop), 0);
    rig.host = uv_host_attach(&rig.loop, &rig.host_state);
    assert_non_null(rig.host);
    uv_timer_init(&rig.loop, &rig.tick);
    uv_timer_init(&rig.loop, &rig.pause);
}

/* ---- what a provider tells ---- */

static inline void rig_on_replied(void *context, uint64_t op, const struct lock_reply *reply)
{
    struct rig_side *side = context;
    struct rig_errand *errand = (struct rig_errand *)(uintptr_t)op;
    assert_false(side->is_inside);
    assert_false(side->is_closed);
    assert_true(errand->is_out);
    assert_ptr_equal(errand->claim->side, side);
    errand->is_out = false;
    errand->replies++;
    errand->replied_us = clock_now_us();
    errand->reply = *reply;
    snprintf(errand->why, sizeof errand->why, "%s", reply->why != NULL ? reply->why : "");
    errand->reply.why = reply->why != NULL ? errand->why : NULL;
    assert_in_range(reply->ask_now_count, 0, RIG_CLAIMS_MAX);
    if (reply->ask_now_count > 0)
        memcpy(errand->ask_now, reply->ask_now, reply->ask_now_count * sizeof *reply->ask_now);
    errand->reply.ask_now = errand->ask_now;
}

static inline void rig_on_told(void *context, const char *uuid, const char *encoded, size_t encoded_bytes)
{
    struct rig_side *side = context;
    assert_false(side->is_inside);
    assert_false(side->is_closed);
    for (size_t i = 0; i < side->claim_count; i++) {
        struct rig_claim *claim = side->claims[i];
        if (claim->name.bytes != encoded_bytes || memcmp(claim->encoded, encoded, encoded_bytes) != 0 ||
            (uuid != NULL && strncmp(claim->token, uuid, LOCK_UUID_BYTES) != 0))
            continue;
        claim->told++;
        claim->told_us = clock_now_us();
    }
}

static inline void rig_on_dropped(void *context, const char *token, const char *why)
{
    struct rig_side *side = context;
    assert_false(side->is_inside);
    assert_false(side->is_closed);
    assert_non_null(why);
    for (size_t i = 0; i < side->claim_count; i++) {
        struct rig_claim *claim = side->claims[i];
        if (strcmp(claim->token, token) != 0)
            continue;
        claim->dropped++;
        claim->dropped_us = clock_now_us();
        snprintf(claim->dropped_why, sizeof claim->dropped_why, "%s", why);
    }
}

static inline void rig_on_resync(void *context)
{
    struct rig_side *side = context;
    assert_false(side->is_inside);
    assert_false(side->is_closed);
    side->resyncs++;
}

static inline void rig_on_link(void *context, bool up, const char *why)
{
    struct rig_side *side = context;
    assert_false(side->is_inside);
    assert_false(side->is_closed);
    assert_true(up || why != NULL);
    side->is_up = up;
    if (up)
        side->ups++;
    else
        side->downs++;
    if (!up)
        snprintf(side->down_why, sizeof side->down_why, "%s", why);
}

static inline void rig_on_looked(void *context, const struct guard_lock_view *view, const char *why)
{
    struct rig_side *side = context;
    assert_false(side->is_inside);
    assert_false(side->has_looked);
    assert_true((view != NULL) != (why != NULL));
    side->has_looked = true;
    if (view != NULL)
        side->view = *view;
    snprintf(side->look_why, sizeof side->look_why, "%s", why != NULL ? why : "");
}

/* ---- a provider ---- */

/* A configuration that the test may change before side_start(). */
static inline void side_prepare(struct rig_side *side, const char *url)
{
    *side = (struct rig_side){.config = GUARD_LOCKS_CONFIG_DEFAULTS, .url = url};
    side->config.name_space = "rig";
    side->config.urls = &side->url;
    side->config.url_count = 1;
    side->config.limit_ms = 10000;
    side->config.connect_limit_ms = 20000;
    say_init(&side->say, "rig", guard_log_none, NULL);
}

static inline bool side_start(struct rig_side *side, lock_provider_open *open, struct guard_error *error)
{
    const struct lock_provider_config config = {.host = rig.host,
                                                .locks = &side->config,
                                                .say = &side->say,
                                                .hooks = {.context = side,
                                                          .replied = rig_on_replied,
                                                          .told = rig_on_told,
                                                          .dropped = rig_on_dropped,
                                                          .resync = rig_on_resync,
                                                          .link = rig_on_link}};
    side->is_inside = true;
    side->provider = open(&config, error);
    side->is_inside = false;
    if (side->provider == NULL) {
        say_clear(&side->say);
        return false;
    }
    assert_in_range(rig.side_count, 0, RIG_SIDES_MAX - 1);
    rig.sides[rig.side_count++] = side;
    return true;
}

static inline void side_open(struct rig_side *side, lock_provider_open *open, const char *url)
{
    struct guard_error error = {.text = ""};
    side_prepare(side, url);
    if (!side_start(side, open, &error))
        fail_msg("%s", error.text);
}

static inline void rig_on_closed(void *context)
{
    struct rig_side *side = context;
    assert_false(side->is_inside);
    assert_false(side->is_closed);
    side->is_closed = true;
}

/* Does nothing if it is closed. Nothing may be told from here on. */
static inline void side_close(struct rig_side *side)
{
    if (side->provider == NULL)
        return;
    side->is_inside = true;
    side->provider->close(side->provider, rig_on_closed, side);
    side->is_inside = false;
    side->provider = NULL;
    rig_wait_until(side->is_closed);
    say_clear(&side->say);
}

/* Closes what the test has left open, then the loop. */
static inline void rig_finish(void)
{
    for (size_t i = 0; i < rig.side_count; i++)
        side_close(rig.sides[i]);
    host_close(rig.host, NULL, NULL);
    uv_close((uv_handle_t *)&rig.tick, NULL);
    uv_close((uv_handle_t *)&rig.pause, NULL);
    while (uv_run(&rig.loop, UV_RUN_DEFAULT) != 0)
        ;
    assert_int_equal(uv_loop_close(&rig.loop), 0);
    assert_int_equal(count_descriptors(), rig.descriptor_count);
}

/* ---- a claim ---- */

static inline void claim_new_token(struct rig_claim *claim)
{
    uint8_t random[16];
    char uuid[CLOCK_UUID_SIZE];
    assert_true(clock_random(random, sizeof random));
    clock_uuid(random, uuid);
    snprintf(claim->token, sizeof claim->token,
             "%s %07" PRIu32 " %07" PRIu32 " %08" PRIu32 " rig:%d %" PRIu64, uuid, claim->units, claim->limit,
             claim->lease_ms, (int)getpid(), clock_wall_s());
}

/* PERMITS: the test sets units and limit itself, then calls claim_new_token(). */
static inline void claim_init(struct rig_claim *claim, struct rig_side *side, enum guard_lock_kind kind,
                              const char *name, uint32_t lease_ms)
{
    memset(claim, 0, sizeof *claim);
    *claim = (struct rig_claim){.side = side,
                                .kind = kind,
                                .units = kind == GUARD_LOCK_READ ? 1 : LOCK_ALL,
                                .limit = LOCK_ALL,
                                .lease_ms = lease_ms,
                                .place_ms = 3000};
    claim->name.bytes = key_encode(name, strlen(name), claim->encoded);
    claim->name.encoded = claim->encoded;
    for (size_t i = 0; i < sizeof claim->errands / sizeof claim->errands[0]; i++)
        claim->errands[i] = (struct rig_errand){.claim = claim, .kind = (enum lock_action_kind)i};
    claim_new_token(claim);
    assert_in_range(side->claim_count, 0, RIG_CLAIMS_MAX - 1);
    side->claims[side->claim_count++] = claim;
}

/* Does not wait. False: it is not accepted. What the action points to is gone right after, as it may be. */
static inline bool claim_offer(struct rig_claim *claim, enum lock_action_kind kind)
{
    struct rig_errand *errand = &claim->errands[kind];
    char encoded[KEY_ENCODED_MAX + 1], token[LOCK_TOKEN_SIZE];
    struct lock_name name = {.encoded = encoded, .bytes = claim->name.bytes};
    const char *const tokens[] = {token};
    snprintf(encoded, sizeof encoded, "%s", claim->encoded);
    snprintf(token, sizeof token, "%s", claim->token);
    const struct lock_action action = {.kind = kind,
                                       .op = (uintptr_t)errand,
                                       .lock = claim->kind,
                                       .names = &name,
                                       .count = 1,
                                       .token = token,
                                       .tokens = tokens,
                                       .token_count = 1,
                                       .units = claim->units,
                                       .limit = claim->limit,
                                       .lease_ms = claim->lease_ms,
                                       .place_ms = claim->place_ms,
                                       .deadline_us = UINT64_MAX,
                                       .overtakes = claim->kind == GUARD_LOCK_MUTEX,
                                       .doubt = kind == LOCK_GIVE && claim->errands[LOCK_TAKE].is_out};
    assert_false(errand->is_out);
    errand->is_out = true;
    claim->side->is_inside = true;
    bool accepted = claim->side->provider->perform(claim->side->provider, &action);
    claim->side->is_inside = false;
    errand->is_out = accepted;
    memset(encoded, '?', sizeof encoded - 1);
    memset(token, '?', sizeof token - 1);
    return accepted;
}

static inline void claim_send(struct rig_claim *claim, enum lock_action_kind kind)
{
    assert_true(claim_offer(claim, kind));
}

static inline enum lock_reply_kind claim_do(struct rig_claim *claim, enum lock_action_kind kind)
{
    claim_send(claim, kind);
    rig_wait_until(!claim->errands[kind].is_out);
    return claim->errands[kind].reply.kind;
}

/* The reply of the last action of that kind, and its text ("" if it has none). */
static inline const struct lock_reply *claim_reply(const struct rig_claim *claim, enum lock_action_kind kind)
{
    return &claim->errands[kind].reply;
}

static inline const char *claim_why(const struct rig_claim *claim, enum lock_action_kind kind)
{
    return claim->errands[kind].why;
}

/* As the core does: asks, waits until it is told, asks again. Returns the fence. */
static inline uint64_t claim_acquire(struct rig_claim *claim)
{
    uint64_t end_us = clock_now_us() + RIG_WAIT_MS * UINT64_C(1000);
    for (;;) {
        unsigned told = claim->told;
        enum lock_reply_kind kind = claim_do(claim, LOCK_TAKE);
        if (kind == LOCK_GRANTED)
            return claim_reply(claim, LOCK_TAKE)->fence[0];
        if (kind == LOCK_IMPOSSIBLE || kind == LOCK_GONE || clock_now_us() > end_us)
            fail_msg("not granted: reply %d, %s", (int)kind, claim_why(claim, LOCK_TAKE));
        if (kind == LOCK_REFUSED && claim->told == told)
            rig_wait_until(claim->told != told);
        else if (kind != LOCK_REFUSED)
            rig_pause_ms(RIG_ASK_MS);
    }
}

/* Asks until it is refused: from here on it stands in line. */
static inline void claim_queue(struct rig_claim *claim)
{
    while (claim_do(claim, LOCK_TAKE) == LOCK_UNSENT ||
           claim_reply(claim, LOCK_TAKE)->kind == LOCK_UNANSWERED)
        rig_pause_ms(RIG_ASK_MS);
    assert_int_equal(claim_reply(claim, LOCK_TAKE)->kind, LOCK_REFUSED);
}

/* ---- what dies or stands still ---- */

/* A process: this program again, with --hold and what follows. It says what it comes to, a line each. */
struct rig_child {
    pid_t pid;
    int output;
};

static inline struct rig_child child_start(const char *url, const char *name, uint32_t ms)
{
    struct rig_child child;
    int ends[2];
    char span[16];
    snprintf(span, sizeof span, "%" PRIu32, ms);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    child.pid = fork();
    if (child.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(ends[1], STDOUT_FILENO);
        execl("/proc/self/exe", "holder", "--hold", url, name, span, (char *)NULL);
        _exit(127);
    }
    assert_true(child.pid > 0);
    close(ends[1]);
    child.output = ends[0];
    return child;
}

/* Its next line; the rig stands still meanwhile. */
static inline void child_expect(struct rig_child *child, const char *wanted)
{
    char line[512];
    size_t count = 0;
    while (count + 1 < sizeof line &&
           poll(&(struct pollfd){child->output, POLLIN, 0}, 1, TEST_LIMIT_MS) == 1 &&
           read(child->output, line + count, 1) == 1 && line[count] != '\n')
        count++;
    line[count] = '\0';
    if (strncmp(line, wanted, strlen(wanted)) != 0)
        fail_msg("the child says \"%s\", not \"%s\"", line, wanted);
}

/* It has said nothing else. */
static inline void child_end(struct rig_child *child)
{
    char more[256] = "";
    kill(child->pid, SIGKILL);
    assert_int_equal(waitpid(child->pid, NULL, 0), child->pid);
    if (read(child->output, more, sizeof more - 1) > 0)
        fail_msg("the child says \"%s\" as well", more);
    close(child->output);
}

/* ---- looking ---- */

/* Does not wait. */
static inline void side_send_look(struct rig_side *side, const char *name)
{
    char encoded[KEY_ENCODED_MAX + 1];
    const struct lock_name lock_name = {.encoded = encoded, .bytes = key_encode(name, strlen(name), encoded)};
    side->has_looked = false;
    side->is_inside = true;
    assert_true(side->provider->look(side->provider, &lock_name, rig_on_looked, side));
    side->is_inside = false;
}

/* False: side->look_why says why. */
static inline bool side_look(struct rig_side *side, const char *name)
{
    side_send_look(side, name);
    rig_wait_until(side->has_looked);
    return side->look_why[0] == '\0';
}
