/* SPDX-License-Identifier: MIT */
/*
 * lock_zookeeper_test.c - locks on a real ZooKeeper: its provider as the core sees it, with servers, connections and
 * holders that die, stop or lose a reply.
 *
 * A party is a process that locks, as far as ZooKeeper can tell: a provider with a session of its own. All of them live on
 * one loop; who is to be killed is a program of its own, this one with the argument --hold.
 */
#include "guard/base/clock.h"
#include "guard/base/uv_host.h"
#include "guard/locks/keeper_session.h"
#include "guard/locks/provider.h"
#include "load/base/clock.h"
#include "load/base/net.h"
#include "load/base/proc.h"
#include "load/stack/proxy.h"
#include "load/stack/stack.h"
#include "tests/support/test.h"

#include <dirent.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

enum {
    WAIT_MS = 40000,
    CALM_MS = 20000 /* a session that stands a slow machine */,
    SHORT_MS = 1000,
    PARTIES = 4
};
enum { TOLD_MAX = 64, TOKENS = 64 };

static struct stack_zookeeper zookeeper;
static struct proxy *proxy;

/* Two faults of libzookeeper_mt 3.8, which has no symbols by which to name the functions. When a handle is closed it forgets
 * the commands that were not answered (destroy() leaves them in completions_to_process). And the text of an address, which
 * only its log wants, is made in one buffer for all handles (format_endpoint_info()). */
#define VISIBLE __attribute__((visibility("default")))
VISIBLE const char *__lsan_default_suppressions(void);
VISIBLE const char *__tsan_default_suppressions(void);

const char *__lsan_default_suppressions(void)
{
    return "leak:libzookeeper_mt.so\n";
}

const char *__tsan_default_suppressions(void)
{
    return "race:libzookeeper_mt.so\n";
}

/* ---- the loop ---- */

static uv_loop_t loop;
static struct guard_host *host;
static uv_timer_t limit;
static bool limit_over;
static size_t descriptors_before;

static size_t count_descriptors(void)
{
    size_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

static void on_loop_limit(uv_timer_t *timer)
{
    (void)timer;
    limit_over = true;
}

static bool turn(void)
{
    if (!uv_is_active((uv_handle_t *)&limit))
        uv_timer_start(&limit, on_loop_limit, WAIT_MS, 0);
    uv_run(&loop, UV_RUN_ONCE);
    return !limit_over;
}

#define wait_until(condition)                                                                                \
    do {                                                                                                     \
        while (!(condition))                                                                                 \
            if (!turn())                                                                                     \
                fail_msg("waited for %s", #condition);                                                       \
        uv_timer_stop(&limit);                                                                               \
    } while (0)

static bool open_loop(void)
{
    limit_over = false;
    descriptors_before = count_descriptors();
    return uv_loop_init(&loop) == 0 && (host = uv_host_attach(&loop)) != NULL &&
           uv_timer_init(&loop, &limit) == 0;
}

static void close_loop(void)
{
    host_close(host, NULL, NULL);
    uv_close((uv_handle_t *)&limit, NULL);
    while (uv_run(&loop, UV_RUN_DEFAULT) != 0)
        ;
    assert_int_equal(uv_loop_close(&loop), 0);
}

/* ---- parties ---- */

struct party {
    struct lock_provider *provider; /* NULL: closed */
    struct guard_locks_config locks;
    const char *urls[1];
    bool is_up, closed;
    unsigned ups;
    char why[160];
    char told[TOLD_MAX][KEEPER_UUID_BYTES + 1];
    size_t told_count;
    char dropped[TOLD_MAX][KEEPER_UUID_BYTES + 1];
    size_t dropped_count;
};
static struct party parties[PARTIES];

/* Every action is one of these; `op` is its number. */
struct deed {
    struct party *party;
    unsigned answered;
    struct lock_reply reply;
    char why[160];
};
static struct deed deeds[4096];
static size_t deed_count;

static void on_replied(void *context, uint64_t op, const struct lock_reply *reply)
{
    struct deed *deed = &deeds[op];
    assert_ptr_equal(deed->party, context);
    assert_non_null(deed->party->provider);
    assert_int_equal(deed->answered++, 0);
    deed->reply = *reply;
    snprintf(deed->why, sizeof deed->why, "%s", reply->why != NULL ? reply->why : "");
}

static void on_told(void *context, const char *uuid, const char *encoded, size_t encoded_bytes)
{
    struct party *party = context;
    assert_non_null(party->provider);
    assert_true(encoded_bytes > 0 && encoded != NULL);
    assert_in_range(party->told_count, 0, TOLD_MAX - 1);
    memcpy(party->told[party->told_count++], uuid, KEEPER_UUID_BYTES);
}

static void on_dropped(void *context, const char *token, const char *why)
{
    struct party *party = context;
    assert_non_null(party->provider);
    assert_non_null(why);
    assert_in_range(party->dropped_count, 0, TOLD_MAX - 1);
    memcpy(party->dropped[party->dropped_count++], token, KEEPER_UUID_BYTES);
}

static void on_resync(void *context)
{
    (void)context;
}

static void on_link(void *context, bool up, const char *why)
{
    struct party *party = context;
    assert_non_null(party->provider);
    assert_true(up || why != NULL);
    party->is_up = up;
    party->ups += up;
    if (why != NULL)
        snprintf(party->why, sizeof party->why, "%s", why);
}

static struct lock_provider *open_party(struct party *party, const char *url, uint32_t session_ms,
                                        struct guard_error *error)
{
    *party = (struct party){.urls = {url}};
    party->locks = (struct guard_locks_config)GUARD_LOCKS_CONFIG_DEFAULTS;
    party->locks.provider = GUARD_LOCKS_ZOOKEEPER;
    party->locks.urls = party->urls;
    party->locks.name_space = "tests";
    party->locks.limit_ms = CALM_MS;
    party->locks.connect_limit_ms = CALM_MS;
    party->locks.max_lease_ms = session_ms;
    const struct lock_provider_config config = {
        .host = host,
        .locks = &party->locks,
        .hooks = {.context = party, on_replied, on_told, on_dropped, on_resync, on_link},
    };
    return party->provider = lock_zookeeper_open(&config, error);
}

static struct party *join_at(size_t at, const char *url, uint32_t session_ms)
{
    struct guard_error error = {.text = ""};
    if (open_party(&parties[at], url, session_ms, &error) == NULL)
        fail_msg("%s", error.text);
    return &parties[at];
}

/* One more, up. */
static struct party *join(const char *url, uint32_t session_ms)
{
    size_t at = 0;
    while (parties[at].provider != NULL)
        at++;
    assert_in_range(at, 0, PARTIES - 1);
    struct party *party = join_at(at, url, session_ms);
    wait_until(party->is_up);
    return party;
}

static struct party *join_calmly(void)
{
    return join(zookeeper.url, CALM_MS);
}

static void on_party_closed(void *context)
{
    struct party *party = context;
    assert_false(party->closed);
    party->closed = true;
}

static void leave(struct party *party)
{
    struct lock_provider *provider = party->provider;
    party->provider = NULL;
    provider->close(provider, on_party_closed, party);
    wait_until(party->closed);
}

static bool was_told(const struct party *party, const char *token)
{
    for (size_t i = 0; i < party->told_count; i++)
        if (memcmp(party->told[i], token, KEEPER_UUID_BYTES) == 0)
            return true;
    return false;
}

static bool was_dropped(const struct party *party, const char *token)
{
    for (size_t i = 0; i < party->dropped_count; i++)
        if (memcmp(party->dropped[i], token, KEEPER_UUID_BYTES) == 0)
            return true;
    return false;
}

/* ---- tokens ---- */

struct token {
    char text[LOCK_TOKEN_SIZE];
    char name[KEY_ENCODED_MAX + 1];
    uint32_t units, limit, lease_ms;
};

static struct token token_of(const char *name, uint32_t units, uint32_t of, uint32_t lease_ms)
{
    struct token token = {.units = units, .limit = of, .lease_ms = lease_ms};
    uint8_t random[16];
    char uuid[CLOCK_UUID_SIZE];
    assert_true(clock_random(random, sizeof random));
    clock_uuid(random, uuid);
    snprintf(token.text, sizeof token.text,
             "%s %07" PRIu32 " %07" PRIu32 " %08" PRIu32 " tests:%d 1700000000", uuid, units, of, lease_ms,
             (int)getpid());
    snprintf(token.name, sizeof token.name, "%s", name);
    return token;
}

static struct token writer_of(const char *name)
{
    return token_of(name, LOCK_ALL, LOCK_ALL, SHORT_MS);
}

static struct token reader_of(const char *name)
{
    return token_of(name, 1, LOCK_ALL, SHORT_MS);
}

/* ---- deeds ---- */

static struct deed *begin_as(struct party *party, enum lock_action_kind kind, const struct token *token,
                             uint32_t place_ms)
{
    const struct lock_name name = {.encoded = token->name, .bytes = strlen(token->name)};
    assert_in_range(deed_count, 0, sizeof deeds / sizeof *deeds - 1);
    struct deed *deed = &deeds[deed_count];
    *deed = (struct deed){.party = party};
    const struct lock_action action = {
        .kind = kind,
        .op = deed_count++,
        .lock = GUARD_LOCK_FAIR,
        .names = &name,
        .count = 1,
        .token = token->text,
        .units = token->units,
        .limit = token->limit,
        .lease_ms = token->lease_ms,
        .place_ms = place_ms,
        .deadline_us = UINT64_MAX,
    };
    assert_true(party->provider->perform(party->provider, &action));
    assert_int_equal(deed->answered, 0);
    return deed;
}

static struct deed *begin(struct party *party, enum lock_action_kind kind, const struct token *token)
{
    return begin_as(party, kind, token, 3000);
}

static const struct lock_reply *perform(struct party *party, enum lock_action_kind kind,
                                        const struct token *token)
{
    struct deed *deed = begin(party, kind, token);
    wait_until(deed->answered > 0);
    return &deed->reply;
}

static uint64_t expect_granted(struct party *party, const struct token *token)
{
    const struct lock_reply *reply = perform(party, LOCK_TAKE, token);
    assert_int_equal(reply->kind, LOCK_GRANTED);
    assert_true(reply->fence[0] > 0);
    assert_in_range(reply->valid_ms, 1, token->lease_ms);
    return reply->fence[0];
}

static void expect_refused(struct party *party, const struct token *token, uint32_t before)
{
    const struct lock_reply *reply = perform(party, LOCK_TAKE, token);
    assert_int_equal(reply->kind, LOCK_REFUSED);
    assert_int_equal(reply->before, before);
}

static void expect(struct party *party, enum lock_action_kind kind, const struct token *token,
                   enum lock_reply_kind wanted)
{
    assert_int_equal(perform(party, kind, token)->kind, wanted);
}

static uint64_t wait_for_turn(struct party *party, const struct token *token)
{
    wait_until(was_told(party, token->text));
    return expect_granted(party, token);
}

/* ---- looking ---- */

static struct guard_lock_view seen;
static unsigned looks;
static char look_why[160];

static void on_seen(void *context, const struct guard_lock_view *view, const char *why)
{
    (void)context;
    looks++;
    memset(&seen, 0xff, sizeof seen);
    snprintf(look_why, sizeof look_why, "%s", why != NULL ? why : "");
    if (view != NULL)
        seen = *view;
}

static void look(struct party *party, const char *name)
{
    const struct lock_name wanted = {.encoded = name, .bytes = strlen(name)};
    unsigned before = looks;
    assert_true(party->provider->look(party->provider, &wanted, on_seen, NULL));
    assert_int_equal(looks, before);
    wait_until(looks > before);
}

/* A listing may come from a server that has not heard of the latest. */
static void wait_for_line(struct party *party, const char *name, uint32_t holders, uint32_t waiters)
{
    uint64_t end_us = clock_after_ms(WAIT_MS);
    do {
        look(party, name);
        if (clock_us() >= end_us)
            fail_msg("%s: %u hold it and %u wait", name, seen.holder_count, seen.waiter_count);
    } while (seen.holder_count != holders || seen.waiter_count != waiters);
}

/* ---- groups ---- */

static bool start_one(void)
{
    uv_loop_t first; /* what libuv opens once is opened here */
    return uv_loop_init(&first) == 0 && uv_loop_close(&first) == 0 && stack_zookeeper_start(&zookeeper, 1) &&
           proxy_open_to(zookeeper.servers[0].port, &proxy);
}

static bool stop_one(void)
{
    proxy_close(&proxy);
    stack_zookeeper_stop(&zookeeper);
    return true;
}

static bool before_each(void)
{
    deed_count = 0;
    memset(parties, 0, sizeof parties);
    return open_loop();
}

static bool after_each(void)
{
    for (size_t i = 0; i < PARTIES; i++)
        if (parties[i].provider != NULL)
            leave(&parties[i]);
    close_loop();
    for (uint64_t end_us = clock_after_ms(WAIT_MS); count_descriptors() != descriptors_before;)
        assert_true(clock_us() < end_us); /* the library's thread is a moment behind */
    return true;
}

static char *proxy_url(void)
{
    static char url[32];
    snprintf(url, sizeof url, "127.0.0.1:%u", (unsigned)proxy_port(proxy, 0));
    return url;
}

/* ---- granting, waiting, giving back ---- */

TEST(a_lone_request_is_granted_renewed_and_given_back)
{
    struct party *one = join_calmly();
    struct token token = writer_of("lone");
    uint64_t first = expect_granted(one, &token);
    expect(one, LOCK_RENEW, &token, LOCK_DONE);
    expect(one, LOCK_GIVE, &token, LOCK_DONE);
    expect(one, LOCK_GIVE, &token, LOCK_NOT_HELD);
    expect(one, LOCK_RENEW, &token, LOCK_NOT_HELD);
    struct token later = writer_of("lone");
    assert_true(expect_granted(one, &later) > first);
}

TEST(a_grant_that_is_asked_for_again_is_the_same)
{
    struct party *one = join_calmly();
    struct token token = writer_of("again");
    uint64_t fence = expect_granted(one, &token);
    assert_true(expect_granted(one, &token) == fence);
    look(one, "again");
    assert_int_equal(seen.holder_count + seen.waiter_count, 1);
}

TEST(the_line_is_served_in_the_order_of_arrival)
{
    struct party *one = join_calmly(), *two = join_calmly();
    struct token tokens[4];
    uint64_t fence = 0;
    for (size_t i = 0; i < 4; i++) {
        tokens[i] = writer_of("fifo");
        if (i > 0)
            expect_refused(i % 2 ? two : one, &tokens[i], (uint32_t)i);
        else
            fence = expect_granted(one, &tokens[i]);
    }
    for (size_t i = 1; i < 4; i++) {
        assert_int_equal(one->told_count + two->told_count, i - 1);
        expect(i % 2 ? one : two, LOCK_GIVE, &tokens[i - 1], LOCK_DONE);
        uint64_t next = wait_for_turn(i % 2 ? two : one, &tokens[i]);
        assert_true(next > fence);
        fence = next;
    }
}

TEST(readers_stand_beside_readers_and_behind_a_writer_that_waits)
{
    struct party *one = join_calmly(), *two = join_calmly();
    struct token first = reader_of("rw"), second = reader_of("rw"), writer = writer_of("rw"),
                 late = reader_of("rw");
    expect_granted(one, &first);
    expect_granted(two, &second);
    expect_refused(one, &writer, 2);
    expect_refused(two, &late, 3);
    expect(two, LOCK_GIVE, &second, LOCK_DONE);
    wait_for_line(one, "rw", 1, 2);
    assert_int_equal(one->told_count + two->told_count, 0);
    expect(one, LOCK_GIVE, &first, LOCK_DONE);
    wait_for_turn(one, &writer);
    assert_int_equal(two->told_count, 0);
    expect(one, LOCK_GIVE, &writer, LOCK_DONE);
    wait_for_turn(two, &late);
}

TEST(permits_are_counted_in_units)
{
    struct party *one = join_calmly(), *two = join_calmly();
    struct token big = token_of("permits", 3, 4, SHORT_MS), small = token_of("permits", 1, 4, SHORT_MS);
    struct token next = token_of("permits", 2, 4, SHORT_MS), last = token_of("permits", 1, 4, SHORT_MS);
    expect_granted(one, &big);
    expect_granted(two, &small);
    expect_refused(two, &next, 2);
    expect_refused(one, &last, 3);
    expect(two, LOCK_GIVE, &small, LOCK_DONE);
    wait_for_line(two, "permits", 1, 2);
    assert_int_equal(one->told_count + two->told_count, 0);
    expect(one, LOCK_GIVE, &big, LOCK_DONE);
    wait_for_turn(two, &next);
    wait_for_turn(one, &last);
}

TEST(a_request_that_wants_no_place_leaves_none)
{
    struct party *one = join_calmly(), *two = join_calmly();
    struct token held = writer_of("once"), asked = writer_of("once");
    expect_granted(one, &held);
    struct deed *deed = begin_as(two, LOCK_TAKE, &asked, 0);
    wait_until(deed->answered > 0);
    assert_int_equal(deed->reply.kind, LOCK_REFUSED);
    assert_int_equal(deed->reply.before, 1);
    wait_for_line(one, "once", 1, 0);
    wait_for_line(two, "once", 1, 0); /* behind the answer to its own deletion */
    expect(two, LOCK_GIVE, &asked, LOCK_NOT_HELD);
}

TEST(a_waiter_that_gives_up_lets_those_behind_it_pass)
{
    struct party *one = join_calmly(), *two = join_calmly();
    struct token held = reader_of("cancel"), writer = writer_of("cancel"), reader = reader_of("cancel");
    expect_granted(one, &held);
    expect_refused(one, &writer, 1);
    expect_refused(two, &reader, 2);
    expect(one, LOCK_GIVE, &writer, LOCK_DONE);
    wait_for_turn(two, &reader);
}

TEST(a_turn_that_is_not_taken_up_can_be_given_back)
{
    struct party *one = join_calmly(), *two = join_calmly();
    struct token held = writer_of("served"), next = writer_of("served"), last = writer_of("served");
    expect_granted(one, &held);
    expect_refused(two, &next, 1);
    expect_refused(one, &last, 2);
    expect(one, LOCK_GIVE, &held, LOCK_DONE);
    wait_until(was_told(two, next.text));
    expect(two, LOCK_RENEW, &next, LOCK_NOT_HELD);
    expect(two, LOCK_GIVE, &next, LOCK_DONE);
    wait_for_turn(one, &last);
}

/* The empty containers are taken away within a second, also while they are used. */
TEST(a_name_outlives_its_container)
{
    struct party *one = join_calmly();
    uint64_t end_us = clock_after_ms(1500);
    unsigned rounds = 0;
    for (; clock_us() < end_us || rounds < 20; rounds++) {
        struct token token = writer_of("container");
        expect_granted(one, &token);
        expect(one, LOCK_GIVE, &token, LOCK_DONE);
    }
}

TEST(a_view_shows_holders_and_the_line)
{
    struct party *one = join_calmly();
    struct token held = reader_of("view"), waiting = writer_of("view");
    look(one, "view");
    assert_int_equal(seen.holder_count + seen.waiter_count + seen.seen_count, 0);
    assert_int_equal(seen.fence, 0);
    uint64_t fence = expect_granted(one, &held);
    expect_refused(one, &waiting, 1);
    look(one, "view");
    assert_int_equal(seen.fence, fence);
    assert_int_equal(seen.holder_count, 1);
    assert_int_equal(seen.waiter_count, 1);
    assert_int_equal(seen.seen_count, 2);
    assert_true(seen.seen[0].holds);
    assert_int_equal(seen.seen[0].units, 1);
    assert_memory_equal(seen.seen[0].who, "tests:", 6);
    assert_int_equal(seen.seen[0].since_s, 1700000000);
    assert_false(seen.seen[1].holds);
    assert_int_equal(seen.seen[1].units, LOCK_ALL);
}

/* A line of a hundred in one process costs a hand-over no more commands than a line of two. */
TEST(a_line_costs_a_hand_over_nothing_for_its_length)
{
    enum { WAITERS = 50 };
    struct party *one = join_calmly(), *two = join_calmly();
    struct token held = writer_of("long"), waiters[WAITERS];
    char text[1024];
    expect_granted(one, &held);
    for (size_t i = 0; i < WAITERS; i++) {
        waiters[i] = writer_of("long");
        expect_refused(two, &waiters[i], (uint32_t)i + 1);
    }
    assert_true(stack_zookeeper_ask(&zookeeper, 0, "srst", text, sizeof text));
    expect(one, LOCK_GIVE, &held, LOCK_DONE);
    wait_for_turn(two, &waiters[0]);
    assert_true(stack_zookeeper_ask(&zookeeper, 0, "srvr", text, sizeof text));
    const char *received = strstr(text, "Received: ");
    assert_non_null(received);
    /* delete, list, watch, prove; pings of three sessions and our own asking */
    assert_in_range(strtoul(received + 10, NULL, 10), 1, 12);
}

/* ---- holders that die, sessions that end ---- */

static struct holder {
    pid_t pid;
    char folder[PROC_PATH_BYTES], output[PROC_PATH_BYTES + 8];
} holder;

/* Waits until the holder's output has this text. */
static void wait_said(const char *text)
{
    for (uint64_t end_us = clock_after_ms(WAIT_MS); stack_log_count(holder.output, 0, text) == 0;
         clock_pause_ms(2))
        if (clock_us() >= end_us)
            fail_msg("the holder did not say \"%s\"", text);
}

static void start_holder(const char *name)
{
    char session[16];
    snprintf(session, sizeof session, "%d", SHORT_MS);
    const char *argv[] = {"/proc/self/exe", "--hold", zookeeper.url, name, session, NULL};
    assert_true(proc_folder("holder", NULL, holder.folder));
    snprintf(holder.output, sizeof holder.output, "%s/output", holder.folder);
    holder.pid = proc_start(&(struct proc_options){.argv = argv, .output_path = holder.output});
    assert_true(holder.pid > 0);
    wait_said("held");
}

static void end_holder(void)
{
    proc_kill_tree(&holder.pid);
    proc_remove(holder.folder);
}

TEST(a_killed_holder_blocks_for_its_session)
{
    struct party *one = join_calmly();
    struct token token = writer_of("killed");
    start_holder("killed");
    expect_refused(one, &token, 1);
    kill(holder.pid, SIGKILL);
    uint64_t killed_us = clock_us();
    wait_for_turn(one, &token);
    assert_true(clock_us() - killed_us >= (uint64_t)SHORT_MS * 1000 / 3); /* not at once: it pinged before */
    end_holder();
}

TEST(a_holder_that_is_stopped_past_its_session_hears_of_it_and_has_lost)
{
    struct party *one = join_calmly();
    struct token token = writer_of("stopped");
    start_holder("stopped");
    expect_refused(one, &token, 1);
    kill(holder.pid, SIGSTOP);
    wait_for_turn(one, &token);
    kill(holder.pid, SIGCONT);
    wait_said("dropped");
    wait_said("refused"); /* it asks anew, and stands behind */
    wait_for_line(one, "stopped", 1, 1);
    end_holder();
}

TEST(an_expired_session_loses_what_it_held_and_forgets_what_it_waited_for)
{
    struct party *one = join(proxy_url(), SHORT_MS), *two = join_calmly();
    struct token held = writer_of("expired"), wanted = writer_of("expired"), other = writer_of("busy"),
                 waiting = writer_of("busy");
    expect_granted(one, &held);
    expect_refused(two, &wanted, 1);
    expect_granted(two, &other);
    expect_refused(one, &waiting, 1);
    unsigned ups = one->ups;
    proxy_set(proxy, 0, PROXY_SILENT, 0);
    wait_for_turn(two, &wanted);
    wait_for_line(two, "busy", 1, 0);
    expect(one, LOCK_RENEW, &held, one->is_up ? LOCK_UNANSWERED : LOCK_UNSENT);
    proxy_set(proxy, 0, PROXY_NONE, 0);
    wait_until(was_dropped(one, held.text) && one->is_up && one->ups > ups);
    assert_int_equal(one->dropped_count, 1);
    expect(one, LOCK_RENEW, &held, LOCK_NOT_HELD);
    expect_refused(one, &waiting, 1);
    expect(two, LOCK_GIVE, &other, LOCK_DONE);
    wait_for_turn(one, &waiting);
}

/* An operator's hand, or a cleaner's. */
TEST(a_node_that_another_deletes_is_lost)
{
    struct party *one = join_calmly();
    struct token held = writer_of("deleted"), waiting = writer_of("deleted");
    expect_granted(one, &held);
    expect_refused(one, &waiting, 1);
    char command[512];
    snprintf(command, sizeof command,
             "java -Xshare:auto -XX:TieredStopAtLevel=1 -cp "
             "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-nop.jar "
             "org.apache.zookeeper.ZooKeeperMain -server %s deleteall '/csg1:tests/lock:deleted' >/dev/null",
             zookeeper.url);
    char text[512];
    if (!proc_output(command, text, sizeof text))
        fail_msg("%s", text);
    wait_until(was_told(one, waiting.text));
    expect(one, LOCK_RENEW, &held, LOCK_NOT_HELD);
    expect_granted(one, &waiting);
}

/* ---- replies that are lost ---- */

/* Every command that says the token is executed, and its reply does not come. */
static struct deed *take_without_a_reply(struct party *one, const struct token *token, enum proxy_fault fault)
{
    static char uuid[KEEPER_UUID_BYTES + 1];
    memcpy(uuid, token->text, KEEPER_UUID_BYTES);
    proxy_mark(proxy, 0, uuid, fault);
    struct deed *deed = begin(one, LOCK_TAKE, token);
    /* the library writes from the thread that asks, or from its own */
    for (uint64_t end_us = clock_after_ms(WAIT_MS); !proxy_wait_marked(proxy, 0, 1, 0);)
        assert_true(turn() && clock_us() < end_us);
    uv_timer_stop(&limit);
    return deed;
}

static void reconnect(void)
{
    proxy_set(proxy, 0, PROXY_RESET, 0);
    proxy_set(proxy, 0, PROXY_NONE, 0);
}

/* Another is there, so that nothing but the node itself is to be created. */
static struct party *join_beside(const char *name)
{
    struct party *two = join_calmly();
    struct token beside = reader_of(name);
    expect_granted(two, &beside);
    return two;
}

TEST(a_node_whose_creation_was_not_answered_is_found)
{
    struct party *one = join(proxy_url(), CALM_MS), *two = join_beside("lost");
    struct token token = reader_of("lost");
    struct deed *deed = take_without_a_reply(one, &token, PROXY_FREEZE_REPLIES);
    wait_for_line(two, "lost", 2, 0);
    reconnect();
    wait_until(deed->answered > 0);
    if (deed->reply.kind != LOCK_GRANTED)
        expect_granted(one, &token);
    wait_for_line(two, "lost", 2, 0);
    expect(one, LOCK_GIVE, &token, LOCK_DONE);
    wait_for_line(two, "lost", 1, 0);
}

TEST(a_node_whose_creation_was_not_heard_is_created_again)
{
    struct party *one = join(proxy_url(), CALM_MS), *two = join_beside("unheard");
    struct token token = reader_of("unheard");
    struct deed *deed = take_without_a_reply(one, &token, PROXY_FREEZE_REQUESTS);
    reconnect();
    wait_until(deed->answered > 0);
    if (deed->reply.kind != LOCK_GRANTED)
        expect_granted(one, &token);
    wait_for_line(two, "unheard", 2, 0);
}

TEST(a_request_that_is_given_up_before_its_node_is_known_leaves_none)
{
    struct party *one = join(proxy_url(), CALM_MS), *two = join_beside("early");
    struct token token = reader_of("early");
    struct deed *deed = take_without_a_reply(one, &token, PROXY_FREEZE_REPLIES);
    wait_for_line(two, "early", 2, 0);
    struct deed *given = begin(one, LOCK_GIVE, &token);
    wait_until(deed->answered > 0);
    assert_int_equal(deed->reply.kind, LOCK_UNANSWERED);
    assert_int_equal(given->answered, 0);
    reconnect();
    wait_until(given->answered > 0);
    assert_int_equal(given->reply.kind, LOCK_DONE);
    wait_for_line(two, "early", 1, 0);
    expect(one, LOCK_TAKE, &token, LOCK_GRANTED);
}

TEST(giving_back_goes_on_until_it_is_answered)
{
    struct party *one = join(proxy_url(), CALM_MS), *two = join_calmly();
    struct token token = writer_of("giving"), next = writer_of("giving");
    expect_granted(one, &token);
    expect_refused(two, &next, 1);
    proxy_set(proxy, 0, PROXY_FREEZE_REQUESTS, 0);
    one->locks.limit_ms = 50;
    expect(one, LOCK_GIVE, &token, LOCK_UNANSWERED);
    one->locks.limit_ms = CALM_MS;
    reconnect();
    wait_for_turn(two, &next);
    wait_until(one->is_up);
    expect(one, LOCK_GIVE, &token, LOCK_DONE); /* it is known until this is heard */
    expect(one, LOCK_GIVE, &token, LOCK_NOT_HELD);
}

/* A waiter hears of its turn although the watch was lost with the connection. */
TEST(a_waiter_goes_on_after_a_lost_connection)
{
    struct party *one = join(proxy_url(), CALM_MS), *two = join_calmly();
    struct token held = writer_of("reconnect"), waiting = writer_of("reconnect");
    expect_granted(two, &held);
    expect_refused(one, &waiting, 1);
    proxy_set(proxy, 0, PROXY_RESET, 0);
    wait_until(!one->is_up);
    expect(one, LOCK_TAKE, &waiting, LOCK_UNSENT);
    expect(two, LOCK_GIVE, &held, LOCK_DONE);
    proxy_set(proxy, 0, PROXY_NONE, 0);
    wait_for_turn(one, &waiting);
}

TEST(a_server_that_is_silent_is_not_waited_for)
{
    struct party *one = join(proxy_url(), CALM_MS);
    struct token held = writer_of("silent");
    expect_granted(one, &held);
    proxy_set(proxy, 0, PROXY_SILENT, 0);
    one->locks.limit_ms = 50;
    expect(one, LOCK_RENEW, &held, LOCK_UNANSWERED);
    one->locks.limit_ms = CALM_MS;
    proxy_set(proxy, 0, PROXY_NONE, 0);
    wait_until(one->is_up);
    expect(one, LOCK_RENEW, &held, LOCK_DONE);
}

/* ---- closing ---- */

static uint64_t leave_in_ms(struct party *party)
{
    uint64_t start_us = clock_us();
    leave(party);
    return (clock_us() - start_us) / 1000;
}

TEST(closing_ends_the_session_at_once)
{
    struct party *one = join_calmly(), *two = join_calmly();
    struct token held = writer_of("close"), waiting = writer_of("close"), next = writer_of("close");
    expect_granted(one, &held);
    expect_refused(one, &waiting, 1);
    expect_refused(two, &next, 2);
    leave(one);
    wait_for_turn(two, &next); /* long before the session would have ended by itself */
}

TEST(closing_waits_for_no_server)
{
    struct party *one = join(proxy_url(), CALM_MS);
    struct token held = writer_of("hang"), asked = writer_of("hang");
    expect_granted(one, &held);
    one->locks.connect_limit_ms = 100;
    proxy_set(proxy, 0, PROXY_SILENT, 0);
    begin(one, LOCK_RENEW, &held);
    begin(one, LOCK_TAKE, &asked);
    assert_in_range(leave_in_ms(one), 0, 10000);
    proxy_set(proxy, 0, PROXY_NONE, 0);
    struct party *two = join_calmly();
    wait_for_line(two, "hang", 0, 0); /* it did say farewell when it could, or its session ends */
}

TEST(closing_does_not_wait_until_it_is_up)
{
    struct party *one = join_at(0, "127.0.0.1:1", CALM_MS);
    struct token token = writer_of("nobody");
    expect(one, LOCK_TAKE, &token, LOCK_UNSENT);
    expect(one, LOCK_GIVE, &token, LOCK_NOT_HELD);
    assert_false(one->is_up);
    one->locks.connect_limit_ms = 100;
    assert_in_range(leave_in_ms(one), 0, 10000);
}

/* ---- what cannot be ---- */

static void expect_wrong(const char *url, const char *why)
{
    struct guard_error error = {.text = ""};
    assert_null(open_party(&parties[0], url, CALM_MS, &error));
    assert_int_equal(error.status, GUARD_INVALID);
    if (strstr(error.text, why) == NULL || strstr(error.text, url) == NULL)
        fail_msg("%s: %s", url, error.text);
}

TEST(wrong_urls_are_refused_by_name)
{
    static const char *const servers[] = {"",           "host",     "host:",
                                          ":2181",      "host:0",   "host:65536",
                                          "host:2181,", "a:1,,b:2", "zookeeper://host:2181x"};
    static const char *const chroots[] = {"host:2181/", "host:2181/a/", "host:2181/a//b"};
    for (size_t i = 0; i < sizeof servers / sizeof *servers; i++)
        expect_wrong(servers[i], "each server must be host:port");
    for (size_t i = 0; i < sizeof chroots / sizeof *chroots; i++)
        expect_wrong(chroots[i], "the chroot must be a path");
}

TEST(a_chroot_that_is_missing_is_told)
{
    char url[96];
    snprintf(url, sizeof url, "%s/missing", zookeeper.url);
    struct party *one = join(url, CALM_MS);
    struct token token = writer_of("chroot");
    struct deed *deed = begin(one, LOCK_TAKE, &token);
    wait_until(deed->answered > 0);
    assert_int_equal(deed->reply.kind, LOCK_IMPOSSIBLE);
    assert_non_null(strstr(deed->why, "chroot"));
}

TEST(a_lease_longer_than_any_session_is_told)
{
    struct party *one = join(zookeeper.url, 90000); /* the server allows a minute */
    struct token token = token_of("lease", LOCK_ALL, LOCK_ALL, 90000);
    struct deed *deed = begin(one, LOCK_TAKE, &token);
    wait_until(deed->answered > 0);
    assert_int_equal(deed->reply.kind, LOCK_IMPOSSIBLE);
    assert_non_null(strstr(deed->why, "maxSessionTimeout"));
    token = token_of("lease", LOCK_ALL, LOCK_ALL, 60000);
    const struct lock_reply *reply = perform(one, LOCK_TAKE, &token);
    assert_int_equal(reply->valid_ms, 40000); /* two thirds of the session */
}

TEST(a_host_that_is_unknown_is_told_and_asked_for_again)
{
    struct party *one = join_at(0, "no-such-host.invalid:2181", CALM_MS);
    wait_until(strstr(one->why, "resolved") != NULL);
    assert_false(one->is_up);
}

TEST_GROUP(.up = start_one, .down = stop_one, .before = before_each, .after = after_each);

/* ---- an ensemble ---- */

static bool start_ensemble(void)
{
    return stack_zookeeper_start(&zookeeper, STACK_ZOOKEEPER_MOST);
}

static bool stop_ensemble(void)
{
    stack_zookeeper_stop(&zookeeper);
    return true;
}

TEST(locks_outlive_any_one_server)
{
    struct party *one = join_calmly(), *two = join_calmly();
    struct token held = writer_of("server"), waiting = writer_of("server");
    uint64_t fence = expect_granted(one, &held);
    expect_refused(two, &waiting, 1);
    for (size_t i = 0; i < zookeeper.count; i++) {
        stack_zookeeper_kill(&zookeeper, i);
        while (perform(one, LOCK_RENEW, &held)->kind != LOCK_DONE)
            wait_until(one->is_up);
        assert_int_equal(one->dropped_count + two->told_count, 0);
        assert_true(stack_zookeeper_restart(&zookeeper, i));
    }
    while (perform(one, LOCK_GIVE, &held)->kind == LOCK_UNANSWERED)
        continue;
    wait_until(was_told(two, waiting.text));
    const struct lock_reply *reply;
    while ((reply = perform(two, LOCK_TAKE, &waiting))->kind != LOCK_GRANTED)
        wait_until(two->is_up);
    assert_true(reply->fence[0] > fence);
}

TEST(without_a_majority_nothing_is_granted_or_confirmed)
{
    struct party *one = join_calmly();
    struct token held = writer_of("majority"), other = writer_of("other");
    expect_granted(one, &held);
    stack_zookeeper_pause(&zookeeper, 0);
    stack_zookeeper_pause(&zookeeper, 1);
    one->locks.limit_ms = 300;
    assert_int_not_equal(perform(one, LOCK_RENEW, &held)->kind, LOCK_DONE);
    assert_int_not_equal(perform(one, LOCK_TAKE, &other)->kind, LOCK_GRANTED);
    one->locks.limit_ms = CALM_MS;
    stack_zookeeper_resume(&zookeeper, 0);
    stack_zookeeper_resume(&zookeeper, 1);
    while (perform(one, LOCK_RENEW, &held)->kind != LOCK_DONE)
        wait_until(one->is_up);
}

TEST_GROUP(.up = start_ensemble, .down = stop_ensemble, .before = before_each, .after = after_each);

/* ---- the holder ---- */

static void say_reply(const struct lock_reply *reply)
{
    puts(reply->kind == LOCK_GRANTED ? "held" : "refused");
    fflush(stdout);
}

/* Holds the name until it is killed; asks for it again once it was dropped. */
static int hold(char **argv)
{
    if (!open_loop())
        return 1;
    struct party *party = join(argv[2], (uint32_t)strtoul(argv[4], NULL, 10));
    struct token token = token_of(argv[3], LOCK_ALL, LOCK_ALL, SHORT_MS);
    say_reply(perform(party, LOCK_TAKE, &token));
    wait_until(party->dropped_count > 0);
    puts("dropped");
    wait_until(party->is_up);
    say_reply(perform(party, LOCK_TAKE, &token));
    wait_until(false);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "--hold") == 0)
        return hold(argv);
    return test_main(argc, argv);
}
