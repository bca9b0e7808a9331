/* SPDX-License-Identifier: MIT */
/*
 * cache_gate.h - may a load be stored? Only in a cache that was registered when its query began.
 *
 * A debt (a row of `invalidations`) is deleted once every registered cache has confirmed it. A cache that registers
 * later must hold nothing older: so its loads begin after its registration was committed, and see what was committed
 * before. Without the gate a load could read the old row, all others confirm the change and its debt go, and only
 * then the cache register: it would serve the old row, and no debt would tell it.
 *
 *     registered, or said to be in use             gate_ms                    life_ms
 *         |------------- loads are stored -----------|--- the last of them die --| slack | may be dropped
 *         silence_ms: all of it
 *
 * The time runs from before the statement was sent that said so, on CLOCK_BOOTTIME: also in a process that is
 * stopped, and on a machine that sleeps. A load that began in time may be stored max_hold_ms later, not after; its
 * lease ensures that. The lease also ensures that the load is stored in the Redis that was asked, or nowhere if
 * another one answers now.
 *
 * A longer life is announced first, like a registration, and used when that is committed; a shorter one is not
 * announced, because what is stored lives on.
 *
 * Where writes are off there is no gate: the process does not register, does not know whether another one pays for
 * its cache, and an entry may be old for as long as it lives. In mode shadow no request is answered from what is
 * stored.
 *
 * Threads: any.
 */
#pragma once

#include "app/base/settings.h"
#include "guard/guard.h"

#include <pthread.h>
#include <stdatomic.h>

enum { CACHE_LABEL_BYTES = 256 };

struct cache_gate {
    /* constant */
    struct guard *guard; /* lent */
    bool is_gated;
    char label[CACHE_LABEL_BYTES]; /* "NAMESPACE in HOST:PORT/DB": no secrets */
    uint64_t beat_ms, gate_ms;

    pthread_mutex_t lock;
    pthread_cond_t said;
    uint64_t silence_ms,
        said_ms; /* under lock, with all that follows: to be announced; announced the last time */
    char registered[GUARD_CACHE_ID_BYTES + 1]; /* "": none */
    uint64_t until_ms;
    _Atomic uint64_t unstored;
};

void cache_gate_init(struct cache_gate *gate, const struct settings *settings, struct guard *guard);
void cache_gate_clear(struct cache_gate *gate);

/* This guard uses this cache now. */
bool cache_gate_is_cache(struct guard *guard, const char *id);
/* What is to be announced; *is_news: it is more than was announced the last time. */
uint64_t cache_gate_silence_ms(struct cache_gate *gate, bool *is_news);
/* The registration of this cache with this silence was committed; the statement was not sent before since_ms of
 * clock_boot_ms(). */
void cache_gate_registered(struct cache_gate *gate, const char *id, uint64_t silence_ms, uint64_t since_ms);
/* From now on entries may live as these settings say. False: that was not announced within limit_ms, so they must
 * not. */
bool cache_gate_set_life(struct cache_gate *gate, const struct settings *settings, uint32_t limit_ms);
/* The cache in use is registered. Ask before the query. */
bool cache_gate_is_open(struct cache_gate *gate);
/* False, and the load will not be stored, only kept in this process for an outage: the gate is not open. Before its
 * query. */
bool cache_gate_pass(struct cache_gate *gate, struct guard_load *load);
