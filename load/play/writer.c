/* SPDX-License-Identifier: MIT */
/* writer.c - see timeline.h. */
#include "load/play/timeline.h"

#include "load/base/clock.h"
#include "load/base/number.h"
#include "load/base/sql.h"
#include "load/base/text.h"
#include "load/base/ticker.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { SQL_LIMIT_MS = 3000, POST_LIMIT_MS = 3000, POST_ONCE_MS = 1000, STEP_MS = 5 };

struct writer {
    const struct servers *servers;
    const struct scenario_write *write;
    struct ticker ticker;

    /* the ticker's until it was joined */
    struct result_write *writes; /* owned */
    size_t count, room, failed;
    uint32_t next_key;
    char why[SCENARIO_WHY_BYTES]; /* of the first that failed */
};

/* In a statement a quote within a key is two: the key stands in quotes there. */
static void put_key(const struct scenario_write *write, bool is_sql, uint32_t key, char *out,
                    size_t out_bytes)
{
    char number[12];
    size_t used = 0;
    const char *text = is_sql ? write->sql : write->then;
    snprintf(number, sizeof number, "%u", (unsigned)key);
    for (; *text != '\0' && used + 1 < out_bytes; text++) {
        bool is_key = strncmp(text, "{key}", 5) == 0;
        const char *word = write->words != NULL ? write->words->at[key] : number;
        if (!is_key)
            out[used++] = *text;
        for (; is_key && *word != '\0' && used + 2 < out_bytes; word++) {
            out[used++] = *word;
            if (is_sql && *word == '\'')
                out[used++] = *word;
        }
        text += is_key ? 4 : 0;
    }
    out[used] = '\0';
}

static bool keep(struct writer *writer, const struct result_write *write)
{
    struct result_write *writes = list_grow(writer->writes, writer->count, &writer->room, sizeof *writes);
    if (writes == NULL)
        return false;
    writer->writes = writes;
    writer->writes[writer->count++] = *write;
    return true;
}

/* A POST may be lost on its way: it is repeated, as every writer must. */
static bool post(struct writer *writer, uint32_t key, char *why)
{
    char url[SCENARIO_TEXT_BYTES + WORK_PATH_BYTES];
    uint64_t end_us = clock_after_ms(POST_LIMIT_MS);
    if (writer->write->then[0] == '\0')
        return true;
    put_key(writer->write, false, key, url, sizeof url);
    while (!servers_post(writer->servers, url, POST_ONCE_MS, why)) {
        if (clock_us() >= end_us)
            return false;
        clock_pause_ms(STEP_MS);
    }
    return true;
}

static void write_once(struct writer *writer)
{
    char statement[SCENARIO_TEXT_BYTES + 2 * WORK_PATH_BYTES], version[32], why[SCENARIO_WHY_BYTES] = "";
    const struct work_words *words = writer->write->words;
    struct result_write done = {.key = writer->next_key, .begun_us = clock_us()};
    done.word = words != NULL ? words->at[done.key] : NULL;
    writer->next_key = done.key == writer->write->last_key ? writer->write->first_key : done.key + 1;
    put_key(writer->write, true, done.key, statement, sizeof statement);
    bool good =
        sql_run(servers_database(writer->servers), statement, SQL_LIMIT_MS, version, sizeof version, why);
    if (good && !number_read(version, 0, UINT32_MAX, &done.version)) {
        snprintf(why, sizeof why, "the statement returned \"%s\", which is not a version", version);
        good = false;
    }
    good = good && post(writer, done.key, why);
    done.over_us = clock_us();
    if (good && keep(writer, &done))
        return;
    if (writer->failed++ == 0)
        memcpy(writer->why, why, sizeof writer->why);
}

static void tick(void *context, bool is_last)
{
    if (!is_last)
        write_once(context);
}

struct writer *writer_begin(const struct servers *servers, const struct scenario_write *write)
{
    struct writer *writer = calloc(1, sizeof *writer);
    if (writer == NULL) {
        fprintf(stderr, "stampede: no memory for a writer\n");
        return NULL;
    }
    writer->servers = servers;
    writer->write = write;
    writer->next_key = write->first_key;
    if (ticker_start(&writer->ticker, write->every_ms, tick, writer))
        return writer;
    fprintf(stderr, "stampede: no thread for a writer: %s\n", strerror(errno));
    free(writer);
    return NULL;
}

void writer_end(struct writer **writer, struct result_write **writes, size_t *write_count, size_t *failed,
                char why[static SCENARIO_WHY_BYTES])
{
    struct writer *ended = *writer;
    ticker_join(&ended->ticker);
    *writes = ended->writes;
    *write_count = ended->count;
    *failed = ended->failed;
    memcpy(why, ended->why, SCENARIO_WHY_BYTES);
    free(ended);
    *writer = NULL;
}
