/* SPDX-License-Identifier: MIT */
/*
 * burst.c - see burst.h.
 *
 * Link, slot and answer of connection n are number n of each, in every round; the slots are used again. The answers
 * are made of the records when the round is over; heads are lent from the links.
 */
#include "load/herd/burst.h"

#include "load/base/clock.h"
#include "load/base/net.h"
#include "load/base/rank.h"
#include "load/base/text.h"
#include "load/herd/generator.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SPARE_FILES = 64,        /* descriptors the rest of the program may need */
    PER_SOURCE_COUNT = 8000, /* connections from one address: well below the number of ephemeral ports */
};

static const uint64_t FNV_BEGIN = 0xcbf29ce484222325U, FNV_PRIME = 0x100000001b3U;

struct body {
    uint64_t hash;
    bool is_kept;
    struct text text;
};

struct burst {
    struct burst_options options;
    struct work work;
    struct herd_shared shared;
    struct herd_job job;
    struct generator generator;
    struct body *bodies;          /* owned, connection_count, like the answers */
    struct burst_answer *answers; /* owned */
    size_t event_next;            /* events are taken in the order given */
    char path[BURST_PATH_BYTES];  /* of the request that is being written */
};

/* ---- opening and closing ---- */

static bool options_are_right(const struct burst_options *options)
{
    const char *wrong = NULL;
    if (options->connection_count == 0 || options->connection_count > BURST_MAX_CONNECTIONS)
        wrong = "connection_count is not within 1..25000";
    else if (options->target_count == 0)
        wrong = "no targets";
    else if (options->target_count > WORK_TARGETS_MAX)
        wrong = "more than 32 targets";
    else if (options->path == NULL && options->path_of == NULL)
        wrong = "neither path nor path_of";
    else if (options->path != NULL && strlen(options->path) >= BURST_PATH_BYTES)
        wrong = "a path longer than 511 bytes";
    else if (options->connect_limit_ms == 0 || options->request_limit_ms == 0)
        wrong = "a limit of 0 ms";
    else if (options->leave_count > options->connection_count)
        wrong = "leave_count is more than connection_count";
    else if (!net_raise_file_limit(options->connection_count + SPARE_FILES))
        wrong = "the limit of open files (ulimit -n) is too low for so many connections";
    if (wrong != NULL)
        fprintf(stderr, "burst: %s\n", wrong);
    return wrong == NULL;
}

static const char *path_of(void *context, uint32_t slot)
{
    struct burst *burst = context;
    if (burst->options.path_of == NULL)
        return burst->options.path;
    burst->options.path_of(burst->options.path_context, slot, burst->path);
    return burst->path;
}

static void on_body(void *context, const char *bytes, size_t count)
{
    struct body *body = context;
    for (size_t i = 0; i < count; i++)
        body->hash = (body->hash ^ (unsigned char)bytes[i]) * FNV_PRIME;
    if (body->is_kept)
        text_add(&body->text, bytes, count);
}

static bool work_of(const struct burst_options *options, struct work *work)
{
    work_init(work);
    work->connection_count = options->connection_count;
    work->connect_limit_ms = options->connect_limit_ms;
    work->request_limit_ms = options->request_limit_ms;
    work->leave_ms = options->leave_ms;
    work->generator_count = 1;
    work->source_count = 1 + options->connection_count / PER_SOURCE_COUNT;
    work->target_count = options->target_count;
    work->ca_file = options->ca_file;
    work->is_insecure = options->is_insecure;
    for (size_t i = 0; options->whole_targets != NULL && i < options->target_count; i++)
        work->targets[i] = *options->whole_targets[i];
    for (size_t i = 0; options->whole_targets == NULL && i < options->target_count; i++) {
        const struct burst_target *target = &options->targets[i];
        struct work_target *to = &work->targets[i];
        snprintf(to->name, sizeof to->name, "%s:%u", target->host, (unsigned)target->port);
        if (!net_address_init(&to->address, target->host, target->port)) {
            fprintf(stderr, "burst: not a numeric address: %s\n", target->host);
            return false;
        }
    }
    return true;
}

static bool burst_init(struct burst *burst, const struct burst_options *options)
{
    uint32_t count = options->connection_count;
    burst->options = *options;
    burst->job = (struct herd_job){.work = &burst->work,
                                   .shared = &burst->shared,
                                   .bell = -1,
                                   .slot_count = count,
                                   .records = calloc(count, sizeof *burst->job.records),
                                   .late_us = calloc(count, sizeof *burst->job.late_us)};
    burst->bodies = calloc(count, sizeof *burst->bodies);
    burst->answers = calloc(count, sizeof *burst->answers);
    if (burst->job.records == NULL || burst->job.late_us == NULL || burst->bodies == NULL ||
        burst->answers == NULL || !work_of(options, &burst->work))
        return false;
    burst->generator.hooks =
        (struct generator_hooks){.path_of = path_of, .context = burst, .leave_count = options->leave_count};
    if (!generator_init(&burst->generator, &burst->job))
        return false;
    for (uint32_t i = 0; i < count; i++)
        http_parse_init(&burst->generator.links[i].parse, on_body, &burst->bodies[i]);
    return true;
}

/* Forgets the round before. */
static void place_all(struct burst *burst)
{
    struct generator *generator = &burst->generator;
    generator->taken = generator->oldest = 0;
    for (uint32_t i = 0; i < generator->link_count; i++) {
        struct link *link = &generator->links[i];
        burst->job.records[i] =
            (struct record){.outcome = RECORD_UNSENT, .target = (uint8_t)(i % burst->options.target_count)};
        burst->bodies[i].hash = FNV_BEGIN;
        burst->bodies[i].is_kept = burst->options.keeps_bodies;
        text_empty(&burst->bodies[i].text);
        if (link->state == LINK_IDLE)
            link_read(generator, link); /* the server may have closed it: that is heard without waiting */
        round_place(generator, link, i);
    }
}

/* True: everybody has a connection. */
static bool connect_all(struct burst *burst)
{
    struct generator *generator = &burst->generator;
    place_all(burst);
    round_connect(generator);
    uint32_t connected = generator->open_count - generator->connecting.count;
    if (connected == generator->link_count)
        return true;
    fprintf(stderr, "burst: %" PRIu32 " of %" PRIu32 " connected; the others: %s\n", connected,
            generator->link_count, strerror(generator->connect_error));
    return false;
}

bool burst_open(const struct burst_options *options, struct burst **out)
{
    if (!options_are_right(options))
        return false;
    struct burst *burst =
        aligned_alloc(_Alignof(struct burst), sizeof *burst); /* its post is one cache line's */
    if (burst == NULL)
        return false;
    memset(burst, 0, sizeof *burst);
    if (!burst_init(burst, options) || !connect_all(burst)) {
        burst_close(&burst);
        return false;
    }
    *out = burst;
    return true;
}

void burst_close(struct burst **burst)
{
    struct burst *closing = *burst;
    *burst = NULL;
    if (closing == NULL)
        return;
    generator_clear(&closing->generator);
    for (uint32_t i = 0; closing->bodies != NULL && i < closing->options.connection_count; i++)
        text_clear(&closing->bodies[i].text);
    free(closing->bodies);
    free(closing->answers);
    free(closing->job.records);
    free(closing->job.late_us);
    free(closing);
}

/* ---- a round ---- */

/* Runs what is due and returns when the next event will be. */
static uint64_t run_events(struct burst *burst, uint64_t written_us)
{
    for (; burst->event_next < burst->options.event_count; burst->event_next++) {
        const struct burst_event *event = &burst->options.events[burst->event_next];
        uint64_t at_us = written_us + (uint64_t)event->after_ms * 1000;
        if (at_us > clock_us())
            return at_us;
        event->run(event->context);
    }
    return UINT64_MAX;
}

/* The events still to come are run, too: who orders a server stopped and continued gets both. */
static void read_all(struct burst *burst)
{
    uint64_t written_us = clock_us();
    for (;;) {
        uint64_t next_us = run_events(burst, written_us);
        if (burst->generator.unended == 0 && burst->event_next == burst->options.event_count)
            return;
        generator_turn(&burst->generator, next_us);
    }
}

static uint64_t instant_of(const struct record *record, uint32_t since_due_us)
{
    return since_due_us > 0 ? record->due_us + since_due_us : 0;
}

static void take_answers(struct burst *burst)
{
    for (uint32_t i = 0; i < burst->options.connection_count; i++) {
        const struct record *record = &burst->job.records[i];
        const struct http_parse *parse = &burst->generator.links[i].parse;
        if (burst->options.keeps_bodies)
            text_add(&burst->bodies[i].text, NULL, 0);
        burst->answers[i] = (struct burst_answer){.outcome = (enum record_outcome)record->outcome,
                                                  .status = record->status,
                                                  .sent_us = instant_of(record, record->sent_us),
                                                  .first_us = instant_of(record, record->first_us),
                                                  .end_us = instant_of(record, record->end_us),
                                                  .body_bytes = record->sent_us > 0 ? parse->body_bytes : 0,
                                                  .body_hash = burst->bodies[i].hash,
                                                  .head = record->status > 0 ? parse->head : NULL,
                                                  .body = burst->bodies[i].text.bytes};
    }
}

bool burst_run(struct burst *burst)
{
    burst->event_next = 0;
    connect_all(burst);
    round_ask(&burst->generator, clock_us());
    read_all(burst);
    take_answers(burst);
    return true;
}

uint64_t burst_waiting(const struct burst *burst)
{
    const struct herd_post *post = &burst->shared.posts[0];
    uint64_t over = atomic_load(&post->answered) + atomic_load(&post->failed);
    uint64_t due = atomic_load(&post->due);
    return due > over ? due - over : 0;
}

/* ---- results ---- */

const struct burst_answer *burst_answers(const struct burst *burst)
{
    return burst->answers;
}

const char *burst_header(const struct burst_answer *answer, const char *name, char *value, size_t value_bytes)
{
    return http_parse_value(answer->head, name, value, value_bytes);
}

static uint32_t count_different(uint64_t *values, size_t count)
{
    uint32_t different = 0;
    rank_sort(values, count);
    for (size_t i = 0; i < count; i++)
        different += i == 0 || values[i] != values[i - 1];
    return different;
}

static void summarise_times(const struct burst *burst, uint64_t *values, struct burst_summary *out)
{
    size_t count = 0;
    uint64_t first_us = UINT64_MAX, last_us = 0;
    for (uint32_t i = 0; i < out->requests; i++) {
        const struct burst_answer *answer = &burst->answers[i];
        if (answer->outcome != RECORD_ANSWERED)
            continue;
        values[count++] = answer->end_us - answer->sent_us;
        first_us = answer->sent_us < first_us ? answer->sent_us : first_us;
        last_us = answer->end_us > last_us ? answer->end_us : last_us;
    }
    rank_sort(values, count);
    out->p50_us = rank_percentile(values, count, 50);
    out->p99_us = rank_percentile(values, count, 99);
    out->max_us = rank_percentile(values, count, 100);
    out->span_us = count > 0 ? last_us - first_us : 0;
}

void burst_summarise(const struct burst *burst, struct burst_summary *out)
{
    size_t ok_count = 0;
    *out = (struct burst_summary){.requests = burst->options.connection_count};
    uint64_t *values = calloc(out->requests, sizeof *values);
    if (values == NULL)
        abort();
    for (uint32_t i = 0; i < out->requests; i++) {
        const struct burst_answer *answer = &burst->answers[i];
        out->outcomes[answer->outcome]++;
        out->statuses[answer->status < 600 ? answer->status : 0]++;
        if (answer->status == 200)
            values[ok_count++] = answer->body_hash;
    }
    out->bodies = count_different(values, ok_count);
    summarise_times(burst, values, out);
    free(values);
}
