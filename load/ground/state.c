/* SPDX-License-Identifier: MIT */
/* state.c - see state.h. */
#include "load/ground/state.h"

#include "load/base/clock.h"
#include "load/base/http_parse.h"
#include "load/base/net.h"
#include "load/base/text.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { AGAIN_MS = 100, CONNECT_LIMIT_MS = 1000, LINE_BYTES_MAX = 65536 };

/* One stream. */
struct stream {
    struct reader *reader;
    struct text line; /* what is there of it */
};

static void keep(struct reader *reader, const char *line, size_t count)
{
    json_t *sample = json_loadb(line, count, 0, NULL);
    if (!json_is_object(sample)) {
        json_decref(sample);
        return;
    }
    pthread_mutex_lock(&reader->lock);
    json_decref(reader->sample);
    reader->sample = sample;
    reader->sample_us = clock_us();
    pthread_mutex_unlock(&reader->lock);
}

static void take_bytes(void *context, const char *bytes, size_t count)
{
    struct stream *stream = context;
    while (count > 0) {
        const char *end = memchr(bytes, '\n', count);
        size_t part = end != NULL ? (size_t)(end - bytes) : count;
        if (stream->line.count + part > LINE_BYTES_MAX)
            text_empty(&stream->line);
        text_add(&stream->line, bytes, part);
        if (end == NULL)
            return;
        keep(stream->reader, stream->line.bytes, stream->line.count);
        text_empty(&stream->line);
        bytes += part + 1;
        count -= part + 1;
    }
}

/* True: bytes or the end can be read; false: the reader is to end. */
static bool wait_readable(int fd, int end_fd)
{
    struct pollfd fds[2] = {{.fd = fd, .events = POLLIN}, {.fd = end_fd, .events = POLLIN}};
    while (poll(fds, 2, -1) == -1 && errno == EINTR)
        ;
    return fds[1].revents == 0;
}

static void follow(struct reader *reader, int fd)
{
    char request[128], bytes[8192];
    struct stream stream = {.reader = reader};
    struct http_parse parse;
    http_parse_init(&parse, take_bytes, &stream);
    int length =
        snprintf(request, sizeof request, "GET /live?every_ms=%d HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n\r\n",
                 READER_EVERY_MS, (unsigned)reader->port);
    ssize_t got = send(fd, request, (size_t)length, MSG_NOSIGNAL);
    while (got > 0 && parse.state != HTTP_PARSE_DONE && parse.state != HTTP_PARSE_BAD &&
           wait_readable(fd, reader->ticker.end_fd)) {
        got = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (got > 0)
            http_parse_feed(&parse, bytes, (size_t)got);
        else if (got < 0 && errno == EAGAIN)
            got = 1;
    }
    http_parse_clear(&parse);
    text_clear(&stream.line);
}

static void read_on(void *context, bool is_last)
{
    struct reader *reader = context;
    int fd = is_last ? -1 : net_connect_by("127.0.0.1", reader->port, clock_after_ms(CONNECT_LIMIT_MS));
    if (fd == -1)
        return;
    follow(reader, fd);
    close(fd);
}

/* False: no thread. */
static bool reader_open(struct reader *reader, uint16_t port)
{
    memset(reader, 0, sizeof *reader);
    reader->port = port;
    pthread_mutex_init(&reader->lock, NULL);
    return ticker_start(&reader->ticker, AGAIN_MS, read_on, reader);
}

/* Accepts one that is all zeros. */
static void reader_close(struct reader *reader)
{
    ticker_join(&reader->ticker);
    json_decref(reader->sample);
    reader->sample = NULL;
}

/* A copy of the last sample, yours; NULL: none. *age_ms: how old it is. */
static json_t *reader_take(struct reader *reader, uint64_t *age_ms)
{
    pthread_mutex_lock(&reader->lock);
    json_t *sample = json_deep_copy(reader->sample); /* jansson's counts are for one thread at a time */
    *age_ms = reader->sample != NULL ? (clock_us() - reader->sample_us) / 1000 : 0;
    pthread_mutex_unlock(&reader->lock);
    return sample;
}

enum { LEASES_MAX = 6 };

/* ---- the line ---- */

static json_t *health_of(const struct site_look *look, enum deed_party party)
{
    uint64_t now_us = clock_us(), back_us = look->back_us[party];
    return json_pack("{s:s,s:I}", "health", deed_health_name(look->health[party]), "back_ms",
                     (json_int_t)(back_us > now_us ? (back_us - now_us) / 1000 : 0));
}

static json_t *process_json(struct ground *ground, const struct site_look *look, size_t index,
                            json_t **sample)
{
    char address[32], view[32];
    uint64_t age_ms;
    json_t *process = health_of(look, (enum deed_party)index);
    *sample = reader_take(&ground->readers[index], &age_ms);
    snprintf(address, sizeof address, "127.0.0.1:%u", (unsigned)ground->site.ports[index]);
    snprintf(view, sizeof view, "127.0.0.1:%u", (unsigned)ground->site.ops_ports[index]);
    json_object_set_new(process, "name", json_string(deed_party_name((enum deed_party)index)));
    json_object_set_new(process, "address", json_string(address));
    json_object_set_new(process, "view", json_string(view));
    json_object_set_new(process, "age_ms", json_integer((json_int_t)age_ms));
    if (*sample != NULL)
        json_object_set(process, "sample", *sample);
    else
        json_object_set_new(process, "sample", json_null());
    return process;
}

static const char *holder_name(const struct site_look *look, pid_t pid)
{
    for (size_t i = 0; i < DEED_PROCESSES; i++) {
        if (look->last_pids[i] == pid)
            return deed_party_name((enum deed_party)i);
    }
    return "another process";
}

static bool has_key(const json_t *leases, const char *key)
{
    size_t index;
    json_t *lease;
    json_array_foreach(leases, index, lease)
    {
        if (strcmp(json_string_value(json_object_get(lease, "key")), key) == 0)
            return true;
    }
    return false;
}

static void add_lease(struct state *state, const struct site_look *look, const char *key, json_t *leases)
{
    struct shelf_lease seen;
    if (json_array_size(leases) == LEASES_MAX || has_key(leases, key) ||
        !shelf_look(state->shelf, key, &seen))
        return;
    json_array_append_new(leases, json_pack("{s:s,s:s,s:I,s:I}", "key", key, "process",
                                            holder_name(look, seen.pid), "left_ms", (json_int_t)seen.left_ms,
                                            "lease_ms", (json_int_t)seen.lease_ms));
}

/* That of the product, and of what the processes say that they load. */
static json_t *leases_json(struct state *state, const struct site_look *look, json_t *samples[DEED_PROCESSES])
{
    json_t *leases = json_array(), *load;
    add_lease(state, look, SITE_KEY, leases);
    for (size_t i = 0; i < DEED_PROCESSES; i++) {
        const json_t *running = json_object_get(samples[i], "running");
        size_t index;
        json_array_foreach(running, index, load)
        {
            const char *key = json_string_value(json_object_get(load, "key"));
            if (key != NULL && index < LEASES_MAX)
                add_lease(state, look, key, leases);
        }
    }
    return leases;
}

static json_t *processes_json(struct state *state, const struct site_look *look, json_t **leases)
{
    json_t *processes = json_array(), *samples[DEED_PROCESSES] = {NULL};
    for (size_t i = 0; i < DEED_PROCESSES; i++)
        json_array_append_new(processes, process_json(state->ground, look, i, &samples[i]));
    *leases = leases_json(state, look, samples);
    for (size_t i = 0; i < DEED_PROCESSES; i++)
        json_decref(samples[i]);
    return processes;
}

static json_t *servers_json(struct ground *ground, const struct site_look *look, json_t *into)
{
    struct site *site = &ground->site;
    json_t *redis = health_of(look, DEED_REDIS), *postgres = health_of(look, DEED_POSTGRES);
    json_object_set_new(postgres, "queries", json_integer((json_int_t)site_queries(site)));
    json_object_set_new(into, "redis", redis);
    json_object_set_new(into, "postgres", postgres);
    return into;
}

static json_t *state_json(struct state *state)
{
    struct ground *ground = state->ground;
    struct site_look look;
    json_t *leases = NULL;
    site_look_at(&ground->site, &look);
    json_t *all = json_pack("{s:i,s:I,s:s,s:I,s:I,s:s,s:{s:I}}", "v", 1, "at_ms",
                            (json_int_t)(clock_wall_us() / 1000), "mode", look.mode, "delay_ms",
                            (json_int_t)look.delay_ms, "per_second", (json_int_t)look.per_second, "key",
                            SITE_KEY, "clients", "waiting", (json_int_t)site_waiting(&ground->site));
    json_object_set_new(all, "processes", processes_json(state, &look, &leases));
    json_object_set_new(all, "leases", leases);
    servers_json(ground, &look, all);
    json_t *jobs = jobs_json(&ground->jobs);
    json_object_update(all, jobs);
    json_decref(jobs);
    json_object_set_new(all, "story", story_json(&ground->story));
    return all;
}

/* ---- publishing ---- */

static char *make_line(struct state *state)
{
    json_t *all = state_json(state);
    char *text = json_dumps(all, JSON_COMPACT);
    json_decref(all);
    return text;
}

static void tick(void *context, bool is_last)
{
    struct state *state = context;
    pthread_mutex_lock(&state->lock);
    bool is_read = state->readers > 0 && !is_last;
    pthread_mutex_unlock(&state->lock);
    char *line = is_read ? make_line(state) : NULL;
    if (line == NULL)
        return;
    pthread_mutex_lock(&state->lock);
    free(state->line);
    state->line = line;
    state->number++;
    pthread_cond_broadcast(&state->changed);
    pthread_mutex_unlock(&state->lock);
}

bool state_open(struct state *state, struct ground *ground)
{
    memset(state, 0, sizeof *state);
    state->ground = ground;
    state->shelf = shelf_open(ground->site.servers.redis.socket_url, ground->site.name_space);
    pthread_mutex_init(&state->lock, NULL);
    pthread_cond_init(&state->changed, NULL);
    for (size_t i = 0; i < DEED_PROCESSES; i++) {
        if (!reader_open(&ground->readers[i], ground->site.ops_ports[i]))
            return false;
    }
    return ticker_start(&state->ticker, STATE_EVERY_MS, tick, state);
}

void state_close(struct state *state)
{
    ticker_join(&state->ticker);
    for (size_t i = 0; state->ground != NULL && i < DEED_PROCESSES; i++)
        reader_close(&state->ground->readers[i]);
    shelf_close(&state->shelf);
    free(state->line);
    state->line = NULL;
}

bool state_read(struct state *state, bool begins)
{
    pthread_mutex_lock(&state->lock);
    bool may = !begins || state->readers < STATE_READERS;
    if (may)
        state->readers += begins ? 1 : (uint32_t)-1;
    pthread_mutex_unlock(&state->lock);
    return may;
}

bool state_wait(struct state *state, uint64_t *number, uint32_t limit_ms, struct text *out)
{
    struct timespec end;
    int error = 0;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += limit_ms / 1000;
    pthread_mutex_lock(&state->lock);
    while (state->number <= *number && error == 0)
        error = pthread_cond_timedwait(&state->changed, &state->lock, &end);
    bool any = state->number > *number;
    if (any) {
        text_add_line(out, state->line);
        text_add(out, "\n", 1);
        *number = state->number;
    }
    pthread_mutex_unlock(&state->lock);
    return any;
}
