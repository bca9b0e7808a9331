/* SPDX-License-Identifier: MIT */
/*
 * loads.c - see loads.h.
 *
 *     4711 1763662000.123 LOG:  execute p1: ... load product ...
 *     4711 1763662000.123 DETAIL:  parameters: $1 = '7', $2 = '20'
 *     4711 1763662000.145 LOG:  duration: 21.873 ms
 *
 * A statement for several products ($1 = '{7,8}') is a load of each.
 */
#include "tests/chaos/loads.h"

#include "load/witness/witness_log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPEN_MAX = 1024 };

struct reader {
    struct history *history;
    uint64_t epoch_us;
    struct history_load
        open[OPEN_MAX]; /* those that run; of a backend as many as its statement has products */
    size_t open_count;
};

static struct history_load *find_open(struct reader *reader, uint32_t pid)
{
    for (size_t i = 0; i < reader->open_count; i++) {
        if (reader->open[i].pid == pid)
            return &reader->open[i];
    }
    return NULL;
}

static void close_load(struct reader *reader, struct history_load *load, uint64_t at_us)
{
    load->end_us = at_us;
    history_add_load(reader->history, load);
    *load = reader->open[--reader->open_count];
}

static void close_statement(struct reader *reader, uint32_t pid, uint64_t at_us)
{
    struct history_load *load = NULL;
    while ((load = find_open(reader, pid)) != NULL)
        close_load(reader, load, at_us);
}

static void open_load(struct reader *reader, struct history_load load)
{
    if (reader->open_count < OPEN_MAX)
        reader->open[reader->open_count++] = load;
}

/* The first of them is open already. */
static void name_products(struct reader *reader, struct history_load *first, const char *ids)
{
    char *end = NULL;
    first->key = (uint32_t)strtoul(ids + (*ids == '{'), &end, 10);
    while (*end == ',') {
        struct history_load other = *first;
        other.key = (uint32_t)strtoul(end + 1, &end, 10);
        open_load(reader, other);
    }
}

static void close_all(struct reader *reader, uint64_t at_us)
{
    while (reader->open_count > 0)
        close_load(reader, &reader->open[0], at_us);
}

/* NULL: no parameters that begin with a product's id, or with those of several. */
static const char *find_id(const char *text)
{
    static const char detail[] = "DETAIL:  ", first[] = "$1 = '";
    if (strncmp(text, detail, sizeof detail - 1) != 0)
        return NULL;
    text += sizeof detail - 1;
    const char *parameters = witness_line_parameters(text, strlen(text));
    bool is_first = parameters != NULL && strncmp(parameters, first, sizeof first - 1) == 0;
    return is_first ? parameters + sizeof first - 1 : NULL;
}

static void note(struct reader *reader, uint32_t pid, uint64_t at_us, const char *text)
{
    struct history_load *load = find_open(reader, pid);
    const char *id = find_id(text);
    if (strstr(text, "/* load product") != NULL && strncmp(text, "LOG:", 4) == 0) {
        close_statement(reader, pid, at_us);
        open_load(reader, (struct history_load){.begin_us = at_us, .pid = pid});
    } else if (strncmp(text, "LOG:  starting PostgreSQL", 25) == 0) {
        close_all(reader, at_us);
    } else if (load != NULL && id != NULL) {
        name_products(reader, load, id);
    } else if (load != NULL && (strncmp(text, "LOG:  duration:", 15) == 0 ||
                                strncmp(text, "ERROR:", 6) == 0 || strncmp(text, "FATAL:", 6) == 0)) {
        close_statement(reader, pid, at_us);
    }
}

static void read_line(struct reader *reader, const char *line)
{
    unsigned pid, ms;
    uint64_t s;
    int used = 0;
    if (sscanf(line, "%u %" SCNu64 ".%3u %n", &pid, &s, &ms, &used) == 3 && used > 0)
        note(reader, pid, s * 1000000 + (uint64_t)ms * 1000 - reader->epoch_us, line + used);
}

bool loads_read(struct history *history, const char *log_path, uint64_t mark, uint64_t epoch_us,
                uint64_t now_us)
{
    struct reader reader = {.history = history, .epoch_us = epoch_us};
    char *line = NULL;
    size_t line_bytes = 0;
    FILE *log = fopen(log_path, "re");
    if (log == NULL)
        return false;
    if (fseek(log, (long)mark, SEEK_SET) == 0) {
        while (getline(&line, &line_bytes, log) != -1)
            read_line(&reader, line);
    }
    free(line);
    fclose(log);
    close_all(&reader, now_us);
    return true;
}
