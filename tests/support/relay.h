/* SPDX-License-Identifier: MIT */
/*
 * relay.h - stands between one process and its Redis, passes every byte on, and can hold some back.
 *
 *     PASS            whatever comes goes on
 *     HOLD_REQUESTS   a request with the text in it, and all that follows on its connection, waits here
 *     HOLD_REPLIES    such a request goes on, but what Redis says on that connection from then on waits here
 *
 * So a test can put an event of another process between a command and its execution, or between its execution
 * and its reply, without knowing how long anything takes. relay_pass() lets go of everything, in order.
 *
 * Threads: the relay has one of its own; the functions are for one other thread.
 * Errors: false, and the reason on stderr.
 */
#ifndef TESTS_SUPPORT_RELAY_H
#define TESTS_SUPPORT_RELAY_H

#include <stdbool.h>
#include <stdint.h>

enum relay_mode { RELAY_PASS = 0, RELAY_HOLD_REQUESTS, RELAY_HOLD_REPLIES };

struct relay;

/* Listens on a free port of 127.0.0.1 for connections to target_port there. */
bool relay_open(uint16_t target_port, struct relay **out);
uint16_t relay_port(const struct relay *relay);

/* From now on, on connections old and new; `text` is lent until the next call or relay_close(). */
void relay_hold(struct relay *relay, enum relay_mode mode, const char *text);
void relay_pass(struct relay *relay);

/* Waits until so many connections are held at the same time; false after limit_ms. */
bool relay_wait_held(struct relay *relay, uint32_t wanted, uint32_t limit_ms);

/* Hangs up on both sides. Leaves NULL. */
void relay_close(struct relay **relay);

#endif
