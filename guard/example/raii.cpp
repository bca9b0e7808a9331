/* SPDX-License-Identifier: MIT */
/*
 * raii.cpp - the guard in C++17: what is opened is closed, what is kept is given back, a loader is a function object, and
 * no exception crosses the guard.
 *
 *     raii [REDIS_URL]
 */
#include "guard.h"
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

static const guard_config config_defaults = GUARD_CONFIG_DEFAULTS;
static const guard_policy policy_defaults = GUARD_POLICY_DEFAULTS;

struct GiveBack {
    void operator()(const guard_value *value) const
    {
        guard_value_unref(&value);
    }
    void operator()(guard *opened) const
    {
        guard_close(&opened, 1000);
    }
};
using Value = std::unique_ptr<const guard_value, GiveBack>;
using Guard = std::unique_ptr<guard, GiveBack>;

/* No row: std::nullopt. An exception: the load failed. */
using Loader = std::function<std::optional<std::string>(const std::string &key)>;

static void load(guard_load *running, void *loader) noexcept
{
    try {
        const auto row = (*static_cast<Loader *>(loader))(guard_load_key(running));
        row ? guard_load_done(running, row->data(), row->size(), nullptr) : guard_load_absent(running);
    } catch (const std::exception &) {
        guard_load_fail(running, GUARD_FAILURE_UNAVAILABLE);
    }
}

static Guard open(const guard_config &config)
{
    guard *opened = nullptr;
    guard_error error;
    if (guard_open(&config, &opened, &error) != GUARD_OK)
        throw std::runtime_error(error.text);
    return Guard(opened);
}

/* The loader outlives the guard. */
static guard_kind *add_kind(const Guard &guard, guard_policy policy, Loader &loader)
{
    guard_kind *kind = nullptr;
    guard_error error;
    policy.loader = load;
    policy.context = &loader;
    if (guard_kind_add(guard.get(), &policy, &kind, &error) != GUARD_OK)
        throw std::runtime_error(error.text);
    return kind;
}

/* nullptr: no such row. */
static Value get(const Guard &guard, guard_kind *kind, const std::string &key)
{
    guard_request request = {};
    guard_result result;
    request.kind = kind;
    request.key = key.c_str();
    guard_get_wait(guard.get(), &request, &result);
    if (result.status != GUARD_OK && result.status != GUARD_ABSENT)
        throw std::runtime_error(guard_status_name(result.status));
    return Value(result.value);
}

int main(int argc, char **argv)
{
    Loader users = [](const std::string &key) {
        return key == "user:7" ? std::optional("hello " + key) : std::nullopt;
    };
    guard_config config = config_defaults;
    config.name_space = "raii";
    if (argc > 1)
        config.redis_url = argv[1];
    const Guard guard = open(config);
    guard_kind *kind = add_kind(guard, policy_defaults, users);
    const Value found = get(guard, kind, "user:7");
    std::cout << found->body << ", " << (get(guard, kind, "user:8") ? "and more" : "and no other") << "\n";
}
