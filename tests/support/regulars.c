/* SPDX-License-Identifier: MIT */
/* regulars.c - see regulars.h. */
#include "tests/support/regulars.h"

#include "load/base/clock.h"
#include "load/base/http_parse.h"
#include "load/base/net.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LIMIT_S = 30, HANG_UP_AFTER = 40, PAUSE_MS = 7, LOOK_MS = 2 };

enum outcome { ANSWERED, ANSWERED_LAST, ODD, REFUSED, RESET, UNANSWERED, LATE, OUTCOMES };

static struct {
    uint16_t port;
    uint32_t first_product;
    pthread_t threads[REGULARS];
    atomic_bool over;
    atomic_uint_least64_t turn, kept, outcomes[OUTCOMES];
} regulars;

/* ---- one request ---- */

static enum outcome failure(void)
{
    return errno == EAGAIN ? LATE : RESET;
}

static enum outcome ask(int fd, const char *path, struct http_parse *answer)
{
    char bytes[4096];
    const int size = snprintf(bytes, sizeof bytes, "GET %s HTTP/1.1\r\nHost: catalog\r\n\r\n", path);
    http_parse_next(answer, false);
    if (send(fd, bytes, (size_t)size, MSG_NOSIGNAL) != size)
        return failure();
    while (answer->state != HTTP_PARSE_DONE) {
        const ssize_t count = recv(fd, bytes, sizeof bytes, 0);
        if (count < 0)
            return failure();
        if (count == 0)
            return UNANSWERED;
        http_parse_feed(answer, bytes, (size_t)count);
        if (answer->state == HTTP_PARSE_BAD)
            return ODD;
    }
    return answer->status != 200 ? ODD : answer->keeps_alive ? ANSWERED : ANSWERED_LAST;
}

/* ---- one client ---- */

static int connect_to(uint16_t port)
{
    const struct timeval limit = {.tv_sec = LIMIT_S};
    struct net_address address;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (net_address_init(&address, "127.0.0.1", port) &&
        connect(fd, (struct sockaddr *)&address.storage, address.bytes) == 0)
        return fd;
    close(fd);
    return -1;
}

/* Every fourth turn is no product, so that some answers need no guard. */
static void choose_path(char path[static 64])
{
    const uint64_t turn = atomic_fetch_add(&regulars.turn, 1);
    if (turn % 4 == 3)
        snprintf(path, 64, "/ping");
    else
        snprintf(path, 64, "/products/%u", (unsigned)(regulars.first_product + turn / REGULARS_PER_PRODUCT));
}

static enum outcome ask_on(int *fd, struct http_parse *answer)
{
    char path[64];
    if (*fd < 0)
        *fd = connect_to(regulars.port);
    if (*fd < 0)
        return REFUSED;
    choose_path(path);
    return ask(*fd, path, answer);
}

static void *come_again(void *context)
{
    const size_t index = (size_t)(uintptr_t)context;
    struct http_parse answer;
    int fd = -1;
    http_parse_init(&answer, NULL, NULL);
    for (uint32_t count = 0; !atomic_load(&regulars.over);) {
        const enum outcome outcome = ask_on(&fd, &answer);
        atomic_fetch_add(&regulars.outcomes[outcome], 1);
        atomic_fetch_add(&regulars.kept, outcome <= ANSWERED_LAST && count > 0);
        count++;
        if (outcome != ANSWERED || count == HANG_UP_AFTER + index) {
            if (fd >= 0)
                close(fd);
            fd = -1;
            count = 0;
        }
        if (outcome == REFUSED)
            break;
        if (index % 2 == 1)
            clock_pause_ms((uint32_t)index % PAUSE_MS + 1);
    }
    if (fd >= 0)
        close(fd);
    http_parse_clear(&answer);
    return NULL;
}

/* ---- all of them ---- */

bool regulars_start(uint16_t port, uint32_t first_product)
{
    regulars.port = port;
    regulars.first_product = first_product;
    atomic_store(&regulars.over, false);
    atomic_store(&regulars.turn, 0);
    atomic_store(&regulars.kept, 0);
    for (size_t i = 0; i < OUTCOMES; i++)
        atomic_store(&regulars.outcomes[i], 0);
    for (size_t i = 0; i < REGULARS; i++) {
        if (pthread_create(&regulars.threads[i], NULL, come_again, (void *)(uintptr_t)i) != 0)
            return false;
    }
    return true;
}

void regulars_score(struct regulars_score *out)
{
    const uint64_t turns = atomic_load(&regulars.turn);
    *out = (struct regulars_score){
        .answers = atomic_load(&regulars.outcomes[ANSWERED]) + atomic_load(&regulars.outcomes[ANSWERED_LAST]),
        .others = atomic_load(&regulars.outcomes[ODD]),
        .kept = atomic_load(&regulars.kept),
        .last = atomic_load(&regulars.outcomes[ANSWERED_LAST]),
        .refused = atomic_load(&regulars.outcomes[REFUSED]),
        .reset = atomic_load(&regulars.outcomes[RESET]),
        .unanswered = atomic_load(&regulars.outcomes[UNANSWERED]),
        .late = atomic_load(&regulars.outcomes[LATE]),
        .products = (uint32_t)((turns + REGULARS_PER_PRODUCT - 1) / REGULARS_PER_PRODUCT),
    };
}

void regulars_wait_answers(uint64_t more)
{
    const uint64_t end_us = clock_after_ms(LIMIT_S * 1000);
    struct regulars_score score;
    regulars_score(&score);
    const uint64_t wanted = score.answers + more;
    while (score.answers < wanted && clock_us() < end_us &&
           score.others + score.refused + score.reset + score.unanswered + score.late == 0) {
        clock_pause_ms(LOOK_MS);
        regulars_score(&score);
    }
}

void regulars_wait_refused(struct regulars_score *out)
{
    for (size_t i = 0; i < REGULARS; i++)
        pthread_join(regulars.threads[i], NULL);
    regulars_score(out);
}

void regulars_stop(struct regulars_score *out)
{
    atomic_store(&regulars.over, true);
    regulars_wait_refused(out);
}
