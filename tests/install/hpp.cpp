/* SPDX-License-Identifier: MIT */
/* hpp.cpp - guard.hpp at work over a real Redis: hpp REDIS_URL. Says what is wrong, and exits with 1. */
#include "adapters/epoll.h"
#include "guard.hpp"
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>

#ifdef __cpp_exceptions
#include <stdexcept>
#endif

#define CHECK(right)                                                                                         \
    do {                                                                                                     \
        if (!(right)) {                                                                                      \
            std::fprintf(stderr, "hpp.cpp:%d: %s\n", __LINE__, #right);                                      \
            std::exit(1);                                                                                    \
        }                                                                                                    \
    } while (0)

/* Loaders that come to it wait until it is open. */
struct gate {
    std::mutex mutex;
    std::condition_variable changed;
    int inside = 0;
    bool is_open = false;

    void pass()
    {
        std::unique_lock<std::mutex> lock(mutex);
        inside++;
        changed.wait(lock, [this] { return is_open; });
    }
    void open()
    {
        const std::lock_guard<std::mutex> lock(mutex);
        is_open = true;
        changed.notify_all();
    }
};

static std::string said;

static void note(void *, const char *text, bool) noexcept
{
    static std::mutex mutex;
    const std::lock_guard<std::mutex> lock(mutex);
    said += text;
}

struct world {
    stampede::guard guard;
    guard_kind *kind = nullptr, *described = nullptr;
    guard_epoll *ours = nullptr;
    guard_loop *loop = nullptr;
    int epoll = -1;
    gate slow;

    explicit world(const char *redis)
    {
        stampede::settings settings;
        stampede::policy policy;
        guard_error error;
        settings.name_space = "hpp";
        settings.redis_url = redis;
        settings.log = note;
        policy.tagged = true;
        policy.near_ms = stampede::ms(std::chrono::minutes(1));
        guard = stampede::guard::open(settings, &error);
        CHECK(guard && guard_connected_wait(guard.c()) == GUARD_OK);
        kind = guard.add(
            policy, [this, unique = std::make_unique<int>(0)](stampede::load &load) { run(load); }, &error);
        policy.needs_meta = true;
        described = guard.add(policy, [](stampede::load &load) {
            load.meta(load.key().substr(1));
            load.done("");
        });
        CHECK(kind != nullptr && described != nullptr);
        CHECK(guard_epoll_attach(guard.c(), &ours, &loop, &error) == GUARD_OK);
        epoll = epoll_create1(EPOLL_CLOEXEC);
        epoll_event event = {EPOLLIN, {ours}};
        CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, ours->fd, &event) == 0);
    }

    void run(stampede::load &load)
    {
        if (load.key().substr(0, 4) == "slow")
            slow.pass();
        if (load.key() == "nobody") {
            load.absent();
        } else if (load.key() == "unfinished") {
            stampede::deferred dropped = load.defer();
            CHECK(dropped);
        } else if (load.key() == "deferred") {
            stampede::deferred later = load.defer(), none(nullptr);
            std::swap(none, later);
            none.meta("afterwards");
            none.done("later");
#ifdef __cpp_exceptions
        } else if (load.key() == "throws") {
            throw std::runtime_error("the database is gone");
        } else if (load.key() == "throws late") {
            load.done("first");
            throw 1;
#endif
        } else {
            load.tag("all");
            load.meta("of " + std::string(load.key()));
            load.done(load.key(), "v1");
        }
    }

    template <class Over> void turn_until(Over over)
    {
        while (!over()) {
            epoll_event event;
            if (epoll_wait(epoll, &event, 1, guard_epoll_before_wait(ours, 30000)) > 0)
                guard_epoll_ready(ours);
        }
    }

    /* The one request is answered by it, the other one forgotten after it. */
    ~world()
    {
        bool gone = false, closing = false;
        slow.is_open = false;
        auto told = guard.get(loop, {kind, "slow 3"}, [&](const stampede::answer &answer) {
            closing = answer.status() == GUARD_CLOSING;
        });
        std::optional<stampede::pending> left =
            guard.get(loop, {kind, "slow 3"}, [](stampede::answer) { std::abort(); });
        stampede::detach(loop, [&gone, unique = std::make_unique<int>(0)] { gone = true; });
        left.reset();
        turn_until([&] { return gone; });
        slow.open();
        CHECK(closing);
        close(epoll);
        CHECK(guard.close() == GUARD_OK && !guard);
    }
};

static void several(world &w)
{
    using stampede::change;
    const std::string_view two = "user:7user:8";
    const auto answers = w.guard.get(w.kind, {two.substr(0, 6), two.substr(6), "nobody"});
    CHECK(answers.size() == 3 && answers[0].body() == "user:7" && answers[1].body() == "user:8");
    CHECK(answers[2].status() == GUARD_ABSENT && w.guard.get(w.kind, {}).empty());
    CHECK(w.guard.get(w.kind, {"user:7", ""})[1].status() == GUARD_INVALID);
    const auto refused = w.guard.get(w.kind, std::vector<std::string_view>(GUARD_MANY_MAX + 1, "user:7"));
    CHECK(refused[0].status() == GUARD_INVALID && refused[GUARD_MANY_MAX].status() == GUARD_INVALID);
    CHECK(w.guard.invalidate(change().tag(std::string_view("allx", 3))).status == GUARD_OK);
    CHECK(w.guard.get({w.kind, "user:7"})->source == GUARD_FROM_LOAD);
    CHECK(w.guard.expire(change().key(two.substr(0, 6)).key(two.substr(6)).tag("none")).value_dropped);
    CHECK(w.guard.get({w.kind, "user:7"})->source == GUARD_FROM_LOAD);
    CHECK(w.guard.invalidate(change()).status == GUARD_INVALID);
    CHECK(w.guard.invalidate(change().key("user:7").key("")).status == GUARD_INVALID);
}

static void blocking(world &w)
{
    const std::string_view two = "user:7user:8"; /* no 0 behind the first */
    stampede::answer answer = w.guard.get({w.kind, two.substr(0, 6)});
    CHECK(answer && answer.body() == "user:7" && answer->source == GUARD_FROM_LOAD);
    const stampede::value kept = answer.take(), more = kept.another();
    CHECK(!answer && more.body() == "user:7" && kept.validator() == "v1" && answer.body().empty());
    CHECK(kept.meta() == "of user:7" && answer.meta().empty() && !w.guard.get({w.kind, "nobody"}));
    CHECK(w.guard.get({w.kind, "user:7"}).left() > std::chrono::seconds(1));
    CHECK(w.guard.get({w.kind, "nobody"}).status() == GUARD_ABSENT);
    CHECK(w.guard.get({w.kind, ""}).status() == GUARD_INVALID);
    CHECK(w.guard.get({w.kind, {}}).status() == GUARD_INVALID);
    CHECK(w.guard.get({w.kind, std::string_view("a\0b", 3)}).status() == GUARD_INVALID);
    CHECK(w.guard.get({w.kind, "deferred"}).body() == "later");
    CHECK(w.guard.get({w.kind, "deferred"}).meta() == "afterwards");
    CHECK(w.guard.get({w.described, "+"})->failure == GUARD_FAILURE_INTERNAL);
    CHECK(w.guard.get({w.described, "+meta"}).meta() == "meta");
    CHECK(w.guard.get({w.kind, "unfinished"})->failure == GUARD_FAILURE_INTERNAL);
    several(w);
#ifdef __cpp_exceptions
    CHECK(w.guard.get({w.kind, "throws"})->failure == GUARD_FAILURE_INTERNAL);
    CHECK(said.find("the loader of \"throws\" returned without finishing") != std::string::npos);
    CHECK(w.guard.get({w.kind, "throws late"}).body() == "first");
    CHECK(said.find("the loader of \"throws late\" finished the load a second time") != std::string::npos);
#endif
}

static void moving(world &w)
{
    stampede::guard other = std::move(w.guard);
    CHECK(other && !w.guard && w.guard.close() == GUARD_OK);
    w.guard = std::move(other);
    stampede::guard &same = w.guard;
    w.guard = std::move(same);
    CHECK(w.guard.get({w.kind, "moved"}).body() == "moved");
}

/* The one callback drops its own handle; the other one's handle goes before its load is over. */
static void on_a_loop(world &w)
{
    std::optional<stampede::pending> one, two;
    std::string body;
    bool called = false;
    one = w.guard.get(w.loop, {w.kind, "loop"},
                      [&, unique = std::make_unique<int>(7)](stampede::answer answer) {
                          one.reset();
                          body = std::string(answer.body()) + std::to_string(*unique);
                      });
    CHECK(one->now() == nullptr);
    w.turn_until([&] { return !one; });
    CHECK(body == "loop7");
    CHECK(w.guard.get({w.kind, "loop"})->source == GUARD_FROM_CACHE); /* what is found becomes near */
    one = w.guard.get(w.loop, {w.kind, "loop"}, [](const stampede::answer &) { std::abort(); });
    CHECK(one->now() != nullptr && one->now()->status() == GUARD_OK && one->now()->body() == "loop");
    one = w.guard.get(w.loop, {w.kind, ""}, [](const stampede::answer &) { std::abort(); });
    CHECK(one->now() != nullptr && one->now()->status() == GUARD_INVALID);
    one = w.guard.get(w.loop, {w.kind, "slow 1"}, [](const stampede::answer &) { std::abort(); });
    two = w.guard.get(w.loop, {w.kind, "slow 1"}, [&](const stampede::answer &) { called = true; });
    stampede::pending moved = std::move(*two);
    w.turn_until([&] {
        const std::lock_guard<std::mutex> lock(w.slow.mutex);
        return w.slow.inside == 1;
    });
    one.reset();
    two.reset();
    w.slow.open();
    w.turn_until([&] { return called; });
}

#if __cplusplus >= 202002L
struct task {
    struct promise_type {
        task get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
        std::suspend_never initial_suspend() noexcept { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        void return_void() {}
        void unhandled_exception() { std::terminate(); }
    };
    std::coroutine_handle<promise_type> handle;
};

static task ask(world &w, std::string key, std::string &body)
{
    const stampede::answer answer = co_await w.guard.get(w.loop, {w.kind, key});
    body = answer ? std::string(answer.body()) : guard_status_name(answer.status());
}

static void awaited(world &w)
{
    std::string body, left = "untouched", refused, near;
    w.slow.is_open = false;
    const task first = ask(w, "awaited", body), second = ask(w, "slow 2", left);
    CHECK(body.empty() && !first.handle.done());
    w.turn_until([&] { return first.handle.done(); });
    CHECK(body == "awaited" && w.guard.get({w.kind, "awaited"})->source == GUARD_FROM_CACHE);
    second.handle.destroy();
    w.slow.open();
    const task third = ask(w, "awaited", near), fourth = ask(w, "", refused), fifth = ask(w, "slow 2", body);
    CHECK(third.handle.done() && near == "awaited" && fourth.handle.done() && refused == "invalid");
    w.turn_until([&] { return fifth.handle.done(); });
    CHECK(body == "slow 2" && left == "untouched");
    for (const task &each : {first, third, fourth, fifth})
        each.handle.destroy();
    CHECK(std::as_bytes(std::span(body)).size() == w.guard.get({w.kind, "slow 2"}).take().bytes().size());
}
#endif

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    using namespace std::chrono;
    static_assert(stampede::ms(nanoseconds(1)) == 1 && stampede::ms(seconds(-1)) == 0, "rounds up");
    static_assert(stampede::ms(hours::max()) == UINT32_MAX - 1, "ends short of GUARD_POLICY_MS");
    static_assert(stampede::ms(milliseconds(UINT32_MAX - 1)) == UINT32_MAX - 1, "to the last one");
    guard_error error;
    stampede::settings wrong;
    wrong.name_space = "";
    CHECK(!stampede::guard::open(wrong, &error) && error.status == GUARD_INVALID);
    world w(argv[1]);
    blocking(w);
    moving(w);
    on_a_loop(w);
#if __cplusplus >= 202002L
    awaited(w);
#endif
}
