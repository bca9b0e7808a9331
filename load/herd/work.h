/* SPDX-License-Identifier: MIT */
/*
 * work.h - what a run asks of a service: targets, URLs, keys, and when.
 *
 *     burst   `connection_count` connections are opened, then all ask at the same instant; `round_count` times
 *     rate    `per_second` requests are due each second for `duration_ms`, whatever became of those before. Each
 *             takes a free connection, opens one if none is free, or waits if there are connection_count already
 *
 * Keys: a path may hold one {...} that a number takes the place of; it may be 0:
 *
 *     {7-900}            each number is as likely as any other
 *     {zipf:1-50000}     the lower the oftener: probability ~ 1/rank^0.99 ({zipf:1-50000:1.2}: another exponent)
 *     {each:1-2000}      one after the other, then again from the start
 *     {random}           any number from 1 to 2^31 - 1: ids that do not exist
 *     {@FILE}            a line of this file, be it a slug or a UUID; likewise {zipf:@FILE} and {each:@FILE}
 *
 * Or a script, alone and with `rate`: requests that are due at instants of their own, as a log has them. Its URL then
 * has the number of a request for its key.
 *
 * No I/O but for the names of hosts, which work_target_parse() looks up. Errors: false, and one line of text.
 */
#pragma once

#include "load/base/dice.h"
#include "load/base/net.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    WORK_TARGETS_MAX = 32,
    WORK_URLS_MAX = 32,
    WORK_PATH_BYTES = 512,
    WORK_WHY_BYTES = 256,
    WORK_METHOD_BYTES = 16,
    WORK_HEADERS_BYTES = 4096,
    WORK_VERSION_AFTER_BYTES = 64,
    WORK_CONNECTIONS_MAX = 60000,
    WORK_GENERATORS_MAX = 16,
    WORK_SOURCES_MAX = 254,
    WORK_REQUESTS_MAX = 50000000, /* a record of 40 bytes each */
    WORK_LIMIT_MS_MAX = 3600000,
};

struct work_target {
    char name[128]; /* host:port as given, for reports and the Host header */
    struct net_address address;
    bool is_tls;
};

enum work_keys { WORK_NO_KEY = 0, WORK_UNIFORM, WORK_ZIPF, WORK_EACH, WORK_RANDOM, WORK_SCRIPT };

/* Different requests, and when each is due. */
struct work_script {
    struct work_script_line {
        uint64_t at_us;   /* since the barrier; in order */
        uint32_t request; /* index */
    } * lines;
    size_t line_count;
    struct work_script_request {
        char *path;   /* shorter than WORK_PATH_BYTES */
        bool is_head; /* otherwise the method of the work */
    } * requests;
    size_t request_count;
};

/* Lines of a file: the keys of a URL or of writes. */
struct work_words {
    char *path, *text; /* owned; the lines lie in the text */
    char **at;         /* owned */
    size_t count;
};

/* Without empty lines; none may be longer than `room`, or hold a byte that a request cannot. Unfreed before. */
bool work_words_read(const char *path, size_t path_bytes, size_t room, struct work_words **out,
                     char why[static WORK_WHY_BYTES]);
/* Leaves NULL. Accepts NULL in *words. */
void work_words_free(struct work_words **words);

struct work_url {
    char path[WORK_PATH_BYTES]; /* with its {...} */
    size_t key_at, key_bytes;   /* where {...} stands in it */
    enum work_keys keys;
    uint32_t first, last;             /* both included; of words their numbers, from 0 */
    struct work_words *words;         /* owned by the work that it was added to; NULL: numbers */
    double exponent;                  /* of Zipf's law */
    uint32_t weight;                  /* 1 by default; its share of all requests is weight / sum of weights */
    int target;                       /* index; -1: the targets in turn */
    const struct work_script *script; /* of WORK_SCRIPT; lent */
};

enum work_shape { WORK_BURST = 0, WORK_RATE };

struct work {
    struct work_target targets[WORK_TARGETS_MAX];
    size_t target_count;
    struct work_url urls[WORK_URLS_MAX];
    size_t url_count;

    enum work_shape shape;
    uint32_t connection_count; /* burst: so many; rate: at most so many */
    uint32_t round_count;      /* burst */
    uint32_t pause_ms; /* burst: a round begins at the earliest so long after the end of the one before */
    uint32_t every_ms; /* burst: and so long after the begin of the one before */
    bool holds_rounds; /* burst: each begins when herd_next() says so */
    uint32_t per_second, duration_ms;
    bool is_poisson; /* rate: as many, but each at a random instant of the run; otherwise evenly spread */

    const char *method;  /* "GET"; lent */
    const char *headers; /* further lines, each with "\r\n"; ""; lent. A Host among them replaces ours */
    const char
        *ca_file;     /* of TLS: whom to trust instead of the system's authorities; "" or NULL: those; lent */
    bool is_insecure; /* of TLS: any certificate will do */
    bool keeps_alive; /* otherwise every request has a connection of its own */
    uint32_t connect_limit_ms;        /* of one connection; burst: of all before a round */
    uint32_t request_limit_ms;        /* from the instant at which the request was due */
    uint32_t leave_percent, leave_ms; /* so many clients hang up so long after their request */

    uint32_t generator_count; /* processes; 0: one for each core but at most 4 */
    uint32_t source_count;    /* to 127.x.x.x from 127.0.0.1, 127.0.0.2, ... in turn; 0: as many as needed */
    uint64_t seed;
    const char *version_after; /* in a body: a number follows this text; ""; lent */
};

/* Defaults: one burst of 1 000, keep-alive, limits of 10 s and 30 s. */
void work_init(struct work *work);

/* "host:port" or "[v6]:port"; without a port 80, with "https://" before it 443. "http://" may stand there, too. */
bool work_target_parse(const char *text, struct work_target *out, char why[static WORK_WHY_BYTES]);

/*
 * "/path", or "http://host:port/path", or https, which adds the target if it is new (without a path it is "/");
 * "weight N" may follow after a space.
 */
bool work_url_add(struct work *work, const char *text, char why[static WORK_WHY_BYTES]);

/* Frees the words of its URLs; copies of it are over by then. */
void work_clear(struct work *work);

/* Does it make sense as a whole? */
bool work_check(const struct work *work, char why[static WORK_WHY_BYTES]);

/* Writes why something is refused, of WORK_WHY_BYTES, and is false. */
__attribute__((format(printf, 2, 3))) bool work_wrong(char *why, const char *format, ...);

/* In place of all URLs and of the rate; lent until the work is done with. It has a line at least. */
void work_follow(struct work *work, const struct work_script *script);
/* NULL: there is none. */
const struct work_script *work_script(const struct work *work);

/* A Host is among its headers. */
bool work_names_host(const struct work *work);

/* How many requests it makes in all, exactly. */
uint64_t work_request_count(const struct work *work);

/* The share of all requests that goes to this target, 0 to 1. */
double work_target_share(const struct work *work, size_t target);

/* Part `index` of `count` as equal parts of a whole as integers can be. */
uint64_t work_part(uint64_t whole, uint32_t index, uint32_t count);

/* ---- choosing: deterministic for a seed ---- */

struct work_choice {
    uint16_t url;
    uint8_t target;
    uint32_t key; /* 0: the URL has none */
};

/* One per generator; together they go through all of {each:...}. */
struct work_chooser {
    const struct work *work;
    uint64_t random; /* state */
    uint32_t index, count;
    uint64_t turn;                     /* which target is next */
    uint64_t each_turn[WORK_URLS_MAX]; /* which of {each:...}, or line of a script, is next */
    uint64_t weight_sum;
    struct dice_zipf zipf[WORK_URLS_MAX];
};

/* The work is lent. */
void work_chooser_init(struct work_chooser *chooser, const struct work *work, uint32_t generator,
                       uint32_t generator_count);
struct work_choice work_choose(struct work_chooser *chooser);

/*
 * Which row a request is about, as `write` names them: its key or, where the path has none, the last whole number
 * among the segments of the path or, without any, among the values of its query. False: there is no number.
 */
bool work_row(const struct work_url *url, uint32_t key, uint32_t *row);

/* The path with its key, NUL-terminated; its length. It fits: work_check() saw to that. */
size_t work_path(const struct work_url *url, uint32_t key, char path[static WORK_PATH_BYTES]);
