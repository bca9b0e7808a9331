/* SPDX-License-Identifier: MIT */
/* contenders.c - see contenders.h. */
#include "load/bench/contenders.h"

enum { KEPT_MS = 600000 };

static void enter(struct contenders *contenders, enum contender who, pid_t pid, uint16_t port)
{
    contenders->at[who].pid = pid;
    contenders->at[who].port = port;
}

bool contenders_start(const struct bench *bench, struct contenders *contenders, const char *near_setting)
{
    static const char *const far[] = {"SERVER_LOOPS=1", NULL};
    const char *const near[] = {"SERVER_LOOPS=1", near_setting, "NEAR_MS=60000", NULL};
    bool good = bench_service_start(bench, &contenders->catalogd, far) &&
                bench_service_start(bench, &contenders->near, near);
    enter(contenders, CONSTANT, contenders->catalogd.pid, contenders->catalogd.port);
    enter(contenders, NEAR, contenders->near.pid, contenders->near.port);
    enter(contenders, HIT, contenders->catalogd.pid, contenders->catalogd.port);
    return good;
}

bool contenders_start_rivals(struct contenders *contenders)
{
    const uint16_t origin_port = contenders->catalogd.port;
    const struct nginx_options nginx = {.origin_port = origin_port, .valid_s = KEPT_MS / 1000};
    const struct varnish_options varnish = {.origin_port = origin_port, .ttl_ms = KEPT_MS};
    bool good = nginx_start(&contenders->nginx, &nginx) && varnish_start(&contenders->varnish, &varnish);
    enter(contenders, NGINX, contenders->nginx.pid, contenders->nginx.port);
    enter(contenders, VARNISH, contenders->varnish.pid, contenders->varnish.port);
    return good;
}

void contenders_stop(struct contenders *contenders)
{
    rival_stop(&contenders->varnish);
    rival_stop(&contenders->nginx);
    stack_catalogd_stop(&contenders->near);
    stack_catalogd_stop(&contenders->catalogd);
}
