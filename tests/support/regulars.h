/* SPDX-License-Identifier: MIT */
/*
 * regulars.h - clients that come again and again, each on a connection that it keeps, and what happened to them.
 *
 * Each is a thread: it asks, reads the whole answer, and asks again on the same connection until that ends: because
 * the answer said so, or because it hangs up itself, which it does after some requests. Some pause between two
 * requests, so that at every instant there are idle connections on which a request is about to be sent. Products are
 * asked for in order, each by several, so each is cold once.
 *
 * A client whose connection is refused gives up. One that sends on a kept-alive connection and hears nothing might
 * repeat a GET; these do not, they count it.
 *
 * Threads: all functions from one.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { REGULARS = 12, REGULARS_PER_PRODUCT = 50 };

struct regulars_score {
    uint64_t answers;    /* with status 200 */
    uint64_t others;     /* with another */
    uint64_t kept;       /* of the answers: on a connection that had one before */
    uint64_t last;       /* of the answers: with Connection: close */
    uint64_t refused;    /* connections */
    uint64_t reset;      /* requests sent, then RST */
    uint64_t unanswered; /* requests sent, then the end, or half an answer */
    uint64_t late;       /* requests sent, and nothing for half a minute */
    uint32_t products;   /* different ones asked for */
};

/* At this port of 127.0.0.1, from this product on. One set at a time. */
bool regulars_start(uint16_t port, uint32_t first_product);
void regulars_score(struct regulars_score *out);
/* Until so many more answers have come, or a client met one of the failures, or half a minute is over. */
void regulars_wait_answers(uint64_t more);
void regulars_stop(struct regulars_score *out);
/* Once the last of them was refused, instead. */
void regulars_wait_refused(struct regulars_score *out);
