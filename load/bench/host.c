/* SPDX-License-Identifier: MIT */
/* host.c - see host.h. */
#include "load/bench/host.h"

#include <stdio.h>

enum { TURN_MS = 1000, KEY_BYTES = 16 };

static bool watch(const struct host *host, int fd, void *what)
{
    struct epoll_event event = {EPOLLIN, {.ptr = what}};
    return epoll_ctl(host->epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

bool host_open(struct host *host, struct guard_config config, const struct guard_policy *policy)
{
    struct guard_error error = {.text = ""};
    *host = (struct host){.epoll = epoll_create1(EPOLL_CLOEXEC)};
    config.redis_limit_ms = policy->lease_ms / 3;
    bool good = guard_open(&config, &host->guard, &error) == GUARD_OK &&
                guard_kind_add(host->guard, policy, &host->kind, &error) == GUARD_OK &&
                guard_epoll_attach(host->guard, &host->ours, &host->loop, &error) == GUARD_OK &&
                watch(host, host->ours->fd, host->ours);
    if (!good)
        fprintf(stderr, "bench: %s\n", error.text);
    return good;
}

bool host_watch(struct host *host, int fd, host_ready *ready, void *context)
{
    host->other = ready;
    host->other_context = context;
    return watch(host, fd, host);
}

void host_turn(struct host *host)
{
    struct epoll_event events[2];
    int may_ms =
        guard_epoll_before_wait(host->ours, TURN_MS); /* may answer: then nothing is to be waited for */
    int count = epoll_wait(host->epoll, events, 2, host->answered == host->asked ? 0 : may_ms);
    for (int i = 0; i < count; i++) {
        if (events[i].data.ptr == host)
            host->other(host->other_context);
        else
            guard_epoll_ready(host->ours);
    }
}

static void note_answer(void *context, const struct guard_result *result)
{
    struct host *host = context;
    host->answered++;
    host->good += result->status == GUARD_OK;
    host->loaded += result->status == GUARD_OK && result->source == GUARD_FROM_LOAD;
}

bool host_ask(struct host *host, uint32_t number)
{
    char key[KEY_BYTES];
    struct guard_result result;
    struct guard_request request = {
        .kind = host->kind, .key = key, .loop = host->loop, .answered = note_answer, .context = host};
    snprintf(key, sizeof key, "%u", (unsigned)number);
    host->asked++;
    enum guard_status status = guard_get(host->guard, &request, &result, NULL);
    if (status == GUARD_NOW) {
        note_answer(host, &result);
        guard_value_unref(&result.value);
    }
    return status == GUARD_OK || status == GUARD_NOW;
}

bool host_ask_all(struct host *host, uint32_t first, uint32_t count, uint32_t open)
{
    host->asked = host->answered = host->good = host->loaded = 0;
    while (host->answered < count) {
        while (host->asked < count && host->asked - host->answered < open)
            if (!host_ask(host, first + host->asked))
                return false;
        host_turn(host);
    }
    return host->good == count;
}
