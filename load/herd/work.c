/* SPDX-License-Identifier: MIT */
/* work.c - see work.h; texts are read in work_parse.c. */
#include "load/herd/work.h"

#include "load/base/number.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { LEAST_REQUESTS = 1 };

void work_init(struct work *work)
{
    *work = (struct work){
        .shape = WORK_BURST,
        .connection_count = 1000,
        .round_count = 1,
        .method = "GET",
        .headers = "",
        .keeps_alive = true,
        .connect_limit_ms = 10000,
        .request_limit_ms = 30000,
        .seed = 1,
        .version_after = "",
    };
}

/* The rate is what it comes to: limits of ports are looked at by it. */
void work_follow(struct work *work, const struct work_script *script)
{
    uint64_t span_us = script->lines[script->line_count - 1].at_us;
    uint64_t span_ms = span_us / 1000 + 1, rate = script->line_count * 1000 / span_ms;
    work->shape = WORK_RATE;
    work->is_poisson = false;
    work->duration_ms = span_ms < UINT32_MAX ? (uint32_t)span_ms : UINT32_MAX;
    work->per_second = (uint32_t)(rate < 1 ? 1 : rate < 1000000 ? rate : 1000000);
    work->url_count = 1;
    work->urls[0] =
        (struct work_url){.path = "/", .keys = WORK_SCRIPT, .weight = 1, .target = -1, .script = script};
}

const struct work_script *work_script(const struct work *work)
{
    return work->url_count == 1 ? work->urls[0].script : NULL;
}

uint64_t work_request_count(const struct work *work)
{
    if (work_script(work) != NULL)
        return work_script(work)->line_count;
    if (work->shape == WORK_BURST)
        return (uint64_t)work->connection_count * work->round_count;
    uint64_t count = (uint64_t)work->per_second * work->duration_ms / 1000;
    return count > 0 ? count : LEAST_REQUESTS;
}

bool work_names_host(const struct work *work)
{
    for (const char *line = work->headers; line != NULL && *line != '\0'; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncasecmp(line, "Host:", 5) == 0)
            return true;
    }
    return false;
}

double work_target_share(const struct work *work, size_t target)
{
    double sum = 0, share = 0;
    for (size_t i = 0; i < work->url_count; i++) {
        const struct work_url *url = &work->urls[i];
        sum += url->weight;
        if (url->target == -1)
            share += (double)url->weight / (double)work->target_count;
        else if ((size_t)url->target == target)
            share += url->weight;
    }
    return sum > 0 ? share / sum : 0;
}

uint64_t work_part(uint64_t whole, uint32_t index, uint32_t count)
{
    return whole / count + (index < whole % count);
}

/* ---- checking ---- */

bool work_wrong(char *why, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, WORK_WHY_BYTES, format, arguments);
    va_end(arguments);
    return false;
}

static bool in_range(const char *what, uint64_t value, uint64_t least, uint64_t most, char *why)
{
    if (value >= least && value <= most)
        return true;
    return work_wrong(why, "%s: %llu is not from %llu to %llu", what, (unsigned long long)value,
                      (unsigned long long)least, (unsigned long long)most);
}

static bool check_lists(const struct work *work, char *why)
{
    if (work->target_count == 0)
        return work_wrong(why, "no target: name one, such as 127.0.0.1:8080");
    if (work->url_count == 0)
        return work_wrong(why, "no URL: name a path, such as /products/7");
    if (work->target_count > WORK_TARGETS_MAX || work->url_count > WORK_URLS_MAX)
        return work_wrong(why, "at most %d targets and %d URLs", WORK_TARGETS_MAX, WORK_URLS_MAX);
    for (size_t i = 0; i < work->url_count; i++) {
        if (work->urls[i].target < -1 || work->urls[i].target >= (int)work->target_count)
            return work_wrong(why, "URL %s belongs to a target that does not exist", work->urls[i].path);
        if (work->urls[i].weight == 0)
            return work_wrong(why, "URL %s has the weight 0: leave it out", work->urls[i].path);
    }
    return true;
}

static bool check_shape(const struct work *work, char *why)
{
    if (!in_range("connections", work->connection_count, 1, WORK_CONNECTIONS_MAX, why))
        return false;
    if (work->shape == WORK_BURST)
        return in_range("rounds", work->round_count, 1, WORK_REQUESTS_MAX, why) &&
               in_range("pause between rounds, in ms", work->pause_ms, 0, WORK_LIMIT_MS_MAX, why) &&
               in_range("time from round to round, in ms", work->every_ms, 0, WORK_LIMIT_MS_MAX, why);
    return in_range("requests per second", work->per_second, 1, 1000000, why) &&
           in_range("duration in ms", work->duration_ms, 1, 7 * 24 * 3600 * 1000U, why);
}

static bool check_numbers(const struct work *work, char *why)
{
    return in_range("limit for connecting, in ms", work->connect_limit_ms, 1, WORK_LIMIT_MS_MAX, why) &&
           in_range("limit for a request, in ms", work->request_limit_ms, 1, WORK_LIMIT_MS_MAX, why) &&
           in_range("percent of clients that leave", work->leave_percent, 0, 100, why) &&
           in_range("time after which clients leave, in ms", work->leave_ms, 0, WORK_LIMIT_MS_MAX, why) &&
           in_range("generators", work->generator_count, 0, WORK_GENERATORS_MAX, why) &&
           in_range("source addresses", work->source_count, 0, WORK_SOURCES_MAX, why) &&
           in_range("requests in all", work_request_count(work), 1, WORK_REQUESTS_MAX, why);
}

static bool check_method(const struct work *work, char *why)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-";
    size_t count = work->method != NULL ? strlen(work->method) : 0;
    if (count == 0 || count >= WORK_METHOD_BYTES || strspn(work->method, letters) != count)
        return work_wrong(why, "method \"%.40s\" is not one, such as GET or HEAD",
                          count > 0 ? work->method : "");
    return true;
}

/* Headers that the generator decides, for they change what a message is. */
static const char *const reserved[] = {"Connection:", "Content-Length:", "Transfer-Encoding:", "Upgrade:"};

static bool check_header(const char *line, size_t count, char *why)
{
    size_t name_bytes = strcspn(line, ": \t\r\n");
    if (name_bytes == 0 || line[name_bytes] != ':' || memchr(line, '\n', count) != NULL)
        return work_wrong(why, "header \"%.*s\" is not \"Name: value\"", count < 80 ? (int)count : 80, line);
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++) {
        if (strncasecmp(line, reserved[i], strlen(reserved[i])) == 0)
            return work_wrong(why,
                              "header \"%s\" cannot be given: requests have no body, and whether connections "
                              "are kept is a setting of its own",
                              reserved[i]);
    }
    return true;
}

static bool check_headers(const char *headers, char *why)
{
    if (headers == NULL || strlen(headers) > WORK_HEADERS_BYTES)
        return work_wrong(why, "headers: at most %d bytes", WORK_HEADERS_BYTES);
    while (*headers != '\0') {
        const char *end = strstr(headers, "\r\n");
        if (end == NULL)
            return work_wrong(why, "header \"%.80s\" does not end with CR LF", headers);
        if (!check_header(headers, (size_t)(end - headers), why))
            return false;
        headers = end + 2;
    }
    return true;
}

bool work_check(const struct work *work, char why[static WORK_WHY_BYTES])
{
    if (!check_lists(work, why) || !check_shape(work, why) || !check_numbers(work, why) ||
        !check_method(work, why) || !check_headers(work->headers, why))
        return false;
    if (work->version_after == NULL || strlen(work->version_after) > WORK_VERSION_AFTER_BYTES)
        return work_wrong(why, "the text before a version: at most %d bytes", WORK_VERSION_AFTER_BYTES);
    if (work->generator_count > work->connection_count)
        return work_wrong(why, "%u generators for %u connections: each needs at least one",
                          work->generator_count, work->connection_count);
    return true;
}

/* ---- which request is next, the same for the same seed ---- */

void work_chooser_init(struct work_chooser *chooser, const struct work *work, uint32_t generator,
                       uint32_t generator_count)
{
    *chooser = (struct work_chooser){
        .work = work,
        .random = work->seed ^ ((uint64_t)generator << 32),
        .index = generator,
        .count = generator_count,
        .turn = generator,
    };
    chooser->random = dice_next(&chooser->random); /* seeds that are close must not give similar sequences */
    for (size_t i = 0; i < work->url_count; i++) {
        const struct work_url *url = &work->urls[i];
        chooser->weight_sum += url->weight;
        if (url->keys == WORK_ZIPF)
            dice_zipf_init(&chooser->zipf[i], url->last - url->first + 1, url->exponent);
    }
}

static uint16_t choose_url(struct work_chooser *chooser)
{
    uint16_t url = 0;
    if (chooser->work->url_count == 1)
        return 0;
    uint64_t place = dice_below(&chooser->random, chooser->weight_sum);
    while (place >= chooser->work->urls[url].weight)
        place -= chooser->work->urls[url++].weight;
    return url;
}

static uint32_t choose_key(struct work_chooser *chooser, uint16_t index)
{
    const struct work_url *url = &chooser->work->urls[index];
    uint64_t count = (uint64_t)url->last - url->first + 1;
    switch (url->keys) {
    case WORK_NO_KEY:
        return 0;
    case WORK_SCRIPT:
        return url->script->lines[chooser->index + chooser->each_turn[index]++ * chooser->count].request;
    case WORK_ZIPF:
        return url->first - 1 + dice_zipf_draw(&chooser->zipf[index], &chooser->random);
    case WORK_EACH:
        return (uint32_t)(url->first +
                          (chooser->index + chooser->each_turn[index]++ * chooser->count) % count);
    case WORK_UNIFORM:
    case WORK_RANDOM:
        break;
    }
    return (uint32_t)(url->first + dice_below(&chooser->random, count));
}

struct work_choice work_choose(struct work_chooser *chooser)
{
    struct work_choice choice = {.url = choose_url(chooser)};
    const struct work_url *url = &chooser->work->urls[choice.url];
    choice.key = choose_key(chooser, choice.url);
    choice.target =
        (uint8_t)(url->target != -1 ? (uint64_t)url->target : chooser->turn++ % chooser->work->target_count);
    return choice;
}

/* Of the words that these bytes consist of. */
static bool last_number(const char *text, size_t bytes, uint32_t *number)
{
    bool is_found = false;
    for (size_t at = 0, length; at < bytes; at += length + 1) {
        const char *word = text + at;
        uint64_t value;
        length = strcspn(word, "/=&?.;");
        if (!number_scan(&word, UINT32_MAX, &value) || word != text + at + length)
            continue;
        *number = (uint32_t)value;
        is_found = true;
    }
    return is_found;
}

bool work_row(const struct work_url *url, uint32_t key, uint32_t *row)
{
    *row = key;
    if (url->keys != WORK_NO_KEY && url->keys != WORK_SCRIPT)
        return true;
    const char *path = url->keys == WORK_SCRIPT ? url->script->requests[key].path : url->path;
    size_t bytes = strcspn(path, "?");
    return last_number(path, bytes, row) || last_number(path + bytes, strlen(path + bytes), row);
}

size_t work_path(const struct work_url *url, uint32_t key, char path[static WORK_PATH_BYTES])
{
    enum { NUMBER_BYTES = 11 };
    const char *text = url->keys == WORK_SCRIPT ? url->script->requests[key].path : url->path;
    char *end = mempcpy(path, text, url->key_at);
    if (url->words != NULL)
        end = stpcpy(end, url->words->at[key]);
    else if (url->keys != WORK_NO_KEY && url->keys != WORK_SCRIPT)
        end += snprintf(end, NUMBER_BYTES, "%" PRIu32, key);
    /* A number is no longer than its {...} and the room a path must leave. */
    return (size_t)(stpcpy(end, text + url->key_at + url->key_bytes) - path);
}
