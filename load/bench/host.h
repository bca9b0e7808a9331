/* SPDX-License-Identifier: MIT */
/*
 * host.h - a guard with one kind on an epoll loop of its own, without HTTP: what the library alone costs. It is never
 * closed: its process ends (bench_apart()).
 *
 * Threads: one. Errors: false, and the reason on stderr.
 */
#pragma once

#include "guard/adapters/epoll.h"

#include <stdbool.h>
#include <stdint.h>

typedef void host_ready(void *context);

struct host {
    struct guard *guard;
    struct guard_loop *loop;
    uint32_t asked, answered; /* so far */
    uint32_t good, loaded;    /* of those answered: with a value; one that was loaded for them */

    struct guard_kind *kind; /* private, like the rest */
    struct guard_epoll *ours;
    int epoll;
    host_ready *other;
    void *other_context;
};

/* With Redis at config->redis_url; a command may take a third of the policy's lease. */
bool host_open(struct host *host, struct guard_config config, const struct guard_policy *policy);

/* One more descriptor of the loop's; `ready` runs when it can be read. */
bool host_watch(struct host *host, int fd, host_ready *ready, void *context);

/* Asks for the key of this number. */
bool host_ask(struct host *host, uint32_t number);

/* Waits for something to happen, for a second at the most, and answers what can be answered. */
void host_turn(struct host *host);

/* Asks for so many keys from the first one on, `open` at a time; returns when all are answered. What was counted
 * before is forgotten. False: one could not be asked for, or was answered without a value. */
bool host_ask_all(struct host *host, uint32_t first, uint32_t count, uint32_t open);
