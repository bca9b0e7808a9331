/* SPDX-License-Identifier: MIT */
/* generator_ask.c - requests and answers, their bytes and their records; see generator.h. */
#include "load/base/clock.h"
#include "load/herd/generator.h"
#include "load/herd/record.h"
#include "load/herd/tls.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what all requests to a target have in common ---- */

/* RFC 9110, 8.6: methods that usually have a body say that there is none. */
static bool wants_length(const char *method)
{
    return strcmp(method, "POST") == 0 || strcmp(method, "PUT") == 0 || strcmp(method, "PATCH") == 0;
}

static bool ending_init(struct generator *generator, size_t target)
{
    const struct work *work = generator->work;
    bool names_host = !work_names_host(work);
    return asprintf(&generator->endings[target], " HTTP/1.1\r\n%s%s%s%s%s%s\r\n", names_host ? "Host: " : "",
                    names_host ? work->targets[target].name : "", names_host ? "\r\n" : "",
                    work->keeps_alive ? "" : "Connection: close\r\n",
                    wants_length(work->method) ? "Content-Length: 0\r\n" : "", work->headers) != -1;
}

/* Shows what a request that is, or will be, in the samples got. */
static void show_sample(struct generator *generator, const struct link *link, enum record_outcome outcome,
                        const char *bytes, size_t count)
{
    uint16_t status = outcome == RECORD_ANSWERED ? link->parse.status : 0;
    struct record_sample *sample = NULL;
    if (generator->job->samples != NULL && record_is_sampled(outcome, status))
        sample = record_samples_take(generator->job->samples, link->slot, outcome, status);
    if (sample != NULL)
        record_sample_add(sample, bytes, count);
}

static void on_body(void *context, const char *bytes, size_t count)
{
    struct link *link = context;
    struct generator *generator = link->generator;
    if (generator->work->version_after[0] != '\0')
        version_seek_feed(&link->seek, &generator->version_text, bytes, count);
    if (link->parse.status >= 400 && link->parse.status < 600)
        show_sample(generator, link, RECORD_ANSWERED, bytes, count);
}

bool ask_init(struct generator *generator)
{
    const struct work *work = generator->work;
    _Static_assert(WORK_METHOD_BYTES + WORK_PATH_BYTES + WORK_HEADERS_BYTES + 512 < GENERATOR_REQUEST_BYTES,
                   "any request fits");
    generator->is_head = strcmp(work->method, "HEAD") == 0;
    if (work->version_after[0] != '\0')
        version_text_init(&generator->version_text, work->version_after);
    for (uint32_t i = 0; i < generator->link_count; i++) {
        struct link *link = &generator->links[i];
        link->generator = generator;
        http_parse_init(&link->parse, on_body, link);
    }
    for (size_t i = 0; i < work->target_count; i++) {
        if (!ending_init(generator, i))
            return false;
    }
    return true;
}

/* ---- records ---- */

static void add_one(_Atomic uint64_t *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* 0 means never, so the least is 1. */
static uint32_t since_due(const struct record *record, uint64_t now_us)
{
    uint64_t us = now_us - record->due_us;
    if (us == 0)
        return 1;
    return us < UINT32_MAX ? (uint32_t)us : UINT32_MAX;
}

void record_choose(struct generator *generator, uint32_t slot)
{
    struct work_choice choice = work_choose(&generator->chooser);
    generator->job->records[slot] = (struct record){
        .key = choice.key,
        .url = choice.url,
        .target = choice.target,
        .generator = (uint8_t)generator->job->index,
        .outcome = RECORD_UNSENT, /* if nothing more happens */
    };
}

void record_due(struct generator *generator, uint32_t slot, uint64_t due_us)
{
    generator->job->records[slot].due_us = due_us;
    generator->taken++;
    generator->unended++;
    add_one(&generator->post->due);
}

static void keep_sample(struct generator *generator, uint32_t slot)
{
    const struct record *record = &generator->job->records[slot];
    enum record_outcome outcome = (enum record_outcome)record->outcome;
    struct record_samples *samples = generator->job->samples;
    bool has_error = outcome == RECORD_REFUSED || outcome == RECORD_RESET;
    if (samples == NULL || !record_is_sampled(outcome, record->status))
        return;
    struct record_sample *sample = record_samples_take(samples, slot, outcome, record->status);
    if (sample == NULL)
        return;
    sample->error = has_error ? generator->error : 0;
    sample->record = *record;
}

void record_end(struct generator *generator, uint32_t slot, enum record_outcome outcome)
{
    struct record *record = &generator->job->records[slot];
    record->end_us = since_due(record, clock_us());
    record->outcome = (uint8_t)outcome;
    keep_sample(generator, slot);
    generator->places[slot] = SLOT_OVER;
    generator->unended--;
    if (outcome == RECORD_ANSWERED)
        add_one(&generator->post->answered);
    else if (outcome != RECORD_LEFT)
        add_one(&generator->post->failed);
    if (outcome == RECORD_ANSWERED && record->status >= 500)
        add_one(&generator->post->errors_5xx);
}

/* ---- asking ---- */

static bool asks_for_head(const struct generator *generator, const struct record *record)
{
    const struct work_url *url = &generator->work->urls[record->url];
    return generator->is_head || (url->keys == WORK_SCRIPT && url->script->requests[record->key].is_head);
}

static size_t write_request(struct generator *generator, uint32_t slot)
{
    const struct record *record = &generator->job->records[slot];
    const struct generator_hooks *hooks = &generator->hooks;
    const char *method = asks_for_head(generator, record) ? "HEAD" : generator->work->method;
    char *end = stpcpy(stpcpy(generator->request, method), " ");
    if (hooks->path_of != NULL)
        end = stpcpy(end, hooks->path_of(hooks->context, slot));
    else
        end += work_path(&generator->work->urls[record->url], record->key, end);
    return (size_t)(stpcpy(end, generator->endings[record->target]) - generator->request);
}

/* Exactly leave_percent of a hundred, evenly spread. */
static bool is_to_leave(struct generator *generator, uint32_t slot)
{
    if (slot < generator->hooks.leave_count)
        return true;
    generator->leave_hundredths += generator->work->leave_percent;
    if (generator->leave_hundredths < 100)
        return false;
    generator->leave_hundredths -= 100;
    return true;
}

void link_ask(struct generator *generator, struct link *link)
{
    struct record *record = &generator->job->records[link->slot];
    size_t count = write_request(generator, link->slot);
    bool leaves = is_to_leave(generator, link->slot);
    uint64_t now_us = clock_us();
    link->state = LINK_ASKED;
    link->until_us = now_us + (uint64_t)generator->work->leave_ms * 1000;
    link_move(link, leaves ? &generator->leaving : NULL);
    link->seek = (struct version_seek){.matched = 0};
    http_parse_next(&link->parse, asks_for_head(generator, record));
    generator->places[link->slot] = (uint32_t)(link - generator->links);
    record->sent_us = since_due(record, now_us);
    record->connect_us = link->connect_us;
    link->connect_us = 0;
    record->outcome = RECORD_CUT; /* if nothing more happens */
    add_one(&generator->post->sent);
    /* A request is far smaller than a socket's buffer, so it goes out whole or the connection is gone. */
    ssize_t sent = tls_send(link->tls, link->fd, generator->request, count);
    if (sent == (ssize_t)count)
        return;
    generator->error = sent == -1 ? errno : 0;
    link_fail(generator, link, RECORD_RESET);
}

/* ---- answers ---- */

static uint32_t no_more_than_fits(uint64_t bytes)
{
    return bytes < UINT32_MAX ? (uint32_t)bytes : UINT32_MAX;
}

static void link_finish(struct generator *generator, struct link *link, bool is_clean)
{
    struct record *record = &generator->job->records[link->slot];
    record->status = link->parse.status;
    record->cache = (uint8_t)cache_status_read(link->parse.head);
    record->body_bytes = no_more_than_fits(link->parse.body_bytes);
    record->version = link->seek.version;
    record_end(generator, link->slot, RECORD_ANSWERED);
    link->slot = SLOT_NONE;
    if (is_clean && link->parse.keeps_alive && generator->work->keeps_alive) {
        link->state = LINK_IDLE;
        link_move_first(link, &generator->idle[link->target]);
    } else {
        link_drop(generator, link);
    }
    generator->shape->freed(generator, link);
}

void link_fail(struct generator *generator, struct link *link, enum record_outcome outcome)
{
    record_end(generator, link->slot, outcome);
    link->slot = SLOT_NONE;
    link_drop(generator, link);
    generator->shape->freed(generator, link);
}

/* Bytes are there, and they do not begin like a response, or its status is none. */
static bool is_rubbish(const struct http_parse *parse)
{
    static const char begin[] = "HTTP/";
    size_t count = parse->head_bytes < sizeof begin - 1 ? parse->head_bytes : sizeof begin - 1;
    return parse->state == HTTP_PARSE_BAD || parse->status > 599 ||
           (parse->state == HTTP_PARSE_HEAD && count > 0 && memcmp(parse->head, begin, count) != 0);
}

static void link_take(struct generator *generator, struct link *link, size_t count)
{
    struct record *record = &generator->job->records[link->slot];
    if (record->first_us == 0)
        record->first_us = since_due(record, clock_us());
    record->received_bytes = no_more_than_fits((uint64_t)record->received_bytes + count);
    size_t used = http_parse_feed(&link->parse, generator->buffer, count);
    if (is_rubbish(&link->parse)) {
        show_sample(generator, link, RECORD_RUBBISH, link->parse.head, link->parse.head_bytes);
        link_fail(generator, link, RECORD_RUBBISH);
    } else if (link->parse.state == HTTP_PARSE_DONE)
        link_finish(generator, link, used == count);
}

/* In order or not: only an orderly end completes a body that ends with the connection. */
static void link_closed(struct generator *generator, struct link *link, bool is_orderly)
{
    if (is_orderly && link->parse.state == HTTP_PARSE_UNTIL_CLOSE) {
        http_parse_end(&link->parse);
        link_finish(generator, link, false);
        return;
    }
    link_fail(generator, link, RECORD_RESET);
}

static void read_some(struct generator *generator, struct link *link)
{
    ssize_t count = tls_receive(link->tls, link->fd, generator->buffer, GENERATOR_READ_BYTES);
    if (count == -1 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return;
    generator->error = count == -1 ? errno : 0;
    if (link->state == LINK_IDLE) { /* closed, or an answer to nothing */
        link_drop(generator, link);
        generator->shape->failed(generator, link, RECORD_RESET);
    } else if (count > 0) {
        link_take(generator, link, (size_t)count);
    } else {
        link_closed(generator, link, count == 0);
    }
}

void link_read(struct generator *generator, struct link *link)
{
    uint32_t serial = link->serial;
    do
        read_some(generator, link);
    while (link->serial == serial && link->state != LINK_NONE && tls_has_more(link->tls));
}
