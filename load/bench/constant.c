/* SPDX-License-Identifier: MIT */
/* constant.c - see constant.h. */
#include "load/bench/constant.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
