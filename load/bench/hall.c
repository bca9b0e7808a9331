/* SPDX-License-Identifier: MIT */
/* hall.c - see hall.h. */
#include "load/bench/hall.h"

#include "app/common/redis_link.h"
#include "load/base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- a crowd ---- */

enum { LIMIT_MS = 60000 };

bool crowd_open(struct crowd *crowd)
{
    for (size_t i = 0; i < crowd->port_count; i++)
        crowd->targets[i] = (struct burst_target){.host = "127.0.0.1", .port = crowd->ports[i]};
    const struct burst_options options = {.targets = crowd->targets,
                                          .target_count = crowd->port_count,
                                          .connection_count = crowd->size,
                                          .connect_limit_ms = LIMIT_MS,
                                          .request_limit_ms = LIMIT_MS,
                                          .path = crowd->path,
                                          .events = &crowd->meanwhile,
                                          .event_count = crowd->meanwhile.run != NULL};
    return burst_open(&options, &crowd->burst);
}

bool crowd_ask(struct crowd *crowd)
{
    bool ran = burst_run(crowd->burst);
    const struct burst_answer *answers = burst_answers(crowd->burst);
    burst_summarise(crowd->burst, &crowd->summary);
    crowd->sent_us = answers[0].sent_us;
    crowd->last_us = 0;
    for (uint32_t i = 0; i < crowd->size; i++) {
        uint64_t end_us = answers[i].end_us;
        crowd->last_us = end_us > crowd->last_us ? end_us : crowd->last_us;
    }
    uint32_t good = crowd->summary.statuses[200];
    if (good != crowd->size)
        fprintf(stderr, "bench: only %" PRIu32 " of %" PRIu32 " requests were answered with 200\n", good,
                crowd->size);
    return ran && good == crowd->size;
}

void crowd_close(struct crowd *crowd)
{
    burst_close(&crowd->burst);
}

bool crowd_waits(const struct crowd *crowd, const struct stack_catalogd *catalogd)
{
    double waiting = stack_catalogd_metric(catalogd, "catalogd_connections_parked");
    if (waiting < crowd->size)
        fprintf(stderr, "bench: only %.0f of %" PRIu32 " requests wait\n", waiting, crowd->size);
    return waiting >= crowd->size;
}

/* ---- when a value is stored ---- */

enum { LIMIT_S = 60 };

static void *listen_once(void *listening)
{
    struct filled *filled = listening;
    redisReply *reply = NULL;
    if (redisGetReply(filled->context, (void **)&reply) == REDIS_OK)
        filled->heard_us = clock_us();
    freeReplyObject(reply);
    return NULL;
}

/* Tells of every SET whose key names the product's value. */
static bool subscribe(struct filled *filled, const char *path)
{
    const char *id = strrchr(path, '/') + 1;
    redisReply *reply = redisCommand(filled->context, "PSUBSCRIBE __keyspace@0__:*product:%s}:v", id);
    bool good = reply != NULL && reply->type == REDIS_REPLY_ARRAY;
    freeReplyObject(reply);
    return good;
}

bool filled_tell(struct bench *bench, bool tells)
{
    return stack_redis_do(&bench->redis, "CONFIG SET notify-keyspace-events %s", tells ? "K$" : "");
}

bool filled_listen(const struct bench *bench, const char *path, struct filled *filled)
{
    *filled = (struct filled){.context = redis_link_to_path(bench->redis.socket_path, LIMIT_S * 1000)};
    if (filled->context != NULL && subscribe(filled, path) &&
        pthread_create(&filled->thread, NULL, listen_once, filled) == 0)
        return true;
    fprintf(stderr, "bench: cannot listen to Redis\n");
    redisFree(filled->context);
    return false;
}

uint64_t filled_wait(struct filled *filled)
{
    pthread_join(filled->thread, NULL);
    redisFree(filled->context);
    if (filled->heard_us == 0)
        fprintf(stderr, "bench: Redis told of no fill within %d s\n", LIMIT_S);
    return filled->heard_us;
}

static void look(void *context)
{
    struct hall *hall = context;
    const pid_t pid = hall->catalogd->pid;
    if (!hall->asked) /* a constant, for which nobody waits */
        return;
    hall->waiting_kib = proc_status(pid, "VmRSS");
    hall->looking_us = proc_cpu_us(pid);
    hall->all_wait = crowd_waits(&hall->crowd, hall->catalogd);
    hall->waiting_us = proc_cpu_us(pid);
}

bool hall_open(struct bench *bench, struct hall *hall, const struct stack_catalogd *catalogd, uint32_t size,
               uint32_t look_ms)
{
    *hall = (struct hall){
        .catalogd = catalogd,
        .crowd = {.ports = {catalogd->port},
                  .port_count = 1,
                  .size = size,
                  .meanwhile = {.after_ms = look_ms, .run = look, .context = hall}},
        .alone_kib = proc_status(catalogd->pid, "VmRSS"),
    };
    bool good = crowd_open(&hall->crowd) && hall_ask_constant(hall);
    bench_cold_path(bench, hall->crowd.path);
    return good;
}

bool hall_ask_constant(struct hall *hall)
{
    struct crowd *crowd = &hall->crowd;
    snprintf(crowd->path, sizeof crowd->path, "/ping");
    const uint64_t before_us = proc_cpu_us(hall->catalogd->pid);
    if (!crowd_ask(crowd))
        return false;
    hall->constant_us_each = (double)(proc_cpu_us(hall->catalogd->pid) - before_us) / crowd->size;
    hall->constant_last_ms = (double)(crowd->last_us - crowd->sent_us) / 1e3;
    return true;
}

bool hall_wait(const struct bench *bench, struct hall *hall)
{
    const struct crowd *crowd = &hall->crowd;
    struct filled filled;
    if (!filled_listen(bench, crowd->path, &filled))
        return false;
    const uint64_t before_us = proc_cpu_us(hall->catalogd->pid);
    hall->asked = true;
    bool good = crowd_ask(&hall->crowd) && hall->all_wait;
    hall->asked = false;
    const uint64_t after_us = proc_cpu_us(hall->catalogd->pid), filled_us = filled_wait(&filled);
    const uint64_t look_us = hall->waiting_us - hall->looking_us;
    hall->last_ms = ((double)crowd->last_us - (double)filled_us) / 1e3;
    hall->cpu_us_each = (double)(after_us - before_us - look_us) / crowd->size;
    hall->answer_us_each = (double)(after_us - hall->waiting_us) / crowd->size;
    hall->kib_each = (double)(hall->waiting_kib - hall->alone_kib) / crowd->size;
    return good && filled_us != 0;
}

void hall_close(struct hall *hall)
{
    crowd_close(&hall->crowd);
}
