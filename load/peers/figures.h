/* SPDX-License-Identifier: MIT */
/*
 * figures.h - the figures of the comparison, and which peer is better in one.
 *
 * A figure has a sample for each repetition; its median stands for it. Two peers are equal in a figure when their
 * medians are equal as printed; they are too close to tell when their samples overlap.
 *
 * No I/O, no clock. Threads: any.
 */
#ifndef LOAD_PEERS_FIGURES_H
#define LOAD_PEERS_FIGURES_H

#include "load/herd/record.h"
#include "load/report/samples.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SCORE_STATUSES = 600, SCORE_STRAIN_BYTES = 320 };

enum figure {
    FIGURE_ORIGIN_CALLS = 0,
    FIGURE_CALLS_PER_EXPIRY,
    FIGURE_GOOD, /* answered with 200 and the origin's body, in percent of those asked */
    FIGURE_P50,  /* milliseconds, of those answered */
    FIGURE_P99,
    FIGURE_P999,
    FIGURE_MAX,
    FIGURE_RATE,      /* answers a second */
    FIGURE_CPU,       /* of the peer's processes and of Redis, microseconds for each request */
    FIGURE_REDIS,     /* how much of it is Redis's; only of peers that use it */
    FIGURE_FULL_RATE, /* as many as go: answers a second of one instance, and what each costs */
    FIGURE_FULL_CPU,
    FIGURE_FULL_REDIS,
    FIGURE_COUNT
};

enum direction { LOWER_IS_BETTER = 0, HIGHER_IS_BETTER, NEITHER_IS_BETTER };

struct figure_text {
    const char *key;  /* in JSON */
    const char *name; /* of its row */
    const char *unit;
    unsigned decimals;
    enum direction direction;
    bool is_decisive; /* its smallest and largest sample are printed, too */
};

const struct figure_text *figure_text(enum figure figure);

/* What one peer did in one contest; the counts are over all repetitions. */
struct score {
    struct samples figures[FIGURE_COUNT];
    uint64_t asked;
    uint64_t statuses[SCORE_STATUSES];
    uint64_t unanswered[RECORD_OUTCOMES];
    uint64_t wrong_bodies;           /* 200 with another body than the origin's */
    uint32_t strained_count;         /* repetitions in which the generator may have been the bottleneck ... */
    char strain[SCORE_STRAIN_BYTES]; /* ... and how, the last time */
};

enum { FIGURE_SENTENCE_BYTES = 512, FIGURE_PEERS_MAX = 16 };

/* One row: the peers that have this figure. */
struct figure_row {
    enum figure figure;
    const char *names[FIGURE_PEERS_MAX];
    const struct samples *samples[FIGURE_PEERS_MAX];
    size_t count;
    const char *ours; /* the name of ours */
};

/* The best one's name, "a, b" when they are equal as printed; "all" when every peer is; "" where neither direction
 * is better, and then there is no sentence either. */
void figure_best(const struct figure_row *row, char *text, size_t text_bytes);

/*
 * In words: which is best and by how much, and every peer that is better than ours with its numbers, so that the
 * table need not be read for it.
 */
void figure_sentence(const struct figure_row *row, char *text, size_t text_bytes);

#endif
