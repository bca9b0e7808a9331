/* SPDX-License-Identifier: MIT */
/* state.c - see state.h. */
#include "load/ground/state.h"

#include "load/base/clock.h"
#include "load/base/text.h"
#include "load/stack/stack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One that stands still keeps its reader waiting for READER_LIMIT_MS, and so whoever closes the page. */
static void read_on(void *context, bool is_last)
{
    static const char *const names[READER_FIGURES] = {
        [READER_WAITERS] = "guard_waiters",
        [READER_RUNNING] = "guard_loads_running",
        [READER_QUEUED] = "guard_loads_queued",
    };
    struct reader *reader = context;
    const struct stack_catalogd catalogd = {.ops_port = reader->port};
    double said[READER_FIGURES];
    if (is_last || !stack_catalogd_metrics(&catalogd, READER_LIMIT_MS, READER_FIGURES, names, said))
        return;
    pthread_mutex_lock(&reader->lock);
    memcpy(reader->said, said, sizeof said);
    reader->said_us = clock_us();
    pthread_mutex_unlock(&reader->lock);
}

/* False: no thread. */
static bool reader_open(struct reader *reader, uint16_t port)
{
    memset(reader, 0, sizeof *reader);
    reader->port = port;
    reader->said_us = clock_us();
    pthread_mutex_init(&reader->lock, NULL);
    return ticker_start(&reader->ticker, READER_EVERY_MS, read_on, reader);
}

/* ---- the line ---- */

static json_t *health_of(const struct site_look *look, enum deed_party party)
{
    uint64_t now_us = clock_us(), back_us = look->back_us[party];
    return json_pack("{s:s,s:I}", "health", deed_health_name(look->health[party]), "back_ms",
                     (json_int_t)(back_us > now_us ? (back_us - now_us) / 1000 : 0));
}

static json_t *process_json(struct ground *ground, const struct site_look *look, size_t index)
{
    char address[32], view[32];
    struct reader *reader = &ground->readers[index];
    json_t *process = health_of(look, (enum deed_party)index);
    snprintf(address, sizeof address, "127.0.0.1:%u", (unsigned)ground->site.ports[index]);
    snprintf(view, sizeof view, "127.0.0.1:%u", (unsigned)ground->site.ops_ports[index]);
    pthread_mutex_lock(&reader->lock);
    json_t *more = json_pack(
        "{s:s,s:s,s:s,s:I,s:I,s:I,s:I}", "name", deed_party_name((enum deed_party)index), "address", address,
        "view", view, "age_ms", (json_int_t)((clock_us() - reader->said_us) / 1000), "waiters",
        (json_int_t)reader->said[READER_WAITERS], "running", (json_int_t)reader->said[READER_RUNNING],
        "queued", (json_int_t)reader->said[READER_QUEUED]);
    pthread_mutex_unlock(&reader->lock);
    json_object_update(process, more);
    json_decref(more);
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

static json_t *lease_json(struct state *state, const struct site_look *look)
{
    struct shelf_lease seen;
    if (!shelf_look(&state->shelf, SITE_KEY, &seen))
        return json_null();
    return json_pack("{s:s,s:I,s:I}", "process", holder_name(look, seen.pid), "left_ms",
                     (json_int_t)seen.left_ms, "lease_ms", (json_int_t)seen.lease_ms);
}

static json_t *processes_json(struct ground *ground, const struct site_look *look)
{
    json_t *processes = json_array();
    for (size_t i = 0; i < DEED_PROCESSES; i++)
        json_array_append_new(processes, process_json(ground, look, i));
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
    site_look_at(&ground->site, &look);
    json_t *all = json_pack("{s:i,s:I,s:s,s:I,s:I,s:s,s:{s:I}}", "v", 1, "at_ms",
                            (json_int_t)(clock_wall_us() / 1000), "mode", look.mode, "delay_ms",
                            (json_int_t)look.delay_ms, "per_second", (json_int_t)look.per_second, "key",
                            SITE_KEY, "clients", "waiting", (json_int_t)site_waiting(&ground->site));
    json_object_set_new(all, "processes", processes_json(ground, &look));
    json_object_set_new(all, "lease", lease_json(state, &look));
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
    shelf_open(&state->shelf, &ground->site);
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
        ticker_join(&state->ground->readers[i].ticker);
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
    const uint64_t end_us = clock_after_ms(limit_ms);
    pthread_mutex_lock(&state->lock);
    while (state->number <= *number && clock_wait(&state->changed, &state->lock, end_us))
        ;
    bool any = state->number > *number;
    if (any) {
        text_add_line(out, state->line);
        text_add(out, "\n", 1);
        *number = state->number;
    }
    pthread_mutex_unlock(&state->lock);
    return any;
}
