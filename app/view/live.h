/* SPDX-License-Identifier: MIT */
/*
 * live.h - a sample: what this process does, as one line of JSON. GET /live sends one at once and one every second
 * (every_ms); the live view (page.js) and everything else that draws a running service (widgets.js) reads these
 * lines.
 *
 *     {"v":1,"at_ms":1700000000000,"up_ms":61000,"draining":false,
 *      "about":{...},                                    in the first line of a stream only: what does not change
 *      "answers":{"near":0,"cache":912,"stale":0,...},   requests to the guard, each in exactly one, by what answered
 *                                                        it
 *      "waiters":3,"flights":1,                          now
 *      "loads":{"started":4,"ok":3,...,"running":1,"queued":0},
 *      "running":[{"key":"product:7","load":"00c0ffee00c0ffee","for_ms":40,"waiters":3}],  at most 20, oldest first
 *      "get_us":{"count":[..16..],"sum":123},"load_us":{...},                                 see about.bounds_us
 *      "leases":{...},"permits":{...},"shadow":{...},"near":{...},
 *      "hot":[{"key":"product:7","saved":611}],          at most 10, weights halve every minute
 *      "redis":{"state":"up","wake":"up","breaker":false,"commands":7,...},
 *      "database":{"ready":true},
 *      "http":{"requests":915,"connections":8,"busy":3,"parked":3,"statuses":{"2xx":912,"3xx":0,"4xx":0,"5xx":0}}}
 *
 * Counters are counted since the start, so rates are differences of two lines, and a reader that misses lines loses
 * nothing; "now" above and everything called running, queued, held, waiting, entries, bytes, connections, busy and
 * parked are gauges. A histogram counts per bucket, not cumulatively; about.bounds_us are the upper bounds, the last
 * bucket has none.
 *
 *     about     pid, version, namespace, mode (fleet, local, off, shadow), address (of LISTEN), every_ms, bounds_us,
 *               max_loads, load_permits (0: no limit), near_bytes (0: nothing is kept in this process)
 *     answers   without a load: near, cache, kept (while Redis was away), stale, absent (no such row, remembered),
 *               failed_before (a failure, remembered)
 *               by a load:      load (its own), flight (another request's of this process), fleet (of another
 *                               process)
 *               otherwise:      failed, shed, timeout, cancelled, closing, missed (only the cache was asked)
 *     loads     started; how they ended: ok, absent, unchanged, failed, cancelled; of those started: uncached
 *               (without a lease), duplicate (0), nested, refreshes
 *     running   `waiters`: the requests of this process that waited for it when it began; `load`: as in Cache-Status
 *     leases    acquired, busy (another process had it), renewed, lost
 *     permits   held, waiting, refused, lost; about.load_permits are all there are
 *     near      entries, bytes, missed, evicted
 *     shadow    saved, hits, waits, loads: what mode fleet would have saved; all 0 in other modes
 *     redis     `state` and `wake`: up, down, denied, replica or fenced, of the commands' and the messages'
 *               connection; breaker: open; commands, round_trips, timeouts, errors
 *
 * Of fields that a reader does not know it should make nothing; `v` changes when one goes or means something else.
 *
 * Pure, any thread.
 */
#pragma once

#include "app/http/server.h"
#include "app/view/running.h"
#include "guard/guard.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum { LIVE_VERSION = 1, LIVE_RUNNING_MAX = 20, LIVE_HOT_MAX = 10 };

/* What does not change. All texts are lent. */
struct live_about {
    int64_t pid;
    const char *name_space, *address;
    enum guard_mode mode;
    uint32_t max_loads, load_permits, near_bytes;
};

struct live_sample {
    uint64_t at_ms, up_ms; /* the date; since the start */
    bool draining, database_ready;
    const char *redis_state, *wake_state; /* in words; lent */
    struct guard_stats guard;
    struct server_stats server;
    struct running_load running[LIVE_RUNNING_MAX];
    size_t running_count;
    struct guard_hot_key hot[LIVE_HOT_MAX];
    size_t hot_count;
};

/* With what does not change in its first line. NULL: no memory. Yours: json_decref(). */
json_t *live_first_json(const struct live_sample *sample, const struct live_about *about, uint32_t every_ms);
json_t *live_json(const struct live_sample *sample);
