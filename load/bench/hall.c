/* SPDX-License-Identifier: MIT */
/* hall.c - see hall.h. */
#include "load/bench/hall.h"
#include "load/bench/filled.h"

#include <stdio.h>

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
