/* SPDX-License-Identifier: MIT */
/*
 * guard.hpp - the guard in C++17, in one header; C++20 can await an answer. All of guard.h holds. In short, for C++:
 *
 *     stampede::guard guard = stampede::guard::open(settings, &error);               false: `error` says why
 *     guard_kind *users = guard.add(policy, [](stampede::load &load) { load.done(query(load.key())); });
 *     stampede::answer answer = guard.get({users, "user:7"});                        blocks
 *     stampede::pending asked = guard.get(loop, {users, "user:7"}, [](stampede::answer answer) { ... });
 *     stampede::answer awaited = co_await guard.get(loop, {users, "user:7"});        resumes on the loop
 *
 *  1. Settings, policies and requests are the structs of guard.h, filled in: fields keep name and meaning. A span
 *     goes in by ms(), as in policy.fresh_ms = ms(10min), which rounds up, and comes out as milliseconds. What has no
 *     name here is called with c().
 *  2. Nothing here throws, but for want of memory: a false handle, a null kind, a status say what failed, and why. As
 *     of a null pointer, nothing else is asked of a false handle, or of one that was moved from.
 *  3. What a loader throws fails its load as INTERNAL; the log names the key. After its verdict that stands, and the
 *     log says that there was a second. So catch what you know: it is a load.fail(GUARD_FAILURE_UNAVAILABLE).
 *  4. An exception out of any other callback is std::terminate(), and of a plain function in a C field undefined.
 *  5. Loaders run at once on several threads: their function object is shared, lives until the guard is closed, or
 *     for ever if close() is TIMEOUT, and must not end the thread. Destructors of its captures run on any thread.
 *  6. A guard closes when it goes, which blocks: after all its loops are detached, and not in a callback or a loader.
 *  7. A loop has no handle, because it runs on until it is detached: an adapter attaches it, detach() ends it.
 *  8. A `pending` and an awaited get belong to the thread of their loop. Destroyed while they wait, the callback or
 *     coroutine will not be called; on another thread that is std::terminate(). A callback may destroy its `pending`.
 *  9. Of a get on a loop, now() has an answer from memory, or what refused it: then there is no callback.
 * 10. A string_view is copied before a call returns, or when a get is awaited. What answer.body() views lives as long
 *     as the answer, or a value taken of it.
 */
#ifndef GUARD_HPP
#define GUARD_HPP

#include "guard.h"
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#if __cplusplus >= 202002L
#include <coroutine>
#include <cstddef>
#include <span>
#endif

namespace stampede
{

using milliseconds = std::chrono::milliseconds;

/* For a field of guard.h. Of nothing, or less, it is 0, which is the default in some. No span is GUARD_POLICY_MS,
 * which is none. As double, in which hours::max() has room. */
template <class Rep, class Period> constexpr uint32_t ms(std::chrono::duration<Rep, Period> span)
{
    const double exact = std::chrono::duration<double, std::milli>(span).count();
    if (!(exact > 0))
        return 0;
    if (exact > UINT32_MAX - 1)
        return UINT32_MAX - 1;
    const auto whole = static_cast<uint32_t>(exact);
    return whole < exact ? whole + 1 : whole;
}

/* An empty view may be null, and 0 bytes mean a string that ends with 0. */
constexpr const char *start_of(std::string_view text)
{
    return text.empty() ? "" : text.data();
}

inline guard_config default_settings()
{
    guard_config config = GUARD_CONFIG_DEFAULTS;
    return config;
}

inline guard_policy default_policy()
{
    guard_policy policy = GUARD_POLICY_DEFAULTS;
    return policy;
}

struct settings : guard_config {
    settings() : guard_config(default_settings()) {}
};

struct policy : guard_policy {
    policy() : guard_policy(default_policy()) {}
};

/* Of one key. */
struct request : guard_request {
    request(guard_kind *of, std::string_view name) : guard_request()
    {
        kind = of;
        key = start_of(name);
        key_bytes = name.size();
    }

  private: /* what a get sets itself, or has one answer for */
    using guard_request::answered, guard_request::context, guard_request::loop;
    using guard_request::count, guard_request::keys, guard_request::keys_bytes;
};

/* Several keys or tags, as guard.h takes them. */
struct names {
    std::vector<const char *> starts;
    std::vector<size_t> bytes;
    void add(std::string_view name)
    {
        starts.push_back(start_of(name));
        bytes.push_back(name.size());
    }
};

/* change().key("user:7").key("user:8").tag("all") is one round trip. Views are lent until then. */
class change
{
    friend class guard;
    names keys, tags;
    guard_change all() const
    {
        guard_change all{};
        all.deadline_ms = deadline_ms;
        all.keys = keys.starts.data();
        all.keys_count = keys.starts.size();
        all.keys_bytes = keys.bytes.data();
        all.tags = tags.starts.data();
        all.tags_count = tags.starts.size();
        all.tags_bytes = tags.bytes.data();
        return all;
    }

  public:
    uint32_t deadline_ms = 0;
    change &key(std::string_view name)
    {
        keys.add(name);
        return *this;
    }
    change &tag(std::string_view name)
    {
        tags.add(name);
        return *this;
    }
};

/* One reference. */
class value
{
    struct unref {
        void operator()(const guard_value *last) const { guard_value_unref(&last); }
    };
    std::unique_ptr<const guard_value, unref> held;

  public:
    value() = default;
    explicit value(const guard_value *yours) : held(yours) {}
    explicit operator bool() const { return held != nullptr; }
    value another() const { return value(held ? guard_value_ref(held.get()) : nullptr); }
    std::string_view body() const
    {
        return held ? std::string_view(held->body, held->body_bytes) : std::string_view();
    }
    std::string_view meta() const
    {
        return held ? std::string_view(held->meta, held->meta_bytes) : std::string_view();
    }
    std::string_view validator() const { return held ? held->validator : ""; }
#if __cplusplus >= 202002L
    std::span<const std::byte> bytes() const
    {
        return std::as_bytes(std::span(body()));
    }
#endif
};

/* True: there is a value. Every field of guard_result by ->, spans and the value also as what they are in C++. */
class answer
{
    guard_result told{};
    value found;

  public:
    answer() = default;
    explicit answer(guard_status refused) { told.status = refused; }
    answer(const guard_result &result, value yours) : told(result), found(std::move(yours)) {}
    explicit operator bool() const { return told.status == GUARD_OK && found; }
    const guard_result *operator->() const { return &told; }
    guard_status status() const { return told.status; }
    std::string_view body() const { return found.body(); }
    std::string_view meta() const { return found.meta(); }
    value take()
    {
        told.value = nullptr;
        return std::move(found);
    }
    milliseconds age() const { return milliseconds(told.age_ms); }
    milliseconds left() const { return milliseconds(told.left_ms); }
    milliseconds retry() const { return milliseconds(told.retry_ms); }
};

/* A load and its verdict: the first of done(), absent(), unchanged() and fail(). */
class verdict
{
  protected:
    guard_load *running;
    bool over = false; /* finished, or another's to finish */
    explicit verdict(guard_load *load) : running(load) {}
    guard_status settle(guard_status said)
    {
        over = true;
        return said;
    }

  public:
    guard_status meta(std::string_view beside)
    {
        return guard_load_meta(running, start_of(beside), beside.size());
    }
    guard_status done(std::string_view body, const char *validator = nullptr)
    {
        return settle(guard_load_done(running, start_of(body), body.size(), validator));
    }
    guard_status absent() { return settle(guard_load_absent(running)); }
    guard_status unchanged() { return settle(guard_load_unchanged(running)); }
    guard_status fail(guard_failure why) { return settle(guard_load_fail(running, why)); }
    bool cancelled() const { return guard_load_cancelled(running); }
    int cancel_fd() const { return guard_load_cancel_fd(running); }
    milliseconds left() const { return milliseconds(guard_load_left_ms(running)); }
    guard_load *c() const { return running; }
};

/* A deferred load. Goes unfinished: it fails as INTERNAL. */
class deferred : public verdict
{
  public:
    explicit deferred(guard_load *load) : verdict(load) { over = load == nullptr; }
    deferred(deferred &&other) noexcept : verdict(std::exchange(other.running, nullptr))
    {
        over = std::exchange(other.over, true);
    }
    deferred &operator=(deferred other) noexcept
    {
        std::swap(running, other.running);
        std::swap(over, other.over);
        return *this;
    }
    ~deferred()
    {
        if (!over)
            fail(GUARD_FAILURE_INTERNAL);
    }
    explicit operator bool() const { return running != nullptr; }
};

/* What a loader gets; lent until it returns. For each load of a batch make one of your own. */
class load : public verdict
{
  public:
    explicit load(guard_load *one) : verdict(one) {}
    load(const load &) = delete;
    load &operator=(const load &) = delete;
    std::string_view key() const { return guard_load_key(running); }
    const char *previous_validator() const { return guard_load_previous_validator(running); }
    template <class Asker> Asker *asker() const { return static_cast<Asker *>(guard_load_asker(running)); }
    guard_status tag(std::string_view name)
    {
        return guard_load_tag_of(running, start_of(name), name.size());
    }
    guard_status keep(const guard_keep &how) { return guard_load_keep(running, &how); }
    answer get(const request &nested)
    {
        guard_result result;
        guard_load_get(running, &nested, &result);
        return answer(result, value(result.value));
    }
    /* False: not deferred, as guard_load_defer() says, and still to be finished here. It ends by cancelled(). */
    deferred defer(guard_loop *loop = nullptr)
    {
        if (guard_load_defer(running, loop, nullptr, nullptr) != GUARD_OK)
            return deferred(nullptr);
        over = true;
        return deferred(running);
    }
    /* Left unfinished, it fails, and the log says so. */
    void threw()
    {
        if (over)
            fail(GUARD_FAILURE_INTERNAL);
    }
};

template <class Run, class Threw> void call_loader(Run run, Threw threw) noexcept
{
#ifdef __cpp_exceptions
    try {
        run();
    } catch (...) {
        threw();
    }
#else
    (void)threw;
    run();
#endif
}

/* One get on a loop, which is forgotten if it goes before its answer. */
class asking
{
    ::guard *asked = nullptr;
    guard_loop *loop = nullptr;
    guard_ticket ticket = 0; /* 0: does not wait */
    static void told(void *context, const guard_result *results) noexcept
    {
        asking *self = static_cast<asking *>(context);
        self->ticket = 0;
        if (results->value != nullptr)
            guard_value_ref(results->value);
        self->answered(answer(*results, value(results->value)));
    }

  protected:
    virtual void answered(answer &&) noexcept = 0; /* may destroy this */

  public:
    asking() = default;
    asking(const asking &) = delete;
    asking &operator=(const asking &) = delete;
    virtual ~asking()
    {
        if (ticket != 0 && guard_forget(asked, loop, ticket) != GUARD_OK)
            std::terminate();
    }
    /* Not OK: `now` is all the answer there will be. */
    guard_status start(::guard *of, guard_loop *on, guard_request wanted, answer &now)
    {
        guard_result result{};
        asked = of;
        wanted.loop = loop = on;
        wanted.answered = told;
        wanted.context = this;
        guard_status status = on != nullptr ? guard_get(of, &wanted, &result, &ticket) : GUARD_INVALID;
        if (status != GUARD_OK)
            ticket = 0;
        if (status == GUARD_NOW)
            now = answer(result, value(result.value));
        else if (status != GUARD_OK)
            now = answer(status);
        return status;
    }
};

/* Forgets what it asked for when it goes. */
class pending
{
    friend class guard;
    template <class Callback> struct call final : asking {
        Callback callback;
        explicit call(Callback given) : callback(std::move(given)) {}
        void answered(answer &&result) noexcept override
        {
            Callback last = std::move(callback);
            last(std::move(result));
        }
    };
    std::unique_ptr<asking> asked;
    answer first;

  public:
    answer *now() { return asked ? nullptr : &first; } /* nullptr: the callback has it, or will */
};

#if __cplusplus >= 202002L
class awaited final : asking
{
    ::guard *of;
    guard_loop *on;
    request wanted;
    answer got;
    std::coroutine_handle<> waiting;
    void answered(answer &&result) noexcept override
    {
        got = std::move(result);
        waiting.resume();
    }

  public:
    awaited(::guard *opened, guard_loop *its, const request &given) : of(opened), on(its), wanted(given) {}
    bool await_ready() const { return false; }
    bool await_suspend(std::coroutine_handle<> coroutine)
    {
        waiting = coroutine;
        return start(of, on, wanted, got) == GUARD_OK;
    }
    answer await_resume() { return std::move(got); }
};
#endif

class guard
{
    using owned = std::unique_ptr<void, void (*)(void *)>;
    struct owned_loaders {
        std::mutex adding;
        std::vector<owned> all;
    };
    ::guard *opened = nullptr;
    std::unique_ptr<owned_loaders> loaders;

    /* `kept` has the loader first, then the batch loader, if there is one. */
    template <class Kept>
    guard_kind *add_kept(guard_policy policy, std::unique_ptr<Kept> kept, guard_error *error)
    {
        guard_kind *kind = nullptr;
        policy.context = kept.get();
        policy.loader = [](guard_load *one, void *context) noexcept {
            load running(one);
            call_loader([&] { static_cast<Kept *>(context)->first(running); }, [&] { running.threw(); });
        };
        if constexpr (!std::is_same_v<decltype(kept->second), std::nullptr_t>)
            policy.batch_loader = [](guard_load *const *loads, size_t count, void *context) noexcept {
                call_loader([&] { static_cast<Kept *>(context)->second(loads, count); }, [] {});
            };
        const std::lock_guard<std::mutex> adding(loaders->adding);
        if (guard_kind_add(opened, &policy, &kind, error) == GUARD_OK)
            loaders->all.emplace_back(kept.release(), [](void *old) { delete static_cast<Kept *>(old); });
        return kind;
    }
    template <class How> guard_invalidated changed(How how, const change &what) const
    {
        const guard_change all = what.all();
        guard_invalidated result;
        how(opened, &all, &result);
        return result;
    }

  public:
    guard() = default;
    guard(guard &&other) noexcept
        : opened(std::exchange(other.opened, nullptr)), loaders(std::move(other.loaders))
    {
    }
    guard &operator=(guard other) noexcept
    {
        std::swap(opened, other.opened);
        std::swap(loaders, other.loaders);
        return *this;
    }
    ~guard()
    {
        if (close() == GUARD_INVALID) /* in a callback: it goes on, and needs its loaders */
            (void)loaders.release();
    }
    static guard open(const guard_config &settings, guard_error *error = nullptr)
    {
        guard fresh;
        fresh.loaders = std::make_unique<owned_loaders>();
        guard_open(&settings, &fresh.opened, error);
        return fresh;
    }
    guard_status close(milliseconds drain = std::chrono::seconds(1))
    {
        if (opened == nullptr)
            return GUARD_OK;
        guard_status status = guard_close(&opened, ms(drain));
        if (status == GUARD_TIMEOUT) /* a loader still runs */
            (void)loaders.release();
        else if (opened == nullptr)
            loaders.reset();
        return status;
    }
    explicit operator bool() const { return opened != nullptr; }
    ::guard *c() const { return opened; }

    /* The kind lives until the guard is closed. */
    template <class Loader>
    guard_kind *add(const guard_policy &policy, Loader &&loader, guard_error *error = nullptr)
    {
        return add_batch(policy, std::forward<Loader>(loader), nullptr, error);
    }
    /* batch(guard_load *const *loads, size_t count) */
    template <class Loader, class Batch>
    guard_kind *add_batch(const guard_policy &policy, Loader &&loader, Batch &&batch,
                          guard_error *error = nullptr)
    {
        using both = std::pair<std::decay_t<Loader>, std::decay_t<Batch>>;
        return add_kept(
            policy, std::make_unique<both>(std::forward<Loader>(loader), std::forward<Batch>(batch)), error);
    }

    answer get(const request &wanted) const
    {
        guard_result result;
        guard_get_wait(opened, &wanted, &result);
        return answer(result, value(result.value));
    }
    /* An answer for each: see "many keys at once" in advanced.h. */
    std::vector<answer> get(guard_kind *kind, const std::vector<std::string_view> &keys,
                            uint32_t deadline_ms = 0) const
    {
        names named;
        for (const std::string_view key : keys)
            named.add(key);
        guard_result refused{}; /* of too many keys, the first ones alone are told so */
        refused.status = GUARD_INVALID;
        std::vector<guard_result> results(keys.size(), refused);
        guard_request wanted{};
        wanted.kind = kind;
        wanted.keys = named.starts.data();
        wanted.keys_bytes = named.bytes.data();
        wanted.count = keys.size();
        wanted.deadline_ms = deadline_ms;
        std::vector<answer> answers;
        answers.reserve(results.size());
        guard_get_wait(opened, &wanted, results.data());
        for (const guard_result &result : results)
            answers.emplace_back(result, value(result.value));
        return answers;
    }
    template <class Callback>
    [[nodiscard]] pending get(guard_loop *loop, const request &wanted, Callback &&callback) const
    {
        pending handle;
        handle.asked =
            std::make_unique<pending::call<std::decay_t<Callback>>>(std::forward<Callback>(callback));
        if (handle.asked->start(opened, loop, wanted, handle.first) != GUARD_OK)
            handle.asked.reset();
        return handle;
    }
#if __cplusplus >= 202002L
    [[nodiscard]] awaited get(guard_loop *loop, const request &wanted) const
    {
        return awaited(opened, loop, wanted);
    }
#endif
    /* UNKNOWN: do it again. Both block. */
    [[nodiscard]] guard_invalidated invalidate(const change &what) const
    {
        return changed(guard_invalidate_wait, what);
    }
    [[nodiscard]] guard_invalidated expire(const change &what) const
    {
        return changed(guard_expire_wait, what);
    }
};

/* The loop runs on until `detached` was called, on its thread. */
template <class Detached> void detach(guard_loop *&loop, Detached &&detached)
{
    using call = std::decay_t<Detached>;
    guard_loop_detach(
        &loop,
        [](void *context) noexcept {
            std::unique_ptr<call> last(static_cast<call *>(context));
            (*last)();
        },
        new call(std::forward<Detached>(detached)));
}

} // namespace stampede

#endif
