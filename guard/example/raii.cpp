/* SPDX-License-Identifier: MIT */
/*
 * raii.cpp - the guard in C++17: what is opened is closed, what is kept is given back, a loader is a function object.
 *
 *     raii [REDIS_URL]
 */
#include "guard.hpp"
#include <iostream>

int main(int argc, char **argv)
{
    using namespace std::chrono_literals;
    stampede::settings settings;
    stampede::policy policy;
    guard_error error;
    settings.name_space = "raii";
    if (argc > 1)
        settings.redis_url = argv[1];
    policy.fresh_ms = stampede::ms(10min);
    stampede::guard guard = stampede::guard::open(settings, &error);
    guard_kind *users = guard ? guard.add(
                                    policy,
                                    [](stampede::load &load) {
                                        if (load.key() == "user:7")
                                            load.done("hello user:7"); /* your query */
                                        else
                                            load.absent();
                                    },
                                    &error)
                              : nullptr;
    if (users == nullptr) {
        std::cerr << error.text << "\n";
        return 1;
    }
    const stampede::answer found = guard.get({users, "user:7"});
    const bool other = guard.get({users, "user:8"}).status() != GUARD_ABSENT;
    std::cout << found.body() << ", " << (other ? "and more" : "and no other") << "\n";
}
