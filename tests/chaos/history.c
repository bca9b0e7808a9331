/* SPDX-License-Identifier: MIT */
/* history.c - see history.h. */
#include "tests/chaos/history.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 1024 };

/* Room for one more item of item_bytes. */
static void *grow(void *items, size_t count, size_t *capacity, size_t item_bytes)
{
    if (count < *capacity)
        return items;
    *capacity = *capacity == 0 ? FIRST_CAPACITY : *capacity * 2;
    items = realloc(items, *capacity * item_bytes);
    if (items == NULL)
        abort();
    return items;
}

#define APPEND(history, list, item)                                                                          \
    do {                                                                                                     \
        (history)->list.items = grow((history)->list.items, (history)->list.count,                           \
                                     &(history)->list.capacity, sizeof *(history)->list.items);              \
        (history)->list.items[(history)->list.count++] = *(item);                                            \
    } while (0)

#define ADD(history, list, item)                                                                             \
    do {                                                                                                     \
        pthread_mutex_lock(&(history)->mutex);                                                               \
        APPEND(history, list, item);                                                                         \
        pthread_mutex_unlock(&(history)->mutex);                                                             \
    } while (0)

void history_init(struct history *history)
{
    *history = (struct history){.calm_us = 0};
    pthread_mutex_init(&history->mutex, NULL);
}

void history_clear(struct history *history)
{
    free(history->gets.items);
    free(history->edits.items);
    free(history->invalidations.items);
    free(history->loads.items);
    free(history->faults.items);
    free(history->stalls.items);
    pthread_mutex_destroy(&history->mutex);
}

void history_add_get(struct history *history, const struct history_get *get)
{
    ADD(history, gets, get);
}

void history_add_edit(struct history *history, const struct history_edit *edit)
{
    ADD(history, edits, edit);
}

void history_add_invalidation(struct history *history, const struct history_invalidation *invalidation)
{
    ADD(history, invalidations, invalidation);
}

void history_add_load(struct history *history, const struct history_load *load)
{
    ADD(history, loads, load);
}

void history_add_fault(struct history *history, const struct fault *fault)
{
    ADD(history, faults, fault);
}

/* Takes out those that reach into this one, which then lasts as long as all of them. */
static void absorb(struct history *history, struct history_stall *stall)
{
    for (; history->stalls.count > 0; history->stalls.count--) {
        const struct history_stall *last = &history->stalls.items[history->stalls.count - 1];
        if (last->end_us < stall->begin_us)
            return;
        stall->begin_us = last->begin_us < stall->begin_us ? last->begin_us : stall->begin_us;
        stall->end_us = last->end_us > stall->end_us ? last->end_us : stall->end_us;
    }
}

void history_add_stall(struct history *history, const struct history_stall *stall)
{
    struct history_stall whole = *stall;
    pthread_mutex_lock(&history->mutex);
    absorb(history, &whole);
    APPEND(history, stalls, &whole);
    pthread_mutex_unlock(&history->mutex);
}

/* ---- as text ---- */

static void write_gets(const struct history *history, FILE *out)
{
    fprintf(out, "# get begin_us end_us key status version body_key process outcome limit_ms kept\n");
    for (size_t i = 0; i < history->gets.count; i++) {
        const struct history_get *get = &history->gets.items[i];
        fprintf(out,
                "get %" PRIu64 " %" PRIu64 " %" PRIu32 " %u %" PRIu64 " %" PRIu32 " %u %d %" PRIu32 " %d\n",
                get->begin_us, get->end_us, get->key, (unsigned)get->status, get->version, get->body_key,
                (unsigned)get->process, (int)get->outcome, get->limit_ms, get->kept);
    }
}

static void write_writes(const struct history *history, FILE *out)
{
    fprintf(out, "# edit, invalidate: begin_us end_us key version known; invalidate: process\n");
    for (size_t i = 0; i < history->edits.count; i++) {
        const struct history_edit *edit = &history->edits.items[i];
        fprintf(out, "edit %" PRIu64 " %" PRIu64 " %" PRIu32 " %" PRIu64 " %d\n", edit->begin_us,
                edit->end_us, edit->key, edit->version, edit->committed);
    }
    for (size_t i = 0; i < history->invalidations.count; i++) {
        const struct history_invalidation *one = &history->invalidations.items[i];
        fprintf(out, "invalidate %" PRIu64 " %" PRIu64 " %" PRIu32 " %" PRIu64 " %d %u\n", one->begin_us,
                one->end_us, one->key, one->version, one->confirmed, (unsigned)one->process);
    }
}

static void write_servers(const struct history *history, FILE *out)
{
    fprintf(out, "# load begin_us end_us key pid; fault begin_us end_us process side name; stall begin_us "
                 "end_us; calm calm_us settle_us\n");
    for (size_t i = 0; i < history->loads.count; i++) {
        const struct history_load *load = &history->loads.items[i];
        fprintf(out, "load %" PRIu64 " %" PRIu64 " %" PRIu32 " %" PRIu32 "\n", load->begin_us, load->end_us,
                load->key, load->pid);
    }
    for (size_t i = 0; i < history->faults.count; i++) {
        const struct fault *fault = &history->faults.items[i];
        fprintf(out, "fault %" PRIu64 " %" PRIu64 " %u %d %s\n", fault->begin_us, fault->end_us,
                (unsigned)fault->process, (int)fault->side, fault_trait(fault->kind)->name);
    }
    for (size_t i = 0; i < history->stalls.count; i++)
        fprintf(out, "stall %" PRIu64 " %" PRIu64 "\n", history->stalls.items[i].begin_us,
                history->stalls.items[i].end_us);
    fprintf(out, "calm %" PRIu64 " %" PRIu64 "\n", history->calm_us, history->settle_us);
}

bool history_write(const struct history *history, const char *path)
{
    FILE *out = fopen(path, "we");
    if (out == NULL)
        return false;
    write_gets(history, out);
    write_writes(history, out);
    write_servers(history, out);
    return fclose(out) == 0;
}

static bool read_get(struct history *history, const char *line)
{
    struct history_get get;
    unsigned status, process;
    int outcome, kept;
    if (sscanf(line,
               "get %" SCNu64 " %" SCNu64 " %" SCNu32 " %u %" SCNu64 " %" SCNu32 " %u %d %" SCNu32 " %d",
               &get.begin_us, &get.end_us, &get.key, &status, &get.version, &get.body_key, &process, &outcome,
               &get.limit_ms, &kept) != 10)
        return false;
    get.kept = kept != 0;
    get.status = (uint16_t)status;
    get.process = (uint8_t)process;
    get.outcome = (enum http_outcome)outcome;
    history_add_get(history, &get);
    return true;
}

static bool read_edit(struct history *history, const char *line)
{
    struct history_edit edit;
    int known;
    if (sscanf(line, "edit %" SCNu64 " %" SCNu64 " %" SCNu32 " %" SCNu64 " %d", &edit.begin_us, &edit.end_us,
               &edit.key, &edit.version, &known) != 5)
        return false;
    edit.committed = known != 0;
    history_add_edit(history, &edit);
    return true;
}

static bool read_invalidation(struct history *history, const char *line)
{
    struct history_invalidation one;
    int known;
    unsigned process;
    if (sscanf(line, "invalidate %" SCNu64 " %" SCNu64 " %" SCNu32 " %" SCNu64 " %d %u", &one.begin_us,
               &one.end_us, &one.key, &one.version, &known, &process) != 6)
        return false;
    one.process = (uint8_t)process;
    one.confirmed = known != 0;
    history_add_invalidation(history, &one);
    return true;
}

static bool read_load(struct history *history, const char *line)
{
    struct history_load load;
    if (sscanf(line, "load %" SCNu64 " %" SCNu64 " %" SCNu32 " %" SCNu32, &load.begin_us, &load.end_us,
               &load.key, &load.pid) != 4)
        return false;
    history_add_load(history, &load);
    return true;
}

static bool read_fault(struct history *history, const char *line)
{
    struct fault fault;
    unsigned process;
    int side;
    char name[64];
    if (sscanf(line, "fault %" SCNu64 " %" SCNu64 " %u %d %63s", &fault.begin_us, &fault.end_us, &process,
               &side, name) != 5 ||
        !fault_find(name, &fault.kind))
        return false;
    fault.process = (uint8_t)process;
    fault.side = (enum fault_party)side;
    history_add_fault(history, &fault);
    return true;
}

static bool read_stall(struct history *history, const char *line)
{
    struct history_stall stall;
    if (sscanf(line, "stall %" SCNu64 " %" SCNu64, &stall.begin_us, &stall.end_us) != 2)
        return false;
    history_add_stall(history, &stall);
    return true;
}

static bool read_calm(struct history *history, const char *line)
{
    return sscanf(line, "calm %" SCNu64 " %" SCNu64, &history->calm_us, &history->settle_us) == 2;
}

static bool read_line(struct history *history, const char *line)
{
    static bool (*const readers[])(struct history *, const char *) = {
        read_get, read_edit, read_invalidation, read_load, read_fault, read_stall, read_calm};
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++) {
        if (readers[i](history, line))
            return true;
    }
    return line[0] == '#';
}

bool history_read(struct history *history, const char *path)
{
    char line[256];
    bool good = true;
    FILE *in = fopen(path, "re");
    if (in == NULL)
        return false;
    while (good && fgets(line, sizeof line, in) != NULL)
        good = read_line(history, line);
    fclose(in);
    if (!good)
        errno = EINVAL;
    return good;
}
