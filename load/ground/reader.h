/* SPDX-License-Identifier: MIT */
/*
 * reader.h - follows GET /live of one process by a thread of its own: its samples, as they come.
 *
 * A process that is away is tried again a moment later; one that stands still is waited for.
 *
 * Threads: reader_open() and reader_close() from one, the others from any.
 */
#ifndef LOAD_GROUND_READER_H
#define LOAD_GROUND_READER_H

#include "load/base/ticker.h"

#include <jansson.h>
#include <pthread.h>
#include <stdint.h>

enum { READER_EVERY_MS = 250 };

struct reader {
    uint16_t port; /* of its operations listener */
    struct ticker ticker;
    pthread_mutex_t lock;
    json_t *
        about; /* owned; under lock, like the rest: what does not change, of the process that speaks; NULL: none yet */
    json_t *sample; /* owned; the last one; NULL: none yet */
    uint64_t sample_us;
};

/* False: no thread. */
bool reader_open(struct reader *reader, uint16_t port);
/* Accepts one that is all zeros. */
void reader_close(struct reader *reader);

/* Copies of the last sample and of what does not change; NULL: none. Both yours. *age_ms: how old it is. */
void reader_take(struct reader *reader, json_t **about, json_t **sample, uint64_t *age_ms);

#endif
