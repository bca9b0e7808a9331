/* SPDX-License-Identifier: MIT */
/*
 * policy.h - times that change while the process runs: POST /policy?FRESH_MS=5000&STALE_MS=60000.
 *
 * All of them or none: checked as at the start (settings_change()), then the cache is told how long its entries may live
 * (cache_gate_set_life()), then the kinds follow, then the answers. It is this process's alone and ends with it: who means
 * it to last changes the settings too.
 *
 * Threads: any; one change at a time.
 */
#ifndef APP_POLICY_H
#define APP_POLICY_H

#include "app/ops/parts.h"

#include <microhttpd.h>
#include <pthread.h>

struct policy {
    pthread_mutex_t lock;
    struct settings settings; /* under lock: as they are now; texts are lent */
};

void policy_init(struct policy *policy, const struct settings *settings);
void policy_clear(struct policy *policy);
/* Answers with the times as they are then; without arguments they only are told. */
bool policy_answer(const struct ops_parts *parts, struct MHD_Connection *connection);

#endif
