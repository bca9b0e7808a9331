/* SPDX-License-Identifier: MIT */
/* writes.c - see writes.h. */
#include "tests/support/writes.h"

#include "load/base/clock.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SETTINGS_MAX = 40, STATEMENT_BYTES = 1024, PAUSE_MS = 10, STACK_BYTES = 256 << 10 };

/* ---- logins ---- */

bool writes_up(void)
{
    return fleet_up() && fleet_sql(NULL, 0, "CREATE ROLE shop_reader LOGIN IN ROLE catalog_reader") &&
           fleet_sql(NULL, 0, "CREATE ROLE shop_writer LOGIN IN ROLE catalog_writer");
}

const char *const *writes_settings(const char *const *more)
{
    static const char *all[SETTINGS_MAX + 1];
    static char reader[128], writer[128];
    size_t count = 0;

    snprintf(reader, sizeof reader, "DATABASE_URL=postgresql://shop_reader@127.0.0.1:%u/postgres",
             (unsigned)fleet.postgres.port);
    snprintf(writer, sizeof writer, "WRITE_DATABASE_URL=postgresql://shop_writer@127.0.0.1:%u/postgres",
             (unsigned)fleet.postgres.port);
    all[count++] = reader;
    all[count++] = writer;
    if (!fleet_names(more, "WRITE_LIMIT_MS") && !fleet_names(more, "WRITE_LOCK_MS")) {
        all[count++] = "WRITE_LIMIT_MS=25000";
        all[count++] = "WRITE_LOCK_MS=20000";
    }
    while (more != NULL && *more != NULL && count < SETTINGS_MAX)
        all[count++] = *more++;
    all[count] = NULL;
    return all;
}

/* ---- asking ---- */

/* The number behind "name": in a JSON text; `none` if there is no such name. */
static long member(const char *text, const char *name, long none)
{
    char quoted[40];
    snprintf(quoted, sizeof quoted, "\"%s\":", name);
    const char *at = strstr(text, quoted);
    return at != NULL ? strtol(at + strlen(quoted), NULL, 10) : none;
}

static void take_answer(struct write_asked *asked, const struct http_answer *answer)
{
    static const char type[] = "{\"type\":\"/problems/";
    asked->status = answer->status;
    asked->visible = strstr(answer->body, "\"visible\":true") != NULL;
    asked->version = (unsigned long)member(answer->body, "version", 0);
    asked->stock = member(answer->body, "stock", -1);
    http_header(answer, "Retry-After", asked->retry_after, sizeof asked->retry_after);
    asked->type[0] = '\0';
    if (strncmp(answer->body, type, sizeof type - 1) == 0)
        snprintf(asked->type, sizeof asked->type, "%.*s", (int)strcspn(answer->body + sizeof type - 1, "\""),
                 answer->body + sizeof type - 1);
}

void writes_ask(struct write_asked *asked)
{
    struct http_answer answer;
    char headers[512];
    snprintf(headers, sizeof headers, "Content-Type: application/json\r\n%s",
             asked->headers != NULL ? asked->headers : "");
    http_ask(&(struct http_request){.host = "127.0.0.1",
                                    .port = fleet.catalogd[asked->process].port,
                                    .method = asked->method,
                                    .path = asked->path,
                                    .headers = headers,
                                    .body = asked->body,
                                    .body_bytes = strlen(asked->body),
                                    .deadline_ms = FLEET_LIMIT_MS},
             &answer);
    take_answer(asked, &answer);
    http_answer_clear(&answer);
}

static void *ask_alone(void *asked)
{
    writes_ask(asked);
    return NULL;
}

void writes_start(struct write_asked *asked)
{
    if (pthread_create(&asked->thread, NULL, ask_alone, asked) != 0)
        abort(); /* it would be waited for */
}

void writes_join(struct write_asked *asked)
{
    pthread_join(asked->thread, NULL);
}

struct asker {
    struct write_asked *asked;
    pthread_barrier_t *all_ready;
    pthread_t thread;
};

static void *ask(void *context)
{
    struct asker *asker = context;
    pthread_barrier_wait(asker->all_ready);
    writes_ask(asker->asked);
    return NULL;
}

void writes_at_once(struct write_asked *asked, size_t count)
{
    static struct asker askers[WRITES_AT_ONCE_MAX];
    pthread_barrier_t all_ready;
    pthread_attr_t attributes;
    pthread_barrier_init(&all_ready, NULL, (unsigned)count);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    for (size_t i = 0; i < count; i++) {
        askers[i] = (struct asker){.asked = &asked[i], .all_ready = &all_ready};
        if (pthread_create(&askers[i].thread, &attributes, ask, &askers[i]) != 0) {
            fprintf(stderr, "writes: no thread %zu\n", i);
            abort(); /* the others would wait at the barrier for ever */
        }
    }
    for (size_t i = 0; i < count; i++)
        pthread_join(askers[i].thread, NULL);
    pthread_attr_destroy(&attributes);
    pthread_barrier_destroy(&all_ready);
}

size_t writes_count(const struct write_asked *asked, size_t count, unsigned status)
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        found += asked[i].status == status;
    return found;
}

void writes_condition(uint32_t id, unsigned long version, char out[static WRITES_CONDITION_BYTES])
{
    char validator[WRITES_CONDITION_BYTES - 16] = "";
    fleet_sql(validator, sizeof validator,
              "SELECT product_validator_now(%lu, stamp, category_id) FROM products WHERE id = %u", version,
              (unsigned)id);
    snprintf(out, WRITES_CONDITION_BYTES, "If-Match: \"%s\"\r\n", validator);
}

unsigned writes_put(size_t process, uint32_t id, unsigned long version, long stock)
{
    char path[64], headers[WRITES_CONDITION_BYTES], body[160];
    snprintf(path, sizeof path, "/products/%u", (unsigned)id);
    writes_condition(id, version, headers);
    snprintf(body, sizeof body, "{\"name\":\"n\",\"description\":\"d\",\"price_cents\":1,\"stock\":%ld}",
             stock);
    struct write_asked asked = {
        .process = process, .method = "PUT", .path = path, .headers = headers, .body = body};
    writes_ask(&asked);
    return asked.status;
}

unsigned long writes_version(size_t process, uint32_t id)
{
    struct http_answer answer;
    char path[64], etag[64];
    snprintf(path, sizeof path, "/products/%u", (unsigned)id);
    fleet_ask(process, NULL, path, &answer);
    http_header(&answer, "ETag", etag, sizeof etag);
    unsigned long version = answer.status == 200 && etag[0] == '"' ? strtoul(etag + 1, NULL, 10) : 0;
    http_answer_clear(&answer);
    return version;
}

bool writes_wait_version(size_t process, uint32_t id, unsigned long version)
{
    uint64_t end_us = clock_after_ms(FLEET_LIMIT_MS);
    while (writes_version(process, id) < version) {
        if (clock_us() >= end_us)
            return false;
        clock_pause_ms(PAUSE_MS);
    }
    return true;
}

long writes_number(const char *format, ...)
{
    char statement[STATEMENT_BYTES], value[32] = "";
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(statement, sizeof statement, format, arguments);
    va_end(arguments);
    return fleet_sql(value, sizeof value, "%s", statement) ? strtol(value, NULL, 10) : -1;
}

bool writes_wait_number(long wanted, const char *statement)
{
    uint64_t end_us = clock_after_ms(FLEET_LIMIT_MS);
    long number;
    while ((number = writes_number("%s", statement)) != wanted) {
        if (clock_us() >= end_us) {
            fprintf(stderr, "writes: never %ld but %ld, with %ld caches: %s\n", wanted, number,
                    writes_number("SELECT count(*) FROM caches"), statement);
            return false;
        }
        clock_pause_ms(PAUSE_MS);
    }
    return true;
}
