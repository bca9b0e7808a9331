/* SPDX-License-Identifier: MIT */
/*
 * work.h - what a run asks of a service: targets, URLs, keys, and when.
 *
 *     burst   `connection_count` connections are opened, then all ask at the same instant; `round_count` times
 *     rate    `per_second` requests are due each second for `duration_ms`, whatever became of those before
 *
 * Keys: a path may hold one {...} that a number takes the place of:
 *
 *     {7-900}            each number is as likely as any other
 *     {zipf:1-50000}     the lower the oftener: probability ~ 1/rank^0.99 ({zipf:1-50000:1.2}: another exponent)
 *     {each:1-2000}      one after the other, then again from the start
 *     {random}           any number of 31 bits: ids that do not exist
 *
 * No I/O but for the names of hosts, which work_target_parse() looks up. Errors: false, and one line of text.
 */
#ifndef LOAD_WORK_H
#define LOAD_WORK_H

#include "load/net.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    WORK_TARGETS_MAX = 32,
    WORK_URLS_MAX = 32,
    WORK_PATH_BYTES = 512,
    WORK_WHY_BYTES = 256,
    WORK_CONNECTIONS_MAX = 60000,
    WORK_GENERATORS_MAX = 16,
};

struct work_target {
    char name[128]; /* host:port as given, for reports and the Host header */
    struct net_address address;
};

enum work_keys { WORK_NO_KEY = 0, WORK_UNIFORM, WORK_ZIPF, WORK_EACH, WORK_RANDOM };

struct work_url {
    char path[WORK_PATH_BYTES]; /* with its {...} */
    size_t key_at, key_bytes;   /* where {...} stands in it */
    enum work_keys keys;
    uint32_t first, last; /* both included */
    double exponent;      /* of Zipf's law */
    uint32_t weight;      /* 1 unless told; its share of all requests is weight / sum of weights */
    int target;           /* index; -1: the targets in turn */
};

enum work_shape { WORK_BURST = 0, WORK_RATE };

struct work {
    struct work_target targets[WORK_TARGETS_MAX];
    size_t target_count;
    struct work_url urls[WORK_URLS_MAX];
    size_t url_count;

    enum work_shape shape;
    uint32_t connection_count;      /* burst: so many; rate: at most so many */
    uint32_t round_count, pause_ms; /* burst: and the pause between rounds */
    uint32_t per_second, duration_ms;
    bool is_poisson; /* rate: arrivals at random instants; otherwise evenly spread */

    const char *method;  /* "GET"; lent */
    const char *headers; /* further lines, each with "\r\n"; ""; lent */
    bool keeps_alive;    /* otherwise every request has a connection of its own */
    uint32_t connect_limit_ms, request_limit_ms;
    uint32_t leave_percent, leave_ms; /* so many clients hang up so long after their request */

    uint32_t generator_count; /* processes; 0: one for each core but at most 4 */
    uint32_t source_count;    /* 127.0.0.1, 127.0.0.2, ... are used in turn; 0: as many as needed */
    uint64_t seed;
    const char *version_after; /* in a body: a number follows this text; ""; lent */
};

/* What is not told: one burst of 1 000, keep-alive, limits of 10 s and 30 s. */
void work_init(struct work *work);

/* "host:port" or "[v6]:port"; "http://" before it is accepted, "https://" refused in words. */
bool work_target_parse(const char *text, struct work_target *out, char why[static WORK_WHY_BYTES]);

/*
 * "/path", or "http://host:port/path", which adds the target if it is new; "weight N" may follow after a space.
 */
bool work_url_add(struct work *work, const char *text, char why[static WORK_WHY_BYTES]);

/* Does it make sense as a whole? */
bool work_check(const struct work *work, char why[static WORK_WHY_BYTES]);

/* How many requests it makes in all. */
uint64_t work_request_count(const struct work *work);

/* ---- choosing: deterministic for a seed ---- */

struct work_choice {
    uint16_t url;
    uint8_t target;
    uint32_t key; /* 0: the URL has none */
};

/*
 * One per generator. Zipf is drawn by rejection-inversion (Hoermann and Derflinger, ACM TOMACS 1996), so that
 * nothing grows with the range.
 */
struct work_chooser {
    const struct work *work;
    uint64_t random; /* state */
    uint64_t turn;   /* of this generator: which target and which {each:...} is next */
    uint32_t first_turn, turn_step;
};

void work_chooser_init(struct work_chooser *chooser, const struct work *work, uint32_t generator,
                       uint32_t generator_count);
struct work_choice work_choose(struct work_chooser *chooser);

/* The path with its key; false: it does not fit. */
bool work_path(const struct work_url *url, uint32_t key, char path[static WORK_PATH_BYTES]);

#endif
