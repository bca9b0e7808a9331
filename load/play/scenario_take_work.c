/* SPDX-License-Identifier: MIT */
/* scenario_take_work.c - the directives about the clients: what they ask, how many, how; see scenario_taking.h. */
#include "load/play/scenario_taking.h"

#include <stdio.h>
#include <string.h>

static bool add_url(struct taking *taking, struct work *work)
{
    char url[SCENARIO_TEXT_BYTES];
    if (words_peek(taking->words) == NULL)
        return false;
    if (!words_rest(taking->words, url, sizeof url))
        return taking_refuse(taking, "too long", NULL);
    return work_url_add(work, url, taking->why);
}

bool take_warm(struct taking *taking)
{
    struct work *warm = &taking->scenario->warm;
    if (!add_url(taking, warm))
        return false;
    enum work_keys keys = warm->urls[warm->url_count - 1].keys;
    return keys == WORK_NO_KEY || keys == WORK_EACH ||
           taking_refuse(taking, "to warm up, each key is asked for once: {each:1-2000}", NULL);
}

bool take_ask(struct taking *taking)
{
    return add_url(taking, &taking->scenario->work);
}

/* "burst 1000 [connections] [3 rounds [every 2s] [pause 1s]]" */
bool take_burst(struct taking *taking)
{
    struct work *work = &taking->scenario->work;
    taking->scenario->has_shape = true;
    work->shape = WORK_BURST;
    if (!taking_number(taking, 1, WORK_CONNECTIONS_MAX, &work->connection_count))
        return false;
    words_skip(taking->words, "connections");
    if (words_peek(taking->words) == NULL)
        return true;
    if (!taking_number(taking, 1, 100000, &work->round_count) || !words_skip(taking->words, "rounds"))
        return false;
    if (words_skip(taking->words, "every") && !taking_time(taking, &work->every_ms))
        return false;
    return !words_skip(taking->words, "pause") || taking_time(taking, &work->pause_ms);
}

/* "rate 2000 [per second] for 10s [poisson] [over 200 [connections]]" */
bool take_rate(struct taking *taking)
{
    struct work *work = &taking->scenario->work;
    taking->scenario->has_shape = true;
    work->shape = WORK_RATE;
    if (!taking_number(taking, 1, 10000000, &work->per_second))
        return false;
    if (words_skip(taking->words, "per") && !words_skip(taking->words, "second"))
        return false;
    if (!words_skip(taking->words, "for") || !taking_time(taking, &work->duration_ms))
        return false;
    work->is_poisson = words_skip(taking->words, "poisson");
    if (!words_skip(taking->words, "over"))
        return true;
    if (!taking_number(taking, 1, WORK_CONNECTIONS_MAX, &work->connection_count))
        return false;
    words_skip(taking->words, "connections");
    return true;
}

bool take_leave(struct taking *taking)
{
    struct work *work = &taking->scenario->work;
    return taking_percent(taking, &work->leave_percent) && words_skip(taking->words, "after") &&
           taking_time(taking, &work->leave_ms);
}

bool take_limit(struct taking *taking)
{
    return taking_time(taking, &taking->scenario->work.request_limit_ms);
}

bool take_connections(struct taking *taking)
{
    bool closes = words_skip(taking->words, "close");
    taking->scenario->work.keeps_alive = !closes;
    return closes || words_skip(taking->words, "keep");
}

bool take_method(struct taking *taking)
{
    char *method = taking->scenario->method;
    if (!taking_text(taking, method, sizeof taking->scenario->method))
        return false;
    return strspn(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == strlen(method) ||
           taking_refuse(taking, "a method is of capital letters, not", method);
}

bool take_header(struct taking *taking)
{
    char line[SCENARIO_TEXT_BYTES];
    struct scenario *scenario = taking->scenario;
    size_t used = strlen(scenario->headers), room = sizeof scenario->headers - used;
    if (!taking_text(taking, line, sizeof line))
        return false;
    const char *colon = strchr(line, ':');
    if (colon == NULL || colon == line || strpbrk(line, "\r\n") != NULL)
        return taking_refuse(taking, "a header is \"Name: value\", not", line);
    if ((size_t)snprintf(scenario->headers + used, room, "%s\r\n", line) < room)
        return true;
    scenario->headers[used] = '\0';
    return taking_refuse(taking, "too many headers", NULL);
}

bool take_version(struct taking *taking)
{
    return taking_text(taking, taking->scenario->version_after, sizeof taking->scenario->version_after);
}

bool take_generators(struct taking *taking)
{
    return taking_number(taking, 1, WORK_GENERATORS_MAX, &taking->scenario->work.generator_count);
}

bool take_sources(struct taking *taking)
{
    return taking_number(taking, 1, 250, &taking->scenario->work.source_count);
}

bool take_seed(struct taking *taking)
{
    uint32_t seed;
    if (!taking_number(taking, 0, UINT32_MAX, &seed))
        return false;
    taking->scenario->work.seed = seed;
    return true;
}
