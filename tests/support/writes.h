/* SPDX-License-Identifier: MIT */
/*
 * writes.h - requests that change something, for tests on a fleet: alone, or many at one instant.
 *
 * Threads: those of writes_at_once() live within the call, that of writes_start() until writes_join(); everything
 * else on the test's.
 */
#pragma once

#include "tests/support/fleet.h"

#include <pthread.h>

enum { WRITES_AT_ONCE_MAX = 1200 };

/* fleet_up(), and a login for each role of the schema. */
bool writes_up(void); /* group */

/* Settings by which a process reads and writes with those rights, in front of `more` (ends with NULL); the limits of
 * a write are more than any machine takes, unless `more` names one of them. Lent until the next call. */
const char *const *writes_settings(const char *const *more);

struct write_asked {
    size_t process;
    const char *method, *path, *headers, *body; /* headers: further lines, or NULL */

    unsigned status; /* 0: no answer */
    bool visible;
    unsigned long version;         /* as the body says; 0: it does not */
    long stock;                    /* likewise; -1 */
    char retry_after[8], type[64]; /* type: of the problem, "" if it is none */
    pthread_t thread;              /* of writes_start() */
};

void writes_ask(struct write_asked *asked);
void writes_start(struct write_asked *asked); /* on a thread of its own */
void writes_join(struct write_asked *asked);  /* until it has its answer */
/* All of them, each on a thread and a connection of its own, sent when all are ready. */
void writes_at_once(struct write_asked *asked, size_t count);
size_t writes_count(const struct write_asked *asked, size_t count, unsigned status);

/* The line If-Match for the present document, if its row is of this version; another one matches nothing. */
enum { WRITES_CONDITION_BYTES = 128 };
void writes_condition(uint32_t id, unsigned long version, char out[static WRITES_CONDITION_BYTES]);

/* PUT of this stock under that condition; its status. */
unsigned writes_put(size_t process, uint32_t id, unsigned long version, long stock);

/* The version that this process shows of a product; 0: none. */
unsigned long writes_version(size_t process, uint32_t id);
/* Waits until it shows at least this one. */
bool writes_wait_version(size_t process, uint32_t id, unsigned long version);

/* The first column of the first row as a number. */
long writes_number(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Waits until the statement finds this number. */
bool writes_wait_number(long wanted, const char *statement);
