/* SPDX-License-Identifier: MIT */
/* probe.c - see probe.h. */
#include "tests/support/probe.h"

#include "load/base/clock.h"

#include <hiredis/hiredis.h>
#include <libpq-fe.h>

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { PAUSE_MS = 10, OPS_LIMIT_MS = 1000, THREAD_LOOKS = 25 };

/* ---- waiting ---- */

typedef bool condition(void *context);

static bool wait_until(const char *what, condition *holds, void *context)
{
    uint64_t end_us = clock_after_ms(FLEET_LIMIT_MS);
    while (!holds(context)) {
        if (clock_us() >= end_us) {
            fprintf(stderr, "probe: it never came to this: %s\n", what);
            return false;
        }
        clock_pause_ms(PAUSE_MS);
    }
    return true;
}

struct search {
    size_t process;
};

static bool somebody_loads(void *context)
{
    struct search *search = context;
    for (size_t i = 0; i < fleet.count; i++) {
        if (fleet.catalogd[i].pid > 0 && fleet_metric(i, "guard_loads_running") > 0) {
            search->process = i;
            return true;
        }
    }
    return false;
}

bool probe_find_leader(size_t *process)
{
    struct search search = {0};
    if (!wait_until("a process runs a load", somebody_loads, &search))
        return false;
    *process = search.process;
    return true;
}

static bool is_quiet(void *context)
{
    struct search *search = context;
    return fleet_metric(search->process, "catalogd_connections") == 0;
}

bool probe_wait_quiet(size_t process)
{
    return wait_until("nobody is connected", is_quiet, &(struct search){process});
}

static bool is_draining(void *context)
{
    struct search *search = context;
    struct http_answer answer;
    const struct http_request request = {.host = "127.0.0.1",
                                         .port = fleet.catalogd[search->process].ops_port,
                                         .path = "/readyz",
                                         .deadline_ms = OPS_LIMIT_MS};
    bool refuses = http_ask(&request, &answer) && answer.status == 503;
    http_answer_clear(&answer);
    return refuses;
}

bool probe_wait_draining(size_t process)
{
    return wait_until("a process drains", is_draining, &(struct search){process});
}

bool probe_wait_end(size_t process, int *status)
{
    if (!proc_wait(fleet.catalogd[process].pid, FLEET_LIMIT_MS, status)) {
        fprintf(stderr, "probe: process %zu did not end\n", process);
        return false;
    }
    fleet.catalogd[process].pid = 0;
    return true;
}

/* ---- Redis ---- */

bool probe_has(uint32_t product)
{
    char key[FLEET_KEY_BYTES];
    fleet_redis_key(key, product, 'v');
    return fleet_redis_number("EXISTS", key) == 1;
}

static bool value_is_there(void *product)
{
    return probe_has(*(uint32_t *)product);
}

bool probe_wait_for(uint32_t product)
{
    return wait_until("a value is in Redis", value_is_there, &product);
}

size_t probe_lease_count(void)
{
    struct redisReply *reply = stack_redis_command(&fleet.redis, "KEYS csg1:*:l");
    size_t count = reply != NULL && reply->type == REDIS_REPLY_ARRAY ? reply->elements : SIZE_MAX;
    if (reply != NULL)
        freeReplyObject(reply);
    return count;
}

/* ---- PostgreSQL ---- */

bool probe_gate_shut(struct pg_conn **gate)
{
    *gate = fleet_session("LOCK TABLE products IN ACCESS EXCLUSIVE MODE");
    return *gate != NULL;
}

void probe_gate_open(struct pg_conn **gate)
{
    PQfinish(*gate); /* ends the transaction, too */
    *gate = NULL;
}

/* ---- bursts ---- */

static void judge(const struct burst_answer *answer, struct probe_burst *out)
{
    char value[128];
    if (answer->status == 503 && *burst_header(answer, "Retry-After", value, sizeof value) == '\0')
        out->unadvised++;
    if (strstr(burst_header(answer, "Cache-Status", value, sizeof value), "; hit") != NULL)
        out->hits++;
}

bool probe_burst(const struct burst_options *options, struct probe_burst *out)
{
    struct burst *burst = NULL;
    *out = (struct probe_burst){.unadvised = 0};
    if (!burst_open(options, &burst))
        return false;
    bool ran = burst_run(burst);
    burst_summarise(burst, &out->summary);
    for (uint32_t i = 0; i < options->connection_count; i++)
        judge(&burst_answers(burst)[i], out);
    burst_close(&burst);
    return ran;
}

bool probe_ask_all(const char *path, uint32_t request_count, const struct burst_event *event,
                   struct probe_burst *out)
{
    struct burst_target targets[FLEET_PROCESSES_MAX];
    struct burst_options options = fleet_options(targets, path, request_count);
    options.events = event;
    options.event_count = event != NULL ? 1 : 0;
    return probe_burst(&options, out);
}

struct recovery {
    size_t process;
};

static bool stores_again(void *context)
{
    struct recovery *recovery = context;
    char path[BURST_PATH_BYTES];
    uint32_t product = fleet_cold_product(path);
    return fleet_ask_status(recovery->process, path) == 200 && probe_has(product);
}

bool probe_recovers(uint32_t request_count)
{
    char path[BURST_PATH_BYTES];
    struct burst_summary summary;
    for (size_t i = 0; i < fleet.count; i++) {
        if (fleet.catalogd[i].pid > 0 &&
            (!fleet_wait_ready(i) ||
             !wait_until("a process stores what it loads", stores_again, &(struct recovery){i})))
            return false;
    }
    fleet_cold_product(path);
    fleet_mark();
    if (!fleet_burst(path, request_count, NULL, &summary))
        return false;
    uint32_t loads = fleet_loads(FLEET_LOAD_PRODUCT);
    if (loads == 1 && summary.statuses[200] == request_count)
        return true;
    fprintf(stderr, "probe: after the fault %" PRIu32 " loads, %" PRIu32 " of %" PRIu32 " answered 200\n",
            loads, summary.statuses[200], request_count);
    return false;
}

/* ---- processes ---- */

size_t probe_descriptor_count(pid_t pid)
{
    char path[64];
    size_t count = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *folder = opendir(path);
    if (folder == NULL)
        return 0;
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder))
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

uint64_t probe_thread_count(pid_t pid)
{
    uint64_t fewest = UINT64_MAX;
    for (int i = 0; i < THREAD_LOOKS; i++) {
        uint64_t count = proc_status(pid, "Threads");
        fewest = count < fewest ? count : fewest;
        clock_pause_ms(PAUSE_MS);
    }
    return fewest;
}
