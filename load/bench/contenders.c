/* SPDX-License-Identifier: MIT */
/* contenders.c - see contenders.h. */
#include "load/bench/contenders.h"

#include <microhttpd.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- a constant ---- */

static const char mode[] = "--constant"; /* PORT BYTES */

bool constant_start(struct rival *constant, size_t body_bytes)
{
    char program[RIVAL_TEXT_BYTES], bytes[24];
    const char *const arguments[] = {program, mode, "{port}", bytes, NULL};
    const struct rival_plan plan = {.name = "constant", .arguments = arguments};
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length <= 0)
        return false;
    program[length] = '\0';
    snprintf(bytes, sizeof bytes, "%zu", body_bytes);
    return rival_start(constant, &plan);
}

static enum MHD_Result answer(void *response, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_bytes, void **state)
{
    (void)url, (void)method, (void)version, (void)upload, (void)upload_bytes;
    if (*state == NULL) { /* the head alone is there: the answer follows with the second call */
        *state = response;
        return MHD_YES;
    }
    return MHD_queue_response(connection, MHD_HTTP_OK, response);
}

int constant_main(int argc, char **argv)
{
    if (argc != 4 || strcmp(argv[1], mode) != 0)
        return -1;
    size_t bytes = strtoul(argv[3], NULL, 10);
    char *body = malloc(bytes + 1);
    if (body == NULL)
        return 1;
    memset(body, 'x', bytes);
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons((uint16_t)strtoul(argv[2], NULL, 10)),
                                        .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct MHD_Response *response = MHD_create_response_from_buffer(bytes, body, MHD_RESPMEM_MUST_FREE);
    if (response == NULL ||
        MHD_add_response_header(response, "Content-Type", "application/json") != MHD_YES ||
        MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD, 0, NULL, NULL, answer, response, MHD_OPTION_SOCK_ADDR,
                         &address, MHD_OPTION_END) == NULL)
        return 1;
    for (;;)
        pause(); /* until it is killed */
}

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
