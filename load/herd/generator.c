/* SPDX-License-Identifier: MIT */
/* generator.c - start, loop and end of a generator; see generator.h. */
#include "load/herd/generator.h"

#include "load/base/clock.h"
#include "load/herd/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* ---- the number behind a text ---- */

/* The search is that of Knuth, Morris and Pratt. */

void version_text_init(struct version_text *text, const char *wanted)
{
    *text = (struct version_text){.count = (uint8_t)strlen(wanted)};
    memcpy(text->text, wanted, text->count);
    uint8_t matched = 0;
    for (uint8_t i = 1; i < text->count; i++) {
        while (matched > 0 && text->text[i] != text->text[matched])
            matched = text->back[matched - 1];
        matched = (uint8_t)(matched + (text->text[i] == text->text[matched]));
        text->back[i] = matched;
    }
}

static void seek_byte(struct version_seek *seek, const struct version_text *text, char byte)
{
    while (seek->matched > 0 && byte != text->text[seek->matched])
        seek->matched = text->back[seek->matched - 1];
    if (byte == text->text[seek->matched])
        seek->matched++;
    if (seek->matched < text->count)
        return;
    seek->matched = 0;
    seek->state = VERSION_BEFORE;
}

static void add_digit(struct version_seek *seek, char byte)
{
    uint64_t version = (uint64_t)seek->version * 10 + (uint64_t)(byte - '0');
    seek->version = version < UINT32_MAX ? (uint32_t)version : UINT32_MAX;
    seek->state = VERSION_INSIDE;
}

static void number_byte(struct version_seek *seek, const struct version_text *text, char byte)
{
    if (byte >= '0' && byte <= '9') {
        add_digit(seek, byte);
    } else if (seek->state == VERSION_INSIDE) {
        seek->state = VERSION_FOUND;
    } else if (strchr(" \t\r\n\"", byte) == NULL || byte == '\0') {
        seek->state = VERSION_SEEKING;
        seek_byte(seek, text, byte);
    }
}

void version_seek_feed(struct version_seek *seek, const struct version_text *text, const char *bytes,
                       size_t count)
{
    for (size_t i = 0; i < count && seek->state != VERSION_FOUND; i++) {
        if (seek->state != VERSION_SEEKING) {
            number_byte(seek, text, bytes[i]);
            continue;
        }
        if (seek->matched == 0) { /* most of a body is skipped in one call */
            const char *next = memchr(bytes + i, text->text[0], count - i);
            if (next == NULL)
                return;
            i = (size_t)(next - bytes);
        }
        seek_byte(seek, text, bytes[i]);
    }
}

enum {
    TURN_MAX_US = 1000000, /* a wait is never longer, whatever happens to the bell */
    BEFORE_OTHERS = -10,   /* nice: real clients need not wait for the servers to let them go */
};
static const uint64_t BELL = UINT64_MAX;

/* errno is part of the reason. */
static _Noreturn void die(const struct herd_job *job, const char *what)
{
    char *error = job->shared->posts[job->index].error;
    snprintf(error, WORK_WHY_BYTES, "%s is refused by the system: %s", what, strerror(errno));
    if (job->bell == -1) /* no herd reads it */
        fprintf(stderr, "burst: %s\n", error);
    _exit(1);
}

bool generator_is_aborted(const struct generator *generator)
{
    return atomic_load_explicit(&generator->job->shared->is_aborted, memory_order_relaxed);
}

/* ---- the meter ---- */

/* How long this process was ready to run but had no core; 0 where the kernel does not tell. */
static uint64_t starved_us(const struct generator *generator)
{
    char text[80];
    uint64_t run_ns = 0, wait_ns = 0;
    ssize_t count = pread(generator->schedstat, text, sizeof text - 1, 0);
    if (count <= 0)
        return 0;
    text[count] = '\0';
    return sscanf(text, "%" SCNu64 " %" SCNu64, &run_ns, &wait_ns) == 2 ? wait_ns / 1000 : 0;
}

void generator_meter_start(struct generator *generator)
{
    generator->meter_us = clock_us();
    generator->meter_cpu_us = clock_cpu_us();
    generator->meter_starved_us = starved_us(generator);
}

void generator_meter_stop(struct generator *generator)
{
    struct herd_post *post = generator->post;
    atomic_fetch_add(&post->active_us, clock_us() - generator->meter_us);
    atomic_fetch_add(&post->cpu_us, clock_cpu_us() - generator->meter_cpu_us);
    atomic_fetch_add(&post->starved_us, starved_us(generator) - generator->meter_starved_us);
}

/* ---- what runs out of time ---- */

/* The oldest slot that is not over; if it waits, it is the first of its queue. */
static void give_up(struct generator *generator, uint32_t slot)
{
    struct slot_queue *queue = &generator->waiting[generator->job->records[slot].target];
    if (queue->first == slot) {
        slot_queue_take(generator, queue);
        record_end(generator, slot, RECORD_UNSENT);
        return;
    }
    struct link *link = &generator->links[generator->places[slot]];
    link_fail(generator, link, link->state == LINK_CONNECTING ? RECORD_UNCONNECTED : RECORD_TIMEOUT);
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t first_until_us(const struct link_list *list)
{
    return list->count > 0 ? TAILQ_FIRST(&list->queue)->until_us : UINT64_MAX;
}

/* When the oldest slot that is not over runs out of time. */
static uint64_t oldest_until_us(struct generator *generator)
{
    while (generator->oldest < generator->taken && generator->places[generator->oldest] == SLOT_OVER)
        generator->oldest++;
    if (generator->oldest == generator->taken)
        return UINT64_MAX;
    return generator->job->records[generator->oldest].due_us +
           (uint64_t)generator->work->request_limit_ms * 1000;
}

static void expire(struct generator *generator, uint64_t now_us)
{
    while (first_until_us(&generator->connecting) <= now_us) {
        struct link *link = TAILQ_FIRST(&generator->connecting.queue);
        link_drop(generator, link);
        generator->shape->failed(generator, link, RECORD_UNCONNECTED);
    }
    while (first_until_us(&generator->leaving) <= now_us)
        link_fail(generator, TAILQ_FIRST(&generator->leaving.queue), RECORD_LEFT);
    while (oldest_until_us(generator) <= now_us)
        give_up(generator, generator->oldest);
}

/* ---- the loop ---- */

static void on_event(struct generator *generator, const struct epoll_event *event)
{
    if (event->data.u64 == BELL)
        return; /* whoever waits looks at the shared memory after every turn */
    struct link *link = &generator->links[(uint32_t)event->data.u64];
    if (link->serial != (uint32_t)(event->data.u64 >> 32))
        return; /* of a connection that was dropped in this very turn */
    if (link->state == LINK_CONNECTING)
        link_connected(generator, link);
    else
        link_read(generator, link);
}

void generator_turn(struct generator *generator, uint64_t until_us)
{
    uint64_t now_us = clock_us();
    until_us = earlier(until_us, oldest_until_us(generator));
    until_us = earlier(until_us,
                       earlier(first_until_us(&generator->connecting), first_until_us(&generator->leaving)));
    uint64_t span_us = until_us > now_us ? earlier(until_us - now_us, TURN_MAX_US) : 0;
    const struct timespec span = {.tv_sec = (time_t)(span_us / 1000000),
                                  .tv_nsec = (long)(span_us % 1000000) * 1000};
    int count = epoll_pwait2(generator->epoll, generator->events, GENERATOR_BATCH, &span, NULL);
    if (count == -1 && errno != EINTR)
        die(generator->job, "waiting for events (Linux 5.11 or later is needed)");
    for (int i = 0; i < count; i++)
        on_event(generator, &generator->events[i]);
    expire(generator, clock_us());
}

/* ---- start and end ---- */

static void list_init(struct link_list *list)
{
    list->count = 0;
    TAILQ_INIT(&list->queue);
}

static void lists_init(struct generator *generator)
{
    list_init(&generator->none);
    list_init(&generator->connecting);
    list_init(&generator->leaving);
    for (size_t i = 0; i < WORK_TARGETS_MAX; i++) {
        list_init(&generator->idle[i]);
        generator->waiting[i] = (struct slot_queue){.first = SLOT_NONE};
    }
    for (uint32_t i = 0; i < generator->link_count; i++) {
        generator->links[i].fd = -1;
        generator->links[i].slot = SLOT_NONE;
        link_move(&generator->links[i], &generator->none);
    }
}

/* Edge-triggered: nobody ever reads the bell, and everybody hears each ring. */
static bool hear_bell(const struct generator *generator)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u64 = BELL};
    return generator->job->bell == -1 ||
           epoll_ctl(generator->epoll, EPOLL_CTL_ADD, generator->job->bell, &event) == 0;
}

bool generator_init(struct generator *generator, const struct herd_job *job)
{
    const struct work *work = job->work;
    char why[WORK_WHY_BYTES];
    generator->job = job;
    generator->work = work;
    generator->post = &job->shared->posts[job->index];
    generator->schedstat = -1;
    generator->epoll = epoll_create1(EPOLL_CLOEXEC);
    generator->link_count = (uint32_t)work_part(work->connection_count, job->index, work->generator_count);
    generator->links = calloc(generator->link_count, sizeof *generator->links);
    generator->places = calloc((size_t)job->slot_count + 1, sizeof *generator->places);
    generator->buffer = malloc(GENERATOR_READ_BYTES);
    if (generator->links == NULL || generator->places == NULL || generator->buffer == NULL)
        return false;
    lists_init(generator);
    if (generator->epoll == -1 || !hear_bell(generator) || !ask_init(generator) ||
        !tls_open(work, &generator->tls, why))
        return false;
    work_chooser_init(&generator->chooser, work, job->index, work->generator_count);
    return true;
}

/* Descriptors that are 0 were never opened. */
void generator_clear(struct generator *generator)
{
    for (uint32_t i = 0; generator->links != NULL && i < generator->link_count; i++) {
        tls_end(&generator->links[i].tls);
        if (generator->links[i].fd > 0)
            close(generator->links[i].fd);
        http_parse_clear(&generator->links[i].parse);
    }
    for (size_t i = 0; i < WORK_TARGETS_MAX; i++)
        free(generator->endings[i]);
    tls_close(&generator->tls);
    if (generator->epoll > 0)
        close(generator->epoll);
    if (generator->schedstat > 0)
        close(generator->schedstat);
    free(generator->links);
    free(generator->places);
    free(generator->buffer);
}

/* Aborted: what is under way is cut, what waits has not been sent. */
static void cut(struct generator *generator)
{
    for (uint32_t slot = generator->oldest; slot < generator->taken; slot++) {
        if (generator->places[slot] != SLOT_OVER)
            record_end(generator, slot,
                       generator->job->records[slot].sent_us > 0 ? RECORD_CUT : RECORD_UNSENT);
    }
}

static void work_through(struct generator *generator)
{
    if (generator->work->shape == WORK_BURST)
        generator_burst(generator);
    else
        generator_rate(generator);
    cut(generator);
    atomic_store(&generator->post->stage, HERD_ENDED);
}

_Noreturn void generator_run(const struct herd_job *job)
{
    prctl(PR_SET_NAME, "stampede-gen");
    setpriority(PRIO_PROCESS, 0, BEFORE_OTHERS); /* where that is allowed */
    prctl(PR_SET_TIMERSLACK, 1UL);               /* ns; otherwise every wait may be 50 us too long */
    struct generator *generator = calloc(1, sizeof *generator);
    if (generator == NULL || !generator_init(generator, job))
        die(job, "memory");
    generator->schedstat = open("/proc/self/schedstat", O_RDONLY | O_CLOEXEC);
    work_through(generator);
    _exit(0); /* the kernel takes back what is still open */
}
