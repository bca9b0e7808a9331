/* SPDX-License-Identifier: MIT */
/*
 * adapters_test.c - what guard/host.h asks of an adapter, of each of the five, one at a time: no guard, no Redis.
 *
 * The adapters believe that they attach themselves to a guard; the test takes what they made.
 */
#include "guard/base/clock.h"
#include "guard/base/host.h"
#include "tests/support/uv_host.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

static enum guard_status take_host(struct guard *guard, struct guard_host *host, struct guard_loop **out,
                                   struct guard_error *error);
static void note_rang(struct guard_host *host);
#define guard_loop_attach_host take_host
#define guard_host_rang note_rang
#include "loops_rig.h"
#undef guard_loop_attach_host
#undef guard_host_rang

/* ---- a loop with a host on it, and two pairs of sockets ---- */

static struct scene {
    struct loop_rig rig;
    struct guard_host *host;
    struct guard_host_state host_state;
    struct guard_host_state state, refused;
    bool refuses; /* the host that an adapter makes */
    uint64_t rang_us;
    unsigned closed;
    int pair[2][2];
    struct guard_watch watch[2];
} scene;

/* What happened, a letter each. */
static char said[64];

static void say(char letter)
{
    size_t length = strlen(said);
    if (length + 1 < sizeof said)
        said[length] = letter;
}

static enum guard_status take_host(struct guard *guard, struct guard_host *host, struct guard_loop **out,
                                   struct guard_error *error)
{
    (void)guard, (void)out, (void)error;
    if (host == NULL || !host_init(host, scene.refuses ? &scene.refused : &scene.state))
        return GUARD_NO_MEMORY;
    if (scene.refuses) { /* after it has asked for this and that */
        host->timer(host, 0);
        host->soon(host, false);
        host_clear(host);
        return GUARD_NO_MEMORY;
    }
    scene.host = host;
    return GUARD_OK;
}

static void note_rang(struct guard_host *host)
{
    if (scene.rang_us == 0)
        scene.rang_us = clock_now_us();
    guard_host_rang(host);
}

static void nothing(void *context)
{
    (void)context;
}

static enum guard_status attach_scene(void)
{
    struct guard_loop *unused = NULL;
    if (strcmp(rig_kind->name, "libuv") != 0)
        return rig_kind->attach(&scene.rig, NULL, &unused, NULL);
    scene.host = uv_host_attach(&scene.rig.uv.loop, &scene.host_state);
    return scene.host != NULL ? GUARD_OK : GUARD_NO_MEMORY;
}

static void say_ready(void *context, unsigned events)
{
    (void)context;
    if ((events & GUARD_HOST_READABLE) != 0)
        say('r');
    if ((events & GUARD_HOST_WRITABLE) != 0)
        say('w');
}

static bool open_scene(void)
{
    memset(said, 0, sizeof said);
    memset(&scene, 0, sizeof scene);
    loop_rig_open(&scene.rig, nothing, NULL);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, scene.pair[i]), 0);
        scene.watch[i] = (struct guard_watch){.ready = say_ready, .fd = scene.pair[i][0]};
    }
    return attach_scene() == GUARD_OK;
}

static void on_closed(void *context)
{
    (void)context;
    scene.closed++;
    scene.rig.ours = NULL;
}

static void leave_loop(void *context)
{
    (void)context;
    rig_kind->leave(&scene.rig);
}

/* The loop runs out by itself: nothing of the host is left on it. */
static bool close_scene(void)
{
    for (int i = 0; i < 2 && scene.closed == 0; i++)
        host_watch(scene.host, &scene.watch[i], 0);
    if (scene.closed == 0)
        host_close(scene.host, on_closed, NULL);
    scene.rig.woken = leave_loop;
    rig_kind->wake(&scene.rig);
    rig_kind->run(&scene.rig);
    assert_int_equal(scene.closed, 1);
    rig_kind->close(&scene.rig);
    for (int i = 0; i < 4; i++)
        close(scene.pair[i / 2][i % 2]);
    return true;
}

static void make_ready(int i)
{
    assert_int_equal(write(scene.pair[i][1], "x", 1), 1);
}

static void turn(void)
{
    rig_kind->turn(&scene.rig, false);
}

/* ---- descriptors ---- */

static void stop_both(void *context, unsigned events)
{
    (void)context, (void)events;
    say('r');
    for (int i = 0; i < 2; i++)
        host_watch(scene.host, &scene.watch[i], 0);
}

TEST(a_descriptor_that_is_no_longer_watched_is_not_heard_of_even_in_the_same_turn, P162)
{
    for (int i = 0; i < 2; i++) {
        make_ready(i);
        scene.watch[i].ready = stop_both;
        assert_int_equal(host_watch(scene.host, &scene.watch[i], GUARD_HOST_READABLE), 0);
    }
    for (int i = 0; i < 4; i++)
        turn();
    assert_string_equal(said, "r");
}

TEST(what_is_watched_for_can_be_changed_and_holds_again_and_again)
{
    struct guard_watch *watch = &scene.watch[0];
    assert_int_equal(host_watch(scene.host, watch, GUARD_HOST_READABLE | GUARD_HOST_WRITABLE), 0);
    turn();
    turn();
    assert_string_equal(said, "ww");
    assert_int_equal(host_watch(scene.host, watch, GUARD_HOST_READABLE), 0);
    turn();
    assert_string_equal(said, "ww");
    make_ready(0);
    turn();
    assert_string_equal(said, "wwr");
    assert_int_equal(host_watch(scene.host, watch, GUARD_HOST_READABLE | GUARD_HOST_WRITABLE), 0);
    turn();
    assert_string_equal(said, "wwrrw"); /* both directions of one descriptor */
    assert_int_equal(host_watch(scene.host, watch, GUARD_HOST_WRITABLE), 0);
    turn();
    assert_string_equal(said, "wwrrww");
}

TEST(a_descriptor_that_cannot_be_watched_is_refused_with_the_systems_reason)
{
    struct guard_watch closed = {.ready = say_ready, .fd = 1 << 20};
    assert_int_equal(host_watch(scene.host, &closed, GUARD_HOST_READABLE), EBADF);
    assert_null(closed.handle);
    assert_int_equal(host_watch(scene.host, &closed, 0), 0);
}

TEST(a_number_that_another_descriptor_gets_is_watched_anew)
{
    struct guard_watch *watch = &scene.watch[0];
    for (int i = 0; i < 3; i++) {
        assert_int_equal(host_watch(scene.host, watch, GUARD_HOST_READABLE), 0);
        turn();
        host_watch(scene.host, watch, 0);
        close(scene.pair[0][0]);
        close(scene.pair[0][1]);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, scene.pair[0]), 0);
        watch->fd = scene.pair[0][0];
    }
    assert_int_equal(host_watch(scene.host, watch, GUARD_HOST_READABLE), 0);
    make_ready(0);
    turn();
    assert_string_equal(said, "r");
}

static int connect_to_nobody(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &bytes), 0);
    (void)connect(fd, (struct sockaddr *)&address, sizeof address);
    close(listener);
    return fd;
}

static void note_ready(void *context, unsigned events)
{
    *(unsigned *)context |= events;
}

TEST(an_error_and_a_hang_up_are_told_whatever_is_watched_for)
{
    unsigned refused = 0, hung_up = 0, reset = 0;
    struct guard_watch watch = {.ready = note_ready, .context = &refused, .fd = connect_to_nobody()};
    assert_int_equal(host_watch(scene.host, &watch, GUARD_HOST_WRITABLE), 0);
    while (refused == 0)
        turn();
    host_watch(scene.host, &watch, 0);
    close(watch.fd);

    scene.watch[0].ready = scene.watch[1].ready = note_ready;
    scene.watch[0].context = &hung_up;
    scene.watch[1].context = &reset;
    assert_int_equal(host_watch(scene.host, &scene.watch[0], GUARD_HOST_READABLE), 0);
    assert_int_equal(host_watch(scene.host, &scene.watch[1], GUARD_HOST_WRITABLE), 0);
    for (int i = 0; i < 2; i++)
        shutdown(scene.pair[i][1], SHUT_RDWR);
    while (hung_up == 0 || reset == 0)
        turn();
    assert_true((hung_up & (GUARD_HOST_READABLE | GUARD_HOST_BROKEN)) != 0);
}

/* ---- soon ---- */

static void say_soon(void *context)
{
    (void)context;
    say('s');
}

static void ask_soon(void *context, unsigned events)
{
    (void)events;
    say('r');
    host_soon(scene.host, context);
}

TEST(soon_comes_after_all_that_was_ready_and_before_the_loop_waits)
{
    struct host_soon soon = {.run = say_soon};
    for (int i = 0; i < 2; i++) {
        make_ready(i);
        scene.watch[i].ready = ask_soon;
        scene.watch[i].context = &soon;
        assert_int_equal(host_watch(scene.host, &scene.watch[i], GUARD_HOST_READABLE), 0);
    }
    while (strlen(said) < 2)
        turn();
    for (int i = 0; i < 2; i++)
        host_watch(scene.host, &scene.watch[i], 0);
    while (strchr(said, 's') == NULL)
        rig_kind->turn(&scene.rig, true); /* would wait for ever */
    assert_string_equal(strchr(said, 's') - 2, "rrs");
    host_soon(scene.host, &soon); /* outside of any turn */
    rig_kind->turn(&scene.rig, true);
    assert_string_equal(strchr(said, 's'), "ss");
}

TEST(soon_comes_however_busy_the_loop_is, P162)
{
    struct host_soon soon = {.run = say_soon};
    make_ready(0);
    assert_int_equal(host_watch(scene.host, &scene.watch[0], GUARD_HOST_READABLE), 0);
    turn();
    host_soon(scene.host, &soon);
    for (int i = 0; i < 3; i++)
        turn();
    assert_non_null(strchr(said, 's'));
}

static void ask_for_itself(void *context)
{
    if (said[0] == '\0')
        make_ready(0); /* not before the loop is at work */
    say('s');
    if (strlen(said) < 20) /* else it runs for ever */
        host_soon(scene.host, context);
}

static void stop_it(void *context, unsigned events)
{
    (void)events;
    say('r');
    host_soon_stop(context);
    host_watch(scene.host, &scene.watch[0], 0);
}

TEST(one_that_asks_for_itself_lets_the_loop_look_at_its_descriptors)
{
    struct host_soon soon = {.run = ask_for_itself};
    soon.context = &soon;
    scene.watch[0].ready = stop_it;
    scene.watch[0].context = &soon;
    assert_int_equal(host_watch(scene.host, &scene.watch[0], GUARD_HOST_READABLE), 0);
    host_soon(scene.host, &soon);
    while (strchr(said, 'r') == NULL)
        rig_kind->turn(&scene.rig, true);
    assert_in_range(strlen(said), 1, 4);
}

/* ---- wakes ---- */

static void *send_wake(void *wake)
{
    host_wake_send(wake);
    return NULL;
}

static void say_woken(void *soon)
{
    say('w');
    host_soon(scene.host, soon);
}

TEST(a_thread_wakes_the_loop_and_soon_comes_before_it_waits)
{
    struct host_soon soon = {.run = say_soon};
    struct host_wake wake;
    pthread_t thread;
    host_wake_init(scene.host, &wake, say_woken, &soon);
    assert_int_equal(pthread_create(&thread, NULL, send_wake, &wake), 0);
    while (strchr(said, 's') == NULL)
        rig_kind->turn(&scene.rig, true); /* would wait for ever */
    assert_string_equal(said, "ws");
    pthread_join(thread, NULL);
    host_wake_clear(&wake);
}

/* ---- timers ---- */

enum { STILL_US = 60000, TIMER_US = 40000, EARLY_US = 10000 /* some clocks tick every 4 ms */ };

static void stand_still_and_set(void *timer)
{
    uint64_t end_us = clock_now_us() + STILL_US;
    while (clock_now_us() < end_us)
        continue;
    host_timer_set(scene.host, timer, end_us + TIMER_US);
}

/* The loop's own idea of now is as old as its turn. */
TEST(a_timer_counts_from_now_on_a_loop_that_has_stood_still, P162)
{
    struct host_timer timer = {.run = say_soon};
    struct host_soon soon = {.run = stand_still_and_set, .context = &timer};
    host_soon(scene.host, &soon);
    while (said[0] == '\0')
        rig_kind->turn(&scene.rig, true);
    assert_true(clock_now_us() >= timer.at_us);
    if (scene.rang_us != 0) /* not seen on libuv */
        assert_true(scene.rang_us + EARLY_US >= timer.at_us);
    assert_false(timer.set);
}

TEST(a_timer_that_was_stopped_or_moved_does_not_ring)
{
    struct host_timer stopped = {.run = say_soon}, moved = {.run = say_soon};
    const uint64_t now_us = clock_now_us();
    host_timer_set(scene.host, &stopped, now_us + 1000);
    host_timer_stop(scene.host, &stopped);
    host_timer_set(scene.host, &moved, now_us + 1000);
    host_timer_set(scene.host, &moved, now_us + 20000);
    while (said[0] == '\0')
        rig_kind->turn(&scene.rig, true);
    assert_true(clock_now_us() >= now_us + 20000);
    assert_string_equal(said, "s");
}

/* ---- the end ---- */

static void close_host(void *context)
{
    struct host_wake *wake = context;
    if (wake != NULL)
        host_wake_clear(wake);
    host_close(scene.host, on_closed, NULL);
    assert_int_equal(scene.closed, 0);
}

static void close_from_descriptor(void *context, unsigned events)
{
    (void)events;
    host_watch(scene.host, &scene.watch[0], 0);
    close_host(context);
}

TEST(it_may_be_closed_in_soon, P162)
{
    struct host_soon soon = {.run = close_host};
    host_soon(scene.host, &soon);
    while (scene.closed == 0)
        rig_kind->turn(&scene.rig, true);
}

TEST(it_may_be_closed_in_a_timer)
{
    struct host_timer timer = {.run = close_host};
    host_timer_set(scene.host, &timer, 1);
    while (scene.closed == 0)
        rig_kind->turn(&scene.rig, true);
}

TEST(it_may_be_closed_when_it_is_woken)
{
    struct host_wake wake;
    host_wake_init(scene.host, &wake, close_host, &wake);
    host_wake_send(&wake);
    while (scene.closed == 0)
        rig_kind->turn(&scene.rig, true);
}

TEST(it_may_be_closed_when_a_descriptor_is_ready)
{
    scene.watch[0].ready = close_from_descriptor;
    make_ready(0);
    assert_int_equal(host_watch(scene.host, &scene.watch[0], GUARD_HOST_READABLE), 0);
    while (scene.closed == 0)
        rig_kind->turn(&scene.rig, true);
}

TEST(what_an_attachment_that_failed_had_asked_for_does_not_come)
{
    scene.refuses = strcmp(rig_kind->name, "libuv") != 0;
    if (scene.refuses)
        assert_int_equal(attach_scene(), GUARD_NO_MEMORY);
    for (int i = 0; i < 3 && scene.rig.ours == NULL; i++)
        turn();
    assert_int_equal(scene.rang_us, 0);
}

TEST_GROUP(.before = open_scene, .after = close_scene);

int main(int argc, char **argv)
{
    return loops_main(argc, argv);
}
